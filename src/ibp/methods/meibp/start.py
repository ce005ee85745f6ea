"""What a start gives to a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.methods.context import Context
from ibp.model import Hyperparameters, Intercept

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


class StartingMethod(Protocol):
    """What a start needs to know of the method that it is for."""

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Those to begin with."""
        ...

    def initial_intercept(
        self, observations: Observations, known: FloatArray | None = None
    ) -> Intercept:
        """The intercept before the first sweep, at known offsets if there are any."""
        ...


class Start(Protocol):
    """A way to begin."""

    def draw(self, method: Any, context: Context) -> StartingPoint:
        """Find a starting point for a method."""
        ...
