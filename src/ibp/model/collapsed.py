"""Gaussian factors, integrated out: the evidence of Z alone, and the posterior of A given Z.

With a_kd ~ N(0, 1 / tau_k) and P = tau_X Z'Z + diag(tau), for a column x with n observed entries

    ln p(x | Z) = -n/2 ln(2 pi / tau_X) + 1/2 sum_k ln tau_k - 1/2 ln |P|
                  - tau_X / 2 ||x||^2 + tau_X^2 / 2 (Z'x)' P^-1 (Z'x)
    a | x, Z ~ N(tau_X P^-1 Z'x, P^-1) .

An intercept is a feature that every row has, with a precision of its own. Rows count only where the
column is observed, so there is one P per column group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular

from ibp.data.observations import Observations
from ibp.model.statistics import Statistics, times_by_group
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]

# Entries of the groups' matrices that are worked on together.
ENTRIES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class FactorPosterior:
    """A given Z: means (K x D, layout order), and covariances by column group.

    Attributes
    ----------
    mean : ndarray of shape (K, D)
        E[A].
    covariance : ndarray of shape (G, K, K)
        Of the factors of any one column of a group.
    log_likelihood : float
        ln p(X | Z), the factors integrated out.
    """

    mean: FloatArray
    covariance: FloatArray
    log_likelihood: float

    def variance(self, observations: Observations) -> FloatArray:
        """The variance of each factor, K x D."""
        diagonal = np.diagonal(self.covariance, axis1=1, axis2=2)
        return np.asarray(diagonal[observations.layout.group_of_position].T)


def factor_posterior(
    observations: Observations,
    statistics: Statistics,
    noise_precision: float,
    prior_precision: FloatArray,
) -> FactorPosterior:
    """The posterior of A and the evidence of Z; ``prior_precision`` has one number per feature."""
    k = statistics.n_components
    cross = noise_precision * statistics.cross
    covariance = np.empty_like(statistics.gram)
    log_determinants = np.empty(observations.layout.n_groups)
    for groups in ranges(observations.layout.n_groups, max(1, ENTRIES_AT_ONCE // max(k * k, 1))):
        precision = noise_precision * statistics.gram[groups]
        precision[:, np.arange(k), np.arange(k)] += prior_precision
        factor = np.linalg.cholesky(precision)
        inverse = np.linalg.inv(factor)
        covariance[groups] = inverse.transpose(0, 2, 1) @ inverse
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        log_determinants[groups] = 2.0 * np.log(diagonal).sum(axis=1)
    mean = times_by_group(covariance, observations.layout, cross)
    log_ratios = 0.5 * (np.log(prior_precision).sum() - log_determinants)
    total = (
        0.5 * observations.n_observed * np.log(noise_precision / (2.0 * np.pi))
        - 0.5 * noise_precision * observations.sum_of_squares
        + np.diff(observations.layout.group_start) @ log_ratios
        + 0.5 * (cross * mean).sum()
    )
    return FactorPosterior(mean, covariance, float(total))


def draw_factors(
    gram: FloatArray,
    cross: FloatArray,
    noise_precision: float,
    prior_precision: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """A | X, Z ~ N(tau_X P^-1 Z'X, P^-1) with P = tau_X Z'Z + diag(prior precision)."""
    root = cholesky(noise_precision * gram + np.diag(prior_precision), lower=True)
    whitened = solve_triangular(root, noise_precision * cross, lower=True)
    whitened += rng.standard_normal(cross.shape)
    return np.asarray(solve_triangular(root, whitened, lower=True, trans="T"))
