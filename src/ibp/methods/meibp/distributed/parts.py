"""What a worker does with its chunk of the rows.

Z of a chunk is kept in bits. Every function here gives new codes and changes none, so that what is
lost with a worker can be made again, and a round that is not accepted leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.data.chunks import Part
from ibp.kernels.column_hashes import flip_hashes
from ibp.kernels.records import ExactSearch, FactorArrays, PriorTerms, RowContext
from ibp.methods.meibp.assign import FrozenModel
from ibp.methods.meibp.blocks import (
    ROWS_ONE_BY_ONE,
    ROWS_SEARCHED_AGAIN,
    BlockTask,
    Change,
    ImprovedBlock,
    Visit,
    improve_piece,
    visit_some,
)
from ibp.methods.meibp.state import ROWS_BY_ROWS, PlaceRows
from ibp.methods.row_forms import SearchForms
from ibp.model import Statistics
from ibp.model.evidence import sums_of_squares
from ibp.model.statistics import uncentred_sums
from ibp.parallel import Threads, ranges
from ibp.submodular.records import Search

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class RoundSums:
    """What some rows add to the sums of all by a change of their codes; K(K + D + 3) numbers.

    Attributes
    ----------
    change : Change
        Of Z'Z, of column sums of Z and of Z'X.
    step : ndarray of shape (K,)
        Of the counts.
    flips : ndarray of shape (K, 2)
        Of the hashes of Z's columns, by exclusive or.
    gain : float
        What the rows gained with the tangent in place of the count term.
    n_bits, n_rows, n_proven, n_failed : int
        Bits and rows that changed, rows proven optimal, rows whose searches have failed.
    owners : tuple of int
        Numbers of the rows that were left as they are because they have a feature for themselves.
    """

    change: Change
    step: IntArray
    flips: Hashes
    gain: float = 0.0
    n_bits: int = 0
    n_rows: int = 0
    n_proven: int = 0
    n_failed: int = 0
    owners: tuple[int, ...] = ()


def add_sums(*sums: RoundSums) -> RoundSums:
    """The sums of several chunks together."""
    change, flips = Change(), sums[0].flips.copy()
    for part in sums:
        change += part.change
    for part in sums[1:]:
        flips ^= part.flips
    numbers = ("gain", "n_bits", "n_rows", "n_proven", "n_failed")
    return RoundSums(
        change,
        np.sum([part.step for part in sums], axis=0, dtype=np.int64),
        flips,
        owners=tuple(row for part in sums for row in part.owners),
        **{name: sum(getattr(part, name) for part in sums) for name in numbers},
    )


@dataclass(frozen=True)
class CodedRows:
    """Z of a chunk in bits, and how often searches of its rows have failed.

    ``sums`` are those of the change by which these codes came to be.
    """

    bits: Codes  # (n, K / 8)
    n_components: int
    failed_searches: Codes  # (n,)
    sums: RoundSums | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, codes: npt.NDArray[Any], failed: Codes | None = None, sums: RoundSums | None = None
    ) -> CodedRows:
        """Pack zeros and ones."""
        if failed is None:
            failed = np.zeros(codes.shape[0], dtype=np.uint8)
        return cls(np.packbits(codes.astype(bool), axis=1), codes.shape[1], failed, sums)

    def __sizeof__(self) -> int:
        """About its bytes, for Dask."""
        return self.bits.nbytes + self.failed_searches.nbytes

    def codes(self, rows: Any = slice(None)) -> Codes:
        """Zeros and ones of some rows."""
        return np.unpackbits(self.bits[rows], axis=1, count=self.n_components)


def sums_of(coded: CodedRows) -> RoundSums:
    """The sums of the change by which codes came to be."""
    assert coded.sums is not None
    return coded.sums


class RoundTask(NamedTuple):
    """What goes out for a round: E[A] and what belongs to it, and the counts' tangent.

    Attributes
    ----------
    mean, variance, offset, noise_precision
        Of the factors, the intercept and the noise, in units of the columns and layout order.
    log_odds : ndarray of shape (K,)
        The tangent of the prior's count term at the present counts.
    single : ndarray of shape (K,)
        Whether one row alone has a feature.
    search : Search
        How rows are searched.
    counts_failures : bool
        Whether searches have their full budgets, so that those in vain are counted.
    second_codes : int
        How many codes a second search goes on from; 0 for none.
    uniforms : tuple of int or None
        Seed and number of random numbers for each row, for the double greedies only.
    """

    mean: FloatArray
    variance: FloatArray
    offset: FloatArray
    noise_precision: FloatArray | float
    log_odds: FloatArray
    single: npt.NDArray[np.bool_]
    search: Search
    counts_failures: bool
    second_codes: int
    uniforms: tuple[int, int] | None


class VisitTask(NamedTuple):
    """What goes out to visit rows one by one: the round's, and what the exact objective reads."""

    round: RoundTask
    n_samples: int
    counts: IntArray
    column_hash: Hashes
    location: FloatArray
    scale: FloatArray
    prior: PriorTerms
    search: ExactSearch


