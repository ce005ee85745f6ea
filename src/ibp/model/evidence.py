"""The evidence lower bound (Eq. 8), from sufficient statistics.

F = E ln p(X | Z, A, b) + ln p([Z]) + E ln p(A) + H[q(A)] - KL of the intercept's and of the
hyperparameters' posteriors.
A feature that no row has is left out of every sum: in the limit of infinitely many features its
factors keep their prior, and it contributes exactly nothing (Sec. 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from ibp.data.observations import Observations
from ibp.model.factors import (
    FactorMoments,
    Factors,
    factor_entropy,
    feature_evidence,
    log_factor_prior,
)
from ibp.model.hyperparameters import Hyperparameters
from ibp.model.ibp_prior import Prior, harmonic_number, log_prior
from ibp.model.intercept import Intercept, NoIntercept
from ibp.model.statistics import Statistics, sums_by_column
from ibp.parallel import ranges


@dataclass(frozen=True)
class Evidence:
    """The bound and its parts."""

    likelihood: float
    assignment_prior: float
    factor_prior: float
    factor_entropy: float
    intercept: float
    hyperparameters: float

    @property
    def total(self) -> float:
        """The bound itself."""
        return (
            self.likelihood
            + self.assignment_prior
            + self.factor_prior
            + self.factor_entropy
            + self.intercept
            + self.hyperparameters
        )


# An error that is a smaller part of the data's sum of squares has lost digits to cancellation.
CANCELLATION = 1e-5


def squared_error(
    observations: Observations,
    statistics: Statistics,
    factors: FactorMoments,
    intercept: Intercept,
    *,
    expected: bool,
    codes: npt.NDArray[np.generic] | None = None,
) -> float:
    """Sum over observed entries of (x - b - z a)^2: its expectation, or its value at the means.

    From the statistics alone if that is accurate; a close fit far from zero is the small difference
    of large sums, and is summed from the residuals if the ``codes`` are given.
    """
    mean = factors.mean
    quadratic = float(np.einsum("kd,kd->", mean, statistics.gram_times(observations, mean)))
    variance = 0.0
    if expected:
        own = sums_by_column(statistics.own, observations, factors.variance)
        n_rows = observations.group_rows[observations.group_of_position]
        variance = float(own.sum() + n_rows @ intercept.variance)
    linear = float(np.einsum("kd,kd->", statistics.cross, mean))
    n_observed = observations.group_rows[observations.group_of_position]
    explained = sums_by_column(statistics.totals, observations, mean)
    offset = float(
        (
            intercept.mean
            * (n_observed * intercept.mean - 2.0 * (observations.column_sums - explained))
        ).sum()
    )
    error = observations.sum_of_squares - 2.0 * linear + quadratic + offset
    cancelled = error < CANCELLATION * observations.sum_of_squares
    if cancelled and codes is not None and not observations.sparse:
        error = _residual_sum_of_squares(observations, factors, intercept, codes)
    return max(error, 0.0) + variance


def _residual_sum_of_squares(
    observations: Observations,
    factors: FactorMoments,
    intercept: Intercept,
    codes: npt.NDArray[np.generic],
) -> float:
    """One pass over dense X."""
    components = observations.from_layout(factors.mean)
    offset = observations.from_layout(observations.centre + intercept.mean)
    total = 0.0
    for rows in ranges(observations.n_samples, observations.piece_rows):
        values = observations.values[rows].astype(np.float64)
        residual = values - offset - codes[rows].astype(np.float64) @ components
        residual[np.isnan(values)] = 0.0
        total += float(np.einsum("nd,nd->", residual, residual))
    return total


def evidence(
    observations: Observations,
    statistics: Statistics,
    factors: Factors,
    hyperparameters: Hyperparameters,
    prior: Prior = "shifted",
    multiplicities: npt.NDArray[np.int64] | None = None,
    codes: npt.NDArray[np.generic] | None = None,
    intercept: Intercept | None = None,
    entropies: npt.NDArray[np.float64] | None = None,
) -> Evidence:
    """The bound of a state.

    ``multiplicities`` of equal columns are needed for ``prior="lof"``; ``codes``, the assignments,
    keep the likelihood accurate where it would cancel; ``entropies`` of the features' factors are
    computed unless given.
    """
    if entropies is None:
        entropies = factor_entropy(factors)
    entropies = entropies[statistics.counts > 0]
    statistics, factors, codes = _active(statistics, factors, codes)
    intercept = intercept or NoIntercept.of_width(observations.n_features)
    tau = hyperparameters.noise_precision
    error = squared_error(observations, statistics, factors, intercept, expected=True, codes=codes)
    alpha = hyperparameters.alpha
    return Evidence(
        likelihood=0.5 * observations.n_observed * (tau.mean_log - np.log(2.0 * np.pi))
        - 0.5 * tau.mean * error,
        assignment_prior=log_prior(
            statistics.counts,
            observations.n_samples,
            alpha=alpha.mean,
            log_alpha=alpha.mean_log,
            prior=prior,
            multiplicities=multiplicities,
        ),
        factor_prior=float(log_factor_prior(factors, hyperparameters).sum()),
        factor_entropy=float(entropies.sum()),
        intercept=-intercept.divergence(),
        hyperparameters=-hyperparameters.divergence(),
    )


def _active(
    statistics: Statistics, factors: Factors, codes: npt.NDArray[np.generic] | None
) -> tuple[Statistics, Factors, npt.NDArray[np.generic] | None]:
    """Leave out the features that no row has."""
    active = statistics.counts > 0
    if active.all():
        return statistics, factors, codes
    return (
        statistics.select(active),
        factors.select(active),
        None if codes is None else codes[:, active],
    )


def update_hyperparameters(
    observations: Observations,
    statistics: Statistics,
    factors: Factors,
    hyperparameters: Hyperparameters,
    codes: npt.NDArray[np.generic] | None = None,
    intercept: Intercept | None = None,
) -> Hyperparameters:
    """Supplement S.3: the conjugate updates of tau_X, tau_A and alpha (known ones stay)."""
    statistics, factors, codes = _active(statistics, factors, codes)
    intercept = intercept or NoIntercept.of_width(observations.n_features)
    error = squared_error(observations, statistics, factors, intercept, expected=True, codes=codes)
    n_active = statistics.n_components
    return Hyperparameters(
        noise_precision=hyperparameters.noise_precision.updated(
            0.5 * observations.n_observed, 0.5 * error
        ),
        factor_precision=hyperparameters.factor_precision.updated(
            0.5 * n_active * observations.n_features, 0.5 * float(factors.second_moment.sum())
        ),
        alpha=hyperparameters.alpha.updated(n_active, harmonic_number(observations.n_samples)),
    )


def train_log_likelihood(
    observations: Observations,
    statistics: Statistics,
    factors: Factors,
    hyperparameters: Hyperparameters,
    codes: npt.NDArray[np.generic] | None = None,
    intercept: Intercept | None = None,
) -> float:
    """Mean over observed entries of ln N(x; E[b] + z E[A], noise_std^2)."""
    intercept = intercept or NoIntercept.of_width(observations.n_features)
    tau = hyperparameters.noise_precision.mean
    error = squared_error(observations, statistics, factors, intercept, expected=False, codes=codes)
    n = max(observations.n_observed, 1)
    return 0.5 * float(np.log(tau / (2.0 * np.pi))) - 0.5 * tau * error / n


def removal_gains(
    observations: Observations,
    statistics: Statistics,
    factors: Factors,
    hyperparameters: Hyperparameters,
    prior: Prior = "shifted",
    multiplicity: npt.NDArray[np.int64] | None = None,
    intercept: Intercept | None = None,
    entropies: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """What the bound gains if a feature is taken from all its rows, the other factors unchanged.

    Every feature must be in use.

    ``multiplicity`` is, for ``prior="lof"``, the number of columns equal to each feature's own.
    """
    n_samples = observations.n_samples
    counts = statistics.counts.astype(np.float64)
    error_change = 2.0 * np.einsum("kd,kd->k", statistics.cross, factors.mean)
    if intercept is not None:
        offset = statistics.totals[observations.group_of_position].T * intercept.mean
        error_change -= 2.0 * np.einsum("kd,kd->k", offset, factors.mean)
    mean = factors.mean
    error_change -= 2.0 * np.einsum("kd,kd->k", mean, statistics.gram_times(observations, mean))
    own = statistics.own[observations.group_of_position].T
    error_change += np.einsum("kd,kd->k", own, mean**2 - factors.variance)
    count_term = gammaln(n_samples - counts + 1.0) + gammaln(counts) - gammaln(n_samples + 1.0)
    # c(Z) loses one factor: K+ of K+!, or K_h of K_h!.
    equal = statistics.n_components if prior == "shifted" else multiplicity
    return np.asarray(
        -0.5 * hyperparameters.noise_precision.mean * error_change
        - count_term
        - feature_evidence(factors, hyperparameters, entropies)
        + np.log(np.asarray(equal, dtype=np.float64))
    )
