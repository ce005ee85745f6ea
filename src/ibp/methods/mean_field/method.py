"""Mean-field variational inference for binary features with Gaussian factors.

    q = prod_nk Bernoulli(z_nk; nu_nk)  prod_kd N(a_kd; mean_kd, variance_kd)
        x q(sticks) q(b) q(tau_X) q(tau_A) q(alpha)

What the finite and the infinite model have in common (Doshi-Velez, Miller, Van Gael and Teh 2009):

    logit nu_nk = theta_k + E[tau_X] sum_d { E[a_kd] (x_nd - E[b_d] - sum over j != k of
                  nu_nj E[a_jd]) - E[a_kd^2] / 2 }
    1 / variance_kd = E[tau_A] + E[tau_X] sum_n nu_nk
    mean_kd = variance_kd E[tau_X] sum_n nu_nk (x_nd - E[b_d] - sum over j != k of nu_nj E[a_jd])

with sums over observed entries. The models differ in their sticks, which give theta_k and a part of
the bound. A sweep updates each factor of q in turn, so the bound never falls. Rows need X once;
everything else needs its sufficient statistics with nu.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from ibp.data import Observations
from ibp.kernels.mean_field_rows import update_rows
from ibp.methods.base import StepReport
from ibp.methods.row_forms import RowForms, SharedPatterns, own_missing
from ibp.model import (
    GaussianFactors,
    Hyperparameters,
    Intercept,
    LearnedIntercept,
    NoIntercept,
    Statistics,
    squared_error,
)
from ibp.model.beta_sticks import BetaSticks
from ibp.model.hyperparameters import Hyperparameter
from ibp.model.statistics import centre_sums, code_sums, data_sums, sums_by_column
from ibp.parallel import Workers, ranges
from ibp.starts.codes_and_factors import CodesAndFactors

FloatArray = npt.NDArray[np.float64]

# Probabilities of a given start are kept so far from 0 and 1, for the data to have their say.
DOUBT = 0.01
# Updates of q(A), one feature after the other, that bring it near its optimum for given codes.
PASSES_TO_START = 20
# Statistics are kept by adding changes; now and then they are summed anew, against rounding.
SWEEPS_BETWEEN_RECOUNTS = 16


@dataclass(frozen=True)
class Sticks(BetaSticks, ABC):
    """q of how common the features are, under a prior Beta(share * alpha, 1) of each stick."""

    @property
    @abstractmethod
    def share(self) -> float:
        """What part of alpha the prior of one stick has."""

    @abstractmethod
    def log_odds(self) -> FloatArray:
        """theta_k, the prior's part of logit nu_nk, the same for all rows."""

    @abstractmethod
    def updated(self, usage: FloatArray, n_samples: int, alpha: float) -> Self:
        """Sticks for probabilities of Z with the column sums ``usage``, and E[alpha]."""

    @abstractmethod
    def assignment_bound(self, usage: FloatArray, n_samples: int) -> float:
        """E ln p(Z | sticks), or a lower bound of it."""

    def bound(self, usage: FloatArray, n_samples: int, alpha: Hyperparameter) -> float:
        """The prior's part of the bound: E ln p(Z | sticks) + E ln p(sticks | alpha) + H."""
        log_prior = self.log_prior(
            self.share * alpha.mean, float(np.log(self.share)) + alpha.mean_log
        )
        return self.assignment_bound(usage, n_samples) + log_prior + self.entropy()

    def updated_alpha(self, alpha: Hyperparameter) -> Hyperparameter:
        """The optimal q(alpha): K more in shape, -share * sum E ln v_k more in rate."""
        return alpha.updated(self.first.size, -self.share * float(self.mean_log.sum()))


@dataclass(frozen=True)
class MeanFieldEvidence:
    """The bound and its parts; that of the factors is -KL(q(A) || p(A))."""

    likelihood: float
    sticks: float
    assignment_entropy: float
    factors: float
    intercept: float
    hyperparameters: float

    @property
    def total(self) -> float:
        """The bound itself."""
        return float(sum(vars(self).values()))


class Piece(NamedTuple):
    """What an update of some rows changed in the sums, and how many bits."""

    gram: FloatArray
    totals: FloatArray
    cross: npt.NDArray[np.floating]
    n_changed: int


