"""The Gaussian truncated to the nonnegative half line: moments, entropy, draws.

TN(location, scale) has density proportional to N(a; location, scale^2) for a >= 0 (supplement S.1).
Everything follows from the standardised mean as a function of the ratio x = location / scale,

    g(x) = x + sqrt(2 / pi) / erfcx(-x / sqrt 2) .

For negative x that sum cancels, and the second moment 1 + x g(x) and the variance cancel further:
at x = -1e6 nothing is left. There we use Laplace's continued fraction of the Mills ratio,
g(-y) = 1 / (y + 2 / (y + 3 / (y + ...))), in which nothing is subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr, ndtri_exp

FloatArray = npt.NDArray[np.float64]

# Below this ratio the continued fraction is used, with enough levels for full precision there.
TAIL = -2.5
TAIL_LEVELS = 120
# Below this ratio the inverse of the cumulative distribution is solved for in the tail's own scale.
SAMPLING_TAIL = -10.0


class Moments(NamedTuple):
    """First two moments and variance, elementwise."""

    mean: FloatArray
    second_moment: FloatArray
    variance: FloatArray


def standard_moments(ratio: npt.ArrayLike) -> Moments:
    """Moments of TN(ratio, 1)."""
    x = np.atleast_1d(np.asarray(ratio, dtype=np.float64))
    mean = np.empty_like(x)
    second = np.empty_like(x)
    variance = np.empty_like(x)

    tail = x < TAIL
    body = ~tail
    hazard = np.sqrt(2.0 / np.pi) / erfcx(-x[body] / np.sqrt(2.0))
    mean[body] = x[body] + hazard
    second[body] = 1.0 + x[body] * mean[body]
    variance[body] = 1.0 - hazard * mean[body]

    y = -x[tail]
    # rest = y + 3 / (y + 4 / (y + ...)), so that g(-y) = 1 / (y + 2 / rest).
    rest = y
    for level in range(TAIL_LEVELS, 2, -1):
        rest = y + level / rest
    mean[tail] = 1.0 / (y + 2.0 / rest)
    second[tail] = 2.0 * mean[tail] / rest
    variance[tail] = mean[tail] ** 2 * (2.0 * y / rest + 4.0 / rest**2 - 1.0)

    shape = np.shape(ratio)
    return Moments(mean.reshape(shape), second.reshape(shape), variance.reshape(shape))


def moments(location: npt.ArrayLike, scale: npt.ArrayLike) -> Moments:
    """Moments of TN(location, scale)."""
    location, scale = np.broadcast_arrays(
        np.asarray(location, dtype=np.float64), np.asarray(scale, dtype=np.float64)
    )
    standard = standard_moments(location / scale)
    return Moments(
        scale * standard.mean, scale**2 * standard.second_moment, scale**2 * standard.variance
    )


def entropy(location: npt.ArrayLike, scale: npt.ArrayLike) -> FloatArray:
    """Entropy of TN(location, scale), with the sign of the supplement's last term corrected.

    For x >= 0, ln(2 pi e) / 2 + ln Phi(x) - x h / 2 with the hazard h = g - x; for x = -y < 0 the
    large terms of that sum are the same number twice, and it equals (1 + y g) / 2 - ln(y + g).
    """
    location = np.asarray(location, dtype=np.float64)
    scale = np.asarray(scale, dtype=np.float64)
    x = location / scale
    mean = standard_moments(x).mean
    y = np.abs(x)
    below = 0.5 * (1.0 + y * mean) - np.log(y + mean)
    hazard = np.sqrt(2.0 / np.pi) / erfcx(-y / np.sqrt(2.0))
    above = 0.5 * np.log(2.0 * np.pi * np.e) + log_ndtr(y) - 0.5 * y * hazard
    return np.asarray(np.log(scale) + np.where(x < 0, below, above))


def sample(location: npt.ArrayLike, scale: npt.ArrayLike, uniforms: npt.ArrayLike) -> FloatArray:
    """Turn uniforms in [0, 1) into draws of TN(location, scale), one each."""
    location, scale, u = np.broadcast_arrays(
        np.asarray(location, dtype=np.float64),
        np.asarray(scale, dtype=np.float64),
        np.asarray(uniforms, dtype=np.float64),
    )
    x = location / scale
    log_survival = np.log1p(-u)  # of the draw, within the truncated distribution
    draws = x - ndtri_exp(log_ndtr(x) + log_survival)
    tail = x < SAMPLING_TAIL
    if tail.any():
        draws = np.where(tail, _tail_draw(-np.where(tail, x, -1.0), log_survival), draws)
    return np.asarray(scale * np.maximum(draws, 0.0))


def _tail_draw(y: FloatArray, log_survival: FloatArray) -> FloatArray:
    """Solve ln[Q(y + a) / Q(y)] = log_survival for a, Q the Gaussian tail, without cancellation.

    ln Q(y + a) - ln Q(y) = -a y - a^2 / 2 - ln[h(y + a) / h(y)] with the hazard h = y + g(-y).
    Newton's method from the solution without the last term needs two or three steps.
    """
    hazard_at_y = y + standard_moments(-y).mean
    draw = -2.0 * log_survival / (np.sqrt(y * y - 2.0 * log_survival) + y)
    for _ in range(4):
        hazard = y + draw + standard_moments(-(y + draw)).mean
        excess = -draw * (y + 0.5 * draw) - np.log(hazard / hazard_at_y) - log_survival
        draw = np.maximum(draw + excess / hazard, 0.0)
    return draw
