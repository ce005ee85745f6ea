"""Z that stays where its rows are: a handle of the codes of each chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.chunks import ChunkedRows
from ibp.methods.meibp.distributed.parts import (
    CodedRows,
    CodeTotals,
    add_arrays,
    add_totals,
    codes_of,
    derived_columns,
    joined_columns,
    placed_columns,
    selected_columns,
    squares_of_part,
    totals_of,
    without_failures,
)
from ibp.methods.meibp.state import PlaceRows
from ibp.workers import Handle, Work, Workers, add_up

FloatArray = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]


class RemoteCodes:
    """Zeros and ones of N x K, in bits and in chunks with the workers.

    None of it changes: what changes codes gives others. So a copy is the same codes.

    Parameters
    ----------
    rows : ChunkedRows
        Where the chunks begin, and who has them.
    parts : list of handles
        The chunks as `Part`.
    coded : list of handles
        Their codes, as `CodedRows`.
    n_components : int
        K.
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        rows: ChunkedRows,
        parts: Sequence[Handle],
        coded: Sequence[Handle],
        n_components: int,
    ) -> None:
        self.rows = rows
        self.parts = list(parts)
        self.coded = list(coded)
        self.shape: tuple[int, int] = (rows.shape[0], n_components)

    @classmethod
    def from_array(
        cls, rows: ChunkedRows, parts: Sequence[Handle], codes: npt.NDArray[Any]
    ) -> RemoteCodes:
        """Send codes to where their rows are; those of the first row come first."""
        workers = rows.workers
        bounds = pairwise(rows.starts - rows.starts[0])
        own = (CodedRows.of(codes[start:stop]) for start, stop in bounds)
        return cls(rows, parts, [workers.hold(coded) for coded in own], codes.shape[1])

    @property
    def workers(self) -> Workers:
        """Those who have them."""
        return self.rows.workers

    @property
    def size(self) -> int:
        """N times K."""
        return self.shape[0] * self.shape[1]

    def __deepcopy__(self, memo: dict[int, Any]) -> RemoteCodes:
        return self.with_coded(self.coded)

    def __getitem__(self, which: Any) -> Any:
        """Some rows, which are fetched; or, as in ``[:, columns]``, some features of all."""
        if isinstance(which, tuple):
            rows, columns = which
            assert rows == slice(None), which
            n_components = np.arange(self.shape[1])[columns].size
            return self.mapped(selected_columns, columns, n_components=n_components)
        chunk, place = self.rows.places(which)
        fetched = np.zeros((chunk.size, self.shape[1]), dtype=np.uint8)
        chunks = np.unique(chunk)
        own = [np.flatnonzero(chunk == c) for c in chunks]
        handles = [
            self.workers.submit(codes_of, self.coded[c], place[mine])
            for c, mine in zip(chunks, own, strict=True)
        ]
        for mine, codes in zip(own, self.workers.collect(handles), strict=True):
            fetched[mine] = codes
        return fetched

    def with_coded(self, coded: Sequence[Handle], n_components: int | None = None) -> RemoteCodes:
        """Other codes of the same rows."""
        return RemoteCodes(
            self.rows, self.parts, coded, self.shape[1] if n_components is None else n_components
        )

    def mapped(self, work: Work, *arguments: Any, n_components: int) -> RemoteCodes:
        """Codes that follow from these, chunk by chunk."""
        same = ([value] * len(self.coded) for value in arguments)
        return self.with_coded(self.workers.submit_each(work, self.coded, *same), n_components)

    def derived(self, columns_of: Callable[..., Any], *arguments: Any) -> RemoteCodes:
        """Features that follow from these row by row: ``columns_of(z, *arguments)``."""
        none = np.zeros((0, self.shape[1]), dtype=np.uint8)
        n_components = columns_of(none, *arguments).shape[1]
        return self.mapped(derived_columns, columns_of, *arguments, n_components=n_components)

    def placed(self, work: PlaceRows, task: Any, n_components: int) -> RemoteCodes:
        """Features that follow from rows of X and of these codes."""
        return self.with_coded(
            self._for_parts(placed_columns, work, self.workers.hold(task)), n_components
        )

    def _for_parts(self, work: Work, *arguments: Any) -> list[Handle]:
        """Have work done for every chunk with its codes."""
        same = ([value] * len(self.parts) for value in arguments)
        return self.workers.submit_each(work, self.parts, self.coded, *same)

    def joined(self, others: RemoteCodes) -> RemoteCodes:
        """The features of both."""
        coded = self.workers.submit_each(joined_columns, self.coded, others.coded)
        return self.with_coded(coded, self.shape[1] + others.shape[1])

    def without_failures(self) -> RemoteCodes:
        """The same codes, as if no search had failed."""
        return self.mapped(without_failures, n_components=self.shape[1])

    def totals(self) -> CodeTotals:
        """Sums over all rows, and the hashes of the columns."""
        totals = self._for_parts(totals_of)
        (whole,) = self.workers.collect([add_up(self.workers, add_totals, totals)])
        return CodeTotals(*whole)

    def sums_of_squares(
        self, mean: FloatArray, intercept: FloatArray, positions: Any
    ) -> FloatArray:
        """Squared residuals at some layout positions, summed over all rows."""
        held = [self.workers.hold(value) for value in (mean, intercept, positions)]
        squares = self._for_parts(squares_of_part, *held)
        (total,) = self.workers.collect([add_up(self.workers, add_arrays, squares)])
        return np.asarray(total)

    def anchored(self) -> RemoteCodes:
        """The same codes with a copy of their bits in the main process.

        Workers that are lost would have to make codes again from the start of the fit, and what
        that takes, every factor that was ever sent, would be kept for it. From here on they begin
        at the copy.
        """
        bits = self.workers.collect(self.coded)
        return self.with_coded(
            [
                self.workers.hold(CodedRows(own.bits, own.n_components, own.failed_searches))
                for own in bits
            ]
        )

    def to_dask(self) -> Any:
        """A Dask array of them, which stays with the workers."""
        import dask.array
        from dask import delayed

        arrays: Any = dask.array
        blocks = [
            arrays.from_delayed(
                delayed(codes_of)(own if _is_dask(own) else own.result(), slice(None)),
                shape=(int(n_rows), self.shape[1]),
                dtype=np.uint8,
            )
            for own, n_rows in zip(self.coded, np.diff(self.rows.starts), strict=True)
        ]
        return arrays.concatenate(blocks, axis=0)


def _is_dask(handle: Handle) -> bool:
    return type(handle).__module__.partition(".")[0] == "distributed"