@dataclass
class MeanFieldState:
    """All that a sweep needs; factors, intercept and statistics are in layout order.

    Attributes
    ----------
    probabilities : ndarray of shape (N, K)
        nu.
    row_entropy : ndarray of shape (N,)
        H[q(z_n)].
    statistics : Statistics
        With nu as codes; so the diagonals of the gram are sums of nu^2, not E[Z'Z].
    factors, sticks, intercept, hyperparameters
        The other factors of q.
    """

    observations: Observations
    probabilities: FloatArray
    row_entropy: FloatArray
    statistics: Statistics
    factors: GaussianFactors
    sticks: Sticks
    intercept: Intercept
    hyperparameters: Hyperparameters
    patterns: SharedPatterns
    workers: Workers
    n_sweeps: int = 0

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.probabilities.shape[1])

    @property
    def usage(self) -> FloatArray:
        """S, the expected number of rows that have each feature."""
        return np.asarray(self.probabilities.sum(axis=0))

    @property
    def components(self) -> FloatArray:
        """E[A] in the user's column order."""
        return np.asarray(self.observations.from_layout(self.factors.mean))

    @property
    def components_std(self) -> FloatArray:
        """Standard deviations of q(A) in the user's column order."""
        return np.asarray(self.observations.from_layout(np.sqrt(self.factors.variance)))

    @property
    def offset(self) -> FloatArray:
        """E[b] in the user's column order, the centre included."""
        centre, mean = self.observations.centre, self.intercept.mean
        return np.asarray(self.observations.from_layout(centre + mean))

    def update_rows(self, should_stop: Callable[[], bool]) -> int:
        """Update every nu_nk once; return how many crossed one half.

        Given the rest rows are independent, so pieces of them go to threads. Pieces that are told
        to stop stay as they are.
        """
        observations = self.observations
        forms = self.row_forms()
        log_odds = self.sticks.log_odds()

        def update(rows: slice) -> Piece | None:
            if should_stop():
                return None
            block = observations.rows(rows)
            new = self.probabilities[rows]
            old = new.copy()
            update_piece(observations, forms, rows, block, log_odds, new, self.row_entropy[rows])
            gram, totals = code_sums(observations, rows, new, old)
            n_changed = int(((new > 0.5) != (old > 0.5)).sum())
            return Piece(gram, totals, data_sums(block, new - old), n_changed)

        n_changed = 0
        totals, cross = np.zeros_like(self.statistics.totals), np.zeros_like(self.statistics.cross)
        for piece in self.workers.map(
            update, ranges(observations.n_samples, observations.piece_rows)
        ):
            if piece is not None:
                self.statistics.gram += piece.gram
                totals += piece.totals
                cross += piece.cross
                n_changed += piece.n_changed
        self.statistics.totals += totals
        self.statistics.cross += observations.to_layout(cross) - centre_sums(observations, totals)
        return n_changed

    def row_forms(self) -> RowForms:
        """What the rows have in common under the present q(A), all made for threads to share."""
        return all_forms(
            self.observations,
            self.patterns,
            self.factors.mean,
            self.factors.variance,
            self.intercept.mean,
            self.hyperparameters.noise_precision.mean,
        )

    def update_factors(self, *, hold_intercept: bool = False) -> None:
        """Update q(a_k) for one feature after the other, and the intercept with each.

        The intercept, if its means are at their optimum, is kept there: they move by its response
        times the change of a column's sum of residuals. One that is held stays as it is.
        """
        observations, statistics, mean = self.observations, self.statistics, self.factors.mean
        noise_precision = self.hyperparameters.noise_precision.mean
        self.update_variances()
        step = noise_precision * self.factors.variance
        totals = statistics.totals[observations.group_of_position].T
        own = statistics.own[observations.group_of_position].T
        offset = self.intercept.mean.copy()
        response = 0.0 if hold_intercept else self.intercept.response(noise_precision)
        for k in range(self.n_components):
            explained = sums_by_column(statistics.gram[:, k], observations, mean) - own[k] * mean[k]
            new = step[k] * (statistics.cross[k] - totals[k] * offset - explained)
            offset -= response * totals[k] * (new - mean[k])
            mean[k] = new
        self.intercept = replace(self.intercept, mean=offset)

    def update_variances(self) -> None:
        """The variances of q(A), which depend on the totals of nu and two precisions only."""
        totals = self.statistics.totals[self.observations.group_of_position].T
        precision = self.hyperparameters.noise_precision.mean * totals
        self.factors.variance = 1.0 / (precision + self.hyperparameters.factor_precision.mean)

    def update_intercept(self) -> None:
        """Update q(b)."""
        self.intercept = self.intercept.updated(
            self.observations,
            self.statistics,
            self.factors,
            self.hyperparameters.noise_precision.mean,
        )

    def update_sticks(self) -> None:
        """Update q(sticks)."""
        self.sticks = self.sticks.updated(
            self.usage, self.observations.n_samples, self.hyperparameters.alpha.mean
        )

    def update_hyperparameters(self) -> None:
        """Update q(tau_X), q(tau_A) and q(alpha); known ones stay."""
        if not self.hyperparameters.learned:
            return
        known = self.hyperparameters
        error = self.error() + self.error_spread()
        squares = float(self.factors.second_moment.sum())
        self.hyperparameters = Hyperparameters(
            known.noise_precision.updated(0.5 * self.observations.n_observed, 0.5 * error),
            known.factor_precision.updated(0.5 * self.factors.mean.size, 0.5 * squares),
            self.sticks.updated_alpha(known.alpha),
        )

    def recount(self) -> None:
        """Sum the statistics anew."""
        self.statistics = Statistics.from_codes(self.observations, self.probabilities, self.workers)

    def error(self) -> float:
        """Sum over observed entries of (x - E[b] - nu E[A])^2."""
        return squared_error(
            self.observations,
            self.statistics,
            self.factors,
            self.intercept,
            expected=False,
            codes=self.probabilities,
        )

    def error_spread(self) -> float:
        """By how much E (x - b - z A)^2 is larger: the sum of the variances of b + z A."""
        observations, totals = self.observations, self.statistics.totals
        of_assignments = np.maximum(totals - self.statistics.own, 0.0)
        n_rows = observations.group_rows[observations.group_of_position]
        return float(
            sums_by_column(of_assignments, observations, self.factors.mean**2).sum()
            + sums_by_column(totals, observations, self.factors.variance).sum()
            + n_rows @ self.intercept.variance
        )

    def evidence(self, error: float | None = None) -> MeanFieldEvidence:
        """The bound and its parts; ``error`` is that of `error`, if it is known already."""
        noise, prior = self.hyperparameters.noise_precision, self.hyperparameters.factor_precision
        expected = (self.error() if error is None else error) + self.error_spread()
        gaussian = 0.5 * (1.0 + prior.mean_log + np.log(self.factors.variance))
        n_samples, alpha = self.observations.n_samples, self.hyperparameters.alpha
        return MeanFieldEvidence(
            likelihood=0.5 * self.observations.n_observed * (noise.mean_log - np.log(2.0 * np.pi))
            - 0.5 * noise.mean * expected,
            sticks=self.sticks.bound(self.usage, n_samples, alpha),
            assignment_entropy=float(self.row_entropy.sum()),
            factors=float((gaussian - 0.5 * prior.mean * self.factors.second_moment).sum()),
            intercept=-self.intercept.divergence(),
            hyperparameters=-self.hyperparameters.divergence(),
        )


