"""One feature that a single row has: its evidence with the factors integrated out, and its factors.

A row leaves a residual r, over its observed entries. A new feature of that row alone has factors
a_d from N(0, 1 / tau_A), or from that Gaussian's nonnegative half, and turns the likelihood of
entry d from N(r_d; 0, 1 / tau_X) into the integral of p(a_d) N(r_d - a_d; 0, 1 / tau_X). With
s^2 = 1 / (tau_X + tau_A), m_d = s^2 tau_X r_d and x_d = m_d / s the log ratio of the two is

    Gaussian      1/2 ln(tau_A s^2) + x_d^2 / 2
    half-normal   1/2 ln(tau_A s^2) + x_d^2 / 2 + ln Phi(x_d) + ln 2

and, given the residual, a_d ~ N(m_d, s^2), truncated to a_d >= 0 if the prior is.
Far to the left x^2 / 2 + ln Phi(x) is the difference of two large numbers; it is ln erfcx(-x /
sqrt 2) - ln 2, in which nothing cancels.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr

FloatArray = npt.NDArray[np.float64]
FactorPrior = Literal["half_normal", "gaussian"]


def log_scaled_cdf(x: npt.ArrayLike) -> FloatArray:
    """x^2 / 2 + ln Phi(x)."""
    x = np.asarray(x, dtype=np.float64)
    left = np.log(0.5 * erfcx(-np.minimum(x, 0.0) / np.sqrt(2.0)))
    right = 0.5 * x**2 + log_ndtr(np.maximum(x, 0.0))
    return np.asarray(np.where(x < 0.0, left, right))


def log_ratio(
    residual: FloatArray, noise_precision: float, factor_precision: float, prior: FactorPrior
) -> float:
    """Ln of the likelihood with one new feature over that with none, for the observed entries."""
    precision = noise_precision + factor_precision
    x = residual * noise_precision / np.sqrt(precision)
    per_entry = 0.5 * x**2 if prior == "gaussian" else log_scaled_cdf(x) + np.log(2.0)
    return float(per_entry.sum() + 0.5 * residual.size * np.log(factor_precision / precision))


def factor_conditional(
    residual: FloatArray, noise_precision: float, factor_precision: float
) -> tuple[FloatArray, float]:
    """Locations m and scale s of the new feature's factors, before any truncation."""
    precision = noise_precision + factor_precision
    return residual * (noise_precision / precision), float(precision**-0.5)


def log_prior_density(factors: FloatArray, factor_precision: float, prior: FactorPrior) -> float:
    """Ln p(A) of sampled factors."""
    log_height = 0.5 * np.log(factor_precision / (2.0 * np.pi))
    if prior == "half_normal":
        log_height += np.log(2.0)
    return float(factors.size * log_height - 0.5 * factor_precision * (factors**2).sum())


def draw_prior(
    shape: tuple[int, ...], factor_precision: float, prior: FactorPrior, rng: np.random.Generator
) -> FloatArray:
    """Draw factors from their prior."""
    draws = rng.standard_normal(shape) * factor_precision**-0.5
    return np.asarray(np.abs(draws) if prior == "half_normal" else draws)
