"""How kernels are compiled.

Compiled on first use and kept on disk, callable without Python's lock, and with NumPy's arithmetic:
a division by zero gives an infinity instead of costing a test each time. Nothing calls kernels from
C, so that no entry is compiled for that.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from numba import njit
from numba.core import event


def kernel(function: Any = None, **options: Any) -> Any:
    """Decorate a kernel, with or without further options."""
    settings: dict[str, Any] = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
    } | options
    return njit(**settings) if function is None else njit(**settings)(function)


def inner_kernel(function: Any) -> Any:
    """Decorate a kernel that only other kernels call: no entry from Python is compiled for it."""
    return kernel(function, no_cpython_wrapper=True)


def inlined(function: Any) -> Any:
    """Decorate a part of a kernel that is compiled with those that call it, not by itself.

    A function that a kernel calls is optimised twice, by itself and again as a part of its caller,
    and so on upwards. What is called in one or two places is compiled sooner as a part of these.
    """
    return kernel(function, inline="always")


class _Outermost(event.Listener):
    """Hears of each kernel that is compiled, but not of the others that are compiled for it."""

    def __init__(self, begins: Callable[[str], object], ends: Callable[[], object]) -> None:
        self.begins, self.ends = begins, ends
        self.depth = 0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.begins(event.data["dispatcher"].py_func.__name__)
        self.depth += 1

    def on_end(self, event: Any) -> None:
        if self.depth == 1:
            self.ends()
        self.depth = max(self.depth - 1, 0)  # what another thread began before is not ours to count


class _Notice:
    """One line on standard error, for a user who has waited for a while and is told nothing."""

    text = "ibp is compiling its inner loops, which can take a minute; they are kept for next time."
    patience = 1.0  # seconds of compilation
    given = False  # in this process
    reports = 0  # of those under way, which make it superfluous

    def __init__(self) -> None:
        self.waited = 0.0

    @classmethod
    def wanted(cls) -> bool:
        """Whether there is a user at a terminal who does not know yet."""
        try:
            return not (cls.given or cls.reports) and bool(sys.stderr.isatty())
        except (AttributeError, ValueError):  # there is no such stream, or it is closed
            return False

    @classmethod
    def give(cls) -> None:
        """Say it, but only once."""
        if cls.wanted():
            cls.given = True
            with suppress(OSError):
                print(cls.text, file=sys.stderr, flush=True)

    def begin(self, kernel: str) -> None:
        """Begin to wait for a kernel, which may take all the time by itself."""
        self.began = time.perf_counter()
        self.timer = threading.Timer(self.patience - self.waited, self.give)
        self.timer.daemon = True
        self.timer.start()

    def end(self) -> None:
        """Count the time that a kernel took."""
        self.timer.cancel()
        self.waited += time.perf_counter() - self.began


@contextmanager
def compilation_reported(report: Callable[[str], object]) -> Iterator[None]:
    """Call ``report`` with a kernel's name when it is about to be compiled, not when it is loaded.

    That happens once per machine and kind of data, and takes seconds.
    """
    _Notice.reports += 1
    try:
        with event.install_listener("numba:compile", _Outermost(report, lambda: None)):
            yield
    finally:
        _Notice.reports -= 1


@contextmanager
def compilation_noticed() -> Iterator[None]:
    """Tell a user at a terminal what takes so long if compilation does, once per process.

    Nothing is said in pipes and notebooks, nor where `compilation_reported` says it already.
    """
    notice = _Notice()
    listener = _Outermost(notice.begin, notice.end)
    with event.install_listener("numba:compile", listener) if notice.wanted() else nullcontext():
        yield
