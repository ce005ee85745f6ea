"""Gaussian approximation of nonnegative factors by (power) expectation propagation.

One column's factors a (K of them), given what is expected of everything else, have the density

    p(a) proportional to exp(-a'Pa / 2 + b'a) prod over k of t(a_k),
    t(a) = sqrt(2 tau_A / pi) exp(-tau_A a^2 / 2) for a >= 0, else 0,

with P = E[tau_X] E[Z'Z] and b = E[tau_X] E[Z]'x. Each t, the half-normal prior and its cut at zero
in one, is replaced by a Gaussian site exp(-s a^2 / 2 + n a), so that q(a) = N(m, V) with
V^-1 = P + diag(s) and V^-1 m = b + n (Ding et al. 2010). One site at a time:

    cavity: the marginal of q without the site to the power rho,
            c = 1 / V_kk - rho s_k,  h = m_k / V_kk - rho n_k
    tilted: the cavity times t^rho, a Gaussian of precision w = c + rho tau_A and location h / w,
            cut at zero; its mean and variance are matched by
    site:   s_k = (1 / variance - c) / rho,  n_k = (mean / variance - h) / rho .

rho = 1 is expectation propagation; for a single factor it is exact. Because t is log-concave a cut
never widens: variance <= 1 / w, so every site has s_k >= tau_A, V^-1 - tau_A I is nonnegative
definite, and so is every cavity's precision. Damping takes a weighted mean of old and new site, of
which the same is true. No update has to be refused; only rounding could leave a negative variance.

The partition function Z = integral of exp(-a'Pa / 2 + b'a) prod t(a_k), whose logarithm is what the
column adds to the evidence, is approximated along with it:

    ln Z = ln integral of exp(-a'Pa / 2 + b'a) prod of sites
         + sum over k of 1 / rho ln integral of q(a_k) (t / site_k)^rho .

At a fixed point its derivatives are those of ln Z with q in the place of p, that is
d ln Z / db = m and d ln Z / dP = -(V + m m') / 2: the updates of everything else that use q's
moments climb the same objective.

This is the slow and plain version; `ibp.kernels.nonnegative_sites` is tested against it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.model.new_feature import log_scaled_cdf
from ibp.model.truncated_normal import standard_moments

FloatArray = npt.NDArray[np.float64]


class Tilted(NamedTuple):
    """A cavity times the power of a half-normal prior, elementwise."""

    mean: FloatArray
    variance: FloatArray
    # ln of the integral of exp(-c a^2 / 2 + h a) t(a)^rho, with t's constant left out.
    log_normalizer: FloatArray
    # The site that gives the marginal these moments.
    site_precision: FloatArray
    site_linear: FloatArray


def tilted(
    cavity_precision: npt.ArrayLike,
    cavity_linear: npt.ArrayLike,
    factor_precision: float,
    power: float = 1.0,
) -> Tilted:
    """Moments of the tilted distribution, and the site that matches them.

    The site is written with differences that cannot cancel: s = tau_A + w (1 / v - 1) / rho and
    n = sqrt(w) (g / v - r) / rho, with g and v the moments of TN(r, 1) and r = h / sqrt(w).
    """
    precision = np.asarray(cavity_precision, dtype=np.float64) + power * factor_precision
    root = np.sqrt(precision)
    ratio = np.asarray(cavity_linear, dtype=np.float64) / root
    standard = standard_moments(ratio)
    return Tilted(
        standard.mean / root,
        standard.variance / precision,
        0.5 * np.log(2.0 * np.pi) - np.log(root) + log_scaled_cdf(ratio),
        factor_precision + precision * (1.0 / standard.variance - 1.0) / power,
        root * (standard.mean / standard.variance - ratio) / power,
    )


class Sites(NamedTuple):
    """Natural parameters of one column's sites, K each."""

    precision: FloatArray
    linear: FloatArray


def posterior(
    quadratic: FloatArray, linear: FloatArray, sites: Sites
) -> tuple[FloatArray, FloatArray]:
    """The m and V of one column."""
    precision = quadratic + np.diag(sites.precision)
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return covariance @ (linear + sites.linear), covariance


def cavities(
    mean: FloatArray, covariance: FloatArray, sites: Sites, power: float
) -> tuple[FloatArray, FloatArray]:
    """Precisions and linear terms of all marginals, each without its site to the power."""
    variance = np.diagonal(covariance)
    return (
        np.maximum(1.0 / variance - power * sites.precision, 0.0),
        mean / variance - power * sites.linear,
    )


def pass_over_sites(
    quadratic: FloatArray,
    linear: FloatArray,
    sites: Sites,
    factor_precision: float,
    power: float = 1.0,
    damping: float = 0.0,
) -> Sites:
    """Update the sites of one column in turn; ``damping`` is the weight of the old ones."""
    precision, site_linear = sites.precision.copy(), sites.linear.copy()
    for k in range(linear.size):
        current = Sites(precision, site_linear)
        mean, covariance = posterior(quadratic, linear, current)
        cavity_precision, cavity_linear = cavities(mean, covariance, current, power)
        new = tilted(cavity_precision[k], cavity_linear[k], factor_precision, power)
        precision[k] = damping * precision[k] + (1.0 - damping) * new.site_precision
        site_linear[k] = damping * site_linear[k] + (1.0 - damping) * new.site_linear
    return Sites(precision, site_linear)


def log_prior_constant(mean_log_factor_precision: float) -> float:
    """E ln of t's constant, sqrt(2 tau_A / pi)."""
    return 0.5 * (mean_log_factor_precision + float(np.log(2.0 / np.pi)))


def log_partition(
    quadratic: FloatArray,
    linear: FloatArray,
    sites: Sites,
    factor_precision: float,
    power: float = 1.0,
) -> float:
    """The approximate ln Z of one column, with the constants of t left out.

    The Gaussian integral is written as b'm - m'Pm / 2, which is what the means explain of the data,
    and a rest; the compiled version returns the rest alone.
    """
    mean, covariance = posterior(quadratic, linear, sites)
    variance = np.diagonal(covariance)
    cavity = cavities(mean, covariance, sites, power)
    log_ratios = (
        tilted(*cavity, factor_precision, power).log_normalizer
        - 0.5 * mean**2 / variance
        - 0.5 * np.log(2.0 * np.pi * variance)
    )
    explained = linear @ mean - 0.5 * mean @ quadratic @ mean
    at_mean = sites.linear @ mean - 0.5 * sites.precision @ mean**2
    _, log_determinant = np.linalg.slogdet(covariance)
    gaussian = 0.5 * log_determinant + 0.5 * linear.size * np.log(2.0 * np.pi)
    return float(explained + at_mean + gaussian + log_ratios.sum() / power)
