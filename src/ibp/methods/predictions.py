"""Predictions of entries from the codes that a row may have, in pieces of rows.

`ibp.model.predictive` is the density. Each piece of rows has its codes listed, its entries
predicted and its lists forgotten, so that no more is in memory than what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.data.observations import PIECE_ROWS, missing_of
from ibp.data.source import RowSource, is_sparse
from ibp.kernels.code_lists import CodeLists
from ibp.kernels.predictive import Entries, Predicted, predict_entries
from ibp.kernels.weighted_predictive import predict_weighted_entries
from ibp.kernels.weighted_rows import WeightedLists
from ibp.methods.meibp.assign import AssignmentTask, FrozenModel, list_piece
from ibp.methods.weighted.assign import FrozenWeights, PlacingTask, list_weighted_piece
from ibp.model.predictive import Filled, PredictiveTerms
from ibp.parallel import Executor, ranges

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Entries that are predicted together.
ENTRIES_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class MixturePrediction:
    """What a model with frozen factors says of the entries of some rows, given what was seen.

    Attributes
    ----------
    model : FrozenModel or FrozenWeights
        The model.
    seen : Observations
        What the codes go by.
    executor : Executor
        Runs the pieces.
    start : ndarray of shape (n, K) or None
        Codes of the rows that are known already.
    """

    model: FrozenModel | FrozenWeights
    seen: Observations
    executor: Executor
    start: npt.NDArray[Any] | None = None

    def row_log_likelihood(
        self, scored: RowSource, hidden_from: RowSource | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Sum of the log-densities of each row's entries, and how many there are.

        As `ibp.evaluate.row_log_likelihood`, but each entry is scored by its own mixture.
        """
        sums, counts = np.zeros(scored.shape[0]), np.zeros(scored.shape[0], dtype=np.int64)
        with single_threaded_blas():
            for rows, (total, count) in self._map(score_piece, scored, hidden_from):
                sums[rows], counts[rows] = total, count
        return sums, counts

    def missing_entries(self) -> Iterator[tuple[slice, Filled]]:
        """What is missing of the rows, piece by piece."""
        with single_threaded_blas():
            yield from self._map(fill_piece, self.seen.source, None)

    def _map(
        self, work: Any, source: RowSource, hidden_from: RowSource | None
    ) -> Iterator[tuple[slice, Any]]:
        model, n_columns = self.model, source.shape[1]
        spread = model.noise_std if model.predictive_std is None else model.predictive_std
        noise_std = np.broadcast_to(np.asarray(spread, dtype=np.float64), n_columns)
        terms = PredictiveTerms(
            np.ascontiguousarray(model.mean.T),
            np.ascontiguousarray(model.variance.T),
            np.ascontiguousarray(model.offset, dtype=np.float64),
            noise_std**2,
        )
        assignment = model.task(self.seen, self.start) if model.counts.size else None
        task = PredictionTask(assignment, terms, source, hidden_from)
        pieces = ranges(source.shape[0], PIECE_ROWS)
        return zip(pieces, self.executor.map(work, task, pieces), strict=True)


class PredictionTask(NamedTuple):
    """What the pieces read; no assignment if the model has no features."""

    assignment: AssignmentTask | PlacingTask | None
    terms: PredictiveTerms
    source: RowSource
    hidden_from: RowSource | None


def score_piece(task: PredictionTask, rows: slice) -> tuple[FloatArray, IntArray]:
    """Log-density of the entries of some rows, and how many there are."""
    lists = lists_of(task, rows)
    sums, counts = np.zeros(rows.stop - rows.start), np.zeros(rows.stop - rows.start, np.int64)
    for part in parts_of(task, rows):
        hidden = task.hidden_from
        entries = known_entries(
            task.source.rows(part), None if hidden is None else hidden.rows(part)
        )
        own = slice(part.start - rows.start, part.stop - rows.start)
        log_density = predict(entries, lists, own, task.terms).log_density
        counts[own] = np.diff(entries.start)
        row = np.repeat(np.arange(counts[own].size), counts[own])
        sums[own] = np.bincount(row, weights=log_density, minlength=counts[own].size)
    return sums, counts


def fill_piece(task: PredictionTask, rows: slice) -> Filled:
    """Predict what some rows miss."""
    block = task.source.rows(rows)
    row, column = np.nonzero(np.isnan(block)) if not is_sparse(task.source) else missing_of(block)
    if row.size == 0:
        nothing = np.empty(0)
        return Filled(row, column, nothing, nothing)
    entries = entries_of(rows.stop - rows.start, row, column, np.full(row.size, np.nan))
    predicted = predict(entries, lists_of(task, rows), slice(0, rows.stop - rows.start), task.terms)
    return Filled(row, column, predicted.mean, np.sqrt(predicted.variance))


def lists_of(task: PredictionTask, rows: slice) -> CodeLists | WeightedLists:
    """The codes that some rows may have."""
    if isinstance(task.assignment, PlacingTask):
        return list_weighted_piece(task.assignment, rows)
    if task.assignment is not None:
        return list_piece(task.assignment, rows)
    n = rows.stop - rows.start
    codes = np.empty((n, 0), np.uint8)
    return CodeLists(np.arange(n + 1), codes, np.ones(n), np.ones(n, dtype=bool), np.zeros(n))


def parts_of(task: PredictionTask, rows: slice) -> list[slice]:
    """Rows whose entries fit into memory, all of them, together."""
    n_rows = max(1, ENTRIES_AT_ONCE // max(task.source.shape[1], 1))
    return [
        slice(rows.start + part.start, rows.start + part.stop)
        for part in ranges(rows.stop - rows.start, n_rows)
    ]


def predict(
    entries: Entries, lists: CodeLists | WeightedLists, rows: slice, terms: PredictiveTerms
) -> Predicted:
    """Predict entries of some of the rows that have their codes listed."""
    predicted = Predicted(*(np.empty(entries.column.size) for _ in Predicted._fields))
    if isinstance(lists, WeightedLists):
        parts = {name: part[rows] for name, part in lists._asdict().items() if name != "margin"}
        some = lists._replace(**parts)
        predict_weighted_entries(entries, some, terms, predicted)
        return predicted
    own = lists._replace(start=lists.start[rows.start : rows.stop + 1])
    predict_entries(entries, own, terms, predicted)
    return predicted


def known_entries(values: Any, hidden_from: Any) -> Entries:
    """Entries with a value or, of these, the ones that are missing in ``hidden_from``."""
    if isinstance(values, np.ndarray):
        counted = ~np.isnan(values)
        if hidden_from is not None:
            counted &= np.isnan(hidden_from)
        row, column = np.nonzero(counted)
        return entries_of(values.shape[0], row, column, values[counted])
    if hidden_from is None:  # what is not stored is a zero, and counts
        return known_entries(values.toarray(), None)
    row, column = missing_of(hidden_from)
    x = np.asarray(values[row, column]).ravel() if row.size else np.empty(0)
    known = ~np.isnan(x)
    return entries_of(values.shape[0], row[known], column[known], x[known])


def entries_of(n_rows: int, row: IntArray, column: IntArray, value: npt.NDArray[Any]) -> Entries:
    """Entries as kernels take them; rows are sorted."""
    start = np.searchsorted(row, np.arange(n_rows + 1)).astype(np.int64)
    return Entries(start, column.astype(np.int64), value.astype(np.float64))
