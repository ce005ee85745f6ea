"""A round of a sweep: what the workers need goes out, they improve rows, sums of changes come back.

All chunks optimise a part of their rows against the same tangent of the prior's count term, as the
pieces of a block do (`ibp.methods.meibp.blocks`), so that the bound cannot fall unless a feature
dies. Should it fall nevertheless, half of the chunks are tried without the others, and so on; what
one chunk alone would lower is visited row by row. Rows that have a feature for themselves are
visited one by one where they are, one chunk after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.kernels.block_rows import SMALLEST_BUDGET
from ibp.methods.context import Context
from ibp.methods.meibp.blocks import RowSettings, apply_change, exact_search, would_fall
from ibp.methods.meibp.distributed.parts import (
    RoundSums,
    RoundTask,
    VisitTask,
    add_sums,
    improve_part,
    share_of,
    sums_of,
    visit_part,
)
from ibp.methods.meibp.distributed.state import DistributedState
from ibp.model.ibp_prior import tangent_log_odds
from ibp.submodular import OPTIMIZERS
from ibp.submodular.maximize import DOUBLE_GREEDIES
from ibp.submodular.records import Search
from ibp.workers import Handle, add_up

IntArray = npt.NDArray[np.int64]


class Round(NamedTuple):
    """Which round of a sweep this is."""

    number: int
    n_rounds: int


class Changed(NamedTuple):
    """Bits and rows that changed, and rows that are proven optimal."""

    n_bits: int = 0
    n_rows: int = 0
    n_proven: int = 0

    def plus(self, other: Changed | RoundSums) -> Changed:
        """Both together."""
        return Changed(
            self.n_bits + other.n_bits,
            self.n_rows + other.n_rows,
            self.n_proven + other.n_proven,
        )


def update_round(
    settings: RowSettings, context: Context, state: DistributedState, which: Round
) -> Changed:
    """Optimise a part of the rows of every chunk; q(A) stays."""
    chunks = np.arange(state.remote.rows.n_chunks)
    changed, owners = update_chunks(settings, context, state, which, chunks)
    if owners.size:
        chunk, place = state.remote.rows.places(owners)
        for own in np.unique(chunk):
            sums = visit_chunk(settings, context, state, int(own), place[chunk == own])
            changed = changed.plus(sums)
    return changed


def update_chunks(
    settings: RowSettings,
    context: Context,
    state: DistributedState,
    which: Round,
    chunks: IntArray,
) -> tuple[Changed, IntArray]:
    """Optimise a part of the rows of some chunks; what changed, and rows still to be visited."""
    remote, workers = state.remote, state.remote.workers
    task = round_task(settings, context, state)
    held = workers.hold(task)
    state.lineage += task.mean.nbytes + task.variance.nbytes
    parts, present = ([whole[c] for c in chunks] for whole in (remote.parts, remote.coded))
    same = ([value] * chunks.size for value in which)
    coded = workers.submit_each(improve_part, [held] * chunks.size, parts, present, *same)
    each = workers.submit_each(sums_of, coded)
    (sums,) = workers.collect([add_up(workers, add_sums, each)])
    column_hash = state.column_hash ^ sums.flips
    if would_fall(settings, state, sums.step, column_hash, sums.gain, task.log_odds):
        if chunks.size > 1:
            changed, owners = Changed(), np.zeros(0, dtype=np.int64)
            for half in np.array_split(chunks, 2):
                more, left = update_chunks(settings, context, state, which, half)
                changed, owners = changed.plus(more), np.append(owners, left)
            return changed, owners
        rows = share_of(int(np.diff(remote.rows.starts)[chunks[0]]), *which)
        alone = visit_chunk(
            settings, context, state, int(chunks[0]), np.arange(rows.start, rows.stop)
        )
        return Changed().plus(alone), np.zeros(0, dtype=np.int64)
    put_in_place(context, state, chunks, coded, sums)
    return Changed().plus(sums), np.array(sums.owners, dtype=np.int64)


def put_in_place(
    context: Context,
    state: DistributedState,
    chunks: IntArray,
    coded: list[Handle],
    sums: RoundSums,
) -> None:
    """Let chunks have new codes, and bring up to date what is known of all."""
    present = list(state.remote.coded)
    for chunk, new in zip(chunks, coded, strict=True):
        present[chunk] = new
    state.remote = state.remote.with_coded(present)
    state.column_hash = state.column_hash ^ sums.flips
    state.statistics.counts += sums.step
    state.n_failed += sums.n_failed
    if sums.n_bits:
        apply_change(context.observations, state, sums.change)


def visit_chunk(
    settings: RowSettings, context: Context, state: DistributedState, chunk: int, rows: IntArray
) -> RoundSums:
    """Visit some rows of one chunk, one by one with the exact objective."""
    remote, workers = state.remote, state.remote.workers
    task = VisitTask(
        round_task(settings, context, state),
        context.observations.n_samples,
        state.statistics.counts,
        state.column_hash,
        state.factors.location,
        state.factors.scale,
        state.prior_terms(),
        exact_search(settings, state),
    )
    state.lineage += 2 * (task.location.nbytes + task.scale.nbytes)
    new = workers.submit(
        visit_part, workers.hold(task), remote.parts[chunk], remote.coded[chunk], rows
    )
    (sums,) = workers.collect([workers.submit(sums_of, new)])
    put_in_place(context, state, np.array([chunk]), [new], sums)
    return RoundSums(**vars(sums))


def round_task(settings: RowSettings, context: Context, state: DistributedState) -> RoundTask:
    """What the workers need to know of the state as it is."""
    counts, budget = state.statistics.counts, settings.budget(state)
    exact = settings.optimizer == "exact" and budget >= SMALLEST_BUDGET
    uniforms = None
    if settings.optimizer in DOUBLE_GREEDIES:
        each = state.n_components if settings.optimizer == "randomized_double_greedy" else 0
        uniforms = (int(context.rng.integers(2**62)), each)
    return RoundTask(
        state.factors.mean,
        state.factors.variance,
        state.intercept.mean,
        state.hyperparameters.noise_precision.mean,
        tangent_log_odds(counts, context.observations.n_samples),
        counts == 1,
        Search(OPTIMIZERS[settings.optimizer], budget, complement=not exact, exchange=True),
        budget == settings.full_budget(state),
        state.second_codes if state.searches_again else 0,
        uniforms,
    )
