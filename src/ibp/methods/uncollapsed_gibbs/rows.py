"""A sweep over the rows of Z for the uncollapsed Gibbs sampler: pieces of X, and slots to grow in.

Rows are sampled one after another, because each changes the counts for the next. X is read in
fixed pieces, centred and with zeros for what is missing, so that one product with A' serves all the
rows of a piece. Sparse data are made dense piece by piece: a birth looks at every column anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.uncollapsed_gibbs import RowModel, sample_rows
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
BitArray = npt.NDArray[np.uint8]

# Rows of a piece, fewer if they are long: a piece should take a few megabytes.
PIECE_ROWS = 256
PIECE_ENTRIES = 1 << 20
# Free slots to begin with, and how much room there is after it ran out.
SPARE_SLOTS = 4
GROWTH = 1.5


@dataclass
class Slots:
    """The features of a sweep and room for more; a slot that no row has is free.

    Attributes
    ----------
    assignments : ndarray of shape (N, S), uint8
        Z.
    counts : ndarray of shape (S,)
        m.
    components : ndarray of shape (S, D)
        A, in the user's column order.
    gram : ndarray of shape (S, S)
        A A'.
    fresh : ndarray of shape (S,), bool
        Which slots were filled in the present piece.
    """

    assignments: BitArray
    counts: npt.NDArray[np.int64]
    components: FloatArray
    gram: FloatArray
    fresh: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, assignments: BitArray, components: FloatArray, n_spare: int) -> Slots:
        """Copies, with some free slots."""
        counts = np.count_nonzero(assignments, axis=0).astype(np.int64)
        fresh = np.zeros(counts.size, dtype=bool)
        slots = cls(assignments, counts, components, components @ components.T, fresh)
        slots.grow(n_spare)
        return slots

    def grow(self, n_more: int) -> None:
        """Add free slots."""
        n_slots = self.counts.size + n_more
        self.assignments = enlarged(self.assignments, (self.assignments.shape[0], n_slots))
        self.counts = enlarged(self.counts, (n_slots,))
        self.components = enlarged(self.components, (n_slots, self.components.shape[1]))
        self.gram = enlarged(self.gram, (n_slots, n_slots))
        self.fresh = enlarged(self.fresh, (n_slots,))


def enlarged(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A copy in a larger array, zero elsewhere."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger


def sweep_rows(
    observations: Observations,
    offset: FloatArray,
    slots: Slots,
    model: RowModel,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
) -> int:
    """Sample every row of Z once; returns how many entries changed.

    ``offset`` is what X is centred by, in the user's column order. Told to stop, it leaves the
    remaining pieces as they are.
    """
    n_changed = 0
    piece_rows = max(1, min(PIECE_ROWS, PIECE_ENTRIES // max(observations.n_features, 1)))
    for rows in ranges(observations.n_samples, piece_rows):
        if should_stop():
            break
        n_changed += _sweep_piece(observations.values[rows], offset, slots, rows, model, rng)
    return n_changed


def _sweep_piece(
    values: Any,
    offset: FloatArray,
    slots: Slots,
    rows: slice,
    model: RowModel,
    rng: np.random.Generator,
) -> int:
    """Sample some rows; ``values`` are theirs."""
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    centred = dense - offset
    observed = ~np.isnan(centred)
    complete = observed.all(axis=1)
    if not complete.all():
        centred[~observed] = 0.0
    linear = centred @ slots.components.T
    slots.fresh[:] = False
    row, n_changed = 0, 0
    while True:
        row, changed = sample_rows(
            row,
            centred,
            observed,
            complete,
            linear,
            slots.assignments[rows],
            slots.counts,
            slots.components,
            slots.gram,
            slots.fresh,
            model,
            rng,
        )
        n_changed += int(changed)
        if row == centred.shape[0]:
            return n_changed
        n_more = int(GROWTH * slots.counts.size) - slots.counts.size + 1
        slots.grow(n_more)
        linear = enlarged(linear, (centred.shape[0], slots.counts.size))
