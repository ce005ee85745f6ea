"""The one evaluation protocol: how well codes and factors predict entries.

An entry's score is ln N(x; b + z E[A], noise_std^2). Fits, scores, experiments and benchmarks all
use these functions, so that their numbers can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ibp.blas import reconstruct
from ibp.data.observations import missing_of
from ibp.data.source import RowSource, as_source, is_sparse
from ibp.errors import InvalidValueError
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Explanation:
    """How a model explains some rows: codes times components plus intercept, and the noise."""

    codes: npt.NDArray[Any]
    components: FloatArray
    intercept: FloatArray
    noise_std: float


@dataclass(frozen=True)
class HeldOut:
    """Data with a block of entries that fits do not see."""

    data: npt.NDArray[np.floating]  # all of it; NaN where missing
    hidden: npt.NDArray[np.bool_]  # rows times columns

    @classmethod
    def of(
        cls,
        data: npt.NDArray[np.floating],
        random_state: np.random.Generator | int | None = None,
        *,
        fraction: float = 0.2,
        rows: Literal["last", "random"] = "last",
    ) -> HeldOut:
        """Hide a `held_out_block`, less columns of which nothing would be left to fit.

        At least one observed entry is hidden.
        """
        n_samples, n_features = data.shape
        hidden = held_out_block(n_samples, n_features, random_state, fraction=fraction, rows=rows)
        hidden &= (~hidden & ~np.isnan(data)).any(axis=0)  # of every column something is left
        held_out = cls(data, hidden)
        if held_out.n_hidden == 0:
            raise InvalidValueError(
                "All entries that would be hidden are missing: X is missing too much"
            )
        return held_out

    @cached_property
    def training(self) -> npt.NDArray[np.floating]:
        """What fits see: NaN where it is hidden. Made once; not to be changed."""
        return np.where(self.hidden, self.data.dtype.type(np.nan), self.data)

    @property
    def n_hidden(self) -> int:
        """How many observed entries are hidden."""
        return int(np.count_nonzero(self.hidden & ~np.isnan(self.data)))

    def score(self, explanation: Explanation, noise_std: float, shift: float = 0.0) -> float:
        """Mean log-likelihood of the hidden entries, by a model of all rows plus a shift."""
        rows, columns = self.hidden.any(axis=1), self.hidden.any(axis=0)
        sums, counts = row_log_likelihood(
            self.data[np.ix_(rows, columns)] + shift,
            explanation.codes[rows],
            explanation.components[:, columns],
            explanation.intercept[columns],
            noise_std,
        )
        return float(sums.sum() / counts.sum())


def row_log_likelihood(
    values: Any,
    codes: npt.NDArray[np.generic],
    components: FloatArray,
    intercept: FloatArray,
    noise_std: float,
    hidden_from: Any = None,
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Sum of the log-likelihoods of each row's entries, and how many there are.

    Parameters
    ----------
    values : ndarray, sparse array or source of rows, of shape (n_samples, n_features)
        The entries to score; NaN where there is none.
    codes : ndarray of shape (n_samples, n_components)
        The features of the rows.
    components : ndarray of shape (n_components, n_features)
        What the features look like.
    intercept : ndarray of shape (n_features,)
        The offset of each column.
    noise_std : float
        Standard deviation of the noise.
    hidden_from : like values, default=None
        Count only the entries that are missing here: those that were hidden from the fit. Dense
        if ``values`` is, sparse if it is.

    Returns
    -------
    sums : ndarray of shape (n_samples,)
        Log-likelihood of each row.
    counts : ndarray of shape (n_samples,)
        How many of its entries were counted.

    Examples
    --------
    >>> import numpy as np
    >>> from ibp.evaluate import row_log_likelihood
    >>> values, codes = np.array([[1.0, np.nan]]), np.array([[1]])
    >>> sums, counts = row_log_likelihood(values, codes, np.array([[1.0, 2.0]]), np.zeros(2), 1.0)
    >>> sums.round(3).tolist(), counts.tolist()  # ln N(1; 1, 1)
    ([-0.919], [1])
    """
    source = as_source(values)
    hidden = None if hidden_from is None else as_source(hidden_from)
    squares = _sparse_squares if is_sparse(source) else _dense_squares
    errors, counts = squares(source, Explanation(codes, components, intercept, noise_std), hidden)
    constant = -0.5 * np.log(2.0 * np.pi) - np.log(noise_std)
    return counts * constant - 0.5 * errors / noise_std**2, counts


