"""A start from what the user has."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.methods.context import Context
from ibp.methods.meibp.start import StartingMethod, StartingPoint
from ibp.model import Intercept


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
        observations = context.observations
        return StartingPoint(
            np.ascontiguousarray(self.assignments, dtype=np.uint8).copy(),
            observations.layout.arrange(self.location),
            observations.layout.arrange(self.scale),
            self._intercept(method, observations),
        )

    def _intercept(self, method: StartingMethod, observations: Observations) -> Intercept | None:
        if self.intercept is None:
            return None
        blank = method.initial_intercept(observations)
        given: Intercept = replace(
            blank, mean=observations.layout.arrange(self.intercept) - observations.centre
        )
        return given
