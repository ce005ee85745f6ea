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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.block_rows import SMALLEST_BUDGET
from ibp.kernels.column_hashes import flip_hashes
from ibp.kernels.exact_rows import visit_rows
from ibp.kernels.records import ExactSearch, Outcome, RowContext
from ibp.methods.context import Context
from ibp.methods.meibp.row_search import SearchedRows, improve, search_again
from ibp.methods.meibp.state import MEIBPState
from ibp.methods.row_forms import SearchForms, gaps_of
from ibp.model import feature_evidence
from ibp.model.ibp_prior import EquivalenceClasses, tangent_log_odds
from ibp.model.statistics import centre_sums, code_sums, data_sums
from ibp.parallel import ranges
from ibp.submodular import OPTIMIZERS
from ibp.submodular.records import Search

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

# A block's gain is the difference of sums; a loss below this part of them is rounding.
ROUNDING = 1e-9
# Rows whose quadratic forms are at hand when rows are visited one by one.
ROWS_ONE_BY_ONE = 64
# Most rows of a piece whose rows are searched a second time, which takes ten times as long.
ROWS_SEARCHED_AGAIN = 32


class RowSettings(Protocol):
    """What a pass over the rows needs to know of the method."""

    @property
    def prior(self) -> EquivalenceClasses:
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

    def full_budget(self, state: MEIBPState) -> int:
        """The largest budget."""
        ...

    def budget(self, state: MEIBPState) -> int:
        """Nodes that the exact search may visit for a row."""
        ...

    def uniforms(
        self, rng: np.random.Generator, n_rows: int, n_components: int
    ) -> FloatArray | None:
        """Random numbers for the rows of a block, for the double greedies only."""
        ...


