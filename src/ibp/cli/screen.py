"""Progress that moves, on a terminal: drawn on stderr, and gone when the work is done."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ibp.cli.progress import ComparisonSweep, Reporter, Show, Sweep, Work, print_summary
from ibp.cli.words import duration, number, printable
from ibp.errors import counted

BARS = "▁▂▃▄▅▆▇█"
PICTURES_PER_SECOND = 8
BAR_WIDTH = 30


class TerminalReporter(Reporter):
    """A few lines that are redrawn in place."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._spinner = Spinner("dots", style="cyan")
        self._stage = ""
        self._compiling: str | None = None
        self._trying: str | None = None
        self._moved: Sweep | None = None
        self._sweep: Sweep | None = None
        self._held_out: float | None = None
        self._evidence: list[float] = []
        self._compared: dict[str, ComparisonSweep] = {}
        self._best: dict[str, float] = {}
        self._work: Work | None = None
        self._told_at = 0.0
        self._live = Live(
            console=self._console,
            get_renderable=self._picture,
            refresh_per_second=PICTURES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def stage(self, text: str) -> None:
        """Shown beside the spinner."""
        self._sweep, self._compiling, self._held_out = None, None, None
        self._trying, self._moved, self._work = None, None, None
        self._evidence, self._compared, self._best = [], {}, {}
        self._stage = printable(text)

    def compiling(self, kernel: str) -> None:
        """Shown until the next sweep."""
        self._compiling = kernel

    def sweep(self, sweep: Sweep | ComparisonSweep) -> None:
        """Numbers and a line of the evidence, or a table with a row per method."""
        self._compiling, self._trying, self._told_at = None, None, time.monotonic()
        if isinstance(sweep, ComparisonSweep):
            self._compare(sweep)
            return
        before = self._sweep
        if before is not None and before.restart != sweep.restart:
            self._console.print(  # what it came to
                f"Restart {before.restart} of {before.restarts}: "
                f"{counted(before.features, 'feature')}, evidence {number(before.evidence)} after "
                f"{counted(before.sweep, 'sweep')}."
            )
            self._evidence, self._held_out, self._moved = [], None, None
        self._sweep = sweep
        if sweep.move is not None:
            self._moved = sweep
        self._evidence.append(sweep.evidence)
        if sweep.held_out is not None:
            self._held_out = sweep.held_out

    def work(self, work: Work) -> None:
        """A bar, with what is being done and how long it will take."""
        self._compiling, self._told_at = None, time.monotonic()
        self._work = work

    def trying(self, what: str) -> None:
        """Shown until the sweep has ended."""
        self._compiling, self._trying = None, what

    def _compare(self, sweep: ComparisonSweep) -> None:
        self._compared.pop(sweep.method, None)  # the running one comes last
        self._compared[sweep.method] = sweep
        if sweep.held_out is not None:
            best = self._best.get(sweep.method, sweep.held_out)
            self._best[sweep.method] = max(best, sweep.held_out)

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(Text.assemble(("note: ", "yellow"), printable(text)))

    def error(self, text: str) -> None:
        """A line that stays."""
        self._live.stop()
        line = Text.assemble(("error: ", "bold red"), printable(text))
        self._console.print(line, soft_wrap=True)

    def result(self, values: Mapping[str, Any], show: Show, path: object) -> None:
        """The summary, once nothing moves any more."""
        self._live.stop()
        print_summary(show)

    def _picture(self) -> RenderableType:
        self._spinner.update(text=Text(self._stage))
        lines: list[RenderableType] = [self._spinner]
        if self._compiling is not None:
            lines.append(
                Text(f"  compiling {self._compiling}; once on this machine, half a minute in all")
            )
        if self._sweep is not None:
            lines += self._sweep_lines(self._sweep)
        if self._compared:
            lines += self._comparison_lines()
        if self._work is not None:
            lines += self._work_lines(self._work)
        return Group(*lines)

    def _since(self) -> float:
        return time.monotonic() - self._told_at

    def _sweep_lines(self, sweep: Sweep) -> list[RenderableType]:
        seconds = sweep.seconds + self._since()
        cells = {"restart": f"{sweep.restart} of {sweep.restarts}"} if sweep.restarts > 1 else {}
        cells |= {
            "sweep": str(sweep.sweep),
            "features": str(sweep.features),
            "evidence": number(sweep.evidence),
        }
        if self._held_out is not None:
            cells["held out"] = f"{self._held_out:.4f}"
        cells["time"] = duration(seconds)
        numbers = self._numbers(cells)
        lines: list[RenderableType] = [Padding(numbers, (0, 0, 0, 2))]
        if len(self._evidence) > 1:
            width = max(8, min(self._console.width - 4, 48))
            lines.append(Text(f"  {sparkline(self._evidence[-width:])}", style="cyan"))
        if moves := self._moves():
            lines.append(Text(f"  {moves}", style="dim"))
        if sweep.time_limit is not None:
            lines.append(_time_left(seconds, sweep.time_limit))
        return lines

    def _work_lines(self, work: Work) -> list[RenderableType]:
        left = max(0.0, work.left - self._since())
        row = Table.grid(padding=(0, 2, 0, 0))
        bar = ProgressBar(total=max(work.total, 1), completed=work.done, width=BAR_WIDTH)
        row.add_row(
            Padding(bar, (0, 2)),
            Text(f"{work.done} of {work.total}, about {duration(left)} left", style="dim"),
        )
        return [Text(f"  {work.cell}"), row]

    def _moves(self) -> str:
        """The last move that was kept, with what it gained, and what is tried now."""
        parts = [f"trying: {self._trying}"] if self._trying is not None else []
        last = self._moved
        if last is not None and last.move is not None and last.move_gain is not None:
            parts.insert(0, f"{last.move} gained {number(last.move_gain)} in sweep {last.sweep}")
        return "; ".join(parts)

    def _numbers(self, cells: dict[str, str]) -> Table:
        """Names above their numbers, or beside them where that is too wide."""
        numbers = Table.grid(padding=(0, 3, 0, 0))
        if sum(max(len(name), len(cell)) + 3 for name, cell in cells.items()) > self._console.width:
            for name, cell in cells.items():
                numbers.add_row(Text(name, style="dim"), Text(cell, style="bold"))
            return numbers
        for _ in cells:
            numbers.add_column(justify="right", no_wrap=True)
        numbers.add_row(*cells, style="dim")
        numbers.add_row(*cells.values(), style="bold")
        return numbers

    def _comparison_lines(self) -> list[RenderableType]:
        running = next(reversed(self._compared.values()))
        table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
        table.add_column("  method", no_wrap=True)
        for name in ("held-out score", "features", "sweeps", "time"):
            table.add_column(name, justify="right", no_wrap=True)
        leader = max(self._best, key=self._best.__getitem__, default=None)
        for label, sweep in sorted(self._compared.items()):
            seconds = sweep.seconds + (self._since() if sweep is running else 0.0)
            best = self._best.get(label)
            table.add_row(
                f"{'▸' if sweep is running else ' '} {label}",
                "" if best is None else f"{best:.4f}",
                str(sweep.features),
                str(sweep.sweep),
                duration(seconds),
                style="bold green" if label == leader else "",
            )
        elapsed = running.elapsed + self._since()
        which = Text(f"  fit {running.fit} of {running.fits}", style="dim")
        return [table, which, _time_left(elapsed, running.time_limit)]


def sparkline(values: list[float]) -> str:
    """Numbers as bars of eight heights."""
    lowest, highest = min(values), max(values)
    span = highest - lowest or 1.0
    steps = len(BARS) - 1
    return "".join(BARS[round((value - lowest) / span * steps)] for value in values)


def _time_left(seconds: float, limit: float) -> RenderableType:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(
        Padding(ProgressBar(total=limit, completed=min(seconds, limit), width=BAR_WIDTH), (0, 2)),
        Text(f"at most {duration(max(0.0, limit - seconds))} left", style="dim"),
    )
    return row
