"""Rows searched for their best codes with all else as it is, and a second search for hard ones.

A search that runs out of its budget ends where the local search left it, or a little higher. The
second search lists the best codes instead: it goes from code to code by one bit or two, best first,
and no local optimum stops it. A fit makes it before it ends, and new rows are placed by it.

New rows have no code of their own to search from. Those that are hard begin a second time, at the
best of the codes that rows of the fit have: they know which features go together.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ibp.kernels.block_rows import improve_rows
from ibp.kernels.code_lists import CodeLists, Listing, list_codes
from ibp.kernels.records import Outcome
from ibp.kernels.row_forms import Gaps
from ibp.kernels.second_search import better_codes
from ibp.methods.row_forms import SearchForms
from ibp.submodular.best_sets import ListLimits
from ibp.submodular.records import Search

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

# Codes that the second search goes on from, which takes half a millisecond for each row. On digits
# and on faces with 50 features it changes 142 of 1797 and 834 of 2414 rows when sweeps have ended;
# four times as many codes change 143 and 857. A quarter as many take a quarter of the time and
# change 137 and 739.
SECOND_CODES, FEW_CODES = 128, 32
# Of so many known codes a row with gaps of its own is asked what they are worth to it exactly.
LIKELY_CODES = 64
# In place of log-odds of minus infinity, times zero.
LOWEST = -1e300


class RowTask(Protocol):
    """What rows are searched with; nothing of it changes."""

    @property
    def forms(self) -> SearchForms:
        """What rows have in common under q(A)."""
        ...

    @property
    def log_odds(self) -> FloatArray:
        """The prior's, of every feature."""
        ...

    @property
    def search(self) -> Search:
        """How rows are searched."""
        ...


class KnownCodes(NamedTuple):
    """Codes that rows may begin at, M of them, and z'Wz / 2 of each under every shared form."""

    codes: Codes
    penalties: FloatArray  # (n_forms, M)

    @classmethod
    def of(cls, codes: Codes, forms: SearchForms) -> KnownCodes:
        """Codes under the forms that rows share, which must have been made."""
        z = codes.astype(np.float64)
        penalties = np.empty((forms.forms.quadratic.shape[0], len(codes)))
        for form, quadratic in enumerate(forms.forms.quadratic):
            penalties[form] = 0.5 * np.einsum("mk,mk->m", z @ quadratic, z)
        return cls(codes, penalties)


class SearchedRows(NamedTuple):
    """Some rows: what a search of them takes, and what came of it."""

    products: npt.NDArray[Any]
    gaps: Gaps
    outcome: Outcome


def improve(task: RowTask, rows: SearchedRows, uniforms: FloatArray | None = None) -> None:
    """Search from the codes that rows have."""
    forms = task.forms
    improve_rows(
        rows.products,
        task.log_odds,
        forms.forms,
        forms.searches,
        forms.columns,
        rows.gaps,
        task.search,
        uniforms,
        rows.outcome,
    )


def list_of(task: RowTask, rows: SearchedRows, listing: Listing) -> CodeLists:
    """List the best codes of rows, from those that they have."""
    forms = task.forms
    return CodeLists(
        *list_codes(
            rows.products,
            task.log_odds,
            forms.forms,
            forms.searches,
            forms.columns,
            rows.gaps,
            rows.outcome.chosen,
            listing,
        )
    )


def search_again(task: RowTask, rows: SearchedRows, which: IntArray, n_codes: int) -> None:
    """Search some of the rows a second time, going on from so many codes of each.

    Rows for which there is a better code get it, and the exact search goes on from there; the
    others stay as they are.
    """
    if not which.size:
        return
    looked_at, forms, gain = some_of(rows, which), task.forms, np.empty(which.size)
    better_codes(
        looked_at.products,
        task.log_odds,
        forms.forms,
        forms.columns,
        looked_at.gaps,
        ListLimits(np.inf, n_codes, 0, False),
        looked_at.outcome.chosen,
        gain,
    )
    better = np.flatnonzero(gain > 0.0)
    again = some_of(looked_at, better)
    gain = again.outcome.gain + gain[better]
    improve(task, again)
    again.outcome.gain[:] += gain
    take_over(rows, which[better], again)


