"""Rows of a file, read by a thread of their own a little ahead of where they are needed.

A file is read in slabs: whole chunks of it, about as many bytes each whatever the chunks are. While
one slab is worked on, the next is read, and a few are kept, so that those who look at the same rows
twice, or at rows of two slabs, do not wait again. What is in memory does not grow with the file.
One thread reads, because most formats can do no more than one thing at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.data.source import Block, OrderedRows, Rows, consecutive_rows, in_order
from ibp.data.stored.base import IntArray, StoredRows, changed_shape
from ibp.errors import DataFileError, InputError

# Bytes of a slab, if chunks are not larger, and of all that are kept. Three are kept in any case:
# pieces that are worked on side by side may be in two, and one more is being read.
SLAB_BYTES, KEPT_BYTES, FEWEST_KEPT = 1 << 24, 1 << 26, 3
# What libraries raise for files that cannot be read to their end.
UNREADABLE = (OSError, RuntimeError, ValueError, KeyError, EOFError)


class ReadAhead(OrderedRows):
    """Rows of a stored matrix.

    Attributes
    ----------
    stored : StoredRows
        What is read.
    column_names : list of str or None
        Names of the columns, if the file has any.
    """

    def __init__(self, stored: StoredRows, slab_bytes: int = SLAB_BYTES) -> None:
        self.stored = stored
        self.shape: tuple[int, int] = stored.shape
        self.dtype = stored.dtype
        self.column_names = stored.column_names
        self._bounds, largest = slabs_of(stored, slab_bytes)
        self._most_kept = max(FEWEST_KEPT, KEPT_BYTES // max(largest, 1))
        self._kept: OrderedDict[int, Future[Block]] = OrderedDict()
        self._lock = threading.Lock()
        self._reader: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        return f"<{n_rows:,} x {n_columns:,} {self.dtype} in {self.stored.name}>"

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(f"The rows of {self.stored.name} cannot be copied; open the file again.")

    @property
    def file(self) -> str:
        """What to call the file in a message."""
        return self.stored.name

    def place(self, row: int) -> str:
        """Where in the file a row lies, in words."""
        return self.stored.place(row)

    def rows(self, rows: Rows) -> Block:
        """Some rows."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                return self._consecutive(start, stop)
            rows = np.arange(start, stop, step)
        return self._picked(np.asarray(rows))

    def _consecutive(self, start: int, stop: int) -> Block:
        """Rows one after the other: a part of a slab, or of several put together."""
        if stop <= start:
            return self._nothing()
        first = self._slab_of(start)
        last = self._slab_of(stop - 1)
        if first == last:
            begin = int(self._bounds[first])
            return _part(self._slab(first, first + 1), start - begin, stop - begin)
        joined = Joined(self, stop - start)
        for number in range(first, last + 1):
            begin, end = self._bounds[number : number + 2]
            block = self._slab(number, number + 1)
            joined.add(_part(block, max(start - begin, 0), min(stop, end) - begin))
        return joined.block()

    def _picked(self, numbers: npt.NDArray[np.integer]) -> Block:
        """Rows by their numbers, each slab that they lie in being read once."""
        if numbers.size == 0:
            return self._nothing()
        if numbers.min() < -self.shape[0] or numbers.max() >= self.shape[0]:
            raise IndexError(f"{self.stored.name} has {self.shape[0]} rows")
        numbers = np.where(numbers < 0, numbers + self.shape[0], numbers).astype(np.int64)
        ordered, place = np.unique(numbers, return_inverse=True)
        slab = np.searchsorted(self._bounds, ordered, side="right") - 1
        slabs, begin = np.unique(slab, return_index=True)
        few = None
        if not self._has(slabs):
            few = self._few(ordered)
        if few is None:
            joined = Joined(self, ordered.size)
            end = [*begin[1:], ordered.size]
            for i, number in enumerate(slabs.tolist()):
                after = int(slabs[i + 1]) if i + 1 < slabs.size else None
                block = self._slab(number, after)
                joined.add(block[ordered[begin[i] : end[i]] - self._bounds[number]])
            few = joined.block()
        place = place.ravel()
        if place.size == ordered.size and (place == np.arange(place.size)).all():
            return in_order(few, self.dtype)
        return in_order(few[place], self.dtype)

    def _few(self, ordered: IntArray) -> Block | None:
        """Rows without the rest of their slabs, where the format has a way to that."""
        with self._lock:
            reader = self._started()
        return reader.submit(self._guarded, self.stored.read_few, ordered).result()

    def _nothing(self) -> Block:
        if self.stored.sparse:
            return sparse.csr_array((0, self.shape[1]), dtype=self.dtype)
        return in_order(np.empty((0, self.shape[1]), dtype=self.dtype), self.dtype)

    def _slab_of(self, row: int) -> int:
        return int(np.searchsorted(self._bounds, row, side="right")) - 1

    def _has(self, slabs: npt.NDArray[np.integer]) -> bool:
        """Whether all of some slabs are in memory, or on their way."""
        with self._lock:
            return all(number in self._kept for number in slabs.tolist())

    def _slab(self, number: int, after: int | None) -> Block:
        """The rows of a slab, while those of the one ``after`` it are on their way."""
        with self._lock:
            future = self._asked_for(number)
            if after is not None and after < self._bounds.size - 1:
                self._asked_for(after)
            while len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
        try:
            return future.result()
        except BaseException:
            with self._lock:  # who asks again may find it mended
                self._kept.pop(number, None)
            raise

    def _asked_for(self, number: int) -> Future[Block]:
        future = self._kept.get(number)
        if future is None:
            future = self._started().submit(self._load, number)
            self._kept[number] = future
        self._kept.move_to_end(number)
        return future

    def _started(self) -> ThreadPoolExecutor:
        if self._reader is None:
            self._reader = ThreadPoolExecutor(1, thread_name_prefix="ibp-reader")
        return self._reader

    def _load(self, number: int) -> Block:
        start, stop = (int(bound) for bound in self._bounds[number : number + 2])
        block = self._guarded(self.stored.read, start, stop)
        if block.shape != (stop - start, self.shape[1]):
            n_rows = self.shape[0] - (stop - start) + block.shape[0]
            raise changed_shape(self.shape, (n_rows, block.shape[1]), file=self.stored.name)
        return in_order(block, self.dtype)

    def _guarded(self, read: Any, *which: Any) -> Any:
        """Read, or say of which rows that was not possible."""
        try:
            return read(*which)
        except InputError:
            raise
        except UNREADABLE as error:
            numbers = which[0] if len(which) == 1 else range(*which)
            first, last = int(numbers[0]), int(numbers[-1])
            raise DataFileError(
                f"cannot be read in rows {first + 1:,} to {last + 1:,}"
                f"{self.stored.place(first)}: {str(error).strip() or type(error).__name__}",
                "It is damaged or cut short; save or copy it again",
                file=self.stored.name,
            ) from error


