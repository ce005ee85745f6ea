"""MEIBP over rows that lie in chunks with workers.

All is as in memory but for the pass over the rows, which is made in rounds: in each, every chunk
optimises a part of its rows, and q(A) is refreshed when the sums of all have come back. With one
refresh a sweep features would be lost; so there are several rounds.

The start is sought on a sample of the rows, in the main process and with all moves if there are
to be any; what was found is then assigned to all rows. Moves that follow look at a sample, too, and
are judged by the bound of all rows. Those that would have to look at every row one by one, splits
and walks of reheatings, are made on the sample alone.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ibp.data.chunks import ChunkedSummary, observed_parts
from ibp.methods.context import Context
from ibp.methods.meibp.automatic_start import (
    MOST_TWO_VALUED,
    ROWS_PER_FEATURE,
    AlternatingStart,
    SampledStart,
    Trial,
    frozen_at,
    moved_to,
)
from ibp.methods.meibp.distributed.codes import RemoteCodes
from ibp.methods.meibp.distributed.parts import assigned_part
from ibp.methods.meibp.distributed.rounds import Changed, Round, update_round
from ibp.methods.meibp.distributed.state import DistributedState
from ibp.methods.meibp.method import BLOCKS_AT_FIRST, SMALLEST_BLOCK, MEIBPMethod
from ibp.methods.meibp.moves.base import Move
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.exchange import Exchange
from ibp.methods.meibp.moves.merge import Merge
from ibp.methods.meibp.moves.removal import Removal
from ibp.methods.meibp.moves.turn import Turn
from ibp.methods.meibp.start import StartingPoint
from ibp.methods.meibp.state import MEIBPState

# Fewer rounds a sweep has only if the user wants larger blocks, and more only if smaller ones.
FEWEST_ROUNDS = 4
# Rounds of a sweep that searches rows a second time.
ROUNDS_SEARCHING_AGAIN = 16
# Steps on the sample at most, each of them a sweep, a move or both.
STEPS_ON_SAMPLE = 500
# Codes are copied to the main process after so many sweeps, or when so many bytes were sent.
SWEEPS_BETWEEN_COPIES, LONGEST_LINEAGE = 16, 1 << 28


@dataclass(frozen=True)
class DistributedMethod(MEIBPMethod):
    """The method with its settings."""

    kinds_of_moves: ClassVar[tuple[Move, ...]] = (Birth(), Exchange(), Turn(), Removal(), Merge())
    state_kind: ClassVar[type[MEIBPState]] = DistributedState

    def init(self, context: Context) -> MEIBPState:
        """Draw the start, drop what is empty and update q(A) once."""
        if isinstance(self.start, SampledStart | AlternatingStart):
            return self.begin(context, self.sampled_point(self.start, context))
        return self.begin(context, self.start.draw(self, context))

    def in_memory(self) -> MEIBPMethod:
        """The same settings for rows in memory."""
        return MEIBPMethod(**{part.name: getattr(self, part.name) for part in fields(MEIBPMethod)})

    def sampled_point(
        self, start: SampledStart | AlternatingStart, context: Context
    ) -> StartingPoint:
        """What a sample of the rows shows, assigned to all rows where they are."""
        observations, here = context.observations, context
        if observations.n_samples <= ROWS_PER_FEATURE * MOST_TWO_VALUED:
            rows = np.arange(observations.n_samples)
            here = replace(context, observations=observations.take(rows))
        trial = start.best_trial(self.in_memory(), here)
        state, sample = explored(trial), trial.context.observations
        if trial.has_all_rows:
            return moved_to(observations, sample, state, state.assignments)
        summary = observations.summary
        assert isinstance(summary, ChunkedSummary)
        workers, parts = summary.rows.workers, observed_parts(observations)
        counts = state.statistics.counts
        frozen = workers.hold(frozen_at(self, sample, state, counts, sample.n_samples))
        coded = [workers.submit(assigned_part, frozen, part) for part in parts]
        codes = RemoteCodes(summary.rows, parts, coded, state.n_components)
        return moved_to(observations, sample, state, codes)

    def first_block_size(self, n_samples: int) -> int:
        """Rows per round in the first sweep."""
        if self.block_size != "auto":
            return int(self.block_size)
        return max(n_samples // BLOCKS_AT_FIRST, SMALLEST_BLOCK)

    def largest_block(self, context: Context) -> int:
        """Rows per round in sweeps that change little."""
        return -(-context.observations.n_samples // FEWEST_ROUNDS)

    def improve(
        self, context: Context, state: MEIBPState, rows: npt.NDArray[np.int64] | None = None
    ) -> int:
        """A sweep over all rows, then hyperparameters and removals; how many bits changed."""
        n_changed = super().improve(context, state, rows)
        assert isinstance(state, DistributedState)
        if state.n_sweeps % SWEEPS_BETWEEN_COPIES == 0 or state.lineage > LONGEST_LINEAGE:
            state.anchor()
        return n_changed

    def update_rows(
        self, context: Context, state: MEIBPState, rows: npt.NDArray[np.int64] | None = None
    ) -> tuple[int, int]:
        """Optimise all rows; how many bits changed, and how many rows are proven optimal."""
        if state.searches_again:
            return self.search_again(context, state)
        n_rounds = -(-context.observations.n_samples // state.block_size)
        changed = self.sweep_in_rounds(context, state, n_rounds)
        return changed.n_bits, changed.n_proven

    def search_again(self, context: Context, state: MEIBPState) -> tuple[int, int]:
        """A sweep that searches rows a second time; what `update_rows` returns."""
        changed = self.sweep_in_rounds(context, state, ROUNDS_SEARCHING_AGAIN)
        state.searches_again, state.n_found_again = False, changed.n_rows
        return changed.n_bits, changed.n_proven

    def sweep_in_rounds(self, context: Context, state: MEIBPState, n_rounds: int) -> Changed:
        """A part of every chunk at a time, and q(A) refreshed after each that changed anything."""
        assert isinstance(state, DistributedState)
        total = Changed()
        state.n_failed = 0
        order = context.rng.permutation(n_rounds) if self.shuffle else np.arange(n_rounds)
        for number in order:
            if state.n_components == 0 or context.should_stop():
                break
            changed = update_round(self, context, state, Round(int(number), n_rounds))
            total = total.plus(changed)
            if changed.n_bits:
                state.drop_empty()
                state.refresh(context)
        return total


def explored(trial: Trial) -> MEIBPState:
    """The best state of a trial, gone on with by the moves of a fit in memory if there are any."""
    state = trial.best
    assert state is not None
    if trial.method.moves:
        for _ in range(STEPS_ON_SAMPLE):
            if trial.context.should_stop():
                break
            if not trial.method.step(trial.context, state).unfinished:
                break
    return state
