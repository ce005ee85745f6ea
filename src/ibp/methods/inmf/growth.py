"""A new feature for INMF, guided by what the present ones leave unexplained.

The positive leading direction of the residual X - E[Z] E[A] is sought by a few power iterations,
and the rows' scores along it are cut in two (`ibp.starts.two_modes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.parallel import Workers, ranges
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

    def scores(self, direction: FloatArray) -> FloatArray:
        """Times a direction."""
        explained = self.codes @ (self.components @ direction)
        return np.asarray(self.values @ direction - explained, dtype=np.float64)

    def pulled_by(self, weights: FloatArray) -> FloatArray:
        """Transposed, times weights of the rows."""
        explained = (weights @ self.codes) @ self.components
        return np.asarray(weights @ self.values - explained, dtype=np.float64)


@dataclass(frozen=True)
class Residuals:
    """The residual of all rows under codes (N x K) and components (K x D, user's order)."""

    observations: Observations
    codes: FloatArray
    components: FloatArray

    def __call__(self, rows: slice) -> Residual:
        """Those of some rows."""
        codes = self.codes[rows]
        if self.observations.sparse:
            return Residual(self.observations.rows(rows), codes, self.components)
        values = self.observations.values[rows].astype(np.float64) - codes @ self.components
        return Residual(np.nan_to_num(values, nan=0.0), codes[:, :0], self.components[:0])


@dataclass
class DirectionSearch:
    """Power iterations u = max(R d, 0), d = max(R'u, 0) on the residual R."""

    residual: Residuals
    workers: Workers
    direction: FloatArray = field(init=False)

    @property
    def pieces(self) -> list[slice]:
        """Pieces of rows."""
        observations = self.residual.observations
        return ranges(observations.n_samples, observations.piece_rows)

    def begin(self, weights: FloatArray) -> None:
        """From weights of the rows."""
        self._set(lambda rows: self.residual(rows).pulled_by(weights[rows]))

    def advance(self) -> None:
        """One iteration."""

        def pull(rows: slice) -> FloatArray:
            residual = self.residual(rows)
            return residual.pulled_by(np.maximum(residual.scores(self.direction), 0.0))

        self._set(pull)

    def scores(self) -> FloatArray:
        """R d of all rows."""
        parts = self.workers.map(
            lambda rows: self.residual(rows).scores(self.direction), self.pieces
        )
        return np.concatenate(list(parts))

    def _set(self, pull: Callable[[slice], FloatArray]) -> None:
        total = np.zeros(self.residual.observations.n_features)
        for part in self.workers.map(pull, self.pieces):
            total += part
        positive = np.maximum(total, 0.0)
        largest = positive.max(initial=0.0)
        # Of unit length, by way of its largest entry so that no square overflows.
        positive /= largest if largest > 0.0 else 1.0
        self.direction = positive / max(float(np.linalg.norm(positive)), 1.0)


def new_feature(
    observations: Observations,
    codes: FloatArray,
    mean: FloatArray,
    tries: int,
    rng: np.random.Generator,
    workers: Workers,
    should_stop: Callable[[], bool],
) -> FloatArray:
    """Probabilities of a feature that explains some of the residual X - codes mean, N of them.

    ``mean`` is in layout order. The first try looks for the residual's leading positive direction,
    later ones begin at a random row and stay near it; told to stop, they look no further.
    """
    search = DirectionSearch(
        Residuals(observations, codes, observations.from_layout(mean)), workers
    )
    n = observations.n_samples
    weights = rng.random(n)
    if tries:
        weights = np.eye(1, n, int(rng.integers(n)))[0]
    search.begin(weights)
    for _ in range(LATER_DIRECTION_PASSES if tries else DIRECTION_PASSES):
        if should_stop():
            break
        search.advance()
    return cut_scores(search.scores())


def cut_scores(scores: FloatArray) -> FloatArray:
    """Probabilities from scores: high beyond the cut, elsewhere low and lower for rare features."""
    spread = scores.std()
    if not spread > 0.0:
        return np.full(scores.size, 0.5)
    standard = (scores - scores.mean()) / spread
    on = standard > thresholds(standard[:, None])[0]
    return np.where(on, NEW_FEATURE_ON, NEW_FEATURE_OFF * on.mean())
