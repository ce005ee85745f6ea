"""Sparse matrices in the parts of the CSR format, wherever these arrays lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.data.source import Block, canonical
from ibp.data.stored.base import IntArray, StoredRows, check_matrix_of_numbers
from ibp.errors import DataFileError


class CompressedRows(StoredRows):
    """Rows of a CSR matrix whose values and columns are read when they are needed.

    Parameters
    ----------
    data, indices, indptr : array-like
        What SciPy calls them; only ``indptr``, one number for each row, is read at once.
    shape : tuple of int
        N and D.
    dtype : dtype
        The floating type of the rows.
    name : str
        What to call the file.
    column_names : list of str or None
        Names of the columns.
    check : callable, optional
        Called with an array and the first and last entry before these are read.
    """

    sparse = True

    def __init__(
        self,
        data: Any,
        indices: Any,
        indptr: Any,
        shape: tuple[int, int],
        dtype: npt.DTypeLike,
        name: str,
        column_names: list[str] | None = None,
        check: Callable[[Any, int, int], None] = lambda array, start, stop: None,
    ) -> None:
        check_matrix_of_numbers(shape, data.dtype, name)
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype)
        self.name = name
        self.column_names = column_names
        self._data, self._indices, self._check = data, indices, check
        check(indptr, 0, indptr.shape[0])
        self._indptr: IntArray = np.asarray(indptr[:], dtype=np.int64)
        bounds = self._indptr
        if (
            bounds.size != self.shape[0] + 1
            or bounds[0] != 0
            or (np.diff(bounds) < 0).any()
            or bounds[-1] > min(data.shape[0], indices.shape[0])
        ):
            raise self._inconsistent("where its rows begin and end")

    def _inconsistent(self, what: str) -> DataFileError:
        return DataFileError(
            f"is damaged: its sparse matrix is not consistent in {what}",
            "save it again",
            file=self.name,
        )

    def chunk_bounds(self) -> IntArray:
        """Every row may begin a chunk; many of them together are as good."""
        n_rows, n_stored = self.shape[0], int(self._indptr[-1])
        # About a thousandth of a slab each, so that slabs are of one size whatever rows hold.
        steps = np.arange(0, n_stored, 1 << 12)
        bounds = np.searchsorted(self._indptr, steps, side="left")
        return np.unique(np.concatenate([[0], bounds, [n_rows]])).astype(np.int64)

    def bytes_of_rows(self) -> IntArray:
        """Values and columns."""
        bounds = self.chunk_bounds()
        return self._indptr[bounds] * (self.dtype.itemsize + 8) + 8 * bounds

    def read(self, start: int, stop: int) -> Block:
        """Consecutive rows."""
        first, last = int(self._indptr[start]), int(self._indptr[stop])
        self._check(self._data, first, last)
        self._check(self._indices, first, last)
        data = np.asarray(self._data[first:last]).astype(self.dtype, copy=False)
        indices = np.asarray(self._indices[first:last])
        if data.shape != indices.shape or data.size != last - first:
            raise self._inconsistent(
                f"rows {start + 1:,} to {stop:,}, of which entries are lacking"
            )
        n_columns = self.shape[1]
        wrong = np.flatnonzero((indices < 0) | (indices >= n_columns))
        if wrong.size:  # compiled code would look for it outside of the matrix
            row = int(np.searchsorted(self._indptr, first + wrong[0], side="right")) - 1
            raise self._inconsistent(
                f"row {row + 1:,}, with an entry in column {int(indices[wrong[0]]) + 1:,} of "
                f"{n_columns:,}"
            )
        bounds = self._indptr[start : stop + 1] - first
        index_type = np.int32 if max(n_columns, last - first) < 2**31 else np.int64
        parts = (data, indices.astype(index_type, copy=False), bounds.astype(index_type))
        return canonical(sparse.csr_array(parts, shape=(stop - start, n_columns)))
