"""Maximisation-expectation for the IBP (Reed and Ghahramani 2013).

Z is a point, q(A) a truncated Gaussian per entry. A sweep optimises every row of Z against the
evidence lower bound, refreshing q(A) and the intercept as rows change; then the hyperparameters, if
they are learned, are updated, and each feature's removal is tried. No step lowers the bound, except
the cold row search of the paper's authors, which is there to reproduce their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.records import DataArrays, InterceptArrays, LayoutArrays, Schedule
from ibp.methods.base import SweepRecord
from ibp.methods.chunks import in_chunks
from ibp.methods.context import Context
from ibp.methods.large_codes import PackedCodes
from ibp.methods.meibp.blocks import exact_search, update_block
from ibp.methods.meibp.moves.base import Move, worthwhile
from ibp.methods.meibp.moves.schedule import MOVES, Tried, moves_left, take_over, try_next
from ibp.methods.meibp.row_search import FEW_CODES, SECOND_CODES
from ibp.methods.meibp.start import Start, StartingPoint
from ibp.methods.meibp.state import MEIBPState, by_column
from ibp.model import AnyHyperparameters, Bound, Evidence, Factors, Intercept, first_intercept
from ibp.model.ibp_prior import SHIFTED, EquivalenceClasses
from ibp.parallel import ranges
from ibp.submodular.maximize import DOUBLE_GREEDIES

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
# As long as features come and go, a part of it does: with 40, digits end a percent lower and
# further apart, hardly sooner.
MOVING_BUDGET = 100
# Before a fit ends, sweeps search rows a second time. Rows between two refreshes of q(A) in such a
# sweep: few, since every one takes long, and those that follow profit. And the part of all rows
# that it has to change if another is to come; `transform` then has better codes for fewer.
SECOND_BLOCK, FOUND_AGAIN = 512, 0.02
# There are no more such sweeps than this in a fit, and none where rows times squared features are
# more than the other: one would take minutes.
MOST_SECOND_SEARCHES, MOST_SECOND_WORK = 8, 5e8


@dataclass(frozen=True)
class MEIBPMethod:
    """The method with its settings."""

    start: Start  # where Z and q(A) come from
    hyperparameters: AnyHyperparameters  # known values, or posteriors to begin with
    # Spread of the intercept's prior in the units of the observations; None for no intercept.
    intercept_std: float | None = None
    prior: EquivalenceClasses = SHIFTED  # equivalence classes of the IBP prior
    optimizer: str = "local_search"  # a row optimiser of `ibp.submodular.OPTIMIZERS`
    # Whether a row search starts from the row or, as the authors' does, from nothing.
    row_start: Literal["current", "empty"] = "current"
    block_size: int | Literal["auto"] = 1  # rows between two refreshes of q(A)
    shuffle: bool = False  # whether rows are visited in a new random order in each sweep
    node_budget: int = 10_000  # limit of the exact search, per row
    # Most updates of q(A) and hyperparameters that follow a sweep in which Z was at rest.
    settling_updates: int = MAX_SETTLING_UPDATES
    moves: bool = False  # whether features are added, split, merged and exchanged
    limit: int | None = None  # most features that there may be
    tol: float = 1e-3  # the part of what is gained so far that another round of moves is worth

    climbs: ClassVar[bool] = True
    state_kind: ClassVar[type[MEIBPState]] = MEIBPState
    kinds_of_moves: ClassVar[tuple[Move, ...]] = MOVES  # in the order in which they are tried

    def init(self, context: Context) -> MEIBPState:
        """Draw the start, drop what is empty and update q(A) once."""
        point = self.start.draw(self, context)
        return self.begin(context, point)

    def begin(self, context: Context, point: StartingPoint) -> MEIBPState:
        """The state at a starting point."""
        observations = context.observations
        state = self.state_kind.from_parts(
            context,
            point.assignments,
            Factors.from_parameters(point.location, point.scale),
            point.intercept or self.initial_intercept(observations),
            point.hyperparameters or self.hyperparameters,
            point.statistics,
        )
        state.block_size = self.first_block_size(observations.n_samples)
        state.drop_empty()
        if point.intercept is None:  # it goes by the factors of the start, not they by it
            state.update_intercept(context)
        state.update_factors(context, np.zeros(observations.n_features))
        return state

    def initial_intercept(
        self, observations: Observations, known: FloatArray | None = None
    ) -> Intercept:
        """The intercept before the first sweep, at known offsets if there are any."""
        noise_precision = self.hyperparameters.noise_precision.mean
        return first_intercept(observations, self.intercept_std, noise_precision, known)

    def first_block_size(self, n_samples: int) -> int:
        """Rows per block in the first sweep."""
        if self.block_size != "auto":
            return int(self.block_size)
        return int(np.clip(n_samples // BLOCKS_AT_FIRST, SMALLEST_BLOCK, LARGEST_BLOCK))

    def largest_block(self, context: Context) -> int:
        """Rows per block in sweeps that change little."""
        return LARGEST_BLOCK

    def step(self, context: Context, state: MEIBPState) -> SweepRecord:
        """One sweep, as `improve` makes it; then a move if there was little to improve.

        Between moves that fail, a sweep that would change nothing is left out. When none is left,
        sweeps go on with their full budget until they have come to rest.
        """
        at_rest = self.moving(state) and state.n_changed == 0
        n_changed = 0 if at_rest else self.improve(context, state)
        moved = Tried()
        if self.moving(state):
            evidence = self.evidence(context, state).total
            rise, state.last_evidence = evidence - state.last_evidence, evidence
            calm = n_changed == 0 or rise < worthwhile(self, context, state)
            if calm and not context.should_stop():
                moved = try_next(self, context, state)
                state.last_evidence += moved.gain
        record = self.report(context, state, n_changed)
        if not self.moves:
            return record
        open_moves = self.moving(state) or bool(moved.name) or state.n_changed < 0
        return replace(record, unfinished=open_moves, values=moved.values())

    def unite(self, context: Context, state: MEIBPState, other: MEIBPState) -> SweepRecord | None:
        """Take over features of another run, as long as that raises the bound."""
        if not self.moves:
            return None
        united = take_over(self, context, state, other)
        if not united.name:
            return None
        # None of what has changed was searched a second time.
        state.second_codes, state.n_second_searches = 0, 0
        while not context.should_stop() and self.look_again(context, state):
            self.improve(context, state)
        return replace(self.report(context, state), values=united.values())

    def improve(
        self, context: Context, state: MEIBPState, rows: npt.NDArray[np.int64] | None = None
    ) -> int:
        """A sweep over all or some rows, then hyperparameters and removals; how many bits changed.

        Removals wait until Z has taken shape. In the first sweeps of a random start most features
        explain little yet and look superfluous: removing them raises the bound at once, and the
        fit ends lower.
        """
        n_changed, n_proven = self.update_rows(context, state, rows)
        if (
            n_changed == 0
            and rows is None
            and self.give_full_budgets(state)
            and not context.should_stop()
        ):
            n_changed, n_proven = self.update_rows(context, state)
        self.settle(context, state, at_rest=n_changed == 0)
        state.n_sweeps += 1
        if state.n_sweeps % SWEEPS_BETWEEN_RECOUNTS == 0:
            state.recount(context)
        quiet = n_changed < QUIET * state.assignments.size
        if quiet and self.block_size == "auto" and rows is None:
            state.block_size = min(2 * state.block_size, self.largest_block(context))
        if self.row_start == "current" and (quiet or state.n_sweeps > SWEEPS_BEFORE_REMOVALS):
            n_changed += self.remove_features(context, state)
        if rows is None:
            state.n_changed, state.n_proven = n_changed, n_proven
        return n_changed

    def report(self, context: Context, state: MEIBPState, n_changed: int = 0) -> SweepRecord:
        """The bound and the training likelihood of a state, in the data's units."""
        bound = self.bound(context, state, state.entropies(context))
        return SweepRecord(
            evidence=bound.evidence_in_data_units().total,
            n_components=state.n_components,
            n_changed=n_changed,
            proven=state.n_proven / max(context.observations.n_samples, 1),
            train_log_likelihood=bound.train_log_likelihood()
            - context.observations.log_units / max(context.observations.n_observed, 1),
        )

    def evidence(self, context: Context, state: MEIBPState) -> Evidence:
        """The bound and its parts, in the units of the observations."""
        return self.bound(context, state, state.entropies(context)).evidence()

    def bound(
        self, context: Context, state: MEIBPState, entropies: FloatArray | None = None
    ) -> Bound:
        """The bound at a state; ``entropies`` are the state's, if they are needed."""
        return Bound(
            context.observations,
            state.statistics,
            state.factors,
            state.hyperparameters,
            self.prior,
            state.intercept,
            state.codes,
            state.column_hash,
            entropies,
        )

    def update_rows(
        self, context: Context, state: MEIBPState, rows: npt.NDArray[np.int64] | None = None
    ) -> tuple[int, int]:
        """Optimise all rows, or some; how many bits changed, how many rows are proven optimal."""
        if state.searches_again and rows is None:
            return self.search_again(context, state)
        order = rows
        if rows is None and self.shuffle:
            order = context.rng.permutation(context.observations.n_samples)
        in_sequence = state.block_size == 1 or self.row_start == "empty"
        if context.observations.sparse or rows is not None or not in_sequence:
            return self.sweep_in_blocks(context, state, order)
        return self.sweep_in_sequence(context, state, order)

    def sweep_in_blocks(
        self,
        context: Context,
        state: MEIBPState,
        order: npt.NDArray[np.int64] | None,
        block_size: int | None = None,
    ) -> tuple[int, int]:
        """A block of rows at a time, and q(A) refreshed after each that changed anything."""
        n_changed, n_proven = 0, 0
        forms = None
        n_rows = context.observations.n_samples if order is None else order.size
        for block in ranges(n_rows, block_size or state.block_size):
            if state.n_components == 0 or context.should_stop():
                break
            forms = forms or state.row_forms(context)
            rows = block if order is None else order[block]
            changed, proven = update_block(self, context, state, forms, rows)
            n_changed += changed
            n_proven += proven
            if changed:
                state.drop_empty()
                state.refresh(context)
                forms = None
        return n_changed, n_proven

    def sweep_in_sequence(
        self, context: Context, state: MEIBPState, order: npt.NDArray[np.int64] | None
    ) -> tuple[int, int]:
        """Rows one after another against the exact objective, in compiled code."""
        n_samples = context.observations.n_samples
        rows = np.arange(n_samples) if order is None else order
        n_changed, n_proven, dirty = 0, 0, False

        def visit(first: int, last: int) -> int:
            nonlocal n_changed, n_proven, dirty
            reached, changed, proven, dirty = self.visit_rows(
                context, state, rows, first, last, dirty
            )
            n_changed += changed
            n_proven += proven
            return reached

        in_chunks(
            n_samples,
            visit,
            lambda: state.n_components == 0 or context.should_stop(),
            by_the_clock=not self.randomized,  # whose draws come by the chunk
        )
        if dirty:
            state.refresh(context)
        return n_changed, n_proven

    def visit_rows(
        self,
        context: Context,
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

        observations, layout = context.observations, context.observations.layout
        noise_precision = by_column(
            state.hyperparameters.noise_precision.mean, observations.n_features
        )
        position, n_changed, n_proven, dirty = sweep_rows(
            Schedule(rows, first, last, state.block_size, dirty),
            DataArrays(
                observations.source.rows(consecutive(rows[first:last])),
                observations.centre,
                observations.unit,
                observations.column_sums,
                noise_precision,
            ),
            LayoutArrays(
                layout.column_order,
                layout.group_start,
                observations.row_pattern,
                observations.summary.n_patterns,
            ),
            InterceptArrays(state.intercept.mean, state.intercept.response(noise_precision)),
            state.assignments,
            state.sums(),
            state.row_context(),
            exact_search(self, state),
            self.uniforms(context.rng, last - first, state.n_components),
        )
        state.drop_empty()
        return position, n_changed, n_proven, dirty

    @property
    def randomized(self) -> bool:
        """Whether the row optimiser draws."""
        return self.optimizer == "randomized_double_greedy"

    def uniforms(
        self, rng: np.random.Generator, n_rows: int, n_components: int
    ) -> FloatArray | None:
        """Random numbers for some rows.

        For the double greedy that draws none a single empty row, None for the other optimisers.
        """
        if self.optimizer not in DOUBLE_GREEDIES:
            return None
        return rng.random((n_rows, n_components) if self.randomized else (1, 0))

    def budget(self, state: MEIBPState) -> int:
        """Nodes that the exact search may visit for a row."""
        # Rows solved to the last nat against factors that will soon have changed are time lost.
        rounds, full = state.n_sweeps - SWEEPS_WITHOUT_EXACT, self.full_budget(state)
        if state.full_budget or rounds > FULL_BUDGET_ROUNDS:
            return full
        return 0 if rounds < 0 else min(full, FIRST_BUDGET * 4**rounds)

    def full_budget(self, state: MEIBPState) -> int:
        """The most that the budget grows to, less as long as there are moves to try."""
        return min(self.node_budget, MOVING_BUDGET) if self.moving(state) else self.node_budget

    def moving(self, state: MEIBPState) -> bool:
        """Whether there are moves to try."""
        return self.moves and moves_left(self, state)

    def give_full_budgets(self, state: MEIBPState) -> bool:
        """Give every row its full budget from now on; whether any had less so far.

        Z is not at rest as long as a search with the full budget might move it.
        """
        held_back = self.budget(state) < self.full_budget(state)
        held_back = held_back or state.has_failures
        state.full_budget = True
        state.forget_failures()
        return held_back and self.optimizer == "exact"

    def look_again(self, context: Context, state: MEIBPState) -> bool:
        """Let the next sweep search rows a second time, unless the last one found next to nothing.

        Where the exact search gives up, sweeps come to rest though there are better codes, which
        `transform` would find. A search with few codes comes first, then the one of `transform`.
        """
        n_rows, n_components = state.assignments.shape
        proves = self.optimizer == "exact" and self.row_start == "current"
        if not proves or n_components == 0 or state.n_proven == n_rows:
            return False
        work = (n_rows - state.n_proven) * n_components**2
        if work > MOST_SECOND_WORK or state.n_second_searches == MOST_SECOND_SEARCHES:
            return False
        state.n_second_searches += 1
        if state.n_found_again <= FOUND_AGAIN * n_rows:
            if state.second_codes == SECOND_CODES:
                return False
            state.second_codes = SECOND_CODES if state.second_codes else FEW_CODES
        state.searches_again = True
        self.give_full_budgets(state)
        return True

    def search_again(self, context: Context, state: MEIBPState) -> tuple[int, int]:
        """A sweep that searches rows a second time; what `update_rows` returns."""
        before = PackedCodes(state.assignments)
        answer = self.sweep_in_blocks(context, state, None, SECOND_BLOCK)
        state.searches_again = False
        state.n_found_again = before.rows_that_differ(state.assignments)
        return answer

    def remove_features(self, context: Context, state: MEIBPState) -> int:
        """Remove features as long as that raises the bound; return how many bits that cleared.

        Several at a time if the noise answers; should that not raise it, the best alone.
        """
        n_cleared = 0
        if state.n_components == 0:
            return 0
        bound = self.bound(context, state, state.entropies(context))
        highest: float | None = None
        one_by_one = not state.hyperparameters.by_column
        while state.n_components > 0 and not context.should_stop():
            gains = bound.removal_gains()
            if not gains.max() > 0:
                break
            if highest is None:
                highest = bound.evidence().total
            leaving = np.argmax(gains, keepdims=True) if one_by_one else bound.superfluous(gains)
            n_rows = int(state.statistics.counts[leaving].sum())
            before = replace(state)
            state.keep(~np.isin(np.arange(state.n_components), leaving))
            state.refresh(context)
            if state.hyperparameters.by_column:  # whose answer the gain has in it
                self.learn(context, state)
                state.refresh(context)
            changed = self.bound(context, state, state.entropies(context))
            without = changed.evidence().total
            if not without > highest:
                vars(state).update(vars(before))
                if leaving.size == 1:  # the gain was no more than rounding
                    break
                one_by_one = True
                continue
            bound, highest = changed, without
            n_cleared += n_rows
        return n_cleared

    def settle(self, context: Context, state: MEIBPState, *, at_rest: bool) -> None:
        """Update learned hyperparameters; with Z at rest, iterate them and q(A) to convergence."""
        if not at_rest:
            if state.hyperparameters.learned:
                self.answer(context, state)
            return
        if self.row_start == "empty" and not state.hyperparameters.learned:
            return
        previous = self.evidence(context, state).total
        for _ in range(self.settling_updates):
            self.answer(context, state)
            current = self.evidence(context, state).total
            close = abs(current - previous) <= SETTLED * context.observations.n_observed
            if close or context.should_stop():
                break
            previous = current

    def answer(self, context: Context, state: MEIBPState) -> None:
        """Let hyperparameters and factors answer to codes that have changed."""
        self.learn(context, state)
        state.refresh(context)

    def learn(self, context: Context, state: MEIBPState) -> None:
        """Update the hyperparameters that are learned."""
        if state.hyperparameters.learned:
            state.hyperparameters = self.bound(context, state).updated_hyperparameters()


def consecutive(rows: npt.NDArray[np.int64]) -> Any:
    """Rows as a slice if they follow one another, so that they need not be copied."""
    in_order = slice(int(rows[0]), int(rows[0]) + rows.size)
    return in_order if (rows == np.arange(in_order.start, in_order.stop)).all() else rows