class Joined:
    """Rows that come in parts; dense ones are put in their place at once."""

    def __init__(self, source: ReadAhead, n_rows: int) -> None:
        self.parts: list[Block] = []
        self.values = None
        if not source.stored.sparse:
            self.values = np.empty((n_rows, source.shape[1]), dtype=source.dtype)
        self.n_rows = 0

    def add(self, part: Block) -> None:
        """Add rows behind those that are there."""
        if self.values is None:
            self.parts.append(part)
        else:
            self.values[self.n_rows : self.n_rows + part.shape[0]] = part
        self.n_rows += part.shape[0]

    def block(self) -> Block:
        """All of them."""
        if self.values is None:
            return sparse.vstack(self.parts, format="csr")
        return in_order(self.values, self.values.dtype)


def _part(block: Block, start: int, stop: int) -> Block:
    """Consecutive rows of a block, not copied."""
    if sparse.issparse(block):
        return consecutive_rows(block, start, stop)
    return block[start:stop]


def slabs_of(stored: StoredRows, slab_bytes: int) -> tuple[IntArray, int]:
    """The bounds of slabs, of whole chunks each, and the bytes of the largest."""
    bounds, size = stored.chunk_bounds(), stored.bytes_of_rows()
    kept = [0]
    for i in range(1, bounds.size - 1):
        if size[i + 1] - size[kept[-1]] > slab_bytes:
            kept.append(i)
    kept.append(bounds.size - 1)
    return bounds[kept], int(np.diff(size[kept]).max(initial=0))
