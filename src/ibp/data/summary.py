"""One pass over a data matrix: column moments, the range, and the patterns of what is missing.

Columns that are missing in the same rows share one Z'Z, and rows that miss the same columns share
one quadratic form, so both kinds of pattern are numbered here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.source import RowSource, as_source, is_sparse
from ibp.parallel import Executor, Threads, ranges

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Rows (dense) and stored entries (sparse) that are looked at together: a megabyte or so.
ROWS_AT_ONCE = 256
SPARSE_ROWS_AT_ONCE = 4096
STORED_AT_ONCE = 1 << 19
# Rows with nothing missing, and rows beyond the patterns we keep count of.
COMPLETE, OWN_PATTERN = 0, -1
MOST_PATTERNS = 1 << 16
KEYS_AT_ONCE = 1024


@dataclass(frozen=True)
class Summary:
    """What one pass over the observed entries tells.

    Attributes
    ----------
    counts, means, squares : ndarray of shape (D,)
        Observed entries of each column, their mean, and their sum of squares about it.
    lowest, highest : ndarray of shape (D,)
        Smallest and largest observed entry of each column; NaN if there is none.
    row_pattern : ndarray of shape (N,)
        0 for complete rows; rows that miss the same columns share a positive number, or have -1
        where there are too many patterns to number them.
    n_patterns : int
        Patterns that are numbered, the complete one included.
    column_group : ndarray of shape (D,)
        Columns that are missing in the same rows share a number, in order of first appearance.
    """

    counts: IntArray
    means: FloatArray
    squares: FloatArray
    lowest: FloatArray
    highest: FloatArray
    row_pattern: npt.NDArray[np.int32]
    n_patterns: int
    column_group: IntArray

    @property
    def n_observed(self) -> int:
        """Observed entries."""
        return int(self.counts.sum())

    @property
    def variances(self) -> FloatArray:
        """Variance of each column; exactly 0 if it is constant."""
        # Equal numbers can have a mean that is not quite theirs, and so a variance.
        constant = self.lowest == self.highest
        return np.where(constant, 0.0, self.squares / np.maximum(self.counts, 1))

    @property
    def std(self) -> float:
        """Standard deviation of all observed entries; 0 if they are all the same."""
        n = max(self.n_observed, 1)
        if np.fmin.reduce(self.lowest) == np.fmax.reduce(self.highest):
            return 0.0
        grand_mean = float(self.counts @ self.means) / n
        about = float(self.squares.sum() + self.counts @ (self.means - grand_mean) ** 2)
        return float(np.sqrt(about / n))

    @property
    def std_within_columns(self) -> float:
        """Standard deviation of all observed entries about the means of their columns."""
        variances = self.variances
        return float(np.sqrt(self.counts @ variances / max(self.n_observed, 1)))

    @property
    def largest(self) -> float:
        """Largest magnitude of an observed entry; NaN if there is none."""
        return float(max(np.fmax.reduce(self.highest), -np.fmin.reduce(self.lowest)))


def summarize(values: Any, executor: Executor | None = None) -> Summary:
    """Look at every entry once; a source or a matrix of N x D, NaN where missing, dense or CSR."""
    source = as_source(values)
    if is_sparse(source):
        return _summarize_sparse(source)
    n_rows, n_columns = source.shape
    patterns = PatternBook(n_rows, n_columns)
    moments = ColumnMoments.none(n_columns)
    pieces = ranges(n_rows, ROWS_AT_ONCE)
    looks = (executor or Threads()).map(_look_at, source, pieces)
    for rows, (piece, missing) in zip(pieces, looks, strict=True):
        moments = moments.joined(piece)
        if missing is not None:
            patterns.enter(rows, missing)
    return moments.summary(patterns)


@dataclass(frozen=True)
class ColumnMoments:
    """Column moments of some rows."""

    counts: IntArray
    means: FloatArray
    squares: FloatArray
    lowest: FloatArray
    highest: FloatArray

    @classmethod
    def none(cls, n_columns: int) -> ColumnMoments:
        """Of no rows."""
        zeros, nans = np.zeros(n_columns), np.full(n_columns, np.nan)
        return cls(np.zeros(n_columns, dtype=np.int64), zeros, zeros, nans, nans)

    def joined(self, other: ColumnMoments) -> ColumnMoments:
        """Of both sets of rows (Chan's rule)."""
        counts = self.counts + other.counts
        weight = other.counts / np.maximum(counts, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            delta = other.means - self.means
            means = self.means + delta * weight
            squares = self.squares + other.squares + delta**2 * self.counts * weight
        return ColumnMoments(
            counts,
            means,
            squares,
            np.fmin(self.lowest, other.lowest),
            np.fmax(self.highest, other.highest),
        )

    def summary(self, patterns: PatternBook) -> Summary:
        """Together with the patterns."""
        return Summary(
            **vars(self),
            row_pattern=patterns.row_pattern,
            n_patterns=len(patterns.numbers) + 1,
            column_group=patterns.column_group(),
        )


def _look_at(source: RowSource, rows: slice) -> tuple[ColumnMoments, npt.NDArray[np.bool_] | None]:
    """Moments of some rows, and what is missing in them, if anything is.

    Sums are of differences from one observed entry of each column, which are as small as the data
    allow, and in double precision: numbers in single precision have the same moments as in double.
    """
    block = source.rows(rows)
    n_rows, n_columns = block.shape
    missing = np.isnan(block)
    counts = np.full(n_columns, n_rows, dtype=np.int64)
    filled, base = block, block[0]
    anything_missing = bool(missing.any())
    if anything_missing:
        counts -= missing.sum(axis=0)
        first = block[np.argmin(missing, axis=0), np.arange(n_columns)]
        base = np.where(counts > 0, first, block.dtype.type(0))
        filled = np.where(missing, base, block)
    lowest, highest = (filled.min(axis=0).astype(float), filled.max(axis=0).astype(float))
    filled, base = filled.astype(np.float64, copy=False), base.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are reported later
        difference = filled - base
        shift = difference.sum(axis=0) / np.maximum(counts, 1)
        squares = np.einsum("nd,nd->d", difference, difference)
        squares = np.maximum(squares - counts * shift**2, 0.0)
    lowest, highest = (np.where(counts > 0, bound, np.nan) for bound in (lowest, highest))
    moments = ColumnMoments(counts, base + shift, squares, lowest, highest)
    return moments, missing if anything_missing else None


def squares_fit(largest: float) -> bool:
    """Whether sums of squares of such numbers are well in the range of single precision."""
    return largest == 0.0 or 1e-12 < largest < 1e15


class PatternBook:
    """Numbers the rows' patterns as they come, and tells which columns have one pattern.

    Columns are told apart by a 128-bit hash over the distinct row patterns.
    """

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.row_pattern = np.zeros(n_rows, dtype=np.int32)
        self.numbers: dict[bytes, int] = {}
        self.column_hash = np.zeros((n_columns, 2), dtype=np.uint64)
        self.generator = np.random.default_rng(0)
        self.keys = np.empty((0, 2), dtype=np.uint64)
        self.n_keys = 0

    def number(self, pattern: bytes) -> tuple[int, bool]:
        """The number of a pattern, and whether its columns are still to be entered."""
        known = self.numbers.get(pattern)
        if known is not None:
            return known, False
        if len(self.numbers) + 1 >= MOST_PATTERNS:
            return OWN_PATTERN, True
        self.numbers[pattern] = len(self.numbers) + 1
        return len(self.numbers), True

    def key(self) -> npt.NDArray[np.uint64]:
        """128 random bits."""
        used = self.n_keys % KEYS_AT_ONCE
        if used == 0:
            self.keys = self.generator.integers(2**64, size=(KEYS_AT_ONCE, 2), dtype=np.uint64)
        self.n_keys += 1
        return np.asarray(self.keys[used])

    def enter(self, rows: slice, missing: npt.NDArray[np.bool_]) -> None:
        """Enter a block of rows."""
        packed = np.packbits(missing, axis=1)
        for i in np.flatnonzero(missing.any(axis=1)):
            number, new = self.number(packed[i].tobytes())
            self.row_pattern[rows.start + i] = number
            if new:
                self.column_hash[missing[i]] += self.key()

    def enter_row(self, row: int, columns: IntArray) -> None:
        """Enter one row by the columns that it misses."""
        number, new = self.number(columns.tobytes())
        self.row_pattern[row] = number
        if new:
            self.column_hash[columns] += self.key()

    def column_group(self) -> IntArray:
        """Number the columns' patterns in order of first appearance."""
        return numbered_by_appearance(self.column_hash)


def numbered_by_appearance(keys: npt.NDArray[Any]) -> IntArray:
    """The number of each key, or row of keys; equal ones have that of the first of them."""
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    renumbered = np.empty_like(by_appearance)
    renumbered[by_appearance] = np.arange(by_appearance.size)
    return renumbered[inverse.ravel()].astype(np.int64)


def _summarize_sparse(source: RowSource) -> Summary:
    """The same for rows that are sparse, from their stored entries; the others are zeros."""
    n_rows, n_columns = source.shape
    patterns = PatternBook(n_rows, n_columns)
    sums, counts = np.zeros(n_columns), np.full(n_columns, n_rows, dtype=np.int64)
    stored = np.zeros(n_columns, dtype=np.int64)
    lowest, highest = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    for data, columns in _stored_entries(source):
        missing = np.isnan(data)
        if missing.any():
            counts -= np.bincount(columns[missing], minlength=n_columns)
            data, columns = data[~missing], columns[~missing]
        with np.errstate(invalid="ignore"):
            sums += np.bincount(columns, weights=data, minlength=n_columns)
        stored += np.bincount(columns, minlength=n_columns)
        np.minimum.at(lowest, columns, data)
        np.maximum.at(highest, columns, data)
    has_zeros = stored < counts
    lowest[has_zeros] = np.minimum(lowest[has_zeros], 0.0)
    highest[has_zeros] = np.maximum(highest[has_zeros], 0.0)
    lowest[counts == 0], highest[counts == 0] = np.nan, np.nan
    with np.errstate(invalid="ignore", over="ignore"):
        means = sums / np.maximum(counts, 1)
        squares = (counts - stored) * means**2
        for data, columns in _stored_entries(source):
            deviation = data - means[columns]
            deviation[np.isnan(deviation)] = 0.0
            squares += np.bincount(columns, weights=deviation**2, minlength=n_columns)
    if (counts < n_rows).any():
        for rows in ranges(n_rows, SPARSE_ROWS_AT_ONCE):
            block = source.rows(rows)
            for row in _rows_of(block.indptr, np.flatnonzero(np.isnan(block.data))):
                entries = slice(block.indptr[row], block.indptr[row + 1])
                absent = block.indices[entries][np.isnan(block.data[entries])]
                patterns.enter_row(rows.start + int(row), np.sort(absent).astype(np.int64))
    return ColumnMoments(counts, means, squares, lowest, highest).summary(patterns)


def _stored_entries(source: RowSource) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Values and columns of all stored entries, in pieces of one size whatever the rows hold."""
    held: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
    n_held = 0
    for rows in ranges(source.shape[0], SPARSE_ROWS_AT_ONCE):
        block = source.rows(rows)
        held.append((block.data, block.indices))
        n_held += block.data.size
        is_last = rows.stop == source.shape[0]
        if n_held >= STORED_AT_ONCE or is_last:
            data, columns = (np.concatenate(parts) for parts in zip(*held, strict=True))
            n_given = n_held if is_last else n_held // STORED_AT_ONCE * STORED_AT_ONCE
            for piece in ranges(n_given, STORED_AT_ONCE):
                yield data[piece], columns[piece]
            held, n_held = [(data[n_given:], columns[n_given:])], n_held - n_given


def _rows_of(indptr: npt.NDArray[np.integer], entries: IntArray) -> IntArray:
    """The rows of a CSR matrix that hold some of its stored entries, each row once."""
    return np.unique(np.searchsorted(indptr, entries, side="right") - 1)
