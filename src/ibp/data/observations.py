"""The data matrix as the model sees it: rows of a source, their missing entries, and a centre.

NaN means missing; in a sparse matrix the entries that are not stored are zeros. Inside the library
factors are kept in *layout order*: columns with one pattern of missing rows side by side. X itself
stays as it was given; rows of it are filled on their way through.

The model describes X less a fixed ``centre`` per column: the column means if there is an intercept,
so that it has a small number to learn, else zero. X is never centred in memory; sums over it are.
Only in single precision, where products with a large offset would lose the digits that matter, rows
have it subtracted before they are multiplied.

Columns may have a unit each (`ibp.data.units`): then sums over X, and all that is
learned from them, are in units of the columns, so that multiplying a column by a constant changes
nothing. X itself stays in its own units, and what it is multiplied by is divided by them. A column
without a unit, because it does not vary, takes no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.data.layout import Layout
from ibp.data.patterns import MOST_FORMS, ROWS_FOR_A_FORM, SharedPatterns
from ibp.data.source import RowSource, all_rows, as_source, in_double_precision, is_sparse
from ibp.data.summary import COMPLETE, Summary, squares_fit, summarize
from ibp.data.units import ColumnUnits
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Rows of X that are worked on together: they should fit the cache of a core.
PIECE_ROWS = 256
SPARSE_PIECE_ROWS = 4096
# Offsets of more standard deviations than this are subtracted from single-precision rows.
FAR_OFF = 8.0
# Entries beyond which a start works in single precision, which is twice as fast and still the same
# numbers whatever they are stored as, and beyond which it works on the numbers as they are stored.
MODERATE, LARGE = 1 << 20, 1 << 24
# A start sees numbers in units of the columns to one in so many parts.
START_STEPS = 2.0**20


@dataclass(frozen=True)
class Observations:
    """A data matrix with the patterns of its missing entries.

    Attributes
    ----------
    source : RowSource
        The rows, NaN where missing, columns as the user gave them.
    summary : Summary
        Moments and patterns.
    layout : Layout
        Order and groups of the columns.
    group_rows : ndarray of shape (G,)
        How many rows observe each group.
    centre : ndarray of shape (D,)
        The fixed centre, in the data's units and layout order.
    has_units : bool
        Whether columns have units of their own.
    unit : ndarray of shape (D,)
        What one is in each column, in the data's units and layout order; else ones.
    resolution : ndarray of shape (D,)
        The width of what a recorded value stands for, in units of the columns and layout order;
        else zeros.
    column_sums, column_squares : ndarray of shape (D,)
        Sums of the observed entries about the centre and of their squares; in units of the columns
        and layout order.
    sum_of_squares : float
        The sum of all squares.
    subtracted : ndarray of shape (D,) or None
        What `rows` subtracts from the columns, in the user's order and X's precision.
    """

    source: RowSource
    summary: Summary
    layout: Layout
    group_rows: IntArray
    centre: FloatArray
    has_units: bool
    unit: FloatArray
    resolution: FloatArray
    column_sums: FloatArray
    column_squares: FloatArray
    sum_of_squares: float
    subtracted: npt.NDArray[np.floating] | None = None

    @classmethod
    def from_array(
        cls,
        values: Any,
        *,
        centre: npt.ArrayLike | None = None,
        units: ColumnUnits | None = None,
    ) -> Observations:
        """Find the patterns of a matrix; the centre is zero and the unit one unless given."""
        return cls.from_summary(values, summarize(values), centre=centre, units=units)

    @classmethod
    def from_summary(
        cls,
        values: Any,
        summary: Summary,
        *,
        centre: npt.ArrayLike | None = None,
        units: ColumnUnits | None = None,
    ) -> Observations:
        """With a summary of the matrix, or of the source, that was made before.

        Columns whose unit is 0 take no part.
        """
        source = as_source(values)
        if not squares_fit(summary.largest):
            source = in_double_precision(source)  # products would leave single precision
        n_columns = source.shape[1]
        layout = Layout.of_groups(summary.column_group, None if units is None else units.unit > 0)
        order = layout.column_order
        about = np.zeros(n_columns) if centre is None else np.asarray(centre, dtype=np.float64)
        offset = summary.means - about
        unit, gap = np.ones(order.size), np.zeros(order.size)
        spread = summary.std_within_columns
        if units is not None:
            unit, gap = units.unit[order], units.resolution[order] / units.unit[order]
            spread = 1.0
        squares = (summary.squares + summary.counts * offset**2)[order] / unit**2
        total = float(summary.squares.sum() + summary.counts @ offset**2)
        if units is not None:
            total = float(squares.sum())
        single = source.dtype != np.float64 and not is_sparse(source)
        far = np.abs(about[order] / unit).max(initial=0.0) > FAR_OFF * spread
        return cls(
            source,
            summary,
            layout,
            summary.counts[order[layout.group_start[:-1]]] if order.size else order,
            about[order],
            units is not None,
            unit,
            gap,
            (summary.counts * offset)[order] / unit,
            squares,
            total,
            about.astype(source.dtype) if single and far else None,
        )

    def take(self, rows: IntArray) -> Observations:
        """Some of the rows, with the same centre and units."""
        restore = self.layout.restore
        units = None
        if self.has_units:
            units = ColumnUnits(restore(self.unit), restore(self.resolution * self.unit))
        return self.from_array(self.source.rows(rows), centre=restore(self.centre), units=units)

    @property
    def n_samples(self) -> int:
        """N."""
        return self.source.shape[0]

    @property
    def n_features(self) -> int:
        """D, the number of columns that take part."""
        return self.layout.n_features

    @cached_property
    def n_observed(self) -> int:
        """Observed entries, of the columns that take part."""
        return int(self.column_counts.sum())

    @cached_property
    def log_units(self) -> float:
        """Sum over the observed entries of ln of their column's unit.

        What a log-density of X in the data's units is less than one in units of the columns.
        """
        return float(self.column_counts @ np.log(self.unit))

    @property
    def log_unit(self) -> float:
        """ln of the root mean square of the observed entries, about the centre.

        A log-density of X depends on the unit of X: dividing X by c adds ln c per entry. Adding
        ``log_unit`` per entry gives the density of X in units of its own root mean square, column
        by column if the columns have units.
        """
        n_observed = max(self.n_observed, 1)
        mean_square = self.sum_of_squares / n_observed
        of_all = 0.5 * float(np.log(mean_square)) if mean_square > 0 else 0.0
        return of_all + self.log_units / n_observed

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.n_observed == self.n_samples * self.n_features

    @cached_property
    def sparse(self) -> bool:
        """Whether only some entries are stored."""
        return is_sparse(self.source)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values, in which products with X are made."""
        return self.source.dtype

    @property
    def piece_rows(self) -> int:
        """How many rows to work on together."""
        return SPARSE_PIECE_ROWS if self.sparse else PIECE_ROWS

    @property
    def row_pattern(self) -> npt.NDArray[np.int32]:
        """Numbers of the rows' patterns, as in `Summary`."""
        return self.summary.row_pattern

    @property
    def column_counts(self) -> IntArray:
        """How many rows observe each column, in layout order."""
        return self.group_rows[self.layout.group_of_position]

    @cached_property
    def shared_patterns(self) -> SharedPatterns:
        """The most common patterns of missing entries."""
        n_patterns = self.summary.n_patterns
        form_of_pattern = np.full(n_patterns, -1, dtype=np.int64)
        form_of_pattern[COMPLETE] = 0
        missing = [np.empty(0, dtype=np.int64)]
        if self.complete:  # but for columns that take no part
            form_of_pattern[:] = 0
        elif n_patterns > 1:
            pattern = self.row_pattern
            n_rows = np.bincount(pattern[pattern >= 0], minlength=n_patterns)
            n_rows[COMPLETE] = 0
            common = np.argsort(-n_rows, kind="stable")[: MOST_FORMS - 1]
            for number in common[n_rows[common] >= ROWS_FOR_A_FORM]:
                row = int(np.argmax(pattern == number))
                positions = self.missing_entries(slice(row, row + 1))[1]
                form_of_pattern[number] = len(missing) if positions.size else 0
                missing += [positions] if positions.size else []
        return SharedPatterns(form_of_pattern, missing)

    @cached_property
    def group_gaps(self) -> Any:
        """1 where a row misses a column group; CSC of shape (N, G), a group's rows together."""
        pieces = ranges(self.n_samples, self.piece_rows)
        return sparse.vstack([self.missing_groups(rows) for rows in pieces], format="csc")

    def rows(self, rows: Any) -> Any:
        """Some rows as something to multiply by, missing entries being zero.

        Not centred, but for what is ``subtracted``; `remaining_centre` is still to be. A view of
        X, as a rule, if the rows are consecutive and complete.
        """
        block = self.source.rows(rows)
        if self.subtracted is not None:
            block = block - self.subtracted
        if (self.row_pattern[rows] == COMPLETE).all():
            return block
        if not self.sparse:
            return np.where(np.isnan(block), block.dtype.type(0), block)
        block = block.copy()
        block.data[np.isnan(block.data)] = 0
        return block

    @property
    def remaining_centre(self) -> FloatArray:
        """What of the centre is still in the rows that `rows` gives, in units and layout order."""
        if self.subtracted is None:
            return np.asarray(self.centre / self.unit)
        rest = self.centre - self.layout.arrange(self.subtracted.astype(np.float64))
        return np.asarray(rest / self.unit)

    def sums_in_units(self, sums: npt.NDArray[np.floating]) -> FloatArray:
        """Sums over rows (..., D) in the user's order and units, in layout order and units."""
        return np.asarray(self.layout.arrange(sums) / self.unit)

    def per_unit(self, by_position: FloatArray) -> FloatArray:
        """What rows of X are multiplied by to give products with (..., D) in units of the columns.

        In the user's column order.
        """
        return self.layout.restore(by_position / self.unit)

    def in_memory(self) -> Any:
        """All rows for a start that needs them at once: an array, NaN where missing, or CSR.

        If columns have units, centred and in these, and rounded a little: the last digits differ
        with storage and units, and have no place in a start; only the columns that take part. A
        matrix that is not large is an array of one precision whatever it was, so that the same
        numbers have the same start.
        """
        block = all_rows(self.source)
        columns = np.sort(self.layout.column_order)
        n_entries = self.n_samples * columns.size
        if n_entries <= LARGE:
            block = block.toarray() if self.sparse else block
            block = block.astype(np.float64, copy=False)
        if not self.has_units:
            return block
        centre, unit = (self.layout.restore(part)[columns] for part in (self.centre, self.unit))
        if columns.size < self.layout.n_columns:
            block = block[:, columns]
        if sparse.issparse(block):
            return block.multiply(1.0 / unit).tocsr().astype(block.dtype)
        scaled = block - centre.astype(block.dtype)
        scaled /= unit.astype(block.dtype)
        scaled *= block.dtype.type(START_STEPS)
        np.rint(scaled, out=scaled)
        scaled /= block.dtype.type(START_STEPS)
        return scaled.astype(np.float32) if MODERATE < n_entries <= LARGE else scaled

    def missing_entries(self, rows: Any) -> tuple[IntArray, IntArray]:
        """What some rows miss: numbers among these rows, and layout positions, both sorted."""
        block = self.source.rows(rows)
        if not self.sparse:
            row, position = np.nonzero(np.isnan(block[:, self.layout.column_order]))
            return row.astype(np.int64), position.astype(np.int64)
        row, column = missing_of(block)
        position = self.layout.position_of_column[column]
        row, position = row[position >= 0], position[position >= 0]
        order = np.lexsort((position, row))
        return row[order], position[order]

    @cached_property
    def missing_columns(self) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """What each row of a dense matrix misses, in the user's column order: starts and columns.

        Row n misses ``columns[start[n] : start[n + 1]]``.
        """
        n_missing = np.zeros(self.n_samples, dtype=np.int64)
        missing = [np.zeros(0, dtype=np.int32)]
        if not self.complete:
            for piece in ranges(self.n_samples, self.piece_rows):
                row, column = np.nonzero(np.isnan(self.source.rows(piece)))
                n_missing[piece] = np.bincount(row, minlength=piece.stop - piece.start)
                missing.append(column.astype(np.int32))
        start = np.concatenate([[0], np.cumsum(n_missing)]).astype(np.int64)
        return start, np.concatenate(missing)

    def missing_groups(self, rows: Any) -> Any:
        """1 where one of some rows misses a column group, shape (rows, G)."""
        block, n_groups = self.source.rows(rows), self.layout.n_groups
        if not self.sparse:
            group_column = self.layout.column_order[self.layout.group_start[:-1]]
            return sparse.csr_array(np.isnan(block[:, group_column]).astype(np.float64))
        row, column = missing_of(block)
        position = self.layout.position_of_column[column]
        row, position = row[position >= 0], position[position >= 0]
        group = self.layout.group_of_position[position]
        _, first = np.unique(row * n_groups + group, return_index=True)
        entries = (row[first], group[first])
        return sparse.csr_array((np.ones(first.size), entries), shape=(block.shape[0], n_groups))


def missing_of(block: Any) -> tuple[IntArray, IntArray]:
    """Rows and columns of the NaN that a sparse block stores."""
    entries = block.tocoo()
    missing = np.isnan(entries.data)
    return entries.row[missing].astype(np.int64), entries.col[missing].astype(np.int64)
