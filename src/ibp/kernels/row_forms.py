"""The quadratic form of a row, whatever it misses: the one kernel for all methods.

The likelihood of a row is w'z - z'Wz / 2 in its code z, up to a constant, with sums over the
columns d that the row observes,

    W = sum of tau_d E[a_d a_d'],    w = sum of tau_d E[a_d] x_d - constant,
    constant = sum of tau_d (E[a_d] offset_d + Var[a_d] / 2),

where a method takes E[a_d a_d'] to be E[a_d] E[a_d]', or that and a covariance. Rows that miss
nothing, or what many others miss, share a form; for the others it is made on the spot.
"""

from typing import NamedTuple

import numpy as np

from ibp.compiled import inlined, kernel

# If taking away what is missing leaves less than this of a diagonal entry, what is observed is
# summed instead: too many digits would cancel.
LEAST_LEFT = 1e-4


class Form(NamedTuple):
    """W (K x K) and the constant (K) of a row."""

    quadratic: np.ndarray
    constant: np.ndarray


class Forms(NamedTuple):
    """The forms that rows share, stacked along a first axis; the first is that of complete rows."""

    scale: float  # what products of rows with the components are to be multiplied by
    quadratic: np.ndarray
    constant: np.ndarray


class Columns(NamedTuple):
    """What each column contributes to a form, by layout position.

    Attributes
    ----------
    weight : ndarray of shape (D,)
        tau_d, the noise precision.
    mean, constant : ndarrays of shape (D, K)
        E[a_d], and the constant's terms, which the weight is in.
    """

    weight: np.ndarray
    mean: np.ndarray
    constant: np.ndarray


class Gaps(NamedTuple):
    """Which form each row has, and what rows miss that share none.

    Attributes
    ----------
    form_of_row : ndarray of shape (n,), int64
        The row's form, -1 if it has to be made for this row alone.
    start, position : ndarrays, int64
        Row i misses the positions ``position[start[i]:start[i + 1]]``, sorted; not filled in if
        all rows share a form.
    """

    form_of_row: np.ndarray
    start: np.ndarray
    position: np.ndarray


@inlined
def missing_of_row(row, gaps):
    """The positions that a row misses."""
    return gaps.position[gaps.start[row] : gaps.start[row + 1]]


@kernel
def add_column(scale, d, columns, covariance, form):
    """Add a multiple of what column d contributes, to the lower half of W and to the constant."""
    mean, step = columns.mean[d], scale * columns.weight[d]
    for k in range(mean.shape[0]):
        form.constant[k] += scale * columns.constant[d, k]
        own = step * mean[k]
        for j in range(k + 1):
            form.quadratic[k, j] += own * mean[j]
            if covariance is not None:
                form.quadratic[k, j] += step * covariance[d, k, j]


@kernel
def own_form(missing, columns, covariance, complete, own):
    """Fill in ``own``, the form of a row that misses the positions ``missing``, sorted.

    What is missing is taken away from the form of complete rows or, if that is the larger part or
    would leave too few digits, what is observed is summed. ``covariance`` (D x K x K), which has no
    weight in it, may be None. Returns a bound of what W lost in any direction.
    """
    n_features, n = columns.mean.shape
    take_away = 2 * missing.shape[0] <= n_features
    lost = 0.0
    for k in range(n):
        taken = 0.0
        for i in range(missing.shape[0]):
            d = missing[i]
            taken += columns.weight[d] * columns.mean[d, k] ** 2
            if covariance is not None:
                taken += columns.weight[d] * covariance[d, k, k]
        whole = complete.quadratic[k, k]
        take_away = take_away and whole - taken >= LEAST_LEFT * whole
        lost += taken
    for k in range(n):
        own.constant[k] = complete.constant[k] if take_away else 0.0
        for j in range(k + 1):
            own.quadratic[k, j] = complete.quadratic[k, j] if take_away else 0.0
    if take_away:
        for i in range(missing.shape[0]):
            add_column(-1.0, missing[i], columns, covariance, own)
    else:
        lost = np.inf
        next_missing = 0
        for d in range(n_features):
            if next_missing < missing.shape[0] and missing[next_missing] == d:
                next_missing += 1
            else:
                add_column(1.0, d, columns, covariance, own)
    for k in range(n):
        for j in range(k):
            own.quadratic[j, k] = own.quadratic[k, j]
    return lost
