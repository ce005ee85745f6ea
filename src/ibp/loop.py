"""The one loop: iterations, convergence, time limit, interruption, history, callbacks, restarts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from types import FrameType
from typing import Any, Generic, Literal, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

from ibp import stopping
from ibp.blas import single_threaded_blas
from ibp.clock import present_clock
from ibp.data import Observations
from ibp.methods.base import Method, SweepRecord, ThoroughMethod, UnitingMethod
from ibp.methods.context import Context
from ibp.parallel import Executor, Threads

StateT = TypeVar("StateT")
Ending = Literal["converged", "max_iter", "time_limit", "callback", "interrupted"]
# The fields of a record that are numbers, and the types of their arrays in the history.
DTYPES = {float: np.float64, int: np.int64}
NUMBERS = {
    name: DTYPES[kind] for name, kind in get_type_hints(SweepRecord).items() if kind in DTYPES
}


@dataclass(frozen=True, kw_only=True)
class Progress(SweepRecord):
    """What a callback is told after a sweep: all that is in its `SweepRecord`, and the following.

    Attributes
    ----------
    restart, iteration : int
        Both count from 1.
    seconds : float
        Since the fit began.
    state : object
        The method's state; to be read, not changed.
    fitted_model : callable
        Makes a fitted estimator, as if the fit had ended here. That costs a copy of what an
        estimator keeps, and must be called before the next sweep begins.
    """

    restart: int
    iteration: int
    seconds: float
    state: Any
    fitted_model: Callable[[], Any] = field(repr=False)


# A callback may return True to end the fit. One that has an attribute `uncounted_seconds` has spent
# so many on what the time limit is not to count.
Callback = Callable[[Progress], object]


@dataclass
class History:
    """The records of a run's sweeps, and the seconds from the fit's beginning to their ends."""

    sweeps: list[SweepRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def append(self, sweep: SweepRecord, seconds: float) -> None:
        """Record a sweep."""
        self.sweeps.append(sweep)
        self.seconds.append(seconds)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return plain arrays by name, with one entry per sweep."""
        arrays: dict[str, npt.NDArray[Any]] = {
            name: np.array([getattr(sweep, name) for sweep in self.sweeps], dtype=dtype)
            for name, dtype in NUMBERS.items()
        }
        arrays["seconds"] = np.array(self.seconds, dtype=np.float64)
        for name in self.sweeps[0].values if self.sweeps else ():
            arrays[name] = np.array([sweep.values[name] for sweep in self.sweeps])
        return arrays


@dataclass
class Run(Generic[StateT]):
    """A finished run of a method, from one start.

    ``interrupted`` says whether Ctrl-C ended this run or a restart that came after it.
    """

    context: Context
    state: StateT
    evidence: float
    history: History
    ending: Ending
    interrupted: bool = False


class Observer:
    """Is told when restarts and sweeps begin and end. This one does nothing about it."""

    def restart_begins(self) -> None:
        """Hear that a restart begins; its initial state is still to be made."""

    def sweep_begins(self) -> None:
        """Hear that a sweep begins."""

    def trying(self, what: str) -> None:
        """Hear what is about to be tried within a sweep: the name of a move."""

    def sweep_ended(self, progress: Progress) -> bool:
        """Hear that a sweep has ended, and return True to end the fit."""
        return False

    def restart_ended(self, run: Run[Any]) -> None:
        """Hear that a restart has ended, for whatever reason."""


class Stopwatch:
    """Counts the seconds since the fit began, and knows whether the time limit has passed."""

    def __init__(self, limit: float | None) -> None:
        self.clock = present_clock()
        self.started = self.clock()
        self.limit = limit
        self.uncounted = 0.0  # seconds that the limit does not count

    def seconds(self) -> float:
        """Return the time since the fit began."""
        return self.clock() - self.started

    def expired(self) -> bool:
        """Whether the time limit has passed."""
        return self.limit is not None and self.seconds() - self.uncounted >= self.limit


class Interruption:
    """Says whether the user has asked to stop."""

    requested = False