def begin_at_known(
    task: RowTask, rows: SearchedRows, which: IntArray, known: KnownCodes, n_codes: int
) -> None:
    """Search some of the rows once more, from the best of some known codes; keep what is better.

    The second search goes on from so many codes of each.
    """
    if not which.size or not known.codes.shape[0]:
        return
    again = some_of(rows, which)
    before = objective(task, again, again.outcome.chosen)
    again.outcome.chosen[:] = known.codes[best_codes(task, again, known)]
    again.outcome.failed_searches[:] = 0
    better = np.flatnonzero(objective(task, again, again.outcome.chosen) > before)
    again = some_of(again, better)
    improve(task, again)
    search_again(task, again, np.flatnonzero(~again.outcome.proven), n_codes)
    again.outcome.gain[:] = rows.outcome.gain[which[better]] + (
        objective(task, again, again.outcome.chosen) - before[better]
    )
    take_over(rows, which[better], again)


def best_codes(task: RowTask, rows: SearchedRows, known: KnownCodes) -> IntArray:
    """Which of the known codes is the best for each row.

    Rows that share no form have that of complete rows, less what they miss, which only a few codes
    are asked about.
    """
    forms, gaps = task.forms.forms, rows.gaps
    form_of_row = np.maximum(gaps.form_of_row, 0)
    linear = task.log_odds + forms.scale * rows.products.astype(np.float64)
    linear = np.maximum(linear - forms.constant[form_of_row], LOWEST)
    codes = known.codes.astype(np.float64)
    columns = task.forms.columns
    own = np.flatnonzero(gaps.form_of_row < 0)
    if columns is not None:
        for i in own:
            linear[i] += columns.constant[missed_by(i, gaps)].sum(axis=0)
    worth = linear @ codes.T - known.penalties[form_of_row]
    best = worth.argmax(axis=1)
    if columns is not None:
        n_likely = min(LIKELY_CODES, codes.shape[0])
        likely = np.argpartition(-worth[own], n_likely - 1, axis=1)[:, :n_likely]
        for i, some in zip(own, likely, strict=True):
            missing = missed_by(i, gaps)
            explained = columns.mean[missing] @ codes[some].T
            less = 0.5 * columns.weight[missing] @ explained**2
            best[i] = some[np.argmax(worth[i, some] + less)]
    return np.asarray(best, dtype=np.int64)


def objective(task: RowTask, rows: SearchedRows, codes: Codes) -> FloatArray:
    """What a code is worth to each of some rows: w'z - z'Wz / 2, log-odds included in w."""
    forms, gaps = task.forms.forms, rows.gaps
    form_of_row = np.maximum(gaps.form_of_row, 0)
    z = codes.astype(np.float64)
    odds = np.where(z > 0.0, task.log_odds, 0.0).sum(axis=1)
    linear = forms.scale * rows.products.astype(np.float64)
    worth = odds + np.einsum("nk,nk->n", z, linear - forms.constant[form_of_row])
    for form in np.unique(form_of_row):
        own = np.flatnonzero(form_of_row == form)
        worth[own] -= 0.5 * np.einsum("nk,nk->n", z[own] @ forms.quadratic[form], z[own])
    columns = task.forms.columns
    if columns is not None:
        for i in np.flatnonzero(gaps.form_of_row < 0):  # by the columns that the row observes
            seen = np.ones(columns.weight.size, dtype=bool)
            seen[missed_by(i, gaps)] = False
            has = np.flatnonzero(z[i])
            explained = columns.mean[np.ix_(seen, has)].sum(axis=1)
            constant = columns.constant[np.ix_(seen, has)].sum()
            squares = columns.weight[seen] @ explained**2
            worth[i] = odds[i] + linear[i, has].sum() - constant - 0.5 * squares
    return np.asarray(worth)


def missed_by(row: Any, gaps: Gaps) -> IntArray:
    """The positions that a row misses."""
    return np.asarray(gaps.position[gaps.start[row] : gaps.start[row + 1]])


def take_over(rows: SearchedRows, which: IntArray, others: SearchedRows) -> None:
    """Let some of the rows have what came of another search."""
    for all_rows, those in zip(rows.outcome, others.outcome, strict=True):
        if all_rows.shape[0]:
            all_rows[which] = those


def some_of(rows: SearchedRows, which: IntArray) -> SearchedRows:
    """Some of the rows, as copies."""
    gaps = rows.gaps
    n_missing = np.diff(gaps.start)[which]
    start = np.concatenate([[0], np.cumsum(n_missing)]).astype(np.int64)
    position = np.repeat(gaps.start[which] - start[:-1], n_missing) + np.arange(start[-1])
    return SearchedRows(
        rows.products[which],
        Gaps(gaps.form_of_row[which], start, gaps.position[position]),
        Outcome(*(part[which] if part.shape[0] else part for part in rows.outcome)),
    )
