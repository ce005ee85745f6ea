"""Maximisation-expectation for the IBP (Reed and Ghahramani 2013).

Z is a point, q(A) a truncated Gaussian per entry. A sweep optimises every row of Z against the
evidence lower bound, refreshing q(A) as rows change; then the hyperparameters, if they are learned,
are updated, and each feature's removal is tried. No step lowers the bound, except the cold row
search of the paper's authors, which is there to reproduce their numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ibp.kernels import factors as factor_kernels
from ibp.kernels.meibp_rows import column_hashes, sweep_rows
from ibp.methods.base import StepReport
from ibp.model import (
    Factors,
    Hyperparameters,
    Observations,
    Statistics,
    evidence,
    removal_gains,
    train_log_likelihood,
    update_hyperparameters,
)
from ibp.model.evidence import Evidence
from ibp.model.ibp_prior import Prior
from ibp.submodular import OPTIMIZERS

FloatArray = npt.NDArray[np.float64]

# The compiled sweep returns to Python about this often, to see whether it should stop.
SECONDS_BETWEEN_CHECKS = 0.05
FIRST_CHUNK = 16
# With Z at rest, q(A) and the hyperparameters are iterated until the bound moves less than this
# per observed entry.
SETTLED = 1e-10
MAX_SETTLING_UPDATES = 100
# Removals are tried once a sweep changes less than this fraction of Z, or after these many sweeps.
QUIET = 0.01
SWEEPS_BEFORE_REMOVALS = 5
# Z'X is kept by adding and subtracting rows; now and then it is summed anew, against rounding.
SWEEPS_BETWEEN_RECOUNTS = 16


@dataclass(frozen=True)
class RandomStart:
    """The authors' random start: z ~ Bernoulli(1/3), small random factors.

    The factors' spread is in units of the prior's standard deviation, so that the start, too,
    scales with the data.
    """

    n_components: int

    def draw(
        self, observations: Observations, factor_std: float, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.uint8], FloatArray, FloatArray]:
        """Assignments, locations and scales, factors in layout order."""
        n, k, d = observations.n_samples, self.n_components, observations.n_features
        assignments = (rng.random((n, k)) < 1.0 / 3.0).astype(np.uint8)
        # A feature that nobody drew would be lost before it was tried.
        for feature in np.flatnonzero(~assignments.any(axis=0)):
            assignments[rng.integers(n), feature] = 1
        location = np.abs(rng.normal(0.0, 0.05, size=(k, d))) * factor_std
        scale = np.maximum(np.abs(rng.normal(0.0, 0.1, size=(k, 1))), 1e-3) * factor_std
        return assignments, observations.to_layout(location), np.repeat(scale, d, axis=1)


@dataclass(frozen=True)
class GivenStart:
    """A start from given assignments and factors, in the user's column order."""

    assignments: npt.NDArray[np.uint8]
    location: FloatArray
    scale: FloatArray

    @property
    def n_components(self) -> int:
        """Features to start with."""
        return int(self.assignments.shape[1])

    def draw(
        self, observations: Observations, factor_std: float, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.uint8], FloatArray, FloatArray]:
        """Assignments, locations and scales, factors in layout order."""
        return (
            np.ascontiguousarray(self.assignments, dtype=np.uint8).copy(),
            observations.to_layout(self.location),
            observations.to_layout(self.scale),
        )


@dataclass
class MEIBPState:
    """All that a sweep needs; factors and statistics are in layout order."""

    observations: Observations
    assignments: npt.NDArray[np.uint8]
    column_hash: npt.NDArray[np.uint64]
    statistics: Statistics
    factors: Factors
    hyperparameters: Hyperparameters
    rng: np.random.Generator
    n_sweeps: int = 0

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


