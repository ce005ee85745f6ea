"""Running the cells of a study: what is done stays done, what was cut is not repeated."""

from __future__ import annotations

import math
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ibp.atomic_files import remove_leftovers
from ibp.blas import single_threaded_blas
from ibp.clock import processor_time
from ibp.errors import InputError
from ibp.reproduce.study import Cell, Options, Outcome, Results, Study, study_of
from ibp.reproduce.tables import (
    POINT_COLUMNS,
    RUN_COLUMNS,
    Row,
    number,
    read_rows,
    text_of,
    versions,
    write_rows,
)

RUNS, POINTS = "runs.csv", "points.csv"
# How a fit ends that its limit cut, and a chain that was meant to run for all of its span.
CUT, SPAN = "time_limit", "span"


@dataclass(frozen=True)
class RunProgress:
    """What is told when a cell begins or is done.

    Attributes
    ----------
    study, cell : str
        Their names.
    done, total : int
        Cells of the study; the total shrinks where restarts are left out.
    elapsed, left : float
        Seconds so far, and those that the rest of the study will take at this pace.
    """

    study: str
    cell: str
    done: int
    total: int
    elapsed: float
    left: float


class Pace:
    """Guesses how long cells will take from how long others took."""

    def __init__(self) -> None:
        self._of_group: dict[str, list[float]] = {}
        self._taken = self._guessed = 0.0

    def add(self, cell: Cell, seconds: float) -> None:
        """Take note of a cell that is done."""
        self._of_group.setdefault(cell.group, []).append(seconds)
        self._taken += seconds
        self._guessed += cell.seconds

    def seconds(self, cell: Cell) -> float:
        """What a cell will take: as its first restart did, or by what was guessed."""
        own = self._of_group.get(cell.group) if cell.group else None
        if own:
            return sum(own) / len(own)
        return cell.seconds * (self._taken / self._guessed if self._guessed else 1.0)


