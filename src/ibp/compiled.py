"""How kernels are compiled.

Compiled on first use and kept on disk, callable without Python's lock, and with NumPy's arithmetic:
a division by zero gives an infinity instead of costing a test each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit
from numba.core import event


def kernel(function: Any = None, **options: Any) -> Any:
    """Decorate a kernel, with or without further options."""
    settings: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"} | options
    return njit(**settings) if function is None else njit(**settings)(function)


class _Outermost(event.Listener):
    """Reports a kernel that is compiled, but not the others that are compiled for it."""

    def __init__(self, report: Callable[[str], object]) -> None:
        self.report = report
        self.depth = 0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.report(event.data["dispatcher"].py_func.__name__)
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1


@contextmanager
def compilation_reported(report: Callable[[str], object]) -> Iterator[None]:
    """Call ``report`` with a kernel's name when it is about to be compiled, not when it is loaded.

    That happens once per machine and kind of data, and takes seconds.
    """
    listener = _Outermost(report)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
