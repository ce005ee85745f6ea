"""The evidence lower bound (Eq. 8), as a value, from sufficient statistics.

F = E ln p(X | Z, A, b) + ln p([Z]) + E ln p(A) + H[q(A)] - KL of the intercept's and of the
hyperparameters' posteriors, and of the weights' if codes have any (`ibp.model.weights`).
A feature that no row has is left out of every sum: in the limit of infinitely many features its
factors keep their prior, and it contributes exactly nothing (Sec. 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.model.column_noise import AnyHyperparameters, ColumnHyperparameters
from ibp.model.factors import Factors, factor_entropy, feature_evidence, log_factor_prior
from ibp.model.ibp_prior import SHIFTED, ColumnNames, EquivalenceClasses, log_count_term
from ibp.model.intercept import Intercept, NoIntercept
from ibp.model.residuals import residuals_of_rows
from ibp.model.statistics import Statistics, sums_by_column
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """The bound and its parts."""

    likelihood: float
    assignment_prior: float
    factor_prior: float
    factor_entropy: float
    intercept: float
    hyperparameters: float
    weights: float = 0.0

    @property
    def total(self) -> float:
        """The bound itself."""
        return float(sum(vars(self).values()))


@dataclass(frozen=True)
class Bound:
    """The bound at a state of the model, and what follows from it.

    Attributes
    ----------
    observations : Observations
        X.
    statistics : Statistics
        What the bound needs to know of X and Z.
    factors : Factors
        q(A).
    hyperparameters : Hyperparameters
        q(tau_X), q(tau_A) and q(alpha), or their known values.
    prior : EquivalenceClasses
        Which matrices Z count as one.
    intercept : Intercept or None
        q(b); None for the paper's model, which has no offset.
    codes : ndarray of shape (N, K) or None
        Z, which keeps the likelihood accurate where it would cancel.
    columns : ndarray of length K or None
        Which columns of Z are equal, if that is known more briefly than by ``codes``. Only
        `LeftOrderedClasses` look at it.
    entropies : ndarray of shape (K,) or None
        Those of the features' factors, if they are known already.
    divergences : ndarray of shape (K,) or None
        Those of the features' weights; None for binary codes.

    What is computed is kept: a state that is changed in place needs a new bound.
    """

    observations: Observations
    statistics: Statistics
    factors: Factors
    hyperparameters: AnyHyperparameters
    prior: EquivalenceClasses = SHIFTED
    intercept: Intercept | None = None
    codes: Any = None
    columns: ColumnNames | None = None
    entropies: FloatArray | None = None
    divergences: FloatArray | None = None

    @cached_property
    def active(self) -> Bound:
        """The same bound without the features that no row has."""
        used = self.statistics.counts > 0
        if used.all():
            return self
        return replace(
            self,
            statistics=self.statistics.select(used),
            factors=self.factors.select(used),
            codes=None if self.codes is None else self.codes[:, used],
            columns=None if self.columns is None else self.columns[used],
            entropies=None if self.entropies is None else self.entropies[used],
            divergences=None if self.divergences is None else self.divergences[used],
        )

    @cached_property
    def offset(self) -> Intercept:
        """q(b), all zeros if there is none."""
        return self.intercept or NoIntercept.of_width(self.observations.n_features)

    @cached_property
    def column_names(self) -> ColumnNames | None:
        """Which columns of Z are equal, as far as that is known."""
        return self.codes.T if self.columns is None and self.codes is not None else self.columns

    @cached_property
    def squared_error(self) -> Any:
        """Sum over observed entries of (x - E[b] - z E[a])^2; column by column if the noise is."""
        add = squared_errors if self.hyperparameters.by_column else squared_error
        return add(
            self.observations, self.statistics, self.factors.mean, self.offset.mean, self.codes
        )

    @cached_property
    def expected_squared_error(self) -> Any:
        """Sum over observed entries of E (x - b - z a)^2; column by column if the noise is."""
        own = sums_by_column(self.statistics.own, self.observations.layout, self.factors.variance)
        if self.statistics.doubt is not None:
            own = own + doubt_of_codes(self.observations, self.statistics, self.factors.mean)
        n_rows = self.observations.column_counts
        if self.hyperparameters.by_column:
            return self.squared_error + own + n_rows * self.offset.variance
        return self.squared_error + float(own.sum() + n_rows @ self.offset.variance)

    def evidence(self) -> Evidence:
        """Eq. 8, part by part."""
        active, hyperparameters = self.active, self.hyperparameters
        alpha = hyperparameters.alpha
        entropies = factor_entropy(active.factors) if active.entropies is None else active.entropies
        return Evidence(
            likelihood=hyperparameters.log_likelihood(
                self.observations, active.expected_squared_error
            ),
            assignment_prior=self.prior.log_prior(
                active.statistics.counts,
                self.observations.n_samples,
                alpha=alpha.mean,
                log_alpha=alpha.mean_log,
                columns=active.column_names,
            ),
            factor_prior=float(log_factor_prior(active.factors, hyperparameters).sum()),
            factor_entropy=float(entropies.sum()),
            intercept=-self.offset.divergence(),
            hyperparameters=-hyperparameters.divergence(),
            weights=0.0 if active.divergences is None else -float(active.divergences.sum()),
        )

    def evidence_in_data_units(self) -> Evidence:
        """The same, its likelihood being that of the data in their own units."""
        evidence = self.evidence()
        return replace(evidence, likelihood=evidence.likelihood - self.observations.log_units)

    def updated_hyperparameters(self) -> Any:
        """Where the bound is highest, everything else unchanged."""
        active = self.active
        return self.hyperparameters.updated(
            self.observations,
            active.statistics.n_components,
            active.expected_squared_error,
            float(active.factors.second_moment.sum()),
        )

    def train_log_likelihood(self) -> float:
        """Mean over observed entries of ln N(x; E[b] + z E[A], noise_std^2)."""
        tau = self.hyperparameters.noise_precision.mean
        n = max(self.observations.n_observed, 1)
        if self.hyperparameters.by_column:
            log_densities = self.observations.column_counts @ np.log(tau / (2.0 * np.pi))
            return 0.5 * float(log_densities - tau @ self.squared_error) / n
        log_density = 0.5 * float(np.log(tau / (2.0 * np.pi)))
        return float(log_density - 0.5 * tau * self.squared_error / n)

    def removal_gains(self) -> FloatArray:
        """What the bound gains if all rows lose a feature, the other factors unchanged.

        With noise of each column the intercept moves to where it is best then, and the noise
        answers, as far as they are learned: an error that a feature kept small looks much larger at
        the noise that it left than at the noise without it. Noise of all columns together stays as
        it is, and so does the intercept then. Every feature must be in use.
        """
        observations, statistics, mean = self.observations, self.statistics, self.factors.mean
        group = observations.layout.group_of_position
        own = statistics.own[group].T
        if isinstance(self.hyperparameters, ColumnHyperparameters):
            residual = statistics.cross - statistics.totals[group].T * self.offset.mean
            residual -= statistics.gram_times(observations.layout, mean)
            changes = 2.0 * residual * mean + own * (mean**2 - self.factors.variance)
            response = self.offset.response(self.hyperparameters.noise_precision.mean)
            changes -= response * (statistics.totals[group].T * mean) ** 2
            likelihood = self.hyperparameters.log_likelihood_changes(
                observations, self.expected_squared_error, changes
            )
        else:
            error_change = 2.0 * np.einsum("kd,kd->k", statistics.cross, mean)
            offset = statistics.totals[group].T * self.offset.mean
            error_change -= 2.0 * np.einsum("kd,kd->k", offset, mean)
            error_change -= 2.0 * np.einsum(
                "kd,kd->k", mean, statistics.gram_times(observations.layout, mean)
            )
            error_change += np.einsum("kd,kd->k", own, mean**2 - self.factors.variance)
            likelihood = -0.5 * self.hyperparameters.noise_precision.mean * error_change
        return np.asarray(likelihood + self.feature_costs())

    def superfluous(self, gains: FloatArray) -> npt.NDArray[np.intp]:
        """Features that may go at once, by what the bound gains without each; the best one first.

        A feature is added to those before it as long as it gains more than is `lost_together`.
        """
        candidates = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains > 0.0)]
        lost, left = self.lost_together(candidates), gains[candidates]
        chosen = []
        for i in range(candidates.size):
            if left[i] > 0.0:
                chosen.append(i)
                left = left - lost[i]
        return np.asarray(candidates[chosen])

    def lost_together(self, features: npt.NDArray[np.intp]) -> FloatArray:
        """What the likelihood loses without two features beyond what it does without either.

        Errors add up where rows have both: sum over d of E[tau_d] (Z'Z)_ij E[a_id] E[a_jd], with
        all else unchanged. Where intercept and noise answer it is less.
        """
        mean = self.factors.mean[features]
        weighted = mean * self.hyperparameters.noise_precision.mean
        lost = np.zeros((features.size, features.size))
        for gram, (first, last) in zip(
            self.statistics.gram, pairwise(self.observations.layout.group_start), strict=True
        ):
            lost += gram[np.ix_(features, features)] * (
                weighted[:, first:last] @ mean[:, first:last].T
            )
        return lost

    def feature_costs(self) -> FloatArray:
        """What the bound pays for each feature beside what it does for the likelihood."""
        weights = 0.0 if self.divergences is None else self.divergences
        return np.asarray(
            weights
            + self.prior.log_removal(self.statistics.n_components, self.column_names)
            - log_count_term(self.statistics.counts, self.observations.n_samples)
            - feature_evidence(self.factors, self.hyperparameters, self.entropies)
        )


# An error that is a smaller part of the data's sum of squares has lost digits to cancellation.
CANCELLATION = 1e-5
# The same of sums over codes that are rounded to single precision themselves.
SINGLE_CANCELLATION = 1e-2
# Rows whose residuals are in memory together.
ROWS_AT_ONCE = 256


def squared_error(
    observations: Observations,
    statistics: Statistics,
    mean: FloatArray,
    intercept: FloatArray | None = None,
    codes: npt.NDArray[np.generic] | CodesElsewhere | None = None,
) -> float:
    """Sum over observed entries of (x - b - z a)^2 at factors ``mean`` and an ``intercept``.

    From the statistics alone if that is accurate; a close fit far from zero is the small difference
    of large sums, and is summed from the residuals if the ``codes`` are given.
    """
    if intercept is None:
        intercept = np.zeros(observations.n_features)
    quadratic = float(np.einsum("kd,kd->", mean, statistics.gram_times(observations.layout, mean)))
    if statistics.doubt is not None:
        quadratic -= float(doubt_of_codes(observations, statistics, mean).sum())
    linear = float(np.einsum("kd,kd->", statistics.cross, mean))
    n_observed = observations.column_counts
    explained = sums_by_column(statistics.totals, observations.layout, mean)
    residuals = observations.column_sums - explained
    offset = float((intercept * (n_observed * intercept - 2.0 * residuals)).sum())
    error = observations.sum_of_squares - 2.0 * linear + quadratic + offset
    cancelled = error < cancellation(observations, statistics) * observations.sum_of_squares
    if cancelled and codes is not None and not observations.sparse:
        error = float(sums_of_squares(observations, mean, intercept, codes).sum())
    return max(error, 0.0)


def squared_errors(
    observations: Observations,
    statistics: Statistics,
    mean: FloatArray,
    intercept: FloatArray,
    codes: npt.NDArray[np.generic] | CodesElsewhere | None = None,
) -> FloatArray:
    """The `squared_error` of each column; where it would cancel is told column by column."""
    gram_mean = statistics.gram_times(observations.layout, mean)
    fitted = np.einsum("kd,kd->d", mean, gram_mean - 2.0 * statistics.cross)
    explained = sums_by_column(statistics.totals, observations.layout, mean)
    residuals = observations.column_sums - explained
    offset = intercept * (observations.column_counts * intercept - 2.0 * residuals)
    errors = np.asarray(observations.column_squares + fitted + offset)
    if statistics.doubt is not None:
        errors -= doubt_of_codes(observations, statistics, mean)
    least = cancellation(observations, statistics) * observations.column_squares
    cancelled = np.flatnonzero(errors < least)
    if cancelled.size and codes is not None:
        errors[cancelled] = sums_of_squares(observations, mean, intercept, codes, cancelled)
    return np.asarray(np.maximum(errors, 0.0))


def cancellation(observations: Observations, statistics: Statistics) -> float:
    """The part of the squares below which an error has lost digits."""
    rounded = statistics.doubt is not None and observations.dtype != np.float64
    return SINGLE_CANCELLATION if rounded else CANCELLATION


def doubt_of_codes(
    observations: Observations, statistics: Statistics, mean: FloatArray
) -> FloatArray:
    """Sum of Var[c] E[a]^2 over the observed entries of each column, for codes with variances."""
    assert statistics.doubt is not None
    return sums_by_column(statistics.doubt, observations.layout, mean**2)


@runtime_checkable
class CodesElsewhere(Protocol):
    """Codes that are where their rows are, and not here."""

    def sums_of_squares(
        self, mean: FloatArray, intercept: FloatArray, positions: Any
    ) -> FloatArray:
        """As the function of this name."""
        ...


def sums_of_squares(
    observations: Observations,
    mean: FloatArray,
    intercept: FloatArray,
    codes: npt.NDArray[np.generic] | CodesElsewhere,
    positions: Any = slice(None),
) -> FloatArray:
    """One pass over X: squared residuals at some layout positions, summed over the rows."""
    if isinstance(codes, CodesElsewhere):
        return codes.sums_of_squares(mean, intercept, positions)
    total = np.zeros(mean[:, positions].shape[1])
    for rows in ranges(observations.n_samples, ROWS_AT_ONCE):
        residual, _ = residuals_of_rows(observations, mean, intercept, codes, rows, positions)
        total += np.einsum("nd,nd->d", residual, residual)
    return total
