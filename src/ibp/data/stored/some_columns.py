"""Some columns of a file, in an order of choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ibp.data.source import Block
from ibp.data.stored.base import IntArray, StoredRows


class SomeColumns(StoredRows):
    """Rows of another stored matrix with some of its columns."""

    def __init__(self, stored: StoredRows, columns: Sequence[int]) -> None:
        self._stored = stored
        self.columns = np.asarray(columns, dtype=np.int64)
        self.name, self.dtype, self.sparse = stored.name, stored.dtype, stored.sparse
        self.shape = (stored.shape[0], self.columns.size)
        names = stored.column_names
        self.column_names = None if names is None else [names[j] for j in columns]

    def chunk_bounds(self) -> IntArray:
        """Those of the file."""
        return self._stored.chunk_bounds()

    def bytes_of_rows(self) -> IntArray:
        """Those of the file, all columns of which are read."""
        return self._stored.bytes_of_rows()

    def read(self, start: int, stop: int) -> Block:
        """Consecutive rows."""
        return self._stored.read(start, stop)[:, self.columns]

    def read_few(self, numbers: IntArray) -> Block | None:
        """Some rows by their numbers, if that is quick."""
        block = self._stored.read_few(numbers)
        return None if block is None else block[:, self.columns]

    def place(self, row: int) -> str:
        """Where in the file a row lies."""
        return self._stored.place(row)
