"""Units of the columns, and the resolution of what is recorded in them.

A recorded value stands for all that would have been recorded as it: an interval as wide as the
column's resolution, the smallest gap between two of its values. Its place in there is as good as
random, which adds resolution^2 / 12 to the variance of the column. The unit of a column is the
standard deviation with that: of a column of many values its standard deviation, and of one that is
nearly always the same not so small that its few other values are all that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.source import RowSource, is_sparse
from ibp.data.summary import Summary
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]

# Rows that are looked at, spread over all.
ROWS_LOOKED_AT = 4096
# What of them is read, and of how many columns gaps are measured, at a time.
ROWS_AT_ONCE, COLUMNS_AT_ONCE = 256, 4
# Values nearer to each other than this part of the column's range are one value, but for rounding.
SAME_VALUE = 1e-6
# Of columns with fewer values, the rarest do not count if they are no more than this part.
MOST_VALUES, RARE = 64, 0.01
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
    """The smallest gap between two common values of each column, in the user's order and units.

    Of columns that do not vary 0. In large data it is that of some rows, together with the
    smallest and the largest value of all: a gap that these do not show is rare.
    """
    n_rows = source.shape[0]
    step = -(-n_rows // ROWS_LOOKED_AT)
    ends = np.stack([summary.lowest, summary.highest])
    span = np.asarray(ends[1].astype(np.float64) - ends[0])
    if is_sparse(source):
        block = source.rows(slice(0, n_rows) if step == 1 else np.arange(0, n_rows, step))
        gaps = _smallest_gaps_of_stored(block, ends.astype(np.float64), SAME_VALUE * span)
    else:
        gaps = _smallest_gaps(_looked_at(source, step, ends), SAME_VALUE * span)
    return np.where(np.isfinite(gaps), gaps, 0.0)


def _looked_at(source: RowSource, step: int, ends: FloatArray) -> npt.NDArray[np.floating]:
    """Rows so far apart, read a few at a time, and the ends of the columns."""
    chosen = np.arange(0, source.shape[0], step)
    values = np.empty((chosen.size + 2, source.shape[1]), dtype=source.dtype)
    for part in ranges(chosen.size, ROWS_AT_ONCE):
        values[part] = source.rows(part if step == 1 else chosen[part])
    values[-2:] = ends
    return values


def _smallest_gaps(values: npt.NDArray[np.floating], same: FloatArray) -> FloatArray:
    """Of each column, whose values are put in order."""
    values.sort(axis=0)  # NaN come last, and make gaps of NaN
    smallest = np.full(values.shape[1], np.inf)
    for columns in ranges(values.shape[1], COLUMNS_AT_ONCE):
        part = values[:, columns].astype(np.float64)
        gaps = np.diff(part, axis=0)
        gaps[~(gaps > same[columns])] = np.inf
        found = gaps.min(axis=0)
        few = np.flatnonzero(np.isfinite(gaps).sum(axis=0) < MOST_VALUES)
        column, row = np.nonzero(~np.isnan(part[:, few]).T)
        own = _gaps_of_common_values(column, part[row, few[column]], same[columns][few], few.size)
        found[few] = own
        smallest[columns] = found
    return smallest


def _smallest_gaps_of_stored(block: Any, ends: FloatArray, same: FloatArray) -> FloatArray:
    """Of the values that are stored, the ends of the columns, and zero where it is not stored."""
    n_rows, n_columns = block.shape
    numbers = np.arange(n_columns)
    stored = np.bincount(block.indices, minlength=n_columns)
    column = np.concatenate([block.indices, numbers, numbers, numbers])
    value = np.concatenate([block.data, ends[0], ends[1], np.zeros(n_columns)])
    count = np.concatenate([np.ones(block.data.size + 2 * n_columns), n_rows - stored])
    kept = ~np.isnan(value) & (count > 0)
    column, value, count = column[kept], value[kept].astype(np.float64), count[kept]
    order = np.lexsort((value, column))
    return _gaps_of_common_values(column[order], value[order], same, n_columns, count[order])


def _gaps_of_common_values(
    column: npt.NDArray[np.intp],
    value: FloatArray,
    same: FloatArray,
    n_columns: int,
    count: FloatArray | None = None,
) -> FloatArray:
    """The smallest gap between values of a column, in order, the rarest ones left out.

    A few odd values, as of a row that was filled in, say nothing of how the others were recorded:
    those that together are at most a ``RARE`` part of a column do not count, if two remain.
    """
    first = np.ones(value.size, dtype=bool)
    first[1:] = (column[1:] != column[:-1]) | (np.diff(value) > same[column[1:]])
    start = np.flatnonzero(first)
    sizes = np.add.reduceat(count, start) if count is not None else np.diff([*start, value.size])
    column, value = column[start], value[start]
    total = np.bincount(column, weights=sizes, minlength=n_columns)
    order = np.lexsort((sizes, column))
    running = np.cumsum(sizes[order])
    begins = np.flatnonzero(np.diff(column[order], prepend=-1))
    before = np.repeat(running[begins] - sizes[order][begins], np.diff([*begins, order.size]))
    rare = np.empty(order.size, dtype=bool)
    rare[order] = running - before <= RARE * total[column[order]]
    commonest = np.full(n_columns, np.inf)
    np.minimum.at(commonest, column[~rare], sizes[~rare])
    rare &= sizes < commonest[column]
    n_left = np.bincount(column[~rare], minlength=n_columns)
    kept = ~rare | (n_left[column] < 2)
    column, value = column[kept], value[kept]
    smallest = np.full(n_columns, np.inf)
    told = column[1:] == column[:-1]
    np.minimum.at(smallest, column[1:][told], np.diff(value)[told])
    return smallest
