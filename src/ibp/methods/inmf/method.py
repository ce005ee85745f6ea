"""Infinite nonnegative matrix factorization (Ding, Qi, Xiang, Molloy and Li 2010).

    q = prod_k Beta(pi_k)  prod_nk Bernoulli(z_nk; e_nk)  prod_j N(a_:j; m_j, V_j)
        x q(tau_X) q(tau_A) q(alpha)

under X = ZA + E, a half-normal prior of A and the IBP prior of Z. The model has no intercept, so
data should have been shifted to a minimum of zero. One sweep:

    q(tau_X), q(tau_A), q(alpha): Gammas, if they are learned
    q(pi_k) = Beta(c_k, N - c_k + 1), c_k = max(1, sum_n e_nk)
    logit e_nk = psi(c_k) - psi(N - c_k + 1) + E[tau_X] sum_j { x_nj m_jk
                 - L_j(k, k) / 2 - sum over l != k of e_nl L_j(k, l) },  L_j = V_j + m_j m_j'
    m_j, V_j by passes of power-EP (`ibp.model.expectation_propagation`)

with sums over observed entries. c_k is at least one because the prior counts only features that
some row has; its limit of infinitely many features rewards a feature that fades away without
bound. A feature that is expected in less than half a row is dropped.

**The objective** compares numbers of features:

    L = E ln p(X | Z, A) + E ln p(A) + H[q(A)]  by EP's partition functions, see below
      + sum_k ln B(c_k, N - c_k + 1) + K E ln alpha - ln K! - E[alpha] H_N + H[q(Z)]
      - KL of q(tau_X), q(tau_A), q(alpha) from their priors.

The second line is E ln p(Z, pi) + H[q(pi)] at the optimal q(pi). For the first, E ln p(A) of a
Gaussian q under a half-normal prior is minus infinity; the paper evaluates the prior's formula as
if it held for negative factors too, which is no bound. Here the three terms are what they would be
at the best q(A) without any restriction, -E[tau_X] sum x^2 / 2 + const + sum_j ln Z_j, with EP's
approximation of Z_j, the integral of exp(E ln p(X | Z, A) + E ln p(A)) over the positive orthant.
So L approximates the mean-field bound of a q(A) that is truncated, too; for one feature and rho = 1
it is that bound exactly. As EP is no ascent, L may fall between sweeps; in practice it hardly does.

**The number of features** starts at one. When L has come to rest a feature is added, and kept if L
comes to rest higher than before; the method ends when no addition is. A new feature is guided by
the residual X - E[Z] E[A]: its positive leading direction is sought by a few power iterations, and
the rows' scores along it are cut in two (`ibp.starts.two_modes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.nonnegative_sites import update_sites
from ibp.methods.base import StepReport
from ibp.methods.inmf.growth import new_feature
from ibp.methods.inmf.rows import CovarianceForms, FrozenINMF
from ibp.methods.inmf.solution import (
    Solution,
    code_entropy,
    objective,
    updated_hyperparameters,
)
from ibp.methods.row_forms import SharedPatterns
from ibp.model import Hyperparameters, Statistics
from ibp.parallel import Workers, ranges
from ibp.starts.codes_and_factors import CodesAndFactors
from ibp.stopping import log_unit

FloatArray = npt.NDArray[np.float64]

# Probabilities of a given start are kept so far from 0 and 1, for the data to have their say.
DOUBT = 0.01
# Features that are expected in fewer rows are dropped.
LEAST_COUNT = 0.5
# Columns that are worked on together.
PIECE_COLUMNS = 8
# Passes over the sites of new q(A), and in every sweep.
FIRST_SITE_PASSES, SITE_PASSES = 4, 1


@dataclass
class INMFState:
    """What is being tried, and the best that came to rest.

    Attributes
    ----------
    current : Solution
        What the sweeps improve.
    best : Solution or None
        Of those that have come to rest, the one of highest L.
    patterns : SharedPatterns
        Which rows share a quadratic form.
    sweeps : int
        With the present number of features.
    tries : int
        Features added in vain to the best solution.
    finished : bool
        Whether nothing more will be tried.
    """

    observations: Observations
    rng: np.random.Generator
    workers: Workers
    patterns: SharedPatterns
    current: Solution
    best: Solution | None = None
    sweeps: int = 0
    tries: int = 0
    finished: bool = False

    @property
    def solution(self) -> Solution:
        """The best known: what the model is if the method stops now."""
        if self.best is None or self.current.objective > self.best.objective:
            return self.current
        return self.best

    def frozen(self) -> FrozenINMF:
        """The best known model, for new rows."""
        solution = self.solution
        place = np.argsort(self.observations.column_order)
        return FrozenINMF(
            self.observations.from_layout(solution.mean),
            np.ascontiguousarray(solution.covariance[place]),
            solution.sticks.log_odds(),
            solution.hyperparameters.noise_precision.mean,
        )


@dataclass(frozen=True)
class INMFMethod:
    """The method with its settings.

    The loop's own rule of convergence, which compares the training likelihood of ten sweeps, would
    end a fit before it has grown: run the loop with ``tol=0``.

    Attributes
    ----------
    hyperparameters : Hyperparameters
        Known values, or posteriors to begin with.
    n_components : int or None
        At most so many features; None for no bound but the number of rows.
    start : CodesAndFactors or None
        Probabilities to begin with, instead of growing from one feature; q(A) follows from them, so
        that its factors are not needed. Its number of features may grow, too.
    power : float
        rho of power-EP, above 0 and at most 1; 1 is EP itself.
    damping : float or None
        Weight of the old sites in an update, 0 or more and below 1. None for 1 - rho, which undoes
        how much a small power exaggerates a step. EP itself comes to rest without, and sooner.
    tol : float
        L has come to rest when a sweep changes it by less, relative to its size in units of the
        data's root mean square.
    max_sweeps : int
        L is taken to be at rest after so many sweeps with one number of features.
    n_tries : int
        A feature is added so many times in vain, each time another one, before the method ends; 0
        to keep the number of features of the start.
    n_jobs : int
        Threads; they do not change the result.
    """

    hyperparameters: Hyperparameters
    n_components: int | None = None
    start: CodesAndFactors | None = None
    power: float = 1.0
    damping: float | None = None
    tol: float = 1e-5
    max_sweeps: int = 100
    n_tries: int = 2
    n_jobs: int = 1

    # EP is no ascent.
    climbs: ClassVar[bool] = False

    def init(
        self,
        observations: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> INMFState:
        """One feature along the leading direction of X, or a given start."""
        self._check(observations)
        workers = Workers(self.n_jobs)
        codes = np.empty((observations.n_samples, 0))
        if self.start is not None:
            codes = np.clip(np.asarray(self.start.codes, dtype=np.float64), DOUBT, 1.0 - DOUBT)
        if codes.shape[1] == 0:
            nothing = np.empty((0, observations.n_features))
            codes = new_feature(observations, codes, nothing, 0, rng, workers, should_stop)[:, None]
        # q(A) is needed whatever the clock says.
        solution = self._solution(observations, codes, self.hyperparameters, workers, lambda: False)
        patterns = SharedPatterns.of(observations)
        return INMFState(observations, rng, workers, patterns, solution)

    def step(self, state: INMFState, should_stop: Callable[[], bool] = lambda: False) -> StepReport:
        """One sweep, after which a feature may be added; told to stop, the sweep is given up."""
        if state.finished:
            return self.report(state)
        before = state.current
        after = self._swept(state, should_stop)
        if after is None:
            return self.report(state)
        state.current = after
        state.sweeps += 1
        report = self.report(state, n_changed(before.probabilities, after.probabilities))
        if self._at_rest(state, before.objective):
            self._grow(state, should_stop)
        return replace(report, finished=state.finished)

    def report(self, state: INMFState, n_changed: int = 0) -> StepReport:
        """Evaluate the best known solution."""
        solution, observations = state.solution, state.observations
        precision = solution.hyperparameters.noise_precision.mean
        error = solution.squared_error(observations) / max(observations.n_observed, 1)
        return StepReport(
            evidence=solution.objective,
            n_components=solution.n_components,
            n_changed=n_changed,
            train_log_likelihood=0.5 * float(np.log(precision / (2.0 * np.pi)))
            - 0.5 * precision * error,
            finished=state.finished,
        )

    def _check(self, observations: Observations) -> None:
        if not 0.0 < self.power <= 1.0:
            raise ValueError(f"power must be above 0 and at most 1; it is {self.power}")
        if self.damping is not None and not 0.0 <= self.damping < 1.0:
            raise ValueError(f"damping must be at least 0 and below 1; it is {self.damping}")
        if observations.centre.any():
            raise ValueError("the model has no intercept, so X must not be modelled about a centre")

    # Sweeps

    def _swept(self, state: INMFState, should_stop: Callable[[], bool]) -> Solution | None:
        """The solution after a sweep, None if it was told to stop."""
        observations, workers, old = state.observations, state.workers, state.current
        hyperparameters = updated_hyperparameters(observations, old)
        forms = CovarianceForms(
            observations,
            state.patterns,
            old.mean,
            old.covariance,
            hyperparameters.noise_precision.mean,
        )
        probabilities = old.probabilities.copy()
        entropy = np.zeros(observations.n_samples)
        log_odds = old.sticks.log_odds()
        if not forms.update(probabilities, log_odds, entropy, workers, should_stop):
            return None
        kept = probabilities.sum(axis=0) >= LEAST_COUNT
        dropped = probabilities[:, ~kept]
        probabilities = np.ascontiguousarray(probabilities[:, kept])
        new = Solution(
            probabilities,
            float(entropy.sum()) - code_entropy(dropped),
            Statistics.from_codes(observations, probabilities, workers),
            np.empty((int(kept.sum()), observations.n_features)),
            np.empty((observations.n_features, int(kept.sum()), int(kept.sum()))),
            np.ascontiguousarray(old.site_precision[:, kept]),
            np.ascontiguousarray(old.site_linear[:, kept]),
            np.empty(observations.n_features),
            hyperparameters,
        )
        if not self._update_factors(observations, new, SITE_PASSES, workers, should_stop):
            return None
        new.objective = objective(observations, new)
        return new

    def _solution(
        self,
        observations: Observations,
        probabilities: FloatArray,
        hyperparameters: Hyperparameters,
        workers: Workers,
        should_stop: Callable[[], bool],
        sites: tuple[FloatArray, FloatArray] | None = None,
    ) -> Solution:
        """The q(A) that belongs to probabilities; the sites of its first features may be known.

        Told to stop, the objective stays at minus infinity, and the factors at the prior's mean.
        """
        d, k = observations.n_features, probabilities.shape[1]
        precision = hyperparameters.factor_precision.mean
        solution = Solution(
            probabilities,
            code_entropy(probabilities),
            Statistics.from_codes(observations, probabilities, workers),
            np.full((k, d), np.sqrt(2.0 / (np.pi * precision))),
            np.tile(np.eye(k) * (1.0 - 2.0 / np.pi) / precision, (d, 1, 1)),
            np.full((d, k), precision),
            np.zeros((d, k)),
            np.zeros(d),
            hyperparameters,
        )
        if sites is not None:
            known = sites[0].shape[1]
            solution.site_precision[:, :known], solution.site_linear[:, :known] = sites
        if self._update_factors(observations, solution, FIRST_SITE_PASSES, workers, should_stop):
            solution.objective = objective(observations, solution)
        return solution

    def _update_factors(
        self,
        observations: Observations,
        solution: Solution,
        n_passes: int,
        workers: Workers,
        should_stop: Callable[[], bool],
    ) -> bool:
        """Passes of EP over all columns, in place; False if it was told to stop."""
        moments = solution.second_moments()
        group = observations.group_of_position
        hyperparameters = solution.hyperparameters
        damping = 1.0 - self.power if self.damping is None else self.damping

        def update_piece(columns: slice) -> bool:
            if should_stop():
                return False
            update_sites(
                moments,
                solution.statistics.cross,
                group,
                hyperparameters.noise_precision.mean,
                hyperparameters.factor_precision.mean,
                self.power,
                damping,
                n_passes,
                solution.site_precision,
                solution.site_linear,
                solution.mean,
                solution.covariance,
                solution.log_partition,
                columns.start,
                columns.stop,
            )
            return True

        return all(list(workers.map(update_piece, ranges(observations.n_features, PIECE_COLUMNS))))

    # Growth

    def _resolution(self, state: INMFState) -> float:
        """How well L is known at rest: tol of its size in units in which X has mean square one."""
        observations = state.observations
        size = abs(state.current.objective + observations.n_observed * log_unit(observations))
        return self.tol * max(size, 1.0)

    def _at_rest(self, state: INMFState, before: float) -> bool:
        """Whether the last sweep hardly changed L."""
        change = abs(state.current.objective - before)
        return state.sweeps >= self.max_sweeps or change <= self._resolution(state)

    def _grow(self, state: INMFState, should_stop: Callable[[], bool]) -> None:
        """Judge the solution that has come to rest, and add a feature to the best or finish."""
        current, best = state.current, state.best
        # A gain too small to be sure of is taken, but it does not earn another try.
        clearly = best is None or current.objective > best.objective + self._resolution(state)
        state.tries = 0 if clearly else state.tries + 1
        best = state.best = state.current = state.solution
        bound = state.observations.n_samples
        if self.n_components is not None:
            bound = min(bound, self.n_components)
        if state.tries >= self.n_tries or best.n_components >= bound:
            state.finished = True
            return
        state.current = self._grown(
            state.observations, best, state.tries, state.rng, state.workers, should_stop
        )
        state.sweeps = 0

    def _grown(
        self,
        observations: Observations,
        solution: Solution,
        tries: int,
        rng: np.random.Generator,
        workers: Workers,
        should_stop: Callable[[], bool],
    ) -> Solution:
        """A solution with one more feature, made from the residual."""
        new = new_feature(
            observations,
            solution.probabilities,
            solution.mean,
            tries,
            rng,
            workers,
            should_stop,
        )
        return self._solution(
            observations,
            np.column_stack([solution.probabilities, new]),
            solution.hyperparameters,
            workers,
            should_stop,
            (solution.site_precision, solution.site_linear),
        )


def n_changed(before: FloatArray, after: FloatArray) -> int:
    """How many probabilities crossed one half; all of them if features were dropped."""
    if before.shape != after.shape:
        return before.size
    return int(np.count_nonzero((before > 0.5) != (after > 0.5)))
