"""Sharing fixed pieces of work among threads, or among whatever else can run a function.

Work is a function of a task and a piece that returns all that it changes: nothing is shared but
what is read, so the same function could run in another process (but for the spectral start, whose
sample is in memory and whose work is closures over it). A piece must not share out work itself: on
threads that are all busy it would wait for ever. The pieces never depend on how many run at a time
and their results come back in order, so neither does any sum over them. What runs in a piece should
release Python's lock: BLAS and our kernels do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, Self, TypeVar

TaskT = TypeVar("TaskT")
Piece = TypeVar("Piece")
Result = TypeVar("Result")
# Pieces per thread that may be under way or done before their results are taken.
AHEAD = 4


class Executor(Protocol):
    """Runs the pieces of a task; it is made once for a fit and handed down."""

    def map(
        self, work: Callable[[TaskT, Piece], Result], task: TaskT, pieces: Iterable[Piece]
    ) -> Iterator[Result]:
        """Results of ``work(task, piece)`` for every piece, in the order of the pieces."""
        ...


class Threads:
    """An executor of threads, which are started when they are first needed."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def map(
        self, work: Callable[[TaskT, Piece], Result], task: TaskT, pieces: Iterable[Piece]
    ) -> Iterator[Result]:
        """Results of ``work(task, piece)`` for every piece, in the order of the pieces."""
        pieces = list(pieces)
        if self.n_jobs == 1 or len(pieces) < 2:
            return (work(task, piece) for piece in pieces)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs)
        return self._in_order(self._pool, work, task, pieces)

    def _in_order(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[TaskT, Piece], Result],
        task: TaskT,
        pieces: list[Piece],
    ) -> Iterator[Result]:
        """As the pool's own map, but only so far ahead that results do not pile up."""
        waiting: deque[Future[Result]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, task, piece))
                if len(waiting) > AHEAD * self.n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def map_until(
    should_stop: Callable[[], bool],
    executor: Executor,
    work: Callable[[TaskT, Piece], Result],
    task: TaskT,
    pieces: Sequence[Piece],
) -> Iterator[tuple[Piece, Result]]:
    """Pieces with their results, in order, until ``should_stop``, asked before each, says so."""
    results = executor.map(work, task, pieces)
    for piece in pieces:
        if should_stop():
            return
        yield piece, next(results)


def ranges(n: int, size: int) -> list[slice]:
    """Cut 0 .. n into slices of one size; the last may be shorter."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
