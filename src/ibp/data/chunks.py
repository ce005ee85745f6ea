"""Rows that lie in chunks with workers: what is known of all, and a source that fetches some.

A chunk is some consecutive rows of X, whole. Each is looked at where it is; what is known of all
rows together, moments and groups of columns, is added up from chunk to chunk and does not grow
with the rows. Then each chunk becomes `Observations` of its own that have the layout, the centre
and the units of the whole, and the same code works on its rows as on rows in memory.

The patterns of missing entries that rows have are numbered within a chunk. The main process knows
none of them, and takes every row that it fetches for one with a pattern of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.data.observations import Observations
from ibp.data.source import (
    Block,
    Rows,
    RowSource,
    all_rows,
    as_source,
    in_double_precision,
    is_sparse,
)
from ibp.data.summary import (
    COMPLETE,
    OWN_PATTERN,
    ColumnMoments,
    Summary,
    numbered_by_appearance,
    summarize,
)
from ibp.errors import InvalidTypeError, InvalidValueError, counted
from ibp.workers import Handle, Workers, add_up

IntArray = npt.NDArray[np.int64]

NUMBERS = "biuf"


def chunk_of(values: Any, number: int, n_columns: int, dtype: Any) -> RowSource:
    """A chunk as the source of its rows; a data frame, an array or a sparse matrix."""
    if hasattr(values, "to_numpy") and hasattr(values, "columns"):
        try:
            values = values.to_numpy(dtype=dtype, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(
                f"has something in chunk {number} that is not a number: {error}",
                "Encode it as a number, or use NaN for missing values",
                about="X",
            ) from error
    if not sparse.issparse(values):
        values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] != n_columns:
        raise InvalidValueError(
            f"gave chunk {number} as a block of shape {values.shape}, where rows of "
            f"{counted(n_columns, 'column')} were to be",
            "All chunks must have the columns that X says it has",
            about="X",
        )
    if values.dtype.kind not in NUMBERS:
        raise InvalidTypeError(
            f"has values of type {values.dtype} in chunk {number}, where numbers are needed",
            "Encode them as numbers; use NaN for missing values",
            about="X",
        )
    return as_source(values.astype(dtype, copy=False))


class ChunkLook(NamedTuple):
    """What one chunk tells of the whole, or several of them together."""

    n_rows: tuple[int, ...]  # of each chunk
    sparse: tuple[bool, ...]  # whether each is
    moments: ColumnMoments
    column_group: IntArray


def look_of(summary: Summary, source: RowSource) -> ChunkLook:
    """What the summary of a chunk tells of the whole."""
    moments = ColumnMoments(
        summary.counts, summary.means, summary.squares, summary.lowest, summary.highest
    )
    return ChunkLook((source.shape[0],), (is_sparse(source),), moments, summary.column_group)


def joined_looks(*looks: ChunkLook) -> ChunkLook:
    """What several chunks tell together."""
    whole = looks[0]
    for look in looks[1:]:
        whole = ChunkLook(
            whole.n_rows + look.n_rows,
            whole.sparse + look.sparse,
            whole.moments.joined(look.moments),
            joined_groups(whole.column_group, look.column_group),
        )
    return whole


def joined_groups(first: IntArray, second: IntArray) -> IntArray:
    """Groups of columns that are together in both, numbered in order of first appearance."""
    pairs = first * (int(second.max(initial=0)) + 1) + second
    return numbered_by_appearance(pairs)


def take_rows(source: RowSource, rows: Rows) -> Block:
    """Some rows of a chunk."""
    return source.rows(rows)


def first_wrong_of_chunk(source: RowSource, wrong: Callable[[Any], Any]) -> tuple[int, int] | None:
    """Row and column of the first entry of a chunk that is wrong."""
    return first_wrong(all_rows(source), wrong)


def first_wrong(block: Block, wrong: Callable[[Any], Any]) -> tuple[int, int] | None:
    """Row and column of the first entry of a block that is wrong."""
    stored = block.data if sparse.issparse(block) else block
    with np.errstate(invalid="ignore"):
        found = np.argwhere(wrong(stored))
    if not found.size:
        return None
    if stored is block:
        return int(found[0, 0]), int(found[0, 1])
    row = np.searchsorted(block.indptr, found[0, 0], side="right") - 1
    return int(row), int(block.indices[found[0, 0]])


class ChunkedRows:
    """The source of rows that lie in chunks with workers; rows that are asked for are fetched."""

    def __init__(
        self,
        workers: Workers,
        chunks: Sequence[Handle],
        n_rows: Sequence[int],
        n_columns: int,
        dtype: npt.DTypeLike,
        *,
        is_sparse: bool,
    ) -> None:
        self.workers = workers
        self.chunks = list(chunks)
        self.starts = np.concatenate([[0], np.cumsum(n_rows)]).astype(np.int64)
        self.shape: tuple[int, int] = (int(self.starts[-1]), n_columns)
        self.dtype = np.dtype(dtype)
        self._no_rows: Any = np.empty((0, n_columns), dtype=self.dtype)
        if is_sparse:
            self._no_rows = sparse.csr_array(self._no_rows)

    @property
    def n_chunks(self) -> int:
        """How many chunks there are."""
        return len(self.chunks)

    def rows_of(self, chunk: int) -> slice:
        """The numbers of a chunk's rows among all."""
        return slice(int(self.starts[chunk]), int(self.starts[chunk + 1]))

    def places(self, rows: Rows) -> tuple[IntArray, IntArray]:
        """The chunks that some rows are in, and their numbers there."""
        numbers = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else rows
        numbers = np.asarray(numbers, dtype=np.int64)
        chunk = np.searchsorted(self.starts, numbers, side="right") - 1
        return chunk, numbers - self.starts[chunk]

    def rows(self, rows: Rows) -> Block:
        """Some rows, fetched from the workers."""
        chunk, place = self.places(rows)
        if not chunk.size:
            return self._no_rows
        which = np.unique(chunk)
        blocks = self.workers.collect(
            [self.workers.submit(take_rows, self.chunks[c], place[chunk == c]) for c in which]
        )
        order = np.argsort(chunk, kind="stable")
        if sparse.issparse(self._no_rows):
            block = sparse.vstack(blocks, format="csr")
            return sparse.csr_array(block)[np.argsort(order)]
        block = np.empty((chunk.size, self.shape[1]), dtype=self.dtype)
        block[order] = np.concatenate(blocks)
        block.flags.writeable = False
        return block

    def first_wrong(self, wrong: Callable[[Any], Any]) -> tuple[int, int, str]:
        """Row and column of the first entry that is wrong, and the chunk's name."""
        submit = self.workers.submit
        found = self.workers.collect(
            [submit(first_wrong_of_chunk, chunk, wrong) for chunk in self.chunks]
        )
        for number, place in enumerate(found):
            if place is not None:
                rows = self.rows_of(number)
                name = f"chunk {number} with the rows {rows.start} to {rows.stop - 1}"
                return rows.start + place[0], place[1], name
        raise AssertionError("no entry is wrong")


