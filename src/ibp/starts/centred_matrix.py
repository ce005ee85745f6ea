"""The data less their column means, as something to multiply with.

The spectral start needs products with the centred data, never the centred data themselves. So a
dense matrix is centred a piece at a time, on its way into a product, and a sparse one not at all:
(X - 1m')R = XR - 1(m'R). Pieces have a fixed size and are summed in order, in double precision,
so that no sum depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ibp.parallel import Executor, ranges

PieceT = TypeVar("PieceT")
ResultT = TypeVar("ResultT")
FloatArray: TypeAlias = npt.NDArray[np.float64]
AnyFloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
Values: TypeAlias = AnyFloatArray | scipy.sparse.csr_array

# Rows or columns in a piece of a product, and stored entries that are looked at together.
CHUNK = 2048
STORED_AT_ONCE = 1 << 16
EVERYTHING = slice(None)
# Between its inverse and this, squares keep to the range of single precision, and squares of
# squares to that of double precision.
WIDE_RANGE = 1e12


def in_safe_range(values: Values) -> tuple[Values, int]:
    """Divide by a power of two if squares could leave the range of the numbers; and its exponent.

    Such a division is exact, and nothing in the spectral start depends on the unit of the data.
    """
    numbers: AnyFloatArray = values if isinstance(values, np.ndarray) else values.data
    highest = np.fmax.reduce(numbers, axis=None, initial=0)
    lowest = np.fmin.reduce(numbers, axis=None, initial=0)
    largest = max(float(highest), -float(lowest))
    if largest == 0.0 or 1.0 / WIDE_RANGE < largest < WIDE_RANGE:
        return values, 0
    exponent = int(np.frexp(largest)[1])
    scaled = np.ldexp(numbers, -exponent)
    return (scaled if isinstance(values, np.ndarray) else with_data(values, scaled)), exponent


def call(work: Callable[[PieceT], ResultT], piece: PieceT) -> ResultT:
    """Do a piece of work that is a closure: the start's rows are in memory for all."""
    return work(piece)


def centred(values: Values, executor: Executor) -> CentredMatrix:
    """The centred matrix of dense or sparse data."""
    if isinstance(values, np.ndarray):
        return DenseMatrix(values, executor)
    return SparseMatrix(values, executor)