@dataclass(frozen=True)
class MEIBPMethod:
    """The method with its settings.

    Attributes
    ----------
    start : RandomStart or GivenStart
        Where Z and q(A) come from.
    hyperparameters : Hyperparameters
        Known values, or posteriors to begin with.
    prior : {"shifted", "lof"}
        Equivalence class of the IBP prior.
    optimizer : str
        Name of a row optimiser in `ibp.submodular.OPTIMIZERS`.
    row_start : {"current", "empty"}
        Whether a row search starts from the row or, as the authors' does, from nothing.
    block_size : int
        Rows between two refreshes of q(A).
    shuffle : bool
        Whether rows are visited in a new random order in each sweep.
    node_budget : int
        Limit of the exact search, per row.
    """

    start: RandomStart | GivenStart
    hyperparameters: Hyperparameters
    prior: Prior = "shifted"
    optimizer: str = "local_search"
    row_start: Literal["current", "empty"] = "current"
    block_size: int = 1
    shuffle: bool = False
    node_budget: int = 10_000

    def init(self, observations: Observations, rng: np.random.Generator) -> MEIBPState:
        """Draw the start, drop what is empty and update q(A) once."""
        assignments, location, scale = self.start.draw(
            observations, self.hyperparameters.factor_std, rng
        )
        state = MEIBPState(
            observations,
            assignments,
            column_hashes(assignments),
            Statistics.from_codes(observations, assignments),
            Factors.from_parameters(location, scale),
            self.hyperparameters,
            rng,
        )
        drop_empty(state)
        refresh_factors(state)
        return state

    def step(self, state: MEIBPState, should_stop: Callable[[], bool]) -> StepReport:
        """One sweep over the rows, then hyperparameters and removals.

        Removals wait until Z has taken shape. In the first sweeps of a random start most features
        explain little yet and look superfluous: removing them raises the bound at once, and the
        fit ends lower.
        """
        n_changed = self.update_rows(state, should_stop)
        self.settle(state, should_stop, at_rest=n_changed == 0)
        state.n_sweeps += 1
        if state.n_sweeps % SWEEPS_BETWEEN_RECOUNTS == 0:
            state.statistics = Statistics.from_codes(state.observations, state.assignments)
        quiet = n_changed < QUIET * state.assignments.size
        if self.row_start == "current" and (quiet or state.n_sweeps > SWEEPS_BEFORE_REMOVALS):
            n_changed += self.remove_features(state, should_stop)
        return self.report(state, n_changed)

    def report(self, state: MEIBPState, n_changed: int) -> StepReport:
        """The bound and the training likelihood of a state."""
        return StepReport(
            evidence=self.evidence(state).total,
            n_components=state.n_components,
            n_changed=n_changed,
            train_log_likelihood=train_log_likelihood(
                state.observations,
                state.statistics,
                state.factors,
                state.hyperparameters,
                state.assignments,
            ),
        )

    def evidence(self, state: MEIBPState) -> Evidence:
        """The bound and its parts."""
        return evidence(
            state.observations,
            state.statistics,
            state.factors,
            state.hyperparameters,
            self.prior,
            equal_columns(state)[0] if self.prior == "lof" else None,
            state.assignments,
        )

    def update_rows(self, state: MEIBPState, should_stop: Callable[[], bool]) -> int:
        """Optimise the rows one after another; return how many bits changed."""
        n_samples = state.observations.n_samples
        if self.shuffle:
            rows = state.rng.permutation(n_samples)
        else:
            rows = np.arange(n_samples)
        position, n_changed, dirty = 0, 0, False
        chunk = FIRST_CHUNK
        while position < n_samples and state.n_components > 0 and not should_stop():
            started, before = time.perf_counter(), position
            last = min(position + chunk, n_samples)
            position, changed, dirty = self.visit_rows(state, rows, position, last, dirty)
            n_changed += changed
            if not self.randomized:  # whose draws come by the chunk, so there it must not vary
                seconds = (time.perf_counter() - started) / (position - before)
                chunk = max(1, min(2 * chunk, int(SECONDS_BETWEEN_CHECKS / max(seconds, 1e-9))))
        if dirty:
            refresh_factors(state)
        return n_changed

    def visit_rows(
        self,
        state: MEIBPState,
        rows: npt.NDArray[np.int64],
        first: int,
        last: int,
        dirty: bool,
    ) -> tuple[int, int, bool]:
        """Optimise ``rows[first:last]``, or fewer if a feature dies, which is then dropped.

        Returns the position of the next row, the number of bits that changed, and whether q(A)
        is still to be refreshed for that.
        """
        observations, statistics, factors = state.observations, state.statistics, state.factors
        hyperparameters = state.hyperparameters
        shape = (last - first, state.n_components) if self.randomized else (1, 0)
        position, n_changed, dirty = sweep_rows(
            observations.values,
            rows,
            first,
            last,
            self.block_size,
            dirty,
            observations.column_order,
            observations.group_start,
            observations.row_pattern,
            observations.n_patterns,
            state.assignments,
            state.column_hash,
            statistics.gram,
            statistics.cross,
            statistics.counts,
            factors.location,
            factors.scale,
            factors.mean,
            factors.variance,
            hyperparameters.noise_precision.mean,
            hyperparameters.factor_precision.mean,
            hyperparameters.factor_precision.mean_log,
            hyperparameters.alpha.mean_log,
            self.prior == "lof",
            OPTIMIZERS[self.optimizer],
            self.node_budget,
            self.row_start == "empty",
            state.rng.random(shape),
        )
        drop_empty(state)
        return position, n_changed, dirty

    @property
    def randomized(self) -> bool:
        """Whether the row optimiser draws."""
        return self.optimizer == "randomized_double_greedy"

    def remove_features(self, state: MEIBPState, should_stop: Callable[[], bool]) -> int:
        """Remove features as long as that raises the bound; return how many bits that cleared."""
        n_cleared = 0
        bound = self.evidence(state).total
        while state.n_components > 0 and not should_stop():
            gains = removal_gains(
                state.observations,
                state.statistics,
                state.factors,
                state.hyperparameters,
                self.prior,
                equal_columns(state)[1] if self.prior == "lof" else None,
            )
            best = int(np.argmax(gains))
            if not gains[best] > 0:
                break
            n_rows = int(state.statistics.counts[best])
            before = replace(state)
            state.keep(np.arange(state.n_components) != best)
            refresh_factors(state)
            without = self.evidence(state).total
            if not without > bound:  # the gain was no more than rounding
                vars(state).update(vars(before))
                break
            bound = without
            n_cleared += n_rows
        return n_cleared

    def settle(self, state: MEIBPState, should_stop: Callable[[], bool], *, at_rest: bool) -> None:
        """Update learned hyperparameters; with Z at rest, iterate them and q(A) to convergence."""
        learned = state.hyperparameters.learned
        if not learned and (self.row_start == "empty" or not at_rest):
            return
        previous = self.evidence(state).total
        for _ in range(MAX_SETTLING_UPDATES if at_rest else 1):
            if learned:
                state.hyperparameters = update_hyperparameters(
                    state.observations,
                    state.statistics,
                    state.factors,
                    state.hyperparameters,
                    state.assignments,
                )
            refresh_factors(state)
            current = self.evidence(state).total
            close = abs(current - previous) <= SETTLED * state.observations.n_observed
            if close or should_stop():
                break
            previous = current


def refresh_factors(state: MEIBPState) -> None:
    """One update of q(A) from the statistics."""
    factor_kernels.update_factors(
        state.statistics.gram,
        state.statistics.cross,
        state.observations.group_start,
        state.hyperparameters.noise_precision.mean,
        state.hyperparameters.factor_precision.mean,
        state.factors.location,
        state.factors.scale,
        state.factors.mean,
        state.factors.variance,
        np.empty(state.observations.n_features),
        np.empty((state.observations.n_features, state.n_components)),
    )


def drop_empty(state: MEIBPState) -> None:
    """Drop the features that no row has."""
    used = state.statistics.counts > 0
    if not used.all():
        state.keep(used)


def equal_columns(
    state: MEIBPState,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Multiplicities K_h of the distinct columns, and each column's own multiplicity."""
    _, inverse, counts = np.unique(
        state.column_hash, axis=0, return_inverse=True, return_counts=True
    )
    return counts.astype(np.int64), counts[inverse.ravel()].astype(np.int64)
