"""How a command tells what it is doing: on a terminal, in lines, for machines, or not at all.

Progress goes to stderr and results to stdout; machines get everything on stdout, as JSON lines.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ibp.cli.words import duration, number, printable
from ibp.errors import counted

if TYPE_CHECKING:
    from rich.console import Console
else:
    Console = Any  # rich is loaded by what prints with it

# Prints the summary of a command.
Show = Callable[[Console], None]
SECONDS_BETWEEN_LINES = 1.0


@dataclass(frozen=True)
class Sweep:
    """A sweep of a fit; ``held_out`` is None where it was not scored."""

    restart: int
    restarts: int
    sweep: int
    features: int
    evidence: float
    held_out: float | None
    seconds: float
    time_limit: float | None
    move: str | None = None  # what was tried and kept in it
    move_gain: float | None = None  # what that raised the evidence by


@dataclass(frozen=True)
class ComparisonSweep:
    """A sweep of one of the fits that are compared."""

    method: str
    fit: int
    fits: int
    sweep: int
    features: int
    held_out: float | None
    seconds: float
    elapsed: float
    time_limit: float


@dataclass(frozen=True)
class Work:
    """How far a long piece of work is: cells done of all, and seconds, those left by a guess."""

    study: str
    cell: str
    done: int
    total: int
    elapsed: float
    left: float


class Reporter:
    """What commands tell; this one keeps everything to itself but errors and the result."""

    def __init__(self) -> None:
        self.written: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End: whatever moves is taken off the screen."""

    def stage(self, text: str) -> None:
        """Say what is being done now."""

    def compiling(self, kernel: str) -> None:
        """Say that a kernel is being compiled."""

    def sweep(self, sweep: Sweep | ComparisonSweep) -> None:
        """A sweep of a fit is done."""

    def work(self, work: Work) -> None:
        """A cell of a long piece of work begins, or is done."""

    def trying(self, what: str) -> None:
        """Say what is tried within a sweep."""

    def note(self, text: str) -> None:
        """Tell what the user should know though all goes on."""

    def wrote(self, path: Path) -> None:
        """A file is complete; what goes wrong later will not undo that."""
        self.written.append(path)

    def error(self, text: str) -> None:
        """Tell why it does not go on."""
        _complain(f"error: {text}")

    def result(self, values: Mapping[str, Any], show: Show, path: object) -> None:
        """Give the result: to machines its values, to people a summary, else where it is."""
        print(path, flush=True)


def choose_reporter(*, quiet: bool, json: bool) -> Reporter:
    """The reporter that suits the options and where stderr goes."""
    if json:
        return JsonReporter()
    if quiet:
        return Reporter()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        # It needs Rich, which is loaded on a terminal only; and it extends the reporter above.
        from ibp.cli.screen import TerminalReporter

        return TerminalReporter()
    return LineReporter()


class LineReporter(Reporter):
    """Plain lines, for a pipe or a log; sweeps that follow quickly are thinned out."""

    def __init__(self) -> None:
        super().__init__()
        self._printed = -math.inf
        self._skipped: str | None = None

    def __exit__(self, *error: object) -> None:
        self._print_skipped()

    def stage(self, text: str) -> None:
        """A line."""
        self._print_skipped()
        _complain(f"{text} ...")

    def compiling(self, kernel: str) -> None:
        """A line."""
        _complain(f"Compiling {kernel}, once on this machine ...")

    def sweep(self, sweep: Sweep | ComparisonSweep) -> None:
        """A line, if the last was a while ago."""
        now = time.monotonic()
        first = sweep.sweep == 1
        if first:
            self._print_skipped()
        if first or now - self._printed >= SECONDS_BETWEEN_LINES:
            _complain(_in_a_line(sweep))
            self._printed, self._skipped = now, None
        else:
            self._skipped = _in_a_line(sweep)

    def work(self, work: Work) -> None:
        """A line, if the last was a while ago."""
        now = time.monotonic()
        if now - self._printed >= SECONDS_BETWEEN_LINES or work.done == work.total:
            _complain(
                f"{work.study}: {work.done} of {work.total}, {work.cell}, "
                f"about {duration(work.left)} left"
            )
            self._printed = now

    def note(self, text: str) -> None:
        """A line."""
        _complain(f"note: {text}")

    def result(self, values: Mapping[str, Any], show: Show, path: object) -> None:
        """The summary."""
        self._print_skipped()
        print_summary(show)

    def _print_skipped(self) -> None:
        """The last sweep is always shown."""
        if self._skipped is not None:
            _complain(self._skipped)
            self._skipped = None


class JsonReporter(Reporter):
    """One JSON object per line on stdout; errors also in words on stderr."""

    def stage(self, text: str) -> None:
        """An event."""
        _emit("stage", {"message": text})

    def compiling(self, kernel: str) -> None:
        """An event."""
        _emit("compiling", {"kernel": kernel})

    def sweep(self, sweep: Sweep | ComparisonSweep) -> None:
        """An event."""
        _emit("sweep", asdict(sweep))

    def work(self, work: Work) -> None:
        """An event."""
        _emit("work", asdict(work))

    def note(self, text: str) -> None:
        """An event."""
        _emit("note", {"message": text})

    def error(self, text: str) -> None:
        """An event."""
        _emit("error", {"message": text})
        super().error(text)

    def result(self, values: Mapping[str, Any], show: Show, path: object) -> None:
        """The last event."""
        _emit("result", values)


def print_summary(show: Show) -> None:
    """Let a command print its summary to stdout."""
    from rich.console import Console

    class Results(Console):
        """Leaves a pipe that nobody reads to us."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Results(highlight=False, markup=False, emoji=False)
    show(console)
    console.file.flush()


def _in_a_line(sweep: Sweep | ComparisonSweep) -> str:
    parts = [f"sweep {sweep.sweep}", counted(sweep.features, "feature")]
    if isinstance(sweep, ComparisonSweep):
        parts = [f"fit {sweep.fit} of {sweep.fits}", sweep.method, *parts]
        passed = sweep.elapsed
    else:
        if sweep.restarts > 1:
            parts.insert(0, f"restart {sweep.restart} of {sweep.restarts}")
        parts.append(f"evidence {number(sweep.evidence)}")
        if sweep.move is not None and sweep.move_gain is not None:
            parts.append(f"{sweep.move} gained {number(sweep.move_gain)}")
        passed = sweep.seconds
    if sweep.held_out is not None:
        parts.append(f"held-out score {sweep.held_out:.4f}")
    parts.append(duration(sweep.seconds))
    if sweep.time_limit is not None:
        parts.append(f"at most {duration(max(0.0, sweep.time_limit - passed))} left")
    return ", ".join(parts)


def _complain(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


def _emit(event: str, values: Mapping[str, Any]) -> None:
    line = {"event": event} | {name: _for_json(value) for name, value in values.items()}
    print(json.dumps(line, allow_nan=False), flush=True)


def _for_json(value: Any) -> Any:
    """JSON knows no infinity, and no type of ours or NumPy's."""
    if isinstance(value, Mapping):
        return {str(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if hasattr(value, "tolist"):
        return _for_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
