"""MEIBP for rows that come in batches and go again: what is kept of them are sums.

The bound of all rows needs Z'Z, Z'X, the counts and sums over X, and no row. So rows that have been
seen keep the codes that they had, in these sums, and the rows of a batch are optimised as a chunk
of all rows is (`ibp.methods.meibp.distributed`), of which no other chunk changes. Every step raises
the bound of all rows. With a forgetting below one the sums are multiplied by it before each batch,
so that old rows count for less; counts are then rounded to whole rows, and what rounding leaves out
is kept, so that batches of few rows do not make it grow.

Features may be born of what a batch leaves unexplained, and be removed; rows that are gone do not
have those that are born after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ibp.data import ColumnUnits, Layout, Observations, RowSource, Summary, as_source
from ibp.data.chunks import ChunkedRows, Part, joined_groups
from ibp.data.summary import COMPLETE, OWN_PATTERN, ColumnMoments
from ibp.methods.context import Context
from ibp.methods.meibp.automatic_start import frozen_at
from ibp.methods.meibp.distributed.codes import RemoteCodes
from ibp.methods.meibp.distributed.method import DistributedMethod
from ibp.methods.meibp.distributed.parts import CodeTotals, assigned_part
from ibp.methods.meibp.distributed.state import DistributedState
from ibp.methods.meibp.method import MEIBPMethod
from ibp.methods.meibp.moves.base import Move, Proposal
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.merge import code_correlations
from ibp.methods.meibp.moves.removal import Removal
from ibp.methods.meibp.start import StartingPoint
from ibp.methods.meibp.state import MEIBPState
from ibp.model import AnyHyperparameters, Factors, Intercept, Statistics
from ibp.workers import ThreadWorkers

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

# Numbers of all Z'Z, one for each group of columns, beyond which sums are not kept.
MOST_SUMS = 1 << 22
# Features whose codes are so much correlated may be one, and so many pairs of them are tried.
SAME_ROWS, MOST_PAIRS = 0.8, 4


@dataclass(frozen=True)
class Rest:
    """What rows that fade count for beyond the whole numbers that stand for them.

    Attributes
    ----------
    rows : ndarray without axes
        Of the number of rows.
    columns : ndarray of shape (D,)
        Of the rows that observe each column, in the user's order.
    features : ndarray of shape (K,)
        Of the rows that have each feature.
    """

    rows: FloatArray
    columns: FloatArray
    features: FloatArray

    @classmethod
    def none(cls, n_columns: int, n_components: int) -> Rest:
        """That of whole rows."""
        return cls(np.zeros(()), np.zeros(n_columns), np.zeros(n_components))


def faded_counts(
    counts: IntArray | int, rest: FloatArray, forgetting: float
) -> tuple[IntArray, FloatArray]:
    """Counts and their rest, both counting for less."""
    exact = forgetting * (counts + rest)
    whole = np.rint(exact)
    return whole.astype(np.int64), np.asarray(exact - whole)


@dataclass(frozen=True)
class Past:
    """What is kept of rows that have been seen.

    Attributes
    ----------
    observations : Observations
        Of all of them, without the rows.
    n_samples : int
        How many rows they count for.
    rest : Rest
        What they count for beyond whole rows.
    n_seen : int
        How many there were; those that were forgotten, too.
    statistics, column_hash, factors, intercept, hyperparameters
        As in the state that they led to.
    """

    observations: Observations
    n_samples: int
    rest: Rest
    n_seen: int
    statistics: Statistics
    column_hash: Hashes
    factors: Factors
    intercept: Intercept
    hyperparameters: AnyHyperparameters

    @classmethod
    def of(cls, method: MEIBPMethod, context: Context, state: MEIBPState) -> Past:
        """What is to be kept of a state and its rows."""
        observations, start = context.observations, method.start
        n_seen = observations.n_samples
        rest = Rest.none(observations.layout.n_columns, state.n_components)
        if isinstance(start, BatchStart) and isinstance(state, StreamState):
            n_seen, rest = start.n_seen, replace(start.past.rest, features=state.whole_rest())
        no_rows = as_source(np.zeros((0, observations.layout.n_columns), observations.dtype))
        known = observations.summary
        summary = Summary(
            known.counts,
            known.means,
            known.squares,
            known.lowest,
            known.highest,
            np.zeros(0, dtype=np.int32),
            1,
            known.column_group,
        )
        kept = (
            state.statistics,
            state.column_hash,
            state.factors,
            state.intercept,
            state.hyperparameters,
        )
        without_rows = replace(observations, source=no_rows, summary=summary)
        return cls(without_rows, observations.n_samples, rest, n_seen, *deepcopy(kept))

    @property
    def units(self) -> ColumnUnits | None:
        """The units of the columns, which the first rows have set."""
        observations, restore = self.observations, self.observations.layout.restore
        if not observations.has_units:
            return None
        return ColumnUnits(
            restore(observations.unit), restore(observations.resolution * observations.unit)
        )

    @property
    def centre(self) -> FloatArray:
        """The centre of the columns, in the user's order."""
        return self.observations.layout.restore(self.observations.centre)

    def faded(self, forgetting: float) -> Past:
        """The same rows, counting for less."""
        if forgetting == 1.0:
            return self
        old, sums, rest = self.observations, self.statistics, self.rest
        known, layout = old.summary, old.layout
        n_samples, of_rows = faded_counts(self.n_samples, rest.rows, forgetting)
        by_column, of_columns = faded_counts(known.counts, rest.columns, forgetting)
        counts, of_features = faded_counts(sums.counts, rest.features, forgetting)
        summary = replace(known, counts=by_column, squares=forgetting * known.squares)
        observations = replace(
            old,
            summary=summary,
            group_rows=by_column[layout.column_order[layout.group_start[:-1]]],
            column_sums=forgetting * old.column_sums,
            column_squares=forgetting * old.column_squares,
            sum_of_squares=forgetting * old.sum_of_squares,
        )
        statistics = Statistics(
            forgetting * sums.gram,
            forgetting * sums.totals,
            forgetting * sums.cross,
            np.minimum(counts, n_samples),
        )
        return replace(
            self,
            observations=observations,
            n_samples=int(n_samples),
            rest=Rest(of_rows, of_columns, of_features),
            statistics=statistics,
        )

    def joined(self, source: RowSource, summary: Summary) -> tuple[Observations, Observations]:
        """Observations of a batch, and of all rows with it."""
        groups = joined_groups(self.observations.summary.column_group, summary.column_group)
        batch = Observations.from_summary(
            source, replace(summary, column_group=groups), centre=self.centre, units=self.units
        )
        old, layout = self.observations, batch.layout
        moments = _moments(old.summary).joined(_moments(summary))
        n_samples = self.n_samples + batch.n_samples
        of_group = old_groups(old.layout, layout)
        group_rows = old.group_rows[of_group] + batch.group_rows
        is_complete = bool((group_rows == n_samples).all())
        pattern = COMPLETE if is_complete else OWN_PATTERN
        whole_summary = Summary(
            **vars(moments),
            row_pattern=np.broadcast_to(np.int32(pattern), (n_samples,)),
            n_patterns=1,
            column_group=groups,
        )
        whole = replace(
            batch,
            summary=whole_summary,
            group_rows=group_rows,
            column_sums=relaid(old.column_sums, old.layout, layout) + batch.column_sums,
            column_squares=relaid(old.column_squares, old.layout, layout) + batch.column_squares,
            sum_of_squares=old.sum_of_squares + batch.sum_of_squares,
        )
        return batch, whole

    def among(self, whole: Observations) -> Past:
        """The same with columns in the order of all rows, whose groups are as fine or finer."""
        old, layout = self.observations.layout, whole.layout

        def moved(by_position: FloatArray) -> FloatArray:
            return relaid(by_position, old, layout)

        of_group, sums, q = old_groups(old, layout), self.statistics, self.factors
        return replace(
            self,
            statistics=Statistics(
                sums.gram[of_group], sums.totals[of_group], moved(sums.cross), sums.counts
            ),
            factors=Factors(*map(moved, (q.location, q.scale, q.mean, q.variance))),
            intercept=replace(
                self.intercept,
                mean=moved(self.intercept.mean),
                variance=moved(self.intercept.variance),
            ),
            hyperparameters=self.hyperparameters.moved(self.observations, whole),
        )


