"""Sharing fixed pieces of work among threads.

The pieces never depend on the number of threads and their results come back in order, so neither
does any sum over them. What runs in a piece should release Python's lock: BLAS and our kernels do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")
# Pieces per thread that may be under way or done before their results are taken.
AHEAD = 4


class Workers:
    """A pool of threads, made when it is first needed and let go with the object."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None

    def map(self, work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Results of ``work`` on every piece, in the order of the pieces."""
        pieces = list(pieces)
        if self.n_jobs == 1 or len(pieces) < 2:
            return map(work, pieces)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs)
        return self._in_order(self._pool, work, pieces)

    def each(self, work: Callable[[Piece], None], pieces: Iterable[Piece]) -> None:
        """Do every piece of work that has no result."""
        for _ in self.map(work, pieces):
            pass

    def _in_order(
        self, pool: ThreadPoolExecutor, work: Callable[[Piece], Result], pieces: list[Piece]
    ) -> Iterator[Result]:
        """As the pool's own map, but only so far ahead that results do not pile up."""
        waiting: deque[Future[Result]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, piece))
                if len(waiting) > AHEAD * self.n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def ranges(n: int, size: int) -> list[slice]:
    """Cut 0 .. n into slices of one size; the last may be shorter."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
