"""What is said of compilation, and to whom."""

from __future__ import annotations

import io
import itertools
import threading
import time
from threading import Timer
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit
from numba.extending import overload

from ibp import compiled
from ibp.compiled import compilation_noticed, compilation_reported
from problems import plain


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal for standard error, in a process that has said nothing of compilation so far."""
    monkeypatch.setattr(compiled._Notice, "given", False)
    monkeypatch.setattr(compiled._Notice, "patience", 0.05)
    return connected(monkeypatch, Terminal())


def connected(monkeypatch, stream):
    """The stream, as what the library takes for standard error: the test runner has its own."""
    monkeypatch.setattr(compiled, "sys", SimpleNamespace(stderr=stream))
    return stream


def compile_for(seconds):
    """Compile a kernel, and another for it, which takes at least so long."""

    def waiting():
        raise NotImplementedError

    @overload(waiting)
    def compile_waiting():
        time.sleep(seconds)
        return lambda: 1

    @njit
    def inner():
        return waiting()

    @njit
    def outer():
        return inner() + 1

    assert outer() == 2


def test_one_long_compilation_is_noticed_while_it_lasts(terminal):
    with compilation_noticed():
        compile_for(0.3)
    assert terminal.getvalue() == compiled._Notice.text + "\n"


def test_short_compilations_add_up(terminal, monkeypatch):
    clock = itertools.count(step=40)  # seconds that each of them seems to take
    monkeypatch.setattr(compiled, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(compiled._Notice, "patience", 60.0)
    with compilation_noticed():
        compile_for(0.0)
        compile_for(0.0)
        assert terminal.getvalue() == ""
        compile_for(0.2)
    assert "compiling" in terminal.getvalue()


def test_it_is_said_once_in_a_process(terminal):
    with compilation_noticed():
        compile_for(0.2)
        compile_for(0.2)
    with compilation_noticed():
        compile_for(0.2)
    assert len(terminal.getvalue().splitlines()) == 1


def test_nothing_waits_between_compilations(terminal, monkeypatch):
    monkeypatch.setattr(compiled._Notice, "patience", 60.0)
    with compilation_noticed():
        compile_for(0.0)
        waiting = [thread for thread in threading.enumerate() if isinstance(thread, Timer)]
        for thread in waiting:
            thread.join(10.0)
        assert not any(thread.is_alive() for thread in waiting)
    assert terminal.getvalue() == ""


class Closed(Terminal):
    def isatty(self):
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("stream", [io.StringIO(), None, object(), Closed()])
def test_only_a_terminal_is_told(terminal, monkeypatch, stream):
    connected(monkeypatch, stream)
    with compilation_noticed():
        compile_for(0.2)
    assert not isinstance(stream, io.StringIO) or stream.getvalue() == ""


def test_who_is_told_of_each_kernel_needs_no_notice(terminal):
    names = []
    with compilation_reported(names.append), compilation_noticed():
        compile_for(0.2)
    assert names == ["outer"]
    assert terminal.getvalue() == ""
    with compilation_noticed():
        compile_for(0.2)
    assert names == ["outer"]
    assert "compiling" in terminal.getvalue()


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_fit_gives_notice_unless_it_is_verbose(terminal, capsys, verbose):
    X = np.random.default_rng(0).random((20, 4))
    settings = {"max_iter": 1, "tol": 0, "random_state": 0, "verbose": verbose}
    plain(3, callbacks=lambda progress: compile_for(0.2), **settings).fit(X)
    assert bool(terminal.getvalue()) != bool(verbose)
    assert ("compiling outer, once on this machine" in capsys.readouterr().out) == bool(verbose)
