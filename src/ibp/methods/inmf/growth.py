"""A new feature for INMF, guided by what the present ones leave unexplained.

The positive leading direction d of the residual R = X - E[Z] E[A] is sought by a few power
iterations u = max(R d, 0), d = max(R'u, 0), and the rows' scores R d are cut in two
(`ibp.starts.two_modes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.methods.context import Context
from ibp.parallel import ranges
from ibp.starts.two_modes import thresholds

FloatArray = npt.NDArray[np.float64]

# Probabilities of a new feature in rows beyond the cut; in the others a part of its frequency.
NEW_FEATURE_ON, NEW_FEATURE_OFF = 0.95, 0.05
# Power iterations; later tries stay closer to where they began.
DIRECTION_PASSES, LATER_DIRECTION_PASSES = 8, 2


@dataclass(frozen=True)
class Residual:
    """Some rows of X - E[Z] E[A], columns in the user's order, as something to multiply by.

    Dense rows are zero where X is missing; of sparse ones the product is taken as it stands, which
    is good enough for a guess.
    """

    values: Any
    codes: FloatArray
    components: FloatArray

    def times(self, direction: FloatArray) -> FloatArray:
        """The residual times a direction."""
        explained = self.codes @ (self.components @ direction)
        return np.asarray(self.values @ direction - explained, dtype=np.float64)

    def transposed_times(self, weights: FloatArray) -> FloatArray:
        """The transposed residual times weights of the rows."""
        explained = (weights @ self.codes) @ self.components
        return np.asarray(weights @ self.values - explained, dtype=np.float64)


@dataclass(frozen=True)
class Residuals:
    """The residual of all rows under codes (N x K) and components (K x D, user's order)."""

    observations: Observations
    codes: FloatArray
    components: FloatArray

    def of(self, rows: slice) -> Residual:
        """The residual of some rows."""
        codes = self.codes[rows]
        if self.observations.sparse:
            return Residual(self.observations.rows(rows), codes, self.components)
        block = self.observations.source.rows(rows).astype(np.float64)
        values = np.nan_to_num(block - codes @ self.components, nan=0.0)
        return Residual(values, codes[:, :0], self.components[:0])


# Work on pieces of rows: the residuals, and weights of all rows or a direction, are the task.


def pull_by_weights(task: tuple[Residuals, FloatArray], rows: slice) -> FloatArray:
    """R'u of some rows for weights u."""
    residuals, weights = task
    return residuals.of(rows).transposed_times(weights[rows])


def pull_by_scores(task: tuple[Residuals, FloatArray], rows: slice) -> FloatArray:
    """R'u of some rows for u = max(R d, 0)."""
    residuals, direction = task
    residual = residuals.of(rows)
    return residual.transposed_times(np.maximum(residual.times(direction), 0.0))


def scores_of_rows(task: tuple[Residuals, FloatArray], rows: slice) -> FloatArray:
    """R d of some rows."""
    residuals, direction = task
    return residuals.of(rows).times(direction)


def positive_direction(parts: Iterable[FloatArray], n_features: int) -> FloatArray:
    """The positive part of a sum, of unit length."""
    total = np.zeros(n_features)
    for part in parts:
        total += part
    positive = np.maximum(total, 0.0)
    largest = positive.max(initial=0.0)
    # By way of its largest entry so that no square overflows.
    positive /= largest if largest > 0.0 else 1.0
    return np.asarray(positive / max(float(np.linalg.norm(positive)), 1.0))


def new_feature(context: Context, codes: FloatArray, mean: FloatArray, tries: int) -> FloatArray:
    """Probabilities of a feature that explains some of the residual X - codes mean, N of them.

    ``mean`` is in layout order. The first try looks for the residual's leading positive direction,
    later ones begin at a random row and stay near it; told to stop, they look no further.
    """
    observations, run = context.observations, context.executor.map
    n, d = observations.n_samples, observations.n_features
    pieces = ranges(n, observations.piece_rows)
    residuals = Residuals(observations, codes, observations.layout.restore(mean))
    weights = context.rng.random(n)
    if tries:
        weights = np.eye(1, n, int(context.rng.integers(n)))[0]
    direction = positive_direction(run(pull_by_weights, (residuals, weights), pieces), d)
    for _ in range(LATER_DIRECTION_PASSES if tries else DIRECTION_PASSES):
        if context.should_stop():
            break
        direction = positive_direction(run(pull_by_scores, (residuals, direction), pieces), d)
    scores = run(scores_of_rows, (residuals, direction), pieces)
    return cut_scores(np.concatenate(list(scores)))


def cut_scores(scores: FloatArray) -> FloatArray:
    """Probabilities from scores: high beyond the cut, elsewhere low and lower for rare features."""
    spread = scores.std()
    if not spread > 0.0:
        return np.full(scores.size, 0.5)
    standard = (scores - scores.mean()) / spread
    on = standard > thresholds(standard[:, None])[0]
    return np.where(on, NEW_FEATURE_ON, NEW_FEATURE_OFF * on.mean())
