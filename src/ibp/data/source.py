"""Where the rows of a data matrix come from.

A source knows its shape and the type of its numbers, and gives rows as a block, dense or CSR, NaN
where an entry is missing. Nothing else of X is seen outside this package, so that rows may as well
be read from a file, block by block.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.data.paging import PagesAhead
from ibp.errors import InvalidValueError, counted

Block = Any  # a dense array or a CSR array
Rows = slice | npt.NDArray[np.integer]


class RowSource(Protocol):
    """The rows of a matrix of N x D numbers; what has these three may be given as X."""

    @property
    def shape(self) -> tuple[int, int]:
        """N and D."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers in a block: float32 or float64 inside the library."""
        ...

    def rows(self, rows: Rows) -> Block:
        """Some rows, consecutive ones by a slice or any by their numbers; not to be changed."""
        ...


class OrderedRows:
    """A source of ours: its blocks are in one floating type, row after row, and read-only."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def rows(self, rows: Rows) -> Block:
        """Some rows."""
        raise NotImplementedError


class DenseRows(OrderedRows):
    """Rows of an array in memory; consecutive ones are a view."""

    def __init__(self, values: npt.NDArray[np.floating]) -> None:
        # Read-only whatever it was: nothing here changes X, and kernels see one type of array.
        self._values = np.ascontiguousarray(values).view()
        self._values.flags.writeable = False
        self.shape: tuple[int, int] = (values.shape[0], values.shape[1])
        self.dtype = values.dtype

    def rows(self, rows: Rows) -> Block:
        """Some rows."""
        block = self._values[rows]
        block.flags.writeable = False
        return block


class MappedRows(OrderedRows):
    """Rows of an array that lies in a file; only the rows asked for are read or converted."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values
        self.shape: tuple[int, int] = (values.shape[0], values.shape[1])
        self.dtype = floating(values.dtype)
        self._pages = PagesAhead.of(values)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_pages": None}  # another process has a file of its own

    def rows(self, rows: Rows) -> Block:
        """Some rows."""
        if self._pages is not None and isinstance(rows, slice):
            self._pages.after(rows.indices(self.shape[0])[1])
        return in_order(self._values[rows], self.dtype)


class SparseRows(OrderedRows):
    """Rows of a CSR matrix in memory."""

    def __init__(self, values: sparse.csr_array) -> None:
        self._values = values
        self.shape: tuple[int, int] = values.shape
        self.dtype = values.dtype

    def rows(self, rows: Rows) -> Block:
        """Some rows."""
        if not isinstance(rows, slice):
            return self._values[rows]
        start, stop, _ = rows.indices(self.shape[0])
        return consecutive_rows(self._values, start, stop)


class ConvertedRows(OrderedRows):
    """Rows of another source, brought into one type and memory order block by block."""

    def __init__(self, source: RowSource, dtype: npt.DTypeLike) -> None:
        self._source = source
        self.shape: tuple[int, int] = (source.shape[0], source.shape[1])
        self.dtype = np.dtype(dtype)

    def rows(self, rows: Rows) -> Block:
        """Some rows."""
        shape = tuple(self._source.shape)
        if shape != self.shape:
            raise InvalidValueError(
                f"had the shape {self.shape} at first and has the shape {shape} now, while it is "
                "being read",
                "Let nothing change it during a fit, and fit again",
                about="X",
            )
        block = in_order(self._source.rows(rows), self.dtype)
        n_rows = len(range(*rows.indices(self.shape[0]))) if isinstance(rows, slice) else len(rows)
        if block.shape != (n_rows, self.shape[1]):
            raise InvalidValueError(
                f"gave a block of shape {block.shape} when asked for {counted(n_rows, 'row')} of "
                f"{counted(self.shape[1], 'column')}",
                "its shape must be that of all its rows together",
                about="X",
            )
        return block


def as_source(matrix: Any) -> RowSource:
    """The source of a matrix of numbers, or the source that is given, its blocks in order."""
    if isinstance(matrix, np.memmap):
        return MappedRows(matrix)
    if isinstance(matrix, np.ndarray):
        return DenseRows(matrix)
    if sparse.issparse(matrix):
        return SparseRows(canonical(matrix))
    if isinstance(matrix, OrderedRows):
        return matrix
    return ConvertedRows(matrix, floating(matrix.dtype))


def is_source(X: Any) -> bool:
    """Whether something has what a source has; SciPy's lists of lists have other ``rows``."""
    return hasattr(X, "shape") and hasattr(X, "dtype") and callable(getattr(X, "rows", None))


def canonical(matrix: Any) -> sparse.csr_array:
    """A sparse matrix as CSR, its columns sorted and stored once; the user's own stays as it is."""
    matrix = sparse.csr_array(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def consecutive_rows(matrix: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Some rows of a CSR matrix, not copied."""
    first, last = matrix.indptr[start], matrix.indptr[stop]
    parts = (matrix.data[first:last], matrix.indices[first:last])
    bounds = matrix.indptr[start : stop + 1] - first
    return sparse.csr_array((*parts, bounds), shape=(stop - start, matrix.shape[1]), copy=False)


def floating(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The type that numbers are converted to: single precision stays."""
    return np.dtype(dtype if dtype in (np.float32, np.float64) else np.float64)


def in_order(values: Any, dtype: np.dtype[Any]) -> Block:
    """Some rows in one type, row after row in memory; read-only, unless they are sparse."""
    if sparse.issparse(values):
        return canonical(values).astype(dtype, copy=False)
    block = np.ascontiguousarray(values, dtype=dtype).view(np.ndarray).view()
    block.flags.writeable = False
    return block


def is_sparse(source: RowSource) -> bool:
    """Whether a source gives CSR blocks."""
    return bool(sparse.issparse(source.rows(slice(0, 0))))


def all_rows(source: RowSource) -> Block:
    """The whole matrix, for a method that cannot do with less; a view if it is in memory."""
    return source.rows(slice(0, source.shape[0]))


def in_double_precision(source: RowSource) -> RowSource:
    """The same numbers as float64; converted once if they are in memory."""
    if source.dtype == np.float64:
        return source
    if isinstance(source, DenseRows | SparseRows):
        return as_source(all_rows(source).astype(np.float64))
    return ConvertedRows(source, np.float64)