def _moments(summary: Summary) -> ColumnMoments:
    return ColumnMoments(
        summary.counts, summary.means, summary.squares, summary.lowest, summary.highest
    )


def relaid(by_position: FloatArray, old: Layout, new: Layout) -> FloatArray:
    """An array (..., D) from one layout order to another."""
    return new.arrange(old.restore(by_position))


def old_groups(old: Layout, new: Layout) -> IntArray:
    """For every group of a finer layout, the group of the old one that its columns were in."""
    first = new.column_order[new.group_start[:-1]] if new.n_features else new.column_order
    return old.group_of_position[old.position_of_column[first]]


@dataclass
class StreamState(DistributedState):
    """As `DistributedState`: Z is that of a batch, and sums are of all rows that were seen."""

    before: Statistics | None = None  # of the rows before the batch
    hash_before: Hashes | None = None
    rest_before: FloatArray | None = None  # of their counts, beyond whole rows

    @classmethod
    def of_batch(cls, context: Context, past: Past, point: StartingPoint) -> Self:
        """The state of all rows, those of the batch at a starting point."""
        assert point.intercept is not None and point.hyperparameters is not None
        state = cls(
            point.assignments,
            past.column_hash,
            past.statistics,
            Factors.from_parameters(point.location, point.scale),
            point.intercept,
            point.hyperparameters,
            np.zeros(0, dtype=np.uint8),
            before=past.statistics,
            hash_before=past.column_hash,
            rest_before=past.rest.features,
        )
        state.recount(context)
        return state

    @property
    def codes(self) -> Any:
        """None: those of rows that have gone are known by their sums alone."""
        return None

    def kept_assignments(self) -> Any:
        """None likewise."""
        return None

    def recount(self, context: Context) -> None:
        """Sum statistics and hashes of the batch anew, and add those of the rows before."""
        assert self.before is not None and self.hash_before is not None
        totals: CodeTotals = self.remote.totals()
        statistics = Statistics.from_sums(context.observations, totals.statistics)
        old = slice(0, self.before.n_components)  # those that were born since stand behind
        statistics.gram[:, old, old] += self.before.gram
        statistics.totals[:, old] += self.before.totals
        statistics.cross[old] += self.before.cross
        statistics.counts[old] += self.before.counts
        self.statistics = statistics
        self.column_hash = totals.column_hash
        self.column_hash[old] ^= self.hash_before

    def keep(self, keep: npt.NDArray[np.bool_]) -> None:
        """Drop the other features, of the rows before the batch, too."""
        assert self.before is not None and self.hash_before is not None
        super().keep(keep)
        old = keep[: self.before.n_components]
        self.before, self.hash_before = self.before.select(old), self.hash_before[old]
        assert self.rest_before is not None
        self.rest_before = self.rest_before[old]

    def whole_rest(self) -> FloatArray:
        """What rows of each feature count for beyond whole rows; none of those born since."""
        assert self.rest_before is not None
        return np.pad(self.rest_before, (0, self.n_components - self.rest_before.size))


