"""What the seconds of a fit are.

They pass on the wall, for whoever waits. Where fits are timed to be compared, each with one thread
and with other work beside it, they are those of the processor: what a fit would take alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Clock = Callable[[], float]
_clock: ContextVar[Clock] = ContextVar("clock", default=time.perf_counter)


def present_clock() -> Clock:
    """The clock in force; who asks again later, maybe from another thread, keeps it."""
    return _clock.get()


@contextmanager
def processor_time() -> Iterator[None]:
    """Count the seconds of this process on a processor, not those in which others had it."""
    token = _clock.set(time.process_time)
    try:
        yield
    finally:
        _clock.reset(token)