@dataclass(frozen=True)
class MeanFieldMethod(ABC):
    """A method with its settings.

    Attributes
    ----------
    n_components : int
        K, of a random start; a given start has its own.
    hyperparameters : Hyperparameters
        Known values, or posteriors to begin with.
    start : CodesAndFactors or None
        None draws every nu_nk from the uniform distribution on [0, 1) and takes q(A) from one
        update. Given codes are clipped to [0.01, 0.99]; given factors are the first
        means of q(A), and else follow from the codes.
    intercept_std : float or None
        Spread of the intercept's prior; None for no intercept.
    n_jobs : int
        Threads.
    """

    n_components: int
    hyperparameters: Hyperparameters
    start: CodesAndFactors | None = None
    intercept_std: float | None = None
    n_jobs: int = 1

    climbs: ClassVar[bool] = True

    @abstractmethod
    def first_sticks(self, n_components: int) -> Sticks:
        """The sticks before anything is known."""

    def init(
        self,
        observations: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> MeanFieldState:
        """Draw or take the start, and fit the other factors of q to it."""
        start = self.start
        if start is None:
            start = CodesAndFactors(rng.random((observations.n_samples, self.n_components)))
            probabilities = start.codes
        else:
            probabilities = np.clip(start.codes, DOUBT, 1.0 - DOUBT).astype(np.float64)
        workers = Workers(self.n_jobs)
        shape = (start.n_components, observations.n_features)
        state = MeanFieldState(
            observations,
            np.ascontiguousarray(probabilities),
            entropies(probabilities),
            Statistics.from_codes(observations, probabilities, workers),
            GaussianFactors(np.zeros(shape), np.zeros(shape)),
            self.first_sticks(start.n_components),
            self.first_intercept(observations, start),
            self.hyperparameters,
            SharedPatterns.of(observations),
            workers,
        )
        if start.factors is None:
            for _ in range(1 if self.start is None else PASSES_TO_START):
                state.update_factors(hold_intercept=start.intercept is not None)
        else:
            state.factors.mean = observations.to_layout(start.factors).astype(np.float64)
            state.update_variances()
        if start.intercept is None:
            state.update_intercept()
        state.update_sticks()
        return state

    def first_intercept(self, observations: Observations, start: CodesAndFactors) -> Intercept:
        """The intercept of the start, or at the centre."""
        if self.intercept_std is None:
            return NoIntercept.of_width(observations.n_features)
        fresh = LearnedIntercept.at_centre(
            observations, self.intercept_std, self.hyperparameters.noise_precision.mean
        )
        if start.intercept is None:
            return fresh
        return replace(fresh, mean=observations.to_layout(start.intercept) - observations.centre)

    def step(self, state: MeanFieldState, should_stop: Callable[[], bool]) -> StepReport:
        """One sweep: rows, intercept and factors, sticks, hyperparameters."""
        n_changed = state.update_rows(should_stop)
        state.n_sweeps += 1
        if state.n_sweeps % SWEEPS_BETWEEN_RECOUNTS == 0:
            state.recount()
        state.update_intercept()
        state.update_factors()
        state.update_sticks()
        state.update_hyperparameters()
        return self.report(state, n_changed)

    def report(self, state: MeanFieldState, n_changed: int = 0) -> StepReport:
        """The bound and the training likelihood of a state."""
        error = state.error()
        precision = state.hyperparameters.noise_precision.mean
        n_observed = max(state.observations.n_observed, 1)
        return StepReport(
            evidence=state.evidence(error).total,
            n_components=state.n_components,
            n_changed=n_changed,
            train_log_likelihood=0.5 * float(np.log(precision / (2.0 * np.pi)))
            - 0.5 * precision * error / n_observed,
        )


def entropies(probabilities: FloatArray) -> FloatArray:
    """H[q(z_n)] of each row."""
    return np.asarray((entr(probabilities) + entr(1.0 - probabilities)).sum(axis=1))


def all_forms(
    observations: Observations,
    patterns: SharedPatterns,
    mean: FloatArray,
    variance: FloatArray,
    offset: FloatArray,
    noise_precision: float,
) -> RowForms:
    """The forms of all rows, made before threads share them; ``offset`` is about the centre."""
    forms = RowForms(observations, patterns, mean, variance, offset, noise_precision)
    forms.make_all(np.arange(0 if observations.complete else -1, forms.made.size))
    return forms


def update_piece(
    observations: Observations,
    forms: RowForms,
    rows: slice,
    block: npt.NDArray[np.floating],
    log_odds: FloatArray,
    probabilities: FloatArray,
    row_entropy: FloatArray,
    *,
    tolerance: float = 0.0,
    max_passes: int = 1,
) -> None:
    """Coordinate ascent in place on some rows, of which ``block`` are the data."""
    form_of_row = forms.patterns.forms_of(observations.row_pattern[rows])
    update_rows(
        np.asarray(block @ forms.components.T, dtype=np.float64),
        log_odds,
        forms.noise_precision,
        form_of_row,
        forms.quadratic,
        forms.constant,
        *own_missing(observations, rows, form_of_row),
        *forms.by_column,
        tolerance,
        max_passes,
        probabilities,
        row_entropy,
    )