class Absorption:
    """Makes one feature of two that nearly the same rows have.

    In memory a merge asks which rows have either; of rows that are gone only sums are known. So
    one of the two is dropped, and the other takes over what it explains.
    """

    name: ClassVar[str] = "merge"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Pairs, the most alike first."""
        correlations = np.triu(code_correlations(state), 1)
        first, second = np.nonzero(correlations > SAME_ROWS)
        order = np.argsort(-correlations[first, second], kind="stable")[:MOST_PAIRS]
        for pair in np.stack([first, second], axis=1)[order]:
            kept, dropped = pair[np.argsort(-state.statistics.counts[pair], kind="stable")]
            changed, location = state.copy(), state.factors.location.copy()
            location[kept] = state.factors.mean[kept] + state.factors.mean[dropped]
            changed.factors = Factors.from_parameters(location, state.factors.scale)
            changed.keep(np.arange(state.n_components) != dropped)
            yield Proposal(changed)


@dataclass(frozen=True)
class BatchStart:
    """A start from what is kept of the rows before: a batch is placed by the features there are."""

    past: Past  # in the layout of all rows
    batch: Observations

    @property
    def n_seen(self) -> int:
        """Rows that will have been seen."""
        return self.past.n_seen + self.batch.n_samples

    def draw(self, method: MEIBPMethod, context: Context) -> StartingPoint:
        """A starting point; its assignments are those of the batch."""
        past, rows = self.past, context.observations.source
        assert isinstance(rows, ChunkedRows)
        part = rows.workers.hold(Part(self.batch, int(rows.starts[0])))
        frozen = rows.workers.hold(
            frozen_at(  # a feature whose rows are all forgotten may be found again
                method,
                self.batch,
                past,
                np.maximum(past.statistics.counts, 1),
                max(past.n_samples, 1),
            )
        )
        coded = rows.workers.submit(assigned_part, frozen, part)
        return StartingPoint(
            RemoteCodes(rows, [part], [coded], past.statistics.n_components),
            past.factors.location,
            past.factors.scale,
            past.intercept,
            past.hyperparameters,
        )


@dataclass(frozen=True)
class StreamMethod(DistributedMethod):
    """The method with its settings, for a batch and what is kept of the rows before."""

    kinds_of_moves: ClassVar[tuple[Move, ...]] = (Birth(), Absorption(), Removal())
    state_kind: ClassVar[type[MEIBPState]] = StreamState

    @property
    def of_batch(self) -> BatchStart:
        """The start."""
        assert isinstance(self.start, BatchStart)
        return self.start

    def init(self, context: Context) -> MEIBPState:
        """Place the rows of the batch by the features that are known, and answer to them."""
        point = self.start.draw(self, context)
        state = StreamState.of_batch(context, self.of_batch.past, point)
        state.block_size = self.first_block_size(self.of_batch.batch.n_samples)
        state.drop_empty()
        state.refresh(context)
        return state

    def update_rows(
        self, context: Context, state: MEIBPState, rows: IntArray | None = None
    ) -> tuple[int, int]:
        """Optimise the rows of the batch; bits that changed, and rows proven optimal."""
        if state.searches_again:
            return self.search_again(context, state)
        n_rounds = -(-self.of_batch.batch.n_samples // state.block_size)
        changed = self.sweep_in_rounds(context, state, n_rounds)
        return changed.n_bits, changed.n_proven


def rows_of_batch(
    workers: ThreadWorkers, source: RowSource, n_samples: int, n_seen: int
) -> ChunkedRows:
    """The rows of a batch as the last of all rows."""
    n_rows, n_columns = source.shape
    is_sparse = not isinstance(source.rows(slice(0, 0)), np.ndarray)
    rows = ChunkedRows(
        workers, [workers.hold(source)], [n_rows], n_columns, source.dtype, is_sparse=is_sparse
    )
    rows.starts = rows.starts + n_seen
    rows.shape = (n_samples, n_columns)
    return rows


def stream_of(
    past: Past, source: RowSource, summary: Summary, workers: ThreadWorkers
) -> tuple[BatchStart, Observations]:
    """A start from a batch, and observations of all rows, of which those of the batch are there."""
    batch, whole = past.joined(source, summary)
    rows = rows_of_batch(workers, batch.source, past.n_samples + batch.n_samples, past.n_seen)
    return BatchStart(past.among(whole), batch), replace(whole, source=rows)
