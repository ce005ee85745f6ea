"""The one loop: iterations, convergence, time limit, interruption, history, callbacks, restarts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from types import FrameType
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ibp import stopping
from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.methods.base import Method, StepReport

StateT = TypeVar("StateT")
REPORTED = ("evidence", "n_components", "n_changed", "train_log_likelihood", "proven")
Ending = Literal["converged", "max_iter", "time_limit", "callback", "interrupted"]


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each sweep.

    Attributes
    ----------
    restart, iteration : int
        Both count from 1.
    evidence, n_components, n_changed, train_log_likelihood, proven
        As in `StepReport`.
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
    evidence: float
    n_components: int
    n_changed: int
    train_log_likelihood: float
    proven: float
    seconds: float
    state: Any
    fitted_model: Callable[[], Any] = field(repr=False)

    @classmethod
    def after(
        cls,
        report: StepReport,
        restart: int,
        iteration: int,
        seconds: float,
        state: Any,
        fitted_model: Callable[[], Any],
    ) -> Progress:
        """What is known after a sweep."""
        known = {name: getattr(report, name) for name in REPORTED}
        return cls(
            restart, iteration, **known, seconds=seconds, state=state, fitted_model=fitted_model
        )


# A callback may return True to end the fit.
Callback = Callable[[Progress], object]


@dataclass
class History:
    """One entry per sweep; the initial state is not one."""

    evidence: list[float] = field(default_factory=list)
    n_components: list[int] = field(default_factory=list)
    n_changed: list[int] = field(default_factory=list)
    train_log_likelihood: list[float] = field(default_factory=list)
    proven: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)

    def append(self, report: StepReport, seconds: float) -> None:
        """Record a sweep."""
        self.evidence.append(report.evidence)
        self.n_components.append(report.n_components)
        self.n_changed.append(report.n_changed)
        self.train_log_likelihood.append(report.train_log_likelihood)
        self.proven.append(report.proven)
        self.seconds.append(seconds)
        for name, value in report.values.items():
            self.values.setdefault(name, []).append(value)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays by name."""
        return {
            "evidence": np.array(self.evidence, dtype=np.float64),
            "n_components": np.array(self.n_components, dtype=np.int64),
            "n_changed": np.array(self.n_changed, dtype=np.int64),
            "train_log_likelihood": np.array(self.train_log_likelihood, dtype=np.float64),
            "proven": np.array(self.proven, dtype=np.float64),
            "seconds": np.array(self.seconds, dtype=np.float64),
            **{name: np.array(numbers) for name, numbers in self.values.items()},
        }


@dataclass
class Run(Generic[StateT]):
    """A finished run; ``interrupted`` says whether Ctrl-C ended it or a restart that came after."""

    state: StateT
    evidence: float
    history: History
    ending: Ending
    interrupted: bool = False


class Observer:
    """Is told of restarts and sweeps as they begin and end; this one does nothing about it."""

    def restart_begins(self) -> None:
        """A restart begins, with its start."""

    def sweep_begins(self) -> None:
        """A sweep begins."""

    def sweep_ended(self, progress: Progress) -> bool:
        """A sweep has ended; True ends the fit."""
        return False

    def restart_ended(self, run: Run[Any]) -> None:
        """A restart has ended, for whatever reason."""


class Stopwatch:
    """Seconds since the fit began, and whether they are up."""

    def __init__(self, limit: float | None) -> None:
        self.started = time.perf_counter()
        self.limit = limit

    def seconds(self) -> float:
        """Elapsed time."""
        return time.perf_counter() - self.started

    def expired(self) -> bool:
        """Whether the time limit has passed."""
        return self.limit is not None and self.seconds() >= self.limit


class Interruption:
    """Whether the user has asked to stop."""

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
        for restart, rng in enumerate(generators, start=1):
            current = _run_once(
                method,
                observations,
                rng,
                restart,
                max_iter,
                tol,
                stopwatch,
                interruption,
                callbacks,
                observers,
                fitted_from,
            )
            for observer in observers:
                observer.restart_ended(current)
            if best is None or current.evidence > best.evidence:
                best = current
            if current.ending in ("interrupted", "time_limit", "callback"):
                best.interrupted = current.ending == "interrupted"
                break
    assert best is not None
    return best


def _run_once(
    method: Method[StateT],
    observations: Observations,
    rng: np.random.Generator,
    restart: int,
    max_iter: int,
    tol: float,
    stopwatch: Stopwatch,
    interruption: Interruption,
    callbacks: Sequence[Callback],
    observers: Sequence[Observer],
    fitted_from: Callable[[Run[StateT]], Any],
) -> Run[StateT]:
    def should_stop() -> bool:
        return interruption.requested or stopwatch.expired()

    for observer in observers:
        observer.restart_begins()
    state = method.init(observations, rng, should_stop)
    history = History()
    initial = method.report(state).evidence

    def finished(ending: Ending) -> Run[StateT]:
        evidence = history.evidence[-1] if history.evidence else initial
        return Run(state, evidence, history, ending)

    def model_so_far() -> Any:
        return fitted_from(finished("callback"))

    for iteration in range(1, max_iter + 1):
        if not should_stop():
            for observer in observers:
                observer.sweep_begins()
            report = method.step(state, should_stop)
            seconds = stopwatch.seconds()
            history.append(report, seconds)
            progress = Progress.after(report, restart, iteration, seconds, state, model_so_far)
            try:
                wants_end = [_is_true(callback(progress)) for callback in callbacks]
                wants_end += [observer.sweep_ended(progress) for observer in observers]
            except KeyboardInterrupt:
                interruption.requested = True
                wants_end = []
            if any(wants_end):
                return finished("callback")
        if interruption.requested:
            return finished("interrupted")
        if stopwatch.expired():
            return finished("time_limit")
        if report.finished or stopping.converged(
            observations,
            method.climbs,
            history.n_changed,
            [initial, *history.evidence[-2:]],
            history.train_log_likelihood,
            tol,
        ):
            return finished("converged")
    return finished("max_iter")


def _is_true(answer: object) -> bool:
    """Whether a callback answered True, Python's or NumPy's, which comparisons of numbers give."""
    return isinstance(answer, bool | np.bool_) and bool(answer)
