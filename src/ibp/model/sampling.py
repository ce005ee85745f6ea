"""Draws of data, given what is behind them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import reconstruct

FloatArray = npt.NDArray[np.float64]


class Draw(NamedTuple):
    """A data set with the truth behind it."""

    data: FloatArray
    assignments: npt.NDArray[np.uint8]
    factors: FloatArray


def sample_data(
    assignments: npt.NDArray[np.generic],
    factors: FloatArray,
    noise_std: float | FloatArray,
    random_state: np.random.Generator | int | None = None,
) -> FloatArray:
    """Draw X = ZA + E with Gaussian noise, the same for all columns or of each."""
    if not np.all(np.asarray(noise_std) >= 0):
        raise ValueError(f"noise_std must not be negative; it is {noise_std}")
    rng = np.random.default_rng(random_state)
    mean = reconstruct(assignments, factors)
    return np.asarray(mean + rng.normal(0.0, noise_std, size=mean.shape))
