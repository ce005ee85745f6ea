"""A start from what the user has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.start import StartingMethod, StartingPoint


@dataclass(frozen=True)
class GivenStart:
    """A start from given assignments and factors, in the user's column order."""

    assignments: npt.NDArray[np.uint8]
    location: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    intercept: npt.NDArray[np.float64] | None = None

    @property
    def n_components(self) -> int:
        """Features to start with."""
        return int(self.assignments.shape[1])

    def draw(self, method: StartingMethod, context: Context) -> StartingPoint:
        """A starting point."""
        observations, intercept = context.observations, None
        if self.intercept is not None:
            intercept = method.initial_intercept(observations, self.intercept)
        return StartingPoint(
            np.ascontiguousarray(self.assignments, dtype=np.uint8).copy(),
            observations.layout.arrange(self.location),
            observations.layout.arrange(self.scale),
            intercept,
        )