@contextmanager
def deferred_interrupt() -> Iterator[Interruption]:
    """Turn the first Ctrl-C into a request to stop, so that a sweep is never torn in half.

    A second one interrupts at once. Only Python's own handler, in the main thread, is replaced.
    """
    interruption = Interruption()
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )

    def handle(signum: int, frame: FrameType | None) -> None:
        if interruption.requested:
            signal.default_int_handler(signum, frame)
        interruption.requested = True

    if ours:
        signal.signal(signal.SIGINT, handle)
    try:
        yield interruption
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def run(
    method: Method[StateT],
    observations: Observations,
    generators: Sequence[np.random.Generator],
    *,
    executor: Executor | None = None,
    max_iter: int,
    tol: float,
    time_limit: float | None = None,
    callbacks: Sequence[Callback] = (),
    observers: Sequence[Observer] = (),
    fitted_from: Callable[[Run[StateT]], Any] = attrgetter("state"),
) -> Run[StateT]:
    """Run the method once per generator and return the run of highest evidence.

    ``fitted_from`` makes what callbacks are given as the fitted model.
    """
    stopwatch = Stopwatch(time_limit)
    best: Run[StateT] | None = None
    with single_threaded_blas(), deferred_interrupt() as interruption:
        fit = _Fit(
            method,
            observations,
            executor or Threads(),
            max_iter,
            tol,
            callbacks,
            observers,
            fitted_from,
            stopwatch,
            interruption,
        )
        for restart, rng in enumerate(generators, start=1):
            current = fit.run_once(restart, rng)
            for observer in observers:
                observer.restart_ended(current)
            other = current
            if best is None or current.evidence > best.evidence:
                best, other = current, best or current
            if current.ending in ("interrupted", "time_limit", "callback"):
                best.interrupted = current.ending == "interrupted"
                break
            if other is not best:
                fit.unite(best, other)
    assert best is not None
    return best


@dataclass(frozen=True)
class _Fit(Generic[StateT]):
    """What stays the same from restart to restart of a fit."""

    method: Method[StateT]
    observations: Observations
    executor: Executor
    max_iter: int
    tol: float
    callbacks: Sequence[Callback]
    observers: Sequence[Observer]
    fitted_from: Callable[[Run[StateT]], Any]
    stopwatch: Stopwatch
    interruption: Interruption

    def should_stop(self) -> bool:
        """Whether the user or the time limit asks for an end."""
        return self.interruption.requested or self.stopwatch.expired()

    def announce(self, what: str) -> None:
        """Tell all who watch what is about to be tried."""
        for observer in self.observers:
            observer.trying(what)

    def run_once(self, restart: int, rng: np.random.Generator) -> Run[StateT]:
        """Run the method from one start."""
        for observer in self.observers:
            observer.restart_begins()
        context = Context(
            self.observations, rng, self.executor, self.should_stop, self.announce, restart
        )
        state = self.method.init(context)
        initial = self.method.report(context, state)
        history = History()

        def so_far(ending: Ending) -> Run[StateT]:
            evidence = (history.sweeps or [initial])[-1].evidence
            return Run(context, state, evidence, history, ending)

        for iteration in range(1, self.max_iter + 1):
            if not self.should_stop():
                for observer in self.observers:
                    observer.sweep_begins()
                sweep = self.method.step(context, state)
                history.append(sweep, self.stopwatch.seconds())
                progress = Progress(
                    **vars(sweep),
                    restart=restart,
                    iteration=iteration,
                    seconds=history.seconds[-1],
                    state=state,
                    fitted_model=lambda: self.fitted_from(so_far("callback")),
                )
                if self._told_to_end(progress):
                    return so_far("callback")
            if self.interruption.requested:
                return so_far("interrupted")
            if self.stopwatch.expired():
                return so_far("time_limit")
            at_end = stopping.converged(
                self.observations, self.method.climbs, initial, history.sweeps, self.tol
            )
            at_end = at_end and not sweep.unfinished
            if sweep.finished or (at_end and not self.look_again(context, state)):
                return so_far("converged")
        return so_far("max_iter")

    def look_again(self, context: Context, state: StateT) -> bool:
        """Let a run that has converged go on if the method wants to look closer."""
        return isinstance(self.method, ThoroughMethod) and self.method.look_again(context, state)

    def unite(self, best: Run[StateT], other: Run[StateT]) -> None:
        """Let the better of two runs take over what the other found, if the method can do that."""
        if not isinstance(self.method, UnitingMethod):
            return
        record = self.method.unite(best.context, best.state, other.state)
        if record is not None:
            best.history.append(record, self.stopwatch.seconds())
            best.evidence = record.evidence

    def _told_to_end(self, progress: Progress) -> bool:
        """Tell all who watch of a sweep, and return whether one of them wants the fit to end."""
        try:
            wants_end = [_is_true(callback(progress)) for callback in self.callbacks]
            wants_end += [observer.sweep_ended(progress) for observer in self.observers]
        except KeyboardInterrupt:
            self.interruption.requested = True
            return False
        finally:
            self.stopwatch.uncounted = sum(
                float(getattr(callback, "uncounted_seconds", 0.0)) for callback in self.callbacks
            )
        return any(wants_end)


def _is_true(answer: object) -> bool:
    """Whether a callback answered True: Python's, or NumPy's, as comparisons of numbers give it."""
    return isinstance(answer, bool | np.bool_) and bool(answer)
