"""What a state leaves unexplained of the rows, in units of the noise.

Moves look for structure there. In units of the noise the residual of a model that explains all
there is to explain has a variance of one in every column, whatever the columns' units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.methods.context import Context
from ibp.methods.meibp.state import MEIBPState, by_column
from ibp.model.residuals import residuals_of_rows
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Entries of residuals that are in memory together; of larger data, moves look at rows with about
# the second number of entries, and no fewer rows than the third.
MOST_ENTRIES, SAMPLED_ENTRIES, LEAST_ROWS = 1 << 23, 1 << 22, 2000
# Larger residuals count as this: their squares are to fit single precision, summed over columns.
LARGEST = 1e15
# Rows that are made at a time.
PIECE_ROWS = 256


@dataclass(frozen=True)
class Residuals:
    """Residuals of some rows.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        Their numbers.
    values : ndarray of shape (n, D), float32
        (x - b - z A) / noise in layout order, zero where missing.
    observed : ndarray of shape (n, D) or None
        One where an entry is observed, else zero; None if nothing is missing.
    share : float
        What part of all rows they are.
    """

    rows: IntArray
    values: npt.NDArray[np.float32]
    observed: npt.NDArray[np.float32] | None
    share: float


class ResidualTask(NamedTuple):
    """What pieces of residuals are made from."""

    observations: Observations
    mean: FloatArray
    intercept: FloatArray
    codes: npt.NDArray[Any]
    unit: FloatArray


def residual_unit(state: MEIBPState) -> FloatArray:
    """The standard deviation of each column's noise, in units of the columns."""
    precision = state.hyperparameters.noise_precision.mean
    return np.asarray(by_column(precision, state.factors.mean.shape[1]) ** -0.5)


def residual_piece(task: ResidualTask, rows: Any) -> tuple[FloatArray, FloatArray | None]:
    """Residuals of some rows in units of the noise, and which entries are observed."""
    residual, missing = residuals_of_rows(
        task.observations, task.mean, task.intercept, task.codes, rows
    )
    residual /= task.unit
    return residual, None if missing is None else (~missing).astype(np.float64)


def residuals(context: Context, state: MEIBPState) -> Residuals:
    """Residuals of all rows, or of a sample if these would be too many."""
    observations = context.observations
    n, d = observations.n_samples, observations.n_features
    n_sampled = max(LEAST_ROWS, SAMPLED_ENTRIES // max(d, 1))
    first, last = state.rows_present(context)
    if (last - first) * d > MOST_ENTRIES and last - first > n_sampled:
        rows = first + np.sort(context.rng.choice(last - first, n_sampled, replace=False))
    else:
        rows = np.arange(first, last)
    at_hand, codes, places = state.rows_at_hand(context, rows)
    task = ResidualTask(
        at_hand, state.factors.mean, state.intercept.mean, codes, residual_unit(state)
    )
    pieces = [places[part] for part in ranges(rows.size, PIECE_ROWS)]
    # Single precision does, as far as it reaches: what is found here only makes a proposal.
    values = np.empty((rows.size, d), dtype=np.float32)
    observed = None if observations.complete else np.ones((rows.size, d), dtype=np.float32)
    made = context.executor.map(residual_piece, task, pieces)
    for part, (block, seen) in zip(ranges(rows.size, PIECE_ROWS), made, strict=True):
        values[part] = np.clip(block, -LARGEST, LARGEST)
        if observed is not None and seen is not None:
            observed[part] = seen
    return Residuals(rows, values, observed, rows.size / n)
