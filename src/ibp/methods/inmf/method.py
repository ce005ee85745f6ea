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
the residual X - E[Z] E[A] (`ibp.methods.inmf.growth`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.data import Layout, Observations
from ibp.kernels.nonnegative_sites import Posterior, Settings, Sites, update_sites
from ibp.methods.base import SweepRecord
from ibp.methods.context import Context, never
from ibp.methods.inmf.candidate import Candidate, code_entropy, objective, updated_hyperparameters
from ibp.methods.inmf.growth import new_feature
from ibp.methods.row_forms import RowForms
from ibp.methods.soft_rows import FrozenMeanField, RowTask, ascend_rows
from ibp.methods.state import State
from ibp.model import Hyperparameters, Statistics
from ibp.parallel import map_until, ranges
from ibp.starts.codes_and_factors import CodesAndFactors

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
class INMFState(State):
    """What is being tried, and the best that came to rest."""

    current: Candidate  # what the sweeps improve
    best: Candidate | None = None  # of those that have come to rest, the one of highest L
    sweeps: int = 0  # with the present number of features
    tries: int = 0  # features added in vain to the best candidate
    finished: bool = False  # whether nothing more will be tried

    @property
    def best_known(self) -> Candidate:
        """What the model is if the method stops now."""
        if self.best is None or self.current.objective > self.best.objective:
            return self.current
        return self.best

    def frozen(self, layout: Layout) -> FrozenMeanField:
        """The best known model, for new rows."""
        candidate = self.best_known
        return FrozenMeanField(
            layout.restore(candidate.mean),
            candidate.sticks.mean_log_odds,
            candidate.hyperparameters.noise_precision.mean,
            covariance=np.ascontiguousarray(candidate.covariance[layout.position_of_column]),
        )


class SiteTask(NamedTuple):
    """What the updates of columns read."""

    second_moments: FloatArray  # (G, K, K), E[Z'Z] of each column group
    cross: FloatArray  # (K, D), E[Z]'X
    group: npt.NDArray[np.int64]  # (D,), the group of each column
    settings: Settings  # what all columns have in common
    sites: Sites  # (D, K) each, before the update


def update_columns(task: SiteTask, columns: slice) -> tuple[Sites, Posterior]:
    """New sites of some columns, and what they make of q(A)."""
    sites = Sites(*(part[columns].copy() for part in task.sites))
    cross = np.ascontiguousarray(task.cross[:, columns])
    posterior = update_sites(task.second_moments, cross, task.group[columns], task.settings, sites)
    return sites, posterior


@dataclass(frozen=True)
class INMFMethod:
    """The method with its settings.

    The loop's own rule of convergence, which compares the training likelihood of ten sweeps, would
    end a fit before it has grown: run the loop with ``tol=0``.
    """

    hyperparameters: Hyperparameters  # known values, or posteriors to begin with
    n_components: int | None = None  # most features; None for no bound but the number of rows
    # Probabilities to begin with, instead of growing from one feature; q(A) follows from them, so
    # that its factors are not needed. Its number of features may grow, too.
    start: CodesAndFactors | None = None
    power: float = 1.0  # rho of power-EP, above 0 and at most 1; 1 is EP itself
    # Weight of the old sites in an update, 0 or more and below 1. None for 1 - rho, which undoes
    # how much a small power exaggerates a step. EP itself comes to rest without, and sooner.
    damping: float | None = None
    # L has come to rest when a sweep changes it by less, relative to its size in units of the
    # data's root mean square, or after so many sweeps with one number of features.
    tol: float = 1e-5
    max_sweeps: int = 100
    # A feature is added so many times in vain, each time another one, before the method ends; 0 to
    # keep the number of features of the start.
    n_tries: int = 2

    # EP is no ascent.
    climbs: ClassVar[bool] = False

    def init(self, context: Context) -> INMFState:
        """One feature along the leading direction of X, or a given start."""
        observations = context.observations
        self._check(observations)
        codes = np.empty((observations.n_samples, 0))
        if self.start is not None:
            codes = np.clip(np.asarray(self.start.codes, dtype=np.float64), DOUBT, 1.0 - DOUBT)
        if codes.shape[1] == 0:
            nothing = np.empty((0, observations.n_features))
            codes = new_feature(context, codes, nothing, 0)[:, None]
        # q(A) is needed whatever the clock says.
        unhurried = replace(context, should_stop=never)
        return INMFState(self._candidate(unhurried, codes, self.hyperparameters))

    def step(self, context: Context, state: INMFState) -> SweepRecord:
        """One sweep, after which a feature may be added; told to stop, the sweep is given up."""
        if state.finished:
            return self.report(context, state)
        before = state.current
        after = self._swept(context, before)
        if after is None:
            return self.report(context, state)
        state.current = after
        state.sweeps += 1
        report = self.report(context, state, n_changed(before.probabilities, after.probabilities))
        if self._at_rest(context.observations, state, before.objective):
            self._grow(context, state)
        return replace(report, finished=state.finished)

    def report(self, context: Context, state: INMFState, n_changed: int = 0) -> SweepRecord:
        """Evaluate the best known candidate."""
        candidate, observations = state.best_known, context.observations
        precision = candidate.hyperparameters.noise_precision.mean
        error = candidate.squared_error(observations) / max(observations.n_observed, 1)
        return SweepRecord(
            evidence=candidate.objective,
            n_components=candidate.n_components,
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

    def _swept(self, context: Context, old: Candidate) -> Candidate | None:
        """The candidate after a sweep, None if it was told to stop."""
        observations = context.observations
        hyperparameters = updated_hyperparameters(observations, old)
        noise_precision = hyperparameters.noise_precision.mean
        forms = RowForms(observations, old.mean, noise_precision, covariance=old.covariance)
        forms.make_all()
        task = RowTask(observations, forms, old.sticks.mean_log_odds, old.probabilities)
        pieces = ranges(observations.n_samples, observations.piece_rows)
        probabilities = np.empty_like(old.probabilities)
        entropy, n_done = np.empty(observations.n_samples), 0
        for rows, found in map_until(
            context.should_stop, context.executor, ascend_rows, task, pieces
        ):
            probabilities[rows], entropy[rows] = found
            n_done += 1
        if n_done < len(pieces):
            return None
        kept = probabilities.sum(axis=0) >= LEAST_COUNT
        dropped = probabilities[:, ~kept]
        probabilities = np.ascontiguousarray(probabilities[:, kept])
        d, k = observations.n_features, int(kept.sum())
        new = Candidate(
            probabilities,
            float(entropy.sum()) - code_entropy(dropped),
            Statistics.from_codes(observations, probabilities, context.executor),
            np.empty((k, d)),
            np.empty((d, k, k)),
            np.ascontiguousarray(old.site_precision[:, kept]),
            np.ascontiguousarray(old.site_linear[:, kept]),
            np.empty(d),
            hyperparameters,
        )
        if not self._update_factors(context, new, SITE_PASSES):
            return None
        new.objective = objective(observations, new)
        return new

    def _candidate(
        self,
        context: Context,
        probabilities: FloatArray,
        hyperparameters: Hyperparameters,
        sites: tuple[FloatArray, FloatArray] | None = None,
    ) -> Candidate:
        """The q(A) that belongs to probabilities; the sites of its first features may be known.

        Told to stop, the objective stays at minus infinity, and the factors at the prior's mean.
        """
        observations = context.observations
        d, k = observations.n_features, probabilities.shape[1]
        precision = hyperparameters.factor_precision.mean
        candidate = Candidate(
            probabilities,
            code_entropy(probabilities),
            Statistics.from_codes(observations, probabilities, context.executor),
            np.full((k, d), np.sqrt(2.0 / (np.pi * precision))),
            np.tile(np.eye(k) * (1.0 - 2.0 / np.pi) / precision, (d, 1, 1)),
            np.full((d, k), precision),
            np.zeros((d, k)),
            np.zeros(d),
            hyperparameters,
        )
        if sites is not None:
            known = sites[0].shape[1]
            candidate.site_precision[:, :known], candidate.site_linear[:, :known] = sites
        if self._update_factors(context, candidate, FIRST_SITE_PASSES):
            candidate.objective = objective(observations, candidate)
        return candidate

    def _update_factors(self, context: Context, candidate: Candidate, n_passes: int) -> bool:
        """Passes of EP over all columns, in place; False if it was told to stop."""
        layout, hyperparameters = context.observations.layout, candidate.hyperparameters
        settings = Settings(
            hyperparameters.noise_precision.mean,
            hyperparameters.factor_precision.mean,
            self.power,
            1.0 - self.power if self.damping is None else float(self.damping),
            n_passes,
        )
        task = SiteTask(
            candidate.second_moments(),
            candidate.statistics.cross,
            layout.group_of_position,
            settings,
            Sites(candidate.site_precision, candidate.site_linear),
        )
        pieces = ranges(layout.n_features, PIECE_COLUMNS)
        n_done = 0
        for columns, (sites, posterior) in map_until(
            context.should_stop, context.executor, update_columns, task, pieces
        ):
            candidate.site_precision[columns] = sites.precision
            candidate.site_linear[columns] = sites.linear
            candidate.mean[:, columns] = posterior.mean
            candidate.covariance[columns] = posterior.covariance
            candidate.log_partition[columns] = posterior.log_partition
            n_done += 1
        return n_done == len(pieces)

    # Growth

    def _resolution(self, observations: Observations, state: INMFState) -> float:
        """How well L is known at rest: tol of its size in units in which X has mean square one."""
        size = abs(state.current.objective + observations.n_observed * observations.log_unit)
        return self.tol * max(size, 1.0)

    def _at_rest(self, observations: Observations, state: INMFState, before: float) -> bool:
        """Whether the last sweep hardly changed L."""
        change = abs(state.current.objective - before)
        return state.sweeps >= self.max_sweeps or change <= self._resolution(observations, state)

    def _grow(self, context: Context, state: INMFState) -> None:
        """Judge the candidate that has come to rest, and add a feature to the best or finish."""
        current, best, observations = state.current, state.best, context.observations
        # A gain too small to be sure of is taken, but it does not earn another try.
        resolution = self._resolution(observations, state)
        clearly = best is None or current.objective > best.objective + resolution
        state.tries = 0 if clearly else state.tries + 1
        best = state.best = state.current = state.best_known
        bound = observations.n_samples
        if self.n_components is not None:
            bound = min(bound, self.n_components)
        if state.tries >= self.n_tries or best.n_components >= bound:
            state.finished = True
            return
        new = new_feature(context, best.probabilities, best.mean, state.tries)
        state.current = self._candidate(
            context,
            np.column_stack([best.probabilities, new]),
            best.hyperparameters,
            (best.site_precision, best.site_linear),
        )
        state.sweeps = 0


def n_changed(before: FloatArray, after: FloatArray) -> int:
    """How many probabilities crossed one half; all of them if features were dropped."""
    if before.shape != after.shape:
        return before.size
    return int(np.count_nonzero((before > 0.5) != (after > 0.5)))
