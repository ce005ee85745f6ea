"""Sufficient statistics of the codes: all that the factors and the bound need to know of X and Z.

Z'Z, Z'X and sums of Z, with Z'Z once per column group because a row counts only where it is
observed. Codes may be real numbers: only ``counts`` looks at which of them are not zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Layout, Observations
from ibp.data.summary import COMPLETE, OWN_PATTERN
from ibp.parallel import Executor, Threads, ranges

FloatArray = npt.NDArray[np.float64]

# Column groups narrower than this on average are gone through many at a time.
NARROW_GROUP = 8
COLUMNS_AT_ONCE = 256


@dataclass
class Statistics:
    """Sums over the rows, of X about its centre.

    Attributes
    ----------
    gram : ndarray of shape (G, K, K)
        Z'Z over the rows that observe each column group.
    totals : ndarray of shape (G, K)
        Column sums of Z over the same rows.
    cross : ndarray of shape (K, D)
        Z'X over the observed entries, columns in layout order.
    counts : ndarray of shape (K,)
        m, how many rows have each feature.
    doubt : ndarray of shape (G, K) or None
        Sums of the codes' variances over the same rows, which the diagonals of ``gram`` have in
        them; None for codes that are known.
    """

    gram: FloatArray
    totals: FloatArray
    cross: FloatArray
    counts: npt.NDArray[np.int64]
    doubt: FloatArray | None = None

    @classmethod
    def from_codes(
        cls,
        observations: Observations,
        codes: npt.NDArray[np.generic],
        executor: Executor | None = None,
        variance: npt.NDArray[np.floating] | None = None,
    ) -> Statistics:
        """One pass over X; products in X's precision, sums in double precision.

        ``codes`` are expectations if there is a ``variance``.
        """
        total = cls.from_sums(observations, uncentred_sums(observations, codes, executor))
        if variance is not None:
            total.doubt = sum_by_group(observations, variance)
            total.add_to_diagonal(total.doubt)
        return total

    @classmethod
    def from_sums(cls, observations: Observations, sums: Statistics) -> Statistics:
        """From `uncentred_sums` over all rows, which may have been added up elsewhere."""
        centred = observations.sums_in_units(sums.cross) - centre_sums(observations, sums.totals)
        return cls(sums.gram, sums.totals, centred, sums.counts)

    def __iadd__(self, other: Statistics) -> Statistics:
        """Add the sums over other rows, of codes that are known."""
        self.gram += other.gram
        self.totals += other.totals
        self.cross += other.cross
        self.counts += other.counts
        return self

    def add_to_diagonal(self, doubt: FloatArray) -> None:
        """Make squares of expectations, or sums of them, expectations of squares."""
        diagonal = np.arange(self.n_components)
        self.gram[:, diagonal, diagonal] += doubt

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.counts.size)

    @property
    def own(self) -> FloatArray:
        """Diagonals of Z'Z, shape (G, K)."""
        return np.diagonal(self.gram, axis1=1, axis2=2)

    def gram_times(self, layout: Layout, factors: FloatArray) -> FloatArray:
        """Z'Z times K x D factors, each column with the Z'Z of its group."""
        return times_by_group(self.gram, layout, factors)

    def select(self, keep: npt.NDArray[np.bool_]) -> Statistics:
        """The statistics of some of the features."""
        return Statistics(
            np.ascontiguousarray(self.gram[:, keep][:, :, keep]),
            np.ascontiguousarray(self.totals[:, keep]),
            np.ascontiguousarray(self.cross[keep]),
            self.counts[keep],
            None if self.doubt is None else np.ascontiguousarray(self.doubt[:, keep]),
        )


def sum_by_group(
    observations: Observations, values: npt.NDArray[np.floating], rows: Any = slice(None)
) -> FloatArray:
    """Column sums of an (n, K) matrix over those of ``rows`` that observe each group; (G, K)."""
    total = values.sum(axis=0, dtype=np.float64)[None]
    if (observations.row_pattern[rows] == COMPLETE).all():
        return np.repeat(total, observations.layout.n_groups, axis=0)
    if isinstance(rows, slice):
        start, stop, _ = rows.indices(observations.n_samples)
        missed = sum(
            observations.missing_groups(slice(start + part.start, start + part.stop)).T
            @ values[part].astype(np.float64)
            for part in ranges(stop - start, observations.piece_rows)
        )
    else:
        missed = observations.missing_groups(rows).T @ values.astype(np.float64)
    return np.asarray(total - missed)


def uncentred_sums(
    observations: Observations,
    codes: npt.NDArray[np.generic],
    executor: Executor | None = None,
) -> Statistics:
    """One pass over X: sums as in `Statistics`, but of X as it is and in the user's order."""
    pieces = ranges(observations.n_samples, observations.piece_rows)
    sums = (executor or Threads()).map(sums_of_rows, (observations, codes), pieces)
    return added_up(observations, codes.shape[1], sums)


