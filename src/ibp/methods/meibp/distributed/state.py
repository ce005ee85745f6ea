"""The state of a fit whose Z is with the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ibp.data import Observations, as_source
from ibp.data.chunks import ChunkedSummary, observed_parts
from ibp.errors import InvalidValueError
from ibp.methods.context import Context
from ibp.methods.meibp.distributed.codes import RemoteCodes
from ibp.methods.meibp.state import ColumnsOf, MEIBPState, PlaceRows
from ibp.methods.state import Arrays
from ibp.model import AnyHyperparameters, Factors, Intercept, Statistics


@dataclass
class DistributedState(MEIBPState):
    """As `MEIBPState`, but ``assignments`` are `RemoteCodes`, which know which searches failed."""

    n_failed: int = 0  # rows whose searches have failed, in the last sweep
    lineage: int = 0  # bytes that were sent since codes were last copied to the main process

    @classmethod
    def from_parts(
        cls,
        context: Context,
        assignments: Any,
        factors: Factors,
        intercept: Intercept,
        hyperparameters: AnyHyperparameters,
        statistics: Statistics | None = None,
    ) -> Self:
        """Make a state; assignments in memory are sent out, and workers sum up the statistics."""
        if not isinstance(assignments, RemoteCodes):
            summary = context.observations.summary
            assert isinstance(summary, ChunkedSummary)
            parts = observed_parts(context.observations)
            assignments = RemoteCodes.from_array(summary.rows, parts, assignments)
        totals = assignments.totals()
        return cls(
            assignments,
            totals.column_hash,
            Statistics.from_sums(context.observations, totals.statistics),
            factors,
            intercept,
            hyperparameters,
            np.zeros(0, dtype=np.uint8),
        )

    def copy(self) -> Self:
        """A state of its own; codes with workers never change, so that both may have them."""
        return self.copy_but_assignments()

    @property
    def remote(self) -> RemoteCodes:
        """Z."""
        codes: Any = self.assignments
        assert isinstance(codes, RemoteCodes)
        return codes

    @remote.setter
    def remote(self, codes: RemoteCodes) -> None:
        self.assignments = codes  # type: ignore[assignment]

    def derived_codes(self, columns_of: ColumnsOf, *arguments: Any) -> Any:
        """Columns of codes that follow from Z row by row."""
        return self.remote.derived(columns_of, *arguments)

    def codes_by_rows(self, context: Context, work: PlaceRows, task: Any) -> Any:
        """Columns of codes that follow from rows of X and of Z."""
        return self.remote.placed(work, task, task.share.size)

    def rows_present(self, context: Context) -> tuple[int, int]:
        """The number of the first row that can be looked at, and that after the last."""
        starts = self.remote.rows.starts
        return int(starts[0]), int(starts[-1])

    def rows_at_hand(
        self, context: Context, rows: npt.NDArray[np.int64]
    ) -> tuple[Observations, npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Some rows and their codes, fetched, and their places among these."""
        observations = context.observations
        pattern = observations.row_pattern[: rows.size]
        fetched = replace(
            observations,
            source=as_source(observations.source.rows(rows)),
            summary=replace(observations.summary, row_pattern=pattern),
        )
        return fetched, self.remote[rows], np.arange(rows.size)

    def rows_with(self, features: npt.ArrayLike) -> npt.NDArray[np.int64] | None:
        """All rows: those of other numbers would have to be fetched."""
        return None

    def forget_failures(self) -> None:
        """Let searches that have failed have their whole budget."""
        if self.n_failed:
            self.remote = self.remote.without_failures()
            self.n_failed = 0

    @property
    def has_failures(self) -> bool:
        """Whether a row has less than its whole budget because its searches failed."""
        return self.n_failed > 0

    def add_codes(self, context: Context, codes: Any) -> None:
        """Add columns to Z, which are with the workers or are sent there."""
        if not isinstance(codes, RemoteCodes):
            codes = RemoteCodes.from_array(self.remote.rows, self.remote.parts, codes)
        self.remote = self.remote.joined(codes)
        self.recount(context)

    def keep(self, keep: npt.NDArray[np.bool_]) -> None:
        """Drop the other features; their order stays."""
        self.remote = self.remote[:, keep]
        self.column_hash = self.column_hash[keep]
        self.statistics = self.statistics.select(keep)
        self.factors = self.factors.select(keep)

    def recount(self, context: Context) -> None:
        """Sum statistics and hashes anew."""
        totals = self.remote.totals()
        self.column_hash = totals.column_hash
        self.statistics = Statistics.from_sums(context.observations, totals.statistics)

    def to_arrays(self) -> Arrays:
        """Refuse: it is not here."""
        raise InvalidValueError(
            "The state of a fit to a Dask X lies with the workers and cannot be written down",
            "Leave out what would write it, or fit rows that are in memory or in a file",
        )

    def kept_assignments(self) -> Any:
        """Z as a fitted model keeps it: a Dask array, whose blocks are with the workers."""
        return self.remote.to_dask()

    def anchor(self) -> None:
        """Copy the codes to the main process, so that those that are lost begin there."""
        self.remote = self.remote.anchored()
        self.lineage = 0