def own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array that compiled code takes for one that may be written to, as all of its are."""
    return array if array.flags.writeable else array.copy()


def forms_of(task: RoundTask, observations: Observations) -> SearchForms:
    """What rows of a chunk have in common."""
    return SearchForms(
        observations,
        own(task.mean),
        task.noise_precision,
        variance=own(task.variance),
        offset=own(task.offset),
    )


def uniforms_of(task: RoundTask, first_row: int, n_rows: int) -> FloatArray | None:
    """Random numbers of some rows, the same whoever draws them."""
    if task.uniforms is None:
        return None
    seed, n_each = task.uniforms
    generator = np.random.default_rng([seed, first_row])
    return generator.random((n_rows, n_each) if n_each else (1, 0))


def share_of(n_rows: int, number: int, n_rounds: int) -> slice:
    """The rows of a chunk that are optimised in a round of a sweep."""
    return slice(n_rows * number // n_rounds, n_rows * (number + 1) // n_rounds)


def improve_part(
    task: RoundTask, part: Part, coded: CodedRows, number: int, n_rounds: int
) -> CodedRows:
    """Optimise a round's rows of a chunk, each by itself against the tangent."""
    observations, k = part.observations, coded.n_components
    rows = share_of(observations.n_samples, number, n_rounds)
    n_rows = rows.stop - rows.start
    codes = coded.codes(rows)
    owns_a_feature = np.asarray(codes[:, task.single].any(axis=1))
    failed = own(coded.failed_searches.copy())
    step, flips = np.zeros(k, dtype=np.int64), np.zeros((k, 2), dtype=np.uint64)
    with single_threaded_blas():
        forms = forms_of(task, observations)
        forms.for_rows(rows)
        block_task = BlockTask(
            observations,
            forms,
            RowsFrom(codes, rows.start),  # type: ignore[arg-type]
            failed if task.counts_failures else None,
            rows,
            owns_a_feature,
            uniforms_of(task, part.first_row + rows.start, n_rows),
            own(task.log_odds),
            task.search,
            task.second_codes,
        )
        size = observations.piece_rows
        if task.second_codes:
            size = min(size, ROWS_SEARCHED_AGAIN)
        pieces = (improve_piece(block_task, piece) for piece in ranges(n_rows, size))
        block = ImprovedBlock.of(pieces, failed)
    bits, n_bits, n_changed = coded.bits, 0, 0
    if block.pieces:
        changed, old, new = block.changed_rows()
        step = new.sum(axis=0, dtype=np.int64) - old.sum(axis=0, dtype=np.int64)
        flip_hashes(part.first_row + changed, old, new, flips)
        bits = bits.copy()
        bits[changed] = np.packbits(new, axis=1)
        n_bits, n_changed = int((old != new).sum()), changed.size
    sums = RoundSums(
        block.change,
        step,
        flips,
        block.gain,
        n_bits,
        n_changed,
        block.n_proven,
        int(np.count_nonzero(failed[rows])),
        tuple((part.first_row + rows.start + np.flatnonzero(owns_a_feature)).tolist()),
    )
    return CodedRows(bits, k, failed, sums)


class RowsFrom:
    """Some consecutive rows of a matrix, known by their numbers in the whole."""

    def __init__(self, values: Codes, first_row: int) -> None:
        self.values, self.first_row = values, first_row

    def __getitem__(self, rows: slice) -> Codes:
        return self.values[rows.start - self.first_row : rows.stop - self.first_row]


