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
from scipy import sparse

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


def begin_at_known(task: RowTask, rows: SearchedRows, which: IntArray, known: Codes) -> None:
    """Search some of the rows once more, from the best of some known codes; keep what is better.

    All of these rows were searched from the empty set, which is worth nothing.
    """
    if not which.size or not known.shape[0]:
        return
    again = some_of(rows, which)
    worth = worth_of_codes(task, again, known)
    best = worth.argmax(axis=1)
    again.outcome.chosen[:] = known[best]
    improve(task, again)
    again.outcome.gain[:] += worth[np.arange(which.size), best]
    better = np.flatnonzero(again.outcome.gain > rows.outcome.gain[which])
    take_over(rows, which[better], some_of(again, better))


def worth_of_codes(task: RowTask, rows: SearchedRows, codes: Codes) -> FloatArray:
    """What each of some codes is worth to each of some rows, (n, M): w'z - z'Wz / 2 + log-odds."""
    forms, gaps = task.forms.forms, rows.gaps
    form_of_row = np.maximum(gaps.form_of_row, 0)
    linear = task.log_odds + forms.scale * rows.products.astype(np.float64)
    linear -= forms.constant[form_of_row]
    z = codes.astype(np.float64)
    squares = np.zeros((forms.quadratic.shape[0], len(codes)))
    for form in np.unique(form_of_row):
        squares[form] = np.einsum("mk,mk->m", z @ forms.quadratic[form], z)
    squares = squares[form_of_row]
    columns = task.forms.columns
    if columns is not None and gaps.position.size:
        # Rows that share no form have that of complete rows, less what they miss.
        has_own = np.repeat(gaps.form_of_row < 0, np.diff(gaps.start)).astype(np.float64)
        missing = sparse.csr_array(
            (has_own, gaps.position, gaps.start), shape=(len(linear), columns.weight.size)
        )
        linear += missing @ columns.constant
        squares -= missing @ (columns.weight[:, None] * (columns.mean @ z.T) ** 2)
    return np.asarray(linear @ z.T - 0.5 * squares)


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