class DenseMatrix:
    """Rows less the column means; what is missing is zero there, or ``fill[0] @ fill[1]``.

    ``mean`` is that of the observed entries of each column, and ``observed_share`` the share of the
    rows that have one. Moments are those of the columns if the matrix ``is_tall``, with no more
    columns than rows, else those of the rows. ``free_order`` and ``free_length`` are the shorter
    and the longer side of a matrix of free entries: one row is lost to the mean, and columns that
    do not vary do not count.
    """

    def __init__(self, values: AnyFloatArray, executor: Executor) -> None:
        self.entries = values
        self.executor = executor
        self.fill: tuple[AnyFloatArray, AnyFloatArray] | None = None
        self.n_rows, self.n_columns = values.shape
        self.is_tall = self.n_columns <= self.n_rows
        self.order = min(values.shape)  # of the moments
        self.rows = ranges(self.n_rows, CHUNK)
        n_missing = self.sum_over_rows(lambda rows: np.isnan(values[rows]).sum(axis=0))
        observed = self.n_rows - n_missing
        self.has_missing = bool(n_missing.any())
        add = np.nansum if self.has_missing else np.sum
        sums = self.sum_over_rows(lambda rows: add(values[rows], axis=0, dtype=np.float64))
        self.mean: AnyFloatArray = (sums / np.maximum(observed, 1)).astype(values.dtype)
        self.observed_share = observed / self.n_rows
        squares = self.sum_over_rows(lambda rows: column_squares(self.block(rows)))
        self.sum_of_squares = float(squares.sum())  # before anything is filled in
        n_varying = count_varying(squares, self.mean, self.n_rows)
        self.free_order, self.free_length = sorted((self.n_rows - 1, n_varying))

    def sum_over_rows(self, work: Callable[[slice], AnyFloatArray]) -> FloatArray:
        """Sum of what ``work`` makes of each piece, (D,)."""
        return add_up(self.executor.map(call, work, self.rows), self.n_columns)

    def block(self, rows: slice, columns: slice = EVERYTHING) -> AnyFloatArray:
        """Part of the centred matrix."""
        part: AnyFloatArray = self.entries[rows, columns] - self.mean[columns]
        if self.has_missing:
            np.copyto(part, self._filling(rows, columns), where=np.isnan(part))
        return part

    def residual(self, rows: slice, columns: slice = EVERYTHING) -> AnyFloatArray:
        """Part of what is observed less what would be filled in there; zero where missing."""
        part: AnyFloatArray = self.entries[rows, columns] - self.mean[columns]
        part -= self._filling(rows, columns)
        np.copyto(part, 0.0, where=np.isnan(part))
        return part

    def _filling(self, rows: slice, columns: slice) -> AnyFloatArray | float:
        return 0.0 if self.fill is None else self.fill[0][rows] @ self.fill[1][:, columns]

    def times(self, right: FloatArray) -> AnyFloatArray:
        """The matrix times (D, k)."""
        right = right.astype(self.entries.dtype, copy=False)
        return np.concatenate(
            list(self.executor.map(call, lambda r: self.block(r) @ right, self.rows))
        )

    def transposed_times(
        self, left: AnyFloatArray, block: Callable[[slice], AnyFloatArray] | None = None
    ) -> FloatArray:
        """The transpose times (n, k); of the centred matrix, unless ``block`` is ``residual``."""
        left = left.astype(self.entries.dtype, copy=False)
        block = self.block if block is None else block
        pieces = self.executor.map(call, lambda rows: block(rows).T @ left[rows], self.rows)
        return add_up(pieces, self.n_columns, left.shape[1])

    def moments(self, block: Callable[[slice, slice], AnyFloatArray]) -> FloatArray:
        """X'X/n, or XX'/n if that is smaller, where X is made of ``block`` or ``residual``."""

        def product(part: slice) -> AnyFloatArray:
            piece = block(part, EVERYTHING) if self.is_tall else block(EVERYTHING, part).T
            return piece.T @ piece

        moments = self.sum_along(product)
        moments /= self.n_rows
        return moments

    def sum_along(self, work: Callable[[slice], AnyFloatArray]) -> FloatArray:
        """Sum over pieces of the longer side of what belongs to pairs of the shorter."""
        pieces = ranges(max(self.n_rows, self.n_columns), CHUNK)
        return add_up(self.executor.map(call, work, pieces), self.order, self.order)


class SparseMatrix:
    """Stored rows, centred in the products only; what is missing is the mean of its column.

    Attributes are as in `DenseMatrix`.
    """

    def __init__(self, values: scipy.sparse.csr_array, executor: Executor) -> None:
        self.executor = executor
        self.n_rows, self.n_columns = values.shape
        self.mean, self.entries = without_missing(values)
        raw_squares = column_sums(self.entries, lambda data: data * data)
        squares = np.maximum(raw_squares - self.n_rows * self.mean**2, 0.0)
        self.sum_of_squares = float(squares.sum())
        n_varying = count_varying(squares, self.mean, self.n_rows)
        self.free_order, self.free_length = sorted((self.n_rows - 1, n_varying))
        self.row_pieces = row_pieces(self.entries)
        self.column_pieces = row_pieces(self.entries.T.tocsr())

    def times(self, right: FloatArray) -> FloatArray:
        """The matrix times (D, k)."""
        pieces = self.executor.map(call, lambda rows: rows @ right, self.row_pieces)
        product: FloatArray = np.concatenate(list(pieces))
        product -= self.mean @ right
        return product

    def transposed_times(self, left: AnyFloatArray) -> FloatArray:
        """The transpose times (n, k)."""
        sums = left.sum(axis=0)

        def piece(part: slice, columns: scipy.sparse.csr_array) -> FloatArray:
            product: FloatArray = columns @ left
            product -= np.outer(self.mean[part], sums)
            return product

        pieces = zip(ranges(self.n_columns, CHUNK), self.column_pieces, strict=True)
        return np.concatenate(list(self.executor.map(call, lambda pair: piece(*pair), pieces)))

    def with_shuffled_columns(self, rng: np.random.Generator) -> SparseMatrix:
        """The same columns, but independent.

        Each is turned round by a number of rows of its own, after one shuffle of all rows.
        """
        entries = self.entries.tocoo(copy=False)
        turns = rng.integers(self.n_rows, size=self.n_columns)
        rows = rng.permutation(self.n_rows)[entries.row]
        rows += turns[entries.col]
        rows %= self.n_rows
        rows = rows.astype(entries.row.dtype, copy=False)  # wide indices would widen all of them
        places = (entries.data, (rows, entries.col))
        return SparseMatrix(scipy.sparse.csr_array(places, entries.shape), self.executor)


