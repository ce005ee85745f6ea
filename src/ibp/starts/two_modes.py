"""Where to cut a score in off and on.

A cut at the mean, or at the best two means, is right for a feature that half of the rows have. For
a rare one it lies within the many rows that are off, and so two Gaussians of one variance are
fitted where they stand apart clearly enough to be believed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
AnyFloatArray = npt.NDArray[np.floating[Any]]

# The two modes of a score are fitted to so many of its quantiles.
N_QUANTILES = 1000
MODE_ROUNDS = 25
LEAST_VARIANCE = 1e-9
# Modes so many deviations apart are believed. Lower finds weaker rare features, but in real data
# takes the tails of skewed scores for features (digits: 4 explains 58%, 3 54%, two means 60%).
CLEAR_DISTANCE = 4.0


def cut_in_two(
    components: AnyFloatArray, *, roughly: bool = False
) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Codes of components of variance one, and the share of their variance these explain.

    ``roughly`` is by two means alone.
    """
    codes = components > thresholds(components, roughly=roughly)
    share = codes.mean(axis=0)
    between = (codes.T.astype(components.dtype) @ components).diagonal() / len(components)
    separation = between.astype(np.float64) ** 2 / np.maximum(share * (1.0 - share), 1e-12)
    return codes.astype(np.uint8), np.minimum(separation, 1.0)


def thresholds(components: AnyFloatArray, *, roughly: bool = False) -> FloatArray:
    """Where to cut each component in off and on.

    Two Gaussians of one variance are fitted; if they stand apart the cut is where both are as
    likely, however few rows belong to one. Otherwise, or ``roughly``, two means explain most of
    the variance.
    """
    n = min(N_QUANTILES, len(components))
    middle = ((np.arange(n) + 0.5) * len(components) / n).astype(np.int64)
    ordered = np.sort(components.T, axis=1)[:, middle].astype(np.float64)

    # Every way to cut the ordered scores in two.
    low_share = np.arange(1, n) / n
    low_sums = np.cumsum(ordered, axis=1)[:, :-1] / n
    total = ordered.mean(axis=1, keepdims=True)
    low, high = low_sums / low_share, (total - low_sums) / (1.0 - low_share)
    within = (ordered**2).mean(axis=1, keepdims=True)
    within = np.maximum(within - low_share * low**2 - (1.0 - low_share) * high**2, LEAST_VARIANCE)
    cuts = within.argmin(axis=1)[:, None]
    found = np.asarray(0.5 * np.take_along_axis(low + high, cuts, axis=1)[:, 0])
    if roughly:
        return found

    entropy = -low_share * np.log(low_share) - (1.0 - low_share) * np.log1p(-low_share)
    best = np.full(len(ordered), -np.inf)
    # The likelihood of the groups finds rare ones, the squares within them even ones.
    for cost in (within, 0.5 * np.log(within) + entropy):
        start = np.arange(len(ordered)), cost.argmin(axis=1)
        share = 1.0 - low_share[start[1]]
        fit = fit_two_modes(ordered, low[start], high[start], within[start], share)
        better = (fit.log_likelihood > best) & (fit.distance > CLEAR_DISTANCE)
        best = np.maximum(fit.log_likelihood, best)
        found = np.where(better, fit.threshold, found)
    return found


class TwoModes(NamedTuple):
    """Two Gaussians of one variance: how well they fit, how many deviations they are apart."""

    log_likelihood: FloatArray
    distance: FloatArray
    threshold: FloatArray


def fit_two_modes(
    values: FloatArray, low: FloatArray, high: FloatArray, variance: FloatArray, share: FloatArray
) -> TwoModes:
    """Expectation maximisation for each row of ``values``."""
    n = values.shape[1]
    mean = values.mean(axis=1)
    squares = (values * values).mean(axis=1)
    for _ in range(MODE_ROUNDS):
        slope = (high - low) / variance
        offset = np.log(share / (1.0 - share)) - slope * (low + high) / 2.0
        on = 0.5 + 0.5 * np.tanh(0.5 * (offset[:, None] + slope[:, None] * values))
        share = np.clip(on.mean(axis=1), 1.0 / n, 1.0 - 1.0 / n)
        products = (on * values).mean(axis=1)
        low, high = (mean - products) / (1.0 - share), products / share
        variance = squares - (1.0 - share) * low**2 - share * high**2
        variance = np.maximum(variance, LEAST_VARIANCE)
    logs = [
        np.log(weight)[:, None] - 0.5 * (values - mode[:, None]) ** 2 / variance[:, None]
        for weight, mode in ((1.0 - share, low), (share, high))
    ]
    log_likelihood = np.logaddexp(*logs).mean(axis=1) - 0.5 * np.log(variance)
    gap = np.maximum(high - low, np.sqrt(LEAST_VARIANCE))
    threshold = (low + high) / 2.0 + variance / gap * np.log((1.0 - share) / share)
    return TwoModes(log_likelihood, gap / np.sqrt(variance), np.clip(threshold, low, high))
