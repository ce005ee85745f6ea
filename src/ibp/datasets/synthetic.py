"""Data sets made from known features, to try the methods on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibp.model.sampling import Draw, sample_data

# The four 6 x 6 images of Griffiths and Ghahramani (2005), one per quarter.
_QUARTERS = (
    ("010", "111", "010"),
    ("111", "101", "111"),
    ("100", "110", "111"),
    ("111", "010", "010"),
)


def block_images() -> npt.NDArray[np.float64]:
    """The four binary 6 x 6 images of Griffiths and Ghahramani (2005).

    Returns
    -------
    ndarray of shape (4, 36)
        One image a row.

    Examples
    --------
    >>> from ibp.datasets import block_images
    >>> block_images()[0].reshape(6, 6)[:3, :3]
    array([[0., 1., 0.],
           [1., 1., 1.],
           [0., 1., 0.]])
    """
    images = np.zeros((4, 6, 6))
    for i, rows in enumerate(_QUARTERS):
        top, left = 3 * (i // 2), 3 * (i % 2)
        images[i, top : top + 3, left : left + 3] = [[float(c) for c in row] for row in rows]
    return images.reshape(4, 36)


def make_block_images(
    n_samples: int = 2000,
    *,
    noise_std: float = 0.5,
    probability: float = 0.5,
    random_state: np.random.Generator | int | None = None,
) -> Draw:
    """Noisy sums of the four block images, as in the paper's supplement.

    Parameters
    ----------
    n_samples : int, default=2000
        How many rows.
    noise_std : float, default=0.5
        Standard deviation of the noise.
    probability : float, default=0.5
        That a row has an image, for each image.
    random_state : Generator or int, default=None
        Source of the draws.

    Returns
    -------
    Draw
        ``data`` (n_samples x 36), the true ``assignments`` and ``factors``.

    Examples
    --------
    >>> from ibp.datasets import make_block_images
    >>> X, Z, A = make_block_images(100, noise_std=0.3, random_state=0)
    >>> X.shape, Z.shape, A.shape
    ((100, 36), (100, 4), (4, 36))
    """
    rng = np.random.default_rng(random_state)
    factors = block_images()
    assignments = (rng.random((n_samples, 4)) < probability).astype(np.uint8)
    return Draw(sample_data(assignments, factors, noise_std, rng), assignments, factors)


def make_binary_factors(
    n_samples: int = 500,
    n_features: int = 500,
    n_components: int = 20,
    *,
    probability: float = 0.4,
    density: float = 1.0 / 3.0,
    noise_std: float = 1.0,
    random_state: np.random.Generator | int | None = None,
) -> Draw:
    """The paper's synthetic data: random overlapping binary factors in noise.

    The paper then shifts the data to a zero minimum; that is left to the caller.

    Parameters
    ----------
    n_samples, n_features, n_components : int
        Rows, columns and features; by default 500, 500 and 20.
    probability : float, default=0.4
        That a row has a feature, for each feature.
    density : float, default=1/3
        Each factor is one on this share of the columns, drawn at random, and zero elsewhere.
    noise_std : float, default=1.0
        Standard deviation of the noise.
    random_state : Generator or int, default=None
        Source of the draws.

    Returns
    -------
    Draw
        ``data``, the true ``assignments`` and ``factors``.

    Examples
    --------
    >>> from ibp.datasets import make_binary_factors
    >>> X, Z, A = make_binary_factors(50, 30, 4, random_state=0)
    >>> X.shape, A.sum(axis=1).tolist()
    ((50, 30), [10.0, 10.0, 10.0, 10.0])
    """
    rng = np.random.default_rng(random_state)
    factors = np.zeros((n_components, n_features))
    n_ones = max(1, round(density * n_features))
    for factor in factors:
        factor[rng.permutation(n_features)[:n_ones]] = 1.0
    assignments = (rng.random((n_samples, n_components)) < probability).astype(np.uint8)
    return Draw(sample_data(assignments, factors, noise_std, rng), assignments, factors)