CentredMatrix: TypeAlias = DenseMatrix | SparseMatrix


def add_up(pieces: Iterable[AnyFloatArray], *shape: int) -> FloatArray:
    """Sum in double precision, without a copy of the sum for each piece."""
    total = np.zeros(shape)
    for piece in pieces:
        total += piece
    return total


def column_squares(block: AnyFloatArray) -> AnyFloatArray:
    """Sum of the squares of each column."""
    return np.asarray(np.einsum("nd,nd->d", block, block))


def count_varying(squares: FloatArray, mean: AnyFloatArray, n_rows: int) -> int:
    """Columns that vary by more than rounding."""
    rounding = (8 * np.finfo(mean.dtype).eps * np.abs(mean.astype(np.float64))) ** 2
    return int((squares > n_rows * rounding).sum())


def with_data(values: scipy.sparse.csr_array, data: AnyFloatArray) -> scipy.sparse.csr_array:
    """Other numbers in the same places, which are not copied."""
    return scipy.sparse.csr_array((data, values.indices, values.indptr), shape=values.shape)


def without_missing(values: scipy.sparse.csr_array) -> tuple[FloatArray, scipy.sparse.csr_array]:
    """Column means, and the rows with these in place of NaN; the same rows if there is none."""
    n_rows, n_columns = values.shape
    missing = np.flatnonzero(np.isnan(values.data))
    empty = values.indices[missing]
    n_observed = n_rows - np.bincount(empty, minlength=n_columns)
    mean = column_sums(values, np.nan_to_num) / np.maximum(n_observed, 1)
    if missing.size == 0:
        return mean, values
    data = values.data.copy()
    data[missing] = mean[empty]
    return mean, with_data(values, data)


def column_sums(
    values: scipy.sparse.csr_array, function: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Sums of a function of the stored entries, without a copy of them all."""
    sums = np.zeros(values.shape[1])
    for stored in ranges(values.data.size, STORED_AT_ONCE):
        data = values.data[stored].astype(np.float64)
        np.add.at(sums, values.indices[stored], function(data))
    return sums


def row_pieces(values: scipy.sparse.csr_array) -> list[scipy.sparse.csr_array]:
    """Pieces of some rows each, as views."""

    def piece(rows: slice) -> scipy.sparse.csr_array:
        indptr = values.indptr[rows.start : rows.stop + 1]
        stored = slice(indptr[0], indptr[-1])
        part = scipy.sparse.csr_array((rows.stop - rows.start, values.shape[1]), dtype=values.dtype)
        # Indexing would copy, and so would making an array of parts that are small.
        part.data, part.indices = values.data[stored], values.indices[stored]
        part.indptr = indptr - indptr[0]
        return part

    return [piece(rows) for rows in ranges(values.shape[0], CHUNK)]
