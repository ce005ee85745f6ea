"""A beam of hypotheses about Z, extended row by row.

A hypothesis is Z for the rows placed so far, up to the order of its columns. Its score is

    ln P([Z]) + ln p(X | Z)

of these rows: the IBP prior of the left-ordered class and the likelihood with the factors (and the
intercept, a feature that every row has) integrated out. Both are exact, the prior because the IBP
is a process over rows: the next row has feature k with probability m_k / n and Poisson(alpha / n)
new ones. Every class of n rows has one parent among those of n - 1 rows and is made but once, so a
beam without limits meets all classes.

All hypotheses have placed the same rows, so that what the others are expected to contribute is the
same number for all and does not matter. Only a bound of it is of use, to drop hypotheses that
cannot reach a score that is known to be reached: no row's prior exceeds that of its number of new
features at the mode, and no row's density that of noise alone at its centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaln

from ibp.data import Observations
from ibp.kernels.beam_search import (
    COUNT,
    OVERFLOW,
    Beam,
    Board,
    Model,
    Row,
    expand,
    fill_rows,
    make_children,
)
from ibp.methods.beam_search.naive import naive_children
from ibp.model import HyperparameterValues

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.uint8]
Scoring = Literal["incremental", "naive"]
# `Row`, `Model` and `Beam` as the kernels that place a row take them.
Records = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]

# In a bounded beam a row may have so many new features that more are less likely than this.
NEGLIGIBLE_TAIL = 1e-6
# Unbounded beams grow from this size; scores within this part of a known one are not dropped.
FIRST_CAPACITY = 256
SLACK = 1e-9
# Rows of X that are brought into order together.
ROWS_AT_ONCE = 256
# Features that there is room for grow by this factor.
SPARE_ROOM = 1.5


class Children(NamedTuple):
    """Who is born: parents, numbers of new features, and the row's known features."""

    scores: FloatArray
    parents: IntArray
    n_new: IntArray
    codes: CodeArray

    def best_first(self, n_children: int) -> Children:
        """The first so many of the children, in order of their scores."""
        order = np.argsort(-self.scores[:n_children], kind="stable")
        # One by one: a generator here costs a hundredth of the time that a row takes.
        return Children(
            self.scores[order], self.parents[order], self.n_new[order], self.codes[order]
        )


def empty_beam(size: int, n_groups: int, n_components: int, n_features: int) -> Beam:
    """Room for hypotheses and their features."""
    return Beam(
        np.empty(size),
        np.empty(size, dtype=np.int64),
        np.zeros((size, n_components), dtype=np.int64),
        np.ones((size, n_components), dtype=np.uint8),
        np.empty((size, n_groups, n_components, n_components)),
        np.empty((size, n_components, n_features)),
        np.empty((size, n_groups, n_components, n_components)),
    )


def beam_of_nothing(observations: Observations, intercept_std: float | None) -> Beam:
    """The one hypothesis about no rows."""
    n_fixed = 0 if intercept_std is None else 1
    beam = empty_beam(1, observations.layout.n_groups, max(n_fixed, 1), observations.n_features)
    beam.scores[:] = 0.0
    beam.n_active[:] = n_fixed
    beam.mean[:] = 0.0
    beam.gram[:] = 0.0
    beam.covariance[:] = 0.0 if intercept_std is None else intercept_std**2
    return beam


def best_of(beam: Beam, size: int) -> Beam:
    """The first so many hypotheses, which are the best."""
    return Beam._make(part[:size] for part in beam)


@dataclass(frozen=True)
class Limits:
    """How far a search goes."""

    beam_width: (
        int | None
    )  # how many hypotheses are kept; None for all that can reach a known score
    n_components: int | None = None  # most features
    # Up to 2 to this power sets of features are enumerated for a row; beyond, they are searched. A
    # beam without a width always enumerates.
    max_subset_enumeration: int = 10
    # Whether children are scored from what their parent knows, or each from scratch.
    scoring: Scoring = "incremental"


class OrderedRows:
    """Rows of X in the order of the search: centred, in layout order, zero where missing."""

    def __init__(self, observations: Observations, order: IntArray) -> None:
        self.observations = observations
        self.order = order
        self._begin = self._end = 0
        self._values = np.zeros((0, observations.n_features))
        self._observed = np.zeros((0, observations.layout.n_groups), dtype=np.bool_)

    def between(self, begin: int, end: int) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Values, and the column groups that are observed."""
        observations, rows = self.observations, self.order[begin:end]
        values = observations.layout.arrange(observations.rows(rows)).astype(np.float64)
        observed = observations.missing_groups(rows).toarray() == 0.0
        values -= observations.remaining_centre
        return values * observed[:, observations.layout.group_of_position], observed

    def row(self, n: int) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Values and observed column groups of the n-th row."""
        if not self._begin <= n < self._end:
            self._begin, self._end = n, min(n + ROWS_AT_ONCE, self.order.size)
            self._values, self._observed = self.between(self._begin, self._end)
        return self._values[n - self._begin], self._observed[n - self._begin]


