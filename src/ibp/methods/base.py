"""What every inference method offers to the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from ibp.data import Observations

StateT = TypeVar("StateT")


@dataclass(frozen=True)
class StepReport:
    """What a sweep did, and the value of the state after it.

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
    values : dict
        Further numbers for the history, by name; the same names after every sweep.
    """

    evidence: float
    n_components: int
    n_changed: int
    train_log_likelihood: float
    proven: float = 0.0
    finished: bool = False
    values: dict[str, float] = field(default_factory=dict)


class Method(Protocol[StateT]):
    """An inference method: it makes a state and improves it sweep by sweep.

    Attributes
    ----------
    climbs : bool
        Whether every sweep raises the evidence, so that one which changes nothing is the last.
    """

    climbs: ClassVar[bool]

    def init(
        self,
        observations: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool],
    ) -> StateT:
        """Make the state that the first sweep starts from."""
        ...

    def step(self, state: StateT, should_stop: Callable[[], bool]) -> StepReport:
        """Do one sweep in place.

        Long sweeps ask ``should_stop`` now and then and, told so, end early in a usable state.
        """
        ...

    def report(self, state: StateT) -> StepReport:
        """Evaluate a state."""
        ...
