"""Draws from the generative model: assignments, factors, data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import reconstruct
from ibp.model.ibp_prior import sample_assignments

FloatArray = npt.NDArray[np.float64]


class Draw(NamedTuple):
    """A data set with the truth behind it."""

    data: FloatArray
    assignments: npt.NDArray[np.uint8]
    factors: FloatArray


def sample_factors(
    n_components: int,
    n_features: int,
    factor_std: float,
    random_state: np.random.Generator | int | None = None,
) -> FloatArray:
    """Draw K x D half-normal factors."""
    if not factor_std > 0:
        raise ValueError(f"factor_std must be positive; it is {factor_std}")
    rng = np.random.default_rng(random_state)
    return np.abs(rng.normal(0.0, factor_std, size=(n_components, n_features)))


def sample_data(
    assignments: npt.NDArray[np.generic],
    factors: FloatArray,
    noise_std: float,
    random_state: np.random.Generator | int | None = None,
) -> FloatArray:
    """Draw X = ZA + E with Gaussian noise."""
    if not noise_std >= 0:
        raise ValueError(f"noise_std must not be negative; it is {noise_std}")
    rng = np.random.default_rng(random_state)
    mean = reconstruct(assignments, factors)
    return np.asarray(mean + rng.normal(0.0, noise_std, size=mean.shape))


def sample_model(
    n_samples: int,
    n_features: int,
    *,
    alpha: float = 3.0,
    noise_std: float = 1.0,
    factor_std: float = 1.0,
    random_state: np.random.Generator | int | None = None,
) -> Draw:
    """Draw assignments, factors and data from the nonnegative linear-Gaussian IBP model."""
    rng = np.random.default_rng(random_state)
    assignments = sample_assignments(alpha, n_samples, rng)
    factors = sample_factors(assignments.shape[1], n_features, factor_std, rng)
    return Draw(sample_data(assignments, factors, noise_std, rng), assignments, factors)
