"""Maximisation-expectation for the IBP (Reed and Ghahramani 2013).

Z is a point, q(A) a truncated Gaussian per entry. A sweep optimises every row of Z against the
evidence lower bound, refreshing q(A) and the intercept as rows change; then the hyperparameters, if
they are learned, are updated, and each feature's removal is tried. No step lowers the bound, except
the cold row search of the paper's authors, which is there to reproduce their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.methods.base import StepReport
from ibp.methods.chunks import in_chunks
from ibp.methods.meibp.blocks import search_settings, update_block
from ibp.methods.meibp.start import Start, Task
from ibp.methods.meibp.state import MEIBPState
from ibp.model import (
    Factors,
    Hyperparameters,
    Intercept,
    LearnedIntercept,
    NoIntercept,
    evidence,
    removal_gains,
    train_log_likelihood,
    update_hyperparameters,
)
from ibp.model.evidence import Evidence
from ibp.model.ibp_prior import Prior
from ibp.parallel import Workers, ranges

FloatArray = npt.NDArray[np.float64]

# With Z at rest, q(A) and the hyperparameters are iterated until the bound moves less than this
# per observed entry.
SETTLED = 1e-10
MAX_SETTLING_UPDATES = 100
# Removals are tried once a sweep changes less than this fraction of Z, or after these many sweeps.
QUIET = 0.01
SWEEPS_BEFORE_REMOVALS = 5
# Z'X is kept by adding and subtracting rows; now and then it is summed anew, against rounding.
SWEEPS_BETWEEN_RECOUNTS = 16
# Automatic blocks: many refreshes while Z takes shape, few once it has.
SMALLEST_BLOCK, LARGEST_BLOCK = 32, 8192
BLOCKS_AT_FIRST = 16
# The exact search's budget grows from sweep to sweep.
SWEEPS_WITHOUT_EXACT, FIRST_BUDGET, FULL_BUDGET_ROUNDS = 2, 16, 10


@dataclass(frozen=True)
class MEIBPMethod:
    """The method with its settings.

    Attributes
    ----------
    start : Start
        Where Z and q(A) come from.
    hyperparameters : Hyperparameters
        Known values, or posteriors to begin with.
    intercept_std : float or None
        Spread of the intercept's prior; None for no intercept.
    prior : {"shifted", "lof"}
        Equivalence class of the IBP prior.
    optimizer : str
        Name of a row optimiser in `ibp.submodular.OPTIMIZERS`.
    row_start : {"current", "empty"}
        Whether a row search starts from the row or, as the authors' does, from nothing.
    block_size : int or "auto"
        Rows between two refreshes of q(A).
    shuffle : bool
        Whether rows are visited in a new random order in each sweep.
    node_budget : int
        Limit of the exact search, per row.
    n_jobs : int
        Threads.
    settling_updates : int
        Most updates of q(A) and hyperparameters that follow a sweep in which Z was at rest.
    """

    start: Start
    hyperparameters: Hyperparameters
    intercept_std: float | None = None
    prior: Prior = "shifted"
    optimizer: str = "local_search"
    row_start: Literal["current", "empty"] = "current"
    block_size: int | Literal["auto"] = 1
    shuffle: bool = False
    node_budget: int = 10_000
    n_jobs: int = 1
    settling_updates: int = MAX_SETTLING_UPDATES

    climbs: ClassVar[bool] = True

    def init(
        self,
        observations: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> MEIBPState:
        """Draw the start, drop what is empty and update q(A) once."""
        workers = Workers(self.n_jobs)
        point = self.start.draw(Task(self, observations, rng, workers, should_stop))
        state = MEIBPState.from_parts(
            observations,
            point.assignments,
            Factors.from_parameters(point.location, point.scale),
            point.intercept or self.initial_intercept(observations),
            point.hyperparameters or self.hyperparameters,
            rng,
            workers,
        )
        state.block_size = self.first_block_size(observations.n_samples)
        state.drop_empty()
        if point.intercept is None:  # it goes by the factors of the start, not they by it
            state.update_intercept()
        state.update_factors(np.zeros(observations.n_features))
        return state

    def initial_intercept(self, observations: Observations) -> Intercept:
        """The intercept before anything is known."""
        if self.intercept_std is None:
            return NoIntercept.of_width(observations.n_features)
        return LearnedIntercept.at_centre(
            observations, self.intercept_std, self.hyperparameters.noise_precision.mean
        )

    def first_block_size(self, n_samples: int) -> int:
        """Rows per block in the first sweep."""
        if self.block_size != "auto":
            return int(self.block_size)
        return int(np.clip(n_samples // BLOCKS_AT_FIRST, SMALLEST_BLOCK, LARGEST_BLOCK))

    def step(self, state: MEIBPState, should_stop: Callable[[], bool]) -> StepReport:
        """One sweep over the rows, then hyperparameters and removals.

        Removals wait until Z has taken shape. In the first sweeps of a random start most features
        explain little yet and look superfluous: removing them raises the bound at once, and the
        fit ends lower.
        """
        n_changed, n_proven = self.update_rows(state, should_stop)
        if n_changed == 0 and self.search_in_earnest(state) and not should_stop():
            n_changed, n_proven = self.update_rows(state, should_stop)
        self.settle(state, should_stop, at_rest=n_changed == 0)
        state.n_sweeps += 1
        if state.n_sweeps % SWEEPS_BETWEEN_RECOUNTS == 0:
            state.recount()
        quiet = n_changed < QUIET * state.assignments.size
        if quiet and self.block_size == "auto":
            state.block_size = min(2 * state.block_size, LARGEST_BLOCK)
        if self.row_start == "current" and (quiet or state.n_sweeps > SWEEPS_BEFORE_REMOVALS):
            n_changed += self.remove_features(state, should_stop)
        return self.report(state, n_changed, n_proven)

    def report(self, state: MEIBPState, n_changed: int = 0, n_proven: int = 0) -> StepReport:
        """The bound and the training likelihood of a state."""
        return StepReport(
            evidence=self.evidence(state).total,
            n_components=state.n_components,
            n_changed=n_changed,
            proven=n_proven / max(state.observations.n_samples, 1),
            train_log_likelihood=train_log_likelihood(
                state.observations,
                state.statistics,
                state.factors,
                state.hyperparameters,
                state.assignments,
                state.intercept,
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
            state.equal_columns()[0] if self.prior == "lof" else None,
            state.assignments,
            state.intercept,
            state.entropies(),
        )

    def update_rows(self, state: MEIBPState, should_stop: Callable[[], bool]) -> tuple[int, int]:
        """Optimise all rows; return how many bits changed and how many rows are proven optimal."""
        order = None
        if self.shuffle:
            order = state.rng.permutation(state.observations.n_samples)
        if state.observations.sparse or not (state.block_size == 1 or self.row_start == "empty"):
            return self.sweep_in_blocks(state, order, should_stop)
        return self.sweep_in_sequence(state, order, should_stop)

    def sweep_in_blocks(
        self,
        state: MEIBPState,
        order: npt.NDArray[np.int64] | None,
        should_stop: Callable[[], bool],
    ) -> tuple[int, int]:
        """A block of rows at a time, and q(A) refreshed after each that changed anything."""
        n_changed, n_proven = 0, 0
        forms = None
        for block in ranges(state.observations.n_samples, state.block_size):
            if state.n_components == 0 or should_stop():
                break
            forms = forms or state.row_forms()
            rows = block if order is None else order[block]
            changed, proven = update_block(self, state, forms, rows)
            n_changed += changed
            n_proven += proven
            if changed:
                state.drop_empty()
                state.refresh()
                forms = None
        return n_changed, n_proven

    def sweep_in_sequence(
        self,
        state: MEIBPState,
        order: npt.NDArray[np.int64] | None,
        should_stop: Callable[[], bool],
    ) -> tuple[int, int]:
        """Rows one after another against the exact objective, in compiled code."""
        n_samples = state.observations.n_samples
        rows = np.arange(n_samples) if order is None else order
        n_changed, n_proven, dirty = 0, 0, False

        def visit(first: int, last: int) -> int:
            nonlocal n_changed, n_proven, dirty
            reached, changed, proven, dirty = self.visit_rows(state, rows, first, last, dirty)
            n_changed += changed
            n_proven += proven
            return reached

        in_chunks(
            n_samples,
            visit,
            lambda: state.n_components == 0 or should_stop(),
            by_the_clock=not self.randomized,  # whose draws come by the chunk
        )
        if dirty:
            state.refresh()
        return n_changed, n_proven

    def visit_rows(
        self,
        state: MEIBPState,
        rows: npt.NDArray[np.int64],
        first: int,
        last: int,
        dirty: bool,
    ) -> tuple[int, int, int, bool]:
        """Optimise ``rows[first:last]``, or fewer if a feature dies, which is then dropped.

        Returns the position of the next row, the number of bits that changed, that of rows proven
        optimal, and whether q(A) is still to be refreshed for the changes.
        """
        from ibp.kernels.sequential_sweep import sweep_rows  # compiled if needed only

        observations, statistics = state.observations, state.statistics
        hyperparameters = state.hyperparameters
        position, n_changed, n_proven, dirty = sweep_rows(
            observations.values,
            rows,
            first,
            last,
            state.block_size,
            dirty,
            observations.column_order,
            observations.group_start,
            observations.row_pattern,
            observations.summary.n_patterns,
            observations.centre,
            observations.column_sums,
            state.intercept.response(hyperparameters.noise_precision.mean),
            state.intercept.mean,
            state.assignments,
            state.column_hash,
            statistics.gram,
            statistics.totals,
            statistics.cross,
            statistics.counts,
            state.factor_arrays(),
            hyperparameters.noise_precision.mean,
            state.prior_terms(),
            search_settings(self, state),
            self.uniforms(state, last - first),
        )
        state.drop_empty()
        return position, n_changed, n_proven, dirty

    @property
    def randomized(self) -> bool:
        """Whether the row optimiser draws."""
        return self.optimizer == "randomized_double_greedy"

    def uniforms(self, state: MEIBPState, n_rows: int) -> FloatArray:
        """Random numbers for some rows; a single empty row if none are needed."""
        return state.rng.random((n_rows, state.n_components) if self.randomized else (1, 0))

    def budget(self, state: MEIBPState) -> int:
        """Nodes that the exact search may visit for a row."""
        # Rows solved to the last nat against factors that will soon have changed are time lost.
        rounds = state.n_sweeps - SWEEPS_WITHOUT_EXACT
        if state.in_earnest or rounds > FULL_BUDGET_ROUNDS:
            return self.node_budget
        return 0 if rounds < 0 else min(self.node_budget, FIRST_BUDGET * 4**rounds)

    def search_in_earnest(self, state: MEIBPState) -> bool:
        """Give every row its full budget from now on; whether any had less so far.

        Z is not at rest as long as a search in earnest might move it.
        """
        held_back = self.budget(state) < self.node_budget or bool(state.fatigue.any())
        state.in_earnest = True
        state.fatigue[:] = 0
        return held_back and self.optimizer == "exact"

    def remove_features(self, state: MEIBPState, should_stop: Callable[[], bool]) -> int:
        """Remove features as long as that raises the bound; return how many bits that cleared."""
        n_cleared = 0
        bound: float | None = None
        while state.n_components > 0 and not should_stop():
            gains = removal_gains(
                state.observations,
                state.statistics,
                state.factors,
                state.hyperparameters,
                self.prior,
                state.equal_columns()[1] if self.prior == "lof" else None,
                state.intercept,
                state.entropies(),
            )
            best = int(np.argmax(gains))
            if not gains[best] > 0:
                break
            if bound is None:
                bound = self.evidence(state).total
            n_rows = int(state.statistics.counts[best])
            before = replace(state)
            state.keep(np.arange(state.n_components) != best)
            state.refresh()
            without = self.evidence(state).total
            if not without > bound:  # the gain was no more than rounding
                vars(state).update(vars(before))
                break
            bound = without
            n_cleared += n_rows
        return n_cleared

    def settle(self, state: MEIBPState, should_stop: Callable[[], bool], *, at_rest: bool) -> None:
        """Update learned hyperparameters; with Z at rest, iterate them and q(A) to convergence."""
        if not at_rest:
            if state.hyperparameters.learned:
                self.learn(state)
                state.refresh()
            return
        if self.row_start == "empty" and not state.hyperparameters.learned:
            return
        previous = self.evidence(state).total
        for _ in range(self.settling_updates):
            self.learn(state)
            state.refresh()
            current = self.evidence(state).total
            close = abs(current - previous) <= SETTLED * state.observations.n_observed
            if close or should_stop():
                break
            previous = current

    def learn(self, state: MEIBPState) -> None:
        """Update the hyperparameters that are learned."""
        if state.hyperparameters.learned:
            state.hyperparameters = update_hyperparameters(
                state.observations,
                state.statistics,
                state.factors,
                state.hyperparameters,
                state.assignments,
                state.intercept,
            )
