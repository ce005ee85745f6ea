"""Running the cells of a study: what is done stays done, what was cut is not repeated."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ibp.blas import single_threaded_blas
from ibp.errors import InputError
from ibp.reproduce.study import Cell, Options, Outcome, Results, Study, study_of
from ibp.reproduce.tables import (
    POINT_COLUMNS,
    RUN_COLUMNS,
    Row,
    number,
    read_rows,
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
    """The rows of a study in its folder, and which cells they stand for."""

    folder: Path
    options: Options
    runs: list[Row] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, options: Options) -> Ledger:
        """What is there already, of runs of the same size."""
        ledger = cls(folder, options)
        ledger.runs = list(read_rows(folder / RUNS))
        for row in ledger.runs:
            if row.get("size") != options.size:
                raise InputError(
                    f"holds {row.get('size')} runs, and these would be {options.size}",
                    "name another folder",
                    file=folder,
                )
        known = ledger.done
        ledger.points = [row for row in read_rows(folder / POINTS) if row["cell"] in known]
        return ledger

    @property
    def done(self) -> set[str]:
        """Names of the cells that are not run again: not those cut by a shorter limit."""
        longer = self.options.time_limit
        return {
            str(row["cell"])
            for row in self.runs
            if not (row["ending"] == CUT and longer and number(row, "time_limit") < longer)
        }

    def was_cut(self, cell: Cell) -> bool:
        """Whether the time limit cut it."""
        return any(row["cell"] == cell.name and row["ending"] == CUT for row in self.runs)

    def seconds(self, cell: Cell) -> float:
        """How long its fits took."""
        own = [number(row, "seconds") for row in self.runs if row["cell"] == cell.name]
        return sum(own)

    def add(self, cell: Cell, outcome: Outcome) -> None:
        """Take over what a cell gave, in place of what it gave before, and write it."""
        common = {"cell": cell.name, "size": self.options.size, "versions": versions()}
        self.runs = [row for row in self.runs if row["cell"] != cell.name]
        self.runs += [{**row, **common} for row in outcome.runs]
        # Points first: those without a run are of a cell that is not done.
        if outcome.points:
            self.points = [row for row in self.points if row["cell"] != cell.name]
            self.points += [{**row, "cell": cell.name} for row in outcome.points]
            write_rows(self.folder / POINTS, self.points, POINT_COLUMNS)
        write_rows(self.folder / RUNS, self.runs, RUN_COLUMNS)

    def results(self) -> Results:
        """All rows as they would be read, in the order of the cells' names."""
        return Results(read_rows(self.folder / RUNS), read_rows(self.folder / POINTS))


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
    with single_threaded_blas():
        outcome = study_of(name).run(cell, options)
    if any(row.get("ending") == "interrupted" for row in outcome.runs):
        raise KeyboardInterrupt
    return outcome, time.perf_counter() - started


def run_cells(
    study: Study,
    folder: Path,
    options: Options,
    crew: Workers,
    jobs: int = 1,
    told: Callable[[RunProgress], Any] = lambda progress: None,
) -> Results:
    """Run the cells of a study that are not done yet, and return the rows of all."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger.open(folder, options)
    run = _Run(study, ledger, crew, jobs, told)
    run.all_cells(list(study.cells(options)))
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

    def all_cells(self, cells: Sequence[Cell]) -> None:
        """Run them: first restarts as they come, others when their first is done and not cut."""
        finished = self.ledger.done
        self.n_done = sum(cell.name in finished for cell in cells)
        open_cells = [cell for cell in cells if cell.name not in finished]
        self.queue.extend(cell for cell in open_cells if cell.restart == 0)
        self.waiting = [cell for cell in open_cells if cell.restart > 0]
        for cell in cells:
            if cell.restart == 0 and cell.name in finished:
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
        if self.ledger.was_cut(first):
            return
        budget, taken = self.study.restart_seconds, self.ledger.seconds(first)
        if budget is not None and taken > 0:
            others = others[: int(budget // taken)]
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


def restarts(cell: Cell, n_restarts: int) -> list[Cell]:
    """A cell from several seeds."""
    return [
        replace(
            cell,
            name=f"{cell.name}, seed {seed}",
            group=cell.name,
            restart=seed,
            parameters={**cell.parameters, "seed": seed},
        )
        for seed in range(n_restarts)
    ]
