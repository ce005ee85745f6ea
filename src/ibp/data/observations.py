"""The data matrix as the model sees it: dense or sparse, with missing entries and a centre.

NaN means missing; in a sparse matrix the entries that are not stored are zeros. Inside the library
factors are kept in *layout order*: columns with one pattern of missing rows side by side. X itself
stays as it was given; rows of it are filled on their way through.

The model describes X less a fixed ``centre`` per column: the column means if there is an intercept,
so that it has a small number to learn, else zero. X is never centred in memory; sums over it are.
Only in single precision, where products with a large offset would lose the digits that matter, rows
have it taken off before they are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.data.summary import COMPLETE, Summary, squares_fit, summarize

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Rows of X that are worked on together: they should fit the cache of a core.
PIECE_ROWS = 256
SPARSE_PIECE_ROWS = 4096
# Offsets of more standard deviations than this are taken off single-precision rows.
FAR_OFF = 8.0


@dataclass(frozen=True)
class Observations:
    """A data matrix with the patterns of its missing entries.

    Attributes
    ----------
    values : ndarray or CSR array of shape (N, D), float32 or float64
        The data, NaN where missing, columns as the user gave them.
    summary : Summary
        Moments and patterns.
    column_order : ndarray of shape (D,)
        Layout order: position j holds column ``column_order[j]``.
    group_start : ndarray of shape (G + 1,)
        Column group g occupies the layout positions ``group_start[g]`` to ``group_start[g + 1]``.
    group_rows : ndarray of shape (G,)
        How many rows observe each group.
    centre, column_sums : ndarray of shape (D,)
        The fixed centre, and the sums of the observed entries about it; in layout order.
    sum_of_squares : float
        About the centre, over the observed entries.
    taken_off : ndarray of shape (D,) or None
        What `rows` subtracts from the columns, in the user's order and X's precision.
    """

    values: Any
    summary: Summary
    column_order: IntArray
    group_start: IntArray
    group_rows: IntArray
    centre: FloatArray
    column_sums: FloatArray
    sum_of_squares: float
    taken_off: npt.NDArray[np.floating] | None = None

    @classmethod
    def from_array(cls, values: Any, *, centre: npt.ArrayLike | None = None) -> Observations:
        """Find the patterns of a matrix; ``centre`` is zero unless given."""
        return cls.from_summary(values, summarize(values), centre=centre)

    @classmethod
    def from_summary(
        cls, values: Any, summary: Summary, *, centre: npt.ArrayLike | None = None
    ) -> Observations:
        """With a summary that was made before."""
        if values.dtype != np.float64 and not squares_fit(summary.largest):
            values = values.astype(np.float64)  # products would leave single precision
        if not sparse.issparse(values):
            # Read-only whatever it was: nothing here changes X, and kernels see one type of array.
            values = np.ascontiguousarray(values).view()
            values.flags.writeable = False
        order = np.argsort(summary.column_group, kind="stable").astype(np.int64)
        group_size = np.bincount(summary.column_group, minlength=1)
        group_start = np.concatenate([[0], np.cumsum(group_size)]).astype(np.int64)
        about = np.zeros(order.size) if centre is None else np.asarray(centre, dtype=np.float64)
        offset = summary.means - about
        single = values.dtype != np.float64 and not sparse.issparse(values)
        far = np.abs(about).max(initial=0.0) > FAR_OFF * summary.std_within_columns
        return cls(
            values,
            summary,
            order,
            group_start,
            summary.counts[order[group_start[:-1]]] if order.size else group_size[:0],
            about[order],
            (summary.counts * offset)[order],
            float(summary.squares.sum() + summary.counts @ offset**2),
            about.astype(values.dtype) if single and far else None,
        )

    def take(self, rows: IntArray) -> Observations:
        """Some of the rows, with the same centre."""
        return self.from_array(self.values[rows], centre=self.from_layout(self.centre))

    @property
    def n_samples(self) -> int:
        """N."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.values.shape[1])

    @property
    def n_groups(self) -> int:
        """G, the number of column groups."""
        return int(self.group_start.size) - 1

    @property
    def n_observed(self) -> int:
        """Observed entries."""
        return self.summary.n_observed

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.n_observed == self.n_samples * self.n_features

    @property
    def sparse(self) -> bool:
        """Whether only some entries are stored."""
        return bool(sparse.issparse(self.values))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values, in which products with X are made."""
        dtype: np.dtype[Any] = self.values.dtype
        return dtype

    @property
    def piece_rows(self) -> int:
        """How many rows to work on together."""
        return SPARSE_PIECE_ROWS if self.sparse else PIECE_ROWS

    @property
    def row_pattern(self) -> npt.NDArray[np.int32]:
        """Numbers of the rows' patterns, as in `Summary`."""
        return self.summary.row_pattern

    @property
    def group_of_position(self) -> IntArray:
        """The group of each layout position."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.group_start))

    def rows(self, rows: Any) -> Any:
        """Some rows as something to multiply by, missing entries being zero.

        Not centred, but for what is ``taken_off``; so `left_in` is still to be subtracted. A view
        of X, as a rule, if the rows are consecutive and complete.
        """
        block = self._picked(rows)
        if self.taken_off is not None:
            block = block - self.taken_off
        if (self.row_pattern[rows] == COMPLETE).all():
            return block
        if not self.sparse:
            return np.where(np.isnan(block), block.dtype.type(0), block)
        block = block.copy()
        block.data[np.isnan(block.data)] = 0
        return block

    def _picked(self, rows: Any) -> Any:
        """Some rows as they are; consecutive ones share the memory of X, sparse ones too."""
        if not (self.sparse and isinstance(rows, slice)):
            return self.values[rows]
        x = self.values
        first, last = x.indptr[rows.start], x.indptr[rows.stop]
        parts = (x.data[first:last], x.indices[first:last])
        bounds = x.indptr[rows.start : rows.stop + 1] - first
        return sparse.csr_array((*parts, bounds), shape=(bounds.size - 1, x.shape[1]), copy=False)

    @property
    def left_in(self) -> FloatArray:
        """What of the centre is still in the rows that `rows` gives, in layout order."""
        if self.taken_off is None:
            return self.centre
        return np.asarray(self.centre - self.to_layout(self.taken_off.astype(np.float64)))

    def missing_entries(self, rows: Any) -> tuple[IntArray, IntArray]:
        """What some rows miss: numbers among these rows, and layout positions, both sorted."""
        if not self.sparse:
            row, position = np.nonzero(np.isnan(self.values[rows][:, self.column_order]))
            return row.astype(np.int64), position.astype(np.int64)
        block = self._picked(rows).tocoo()
        missing = np.isnan(block.data)
        row = block.row[missing].astype(np.int64)
        place = np.empty_like(self.column_order)
        place[self.column_order] = np.arange(place.size)
        position = place[block.col[missing]]
        order = np.lexsort((position, row))
        return row[order], position[order]

    def missing_groups(self, rows: Any) -> Any:
        """1 where one of some rows misses a column group, shape (rows, G)."""
        if not self.sparse:
            group_column = self.column_order[self.group_start[:-1]]
            return sparse.csr_array(np.isnan(self.values[rows][:, group_column]).astype(np.float64))
        block = self._picked(rows).tocoo()
        missing = np.isnan(block.data)
        group = self.summary.column_group[block.col[missing]]
        _, first = np.unique(block.row[missing] * self.n_groups + group, return_index=True)
        entries = (block.row[missing][first], group[first])
        return sparse.csr_array(
            (np.ones(first.size), entries), shape=(block.shape[0], self.n_groups)
        )

    def to_layout(self, by_column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Bring an array (..., D) from the user's column order into layout order."""
        return np.ascontiguousarray(by_column[..., self.column_order])

    def from_layout(self, by_position: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Bring an array (..., D) from layout order back into the user's column order."""
        by_column = np.empty_like(by_position)
        by_column[..., self.column_order] = by_position
        return by_column
