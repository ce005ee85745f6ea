"""The one loop: iterations, convergence, time limit, interruption, history, callbacks, restarts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import FrameType
from typing import Any, Generic, TypeVar

import numpy as np

from ibp import stopping
from ibp.blas import single_threaded_blas
from ibp.checkpoints import (
    CheckpointFile,
    Position,
    SavedRun,
    arrays_named,
    arrays_under,
    generator_state,
    restore_generator,
)
from ibp.clock import present_clock
from ibp.data import Observations
from ibp.methods.base import Method, SweepRecord, ThoroughMethod, UnitingMethod
from ibp.methods.context import Context
from ibp.methods.state import Arrays
from ibp.parallel import Executor, Threads
from ibp.runs import Ending, History, Run, restored_run, saved_run

StateT = TypeVar("StateT")
# Between two copies of a state, for checkpoints, passes so many times the time that one takes.
BETWEEN_COPIES = 20


@dataclass(frozen=True, kw_only=True)
class Progress(SweepRecord):
    """What a callback is told after a sweep: all that is in its `SweepRecord`, and the following.

    Attributes
    ----------
    restart, iteration : int
        Both count from 1.
    seconds : float
        Since the fit began; of a fit that was resumed, those before count.
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


class Observer:
    """Is told when restarts and sweeps begin and end. This one does nothing about it."""

    def resumed(self, position: Position) -> None:
        """Hear that the fit goes on from what was written down."""

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

    def to_arrays(self) -> Arrays:
        """What it knows of restarts that have ended, as arrays; nothing if it knows nothing."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Know again what `to_arrays` wrote down."""


class Stopwatch:
    """Counts the seconds since the fit began, and knows whether the time limit has passed.

    What a fit took before it was resumed counts in the seconds, but not in the limit.
    """

    def __init__(self, limit: float | None) -> None:
        self.clock = present_clock()
        self.started = self.clock()
        self.limit = limit
        self.before = 0.0  # seconds of the fit before it was resumed
        self.uncounted = 0.0  # seconds that the limit does not count

    def seconds(self) -> float:
        """Return the time since the fit began."""
        return self.before + self.clock() - self.started

    def expired(self) -> bool:
        """Whether the time limit has passed."""
        passed = self.clock() - self.started - self.uncounted
        return self.limit is not None and passed >= self.limit


class Interruption:
    """Says whether the user has asked to stop."""

    requested = False


class StopSign:
    """Whether a fit is to end; and whether a method has seen that, in the middle of its work."""

    def __init__(self, stopwatch: Stopwatch, interruption: Interruption) -> None:
        self.stopwatch, self.interruption = stopwatch, interruption
        self.seen = False

    def is_up(self) -> bool:
        """Whether the user or the time limit asks for an end."""
        return self.interruption.requested or self.stopwatch.expired()

    def look(self) -> bool:
        """The same, for methods: what they do from here on, an uninterrupted fit would not."""
        self.seen = self.seen or self.is_up()
        return self.seen


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
    checkpoint: CheckpointFile | None = None,
) -> Run[StateT]:
    """Run the method once per generator and return the run of highest evidence.

    ``fitted_from`` makes what callbacks are given as the fitted model. With a ``checkpoint`` the
    run goes on from what it holds, if it holds anything, and is written down as it goes; states
    are then those of `ibp.methods.state`.
    """
    stopwatch = Stopwatch(time_limit)
    with single_threaded_blas(), deferred_interrupt() as interruption:
        sign = StopSign(stopwatch, interruption)
        fit = _Fit(
            method,
            observations,
            generators,
            executor or Threads(),
            max_iter,
            tol,
            callbacks,
            observers,
            fitted_from,
            stopwatch,
            interruption,
            sign,
            _Journal(checkpoint, generators, observers, stopwatch, sign),
        )
        try:
            return fit.run_all()
        finally:  # whatever ended it
            if checkpoint is not None:
                checkpoint.flush()


