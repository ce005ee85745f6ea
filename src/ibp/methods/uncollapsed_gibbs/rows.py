"""A sweep over the rows of Z for the uncollapsed Gibbs sampler: pieces of X, and slots to grow in.

Rows are sampled one after another, because each changes the counts for the next. X is read in
fixed pieces, centred and with zeros for what is missing, so that one product with A' serves all the
rows of a piece. Sparse data are made dense piece by piece: a birth looks at every column anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.kernels.uncollapsed_gibbs import RowModel, RowPiece, Slots, sample_rows
from ibp.methods.context import Context
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
BitArray = npt.NDArray[np.uint8]

# Rows of a piece, fewer if they are long: a piece should take a few megabytes.
PIECE_ROWS = 256
PIECE_ENTRIES = 1 << 20
# Free slots to begin with, and how much room there is after it ran out.
SPARE_SLOTS = 4
GROWTH = 1.5


def with_spare_slots(assignments: BitArray, factors: FloatArray, n_spare: int) -> Slots:
    """Copies of Z and A, A in the user's column order, with some free slots."""
    counts = np.count_nonzero(assignments, axis=0).astype(np.int64)
    fresh = np.zeros(counts.size, dtype=bool)
    return grown(Slots(assignments, counts, factors, factors @ factors.T, fresh), n_spare)


def grown(slots: Slots, n_more: int) -> Slots:
    """A copy with more free slots."""
    n_slots = slots.counts.size + n_more
    return Slots(
        enlarged(slots.assignments, (slots.assignments.shape[0], n_slots)),
        enlarged(slots.counts, (n_slots,)),
        enlarged(slots.factors, (n_slots, slots.factors.shape[1])),
        enlarged(slots.gram, (n_slots, n_slots)),
        enlarged(slots.fresh, (n_slots,)),
    )


def enlarged(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A copy in a larger array, zero elsewhere."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger


def sweep_rows(
    context: Context, offset: FloatArray, slots: Slots, model: RowModel
) -> tuple[Slots, int]:
    """Sample every row of Z once; returns the slots and how many entries changed.

    ``offset`` is what X is centred by, in the user's column order. Told to stop, it leaves the
    remaining pieces as they are.
    """
    observations = context.observations
    n_changed = 0
    piece_rows = max(1, min(PIECE_ROWS, PIECE_ENTRIES // max(observations.n_features, 1)))
    for rows in ranges(observations.n_samples, piece_rows):
        if context.should_stop():
            break
        block = observations.source.rows(rows)
        slots, changed = _sweep_piece(block, offset, slots, rows, model, context.rng)
        n_changed += changed
    return slots, n_changed


def _sweep_piece(
    block: Any,
    offset: FloatArray,
    slots: Slots,
    rows: slice,
    model: RowModel,
    rng: np.random.Generator,
) -> tuple[Slots, int]:
    """Sample some rows; ``block`` is what X has there."""
    dense = block if isinstance(block, np.ndarray) else block.toarray()
    centred = dense - offset
    observed = ~np.isnan(centred)
    complete = np.asarray(observed.all(axis=1))
    if not complete.all():
        centred[~observed] = 0.0
    piece = RowPiece(centred, observed, complete, centred @ slots.factors.T)
    slots.fresh[:] = False
    row, n_changed = 0, 0
    while True:
        own = slots._replace(assignments=slots.assignments[rows])
        row, changed = sample_rows(row, piece, own, model, rng)
        n_changed += int(changed)
        if row == centred.shape[0]:
            return slots, n_changed
        slots = grown(slots, int(GROWTH * slots.counts.size) - slots.counts.size + 1)
        products = enlarged(piece.products, (centred.shape[0], slots.counts.size))
        piece = piece._replace(products=products)