class BeamPass:
    """One search through all rows; its beam has the hypotheses about those placed, best first."""

    def __init__(
        self,
        observations: Observations,
        order: IntArray,
        values: HyperparameterValues,
        intercept_std: float | None,
        limits: Limits,
        known_score: float = -np.inf,
    ) -> None:
        self.rows = OrderedRows(observations, order)
        self.values = values
        self.intercept_std = intercept_std
        self.limits = limits
        self.beam = beam_of_nothing(observations, intercept_std)
        self.n_fixed = int(self.beam.n_active[0])
        self.n_placed = 0
        self._densest = self._densest_rows()
        self._floors = self._lowest_scores(known_score)
        self._parents: list[npt.NDArray[np.int32]] = []
        self._codes: list[CodeArray] = []
        self._rooms = (best_of(self.beam, 0), self.beam)  # for children, and in use

    @property
    def n_hypotheses(self) -> int:
        """How many are left."""
        return int(self.beam.scores.size)

    @property
    def done(self) -> bool:
        """Whether all rows are placed, or no hypothesis is left."""
        return self.n_placed == self.rows.order.size or self.n_hypotheses == 0

    def _lowest_scores(self, known_score: float) -> FloatArray:
        """What hypotheses about 1, 2, ... rows must exceed to reach the known score in the end."""
        n = self.rows.order.size
        if known_score == -np.inf:
            return np.full(n, -np.inf)
        rate = self.values.alpha / np.arange(1.0, n + 1.0)
        most = log_poisson(np.floor(rate), rate) + self._densest
        to_come = np.cumsum(most[::-1])[::-1] - most
        return np.asarray(known_score - SLACK * (1.0 + abs(known_score)) - to_come)

    def _densest_rows(self) -> FloatArray:
        """The log density of noise alone at its centre, for each row in order."""
        observations = self.rows.observations
        width = np.diff(observations.layout.group_start)
        n_observed = observations.n_features - observations.missing_groups(self.rows.order) @ width
        noise_variance = 1.0 / self.values.noise_precision
        return np.asarray(-0.5 * n_observed * np.log(2.0 * np.pi * noise_variance))

    def _log_new(self, densest: float) -> FloatArray:
        """Log probabilities of 0, 1, ... new features of the next row, as many as matter."""
        rate = self.values.alpha / (self.n_placed + 1.0)
        most = int(rate)
        if self.limits.beam_width is not None:
            while gammainc(most + 1.0, rate) > NEGLIGIBLE_TAIL:  # P(more than these)
                most += 1
        else:
            least = self._floors[self.n_placed] - self.beam.scores.max() - densest
            while log_poisson(most, rate) > least:
                most += 1
        return log_poisson(np.arange(most + 1), rate)

    def _model(self, log_new: FloatArray) -> Model:
        """What all hypotheses have in common, as the kernels need it."""
        return Model(
            self.n_placed,
            self.n_fixed,
            1.0 / self.values.noise_precision,
            1.0 / self.values.factor_precision,
            log_new,
        )

    def place_next(self) -> None:
        """Extend all hypotheses by the next row and keep the best."""
        x, observed = self.rows.row(self.n_placed)
        row = Row(x, np.flatnonzero(observed), self.rows.observations.layout.group_start)
        model = self._model(self._log_new(self._densest[self.n_placed]))
        records = (tuple(row), tuple(model), tuple(self.beam))
        if self.limits.scoring == "naive":
            children = self._scored_naively(model.log_new)
        else:
            children = self._scored_incrementally(records)
        self._succeed(records, children)

    @property
    def most_components(self) -> int:
        """The limit of features, the intercept included."""
        if self.limits.n_components is None:
            return int(np.iinfo(np.int64).max)
        return self.limits.n_components + self.n_fixed

    def _scored_incrementally(self, records: Records) -> Children:
        width = self.limits.beam_width
        most_sets = np.inf if width is None else 2.0**self.limits.max_subset_enumeration
        capacity = width or FIRST_CAPACITY
        while True:
            board = Board(
                np.empty(capacity),
                np.empty(capacity, dtype=np.int64),
                np.empty(capacity, dtype=np.int64),
                np.empty(capacity, dtype=np.uint64),
                np.zeros((capacity, self.beam.counts.shape[1]), dtype=np.uint8),
                np.zeros(3, dtype=np.int64),
                self._floors[self.n_placed],
                width is None,
            )
            expand(*records, self.most_components, most_sets, tuple(board))
            if not board.tally[OVERFLOW]:
                born = Children(board.scores, board.parents, board.n_new, board.codes)
                return born.best_first(board.tally[COUNT])
            capacity *= 4

    def _scored_naively(self, log_new: FloatArray) -> Children:
        scores, parents, n_new, codes = naive_children(
            [self.assignments(slot) for slot in range(self.n_hypotheses)],
            *self.rows.between(0, self.n_placed + 1),
            self.rows.observations.layout.group_start,
            self.values,
            self.intercept_std,
            log_new,
            self.limits.beam_width,
            self.limits.n_components,
            float(self._floors[self.n_placed]),
        )
        fixed = np.ones((scores.size, self.n_fixed), dtype=np.uint8)
        born = Children(scores, parents, n_new, np.hstack([fixed, codes]))
        return born.best_first(scores.size)

    def _succeed(self, records: Records, children: Children) -> None:
        """Make the children, and remember where they come from."""
        n_active = self.beam.n_active[children.parents] + children.n_new
        most = int(n_active.max(initial=1))
        codes = np.zeros((children.scores.size, most), dtype=np.uint8)
        known = min(most, children.codes.shape[1])
        codes[:, :known] = children.codes[:, :known]
        place = np.arange(most)
        is_new = (place >= (n_active - children.n_new)[:, None]) & (place < n_active[:, None])
        codes[is_new] = 1
        successor = self._next_beam(children.scores.size, most)
        make_children(*records, children.parents, children.n_new, codes, tuple(successor))
        self._parents.append(children.parents.astype(np.int32))
        self._codes.append(np.packbits(codes, axis=1))
        self.beam = successor
        self.n_placed += 1

    def _next_beam(self, size: int, n_components: int) -> Beam:
        """Room for the children: that of their grandparents, if it is enough."""
        room = self._rooms[0]
        if room.scores.size < size or room.counts.shape[1] < n_components:
            observations = self.rows.observations
            features = self._rooms[1].counts.shape[1]
            if features < n_components:
                features = int(SPARE_ROOM * n_components) + 1
            width = self.limits.beam_width or size
            room = empty_beam(
                width, observations.layout.n_groups, features, observations.n_features
            )
        self._rooms = (self._rooms[1], room)
        return best_of(room, size)

    def assignments(self, slot: int) -> CodeArray:
        """Z of a hypothesis, rows as they were placed, without the intercept."""
        n_active = int(self.beam.n_active[slot])
        rows = np.zeros((self.n_placed, n_active), dtype=np.uint8)
        for n in reversed(range(self.n_placed)):
            row = np.unpackbits(self._codes[n][slot])[:n_active]
            rows[n, : row.size] = row
            slot = int(self._parents[n][slot])
        return rows[:, self.n_fixed :]

    def completed(self) -> CodeArray:
        """Z of the best hypothesis, rows as in X; those not yet placed have what suits them."""
        n_samples = self.rows.order.size
        placed = self.assignments(0)
        codes = np.zeros((n_samples, placed.shape[1]), dtype=np.uint8)
        codes[: self.n_placed] = placed
        for begin in range(self.n_placed, n_samples, ROWS_AT_ONCE):
            end = min(begin + ROWS_AT_ONCE, n_samples)
            codes[begin:end] = self._filled(begin, end)
        in_place = np.empty_like(codes)
        in_place[self.rows.order] = codes
        return in_place

    def _filled(self, begin: int, end: int) -> CodeArray:
        """Codes of rows that the search did not come to, with the factors as they are known."""
        codes = np.zeros((end - begin, int(self.beam.n_active[0])), dtype=np.uint8)
        group_start = self.rows.observations.layout.group_start
        rows, observed = self.rows.between(begin, end)
        fill_rows(rows, observed, group_start, self._model(np.zeros(1)), self.beam, codes)
        return codes[:, self.n_fixed :]


def log_poisson(n: Any, rate: Any) -> FloatArray:
    """Ln of Poisson's probabilities."""
    return np.asarray(n * np.log(rate) - rate - gammaln(n + 1.0))
