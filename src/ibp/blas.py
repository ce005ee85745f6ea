"""Products that are the same on every machine, whatever its number of cores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

# The limit belongs to the process: the first to ask for it sets it, the last to leave lifts it.
_lock = threading.Lock()
_users = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds, so it is done once."""
    return ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread: with more, sums differ in their last bits."""
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
            _let_go()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _let_go()


def _let_go() -> None:
    """Let other threads change the limit, too: in newer threadpoolctl the last to set it owns it.

    Leaving a context gives it up; this one changes nothing.
    """
    with _controller().limit(limits=None, user_api="blas"):
        pass


def reconstruct(
    codes: npt.NDArray[Any], components: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Codes times components, reproducibly."""
    with single_threaded_blas():
        return codes.astype(np.float64, copy=False) @ components
