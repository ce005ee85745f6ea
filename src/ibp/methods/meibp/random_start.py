"""The random start of the paper's authors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ibp.data import Observations
from ibp.methods.context import Context
from ibp.methods.meibp.start import StartingPoint
from ibp.model import Intercept
from ibp.parallel import ranges

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class RandomStart:
    """The authors' random start: z ~ Bernoulli(1/3), small random factors.

    The factors' spread is in units of the prior's standard deviation, so that the start, too,
    scales with the data.
    """

    n_components: int

    def draw(self, method: MEIBPMethod, context: Context) -> StartingPoint:
        """A starting point."""
        observations, rng = context.observations, context.rng
        factor_std = method.hyperparameters.factor_std
        layout = observations.layout
        n, k, d = observations.n_samples, self.n_components, layout.n_columns
        assignments = np.empty((n, k), dtype=np.uint8)
        for rows in ranges(n, ROWS_AT_ONCE):
            assignments[rows] = rng.random((rows.stop - rows.start, k)) < 1.0 / 3.0
        # A feature that nobody drew would be lost before it was tried.
        for feature in np.flatnonzero(~assignments.any(axis=0)):
            assignments[rng.integers(n), feature] = 1
        location = layout.arrange(np.abs(rng.normal(0.0, 0.05, size=(k, d)))) * factor_std
        scale = np.maximum(np.abs(rng.normal(0.0, 0.1, size=(k, 1))), 1e-3) * factor_std
        return StartingPoint(
            assignments,
            location,
            np.broadcast_to(scale, location.shape),
            low_intercept(method, observations),
        )


def low_intercept(method: MEIBPMethod, observations: Observations) -> Intercept:
    """An intercept that leaves the features something to explain.

    At the column means it would explain all that the columns have in common, and features that
    start as noise would lose their rows before they take shape.
    """
    summary = observations.summary
    low = np.fmax(summary.means - np.sqrt(summary.variances), summary.lowest)
    return method.initial_intercept(observations, low)
