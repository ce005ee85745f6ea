"""A pass over the rows of weighted codes, in blocks, with q(A) refreshed after each.

As in `ibp.methods.meibp.blocks`, rows are optimised each on its own against the tangent of the
count term, and a block that would lower the bound all the same, because a feature dies in it, is
done again row by row against the exact prior. The number of threads changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.weighted_rows import (
    Effort,
    WeightedOutcome,
    WeightPrior,
    improve_weighted_rows,
)
from ibp.methods.context import Context
from ibp.methods.meibp.blocks import Change, RowSettings, accept, apply_change
from ibp.methods.row_forms import gaps_of
from ibp.methods.weighted.forms import WeightedRowForms
from ibp.methods.weighted.state import WeightedState
from ibp.model import feature_evidence
from ibp.model.ibp_prior import log_count_term, tangent_log_odds
from ibp.model.statistics import code_sums, data_sums, sum_by_group
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# A weight that moves by more counts as changed.
MOVED = 0.02


class WeightedTask(NamedTuple):
    """What the pieces of a block read; of it, no row changes before its own piece is done."""

    observations: Observations
    forms: WeightedRowForms
    weights: tuple[Any, Any, Any]  # means, variances and divergences of all rows
    rows: Any
    prior: WeightPrior
    effort: Effort


class WeightedRows(NamedTuple):
    """What became of a piece of a block: all that it changes."""

    rows: IntArray  # those that changed
    mean: npt.NDArray[np.floating]
    variance: npt.NDArray[np.floating]
    divergence: npt.NDArray[np.floating]
    change: Change
    doubt: FloatArray | float
    gain: float


def rows_of(task_rows: Any, part: slice) -> Any:
    """Some of a block's rows; a slice if the block is one."""
    if isinstance(task_rows, slice):
        return slice(task_rows.start + part.start, task_rows.start + part.stop)
    return task_rows[part]


def improve_weights(task: WeightedTask, part: slice) -> WeightedRows:
    """Optimise some rows of a block, each by itself."""
    observations, which = task.observations, rows_of(task.rows, part)
    block = observations.rows(which)
    products = np.asarray(block @ task.forms.components.T)
    old = [array[which] for array in task.weights]
    mean, variance, divergence = (array.copy() for array in old)
    gain = np.zeros(mean.shape[0])
    improve_weighted_rows(
        products,
        task.prior,
        task.forms.weighted,
        task.forms.weighted_columns,
        gaps_of(observations, which),
        task.effort,
        WeightedOutcome(mean, variance, divergence, gain, np.empty((0, mean.shape[1]))),
        None,
    )
    changed = np.flatnonzero((gain > 0.0) | task.effort.fresh)
    numbers = np.arange(which.start, which.stop) if isinstance(which, slice) else which
    change = Change()
    doubt: FloatArray | float = 0.0
    if changed.size:
        few = changed.size < 0.5 * gain.size
        picked = changed if few else slice(None)
        change = Change(
            *code_sums(observations, numbers[picked], mean[picked], less=old[0][picked]),
            data_sums(block[changed] if few else block, mean[picked] - old[0][picked]).astype(
                np.float64
            ),
        )
        doubt = sum_by_group(
            observations, (variance - old[1])[picked].astype(np.float64), numbers[picked]
        )
    return WeightedRows(
        numbers[changed],
        mean[changed],
        variance[changed],
        divergence[changed],
        change,
        doubt,
        float(gain.sum()),
    )


def update_weighted_block(
    settings: RowSettings,
    context: Context,
    state: WeightedState,
    forms: WeightedRowForms,
    rows: Any,
    effort: Effort,
) -> int:
    """Optimise a block of rows; return how many codes changed."""
    forms.for_rows(rows)  # makes what the pieces share
    log_odds = tangent_log_odds(state.statistics.counts, context.observations.n_samples)
    pieces = [
        piece
        for piece in improved_pieces(context, state, forms, rows, log_odds, effort)
        if piece.rows.size
    ]
    if not pieces:
        return 0
    n_changed = take_pieces(settings, context, state, pieces, log_odds)
    if n_changed is not None:
        return n_changed
    numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    return sum(update_row(settings, context, state, forms, int(row), effort) for row in numbers)


def update_row(
    settings: RowSettings,
    context: Context,
    state: WeightedState,
    forms: WeightedRowForms,
    row: int,
    effort: Effort,
) -> int:
    """Optimise a row against the exact prior; it stays as it is unless that raises the bound."""
    rows = np.array([row])
    log_odds = exact_log_odds(state, row)
    (piece,) = improved_pieces(context, state, forms, rows, log_odds, effort)
    if not piece.rows.size:
        return 0
    return take_pieces(settings, context, state, [piece], log_odds) or 0


def exact_log_odds(state: WeightedState, row: int) -> FloatArray:
    """What the prior gives for a feature of this row, the other rows being as they are.

    A feature that nobody else has comes and goes with all that it adds to the bound.
    """
    n_samples = state.assignments.shape[0]
    others = (state.statistics.counts - state.assignments[row]).astype(np.float64)
    used = np.maximum(others, 1.0)
    log_odds = np.log(used) - np.log(n_samples - others)
    alone = others == 0
    if alone.any():
        own = feature_evidence(state.factors.select(alone), state.hyperparameters)
        log_odds[alone] = own + log_count_term(np.ones(1, dtype=np.int64), n_samples)
        log_odds[alone] -= np.log(state.n_components)
    return np.asarray(log_odds)


def improved_pieces(
    context: Context,
    state: WeightedState,
    forms: WeightedRowForms,
    rows: Any,
    log_odds: FloatArray,
    effort: Effort,
) -> Iterator[WeightedRows]:
    """Optimise every row of a block by itself, in pieces; the state stays as it is."""
    weights = state.weights
    task = WeightedTask(
        context.observations,
        forms,
        (weights.mean, weights.variance, weights.divergence),
        rows,
        state.weight_prior(log_odds),
        effort,
    )
    n_rows = rows.stop - rows.start if isinstance(rows, slice) else rows.size
    pieces = ranges(n_rows, context.observations.piece_rows)
    return context.executor.map(improve_weights, task, pieces)


def take_pieces(
    settings: RowSettings,
    context: Context,
    state: WeightedState,
    pieces: list[WeightedRows],
    log_odds: FloatArray,
) -> int | None:
    """Take over what pieces found, unless the bound would fall; how many codes changed, or None."""
    rows = np.concatenate([piece.rows for piece in pieces])
    mean = np.concatenate([piece.mean for piece in pieces])
    old, new = state.assignments[rows], (mean > 0).astype(np.uint8)
    gain = sum(piece.gain for piece in pieces)
    if not accept(settings, state, rows, old, new, gain, log_odds):
        return None
    change: Change = Change()
    doubt: FloatArray | float = 0.0
    for piece in pieces:
        change += piece.change
        doubt = doubt + piece.doubt
    apply_change(context.observations, state, change)
    assert state.statistics.doubt is not None
    state.statistics.doubt += doubt
    state.statistics.add_to_diagonal(np.asarray(doubt))
    n_changed = int((np.abs(mean - state.weights.mean[rows]) > MOVED).sum())
    state.weights.mean[rows] = mean
    state.weights.variance[rows] = np.concatenate([piece.variance for piece in pieces])
    state.weights.divergence[rows] = np.concatenate([piece.divergence for piece in pieces])
    return n_changed
