"""Units of the columns, and the resolution of what is recorded in them.

A recorded value stands for all that would have been recorded as it: an interval as wide as the
smallest gap between two values of the column. Its place in there is as good as random, which adds
width^2 / 12 to the variance of the column. Where many values were rounded further, to whole numbers
say, and the others stand between these, each such heap stands for an interval from heap to heap.
Where all others are measured and one value is common, as zero is below what can be seen or bought,
that value stands for as wide an interval as as many others take up near to it: else its entries
would be explained without an error, and a noise of next to nothing would pay in spite of what it
takes to code the others. The resolution of a column is the root mean square of these widths.

The unit of a column is the standard deviation with that: of a column of many values its standard
deviation, and of one that is nearly always the same not so small that its few other values are all
that counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.source import RowSource, is_sparse
from ibp.data.stored.remembering import RememberingRows
from ibp.data.summary import Summary
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]

# Rows that are looked at, spread over all.
ROWS_LOOKED_AT = 4096
# Bytes of them that a pass over a file may leave in memory.
MOST_REMEMBERED = 1 << 26
# What of them is read, and of how many columns gaps are measured, at a time.
ROWS_AT_ONCE, COLUMNS_AT_ONCE = 256, 4
# Values nearer to each other than this part of the column's range are one value, but for rounding.
SAME_VALUE = 1e-6
# Of columns with fewer values, the rarest do not count if they are no more than this part.
MOST_VALUES, RARE = 64, 0.01
# A heap is a value that this part of a column's entries have, and no fewer than so many. Heaps are
# rounded values if there are so many of them with at most the other part of either between two, and
# if more than half of all that is no heap stands there. So neither a code for what is missing nor
# the two ends of a scale count.
PART_OF_A_HEAP, SMALLEST_HEAP, FEWEST_HEAPS, PART_BETWEEN = 0.01, 8, 3, 0.5
# A value stands for what others take up if this part of a column's entries have it, if the other
# part of what is no heap are values of their own, and if that is so many times the smallest gap.
PART_OF_A_POINT, PART_OF_ITS_OWN, WIDE = 0.05, 0.5, 16.0
# What of a column's variation, in parts of its largest number, may be rounding.
ROUNDING = 1e-14


@dataclass(frozen=True)
class ColumnUnits:
    """What one is in each column, and the width of what a recorded value stands for.

    Attributes
    ----------
    unit : ndarray of shape (D,)
        In the user's order and units; 0 for columns that do not vary.
    resolution : ndarray of shape (D,)
        Likewise.
    """

    unit: FloatArray
    resolution: FloatArray

    @classmethod
    def of(cls, source: RowSource, summary: Summary, centre: FloatArray | None) -> ColumnUnits:
        """The units in which each column has a variance of one, about a centre or about zero."""
        about = 0.0 if centre is None else centre
        squares = summary.variances + np.where(summary.counts > 0, summary.means - about, 0.0) ** 2
        magnitude = np.fmax(np.abs(summary.lowest), np.abs(summary.highest))
        gap = resolution(source, summary)
        if centre is None:  # a column that is always the same has something to explain
            gap = np.where((gap == 0.0) & (magnitude > 0.0), magnitude, gap)
        varies = np.sqrt(squares) > ROUNDING * magnitude
        return cls(np.where(varies, np.sqrt(squares + rounding_variance(gap)), 0.0), gap)


def rounding_variance(resolution: FloatArray) -> FloatArray:
    """The variance of a value within what it was rounded to."""
    return np.asarray(resolution**2 / 12.0)


def resolution(source: RowSource, summary: Summary) -> FloatArray:
    """How wide the intervals are that recorded values stand for, in the user's order and units.

    It is the root mean square over the entries of a column, and 0 for columns that do not vary. In
    large data it is that of some rows, together with the smallest and the largest value of all: a
    gap that these do not show is rare.
    """
    n_rows = source.shape[0]
    step = step_between_rows(n_rows)
    ends = np.stack([summary.lowest, summary.highest])
    span = np.asarray(ends[1].astype(np.float64) - ends[0])
    if is_sparse(source):
        block = source.rows(slice(0, n_rows) if step == 1 else np.arange(0, n_rows, step))
        values = _stored_values(block, ends.astype(np.float64), SAME_VALUE * span)
        widths = values.widths(values.without_the_rarest().smallest_gaps())
    else:
        widths = _widths(_looked_at(source, step, ends), SAME_VALUE * span)
    return np.where(np.isfinite(widths), widths, 0.0)


def step_between_rows(n_rows: int) -> int:
    """How far apart the rows are that are looked at."""
    return -(-n_rows // ROWS_LOOKED_AT)


def remembering(source: RowSource) -> RowSource:
    """The same rows, those that are looked at being remembered when a pass comes to them.

    Unless they would take much room, or are sparse.
    """
    numbers = np.arange(0, source.shape[0], max(step_between_rows(source.shape[0]), 1))
    n_bytes = numbers.size * source.shape[1] * source.dtype.itemsize
    if n_bytes > MOST_REMEMBERED or is_sparse(source):
        return source
    return RememberingRows(source, numbers)


def _looked_at(source: RowSource, step: int, ends: FloatArray) -> npt.NDArray[np.floating]:
    """Rows so far apart, read a few at a time, and the ends of the columns."""
    chosen = np.arange(0, source.shape[0], step)
    values = np.empty((chosen.size + 2, source.shape[1]), dtype=source.dtype)
    for part in ranges(chosen.size, ROWS_AT_ONCE):
        values[part] = source.rows(part if step == 1 else chosen[part])
    values[-2:] = ends
    return values


def _widths(values: npt.NDArray[np.floating], same: FloatArray) -> FloatArray:
    """Of each column, whose values are put in order."""
    values.sort(axis=0)  # NaN come last, and make gaps of NaN
    widths = np.full(values.shape[1], np.inf)
    for columns in ranges(values.shape[1], COLUMNS_AT_ONCE):
        part, alike = values[:, columns].astype(np.float64), same[columns]
        gaps = np.diff(part, axis=0)
        gaps[~(gaps > alike)] = np.inf
        smallest = gaps.min(axis=0, initial=np.inf)
        few = np.isfinite(gaps).sum(axis=0) < MOST_VALUES
        del gaps
        # Values are counted where that may tell something, since it takes longer.
        runs = part[SMALLEST_HEAP - 1 :] - part[: 1 - SMALLEST_HEAP] <= alike
        tied = np.asarray(runs.any(axis=0))
        for column in np.flatnonzero(tied & ~few):
            tied[column] = _has_common_values(part[:, column], alike[column])
        counted = np.flatnonzero(few | tied)
        if not counted.size:
            widths[columns] = smallest
            continue
        place, row = np.nonzero(~np.isnan(part[:, counted]).T)
        value = part[row, counted[place]]
        table = ValueCounts.of(place, value, np.ones(value.size), alike[counted], counted.size)
        common = table.without_the_rarest().smallest_gaps()
        smallest[counted] = np.where(few[counted], common, smallest[counted])
        smallest[counted] = table.widths(smallest[counted])
        widths[columns] = smallest
    return widths


def _has_common_values(ordered: FloatArray, same: float) -> bool:
    """Whether enough values of a column, which end with NaN, are common, or one is very common."""
    n_entries = np.count_nonzero(~np.isnan(ordered))

    def common(least: int) -> FloatArray:
        begin = ordered[: 1 - least]
        return begin[ordered[least - 1 :] - begin <= same]

    if common(max(int(PART_OF_A_POINT * n_entries), SMALLEST_HEAP)).size:
        return True
    heaps = common(int(_smallest_heap(n_entries)))
    return bool(np.count_nonzero(np.diff(heaps) > same) >= FEWEST_HEAPS - 1)


def _stored_values(block: Any, ends: FloatArray, same: FloatArray) -> ValueCounts:
    """The values that are stored, the ends of the columns, and zero where it is not stored."""
    n_rows, n_columns = block.shape
    numbers = np.arange(n_columns)
    stored = np.bincount(block.indices, minlength=n_columns)
    column = np.concatenate([block.indices, numbers, numbers, numbers])
    value = np.concatenate([block.data, ends[0], ends[1], np.zeros(n_columns)])
    count = np.concatenate([np.ones(block.data.size + 2 * n_columns), n_rows - stored])
    kept = ~np.isnan(value) & (count > 0)
    column, value, count = column[kept], value[kept].astype(np.float64), count[kept]
    order = np.lexsort((value, column))
    return ValueCounts.of(column[order], value[order], count[order], same, n_columns)


def _smallest_heap(n_entries: Any) -> Any:
    """How many entries of one value are a heap."""
    return np.maximum(np.ceil(PART_OF_A_HEAP * n_entries), SMALLEST_HEAP).astype(np.int64)


@dataclass(frozen=True)
class ValueCounts:
    """The values of some columns, in order, and how many entries have each."""

    column: npt.NDArray[np.intp]
    value: FloatArray
    count: FloatArray
    n_columns: int

    @classmethod
    def of(
        cls,
        column: npt.NDArray[np.intp],
        value: FloatArray,
        count: FloatArray,
        same: FloatArray,
        n_columns: int,
    ) -> ValueCounts:
        """Count entries, which are in order; those that are no further apart are the ``same``."""
        first = np.ones(value.size, dtype=bool)
        first[1:] = (column[1:] != column[:-1]) | (np.diff(value) > same[column[1:]])
        start = np.flatnonzero(first)
        sizes = np.add.reduceat(count, start) if start.size else count
        return cls(column[start], value[start], sizes, n_columns)

    def take(self, kept: npt.NDArray[np.bool_]) -> ValueCounts:
        """Some of the values."""
        return replace(
            self, column=self.column[kept], value=self.value[kept], count=self.count[kept]
        )

    @property
    def totals(self) -> FloatArray:
        """Entries of each column."""
        total = np.bincount(self.column, weights=self.count, minlength=self.n_columns)
        return np.asarray(total, dtype=np.float64)

    def smallest_gaps(self) -> FloatArray:
        """Between two values of each column; infinite where there are none."""
        smallest = np.full(self.n_columns, np.inf)
        told = self.column[1:] == self.column[:-1]
        np.minimum.at(smallest, self.column[1:][told], np.diff(self.value)[told])
        return smallest

    def without_the_rarest(self) -> ValueCounts:
        """Without a few odd values, as of a row that was filled in.

        They say nothing of how the others were recorded: those that together are at most a
        ``RARE`` part of a column do not count, if two remain.
        """
        column, sizes, total = self.column, self.count, self.totals
        order = np.lexsort((sizes, column))
        running = np.cumsum(sizes[order])
        begins = np.flatnonzero(np.diff(column[order], prepend=-1))
        before = np.repeat(running[begins] - sizes[order][begins], np.diff([*begins, order.size]))
        rare = np.empty(order.size, dtype=bool)
        rare[order] = running - before <= RARE * total[column[order]]
        commonest = np.full(self.n_columns, np.inf)
        np.minimum.at(commonest, column[~rare], sizes[~rare])
        rare &= sizes < commonest[column]
        n_left = np.bincount(column[~rare], minlength=self.n_columns)
        return self.take(~rare | (n_left[column] < 2))

    def widths(self, smallest: FloatArray) -> FloatArray:
        """The root mean square of what entries stand for: the ``smallest`` or from heap to heap."""
        total, n_columns = self.totals, self.n_columns
        up_to = np.cumsum(self.count)  # with all columns before
        heap = self.count >= _smallest_heap(total[self.column])
        heaps, up_to = self.take(heap), up_to[heap]
        column = heaps.column[1:]
        between = up_to[1:] - heaps.count[1:] - up_to[:-1]
        fewer = np.minimum(heaps.count[1:], heaps.count[:-1])
        near = (column == heaps.column[:-1]) & (between <= PART_BETWEEN * fewer)
        # Heaps in a row: all of them have the width of the least that two of them are apart.
        n_pairs = np.bincount(column[near], minlength=n_columns)
        inside = np.bincount(column[near], weights=between[near], minlength=n_columns)
        no_heaps = total - heaps.totals
        width = np.full(n_columns, np.inf)
        np.minimum.at(width, column[near], np.diff(heaps.value)[near])
        rounded = (n_pairs >= FEWEST_HEAPS - 1) & (inside > 0.5 * no_heaps) & (width > smallest)
        of_a_pair = np.append(near, False) | np.append(False, near)
        entries = np.bincount(
            heaps.column, weights=heaps.count * of_a_pair[: heaps.count.size], minlength=n_columns
        )
        ratio = np.divide(width, smallest, out=np.ones(n_columns), where=rounded)
        share = np.where(rounded, entries / np.maximum(total, 1.0), 0.0)
        widths = smallest * np.sqrt(1.0 + share * (ratio**2 - 1.0))
        # Where nothing was rounded further, a very common value may stand for what others take up.
        own = np.bincount(self.column[~heap], minlength=n_columns)
        measured = (no_heaps >= SMALLEST_HEAP) & (own >= PART_OF_ITS_OWN * no_heaps) & ~rounded
        very_common = self.count >= np.maximum(PART_OF_A_POINT * total, SMALLEST_HEAP)[self.column]
        first = np.searchsorted(self.column, np.arange(n_columns + 1))
        for place in np.flatnonzero(very_common & measured[self.column]):
            column = self.column[place]
            whole = slice(first[column], first[column + 1])
            less_common = np.where(very_common[whole], 0.0, self.count[whole])
            near = _taken_up(self.value[whole], less_common, self.value[place], self.count[place])
            if near > WIDE * smallest[column]:
                part = self.count[place] / total[column]
                widths[column] = np.sqrt(widths[column] ** 2 + part * near**2)
        return np.asarray(widths)


def _taken_up(value: FloatArray, count: FloatArray, at: float, n_entries: float) -> float:
    """How wide an interval so many others take up, those that are nearest to a value.

    Of fewer others it is half of them. Where they stand on both sides, each has its own interval.
    """
    others = np.flatnonzero(count > 0)
    order = others[np.argsort(np.abs(value[others] - at), kind="stable")]
    up_to = np.cumsum(count[order])
    n_near = np.searchsorted(up_to, min(n_entries, 0.5 * up_to[-1])) + 1
    near = value[order[:n_near]]
    both_sides = near.min() < at < near.max()
    return float(np.ptp(near)) / (2.0 if both_sides else 1.0)
