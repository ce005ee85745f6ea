"""A start from what the user has."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ibp.methods.meibp.start import StartingPoint, Task
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

    def draw(self, task: Task) -> StartingPoint:
        """A starting point."""
        observations = task.observations
        return StartingPoint(
            np.ascontiguousarray(self.assignments, dtype=np.uint8).copy(),
            observations.to_layout(self.location),
            observations.to_layout(self.scale),
            self._intercept(task),
        )

    def _intercept(self, task: Task) -> Intercept | None:
        if self.intercept is None:
            return None
        observations = task.observations
        blank = task.method.initial_intercept(observations)
        given: Intercept = replace(
            blank, mean=observations.to_layout(self.intercept) - observations.centre
        )
        return given