def exact_search(settings: RowSettings, state: MEIBPState) -> ExactSearch:
    """How a kernel is to search rows one by one."""
    return ExactSearch(
        OPTIMIZERS[settings.optimizer],
        settings.budget(state),
        left_ordered=settings.prior.left_ordered,
        cold=settings.row_start == "empty",
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


def change_of(observations: Observations, rows: Any, block: Any, old: Codes, new: Codes) -> Change:
    """The change of the statistics when ``rows`` change their codes; ``block`` is their values."""
    difference = new.astype(np.int8) - old.astype(np.int8)
    return Change(
        *code_sums(observations, rows, new, less=old),
        data_sums(block, difference).astype(np.float64),
    )


def apply_change(observations: Observations, state: MEIBPState, change: Change) -> None:
    """Bring Z'Z, the totals and Z'X up to date."""
    statistics = state.statistics
    statistics.gram += change.gram
    statistics.totals += change.totals
    totals = np.broadcast_to(np.asarray(change.totals), statistics.totals.shape)
    statistics.cross += observations.sums_in_units(np.asarray(change.cross)) - centre_sums(
        observations, totals
    )


class BlockTask(NamedTuple):
    """What the pieces of a block read; of it, no row changes before its own piece is done.

    Attributes
    ----------
    observations, forms
        The data, and what rows have in common under the present q(A).
    assignments, failed_searches
        Those of all rows; the latter None while budgets are too small to count failures.
    rows, owns_a_feature, uniforms
        The block's rows, consecutive or by their numbers; whether each is to be left as it is
        because it has a feature for itself, and its random numbers.
    log_odds : ndarray of shape (K,)
        The tangent of the prior's count term.
    search : Search
        How rows are searched.
    second_codes : int
        How many codes a second search of those not proven optimal goes on from; 0 for none.
    """

    observations: Observations
    forms: SearchForms
    assignments: Codes
    failed_searches: Codes | None
    rows: Any
    owns_a_feature: npt.NDArray[np.bool_]
    uniforms: FloatArray | None
    log_odds: FloatArray
    search: Search
    second_codes: int


class ImprovedRows(NamedTuple):
    """What became of a piece of a block: all that it changes."""

    changed: IntArray
    old: Codes
    new: Codes
    change: Change
    gain: float
    n_proven: int
    rows: Any
    failed_searches: Codes | None


@dataclass
class ImprovedBlock:
    """What became of a block: sums over its pieces, and the pieces that changed anything."""

    change: Change
    gain: float
    n_proven: int
    pieces: list[ImprovedRows]

    @classmethod
    def of(cls, pieces: Iterable[ImprovedRows], failed_searches: Codes) -> ImprovedBlock:
        """Sum up pieces in their order; writes down how often searches have failed."""
        block = cls(Change(), 0.0, 0, [])
        for piece in pieces:
            block.gain += piece.gain
            block.n_proven += piece.n_proven
            if piece.failed_searches is not None:
                failed_searches[piece.rows] = piece.failed_searches
            if piece.changed.size:
                block.change += piece.change
                block.pieces.append(piece)
        return block

    def changed_rows(self) -> tuple[IntArray, Codes, Codes]:
        """The rows that changed, of which there is one at least: numbers, old and new codes."""
        parts = zip(*((piece.changed, piece.old, piece.new) for piece in self.pieces), strict=True)
        changed, old, new = (np.concatenate(part) for part in parts)
        return changed, old, new


def update_block(
    settings: RowSettings, context: Context, state: MEIBPState, forms: SearchForms, rows: Any
) -> tuple[int, int]:
    """Optimise a block of rows; return how many bits changed and how many rows are proven."""
    numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    if settings.row_start == "empty" or numbers.size == 1:
        return visit_one_by_one(settings, context, state, forms, numbers)
    counts = state.statistics.counts
    owns_a_feature = np.asarray(state.assignments[numbers][:, counts == 1].any(axis=1))
    log_odds = tangent_log_odds(counts, context.observations.n_samples)
    improved = improve_block(settings, context, state, forms, rows, owns_a_feature, log_odds)
    block = ImprovedBlock.of(improved, state.failed_searches)
    n_changed, n_proven = 0, block.n_proven
    if block.pieces:
        changed, old, new = block.changed_rows()
        if not accept(settings, state, changed, old, new, block.gain, log_odds):
            return visit_one_by_one(settings, context, state, forms, numbers)
        apply_change(context.observations, state, block.change)
        n_changed = int((old != new).sum())
    if owns_a_feature.any():
        more_changed, more_proven = visit_one_by_one(
            settings, context, state, forms, numbers[owns_a_feature]
        )
        n_changed += more_changed
        n_proven += more_proven
    return n_changed, n_proven


def improve_block(
    settings: RowSettings,
    context: Context,
    state: MEIBPState,
    forms: SearchForms,
    rows: Any,
    owns_a_feature: npt.NDArray[np.bool_],
    log_odds: FloatArray,
) -> Iterator[ImprovedRows]:
    """Optimise every row of a block by itself, in pieces; the state stays as it is."""
    budget, n_rows = settings.budget(state), owns_a_feature.size
    exact = settings.optimizer == "exact" and budget >= SMALLEST_BUDGET
    forms.for_rows(rows)  # makes what the pieces share
    task = BlockTask(
        context.observations,
        forms,
        state.assignments,
        # What a small budget did not find says little about a large one.
        state.failed_searches if budget == settings.full_budget(state) else None,
        rows,
        owns_a_feature,
        settings.uniforms(context.rng, n_rows, state.n_components),
        log_odds,
        # The exact search begins at the nearest plane, and needs no look at the complement.
        Search(OPTIMIZERS[settings.optimizer], budget, complement=not exact, exchange=True),
        state.second_codes if state.searches_again else 0,
    )
    piece_rows = context.observations.piece_rows
    if state.searches_again:
        piece_rows = min(piece_rows, ROWS_SEARCHED_AGAIN)
    return context.executor.map(improve_piece, task, ranges(n_rows, piece_rows))


def improve_piece(task: BlockTask, part: slice) -> ImprovedRows:
    """Optimise some rows of a block, each by itself."""
    observations, forms, uniforms = task.observations, task.forms, task.uniforms
    # A slice of X is a view; picked rows are a copy.
    which: Any = task.rows[part] if not isinstance(task.rows, slice) else None
    if which is None:
        which = slice(task.rows.start + part.start, task.rows.start + part.stop)
    block = observations.rows(which)
    products = np.asarray(block @ forms.components.T)
    old = task.assignments[which]
    new = old.copy()
    n_rows = new.shape[0]
    gain, proven = np.zeros(n_rows), np.zeros(n_rows, dtype=bool)
    failed = None if task.failed_searches is None else task.failed_searches[which].copy()
    outcome = Outcome(
        new,
        np.zeros(n_rows, dtype=np.uint8) if failed is None else failed,
        gain,
        proven,
        np.empty((0, 0)),
    )
    searched = SearchedRows(products, gaps_of(observations, which), outcome)
    if uniforms is not None and len(uniforms) > 1:  # else they are the same for all rows
        uniforms = uniforms[part]
    improve(task, searched, uniforms)
    skip = task.owns_a_feature[part]
    if task.second_codes:
        search_again(task, searched, np.flatnonzero(~(proven | skip)), task.second_codes)
    if skip.any():
        new[skip], gain[skip], proven[skip] = old[skip], 0.0, False
    changed = np.flatnonzero((new != old).any(axis=1))
    numbers = np.arange(which.start, which.stop) if isinstance(which, slice) else which
    change = Change()
    if changed.size:
        few = changed.size < 0.5 * n_rows
        picked = changed if few else slice(None)
        change = change_of(
            observations,
            numbers[picked],
            block[changed] if few else block,
            old[picked],
            new[picked],
        )
    return ImprovedRows(
        numbers[changed],
        old[changed],
        new[changed],
        change,
        float(gain.sum()),
        int(proven.sum()),
        which,
        failed,
    )


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
    step = new.sum(axis=0, dtype=np.int64) - old.sum(axis=0, dtype=np.int64)
    column_hash = state.column_hash.copy()
    flip_hashes(changed, old, new, column_hash)
    if would_fall(settings, state, step, column_hash, gain, log_odds):
        return False
    state.assignments[changed] = new
    state.column_hash[:] = column_hash
    state.statistics.counts += step
    return True


def would_fall(
    settings: RowSettings,
    state: MEIBPState,
    step: IntArray,
    column_hash: npt.NDArray[np.uint64],
    gain: float,
    log_odds: FloatArray,
) -> bool:
    """Whether the bound would fall if counts changed by ``step``, and columns had these hashes.

    ``gain`` is the sum of the rows' gains with the tangent in place of the count term.
    """
    counts = state.statistics.counts
    before = log_prior_of(settings.prior, state, counts, state.column_hash)
    after = log_prior_of(settings.prior, state, counts + step, column_hash)
    assumed = float(log_odds @ step)
    allowed = ROUNDING * (abs(before) + abs(gain) + abs(assumed))
    return bool(after - before + gain - assumed < -allowed)


def log_prior_of(
    prior: EquivalenceClasses,
    state: MEIBPState,
    counts: IntArray,
    column_hash: npt.NDArray[np.uint64],
) -> float:
    """Ln P([Z]) and what the features in use add to the bound beside it and the likelihood."""
    active = counts > 0
    alpha = state.hyperparameters.alpha
    total = prior.log_prior(
        counts,
        state.assignments.shape[0],
        alpha=alpha.mean,
        log_alpha=alpha.mean_log,
        columns=column_hash,
    )
    if not active.all():  # else the factors' part is the same before and after
        gone = feature_evidence(state.factors.select(~active), state.hyperparameters)
        total -= float((gone - alpha.mean_log).sum())
    return total


def visit_one_by_one(
    settings: RowSettings, context: Context, state: MEIBPState, forms: SearchForms, rows: IntArray
) -> tuple[int, int]:
    """Optimise rows one after another with the exact objective; q(A) stays."""
    n_changed, n_proven = 0, 0
    visit = Visit(forms, state.row_context(), exact_search(settings, state))
    for part in ranges(rows.size, ROWS_ONE_BY_ONE):
        which = rows[part]
        uniforms = settings.uniforms(context.rng, which.size, state.n_components)
        visited = visit_some(visit, which, which, state.assignments[which], uniforms)
        n_changed += visited.n_changed
        n_proven += visited.n_proven
        if visited.n_changed:
            state.assignments[which] = visited.codes
            apply_change(context.observations, state, visited.change)
    return n_changed, n_proven


class Visit(NamedTuple):
    """What rows that are visited one by one are searched with; counts and hashes go along."""

    forms: SearchForms
    row_context: RowContext
    search: ExactSearch


class VisitedRows(NamedTuple):
    """What became of rows that were visited one by one."""

    codes: Codes
    change: Change
    n_changed: int
    n_proven: int


def visit_some(
    visit: Visit, rows: IntArray, numbers: IntArray, old: Codes, uniforms: FloatArray | None
) -> VisitedRows:
    """Optimise a few rows one after another, with counts and hashes as they come to be.

    ``numbers`` are those that the rows have among all, if the observations are not of all.
    """
    observations, forms = visit.forms.observations, visit.forms
    block = observations.rows(rows)
    form_of_row, own_forms, prepared = forms.one_each(rows)
    products = np.asarray(block @ forms.components.T)
    new = old.copy()
    n_changed, n_proven = visit_rows(
        numbers,
        np.multiply(products, own_forms.scale, dtype=np.float64) - own_forms.constant[form_of_row],
        form_of_row,
        own_forms.quadratic,
        prepared,
        new,
        visit.row_context,
        visit.search,
        uniforms,
    )
    change = change_of(observations, rows, block, old, new) if n_changed else Change()
    return VisitedRows(new, change, n_changed, n_proven)
