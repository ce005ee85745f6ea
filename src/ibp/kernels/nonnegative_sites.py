"""Expectation propagation for nonnegative factors, column by column.

`ibp.model.expectation_propagation` states the equations. Here nothing is subtracted that could
cancel: a site can be many orders of magnitude more precise than its cavity, so that the cavity is
not found by taking the site away from the marginal, but from the regression of the other factors on
this one. With u_l = V_lk / V_kk, the cavity without the whole site has

    precision c = P_kk + sum over l != k of P_kl u_l
    linear term h = b_k - sum over l != k of P_kl (m_l - u_l m_k) ,

and u does not change with the site of k, so that the rank-one refresh is

    V_kk' = 1 / (c + site'),  m_k' = V_kk' (h + linear'),
    V_lk' = u_l V_kk',  V_lj' = V_lj + u_l u_j (V_kk' - V_kk),  m_l' = m_l + u_l (m_k' - m_k) .
"""

import math
from typing import NamedTuple

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.factors import dot
from ibp.kernels.truncated_normal import standard_moments_of

# Pivots are kept above this part of their diagonal, per row of the matrix: below lies rounding.
LEAST_PIVOT = 4.0 * np.finfo(np.float64).eps
# Ratios further below could overflow; the mean is then zero for every purpose.
LOWEST_RATIO = -1e20
# V_kk can be no less than the inverse of (V^-1)_kk; by so much less it is, by rounding.
DRIFT = 1e-8
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Settings(NamedTuple):
    """What all columns have in common."""

    noise_precision: float  # E[tau_X]
    factor_precision: float  # E[tau_A]
    power: float  # rho
    damping: float  # the weight of the old sites in an update
    n_passes: int  # how often all sites of a column are updated


class Column(NamedTuple):
    """P (K x K) and b (K), which the data say of the factors of one column."""

    quadratic: np.ndarray
    linear: np.ndarray


class Sites(NamedTuple):
    """Natural parameters of the sites: K each for one column, D x K for several."""

    precision: np.ndarray
    linear: np.ndarray


class Gaussian(NamedTuple):
    """m (K) and V (K x K) of one column."""

    mean: np.ndarray
    covariance: np.ndarray


class Posterior(NamedTuple):
    """What sites make of D columns."""

    mean: np.ndarray  # (K, D), the m_j side by side
    covariance: np.ndarray  # (D, K, K), the V_j
    # (D,), as `ibp.model.expectation_propagation.log_partition`, less what the means explain.
    log_partition: np.ndarray


class Space(NamedTuple):
    """Work space: two matrices, the vector u, and single numbers for the moments of a site."""

    precision: np.ndarray
    inverse_factor: np.ndarray
    regression: np.ndarray
    ratio: np.ndarray
    standard_mean: np.ndarray
    standard_variance: np.ndarray


@kernel
def invert(matrix, inverse_factor, inverse):
    """Invert a positive definite matrix; return half the log-determinant of the inverse.

    By Cholesky. A pivot that rounding has made too small is raised, so that the inverse is positive
    definite whatever the input. ``inverse_factor`` is filled with the inverse of the factor.
    """
    n = matrix.shape[0]
    lower = inverse
    half_log_determinant = 0.0
    for k in range(n):
        for j in range(k + 1):
            total = matrix[k, j] - dot(lower[k, :j], lower[j, :j])
            if j < k:
                lower[k, j] = total / lower[j, j]
            else:
                lower[k, k] = math.sqrt(max(total, n * LEAST_PIVOT * matrix[k, k]))
        half_log_determinant -= math.log(lower[k, k])
    for j in range(n):
        for k in range(j):
            inverse_factor[k, j] = 0.0
        inverse_factor[j, j] = 1.0 / lower[j, j]
        for k in range(j + 1, n):
            total = 0.0
            for i in range(j, k):
                total += lower[k, i] * inverse_factor[i, j]
            inverse_factor[k, j] = -total / lower[k, k]
    for k in range(n):
        for j in range(k + 1):
            inverse[k, j] = 0.0
    for i in range(n):
        for k in range(i + 1):
            scale = inverse_factor[i, k]
            for j in range(k + 1):
                inverse[k, j] += scale * inverse_factor[i, j]
    for k in range(n):
        for j in range(k):
            inverse[j, k] = inverse[k, j]
    return half_log_determinant


@kernel
def refresh(column, sites, gaussian, space):
    """V and m of one column from its sites; return half the log-determinant of V."""
    n = column.linear.shape[0]
    precision, inverse_factor, mean = space.precision, space.inverse_factor, gaussian.mean
    for k in range(n):
        for j in range(n):
            precision[k, j] = column.quadratic[k, j]
        precision[k, k] += sites.precision[k]
    half_log_determinant = invert(precision, inverse_factor, gaussian.covariance)
    for k in range(n):
        mean[k] = 0.0
    for i in range(n):
        total = 0.0
        for j in range(i + 1):
            total += inverse_factor[i, j] * (column.linear[j] + sites.linear[j])
        for k in range(i + 1):
            mean[k] += inverse_factor[i, k] * total
    return half_log_determinant


@kernel
def cavity(k, column, gaussian, regression):
    """Precision and linear term of a factor without its site; fills ``regression`` with u."""
    quadratic, mean, covariance = column.quadratic, gaussian.mean, gaussian.covariance
    precision = quadratic[k, k]
    linear_term = column.linear[k]
    own = covariance[k, k]
    for j in range(mean.shape[0]):
        if j != k:
            regression[j] = covariance[j, k] / own
            precision += quadratic[k, j] * regression[j]
            linear_term -= quadratic[k, j] * (mean[j] - regression[j] * mean[k])
        else:
            regression[j] = 1.0
    return min(max(precision, 0.0), quadratic[k, k]), linear_term