class _Journal(Generic[StateT]):
    """Writes down where a fit is between whole sweeps, if there is a file for it.

    A sweep that was cut short has led where a fit that is not interrupted never is; then the last
    position before it is what remains. Copies of states are made no more often than they are cheap.
    """

    def __init__(
        self,
        file: CheckpointFile | None,
        generators: Sequence[np.random.Generator],
        observers: Sequence[Observer],
        stopwatch: Stopwatch,
        sign: StopSign,
    ) -> None:
        self.file, self.generators, self.observers = file, generators, observers
        self.stopwatch, self.sign = stopwatch, sign
        self.best: SavedRun | None = None
        self.best_restart = 0
        self.observed: Arrays = {}
        self.noted = (0, 0)  # restart and sweeps of the last position
        self.next_copy = 0.0  # when another is made unless one is needed, by the clock

    def restart_begins(self, restart: int, best: Run[StateT] | None) -> None:
        """Take note of what is known before a restart."""
        if self.file is None or self.sign.seen:
            return
        self.know(best)
        self._keep(self.file, restart, None)

    def know(self, best: Run[StateT] | None) -> None:
        """Take note of what has come of the restarts that have ended."""
        self.best, self.best_restart = None, 0
        if best is not None:
            self.best, self.best_restart = saved_run(best), best.context.restart
        self.observed = {}
        for observer in self.observers:
            self.observed |= arrays_named(type(observer).__name__, observer.to_arrays())

    def note(self, current: Run[StateT], *, needed: bool = False) -> None:
        """Take note of where a run is after a sweep, if that is needed, due, or cheap by now."""
        if self.file is None or self.sign.seen:
            return
        place = (current.context.restart, len(current.history.sweeps))
        cheap = time.perf_counter() >= self.next_copy
        if place != self.noted and (needed or cheap or self.file.is_due):
            self._keep(self.file, place[0], current)
            self.noted = place

    def _keep(self, file: CheckpointFile, restart: int, current: Run[StateT] | None) -> None:
        began = time.perf_counter()
        position = Position(
            restart,
            len(current.history.sweeps) if current is not None else 0,
            self.stopwatch.seconds(),
            [generator_state(generator) for generator in self.generators],
            saved_run(current) if current is not None else None,
            self.best,
            self.best_restart,
            self.observed,
        )
        now = time.perf_counter()
        self.next_copy = now + BETWEEN_COPIES * (now - began)
        file.keep(position)

    def finished(self) -> None:
        """Take note that there is nothing more to do."""
        if self.file is not None and not self.sign.seen:
            self.file.finish()

    def resume(
        self, context: Callable[[int], Context]
    ) -> tuple[int, Run[StateT] | None, Run[StateT] | None]:
        """Go on from what was written down, if anything was.

        Generators, clock and observers are set to it. Returns the number of the restart that is
        next, that restart if it has begun, and the best of those that have ended.
        """
        if self.file is None or self.file.position is None:
            return 1, None, None
        position, current, best = self.file.position, None, None
        with self.file.being_read():
            for generator, state in zip(self.generators, position.generators, strict=True):
                restore_generator(generator, state)
            for observer in self.observers:
                observer.restore(arrays_under(type(observer).__name__, position.observed))
            if position.best is not None:
                best = restored_run(position.best, context(position.best_restart))
            if position.current is not None:
                current = restored_run(position.current, context(position.restart))
                self.noted = (position.restart, position.n_sweeps)
        self.stopwatch.before = position.seconds
        self.know(best)
        for observer in self.observers:
            observer.resumed(position)
        return position.restart, current, best


@dataclass(frozen=True)
class _Fit(Generic[StateT]):
    """What stays the same from restart to restart of a fit."""

    method: Method[StateT]
    observations: Observations
    generators: Sequence[np.random.Generator]
    executor: Executor
    max_iter: int
    tol: float
    callbacks: Sequence[Callback]
    observers: Sequence[Observer]
    fitted_from: Callable[[Run[StateT]], Any]
    stopwatch: Stopwatch
    interruption: Interruption
    sign: StopSign
    journal: _Journal[StateT]

    def announce(self, what: str) -> None:
        """Tell all who watch what is about to be tried."""
        for observer in self.observers:
            observer.trying(what)

    def context(self, restart: int) -> Context:
        """What a restart has beside its method and its state."""
        rng = self.generators[restart - 1]
        return Context(
            self.observations, rng, self.executor, self.sign.look, self.announce, restart
        )

    def run_all(self) -> Run[StateT]:
        """Run all restarts, or those that are left, and return the best."""
        first, current, best = self.journal.resume(self.context)
        for restart in range(first, len(self.generators) + 1):
            for observer in self.observers:
                observer.restart_begins()
            current = current or self.begun(restart, best)
            current.ending = self.go_on(current)
            self.journal.note(current, needed=True)
            for observer in self.observers:
                observer.restart_ended(current)
            other = current
            if best is None or current.evidence > best.evidence:
                best, other = current, best or current
            if current.ending in ("interrupted", "time_limit", "callback"):
                best.interrupted = current.ending == "interrupted"
                return best
            if other is not best:
                self.unite(best, other)
            current = None
        assert best is not None
        best.interrupted = self.sign.seen and self.interruption.requested
        self.journal.finished()
        return best

    def begun(self, restart: int, best: Run[StateT] | None) -> Run[StateT]:
        """A run of the method at its start."""
        self.journal.restart_begins(restart, best)
        context = self.context(restart)
        state = self.method.init(context)
        current = Run(context, state, History(self.method.report(context, state)))
        self.journal.note(current)
        return current

    def go_on(self, current: Run[StateT]) -> Ending:
        """Sweep until something ends the run, and return what did.

        That a run has converged is asked before a sweep, not after one, so that one that goes on
        from what was written down asks it, too.
        """
        restart, sweeps = current.context.restart, current.history.sweeps
        while not (sweeps and self.has_converged(current)):
            if len(sweeps) >= self.max_iter:
                return "max_iter"
            if not self.sign.is_up():
                for observer in self.observers:
                    observer.sweep_begins()
                sweep = self.method.step(current.context, current.state)
                current.history.append(sweep, self.stopwatch.seconds())
                self.journal.note(current)
                progress = Progress(
                    **vars(sweep),
                    restart=restart,
                    iteration=len(sweeps),
                    seconds=current.history.seconds[-1],
                    state=current.state,
                    fitted_model=lambda: self.fitted_from(replace(current, ending="callback")),
                )
                if self._told_to_end(progress):
                    return "callback"
            if self.interruption.requested:
                return "interrupted"
            if self.sign.seen or self.stopwatch.expired():
                return "time_limit"
        return "converged"

    def has_converged(self, current: Run[StateT]) -> bool:
        """Whether a run has come to its end, and the method does not want to look closer."""
        history = current.history
        if history.last.finished:
            return True
        at_end = stopping.converged(
            self.observations, self.method.climbs, history.initial, history.sweeps, self.tol
        )
        if not at_end or history.last.unfinished:
            return False
        self.journal.note(current, needed=True)  # as it is before somebody looks
        return not self.look_again(current.context, current.state)

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
