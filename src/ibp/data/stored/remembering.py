"""Rows that are copied on their way past, so that those who need them later read nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibp.data.source import Block, OrderedRows, Rows, RowSource, in_order


class RememberingRows(OrderedRows):
    """Another source, of which some rows are remembered when they are read, one after the other.

    Parameters
    ----------
    source : RowSource
        The rows, which are dense.
    numbers : ndarray
        Those to remember, ascending.
    """

    def __init__(self, source: RowSource, numbers: npt.NDArray[np.int64]) -> None:
        self.source = source
        self.shape: tuple[int, int] = source.shape
        self.dtype = source.dtype
        self.numbers = numbers
        self._values = np.empty((numbers.size, source.shape[1]), dtype=source.dtype)
        self._seen = np.zeros(numbers.size, dtype=bool)

    def rows(self, rows: Rows) -> Block:
        """Some rows."""
        if not isinstance(rows, slice):
            place = np.minimum(np.searchsorted(self.numbers, rows), self.numbers.size - 1)
            if (self.numbers[place] == rows).all() and self._seen[place].all():
                return in_order(self._values[place], self.dtype)
            return self.source.rows(rows)
        block = self.source.rows(rows)
        start, stop, _ = rows.indices(self.shape[0])
        wanted = slice(*np.searchsorted(self.numbers, (start, stop)))
        if wanted.start < wanted.stop:
            self._values[wanted] = block[self.numbers[wanted] - start]
            self._seen[wanted] = True
        return block
