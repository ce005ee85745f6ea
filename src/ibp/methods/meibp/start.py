"""What a start gives to a method, and the start from what the user has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.model import AnyHyperparameters, Intercept, Statistics

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StartingPoint:
    """Assignments, and locations and scales of q(A) in layout order.

    Intercept and hyperparameters are those of the method unless the start knows better; the
    statistics of the assignments are there if the start has summed them up, and change with them.
    """

    assignments: Any  # (N, K), zeros and ones
    location: FloatArray
    scale: FloatArray
    intercept: Intercept | None = None
    hyperparameters: AnyHyperparameters | None = None
    statistics: Statistics | None = None


class Start(Protocol):
    """A way to begin."""

    def draw(self, method: MEIBPMethod, context: Context) -> StartingPoint:
        """Find a starting point for a method."""
        ...


@dataclass(frozen=True)
class GivenStart:
    """A start from given assignments and factors, in the user's column order and units."""

    assignments: npt.NDArray[np.uint8]
    location: FloatArray
    scale: FloatArray
    intercept: FloatArray | None = None

    @property
    def n_components(self) -> int:
        """Features to start with."""
        return int(self.assignments.shape[1])

    def draw(self, method: MEIBPMethod, context: Context) -> StartingPoint:
        """A starting point."""
        observations, intercept = context.observations, None
        if self.intercept is not None:
            intercept = method.initial_intercept(observations, self.intercept)
        return StartingPoint(
            np.ascontiguousarray(self.assignments, dtype=np.uint8).copy(),
            observations.layout.arrange(self.location) / observations.unit,
            observations.layout.arrange(self.scale) / observations.unit,
            intercept,
        )
