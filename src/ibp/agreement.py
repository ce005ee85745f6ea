"""Which features of one fit came back in another: matched one to one by how alike they look."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

FloatArray = npt.NDArray[np.float64]

# A feature came back in another fit if its match is this similar, and in part down to this.
CAME_BACK, IN_PART = 0.9, 0.7


def match_features(
    components: npt.ArrayLike, others: npt.ArrayLike, *, flips: bool = False
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Pair the features of two fits so that the pairs are as alike as they can be, all together.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The features to find a partner for.
    others : array-like of shape (n_others, n_features)
        The features of another fit, or the true ones.
    flips : bool, default=False
        Whether a feature and its negative are the same: where there is an intercept, a row that
        lacks the one may as well have the other.

    Returns
    -------
    index : ndarray of shape (n_components,)
        Each feature's partner among the others; -1 if there is none left for it.
    similarity : ndarray of shape (n_components,)
        The cosine of the angle between the two, 1 if they are proportional; 0 without a partner.

    Examples
    --------
    >>> from ibp.agreement import match_features
    >>> index, similarity = match_features([[1, 0], [0, 2]], [[0, 1], [3, 0], [1, 1]])
    >>> index.tolist(), similarity.tolist()
    ([1, 0], [1.0, 1.0])
    """
    mine, theirs = (unit_rows(np.asarray(rows, dtype=float)) for rows in (components, others))
    if mine.ndim != 2 or theirs.ndim != 2 or mine.shape[1] != theirs.shape[1]:
        raise ValueError(
            "components and others must be matrices with as many columns; they have the shapes "
            f"{mine.shape} and {theirs.shape}."
        )
    cosines = mine @ theirs.T
    if flips:
        cosines = np.abs(cosines)
    row, column = linear_sum_assignment(cosines, maximize=True)
    index, similarity = np.full(mine.shape[0], -1), np.zeros(mine.shape[0])
    index[row], similarity[row] = column, np.clip(cosines[row, column], -1.0, 1.0)
    return index, similarity


def unit_rows(rows: FloatArray) -> FloatArray:
    """Rows of length one; a row of zeros, which is like nothing, stays as it is."""
    largest = np.max(np.abs(rows), axis=-1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)  # squares of the entries could overflow
    length = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1.0))
