"""A start from what the user has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.model import Intercept, Observations
from ibp.parallel import Workers
from ibp.starts.base import StartingPoint


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

    def draw(
        self,
        method: Any,
        observations: Observations,
        rng: np.random.Generator,
        workers: Workers,
        should_stop: Callable[[], bool],
    ) -> StartingPoint:
        """A starting point."""
        return StartingPoint(
            np.ascontiguousarray(self.assignments, dtype=np.uint8).copy(),
            observations.to_layout(self.location),
            observations.to_layout(self.scale),
            self._intercept(method, observations),
        )

    def _intercept(self, method: Any, observations: Observations) -> Intercept | None:
        if self.intercept is None:
            return None
        blank = method.no_intercept_yet(observations)
        return replace(blank, mean=observations.to_layout(self.intercept) - observations.centre)
