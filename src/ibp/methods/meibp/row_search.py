"""Rows searched for their best codes with all else as it is, and a second search for hard ones.

A search that runs out of its budget ends where the local search left it, or a little higher. The
second search lists the best codes instead: it goes from code to code by one bit or two, best first,
and no local optimum stops it. A fit makes it before it ends, and new rows are placed by it.
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
    for all_rows, those in zip(rows.outcome, again.outcome, strict=True):
        if all_rows.shape[0]:
            all_rows[which[better]] = those


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
