"""What a start gives to a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.model import Hyperparameters, Intercept
from ibp.parallel import Workers

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StartingPoint:
    """Assignments, and locations and scales of q(A) in layout order.

    Intercept and hyperparameters are those of the method unless the start knows better.
    """

    assignments: npt.NDArray[np.uint8]
    location: FloatArray
    scale: FloatArray
    intercept: Intercept | None = None
    hyperparameters: Hyperparameters | None = None


@dataclass(frozen=True)
class Task:
    """What a starting point is sought for, and with what.

    Long work asks ``should_stop`` now and then.
    """

    method: Any
    observations: Observations
    rng: np.random.Generator
    workers: Workers
    should_stop: Callable[[], bool]


class Start(Protocol):
    """A way to begin."""

    def draw(self, task: Task) -> StartingPoint:
        """Find a starting point."""
        ...
