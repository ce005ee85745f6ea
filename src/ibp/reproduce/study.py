"""What a figure or a table consists of: cells of work, a picture, and a page."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibp.errors import InvalidValueError
from ibp.reproduce.tables import Row

# In the order of the paper. The modules are loaded when they are asked for.
NAMES = (
    "figure-1",
    "figure-2",
    "table-1",
    "figure-3-small",
    "figure-3-large",
    "figure-4-piano",
    "figure-4-flickr",
    "figure-4-yale",
    "learning-k",
)
RESTARTS, QUICK_RESTARTS = 5, 2


@dataclass(frozen=True)
class Options:
    """What whoever runs it may choose.

    Attributes
    ----------
    quick : bool
        Small data, few cells, no folder of data needed: to see that all works.
    data : Path or None
        The folder with the real data.
    time_limit : float or None
        Seconds for each fit; None for that of the figure.
    restarts : int or None
        Fits of each setting; None for as many as the figure has, at most two if quick.
    """

    quick: bool = False
    data: Path | None = None
    time_limit: float | None = None
    restarts: int | None = None

    @property
    def size(self) -> str:
        """The word for it in tables, where quick runs and full ones must not meet."""
        return "quick" if self.quick else "full"

    @property
    def n_restarts(self) -> int:
        """Fits of each setting."""
        if self.restarts is not None:
            return self.restarts
        return QUICK_RESTARTS if self.quick else RESTARTS

    def limit(self, usual: float, quick: float) -> float:
        """Seconds for each fit."""
        if self.time_limit is not None:
            return self.time_limit
        return quick if self.quick else usual


@dataclass(frozen=True)
class Cell:
    """A piece of work that is done as a whole, or done again.

    Attributes
    ----------
    name : str
        Which one it is, within its study.
    parameters : mapping
        What `Study.run` needs to know, plain values only.
    group, restart : str, int
        The setting that it is a restart of; others than the first wait for the first, and are left
        out if that was cut.
    seconds : float
        How long it may take, roughly; estimates begin with it.
    """

    name: str
    parameters: Mapping[str, Any]
    group: str = ""
    restart: int = 0
    seconds: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What a cell gives: rows for the table of runs and, of curves, for that of points."""

    runs: Sequence[Row]
    points: Sequence[Row] = ()


@dataclass(frozen=True)
class Results:
    """All rows of a study."""

    runs: Sequence[Row] = ()
    points: Sequence[Row] = ()


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether it is seen here; None where nothing can be said."""

    text: str
    seen: bool | None
    detail: str


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all hold: one that does not decides, else one that is open; of none it is open."""
    found = list(verdicts)
    if False in found:
        return False
    return None if None in found or not found else True


def greater(first: float, second: float) -> bool | None:
    """Whether a number is greater than another; None if one of them is missing."""
    return None if math.isnan(first) or math.isnan(second) else bool(first > second)


@dataclass(frozen=True)
class Page:
    """What is to be said of a study: paragraphs, lists or tables in Markdown.

    Orders are tested as claims are, and are none of the paper's of this figure.
    """

    paper: Sequence[str]
    seen: Sequence[str]
    differ: Sequence[str] = ()
    claims: Sequence[Claim] = ()
    orders: Sequence[Claim] = ()


@dataclass(frozen=True)
class Study:
    """A figure or a table of the paper.

    Attributes
    ----------
    name, title : str
        For the command, and for people.
    cells : callable
        The cells that some `Options` ask for, in the order in which they are best run.
    run : callable
        Does the work of a cell.
    draw : callable
        Draws all results on a Matplotlib figure.
    describe : callable
        Makes the page of all results.
    restart_seconds : float or None
        No more restarts of a setting than would take so long together, by the first; but for the
        first, which there is in any case. Those that are asked for are all run.
    """

    name: str
    title: str
    cells: Callable[[Options], Sequence[Cell]]
    run: Callable[[Cell, Options], Outcome]
    draw: Callable[[Any, Results], None]
    describe: Callable[[Results], Page]
    figure_size: tuple[float, float] = (10.0, 4.0)
    restart_seconds: float | None = None


def study_of(name: str) -> Study:
    """The study of a name."""
    if name not in NAMES:
        raise InvalidValueError(f"There is no {name!r}", f"choose one of {', '.join(NAMES)}")
    module = importlib.import_module(f"ibp.reproduce.{name.replace('-', '_')}")
    study: Study = module.STUDY
    return study