def visit_part(task: VisitTask, part: Part, coded: CodedRows, rows: IntArray) -> CodedRows:
    """Visit some rows of a chunk one by one, while no other row changes."""
    counts, column_hash = task.counts.copy(), task.column_hash.copy()
    failed, bits, change = coded.failed_searches, coded.bits.copy(), Change()
    n_bits = n_changed = n_proven = 0
    with single_threaded_blas():
        forms = forms_of(task.round, part.observations)
        factors = FactorArrays(
            own(task.location), own(task.scale), own(task.round.mean), own(task.round.variance)
        )
        prior = task.prior._replace(share=own(task.prior.share))
        context = RowContext(task.n_samples, counts, column_hash, factors, prior)
        visit = Visit(forms, context, task.search)
        for some in ranges(rows.size, ROWS_ONE_BY_ONE):
            which, old = rows[some], coded.codes(rows[some])
            numbers = part.first_row + which
            uniforms = uniforms_of(task.round, int(numbers[0]), which.size)
            visited = visit_some(visit, which, numbers, old, uniforms)
            n_bits += visited.n_changed
            n_proven += visited.n_proven
            if visited.n_changed:
                n_changed += int((visited.codes != old).any(axis=1).sum())
                bits[which] = np.packbits(visited.codes, axis=1)
                change += visited.change
    sums = RoundSums(
        change,
        counts - task.counts,
        column_hash ^ task.column_hash,
        n_bits=n_bits,
        n_rows=n_changed,
        n_proven=n_proven,
    )
    return CodedRows(bits, coded.n_components, failed, sums)


def assigned_part(frozen: FrozenModel, part: Part) -> CodedRows:
    """The rows of a chunk placed by features that are known."""
    return CodedRows.of(frozen.assign(part.observations, Threads())[0])


class CodeTotals(NamedTuple):
    """Sums over rows and hashes of columns, for codes that nothing is known of yet."""

    statistics: Statistics
    column_hash: Hashes


def totals_of(part: Part, coded: CodedRows) -> CodeTotals:
    """Sum up a chunk anew."""
    codes = coded.codes()
    hashes = np.zeros((codes.shape[1], 2), dtype=np.uint64)
    flip_hashes(part.numbers, np.zeros_like(codes), codes, hashes)
    with single_threaded_blas():
        return CodeTotals(uncentred_sums(part.observations, codes), hashes)


def add_totals(*totals: CodeTotals) -> CodeTotals:
    """The totals of several chunks together."""
    whole, hashes = deepcopy(totals[0].statistics), totals[0].column_hash.copy()
    for part in totals[1:]:
        whole += part.statistics
        hashes ^= part.column_hash
    return CodeTotals(whole, hashes)


def selected_columns(coded: CodedRows, columns: npt.NDArray[Any]) -> CodedRows:
    """Some of the features."""
    return CodedRows.of(coded.codes()[:, columns], coded.failed_searches)


def derived_columns(
    coded: CodedRows, columns_of: Callable[..., npt.NDArray[Any]], *arguments: Any
) -> CodedRows:
    """Features that follow from those that there are."""
    return CodedRows.of(columns_of(coded.codes(), *arguments))


def placed_columns(part: Part, coded: CodedRows, work: PlaceRows, task: Any) -> CodedRows:
    """Features that follow from the rows and their codes."""
    codes = coded.codes()
    pieces = ranges(codes.shape[0], ROWS_BY_ROWS)
    with single_threaded_blas():
        return CodedRows.of(
            np.concatenate([work(part.observations, codes, task, rows) for rows in pieces])
        )


def joined_columns(first: CodedRows, second: CodedRows) -> CodedRows:
    """The features of both."""
    return CodedRows.of(np.hstack([first.codes(), second.codes()]), first.failed_searches)


def without_failures(coded: CodedRows) -> CodedRows:
    """The same codes, as if no search had failed."""
    return CodedRows(coded.bits, coded.n_components, np.zeros_like(coded.failed_searches))


def codes_of(coded: CodedRows, rows: Any) -> Codes:
    """Zeros and ones of some rows."""
    return coded.codes(rows)


def squares_of_part(
    part: Part, coded: CodedRows, mean: FloatArray, intercept: FloatArray, positions: Any
) -> FloatArray:
    """Squared residuals of a chunk at some layout positions, summed over its rows."""
    with single_threaded_blas():
        return sums_of_squares(part.observations, mean, intercept, coded.codes(), positions)


def add_arrays(*arrays: FloatArray) -> FloatArray:
    """The sum of arrays."""
    return np.asarray(np.sum(arrays, axis=0))
