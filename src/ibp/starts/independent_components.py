"""Independent component analysis of whitened scores, for sources that are two-valued.

Principal components are mixtures of the features; of all rotations of them, the one to components
that are least Gaussian undoes the mixing. This is symmetric FastICA, but with two contrasts at
once. log cosh y, whose derivative is tanh y, sees the two modes of a feature that half of the rows
have; y - tanh y, with tanh^2 y, sees the skewness of a rarer one. Each alone is blind where a
feature looks Gaussian to it: tanh^2 at a half, tanh near a fifth.

scikit-learn's `FastICA` takes one contrast at a time, and so has such a blind spot. Its cube is
the kurtosis, which is that of a Gaussian at a share of (1 - 1/sqrt 3) / 2 = 0.21, in the midst of
the shares that features have, and fourth powers follow outliers. Bounded contrasts need few rows:
20 a feature. Nor can it be stopped, or its sums be kept the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ibp.parallel import Executor, ranges
from ibp.starts.centred_matrix import CHUNK, AnyFloatArray, FloatArray

# Rounds of independent component analysis; fewer where they would take more multiplications.
ROTATION_ROUNDS = 100
ROTATION_WORK = 1e11
ROTATION_TOLERANCE = 1e-5
# Weight of the even contrast, log cosh, and size of the nudge off a saddle point.
EVEN_WEIGHT = 4.0
DISTURBANCE = 0.3


def independent_rotation(
    scores: AnyFloatArray,
    rng: np.random.Generator,
    executor: Executor,
    should_stop: Callable[[], bool],
    most_rounds: int = ROTATION_ROUNDS,
) -> FloatArray:
    """Rotation (k, k) of whitened scores (n, k) to independent components."""
    n_rows, size = scores.shape
    pieces = [scores[rows].astype(np.float32, copy=False) for rows in ranges(n_rows, CHUNK)]

    rotation = nearest_rotation(rng.standard_normal((size, size)))
    disturbance = rng.standard_normal((size, size)) * DISTURBANCE / np.sqrt(size)
    is_disturbed = False
    n_rounds = int(np.clip(ROTATION_WORK / (3 * n_rows * size**2), 10, most_rounds))
    for _ in range(n_rounds):
        narrow = rotation.astype(np.float32)
        sums = [sum(part) for part in zip(*executor.map(contrasts, narrow, pieces), strict=True)]
        even, odd, even_slope, odd_slope = (total / n_rows for total in sums)
        even -= even_slope[:, None] * rotation
        odd -= odd_slope[:, None] * rotation
        step = EVEN_WEIGHT * (even * rotation).sum(axis=1, keepdims=True) * even
        step += (odd * rotation).sum(axis=1, keepdims=True) * odd
        before, rotation = rotation, nearest_rotation(step)
        turned = 1.0 - np.abs((rotation * before).sum(axis=1)).min()
        if should_stop() or (turned < ROTATION_TOLERANCE and is_disturbed):
            break
        if turned < ROTATION_TOLERANCE:
            # Two features may have settled on their sum and difference, which is a saddle point.
            rotation = nearest_rotation(rotation + disturbance)
            is_disturbed = True
    return rotation


def contrasts(
    rotation: npt.NDArray[np.float32], piece: npt.NDArray[np.float32]
) -> tuple[FloatArray, ...]:
    """Sums over some rows of the two contrasts times the scores, and of their slopes."""
    even = np.tanh(piece @ rotation.T)
    odd = even * even
    slopes = 1.0 - odd
    even_slope = slopes.sum(axis=0, dtype=np.float64)
    slopes *= even
    odd_slope = 2.0 * slopes.sum(axis=0, dtype=np.float64)
    products = (even.T @ piece).astype(np.float64), (odd.T @ piece).astype(np.float64)
    return *products, even_slope, odd_slope


def nearest_rotation(matrix: FloatArray) -> FloatArray:
    """The orthogonal matrix that is nearest to a square one."""
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)
