"""A run of a method and its history, and both as they are written down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Self, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

from ibp.checkpoints import SavedRun
from ibp.methods.base import SweepRecord
from ibp.methods.context import Context
from ibp.methods.state import Arrays, State

StateT = TypeVar("StateT")
Ending = Literal["converged", "max_iter", "time_limit", "callback", "interrupted"]
# The fields of a record that are numbers, and the types of their arrays in the history.
DTYPES = {float: np.float64, int: np.int64}
NUMBERS = {
    name: DTYPES[kind] for name, kind in get_type_hints(SweepRecord).items() if kind in DTYPES
}
# Those that say how a run goes on; and what the names of further values begin with where all are
# written down.
FLAGS = tuple(name for name, kind in get_type_hints(SweepRecord).items() if kind is bool)
FURTHER = "values."


@dataclass
class History:
    """The records of a run's sweeps, and the seconds from the fit's beginning to their ends."""

    initial: SweepRecord  # of the state before the first sweep
    sweeps: list[SweepRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def last(self) -> SweepRecord:
        """The record of the last sweep or, before the first, of the initial state."""
        return self.sweeps[-1] if self.sweeps else self.initial

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

    def to_arrays(self) -> Arrays:
        """All of it as arrays by name; the initial state comes first, less its further values."""
        records = [self.initial, *self.sweeps]
        arrays: Arrays = {
            name: np.array([getattr(record, name) for record in records])
            for name in (*NUMBERS, *FLAGS)
        }
        arrays["seconds"] = np.array(self.seconds, dtype=np.float64)
        for name in self.sweeps[0].values if self.sweeps else ():
            arrays[FURTHER + name] = np.array([sweep.values[name] for sweep in self.sweeps])
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The history that `to_arrays` wrote down."""
        columns = {name: arrays[name].tolist() for name in (*NUMBERS, *FLAGS)}
        further = {
            name.removeprefix(FURTHER): arrays[name].tolist()
            for name in arrays
            if name.startswith(FURTHER)
        }
        initial, *sweeps = (
            SweepRecord(**dict(zip(columns, record, strict=True)))
            for record in zip(*columns.values(), strict=True)
        )
        if further:
            values = zip(*further.values(), strict=True)
            sweeps = [
                replace(sweep, values=dict(zip(further, own, strict=True)))
                for sweep, own in zip(sweeps, values, strict=True)
            ]
        return cls(initial, sweeps, arrays["seconds"].tolist())


@dataclass
class Run(Generic[StateT]):
    """A run of a method, from one start, as far as it came.

    ``interrupted`` says whether Ctrl-C ended this run or a restart that came after it.
    """

    context: Context
    state: StateT
    history: History
    ending: Ending = "callback"  # until there is another
    interrupted: bool = False

    @property
    def evidence(self) -> float:
        """What its state is worth."""
        return self.history.last.evidence


def saved_run(current: Run[Any]) -> SavedRun:
    """A run as it is written down."""
    state: State = current.state
    return SavedRun(
        type(state).__name__, current.ending, state.to_arrays(), current.history.to_arrays()
    )


def restored_run(saved: SavedRun, context: Context) -> Run[Any]:
    """The run that was written down."""
    state = State.named(saved.state_class).from_arrays(saved.state)
    ending: Any = saved.ending
    return Run(context, state, History.from_arrays(saved.history), ending)
