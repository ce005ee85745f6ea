"""q(A), the variational truncated Gaussians of the factors, and their update.

    sigma_kd^2 = 1 / (tau_X (Z'Z)_kk + tau_A)
    mu_kd = sigma_kd^2 tau_X [ (Z'X)_kd - sum over k' != k of (Z'Z)_kk' E[a_k'd] ]   (Sec. 3.3)

Z'Z is that of the rows in which column d is observed, and X is less the intercept if there is one.
The features are updated one after another, each with the newest means of the others, so every
single update raises the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.model import truncated_normal
from ibp.model.column_noise import AnyHyperparameters, KnownColumns
from ibp.model.statistics import Statistics

FloatArray = npt.NDArray[np.float64]


@dataclass
class GaussianFactors:
    """q(A) = prod N(a_kd; mean_kd, variance_kd), both K x D in layout order."""

    mean: FloatArray
    variance: FloatArray

    @property
    def second_moment(self) -> FloatArray:
        """E[a^2]."""
        return np.asarray(self.mean**2 + self.variance)


@dataclass
class Factors:
    """q(A) = prod TN(a_kd; location_kd, scale_kd), with its mean and variance, all K x D."""

    location: FloatArray
    scale: FloatArray
    mean: FloatArray
    variance: FloatArray

    @classmethod
    def from_parameters(cls, location: npt.ArrayLike, scale: npt.ArrayLike) -> Factors:
        """Compute the moments that belong to locations and scales."""
        location = np.array(location, dtype=np.float64)
        scale = np.array(np.broadcast_to(np.asarray(scale, dtype=np.float64), location.shape))
        moments = truncated_normal.moments(location, scale)
        return cls(location, scale, moments.mean, moments.variance)

    @property
    def second_moment(self) -> FloatArray:
        """E[a^2]."""
        return self.mean**2 + self.variance

    def select(self, keep: npt.NDArray[np.bool_]) -> Factors:
        """The factors of some of the features."""
        return Factors(self.location[keep], self.scale[keep], self.mean[keep], self.variance[keep])


def update_factors(
    factors: Factors,
    statistics: Statistics,
    group_start: npt.NDArray[np.int64],
    hyperparameters: AnyHyperparameters,
    intercept_mean: FloatArray | None = None,
    intercept_response: FloatArray | None = None,
) -> None:
    """Update every feature's factors in place, k = 0 .. K-1.

    An intercept, of which the means are at their optimum, is kept there: after each feature they
    move by ``intercept_response`` times the change of the column's sum of residuals.
    """
    if intercept_mean is None or intercept_response is None:
        intercept_mean = np.zeros(factors.mean.shape[1])
        intercept_response = np.zeros(factors.mean.shape[1])
    width = factors.mean.shape[1]
    noise_precision = np.broadcast_to(hyperparameters.noise_precision.mean, width)
    factor_precision = np.broadcast_to(hyperparameters.factor_precision.mean, width)
    for k in range(statistics.n_components):
        for g in range(group_start.size - 1):
            columns = slice(group_start[g], group_start[g + 1])
            coupling = statistics.gram[g, k].copy()
            own = coupling[k]
            coupling[k] = 0.0
            residual = statistics.cross[k, columns] - coupling @ factors.mean[:, columns]
            residual -= statistics.totals[g, k] * intercept_mean[columns]
            variance = 1.0 / (noise_precision[columns] * own + factor_precision[columns])
            location = variance * noise_precision[columns] * residual
            scale = np.sqrt(variance)
            moments = truncated_normal.moments(location, scale)
            change = statistics.totals[g, k] * (moments.mean - factors.mean[k, columns])
            intercept_mean[columns] -= intercept_response[columns] * change
            factors.location[k, columns] = location
            factors.scale[k, columns] = scale
            factors.mean[k, columns] = moments.mean
            factors.variance[k, columns] = moments.variance


def feature_evidence(
    factors: Factors, hyperparameters: AnyHyperparameters, entropies: FloatArray | None = None
) -> FloatArray:
    """eta_k: what an active feature adds to the bound beside likelihood and counts.

    (D/2)(E ln tau_A + ln(2/pi)) - E[tau_A] sum_d E[a_kd^2] / 2 + H(q(a_k)) + E ln alpha,
    or the sum over the columns if each has a tau_A of its own.
    ``entropies`` are those of `factor_entropy`, if they are known already.
    """
    return (
        log_factor_prior(factors, hyperparameters)
        + (factor_entropy(factors) if entropies is None else entropies)
        + hyperparameters.alpha.mean_log
    )


def log_factor_prior(factors: Factors, hyperparameters: AnyHyperparameters) -> FloatArray:
    """E ln p(a_k) under the half-normal prior, one number per feature."""
    tau = hyperparameters.factor_precision
    n_features = factors.mean.shape[1]
    if isinstance(tau, KnownColumns):
        constant = 0.5 * float((tau.mean_log + np.log(2.0 / np.pi)).sum())
        return np.asarray(constant - 0.5 * factors.second_moment @ tau.mean)
    return np.asarray(
        0.5 * n_features * (tau.mean_log + np.log(2.0 / np.pi))
        - 0.5 * tau.mean * factors.second_moment.sum(axis=1)
    )


def factor_entropy(factors: Factors) -> FloatArray:
    """H(q(a_k)), one number per feature."""
    return np.asarray(truncated_normal.entropy(factors.location, factors.scale).sum(axis=1))