def added_up(
    observations: Observations, n_components: int, sums: Iterable[Statistics]
) -> Statistics:
    """The sums of pieces of the rows, added up in the order in which they come."""
    g, k, d = observations.layout.n_groups, n_components, observations.layout.n_columns
    total = Statistics(
        np.zeros((g, k, k)), np.zeros((g, k)), np.zeros((k, d)), np.zeros(k, dtype=np.int64)
    )
    for part in sums:
        total += part
    return total


def sums_of_rows(task: tuple[Observations, npt.NDArray[np.generic]], rows: slice) -> Statistics:
    """Those sums over some rows, by the codes of all."""
    observations, codes = task
    return sums_by_codes(observations, rows, observations.rows(rows), codes[rows])


def sums_by_codes(
    observations: Observations, rows: slice, block: Any, codes: npt.NDArray[np.generic]
) -> Statistics:
    """Those sums over some rows by their codes; ``block`` is their values.

    Z'Z and column sums of Z are one for all groups if they can be.
    """
    gram, totals = code_sums(observations, rows, codes)
    cross: Any = data_sums(block, codes)
    return Statistics(gram, totals, cross, np.count_nonzero(codes, axis=0))


def times_by_group(matrices: FloatArray, layout: Layout, factors: FloatArray) -> FloatArray:
    """Matrices of the column groups, (G, K, K), times K x D factors: each column by its group's."""
    if layout.n_groups == 1:
        return np.asarray(matrices[0] @ factors)
    if layout.n_groups * NARROW_GROUP <= layout.n_features:
        product = np.empty_like(factors)
        for g in range(layout.n_groups):
            columns = slice(layout.group_start[g], layout.group_start[g + 1])
            product[:, columns] = matrices[g] @ factors[:, columns]
        return product
    group = layout.group_of_position
    return np.concatenate(
        [
            (matrices[group[columns]] @ factors[:, columns].T[:, :, None])[:, :, 0].T
            for columns in ranges(layout.n_features, COLUMNS_AT_ONCE)
        ],
        axis=1,
    )


def data_sums(block: Any, codes: npt.NDArray[np.generic]) -> npt.NDArray[np.floating]:
    """Z'X of some rows as `Observations.rows` gives them, in the user's column order."""
    return np.asarray(codes.T.astype(block.dtype) @ block)


def centre_sums(observations: Observations, totals: FloatArray) -> FloatArray:
    """What `data_sums` lose when X is centred, from the column sums of Z in each group; K x D."""
    return totals[observations.layout.group_of_position].T * observations.remaining_centre


def sums_by_column(weights: FloatArray, layout: Layout, factors: FloatArray) -> FloatArray:
    """For each column, the sum of its K factors weighted by its group's row of (G, K) weights."""
    if layout.n_groups == 1:
        return np.asarray(weights[0] @ factors)
    return np.asarray(np.einsum("dk,kd->d", weights[layout.group_of_position], factors))


def code_sums(
    observations: Observations,
    rows: Any,
    codes: npt.NDArray[np.generic],
    less: npt.NDArray[np.generic] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Z'Z and column sums of Z over the given rows: one for all groups, or one for each.

    Shapes (1 or G, K, K) and (1 or G, K). If codes are given as ``less``, less their sums.
    """
    z = codes.astype(np.float64)
    y = np.zeros((z.shape[0], 0)) if less is None else less.astype(np.float64)
    k = z.shape[1]
    pattern = observations.row_pattern[rows]
    if (pattern == COMPLETE).all():
        gram, totals = z.T @ z, z.sum(axis=0)
        if less is not None:
            gram, totals = gram - y.T @ y, totals - y.sum(axis=0)
        return gram[None], totals[None]
    labels, first, member = np.unique(pattern, return_index=True, return_inverse=True)
    if labels[0] == OWN_PATTERN or 4 * labels.size > z.shape[0]:
        codes_of, pairs = z, z[:, :, None] * z[:, None, :]
        if less is not None:
            codes_of, pairs = z - y, pairs - y[:, :, None] * y[:, None, :]
        missing = observations.missing_groups(rows)
    else:  # rows of one pattern are summed together first
        members = [member.ravel() == label for label in range(labels.size)]
        codes_of = np.stack([z[part].sum(axis=0) for part in members])
        pairs = np.stack([z[part].T @ z[part] for part in members])
        if less is not None:
            codes_of = codes_of - np.stack([y[part].sum(axis=0) for part in members])
            pairs = pairs - np.stack([y[part].T @ y[part] for part in members])
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        missing = observations.missing_groups(numbers[first])
    # All rows, less those that miss the group: often few.
    pairs = pairs.reshape(pairs.shape[0], k * k)
    gram = pairs.sum(axis=0) - missing.T @ pairs
    totals = codes_of.sum(axis=0) - missing.T @ codes_of
    return gram.reshape(missing.shape[1], k, k), totals
