"""Long compiled work in pieces, so that a clock or a Ctrl-C is heeded between them."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_BETWEEN_CHECKS = 0.05
FIRST_CHUNK = 16


def in_chunks(
    n: int,
    work: Callable[[int, int], int],
    should_stop: Callable[[], bool],
    *,
    by_the_clock: bool = True,
) -> int:
    """Call ``work(first, last)`` until it has gone through 0 .. n or should stop.

    It returns the position that it has reached, which may be short of ``last``. The size of the
    chunks follows the clock, so nothing may depend on it; if something does, they are all small.
    Returns the position reached.
    """
    position, chunk = 0, FIRST_CHUNK
    while position < n and not should_stop():
        started, before = time.perf_counter(), position
        position = work(position, min(position + chunk, n))
        if by_the_clock:
            seconds = (time.perf_counter() - started) / max(position - before, 1)
            chunk = max(1, min(2 * chunk, int(SECONDS_BETWEEN_CHECKS / max(seconds, 1e-9))))
    return position
