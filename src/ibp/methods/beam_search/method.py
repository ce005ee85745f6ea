"""Beam search for the most probable Z (Rai and Daumé 2011), the factors integrated out.

A pass places the rows one by one, see `ibp.methods.beam_search.beam`, and maximises

    ln P([Z]) + ln p(X | Z),

[Z] being the left-ordered class, with the hyperparameters at their values. With learned
hyperparameters their log prior density is added; after each pass they are updated given Z, with the
factors' posterior q(A),

    E[tau_X] from Gamma(a + N D / 2, b + E||X - ZA||^2 / 2),
    E[tau_A] from Gamma(a + K+ D / 2, b + E||A||^2 / 2),
    E[alpha] from Gamma(a + K+, b + H_N),

and passes follow until one does not raise the sum any more. The best Z that was met is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.methods.base import SweepRecord, relative_change
from ibp.methods.beam_search.beam import BeamPass, Limits, Scoring
from ibp.methods.context import Context, never
from ibp.methods.state import State
from ibp.model import FactorPosterior, Hyperparameters, Statistics, factor_posterior
from ibp.model.ibp_prior import LEFT_ORDERED
from ibp.parallel import ranges
from ibp.starts.codes_and_factors import CodesAndFactors

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.uint8]
Order = Literal["given", "marginal", "random"]

# With learned hyperparameters, passes end with one that raises the score by less than this part.
PASS_GAIN = 1e-4
# An unbounded search needs a score that is known to be reached: that of a beam of this width.
TRIAL_WIDTH = 10
# Given Z, the posterior of A and the hyperparameters are updated in turn.
MOST_UPDATES = 20
SETTLED = 1e-4


@dataclass(frozen=True)
class BeamFit:
    """A complete Z with all that follows from it."""

    assignments: CodeArray  # Z, rows as in X; no column is empty
    hyperparameters: Hyperparameters  # what it was evaluated with
    statistics: Statistics  # of Z; if there is an intercept, of Z with a first column of ones
    posterior: FactorPosterior  # of the factors, the intercept (about the centre) first
    score: float  # ln P([Z]) + ln p(X | Z), plus the log prior of learned hyperparameters

    @property
    def n_fixed(self) -> int:
        """1 with an intercept, else 0."""
        return self.statistics.n_components - int(self.assignments.shape[1])

    @property
    def factor_mean(self) -> FloatArray:
        """E[A | X, Z], K x D in layout order."""
        return self.posterior.mean[self.n_fixed :]

    @property
    def intercept_mean(self) -> FloatArray:
        """The intercept that is expected, about the centre, in layout order; zeros without one."""
        if self.n_fixed == 0:
            return np.zeros(self.posterior.mean.shape[1])
        return np.asarray(self.posterior.mean[0])

    def factor_std(self, observations: Observations) -> FloatArray:
        """Standard deviations of A given X and Z, K x D in layout order."""
        return np.asarray(np.sqrt(self.posterior.variance(observations)[self.n_fixed :]))


@dataclass
class BeamSearchState(State):
    """The best Z so far, and what follows from it."""

    fit: BeamFit

    @property
    def assignments(self) -> CodeArray:
        """Z, rows as in X."""
        return self.fit.assignments

    @property
    def n_components(self) -> int:
        """Features in use."""
        return int(self.fit.assignments.shape[1])


@dataclass(frozen=True)
class BeamSearchMethod:
    """The method with its settings. A step is a pass over all rows."""

    hyperparameters: Hyperparameters  # known values, or posteriors whose means the first pass uses
    intercept_std: float | None = None  # spread of the intercept's prior; None for no intercept
    # Hypotheses that are kept after each row. None keeps all that can still be the best, which
    # finds the most probable Z but is for tiny problems.
    beam_width: int | None = 10
    n_components: int | None = None  # most features; None for no limit
    # Up to 2 to this power sets of features are enumerated for a row and hypothesis. Beyond that
    # they are searched: climbs by flips of one and two features from none and from all, and the
    # sets one and two flips from where they end. Not heeded by unbounded beams and naive scores.
    max_subset_enumeration: int = 10
    # The order in which rows are placed: as given, random in each pass, or by increasing marginal
    # likelihood without features.
    order: Order = "marginal"
    # How children are scored: from what their parent knows, in O(K G) each for G column groups
    # (columns with one pattern of missing rows), or as in the paper from scratch, in O(N^3).
    scoring: Scoring = "incremental"
    start: CodesAndFactors | None = None  # Z to be beaten; else it is that of no features

    # The best Z is kept, but only the method knows when to give up.
    climbs: ClassVar[bool] = False

    def init(self, context: Context) -> BeamSearchState:
        """Begin with the Z to be beaten."""
        evaluator = Evaluator(context, self.intercept_std)
        known = np.zeros((context.observations.n_samples, 0), dtype=np.uint8)
        if self.start is not None:
            known = self._known_assignments(self.start)
        # Without features, all would be noise, and the first pass would find nothing else.
        begin = evaluator.update if known.shape[1] else evaluator.evaluate
        return BeamSearchState(begin(known, self.hyperparameters))

    def _known_assignments(self, start: CodesAndFactors) -> CodeArray:
        assignments = start.assignments
        assignments = assignments[:, assignments.any(axis=0)]
        if self.n_components is not None and assignments.shape[1] > self.n_components:
            raise ValueError(
                f"the start has {assignments.shape[1]} features; "
                f"n_components allows {self.n_components}"
            )
        return assignments

    def step(self, context: Context, state: BeamSearchState) -> SweepRecord:
        """One pass over the rows, then the hyperparameters if they are learned.

        Told to stop, it gives the rows that are left what suits them of the features found so far.
        """
        before = state.fit
        found = self.search(context, state, self.row_order(context, state))
        if found is not None:
            evaluator = Evaluator(context, self.intercept_std)
            fit = evaluator.update(found, before.hyperparameters, context.should_stop)
            if fit.score > before.score:
                state.fit = fit
        return self.report(
            context,
            state,
            n_changed=n_differences(before.assignments, state.assignments),
            finished=self._finished(context.observations, state, before.score),
        )

    def _finished(
        self, observations: Observations, state: BeamSearchState, score_before: float
    ) -> bool:
        if not self.hyperparameters.learned:
            return True
        unit = observations.n_observed * observations.log_unit
        return relative_change(state.fit.score + unit, score_before + unit) < PASS_GAIN

    def report(
        self, context: Context, state: BeamSearchState, n_changed: int = 0, finished: bool = False
    ) -> SweepRecord:
        """Evaluate a state."""
        evaluator = Evaluator(context, self.intercept_std)
        return SweepRecord(
            evidence=state.fit.score,
            n_components=state.n_components,
            n_changed=n_changed,
            train_log_likelihood=evaluator.train_log_likelihood(state.fit),
            finished=finished,
        )

    def search(self, context: Context, state: BeamSearchState, order: IntArray) -> CodeArray | None:
        """The best Z that a pass finds; None if none beats the one known already."""
        if self.beam_width is not None:
            return self._pass(context, state, order, self.beam_width, -np.inf)
        trial = self._pass(context, state, order, TRIAL_WIDTH, -np.inf)
        assert trial is not None
        evaluator = Evaluator(context, self.intercept_std)
        fit = evaluator.evaluate(trial, state.fit.hyperparameters)
        known = max(fit.score, state.fit.score) - log_hyperprior(state.fit.hyperparameters)
        best = self._pass(context, state, order, None, known)
        if best is None or evaluator.evaluate(best, state.fit.hyperparameters).score < fit.score:
            return trial
        return best

    def _pass(
        self,
        context: Context,
        state: BeamSearchState,
        order: IntArray,
        beam_width: int | None,
        known_score: float,
    ) -> CodeArray | None:
        """One search; None if it ends without a hypothesis."""
        search = BeamPass(
            context.observations,
            order,
            state.fit.hyperparameters.values(),
            self.intercept_std,
            Limits(beam_width, self.n_components, self.max_subset_enumeration, self.scoring),
            known_score,
        )
        while not (search.done or context.should_stop()):
            search.place_next()
        return search.completed() if search.n_hypotheses else None

    def row_order(self, context: Context, state: BeamSearchState) -> IntArray:
        """In what order the rows are placed."""
        observations = context.observations
        if self.order == "given":
            return np.arange(observations.n_samples)
        if self.order == "random":
            return context.rng.permutation(observations.n_samples)
        variance = 1.0 / state.fit.hyperparameters.noise_precision.mean
        variance += 0.0 if self.intercept_std is None else self.intercept_std**2
        return np.argsort(empty_log_likelihoods(observations, variance), kind="stable")


@dataclass(frozen=True)
class Evaluator:
    """Works out all that follows from a complete Z."""

    context: Context
    intercept_std: float | None

    @property
    def observations(self) -> Observations:
        """X."""
        return self.context.observations

    @property
    def n_fixed(self) -> int:
        """1 with an intercept, else 0."""
        return 0 if self.intercept_std is None else 1

    def evaluate(
        self,
        assignments: CodeArray,
        hyperparameters: Hyperparameters,
        statistics: Statistics | None = None,
    ) -> BeamFit:
        """The factors' posterior and the score of Z."""
        n_samples, k = assignments.shape
        if statistics is None:
            ones = np.ones((n_samples, self.n_fixed), dtype=np.uint8)
            codes = np.hstack([ones, assignments])
            statistics = Statistics.from_codes(self.observations, codes, self.context.executor)
        values = hyperparameters.values()
        precision = np.full(self.n_fixed + k, values.factor_precision)
        if self.intercept_std is not None:
            precision[0] = self.intercept_std**-2.0
        posterior = factor_posterior(
            self.observations, statistics, values.noise_precision, precision
        )
        log_prior = LEFT_ORDERED.log_probability(assignments, values.alpha)
        score = posterior.log_likelihood + log_prior
        score += log_hyperprior(hyperparameters)
        return BeamFit(assignments, hyperparameters, statistics, posterior, score)

    def update(
        self,
        assignments: CodeArray,
        hyperparameters: Hyperparameters,
        should_stop: Callable[[], bool] = never,
    ) -> BeamFit:
        """Evaluate Z with learned hyperparameters as they follow from it."""
        fit = self.evaluate(assignments, hyperparameters)
        if not hyperparameters.learned:
            return fit
        for _ in range(MOST_UPDATES):
            updated = self.updated_hyperparameters(fit)
            change = max(
                relative_change(
                    getattr(updated, name).mean, getattr(fit.hyperparameters, name).mean
                )
                for name in ("noise_precision", "factor_precision", "alpha")
            )
            fit = self.evaluate(assignments, updated, fit.statistics)
            if change < SETTLED or should_stop():
                break
        return fit

    def updated_hyperparameters(self, fit: BeamFit) -> Hyperparameters:
        """The conjugate updates given Z and the posterior of the factors."""
        factors = fit.posterior.mean[self.n_fixed :]
        variance = fit.posterior.variance(self.observations)[self.n_fixed :]
        return fit.hyperparameters.updated(
            self.observations,
            fit.assignments.shape[1],
            self.squared_error(fit) + self.uncertainty(fit),
            float((factors**2).sum() + variance.sum()),
        )

    def squared_error(self, fit: BeamFit) -> float:
        """||X - ZE[A]||^2 over the observed entries."""
        mean = fit.posterior.mean
        explained = (
            fit.statistics.gram_times(self.observations.layout, mean) - 2.0 * fit.statistics.cross
        )
        return max(self.observations.sum_of_squares + float((mean * explained).sum()), 0.0)

    def uncertainty(self, fit: BeamFit) -> float:
        """E||Z(A - E[A])||^2 over the observed entries."""
        spread = np.einsum("gij,gij->g", fit.statistics.gram, fit.posterior.covariance)
        return float(np.diff(self.observations.layout.group_start) @ spread)

    def train_log_likelihood(self, fit: BeamFit) -> float:
        """Mean over observed entries of ln N(x; z E[A], noise_std^2)."""
        tau = fit.hyperparameters.noise_precision.mean
        error = self.squared_error(fit) / max(self.observations.n_observed, 1)
        return 0.5 * float(np.log(tau / (2.0 * np.pi))) - 0.5 * tau * error


def log_hyperprior(hyperparameters: Hyperparameters) -> float:
    """Ln of the prior density of learned hyperparameters at their values."""
    return hyperparameters.log_prior(hyperparameters.values())


def empty_log_likelihoods(observations: Observations, variance: float) -> FloatArray:
    """Ln N(x_n; 0, variance I) about the centre, over the observed entries of each row."""
    total = np.empty(observations.n_samples)
    centre = observations.layout.restore(observations.centre)
    for rows in ranges(observations.n_samples, observations.piece_rows):
        squares = (observations.source.rows(rows).astype(np.float64) - centre) ** 2
        n_observed = np.count_nonzero(~np.isnan(squares), axis=1)
        total[rows] = n_observed * np.log(2.0 * np.pi * variance)
        total[rows] += np.nansum(squares, axis=1) / variance
    return -0.5 * total


def n_differences(before: CodeArray, after: CodeArray) -> int:
    """Entries in which two matrices differ, columns that one does not have being empty."""
    k = max(before.shape[1], after.shape[1])
    wide = [np.pad(z, ((0, 0), (0, k - z.shape[1]))) for z in (before, after)]
    return int(np.count_nonzero(wide[0] != wide[1]))
