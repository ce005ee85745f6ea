"""Having the pages of a mapped file in memory before they are worked on.

Whoever touches a page of a mapped file that is not in memory waits for the disk. A thread that goes
on ahead and touches the pages that come next lets others wait no more than the disk takes; it
copies nothing, and pages are the kernel's, which takes them back when memory is short.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

# Bytes between two touches, and those that are touched at a time, ahead of what was asked for.
PAGE, WINDOW = 1 << 12, 1 << 25
# Smaller files are read when they are first seen, and stay.
SMALLEST = 1 << 27


class PagesAhead:
    """Touches what follows the rows that are asked for.

    Parameters
    ----------
    values : ndarray
        Mapped, row after row.
    """

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._bytes = values.reshape(-1).view(np.uint8).view(np.ndarray)
        self._row_bytes = values.shape[1] * values.itemsize
        self._lock = threading.Lock()
        self._reached = 0  # bytes up to which pages were touched, or are being
        self._asked = 0  # where somebody asked for rows last
        self._thread: ThreadPoolExecutor | None = None
        self._touching: Future[None] | None = None

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> PagesAhead | None:
        """For an array that is large, and whose rows lie one after the other; else None."""
        worthwhile = values.nbytes >= SMALLEST and values.flags.c_contiguous
        return cls(values) if worthwhile and values.dtype.kind in "biuf" else None

    def after(self, row: int) -> None:
        """Touch what follows a row, unless that is under way."""
        position = row * self._row_bytes
        with self._lock:
            if position < self._asked - WINDOW:  # a new pass
                self._reached = position
            self._asked = position
            self._reached = max(self._reached, position)
            busy = self._touching is not None and not self._touching.done()
            if busy or self._reached >= min(position + WINDOW, self._bytes.size):
                return
            start, self._reached = self._reached, min(position + 2 * WINDOW, self._bytes.size)
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="ibp-pages")
            self._touching = self._thread.submit(touch, self._bytes[start : self._reached])


def touch(pages: npt.NDArray[np.uint8]) -> None:
    """Read a byte of every page."""
    pages[::PAGE].max(initial=0)