@kernel
def pass_over_sites(column, settings, sites, gaussian, space):
    """Match the moments of every site of one column in turn; V and m follow."""
    power, damping = settings.power, settings.damping
    factor_precision = settings.factor_precision
    mean, covariance = gaussian.mean, gaussian.covariance
    regression, ratio = space.regression, space.ratio
    standard_mean, standard_variance = space.standard_mean, space.standard_variance
    n = mean.shape[0]
    for k in range(n):
        if not covariance[k, k] * (column.quadratic[k, k] + sites.precision[k]) >= 1.0 - DRIFT:
            refresh(column, sites, gaussian, space)
        precision, linear_term = cavity(k, column, gaussian, regression)
        tilted = precision + (1.0 - power) * sites.precision[k] + power * factor_precision
        root = math.sqrt(tilted)
        ratio[0] = max((linear_term + (1.0 - power) * sites.linear[k]) / root, LOWEST_RATIO)
        standard_moments_of(ratio, standard_mean, standard_variance)
        matched = 1.0 / standard_variance[0]
        new_precision = factor_precision + tilted * max(matched - 1.0, 0.0) / power
        new_linear = root * (standard_mean[0] * matched - ratio[0]) / power
        sites.precision[k] = damping * sites.precision[k] + (1.0 - damping) * new_precision
        sites.linear[k] = damping * sites.linear[k] + (1.0 - damping) * new_linear
        own = 1.0 / (precision + sites.precision[k])
        change = own - covariance[k, k]
        shift = own * (linear_term + sites.linear[k]) - mean[k]
        for i in range(n):
            step = change * regression[i]
            for j in range(n):
                covariance[i, j] += step * regression[j]
            mean[i] += shift * regression[i]
        # Once more without the difference, which may have cancelled.
        for i in range(n):
            covariance[i, k] = own * regression[i]
            covariance[k, i] = covariance[i, k]
        mean[k] = own * (linear_term + sites.linear[k])


@kernel
def log_site_terms(column, settings, sites, gaussian, space):
    """What the sites of one column add to the logarithm of its partition function."""
    power, factor_precision = settings.power, settings.factor_precision
    mean, covariance, ratio = gaussian.mean, gaussian.covariance, space.ratio
    total = 0.0
    for k in range(mean.shape[0]):
        precision, linear_term = cavity(k, column, gaussian, space.regression)
        tilted = precision + (1.0 - power) * sites.precision[k] + power * factor_precision
        ratio[0] = (linear_term + (1.0 - power) * sites.linear[k]) / math.sqrt(tilted)
        ratio[0] = max(ratio[0], LOWEST_RATIO)
        marginal = mean[k] / math.sqrt(covariance[k, k])
        # ln of exp(ratio^2 / 2) times the mass above zero, less marginal^2 / 2.
        if ratio[0] < 0.0:
            standard_moments_of(ratio, space.standard_mean, space.standard_variance)
            log_ratio = -HALF_LOG_TWO_PI - math.log(space.standard_mean[0] - ratio[0])
            log_ratio -= 0.5 * marginal * marginal
        else:
            log_ratio = math.log1p(-0.5 * math.erfc(ratio[0] / math.sqrt(2.0)))
            log_ratio += 0.5 * (ratio[0] - marginal) * (ratio[0] + marginal)
        log_ratio -= 0.5 * math.log(tilted) + 0.5 * math.log(covariance[k, k])
        total += log_ratio / power
        total += mean[k] * (sites.linear[k] - 0.5 * sites.precision[k] * mean[k])
    return total


@kernel
def update_sites(second_moments, cross, group_of_column, settings, sites):
    """Passes over the ``sites`` of some columns, in place; return the `Posterior` that follows.

    ``second_moments`` (G x K x K) holds E[Z'Z] of each column group and ``cross`` (K x D) E[Z]'X of
    these columns. Columns do not depend on one another.
    """
    n, n_columns = cross.shape
    posterior = Posterior(
        np.empty((n, n_columns)), np.empty((n_columns, n, n)), np.empty(n_columns)
    )
    column = Column(np.empty((n, n)), np.empty(n))
    mean = np.empty(n)
    space = Space(
        np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty(1), np.empty(1), np.empty(1)
    )
    for d in range(n_columns):
        moments = second_moments[group_of_column[d]]
        for k in range(n):
            column.linear[k] = settings.noise_precision * cross[k, d]
            for j in range(n):
                column.quadratic[k, j] = settings.noise_precision * moments[k, j]
        own_sites = Sites(sites.precision[d], sites.linear[d])
        gaussian = Gaussian(mean, posterior.covariance[d])
        refresh(column, own_sites, gaussian, space)
        for _ in range(settings.n_passes):
            pass_over_sites(column, settings, own_sites, gaussian, space)
        # Against the drift of the rank-one refreshes.
        half_log_determinant = refresh(column, own_sites, gaussian, space)
        posterior.log_partition[d] = n * HALF_LOG_TWO_PI + half_log_determinant
        posterior.log_partition[d] += log_site_terms(column, settings, own_sites, gaussian, space)
        for k in range(n):
            posterior.mean[k, d] = mean[k]
    return posterior
