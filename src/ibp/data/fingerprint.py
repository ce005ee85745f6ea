"""What tells one data matrix from another, without a further pass over all of it.

Shape and type; the moments and the range of each column, which are summed up anyway; and a hash of
what is missing and of some blocks of rows: all of them if there are few. Only exact values are
hashed, so that another processor, whose sums may differ in their last digits, knows the data again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.source import RowSource, is_sparse
from ibp.data.summary import Summary

# Rows of this many blocks of this size are hashed, evenly spread from the first to the last.
BLOCKS, BLOCK_ROWS = 64, 256
# By how much sums may differ, in units of what was summed, where the numbers are the same.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Fingerprint:
    """What is known of a data matrix.

    Attributes
    ----------
    shape : tuple
        Rows and columns.
    kind : str
        Dense or sparse, and the type of the numbers.
    digest : str
        Of what is missing, of the range of each column and of some rows, in hexadecimal digits.
    means, squares : ndarray of shape (D,)
        The mean of each column, and the sum of squares about it.
    """

    shape: tuple[int, int]
    kind: str
    digest: str
    means: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]

    @classmethod
    def of(cls, source: RowSource, summary: Summary) -> Fingerprint:
        """That of the rows of a source, of which there is a summary."""
        shape = (int(source.shape[0]), int(source.shape[1]))
        kind = f"{'sparse' if is_sparse(source) else 'dense'} {np.dtype(source.dtype).name}"
        digest = hashlib.sha256()
        for known in (summary.counts, summary.lowest, summary.highest, summary.row_pattern):
            _add(digest, known)
        for rows in sampled_blocks(shape[0]):
            block = source.rows(rows)
            if kind.startswith("sparse"):
                _add(digest, np.asarray(block.indptr, dtype=np.int64))
                _add(digest, np.asarray(block.indices, dtype=np.int64))
                block = block.data
            _add(digest, block)
        return cls(shape, kind, digest.hexdigest(), summary.means, summary.squares)

    def difference(self, before: Fingerprint) -> str:
        """What is not as it was, for a sentence about what was there before; nothing if all is."""
        if self.shape != before.shape:
            return f"{_size(before.shape)}, and now there are {_size(self.shape)}"
        if self.kind != before.kind:
            return f"{before.kind} numbers, and now there are {self.kind} ones"
        scale = np.sqrt(before.squares / self.shape[0]) + np.abs(before.means)
        close = np.abs(self.means - before.means) <= ROUNDING * scale
        about = before.squares + self.shape[0] * before.means**2
        close &= np.abs(self.squares - before.squares) <= ROUNDING * about
        other = np.flatnonzero(~close)
        if other.size:
            more = f" and {other.size - 1:,} more have" if other.size > 1 else " has"
            return f"as many rows and columns, but column {other[0]}{more} other values now"
        if self.digest != before.digest:
            return "as many rows and columns, but other values or another order of rows"
        return ""


def sampled_blocks(n_rows: int) -> list[slice]:
    """Blocks of rows that stand for all, and that are all where there are few."""
    if n_rows <= BLOCKS * BLOCK_ROWS:
        starts = np.arange(0, n_rows, BLOCK_ROWS)
    else:
        starts = np.linspace(0, n_rows - BLOCK_ROWS, BLOCKS).astype(np.int64)
    return [slice(int(start), min(int(start) + BLOCK_ROWS, n_rows)) for start in starts]


def _add(digest: Any, values: npt.NDArray[Any]) -> None:
    """Hash numbers; whatever NaN and zero look like in bits, there is one of each."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values + 0.0).astype(values.dtype)
    digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]:,} x {shape[1]:,} numbers"
