"""What every inference method offers to the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from ibp.methods.context import Context

StateT = TypeVar("StateT")


@dataclass(frozen=True)
class SweepRecord:
    """What a sweep did, and the value of the state after it.

    The history keeps these, and callbacks are given them. A number that is added here is in both.

    Attributes
    ----------
    evidence : float
        The objective that the method climbs.
    n_components : int
        Features in use.
    n_changed : int
        Entries of Z that changed.
    train_log_likelihood : float
        Mean over observed entries at the expected factors.
    proven : float
        Fraction of the rows whose optimum was proven, against the factors and counts that it was
        sought with; 0 for methods and optimisers that prove nothing.
    finished : bool
        Whether the method itself has nothing more to do.
    unfinished : bool
        Whether it has something left to try, so that no rule may take the run for converged.
    values : dict
        Further numbers or words for the history, by name; the same names after every sweep.
    """

    evidence: float
    n_components: int
    n_changed: int
    train_log_likelihood: float
    proven: float = 0.0
    finished: bool = False
    unfinished: bool = False
    values: dict[str, Any] = field(default_factory=dict)


def relative_change(new: float, old: float) -> float:
    """Return |new - old| in units of the larger magnitude, and 0 if both are 0."""
    scale = max(abs(new), abs(old))
    return abs(new - old) / scale if scale > 0 else 0.0


class Method(Protocol[StateT]):
    """An inference method: it makes a state and improves it sweep by sweep.

    Attributes
    ----------
    climbs : bool
        Whether every sweep raises the evidence, so that one which changes nothing is the last.
    """

    climbs: ClassVar[bool]

    def init(self, context: Context) -> StateT:
        """Make the state that the first sweep starts from."""
        ...

    def step(self, context: Context, state: StateT) -> SweepRecord:
        """Do one sweep in place.

        Long sweeps ask ``context.should_stop`` now and then and, told so, end early in a usable
        state.
        """
        ...

    def report(self, context: Context, state: StateT) -> SweepRecord:
        """Evaluate a state."""
        ...


@runtime_checkable
class ThoroughMethod(Protocol):
    """A method that looks closer at what a run has come to before the run ends."""

    def look_again(self, context: Context, state: Any) -> bool:
        """Let the next sweep look closer; False if that has been done, and the run may end."""
        ...


@runtime_checkable
class UnitingMethod(Protocol):
    """A method that can put together what two of its runs found."""

    def unite(self, context: Context, state: Any, other: Any) -> SweepRecord | None:
        """Let a state take over what it can use of another one of the same rows, in place.

        Returns None if there is nothing.
        """
        ...