def _dense_squares(
    source: RowSource, explanation: Explanation, hidden_from: RowSource | None
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Squared errors of the counted entries of each row, and how many there are."""
    n_rows = source.shape[0]
    errors, counts = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    for rows in ranges(n_rows, ROWS_AT_ONCE):
        values = source.rows(rows)
        counted = ~np.isnan(values)
        if hidden_from is not None:
            counted &= np.isnan(hidden_from.rows(rows))
        prediction = reconstruct(explanation.codes[rows], explanation.components)
        prediction = prediction + explanation.intercept
        residual = np.where(counted, values - prediction, 0.0)
        counts[rows] = counted.sum(axis=1)
        errors[rows] = np.einsum("nd,nd->n", residual, residual)
    return errors, counts


def _sparse_squares(
    source: RowSource, explanation: Explanation, hidden_from: RowSource | None
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """The same from the stored entries: prediction^2 everywhere, corrected where x is not zero."""
    n_rows, n_columns = source.shape
    errors, counts = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    components, intercept = explanation.components, explanation.intercept
    gram, offset = components @ components.T, components @ intercept
    for rows in ranges(n_rows, ROWS_AT_ONCE):
        z = explanation.codes[rows].astype(np.float64)
        n = z.shape[0]
        if hidden_from is not None:  # a stored NaN marks what is to be predicted
            row, column = missing_of(hidden_from.rows(rows))
            if row.size == 0:  # which scipy would not pick
                continue
            x = np.asarray(source.rows(rows)[row, column], dtype=np.float64).ravel()
            row, column, x = row[~np.isnan(x)], column[~np.isnan(x)], x[~np.isnan(x)]
            residual = x - expected_entries(z, components, intercept, row, column)
            errors[rows] = np.bincount(row, weights=residual**2, minlength=n)
            counts[rows] = np.bincount(row, minlength=n)
            continue
        block = source.rows(rows).astype(np.float64)
        row, column = missing_of(block)
        block.data = np.nan_to_num(block.data, nan=0.0)
        predicted = expected_entries(z, components, intercept, row, column)
        squares = intercept @ intercept + 2.0 * z @ offset + np.einsum("nk,nk->n", z @ gram, z)
        products = block @ intercept + np.einsum("nk,nk->n", block @ components.T, z)
        errors[rows] = block.multiply(block).sum(axis=1) - 2.0 * products + squares
        errors[rows] -= np.bincount(row, weights=predicted**2, minlength=n)
        counts[rows] = n_columns - np.bincount(row, minlength=n)
    return np.maximum(errors, 0.0), counts


def expected_entries(
    z: npt.NDArray[Any],
    components: FloatArray,
    intercept: FloatArray,
    row: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
) -> FloatArray:
    """Expected values of some entries, without those of all.

    Parameters
    ----------
    z : ndarray of shape (n_samples, n_components)
        The features of the rows.
    components : ndarray of shape (n_components, n_features)
        What the features look like.
    intercept : ndarray of shape (n_features,)
        The offset of each column.
    row, column : ndarray of shape (n_entries,)
        Where the entries are.

    Returns
    -------
    ndarray of shape (n_entries,)
        Intercept plus the sum of the row's features, at the column.
    """
    return np.asarray(intercept[column] + np.einsum("ek,ke->e", z[row], components[:, column]))


def held_out_block(
    n_samples: int,
    n_features: int,
    random_state: np.random.Generator | int | None = None,
    *,
    fraction: float = 0.2,
    rows: Literal["last", "random"] = "last",
) -> npt.NDArray[np.bool_]:
    """The paper's held-out entries: a fraction of the dimensions in half of the rows.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the data.
    random_state : int, Generator or None, default=None
        Chooses the columns, and the rows.
    fraction : float, default=0.2
        Of the columns; at least one, and not all of them unless there is only one.
    rows : {"last", "random"}, default="last"
        The last half of the rows, as in the paper, or a random half.

    Returns
    -------
    ndarray of shape (n_samples, n_features), bool
        True where an entry is to be hidden from the fit.

    Examples
    --------
    >>> from ibp.evaluate import held_out_block
    >>> held_out_block(4, 5, random_state=0).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0],
           [0, 0, 1, 0, 0],
           [0, 0, 1, 0, 0]])
    """
    if not 0 < fraction < 1:
        raise InvalidValueError(f"fraction must lie between 0 and 1; it is {fraction}.")
    rng = np.random.default_rng(random_state)
    hidden = np.zeros((n_samples, n_features), dtype=bool)
    n_columns = min(max(round(fraction * n_features), 1), max(n_features - 1, 1))
    columns = rng.permutation(n_features)[:n_columns]
    half = np.arange(n_samples // 2, n_samples)
    if rows == "random":
        half = rng.permutation(n_samples)[n_samples // 2 :]
    hidden[np.ix_(half, columns)] = True
    return hidden
