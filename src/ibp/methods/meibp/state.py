"""The state of an MEIBP fit, and what keeps its parts in step."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels import factors as factor_kernels
from ibp.kernels.column_hashes import column_hashes
from ibp.kernels.records import (
    FactorArrays,
    FactorSpace,
    InterceptArrays,
    PriorTerms,
    RowContext,
    Sums,
)
from ibp.methods.context import Context
from ibp.methods.large_codes import copied, joined, with_columns
from ibp.methods.row_forms import SearchForms
from ibp.methods.state import State
from ibp.model import AnyHyperparameters, Factors, Intercept, Statistics
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
# q(A) is updated in so many pieces, none of fewer columns.
PIECES, SMALLEST_PIECE = 8, 256
ENTROPIES_AT_ONCE = 1 << 15
# Rows whose residuals are in memory together when codes follow from them.
ROWS_BY_ROWS = 256
# Columns of codes from rows of Z; and from observations, codes, a task and some rows.
ColumnsOf = Callable[..., npt.NDArray[Any]]
PlaceRows = Callable[[Any, Any, Any, slice], npt.NDArray[Any]]


@dataclass
class MEIBPState(State):
    """Where a fit is; factors, intercept and statistics are in layout order."""

    assignments: npt.NDArray[np.uint8]  # (N, K), Z
    column_hash: npt.NDArray[np.uint64]  # (K, 2), of each column of Z, to tell equal ones
    statistics: Statistics  # the sums that belong to Z
    factors: Factors  # q(A)
    intercept: Intercept  # q(b)
    hyperparameters: AnyHyperparameters  # the other factors of q
    # (N,), how often, one time after the other, the exact search of a row was in vain.
    failed_searches: npt.NDArray[np.uint8]
    block_size: int = 1  # rows between two refreshes of q(A)
    n_sweeps: int = 0  # sweeps so far
    full_budget: bool = False  # whether the exact search's budgets have grown to their full size
    searches_again: bool = False  # whether the next sweep makes the second search of its rows
    second_codes: int = 0  # codes that this search goes on from; 0 before there was one
    n_second_searches: int = 0  # how many such sweeps there were
    n_found_again: int = 0  # rows that the last one changed
    n_changed: int = -1  # bits that the last sweep changed; -1 if something else has changed since
    n_proven: int = 0  # rows that it proved to be optimal
    next_move: int = 0  # which move of the schedule is to be tried next
    n_reheatings: int = 0  # how often the noise has been raised
    n_planned: int = -1  # how often it is to be; -1 before that is known
    n_in_vain: int = 0  # how many of them, the last ones, have led to nothing better
    walk_pays: bool = False  # whether any has
    # Where reheatings have led, if not to this state, and the bound there.
    walker: MEIBPState | None = None
    walker_evidence: float = -np.inf
    last_evidence: float = -np.inf  # the bound after the last sweep or move
    limit_gain: float | None = None  # what one feature beyond the limit would gain, if known

    @classmethod
    def from_parts(
        cls,
        context: Context,
        assignments: npt.NDArray[np.uint8],
        factors: Factors,
        intercept: Intercept,
        hyperparameters: AnyHyperparameters,
        statistics: Statistics | None = None,
    ) -> Self:
        """Make a state, summing up its statistics unless they are known."""
        if statistics is None:
            statistics = Statistics.from_codes(context.observations, assignments, context.executor)
        return cls(
            assignments,
            column_hashes(assignments),
            statistics,
            factors,
            intercept,
            hyperparameters,
            np.zeros(assignments.shape[0], dtype=np.uint8),
        )

    def copy(self) -> Self:
        """A state of its own, whatever happens to this one."""
        return deepcopy(self, {id(codes): copied(codes) for codes in self._all_assignments()})

    def copy_but_assignments(self) -> Self:
        """A state of its own but for Z, in whose place the copy must put another."""
        return deepcopy(self, {id(codes): codes for codes in self._all_assignments()})

    def _all_assignments(self) -> list[npt.NDArray[np.uint8]]:
        """Z, here and where reheatings have led."""
        return (
            [self.assignments]
            if self.walker is None
            else [self.assignments, self.walker.assignments]
        )

    @property
    def n_components(self) -> int:
        """Features in use."""
        return int(self.assignments.shape[1])

    @property
    def codes(self) -> npt.NDArray[Any]:
        """What factors are multiplied by: Z."""
        return self.assignments

    def add_codes(self, context: Context, codes: Any) -> None:
        """Add columns to Z; their factors are the caller's business."""
        added = np.ascontiguousarray(codes, dtype=np.uint8)
        self.assignments = joined(self.assignments, added)
        self.column_hash = np.concatenate([self.column_hash, column_hashes(added)])
        self.recount(context)

    def keep(self, keep: npt.NDArray[np.bool_]) -> None:
        """Drop the other features; their order stays."""
        self.assignments = with_columns(self.assignments, keep)
        self.column_hash = self.column_hash[keep]
        self.statistics = self.statistics.select(keep)
        self.factors = self.factors.select(keep)

    def derived_codes(self, columns_of: ColumnsOf, *arguments: Any) -> Any:
        """Columns of codes that follow from Z row by row: ``columns_of(z, *arguments)``."""
        return columns_of(self.assignments, *arguments)

    def codes_by_rows(self, context: Context, work: PlaceRows, task: Any) -> Any:
        """Columns of codes that follow from rows of X and of Z, a piece of the rows at a time.

        ``work(observations, codes, task, rows)`` gives those of some rows.
        """
        pieces = ranges(context.observations.n_samples, ROWS_BY_ROWS)
        everything = (work, context.observations, self.codes, task)
        return np.concatenate(list(context.executor.map(_codes_of_piece, everything, pieces)))

    def rows_present(self, context: Context) -> tuple[int, int]:
        """The number of the first row that can be looked at, and that after the last."""
        return 0, context.observations.n_samples

    def rows_at_hand(
        self, context: Context, rows: npt.NDArray[np.int64]
    ) -> tuple[Observations, npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Observations and codes among which some rows are, and where they are."""
        return context.observations, self.codes, rows

    def rows_with(self, features: npt.ArrayLike) -> npt.NDArray[np.int64] | None:
        """The rows that have any of some features; None, for all, where it takes long to know."""
        return np.flatnonzero(self.assignments[:, np.asarray(features)].any(axis=1))

    def kept_assignments(self) -> Any:
        """Z as a fitted model keeps it."""
        return self.assignments

    def forget_failures(self) -> None:
        """Let searches that have failed have their whole budget."""
        self.failed_searches[:] = 0

    @property
    def has_failures(self) -> bool:
        """Whether a row has less than its whole budget because its searches failed."""
        return bool(self.failed_searches.any())

    def drop_empty(self) -> None:
        """Drop the features that no row has."""
        used = self.statistics.counts > 0
        if not used.all():
            self.keep(used)

    def recount(self, context: Context) -> None:
        """Sum the statistics anew."""
        self.statistics = Statistics.from_codes(
            context.observations, self.assignments, context.executor
        )

    def refresh(self, context: Context) -> None:
        """One update of q(A) and of the intercept from the statistics."""
        self.update_intercept(context)
        noise_precision = self.hyperparameters.noise_precision.mean
        self.update_factors(context, self.intercept.response(noise_precision))

    def update_factors(self, context: Context, response: FloatArray) -> None:
        """One update of q(A); the intercept, if at its optimum, stays there by its response."""
        layout = context.observations.layout
        task = FactorTask(
            self.sums(),
            self.factor_arrays(),
            InterceptArrays(self.intercept.mean, response),
            layout.group_start,
            by_column(self.hyperparameters.noise_precision.mean, layout.n_features),
            by_column(self.hyperparameters.factor_precision.mean, layout.n_features),
        )
        offset = np.empty_like(self.intercept.mean)
        pieces = ranges(layout.n_features, max(SMALLEST_PIECE, -(-layout.n_features // PIECES)))
        updates = context.executor.map(updated_columns, task, pieces)
        for columns, (updated, offset[columns]) in zip(pieces, updates, strict=True):
            for whole, part in zip(task.factors, updated, strict=True):
                whole[:, columns] = part
        self.intercept = replace(self.intercept, mean=offset)

    def update_intercept(self, context: Context) -> None:
        """The intercept that suits the factors."""
        self.intercept = self.intercept.updated(
            context.observations,
            self.statistics,
            self.factors.mean,
            self.hyperparameters.noise_precision.mean,
        )

    def entropies(self, context: Context) -> FloatArray:
        """Entropies of the features' factors."""
        n_features = self.factors.mean.shape[1]
        per_piece = 1 + ENTROPIES_AT_ONCE // max(n_features, 1)
        pieces = ranges(self.n_components, per_piece)
        parts = list(context.executor.map(entropies_of, self.factor_arrays(), pieces))
        return np.concatenate([np.empty(0), *parts])

    def sums(self) -> Sums:
        """The statistics for the kernels."""
        statistics = self.statistics
        return Sums(statistics.gram, statistics.totals, statistics.cross, statistics.counts)

    def factor_arrays(self) -> FactorArrays:
        """q(A) for the kernels."""
        q = self.factors
        return FactorArrays(q.location, q.scale, q.mean, q.variance)

    def prior_terms(self) -> PriorTerms:
        """What a feature's evidence takes from the hyperparameters."""
        tau = self.hyperparameters.factor_precision
        precision = by_column(tau.mean, self.factors.mean.shape[1])
        largest = float(precision.max(initial=0.0)) or 1.0
        return PriorTerms(
            largest,
            precision / largest,
            float(np.mean(tau.mean_log)),
            self.hyperparameters.alpha.mean_log,
        )

    def row_context(self) -> RowContext:
        """What the exact objective of a row reads beside the row."""
        return RowContext(
            self.assignments.shape[0],
            self.statistics.counts,
            self.column_hash,
            self.factor_arrays(),
            self.prior_terms(),
        )

    def row_forms(self, context: Context) -> SearchForms:
        """What the rows have in common under the present q(A)."""
        return SearchForms(
            context.observations,
            self.factors.mean,
            self.hyperparameters.noise_precision.mean,
            variance=self.factors.variance,
            offset=self.intercept.mean,
        )


def _codes_of_piece(task: tuple[PlaceRows, Any, Any, Any], rows: slice) -> npt.NDArray[Any]:
    """Codes of some rows."""
    work, observations, codes, rest = task
    return work(observations, codes, rest, rows)


class FactorTask(NamedTuple):
    """What an update of q(A) reads; all in layout order."""

    sums: Sums
    factors: FactorArrays
    intercept: InterceptArrays
    group_start: npt.NDArray[np.int64]
    noise_precision: FloatArray
    factor_precision: FloatArray


def by_column(value: float | FloatArray, n_features: int) -> FloatArray:
    """The numbers of the columns, if they are not one number for all."""
    return np.full(n_features, value, dtype=np.float64)


def updated_columns(task: FactorTask, columns: slice) -> tuple[FactorArrays, FloatArray]:
    """Update q(A) and the intercept in some columns, which do not depend on the others."""
    sums, group_start = task.sums, task.group_start
    groups = slice(
        int(np.searchsorted(group_start, columns.start, side="right")) - 1,
        int(np.searchsorted(group_start, columns.stop, side="left")),
    )
    width = columns.stop - columns.start
    cross = np.ascontiguousarray(sums.cross[:, columns])
    own = Sums(sums.gram[groups], sums.totals[groups], cross, sums.counts)
    # All but the means are overwritten without being read.
    location, scale, variance = (np.empty_like(cross) for _ in range(3))
    factors = FactorArrays(location, scale, task.factors.mean[:, columns].copy(), variance)
    intercept = InterceptArrays(
        task.intercept.mean[columns].copy(), task.intercept.response[columns]
    )
    factor_kernels.update_factors(
        own,
        np.clip(group_start[groups.start : groups.stop + 1] - columns.start, 0, width),
        (group_start.size - 1) * factor_kernels.NARROW_GROUP > sums.cross.shape[1],
        intercept,
        task.noise_precision[columns],
        task.factor_precision[columns],
        factors,
        FactorSpace(np.empty(width), np.empty((width, factors.mean.shape[0]))),
    )
    return factors, intercept.mean


def entropies_of(factors: FactorArrays, features: slice) -> FloatArray:
    """Entropies of some features' factors."""
    entropies = np.empty(features.stop - features.start)
    part = FactorArrays(*(array[features] for array in factors))
    factor_kernels.factor_entropies(part, entropies)
    return entropies
