"""What stands beside a method's state: the data, which do not change, and what does the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ibp.data import Observations
from ibp.parallel import Executor, Threads


def never() -> bool:
    """Nobody wants a stop."""
    return False


def unheard(what: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Context:
    """All that a run has beside its method and its state.

    Attributes
    ----------
    observations : Observations
        The data, with the layout of their columns.
    rng : Generator
        The source of all randomness of a run.
    executor : Executor
        Runs pieces of work; made once for a fit.
    should_stop : callable
        Long work asks it now and then and, told so, ends early in a usable state.
    announce : callable
        Is told in a word what is about to be tried, for those who watch.
    restart : int
        Which of a fit's starts this is, from 1.
    """

    observations: Observations
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    executor: Executor = field(default_factory=Threads)
    should_stop: Callable[[], bool] = never
    announce: Callable[[str], None] = unheard
    restart: int = 1
