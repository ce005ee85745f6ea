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
def refresh(quadratic, linear, site_precision, site_linear, matrices, covariance, mean):
    """V and m of one column from its sites; return half the log-determinant of V."""
    n = linear.shape[0]
    precision, inverse_factor = matrices
    for k in range(n):
        for j in range(n):
            precision[k, j] = quadratic[k, j]
        precision[k, k] += site_precision[k]
    half_log_determinant = invert(precision, inverse_factor, covariance)
    for k in range(n):
        mean[k] = 0.0
    for i in range(n):
        total = 0.0
        for j in range(i + 1):
            total += inverse_factor[i, j] * (linear[j] + site_linear[j])
        for k in range(i + 1):
            mean[k] += inverse_factor[i, k] * total
    return half_log_determinant


@kernel
def cavity(k, quadratic, linear, covariance, mean, regression):
    """Precision and linear term of a factor without its site; fills ``regression`` with u."""
    precision = quadratic[k, k]
    linear_term = linear[k]
    own = covariance[k, k]
    for j in range(linear.shape[0]):
        if j != k:
            regression[j] = covariance[j, k] / own
            precision += quadratic[k, j] * regression[j]
            linear_term -= quadratic[k, j] * (mean[j] - regression[j] * mean[k])
        else:
            regression[j] = 1.0
    return min(max(precision, 0.0), quadratic[k, k]), linear_term


@kernel
def pass_over_sites(
    quadratic,
    linear,
    factor_precision,
    power,
    damping,
    site_precision,
    site_linear,
    covariance,
    mean,
    matrices,
    vectors,
):
    """Match the moments of every site of one column in turn; V and m follow."""
    regression, ratio, standard_mean, standard_variance = vectors
    n = linear.shape[0]
    for k in range(n):
        if not covariance[k, k] * (quadratic[k, k] + site_precision[k]) >= 1.0 - DRIFT:
            refresh(quadratic, linear, site_precision, site_linear, matrices, covariance, mean)
        precision, linear_term = cavity(k, quadratic, linear, covariance, mean, regression)
        tilted = precision + (1.0 - power) * site_precision[k] + power * factor_precision
        root = math.sqrt(tilted)
        ratio[0] = max((linear_term + (1.0 - power) * site_linear[k]) / root, LOWEST_RATIO)
        standard_moments_of(ratio, standard_mean, standard_variance)
        matched = 1.0 / standard_variance[0]
        new_precision = factor_precision + tilted * max(matched - 1.0, 0.0) / power
        new_linear = root * (standard_mean[0] * matched - ratio[0]) / power
        site_precision[k] = damping * site_precision[k] + (1.0 - damping) * new_precision
        site_linear[k] = damping * site_linear[k] + (1.0 - damping) * new_linear
        own = 1.0 / (precision + site_precision[k])
        change = own - covariance[k, k]
        shift = own * (linear_term + site_linear[k]) - mean[k]
        for i in range(n):
            step = change * regression[i]
            for j in range(n):
                covariance[i, j] += step * regression[j]
            mean[i] += shift * regression[i]
        # Once more without the difference, which may have cancelled.
        for i in range(n):
            covariance[i, k] = own * regression[i]
            covariance[k, i] = covariance[i, k]
        mean[k] = own * (linear_term + site_linear[k])


@kernel
def log_site_terms(
    quadratic,
    linear,
    factor_precision,
    power,
    site_precision,
    site_linear,
    covariance,
    mean,
    vectors,
):
    """What the sites of one column add to the logarithm of its partition function."""
    regression, ratio, standard_mean, standard_variance = vectors
    total = 0.0
    for k in range(linear.shape[0]):
        precision, linear_term = cavity(k, quadratic, linear, covariance, mean, regression)
        tilted = precision + (1.0 - power) * site_precision[k] + power * factor_precision
        ratio[0] = (linear_term + (1.0 - power) * site_linear[k]) / math.sqrt(tilted)
        ratio[0] = max(ratio[0], LOWEST_RATIO)
        marginal = mean[k] / math.sqrt(covariance[k, k])
        # ln of exp(ratio^2 / 2) times the mass above zero, less marginal^2 / 2.
        if ratio[0] < 0.0:
            standard_moments_of(ratio, standard_mean, standard_variance)
            log_ratio = -HALF_LOG_TWO_PI - math.log(standard_mean[0] - ratio[0])
            log_ratio -= 0.5 * marginal * marginal
        else:
            log_ratio = math.log1p(-0.5 * math.erfc(ratio[0] / math.sqrt(2.0)))
            log_ratio += 0.5 * (ratio[0] - marginal) * (ratio[0] + marginal)
        log_ratio -= 0.5 * math.log(tilted) + 0.5 * math.log(covariance[k, k])
        total += log_ratio / power
        total += mean[k] * (site_linear[k] - 0.5 * site_precision[k] * mean[k])
    return total


@kernel
def update_sites(
    second_moments,
    cross,
    group_of_position,
    noise_precision,
    factor_precision,
    power,
    damping,
    n_passes,
    site_precision,
    site_linear,
    mean,
    covariance,
    log_partition,
    first,
    last,
):
    """Passes over the sites of the columns ``first`` to ``last``; V, m and the partition follow.

    ``second_moments`` (G x K x K) holds E[Z'Z] of each column group and ``cross`` (K x D) E[Z]'X.
    Changed in place are the sites (D x K), ``mean`` (K x D), ``covariance`` (D x K x K) and
    ``log_partition`` (D), as `ibp.model.expectation_propagation.log_partition` less what the means
    explain. Columns do not depend on one another, so that threads can share them.
    """
    n = cross.shape[0]
    quadratic = np.empty((n, n))
    linear = np.empty(n)
    column_mean = np.empty(n)
    matrices = (np.empty((n, n)), np.empty((n, n)))
    vectors = (np.empty(n), np.empty(1), np.empty(1), np.empty(1))
    for d in range(first, last):
        moments = second_moments[group_of_position[d]]
        for k in range(n):
            linear[k] = noise_precision * cross[k, d]
            for j in range(n):
                quadratic[k, j] = noise_precision * moments[k, j]
        sites = (site_precision[d], site_linear[d])
        refresh(quadratic, linear, sites[0], sites[1], matrices, covariance[d], column_mean)
        for _ in range(n_passes):
            pass_over_sites(
                quadratic,
                linear,
                factor_precision,
                power,
                damping,
                sites[0],
                sites[1],
                covariance[d],
                column_mean,
                matrices,
                vectors,
            )
        # Against the drift of the rank-one refreshes.
        log_partition[d] = n * HALF_LOG_TWO_PI + refresh(
            quadratic, linear, sites[0], sites[1], matrices, covariance[d], column_mean
        )
        log_partition[d] += log_site_terms(
            quadratic,
            linear,
            factor_precision,
            power,
            sites[0],
            sites[1],
            covariance[d],
            column_mean,
            vectors,
        )
        for k in range(n):
            mean[k, d] = column_mean[k]