@dataclass
class Ledger:
    """The rows of a study in its folder, and which cells of its plan they stand for."""

    folder: Path
    options: Options
    plan: Sequence[Cell] = ()
    runs: list[Row] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, options: Options, plan: Sequence[Cell]) -> Ledger:
        """What is there already of runs of the same size, less what is in no plan any more."""
        ledger = cls(folder, options, plan)
        for name in (RUNS, POINTS):
            remove_leftovers(folder / name)
        ledger.runs = list(read_rows(folder / RUNS, RUN_COLUMNS))
        for row in ledger.runs:
            if row.get("size") != options.size:
                raise InputError(
                    f"holds {row.get('size')} runs, and these would be {options.size}",
                    "name another folder",
                    file=folder,
                )
        ledger.runs = [row for row in ledger.runs if ledger.planned(row)]
        known = {str(row["cell"]) for row in ledger.runs}
        points = read_rows(folder / POINTS, POINT_COLUMNS)
        ledger.points = [row for row in points if row["cell"] in known]
        return ledger

    def planned(self, row: Row) -> bool:
        """Whether a row is of a cell of the plan, or of another restart of one.

        Who asks for fewer restarts than before does not want to lose the others.
        """
        return row["cell"] in self.place or any(
            row["cell"] == restart_name(group, row["seed"]) for group in self.groups
        )

    @cached_property
    def place(self) -> dict[str, int]:
        """Where in the plan a cell is, by name."""
        return {cell.name: place for place, cell in enumerate(self.plan)}

    @cached_property
    def groups(self) -> set[str]:
        """Settings of the plan that have restarts."""
        return {cell.group for cell in self.plan if cell.group}

    def is_done(self, cell: Cell) -> bool:
        """Whether it is not to be run again: a longer limit runs again what a shorter one ended."""
        rows = [row for row in self.runs if row["cell"] == cell.name]
        limit = cell.parameters.get("time_limit", 0.0)
        longest = math.inf if limit is None else limit
        return bool(rows) and not any(
            row["ending"] in (CUT, SPAN) and number(row, "time_limit") < _as_written(longest)
            for row in rows
        )

    def open_cells(self) -> list[Cell]:
        """The cells of the plan that are not done."""
        return [cell for cell in self.plan if not self.is_done(cell)]

    def left_out(self, study: Study, cell: Cell) -> bool:
        """Whether a restart is not run, as its first was cut, or all would take too long.

        A number of restarts that was asked for is kept to. Without the first it is not known yet.
        """
        if cell.restart == 0 or not cell.group:
            return False
        first = next(c for c in self.plan if c.group == cell.group and c.restart == 0)
        if not self.is_done(first):
            return False
        if self.was_cut(first):
            return True
        budget, taken = study.restart_seconds, self.seconds(first)
        if budget is None or taken <= 0 or self.options.restarts is not None:
            return False
        return cell.restart > int(budget // taken)

    def was_cut(self, cell: Cell) -> bool:
        """Whether the time limit cut it."""
        return any(row["cell"] == cell.name and row["ending"] == CUT for row in self.runs)

    def seconds(self, cell: Cell) -> float:
        """How long its fits took."""
        own = [number(row, "seconds") for row in self.runs if row["cell"] == cell.name]
        return _as_written(sum(own))

    def add(self, cell: Cell, outcome: Outcome) -> None:
        """Take over what a cell gave, in place of what it gave before, and write it."""
        common = {"cell": cell.name, "size": self.options.size, "versions": versions()}
        self.runs = [row for row in self.runs if row["cell"] != cell.name]
        self.runs += [{**row, **common} for row in outcome.runs]
        self.points = [row for row in self.points if row["cell"] != cell.name]
        self.points += [{**row, "cell": cell.name} for row in outcome.points]
        self.write()

    def write(self) -> None:
        """Write the tables; points first: those without a run are of a cell that is not done."""
        if self.points or (self.folder / POINTS).exists():
            write_rows(self.folder / POINTS, self._in_order(self.points), POINT_COLUMNS)
        write_rows(self.folder / RUNS, self._in_order(self.runs), RUN_COLUMNS)

    def _in_order(self, rows: Sequence[Row]) -> list[Row]:
        """Rows by the place of their cells in the plan; further restarts come last."""
        return sorted(rows, key=lambda row: self.place.get(str(row["cell"]), len(self.place)))

    def results(self) -> Results:
        """All rows as they are read, in the order of the plan."""
        return Results(read_rows(self.folder / RUNS), read_rows(self.folder / POINTS))


def _as_written(value: float) -> float:
    """A number as the tables hold it, so that it is the same when they are read."""
    return value if math.isinf(value) else float(text_of(value))


class Workers(Protocol):
    """Who runs cells."""

    def submit(self, name: str, cell: Cell, options: Options) -> Future[tuple[Outcome, float]]:
        """Begin with a cell, or put it in a queue."""
        ...


class InThisProcess:
    """Runs a cell when it is submitted."""

    def submit(self, name: str, cell: Cell, options: Options) -> Future[tuple[Outcome, float]]:
        """Run it at once."""
        future: Future[tuple[Outcome, float]] = Future()
        future.set_result(work(name, cell, options))
        return future


class Processes:
    """Runs cells side by side, each in a process with a single thread."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def submit(self, name: str, cell: Cell, options: Options) -> Future[tuple[Outcome, float]]:
        """Put it in the queue."""
        return self._pool.submit(work, name, cell, options)


@contextmanager
def workers(jobs: int) -> Iterator[Workers]:
    """So many workers; those of a block that is broken off are ended with it."""
    if jobs == 1:
        yield InThisProcess()
        return
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_interrupts
    )
    try:
        yield Processes(pool)
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that waits for the results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def work(name: str, cell: Cell, options: Options) -> tuple[Outcome, float]:
    """Run a cell of a study, on one thread; its outcome and its seconds."""
    started = time.perf_counter()
    with single_threaded_blas(), processor_time():
        outcome = study_of(name).run(cell, options)
    if any(row.get("ending") == "interrupted" for row in outcome.runs):
        raise KeyboardInterrupt
    return outcome, time.perf_counter() - started


def make_folder(folder: Path) -> None:
    """Make a folder for tables, or say why there can be none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        file = next((path for path in (folder, *folder.parents) if path.is_file()), folder)
        raise InputError("is a file", "name a folder", file=file) from error
    except OSError as error:
        raise InputError(
            f"cannot be made: {error.strerror}", "name another folder", file=folder
        ) from error


def run_cells(
    study: Study,
    ledger: Ledger,
    crew: Workers,
    jobs: int = 1,
    told: Callable[[RunProgress], Any] = lambda progress: None,
) -> Results:
    """Run the cells of a study's plan that are not done yet, and return the rows of all."""
    make_folder(ledger.folder)
    _Run(study, ledger, crew, jobs, told).all_cells()
    ledger.write()
    return ledger.results()


class _Run:
    """The order in which cells are run, and what is told of it."""

    def __init__(
        self,
        study: Study,
        ledger: Ledger,
        crew: Workers,
        jobs: int,
        told: Callable[[RunProgress], Any],
    ) -> None:
        self.study, self.ledger, self.crew, self.jobs, self.told = study, ledger, crew, jobs, told
        self.started = time.perf_counter()
        self.pace = Pace()
        self.queue: deque[Cell] = deque()
        self.waiting: list[Cell] = []
        self.running: dict[Future[tuple[Outcome, float]], Cell] = {}
        self.n_done = 0

    def all_cells(self) -> None:
        """Run them: first restarts as they come, others when their first is done and not cut."""
        open_cells = self.ledger.open_cells()
        self.n_done = len(self.ledger.plan) - len(open_cells)
        self.queue.extend(cell for cell in open_cells if cell.restart == 0)
        self.waiting = [cell for cell in open_cells if cell.restart > 0]
        for cell in self.ledger.plan:
            if cell.restart == 0 and self.ledger.is_done(cell):
                self.release(cell)
        while self.queue or self.running:
            while self.queue and len(self.running) < self.jobs:
                self.tell(self.queue[0])
                cell = self.queue.popleft()
                self.running[self.crew.submit(self.study.name, cell, self.ledger.options)] = cell
            for future in wait(self.running, return_when=FIRST_COMPLETED).done:
                cell = self.running.pop(future)
                outcome, seconds = future.result()
                self.ledger.add(cell, outcome)
                self.pace.add(cell, seconds)
                self.n_done += 1
                if cell.restart == 0:
                    self.release(cell)
                self.tell(cell)

    def release(self, first: Cell) -> None:
        """Let the restarts of a cell run at once, or leave them out if it was cut."""
        others = [cell for cell in self.waiting if cell.group and cell.group == first.group]
        self.waiting = [cell for cell in self.waiting if cell not in others]
        others = [cell for cell in others if not self.ledger.left_out(self.study, cell)]
        self.queue.extendleft(reversed(others))

    def tell(self, cell: Cell) -> None:
        """Say how far it is."""
        rest = [*self.queue, *self.waiting, *self.running.values()]
        self.told(
            RunProgress(
                self.study.name,
                cell.name,
                self.n_done,
                self.n_done + len(rest),
                time.perf_counter() - self.started,
                sum(map(self.pace.seconds, rest)) / self.jobs,
            )
        )


def restart_name(group: str, seed: object) -> str:
    """What a restart of a setting is called."""
    return f"{group}, seed {seed}"


def restarts(cell: Cell, n_restarts: int) -> list[Cell]:
    """A cell from several seeds."""
    return [
        replace(
            cell,
            name=restart_name(cell.name, seed),
            group=cell.name,
            restart=seed,
            parameters={**cell.parameters, "seed": seed},
        )
        for seed in range(n_restarts)
    ]
