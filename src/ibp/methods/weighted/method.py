"""Maximisation-expectation for the IBP with weighted codes.

As `ibp.methods.meibp`, but rows say how much of a feature they have (`ibp.model.weights`): a sweep
optimises bits and weights of every row, then how far the weights of each feature spread, then the
hyperparameters. No step lowers the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibp.kernels.weighted_rows import Effort
from ibp.methods.context import Context
from ibp.methods.large_codes import PackedCodes
from ibp.methods.meibp.method import (
    FOUND_AGAIN,
    LARGEST_BLOCK,
    MOST_SECOND_SEARCHES,
    QUIET,
    SWEEPS_BEFORE_REMOVALS,
    MEIBPMethod,
)
from ibp.methods.meibp.moves.base import Move
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.exchange import Exchange
from ibp.methods.meibp.moves.removal import Removal
from ibp.methods.meibp.moves.split import Split
from ibp.methods.meibp.state import MEIBPState
from ibp.methods.weighted.dissolution import Dissolution
from ibp.methods.weighted.merge import WeightedMerge
from ibp.methods.weighted.offset import Offset
from ibp.methods.weighted.rows import update_weighted_block
from ibp.methods.weighted.spread import learn_spreads, share_scale, share_scales
from ibp.methods.weighted.state import WeightedState
from ibp.model import Bound
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]

# Passes over the features of a row in a sweep, and when they end: in standard errors of a weight.
PASSES, TOLERANCE = 5, 0.1
# Every so many sweeps rows are searched thoroughly, and spreads are learned, which the first
# sweeps all do.
SWEEPS_BETWEEN_SEARCHES, SWEEPS_BETWEEN_SPREADS, FIRST_SWEEPS = 3, 2, 4


@dataclass(frozen=True)
class WeightedMethod(MEIBPMethod):
    """The method with its settings."""

    # Reheatings, which lead binary codes out of what they were first seen as, gain nothing here.
    kinds_of_moves: ClassVar[tuple[Move, ...]] = (
        Offset(),
        Birth(),
        Exchange(),
        Removal(),
        WeightedMerge(),
        Dissolution(),
        Split(),
        Offset(sweeps=6),
    )

    def init(self, context: Context) -> WeightedState:
        """Draw the start."""
        start: Any = self.start
        state: WeightedState = start.draw(self, context)
        state.block_size = self.first_block_size(context.observations.n_samples)
        state.n_sweeps = 0
        return state

    def binary(self) -> MEIBPMethod:
        """The same method for binary codes."""
        return MEIBPMethod(**{part.name: getattr(self, part.name) for part in fields(MEIBPMethod)})

    def improve(
        self, context: Context, state: Any, rows: npt.NDArray[np.int64] | None = None
    ) -> int:
        """A sweep over all or some rows, then spreads, hyperparameters and removals."""
        n_changed, _ = self.update_rows(context, state, rows)
        early = state.n_sweeps < FIRST_SWEEPS or rows is not None
        if early or state.n_sweeps % SWEEPS_BETWEEN_SPREADS == 0:
            self.answer(context, state)
        else:
            super().answer(context, state)
        state.n_sweeps += 1
        quiet = n_changed < QUIET * state.assignments.size
        if quiet and self.block_size == "auto" and rows is None:
            state.block_size = min(2 * state.block_size, LARGEST_BLOCK)
        if quiet or state.n_sweeps > SWEEPS_BEFORE_REMOVALS:
            n_changed += self.remove_features(context, state)
        if rows is None:
            state.n_changed = n_changed
        return n_changed

    def answer(self, context: Context, state: Any) -> None:
        """Learn how far weights spread and on which scale they are, then the hyperparameters."""
        learn_spreads(context, state)
        rescaled = share_scale(self, context, state)
        rescaled |= share_scales(state)
        if rescaled and context.observations.dtype != np.float64:
            state.recount(context)  # single precision rounds weights and not their sums
        state.refresh(context)
        super().answer(context, state)

    def update_rows(
        self, context: Context, state: Any, rows: npt.NDArray[np.int64] | None = None
    ) -> tuple[int, int]:
        """Optimise all rows, or some; how many codes changed, and how many rows are proven."""
        order = rows
        if rows is None and self.shuffle:
            order = context.rng.permutation(context.observations.n_samples)
        again = state.searches_again and rows is None
        thorough = state.n_sweeps % SWEEPS_BETWEEN_SEARCHES == SWEEPS_BETWEEN_SEARCHES - 1
        effort = Effort(PASSES, TOLERANCE, thorough or again)
        before = PackedCodes(state.assignments) if again else None
        n_rows = context.observations.n_samples if order is None else order.size
        n_changed, forms = 0, None
        for block in ranges(n_rows, state.block_size):
            if state.n_components == 0 or context.should_stop():
                break
            forms = forms or state.row_forms(context)
            which = block if order is None else order[block]
            changed = update_weighted_block(self, context, state, forms, which, effort)
            n_changed += changed
            state.drop_empty()
            state.refresh(context)
            forms = None
        if before is not None:
            state.searches_again = False
            state.n_found_again = before.rows_that_differ(state.assignments)
        return n_changed, 0

    def bound(
        self, context: Context, state: MEIBPState, entropies: FloatArray | None = None
    ) -> Bound:
        """The bound at a state; ``entropies`` are the state's, if they are needed."""
        assert isinstance(state, WeightedState)
        bound = super().bound(context, state, entropies)
        return replace(bound, divergences=state.weights.divergences())

    def look_again(self, context: Context, state: MEIBPState) -> bool:
        """Let the next sweep search thoroughly, unless the last such one found next to nothing."""
        done = state.n_second_searches > 0
        done = done and state.n_found_again <= FOUND_AGAIN * state.assignments.shape[0]
        if done or state.n_components == 0 or state.n_second_searches == MOST_SECOND_SEARCHES:
            return False
        state.n_second_searches += 1
        state.searches_again = True
        return True
