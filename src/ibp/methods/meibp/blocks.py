"""MEIBP's pass over the rows in blocks: products by BLAS, rows in parallel, then one refresh.

Given q(A) the likelihood is a sum over rows. The prior couples them through the counts m, in a term
that is convex in m, so that its tangent at the present counts is a lower bound: rows optimised each
on its own against the tangent cannot together lower the evidence, as long as no feature dies and
c(Z) is that of the shifted classes. What the block really gained is computed from the sum of the
rows' gains and the change of the prior; should it be negative, the block is done again row by row.
Rows that have a feature for themselves are always visited one by one, with the exact objective.

Pieces of a block are of fixed size and are summed in order: the number of threads changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ibp.kernels.block_rows import improve_rows
from ibp.kernels.column_hashes import flip_hashes
from ibp.kernels.exact_rows import visit_rows
from ibp.methods.meibp.state import MEIBPState, equal_hashes
from ibp.methods.row_forms import SearchForms, own_missing
from ibp.model import feature_evidence, log_prior
from ibp.model.ibp_prior import Prior, tangent_log_odds
from ibp.model.statistics import centre_sums, code_sums, data_sums
from ibp.parallel import ranges
from ibp.submodular import OPTIMIZERS

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

# A block's gain is the difference of sums; a loss below this part of them is rounding.
ROUNDING = 1e-9
# Rows whose quadratic forms are at hand when rows are visited one by one.
ROWS_ONE_BY_ONE = 64


class RowSettings(Protocol):
    """What a pass over the rows needs to know of the method."""

    @property
    def prior(self) -> Prior:
        """Equivalence class of the prior."""
        ...

    @property
    def optimizer(self) -> str:
        """Name of the row optimiser."""
        ...

    @property
    def row_start(self) -> str:
        """Where a search starts."""
        ...

    @property
    def node_budget(self) -> int:
        """The largest budget."""
        ...

    def budget(self, state: MEIBPState) -> int:
        """Nodes that the exact search may visit for a row."""
        ...

    def uniforms(self, state: MEIBPState, n_rows: int) -> FloatArray:
        """Random numbers for the rows of a block, one row of them if none are needed."""
        ...


def search_settings(settings: RowSettings, state: MEIBPState) -> tuple[bool, int, int, bool]:
    """How a kernel is to search rows one by one."""
    return (
        settings.prior == "lof",
        OPTIMIZERS[settings.optimizer],
        settings.budget(state),
        settings.row_start == "empty",
    )


@dataclass
class Change:
    """Sums of what changes with some rows: of Z'Z, of Z, of Z'X (as `data_sums` gives it)."""

    gram: FloatArray | float = 0.0
    totals: FloatArray | float = 0.0
    cross: FloatArray | float = 0.0

    def __iadd__(self, other: Change) -> Change:
        self.gram = self.gram + other.gram
        self.totals = self.totals + other.totals
        self.cross = self.cross + other.cross
        return self


def change_of(state: MEIBPState, rows: Any, block: Any, old: Codes, new: Codes) -> Change:
    """The change of the statistics when ``rows`` change their codes; ``block`` is their values."""
    difference = new.astype(np.int8) - old.astype(np.int8)
    return Change(
        *code_sums(state.observations, rows, new, less=old),
        data_sums(block, difference).astype(np.float64),
    )


def apply_change(state: MEIBPState, change: Change) -> None:
    """Bring Z'Z, the totals and Z'X up to date."""
    statistics, observations = state.statistics, state.observations
    statistics.gram += change.gram
    statistics.totals += change.totals
    totals = np.broadcast_to(np.asarray(change.totals), statistics.totals.shape)
    statistics.cross += observations.to_layout(np.asarray(change.cross)) - centre_sums(
        observations, totals
    )


@dataclass
class Piece:
    """What became of a piece of a block."""

    changed: IntArray
    old: Codes
    new: Codes
    change: Change
    gain: float
    n_proven: int


def update_block(
    settings: RowSettings, state: MEIBPState, forms: SearchForms, rows: Any
) -> tuple[int, int]:
    """Optimise a block of rows; return how many bits changed and how many rows are proven."""
    numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    if settings.row_start == "empty" or numbers.size == 1:
        return visit_one_by_one(settings, state, forms, numbers)
    counts = state.statistics.counts
    alone = np.asarray(state.assignments[numbers][:, counts == 1].any(axis=1))
    log_odds = tangent_log_odds(counts, state.observations.n_samples)
    total, gain = Change(), 0.0
    pieces: list[Piece] = []
    n_proven = 0
    for piece in improve_block(settings, state, forms, rows, numbers, alone, log_odds):
        gain += piece.gain
        n_proven += piece.n_proven
        if piece.changed.size:
            total += piece.change
            pieces.append(piece)
    n_changed = 0
    if pieces:
        changed = np.concatenate([piece.changed for piece in pieces])
        old = np.concatenate([piece.old for piece in pieces])
        new = np.concatenate([piece.new for piece in pieces])
        if not accept(settings, state, changed, old, new, gain, log_odds):
            return visit_one_by_one(settings, state, forms, numbers)
        apply_change(state, total)
        n_changed = int((old != new).sum())
    if alone.any():
        more_changed, more_proven = visit_one_by_one(settings, state, forms, numbers[alone])
        n_changed += more_changed
        n_proven += more_proven
    return n_changed, n_proven


def improve_block(
    settings: RowSettings,
    state: MEIBPState,
    forms: SearchForms,
    rows: Any,
    numbers: IntArray,
    alone: npt.NDArray[np.bool_],
    log_odds: FloatArray,
) -> Iterator[Piece]:
    """Optimise every row of a block by itself, in pieces; of the state only fatigue changes."""
    observations, assignments = state.observations, state.assignments
    form_of_row = forms.for_rows(rows)
    budget = settings.budget(state)
    full = budget == settings.node_budget
    uniforms = settings.uniforms(state, numbers.size)

    def improve(part: slice) -> Piece:
        # A slice of X is a view; picked rows are a copy.
        if isinstance(rows, slice):
            which: Any = slice(rows.start + part.start, rows.start + part.stop)
        else:
            which = numbers[part]
        block = observations.rows(which)
        products = np.asarray(block @ forms.components.T)
        old = assignments[which]
        new = old.copy()
        n_rows = new.shape[0]
        gain, proven = np.zeros(n_rows), np.zeros(n_rows, dtype=bool)
        fatigue = state.fatigue[which]
        fatigue = fatigue.copy() if full else np.zeros_like(fatigue)
        improve_rows(
            products,
            log_odds,
            forms.noise_precision,
            form_of_row[part],
            forms.quadratic,
            forms.constant,
            forms.needed,
            forms.prepared,
            *own_missing(observations, which, form_of_row[part]),
            *forms.by_column,
            OPTIMIZERS[settings.optimizer],
            budget,
            True,
            uniforms[part] if uniforms.shape[0] > 1 else uniforms,
            new,
            fatigue,
            gain,
            proven,
            np.empty((0, 0)),
        )
        if full:  # what a small budget did not find says little about a large one
            state.fatigue[which] = fatigue
        skip = alone[part]
        if skip.any():
            new[skip], gain[skip], proven[skip] = old[skip], 0.0, False
        changed = np.flatnonzero((new != old).any(axis=1))
        change = Change()
        if changed.size:
            few = changed.size < 0.5 * n_rows
            picked = changed if few else slice(None)
            change = change_of(
                state,
                numbers[part][picked],
                block[changed] if few else block,
                old[picked],
                new[picked],
            )
        return Piece(
            numbers[part][changed],
            old[changed],
            new[changed],
            change,
            float(gain.sum()),
            int(proven.sum()),
        )

    return state.workers.map(improve, ranges(numbers.size, observations.piece_rows))


def accept(
    settings: RowSettings,
    state: MEIBPState,
    changed: IntArray,
    old: Codes,
    new: Codes,
    gain: float,
    log_odds: FloatArray,
) -> bool:
    """Write the changed rows into Z, its hashes and the counts, unless the bound would fall.

    ``gain`` is the sum of the rows' gains with the tangent in place of the count term.
    """
    statistics = state.statistics
    step = new.sum(axis=0, dtype=np.int64) - old.sum(axis=0, dtype=np.int64)
    column_hash = state.column_hash.copy()
    flip_hashes(changed, old, new, column_hash)
    before = log_prior_of(settings.prior, state, statistics.counts, state.column_hash)
    after = log_prior_of(settings.prior, state, statistics.counts + step, column_hash)
    assumed = float(log_odds @ step)
    if after - before + gain - assumed < -ROUNDING * (abs(before) + abs(gain) + abs(assumed)):
        return False
    state.assignments[changed] = new
    state.column_hash[:] = column_hash
    statistics.counts += step
    return True


def log_prior_of(
    prior: Prior, state: MEIBPState, counts: IntArray, column_hash: npt.NDArray[np.uint64]
) -> float:
    """Ln P([Z]) and what the features in use add to the bound beside it and the likelihood."""
    active = counts > 0
    alpha = state.hyperparameters.alpha
    total = log_prior(
        counts,
        state.observations.n_samples,
        alpha=alpha.mean,
        log_alpha=alpha.mean_log,
        prior=prior,
        multiplicities=equal_hashes(column_hash[active])[0] if prior == "lof" else None,
    )
    if not active.all():  # else the factors' part is the same before and after
        gone = feature_evidence(state.factors.select(~active), state.hyperparameters)
        total -= float((gone - alpha.mean_log).sum())
    return total


def visit_one_by_one(
    settings: RowSettings, state: MEIBPState, forms: SearchForms, rows: IntArray
) -> tuple[int, int]:
    """Optimise rows one after another with the exact objective; q(A) stays."""
    observations, statistics = state.observations, state.statistics
    n_changed, n_proven = 0, 0
    for part in ranges(rows.size, ROWS_ONE_BY_ONE):
        which = rows[part]
        block = observations.rows(which)
        form_of_row, quadratic, constant, prepared = forms.one_each(which)
        products = np.asarray(block @ forms.components.T)
        likelihood = forms.noise_precision * (products - constant[form_of_row])
        old = state.assignments[which]
        new = old.copy()
        changed, proven = visit_rows(
            which,
            observations.n_samples,
            likelihood,
            form_of_row,
            quadratic,
            prepared,
            new,
            state.column_hash,
            statistics.counts,
            state.factor_arrays(),
            state.prior_terms(),
            search_settings(settings, state),
            settings.uniforms(state, which.size),
        )
        n_changed += changed
        n_proven += proven
        if changed:
            state.assignments[which] = new
            apply_change(state, change_of(state, which, block, old, new))
    return n_changed, n_proven
