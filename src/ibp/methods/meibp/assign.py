"""Assign the features of a fitted model to new observations.

A new row meets N old ones, so the prior log-odds of feature k are ln(m_k / (N + 1 - m_k)), finite
for every feature in use. Nothing of the model changes, so rows are independent: they are cut into
fixed pieces and shared among threads, and the answer does not depend on how many there are.

A row of a fit is searched in every sweep, from where the last one left it. Here there is one search
from the empty set and, for rows that it leaves unproven, the second one that a fit ends with; for
those that are still unproven both are made once more, from the best code that a row of the fit has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels.code_lists import CodeLists, Listing
from ibp.kernels.records import Outcome
from ibp.methods.context import never
from ibp.methods.large_codes import new_codes
from ibp.methods.meibp.row_search import (
    SECOND_CODES,
    KnownCodes,
    SearchedRows,
    begin_at_known,
    improve,
    list_of,
    search_again,
)
from ibp.methods.row_forms import SearchForms, gaps_of
from ibp.model.statistics import Statistics, added_up, sums_by_codes
from ibp.parallel import Executor, map_until, ranges
from ibp.submodular import OPTIMIZERS
from ibp.submodular.batch import EXACT
from ibp.submodular.best_sets import ListLimits
from ibp.submodular.maximize import DOUBLE_GREEDIES
from ibp.submodular.records import Search

FloatArray = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]

# A code further below the best, in nats, has less than 1e-5 of its probability.
MARGIN = 12.0
# So many features have all their codes listed, if need be.
MOST_WITH_ALL_CODES = 10
# Most codes of a row with more features, from how many of them others are looked at, and nodes of
# the tree that may be visited per node of the exact search for one code. On digits with 48 features
# 512 codes suffice for 96% of the rows, and probabilities are within 0.02 of what no limits give,
# in the root mean square.
MOST_CODES, CODES_AROUND, NODES_OF_A_LIST = 512, 256, 20
# Rows whose lists are in memory together.
ROWS_WITH_LISTS = 32


# Codes of rows of the fit that a search may begin at.
MOST_KNOWN_CODES = 1024


def some_codes(assignments: Any) -> Codes:
    """Codes that rows have, each of them once: all, or some of them spread over the rows."""
    step = -(-assignments.shape[0] // MOST_KNOWN_CODES)
    return np.unique(np.asarray(assignments[:: max(step, 1)]), axis=0)


@dataclass(frozen=True)
class FrozenModel:
    """What is needed to place new rows: factors in the user's order and units, counts, settings.

    ``noise_std`` is a number, or one for each column.
    """

    mean: FloatArray
    variance: FloatArray
    offset: FloatArray
    counts: npt.NDArray[np.int64]
    n_samples: int
    noise_std: float | FloatArray  # one for all columns, or one for each
    optimizer: str
    thorough: bool
    node_budget: int
    search_again: bool = True  # for rows whose optimum is not proven
    known_codes: Codes | None = None  # of rows of the fit, to begin such a search at
    # Of recorded values about what is predicted, if that is not the noise that rows are placed by.
    predictive_std: float | FloatArray | None = None

    def assign(
        self,
        observations: Observations,
        executor: Executor,
        *,
        with_losses: bool = False,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[Codes, FloatArray]:
        """Assignments and, if asked for, what the row objective loses when a bit flips.

        The answer depends on the row alone. Told to stop, it leaves the remaining rows empty.
        """
        n_rows, n_components = observations.n_samples, self.counts.size
        chosen = new_codes(n_rows, n_components)
        losses = np.zeros((n_rows if with_losses else 0, n_components))
        if n_components == 0 or n_rows == 0:
            return chosen, losses
        with single_threaded_blas():
            task = self.task(observations, with_losses=with_losses)
            pieces = ranges(n_rows, observations.piece_rows)
            for rows, (bits, lost) in map_until(should_stop, executor, assign_piece, task, pieces):
                chosen[rows] = bits
                if with_losses:
                    losses[rows] = lost
        return chosen, losses

    def assign_and_sum(
        self,
        observations: Observations,
        executor: Executor,
        *,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[Codes, Statistics]:
        """Assignments, and the statistics that belong to them, in one pass over the rows."""
        n_rows, n_components = observations.n_samples, self.counts.size
        chosen = new_codes(n_rows, n_components)

        def placed() -> Iterator[Statistics]:
            task = self.task(observations)
            pieces = ranges(n_rows, observations.piece_rows)
            for rows, (bits, sums) in map_until(
                should_stop, executor, assign_and_sum_piece, task, pieces
            ):
                chosen[rows] = bits
                yield sums

        with single_threaded_blas():  # rows without a feature add nothing
            of_rows = placed() if n_components and n_rows else ()
            total = added_up(observations, n_components, of_rows)
        return chosen, Statistics.from_sums(observations, total)

    def task(
        self, observations: Observations, start: Codes | None = None, *, with_losses: bool = False
    ) -> AssignmentTask:
        """What pieces of work read, to place rows or to list their codes.

        Codes to ``start`` from are those of the observations, if any are known.
        """
        uniforms = None
        if self.optimizer in DOUBLE_GREEDIES:
            randomized = self.optimizer == "randomized_double_greedy"
            # The same draws for every row.
            uniforms = np.random.default_rng(0).random((1, self.counts.size * randomized))
        too_many = self.counts.size > MOST_WITH_ALL_CODES
        most_codes = MOST_CODES if too_many else 2**self.counts.size
        arrange, unit = observations.layout.arrange, observations.unit
        forms = SearchForms(
            observations,
            arrange(self.mean) / unit,
            self.noise_precision(observations),
            variance=arrange(self.variance) / unit**2,
            offset=(arrange(self.offset) - observations.centre) / unit,
        )
        forms.make_all()
        no_codes = np.zeros((0, self.counts.size), dtype=np.uint8)
        return AssignmentTask(
            forms,
            np.log(self.counts) - np.log(self.n_samples + 1.0 - self.counts),
            Search(OPTIMIZERS[self.optimizer], self.node_budget, self.thorough, self.thorough),
            uniforms,
            with_losses,
            self.search_again,
            start,
            KnownCodes.of(no_codes if self.known_codes is None else self.known_codes, forms),
            Listing(
                most_codes,
                ListLimits(MARGIN, CODES_AROUND, NODES_OF_A_LIST * self.node_budget, too_many),
                np.random.default_rng(0).random((most_codes, self.counts.size)),
            ),
        )

    def probabilities(self, observations: Observations, executor: Executor) -> FloatArray:
        """P(z_nk = 1 | row n, q(A))."""
        n_rows, n_components = observations.n_samples, self.counts.size
        found = np.zeros((n_rows, n_components))
        if n_components == 0 or n_rows == 0:
            return found
        with single_threaded_blas():
            task = self.task(observations)
            pieces = ranges(n_rows, ROWS_WITH_LISTS)
            for rows, share in zip(
                pieces, executor.map(probabilities_piece, task, pieces), strict=True
            ):
                found[rows] = share
        return found

    def noise_precision(self, observations: Observations) -> float | FloatArray:
        """In the units of the observations, a number if those are the data's and the noise is."""
        if np.ndim(self.noise_std) == 0 and not observations.has_units:
            return float(float(self.noise_std) ** -2.0)
        noise_std = np.broadcast_to(self.noise_std, observations.layout.n_columns)
        return np.asarray((observations.layout.arrange(noise_std) / observations.unit) ** -2.0)