@dataclass(frozen=True)
class ChunkedSummary(Summary):
    """A summary of rows in chunks; which patterns rows have is known to the chunks alone.

    Attributes
    ----------
    rows : ChunkedRows
        The rows.
    of_chunks : list of handles
        The summary of each chunk.
    """

    rows: ChunkedRows
    of_chunks: list[Handle]


def gather_chunks(
    workers: Workers, blocks: Sequence[Handle], n_columns: int, dtype: npt.DTypeLike
) -> tuple[ChunkedRows, ChunkedSummary]:
    """Rows that workers have in blocks, as a source, and what one look at each of them tells."""
    dtype = np.dtype(dtype)
    chunks = [
        workers.submit(chunk_of, block, number, n_columns, dtype)
        for number, block in enumerate(blocks)
    ]
    summaries = [workers.submit(summarize, chunk) for chunk in chunks]
    looks = [
        workers.submit(look_of, summary, chunk)
        for summary, chunk in zip(summaries, chunks, strict=True)
    ]
    (whole,) = workers.collect([add_up(workers, joined_looks, looks)])
    n_samples = sum(whole.n_rows)
    if n_samples == 0:
        raise InvalidValueError("has no rows: all of its chunks are empty", about="X")
    filled = [number for number, n_rows in enumerate(whole.n_rows) if n_rows]
    kinds = [whole.sparse[number] for number in filled]
    if any(kinds) and not all(kinds):
        raise InvalidValueError(
            f"has sparse chunks and dense ones: chunk {filled[kinds.index(True)]} is sparse, and "
            f"chunk {filled[kinds.index(False)]} is not",
            "Make all of them the one or the other",
            about="X",
        )
    source = ChunkedRows(
        workers,
        [chunks[number] for number in filled],
        [whole.n_rows[number] for number in filled],
        n_columns,
        dtype,
        is_sparse=all(kinds),
    )
    pattern = COMPLETE if bool((whole.moments.counts == n_samples).all()) else OWN_PATTERN
    summary = ChunkedSummary(
        **vars(whole.moments),
        row_pattern=np.broadcast_to(np.int32(pattern), (n_samples,)),
        n_patterns=1,
        column_group=whole.column_group,
        rows=source,
        of_chunks=[summaries[number] for number in filled],
    )
    return source, summary


@dataclass(frozen=True)
class Part:
    """A chunk's rows as observations, and where they stand among all."""

    observations: Observations
    first_row: int

    def __sizeof__(self) -> int:
        """About its bytes: Dask moves what it takes for small to whoever is idle."""
        n_rows, n_columns = self.observations.source.shape
        stored = all_rows(self.observations.source)
        n_stored = stored.data.size if sparse.issparse(stored) else n_rows * n_columns
        return int(n_stored * self.observations.dtype.itemsize)

    @cached_property
    def numbers(self) -> IntArray:
        """The numbers of its rows among all."""
        return np.arange(self.first_row, self.first_row + self.observations.n_samples)


def observed_parts(observations: Observations) -> list[Handle]:
    """Observations of all rows as those of each chunk, where the chunk is."""
    summary = observations.summary
    assert isinstance(summary, ChunkedSummary)
    source, workers = summary.rows, summary.rows.workers
    known = {field.name: getattr(summary, field.name) for field in fields(Summary)}
    without_rows = Summary(**known | {"row_pattern": np.zeros(0, dtype=np.int32)})
    no_rows = as_source(np.zeros((0, source.shape[1]), dtype=observations.dtype))
    in_common = replace(observations, source=no_rows, summary=without_rows)
    held = workers.hold(in_common)
    return [
        workers.submit(part_of, held, chunk, own, int(first_row))
        for chunk, own, first_row in zip(
            source.chunks, summary.of_chunks, source.starts, strict=False
        )
    ]


def part_of(whole: Observations, chunk: RowSource, own: Summary, first_row: int) -> Part:
    """A chunk as observations that have what all have in common."""
    source = in_double_precision(chunk) if whole.dtype == np.float64 else chunk
    order, group_start = whole.layout.column_order, whole.layout.group_start
    n_observed = own.counts[order[group_start[:-1]]] if order.size else order
    summary = replace(whole.summary, row_pattern=own.row_pattern, n_patterns=own.n_patterns)
    observations = replace(whole, source=source, summary=summary, group_rows=n_observed)
    return Part(observations, first_row)
