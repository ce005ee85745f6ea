"""Codes of all rows: in memory or, past a limit, in a temporary file; packed where they are kept.

Z takes a byte for each row and feature, and moves make copies of it. Where that is more than memory
should hold, a matrix lies in a file without a name, in the folder for temporary files, which the
system removes with the last who uses it. To all who work with it, it is an array like any other.
"""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np
import numpy.typing as npt

from ibp.parallel import ranges

Codes = npt.NDArray[np.uint8]

# Bytes of a matrix that is still in memory, and of a part that is copied at a time.
LARGEST_IN_MEMORY = 1 << 30
BYTES_AT_ONCE = 1 << 24


def new_codes(n_rows: int, n_components: int) -> Codes:
    """A matrix of zeros."""
    n_bytes = n_rows * n_components
    if n_bytes > LARGEST_IN_MEMORY:
        mapped = _in_a_file(n_bytes)
        if mapped is not None:
            return np.ndarray((n_rows, n_components), dtype=np.uint8, buffer=mapped)
    return np.zeros((n_rows, n_components), dtype=np.uint8)


def _in_a_file(n_bytes: int) -> mmap.mmap | None:
    """So many zeros of a file; None where there is no room on disk, or none can be made sure of."""
    if not hasattr(os, "posix_fallocate"):
        return None
    with tempfile.TemporaryFile(prefix="ibp-codes-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, n_bytes)  # else a full disk would end the process
        except OSError:
            return None
        return mmap.mmap(file.fileno(), n_bytes)


def copied(codes: Codes) -> Codes:
    """A matrix of its own with the same codes."""
    return joined(codes, codes[:, :0])


def joined(codes: Codes, added: Codes) -> Codes:
    """Two matrices side by side, in one of its own."""
    n_rows, n_old = codes.shape
    made = new_codes(n_rows, n_old + added.shape[1])
    for rows in pieces(made):
        made[rows, :n_old] = codes[rows]
        made[rows, n_old:] = added[rows]
    return made


def with_columns(codes: Codes, keep: npt.NDArray[np.bool_]) -> Codes:
    """Some columns of a matrix, in one of its own."""
    made = new_codes(codes.shape[0], int(np.count_nonzero(keep)))
    for rows in pieces(codes):
        made[rows] = codes[rows][:, keep]
    return made


def pieces(codes: Codes) -> list[slice]:
    """Rows of a matrix to be worked on together."""
    return ranges(codes.shape[0], max(BYTES_AT_ONCE // max(codes.shape[1], 1), 1))


class PackedCodes:
    """A copy of codes in an eighth of their room, to see later what has become of them."""

    def __init__(self, codes: Codes) -> None:
        self._width = codes.shape[1]
        self._bits = new_codes(codes.shape[0], -(-self._width // 8))
        for rows in pieces(codes):
            self._bits[rows] = np.packbits(codes[rows], axis=1)

    def rows_that_differ(self, codes: Codes) -> int:
        """How many rows have another code now; all of them if features have come or gone."""
        if codes.shape != (self._bits.shape[0], self._width):
            return int(self._bits.shape[0])
        return sum(
            int((np.packbits(codes[rows], axis=1) != self._bits[rows]).any(axis=1).sum())
            for rows in pieces(codes)
        )
