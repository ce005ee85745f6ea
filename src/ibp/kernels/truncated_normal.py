"""Moments and entropy of the truncated Gaussian, at table speed.

The standardised mean g(x) and variance v(x) of TN(x, 1) are smooth, so a polynomial per interval of
width 1/8 reproduces them to rounding. The tables are interpolated from `ibp.model.truncated_normal`
when this module is imported. To the right of the table truncation has no effect in double
precision; to its left a short continued fraction is exact.
"""

import math

import numpy as np

from ibp.compiled import inner_kernel, kernel
from ibp.model.truncated_normal import standard_moments

TABLE_START = -20.0
TABLE_STOP = 9.0
PER_UNIT = 8
DEGREE = 8
# The last number whose distance from the start of the table does not round to the table's length.
LAST_IN_TABLE = TABLE_START + np.nextafter(TABLE_STOP - TABLE_START, 0.0)
TAIL_LEVELS = 14  # n! / 20^(2n) is below rounding
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def _interpolate():
    """Polynomial coefficients per interval, lowest power first, in the local variable [-1, 1]."""
    n_intervals = int((TABLE_STOP - TABLE_START) * PER_UNIT)
    centres = TABLE_START + (np.arange(n_intervals) + 0.5) / PER_UNIT
    nodes = np.polynomial.chebyshev.chebpts1(DEGREE + 1)
    moments = standard_moments(centres[:, None] + 0.5 * nodes / PER_UNIT)
    values_to_chebyshev = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, DEGREE)).T
    # Two steps, because the high Chebyshev coefficients are tiny and the high powers' are not.
    chebyshev_to_powers = np.zeros((DEGREE + 1, DEGREE + 1))
    for power in range(DEGREE + 1):
        unit = np.eye(1, DEGREE + 1, power)[0]
        chebyshev_to_powers[power, : power + 1] = np.polynomial.chebyshev.cheb2poly(unit)
    return tuple(
        np.ascontiguousarray((values @ values_to_chebyshev) @ chebyshev_to_powers)
        for values in (moments.mean, moments.variance)
    )


MEAN_TABLE, VARIANCE_TABLE = _interpolate()


@kernel
def tail_moments(x):
    """Mean and variance of TN(x, 1) to the left of the table."""
    rest = -x
    for level in range(TAIL_LEVELS, 2, -1):
        rest = -x + level / rest
    mean = 1.0 / (-x + 2.0 / rest)
    return mean, mean * mean * (-2.0 * x / rest + 4.0 / (rest * rest) - 1.0)


@kernel(fastmath={"contract"})
def standard_moments_of(ratio, mean, variance):
    """Fill ``mean`` and ``variance`` with the moments of TN(ratio, 1), elementwise.

    The loop has no branch but selections: a mispredicted branch would cost as much as a
    polynomial.
    """
    in_tail = 0
    for i in range(ratio.shape[0]):
        x = ratio[i]
        position = (min(max(x, TABLE_START), LAST_IN_TABLE) - TABLE_START) * PER_UNIT
        interval = np.int64(position)
        u = 2.0 * (position - interval) - 1.0
        m = MEAN_TABLE[interval, DEGREE]
        v = VARIANCE_TABLE[interval, DEGREE]
        for power in range(DEGREE - 1, -1, -1):
            m = m * u + MEAN_TABLE[interval, power]
            v = v * u + VARIANCE_TABLE[interval, power]
        mean[i] = x if x >= TABLE_STOP else m
        variance[i] = 1.0 if x >= TABLE_STOP else v
        in_tail += x < TABLE_START
    if in_tail:
        for i in range(ratio.shape[0]):
            if ratio[i] < TABLE_START:
                mean[i], variance[i] = tail_moments(ratio[i])


@inner_kernel
def standard_moments_at(x):
    """Mean and variance of TN(x, 1) for a single ratio."""
    if x >= TABLE_STOP:
        return x, 1.0
    if x < TABLE_START:
        return tail_moments(x)
    position = (min(x, LAST_IN_TABLE) - TABLE_START) * PER_UNIT
    interval = np.int64(position)
    u = 2.0 * (position - interval) - 1.0
    m = MEAN_TABLE[interval, DEGREE]
    v = VARIANCE_TABLE[interval, DEGREE]
    for power in range(DEGREE - 1, -1, -1):
        m = m * u + MEAN_TABLE[interval, power]
        v = v * u + VARIANCE_TABLE[interval, power]
    return m, v


@inner_kernel
def standard_log_mass(x, mean):
    """Ln Phi(x), with the mean of TN(x, 1) that the caller has.

    For negative x it is ln[phi(x) / hazard], the hazard being the mean less x: a sum.
    """
    if x >= TABLE_STOP:  # less than 1e-18
        return 0.0
    if x < 0.0:
        return -0.5 * x * x - HALF_LOG_TWO_PI - math.log(mean - x)
    return math.log1p(-0.5 * math.erfc(x / math.sqrt(2.0)))


@kernel
def standard_entropy(x, mean):
    """Entropy of TN(x, 1), whose mean the caller has."""
    if x < 0.0:
        return 0.5 * (1.0 - x * mean) - math.log(mean - x)
    missing_mass = 0.5 * math.erfc(x / math.sqrt(2.0))
    hazard = math.exp(-0.5 * x * x) / (math.sqrt(2.0 * math.pi) * (1.0 - missing_mass))
    return 0.5 * math.log(2.0 * math.pi * math.e) + math.log1p(-missing_mass) - 0.5 * x * hazard
