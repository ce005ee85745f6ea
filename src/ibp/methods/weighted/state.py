"""The state of a fit whose codes have weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ibp.kernels.column_hashes import column_hashes
from ibp.kernels.weighted_rows import WeightPrior
from ibp.methods.context import Context
from ibp.methods.large_codes import joined
from ibp.methods.meibp.state import MEIBPState
from ibp.methods.weighted.forms import WeightedRowForms
from ibp.model import AnyHyperparameters, Factors, Intercept, Statistics
from ibp.model.weights import Weights, log_mass

FloatArray = npt.NDArray[np.float64]


def no_weights() -> Weights:
    """Those of no rows and no features."""
    return Weights.ones(np.zeros((0, 0), dtype=np.uint8), np.float64)


@dataclass
class WeightedState(MEIBPState):
    """Where a fit is: as `MEIBPState`, its statistics being those of the expected codes."""

    weights: Weights = field(default_factory=no_weights)  # q(W)

    @classmethod
    def of_weights(
        cls,
        context: Context,
        weights: Weights,
        factors: Factors,
        intercept: Intercept,
        hyperparameters: AnyHyperparameters,
    ) -> Self:
        """Make a state, summing up its statistics."""
        assignments = (weights.mean > 0).astype(np.uint8)
        return cls(
            assignments,
            column_hashes(assignments),
            statistics_of(context, weights),
            factors,
            intercept,
            hyperparameters,
            np.zeros(assignments.shape[0], dtype=np.uint8),
            weights=weights,
        )

    @property
    def codes(self) -> npt.NDArray[np.floating]:
        """Expected codes, z E[w]."""
        return self.weights.mean

    def keep(self, keep: npt.NDArray[np.bool_]) -> None:
        """Drop the other features; their order stays."""
        super().keep(keep)
        self.weights = self.weights.select(keep)

    def add_codes(
        self,
        context: Context,
        added: npt.NDArray[np.uint8],
        statistics: Statistics | None = None,
    ) -> None:
        """Add features that rows have or lack: weights of one, until they are learned."""
        self.assignments = joined(self.assignments, added)
        self.column_hash = np.concatenate([self.column_hash, column_hashes(added)])
        old, new = self.weights, Weights.ones(added, self.weights.mean.dtype)
        self.weights = Weights(
            *(
                np.ascontiguousarray(np.hstack([getattr(old, part), getattr(new, part)]))
                for part in ("mean", "variance", "divergence", "std")
            )
        )
        if statistics is None:
            self.recount(context)
        else:
            self.statistics = statistics

    def recount(self, context: Context) -> None:
        """Sum the statistics anew."""
        self.statistics = statistics_of(context, self.weights)

    def weight_prior(self, log_odds: FloatArray) -> WeightPrior:
        """What rows take from the prior."""
        return WeightPrior(log_odds, self.weights.std, log_mass(self.weights.std))

    def row_forms(self, context: Context) -> Any:
        """What the rows have in common under the present q(A)."""
        return WeightedRowForms(
            context.observations,
            self.factors.mean,
            self.hyperparameters.noise_precision.mean,
            variance=self.factors.variance,
            offset=self.intercept.mean,
        )


def statistics_of(context: Context, weights: Weights) -> Statistics:
    """Sums over the rows, from the weights' expectations and variances."""
    return Statistics.from_codes(
        context.observations, weights.mean, context.executor, weights.variance
    )
