"""The state of an MEIBP fit, and what keeps its parts in step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels import factors as factor_kernels
from ibp.kernels.column_hashes import column_hashes
from ibp.methods.row_forms import SearchForms, SharedPatterns
from ibp.model import Factors, Hyperparameters, Intercept, Statistics
from ibp.parallel import Workers, ranges

FloatArray = npt.NDArray[np.float64]
# Columns of q(A) that a thread updates at a time.
COLUMNS_AT_ONCE = 256
ENTROPIES_AT_ONCE = 1 << 15


@dataclass
class MEIBPState:
    """All that a sweep needs; factors and statistics are in layout order.

    ``fatigue`` counts for each row how often running the exact search was in vain; ``in_earnest``
    says that budgets have grown to their full size.
    """

    observations: Observations
    assignments: npt.NDArray[np.uint8]
    column_hash: npt.NDArray[np.uint64]
    statistics: Statistics
    factors: Factors
    intercept: Intercept
    hyperparameters: Hyperparameters
    rng: np.random.Generator
    patterns: SharedPatterns
    fatigue: npt.NDArray[np.uint8]
    workers: Workers = field(default_factory=Workers)
    block_size: int = 1
    n_sweeps: int = 0
    in_earnest: bool = False

    @classmethod
    def from_parts(
        cls,
        observations: Observations,
        assignments: npt.NDArray[np.uint8],
        factors: Factors,
        intercept: Intercept,
        hyperparameters: Hyperparameters,
        rng: np.random.Generator,
        workers: Workers,
    ) -> MEIBPState:
        """Sum up the statistics."""
        return cls(
            observations,
            assignments,
            column_hashes(assignments),
            Statistics.from_codes(observations, assignments, workers),
            factors,
            intercept,
            hyperparameters,
            rng,
            SharedPatterns.of(observations),
            np.zeros(observations.n_samples, dtype=np.uint8),
            workers,
        )

    @property
    def n_components(self) -> int:
        """Features in use."""
        return int(self.assignments.shape[1])

    def keep(self, keep: npt.NDArray[np.bool_]) -> None:
        """Drop the other features; their order stays."""
        self.assignments = np.ascontiguousarray(self.assignments[:, keep])
        self.column_hash = self.column_hash[keep]
        self.statistics = self.statistics.select(keep)
        self.factors = self.factors.select(keep)

    def drop_empty(self) -> None:
        """Drop the features that no row has."""
        used = self.statistics.counts > 0
        if not used.all():
            self.keep(used)

    def recount(self) -> None:
        """Sum the statistics anew."""
        self.statistics = Statistics.from_codes(self.observations, self.assignments, self.workers)

    def refresh(self) -> None:
        """One update of q(A) and of the intercept from the statistics."""
        self.update_intercept()
        noise_precision = self.hyperparameters.noise_precision.mean
        self.update_factors(self.intercept.response(noise_precision))

    def update_factors(self, response: FloatArray) -> None:
        """One update of q(A); the intercept, if at its optimum, stays there by its response."""
        d = self.observations.n_features
        residual, by_column = np.empty(d), np.empty((d, self.n_components))
        noise_precision = self.hyperparameters.noise_precision.mean

        def update(columns: slice) -> None:
            factor_kernels.update_factors(
                self.statistics.gram,
                self.statistics.totals,
                self.statistics.cross,
                response,
                self.intercept.mean,
                self.observations.group_start,
                noise_precision,
                self.hyperparameters.factor_precision.mean,
                self.factors.location,
                self.factors.scale,
                self.factors.mean,
                self.factors.variance,
                residual,
                by_column,
                columns.start,
                columns.stop,
            )

        self.workers.each(update, ranges(d, COLUMNS_AT_ONCE))

    def update_intercept(self) -> None:
        """The intercept that suits the factors."""
        self.intercept = self.intercept.updated(
            self.observations,
            self.statistics,
            self.factors,
            self.hyperparameters.noise_precision.mean,
        )

    def entropies(self) -> FloatArray:
        """Entropies of the features' factors."""
        q = self.factors
        entropies = np.empty(self.n_components)

        def fill(features: slice) -> None:
            factor_kernels.factor_entropies(
                features.start, features.stop, q.location, q.scale, q.mean, entropies
            )

        per_piece = 1 + ENTROPIES_AT_ONCE // max(self.observations.n_features, 1)
        self.workers.each(fill, ranges(self.n_components, per_piece))
        return entropies

    def factor_arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """q(A) for the kernels: location, scale, mean, variance."""
        q = self.factors
        return q.location, q.scale, q.mean, q.variance

    def prior_terms(self) -> tuple[float, float, float]:
        """What a feature's evidence takes from the hyperparameters."""
        tau = self.hyperparameters.factor_precision
        return tau.mean, tau.mean_log, self.hyperparameters.alpha.mean_log

    def row_forms(self) -> SearchForms:
        """What the rows have in common under the present q(A)."""
        return SearchForms(
            self.observations,
            self.patterns,
            self.factors.mean,
            self.factors.variance,
            self.intercept.mean,
            self.hyperparameters.noise_precision.mean,
        )

    def equal_columns(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Multiplicities K_h of the distinct columns, and each column's own multiplicity."""
        return equal_hashes(self.column_hash)


def equal_hashes(
    column_hash: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How often each distinct hash occurs, and each one's own number of occurrences."""
    _, inverse, counts = np.unique(column_hash, axis=0, return_inverse=True, return_counts=True)
    return counts.astype(np.int64), counts[inverse.ravel()].astype(np.int64)