class AssignmentTask(NamedTuple):
    """What the rows are placed with; nothing of it changes."""

    forms: SearchForms
    log_odds: FloatArray
    search: Search
    uniforms: FloatArray | None
    with_losses: bool
    search_again: bool
    start: Codes | None
    known_codes: KnownCodes
    listing: Listing


def place(task: AssignmentTask, rows: slice, block: Any = None) -> SearchedRows:
    """Search for the codes of some rows, and again for those not proven if that is asked for.

    ``block`` is their values, if they have been read.
    """
    forms, observations = task.forms, task.forms.observations
    if block is None:
        block = observations.rows(rows)
    n, k = rows.stop - rows.start, task.log_odds.size
    placed = SearchedRows(
        np.asarray(block @ forms.components.T),
        gaps_of(observations, rows),
        Outcome(
            np.zeros((n, k), dtype=np.uint8) if task.start is None else task.start[rows].copy(),
            np.zeros(n, dtype=np.uint8),
            np.empty(n),
            np.empty(n, dtype=bool),
            np.zeros((n if task.with_losses else 0, k)),
        ),
    )
    improve(task, placed, task.uniforms)
    if task.search_again and task.search.optimizer == EXACT:
        search_again(task, placed, np.flatnonzero(~placed.outcome.proven), SECOND_CODES)
        if task.start is None:
            hard = np.flatnonzero(~placed.outcome.proven)
            begin_at_known(task, placed, hard, task.known_codes, SECOND_CODES)
    return placed


def assign_piece(task: AssignmentTask, rows: slice) -> tuple[Codes, FloatArray]:
    """Assignments of some rows, and what they lose by a flip of each bit if that is asked for."""
    outcome = place(task, rows).outcome
    return outcome.chosen, outcome.losses


def assign_and_sum_piece(task: AssignmentTask, rows: slice) -> tuple[Codes, Statistics]:
    """Assignments of some rows and the sums that they give."""
    observations = task.forms.observations
    block = observations.rows(rows)
    codes = place(task, rows, block).outcome.chosen
    return codes, sums_by_codes(observations, rows, block, codes)


def list_piece(task: AssignmentTask, rows: slice) -> CodeLists:
    """The best codes of some rows, with their weights."""
    return list_of(task, place(task, rows), task.listing)


def probabilities_piece(task: AssignmentTask, rows: slice) -> FloatArray:
    """The probability of each bit of some rows."""
    lists = list_piece(task, rows)
    return np.add.reduceat(lists.weight[:, None] * lists.codes, lists.start[:-1], axis=0)
