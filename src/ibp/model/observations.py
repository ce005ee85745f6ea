"""The data matrix and the pattern of what is observed in it.

NaN means missing. Columns that are missing in the same rows share one Z'Z, and rows that miss the
same columns share one quadratic form, so both are numbered by pattern here. Inside the library
factors are kept in *layout order*: columns of one pattern side by side. X itself stays as it was
given; blocks of it are reordered and filled on their way through.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Rows per block when X is passed over; a multiple of eight, so that packed masks line up.
BLOCK_ROWS = 2048


@dataclass(frozen=True)
class Observations:
    """A dense data matrix with the patterns of its missing entries.

    Attributes
    ----------
    values : ndarray of shape (N, D), float32 or float64
        The data, NaN where missing.
    column_order : ndarray of shape (D,)
        Layout order: position j holds column ``column_order[j]``.
    group_start : ndarray of shape (G + 1,)
        Column group g occupies the layout positions ``group_start[g]`` to ``group_start[g + 1]``.
    row_pattern : ndarray of shape (N,)
        Number of the row's pattern.
    n_patterns : int
        How many patterns the rows have.
    n_observed, sum_of_squares : int, float
        Over the observed entries.
    """

    values: npt.NDArray[np.floating]
    column_order: IntArray
    group_start: IntArray
    row_pattern: IntArray
    n_patterns: int
    n_observed: int
    sum_of_squares: float

    @classmethod
    def from_array(cls, values: npt.NDArray[np.floating]) -> Observations:
        """Find the patterns of a matrix."""
        # Read-only whatever it was: nothing here changes X, and kernels see one type of array.
        values = np.ascontiguousarray(values).view()
        values.flags.writeable = False
        n_samples, n_features = values.shape
        packed_rows: list[npt.NDArray[np.uint8]] = []
        packed_columns: list[npt.NDArray[np.uint8]] = []
        n_missing = 0
        sum_of_squares = 0.0
        for start in range(0, n_samples, BLOCK_ROWS):
            block = values[start : start + BLOCK_ROWS]
            missing = np.isnan(block)
            n_missing += int(missing.sum())
            filled = np.where(missing, 0.0, block).astype(np.float64, copy=False)
            sum_of_squares += float(np.einsum("nd,nd->", filled, filled))
            packed_rows.append(np.packbits(missing, axis=1))
            packed_columns.append(np.packbits(missing, axis=0))
        if n_missing == 0:
            column_group = np.zeros(n_features, dtype=np.int64)
            row_pattern = np.zeros(n_samples, dtype=np.int64)
        else:
            column_group = _number_patterns(np.concatenate(packed_columns).T)
            row_pattern = _number_patterns(np.concatenate(packed_rows))
        column_order = np.argsort(column_group, kind="stable").astype(np.int64)
        group_size = np.bincount(column_group, minlength=1)
        return cls(
            values,
            column_order,
            np.concatenate([[0], np.cumsum(group_size)]).astype(np.int64),
            row_pattern,
            int(row_pattern.max(initial=-1)) + 1,
            values.size - n_missing,
            sum_of_squares,
        )

    @property
    def n_samples(self) -> int:
        """N."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.values.shape[1])

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.n_observed == self.values.size

    @property
    def group_column(self) -> IntArray:
        """One column of X per group, to tell whether a row observes the group."""
        return self.column_order[self.group_start[:-1]]

    def blocks(self, n_rows: int = BLOCK_ROWS) -> Iterator[tuple[slice, FloatArray]]:
        """Pass over X: row ranges with their filled, layout-ordered values in double precision."""
        for start in range(0, self.n_samples, n_rows):
            rows = slice(start, min(start + n_rows, self.n_samples))
            block = self.values[rows][:, self.column_order].astype(np.float64, copy=False)
            yield rows, np.nan_to_num(block, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)

    def observed_groups(self, rows: slice) -> npt.NDArray[np.bool_]:
        """Which column groups each row of a range observes, shape (rows, G)."""
        return np.asarray(~np.isnan(self.values[rows][:, self.group_column]))

    def to_layout(self, by_column: npt.NDArray[np.float64]) -> FloatArray:
        """Bring a K x D matrix from the user's column order into layout order."""
        return np.ascontiguousarray(by_column[:, self.column_order])

    def from_layout(self, by_position: npt.NDArray[np.float64]) -> FloatArray:
        """Bring a K x D matrix from layout order back into the user's column order."""
        by_column = np.empty_like(by_position)
        by_column[:, self.column_order] = by_position
        return by_column


def _number_patterns(packed: npt.NDArray[np.uint8]) -> IntArray:
    """Number the distinct rows of a bit-packed matrix in order of first appearance."""
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    renumbered = np.empty_like(by_appearance)
    renumbered[by_appearance] = np.arange(by_appearance.size)
    return renumbered[inverse.ravel()].astype(np.int64)
