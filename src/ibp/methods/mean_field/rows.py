"""Rows of q(Z) under one q(A): pieces of training rows, and new rows that are brought to rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels import mean_field_rows
from ibp.kernels.mean_field_rows import Forms
from ibp.methods.context import never
from ibp.methods.row_forms import RowForms, gaps_of
from ibp.model.statistics import code_sums, data_sums
from ibp.parallel import Executor, map_until, ranges

FloatArray = npt.NDArray[np.float64]

# A new row is at rest once no probability moves by more than this in a pass.
AT_REST = 1e-6
MAX_PASSES = 200


class RowTask(NamedTuple):
    """What the updates of rows read.

    Attributes
    ----------
    observations : Observations
        The data.
    forms : RowForms
        All that the rows need, made before pieces share it.
    log_odds : ndarray of shape (K,)
        theta_k, from the sticks.
    probabilities : ndarray of shape (N, K)
        nu before the update.
    tolerance, max_passes
        A row is updated until no probability moves by more in a pass, or for so many passes.
    """

    observations: Observations
    forms: RowForms
    log_odds: FloatArray
    probabilities: FloatArray
    tolerance: float = 0.0
    max_passes: int = 1


class UpdatedRows(NamedTuple):
    """The probabilities and entropies of some rows after an update, and what it changed in sums."""

    probabilities: FloatArray
    entropy: FloatArray
    gram: FloatArray
    totals: FloatArray
    cross: npt.NDArray[np.floating]
    n_changed: int


def all_forms(
    observations: Observations,
    mean: FloatArray,
    variance: FloatArray,
    offset: FloatArray,
    noise_precision: float,
) -> RowForms:
    """The forms of all rows, made before pieces share them; ``offset`` is about the centre."""
    forms = RowForms(observations, mean, variance, offset, noise_precision)
    forms.make_all(np.arange(0 if observations.complete else -1, forms.made.size))
    return forms


def ascend(task: RowTask, rows: slice, block: Any) -> tuple[FloatArray, FloatArray]:
    """New probabilities and entropies of some rows, of which ``block`` are the data."""
    forms, probabilities = task.forms, task.probabilities[rows].copy()
    entropy = mean_field_rows.update_rows(
        np.asarray(block @ forms.components.T, dtype=np.float64),
        task.log_odds,
        Forms(forms.noise_precision, forms.quadratic, forms.constant, *forms.by_column),
        gaps_of(task.observations, rows),
        task.tolerance,
        task.max_passes,
        probabilities,
    )
    return probabilities, entropy


def update_rows(task: RowTask, rows: slice) -> UpdatedRows:
    """Update some rows, and say what that changes in the statistics."""
    block = task.observations.rows(rows)
    new, entropy = ascend(task, rows, block)
    old = task.probabilities[rows]
    gram, totals = code_sums(task.observations, rows, new, old)
    n_changed = int(((new > 0.5) != (old > 0.5)).sum())
    return UpdatedRows(new, entropy, gram, totals, data_sums(block, new - old), n_changed)


def settle_rows(task: RowTask, rows: slice) -> FloatArray:
    """Bring some rows to rest."""
    return ascend(task, rows, task.observations.rows(rows))[0]


@dataclass(frozen=True)
class FrozenMeanField:
    """What is needed to place new rows, everything but whose own q(z_n) stays.

    Each row starts from the prior's probabilities and is updated coordinate by coordinate until it
    is at rest, so the answer depends on the row alone: neither on the other rows nor on the number
    of threads.

    Attributes
    ----------
    mean, variance : ndarray of shape (K, D)
        Of q(A), in the user's column order.
    offset : ndarray of shape (D,)
        The intercept, likewise; zeros if there is none.
    log_odds : ndarray of shape (K,)
        theta_k, from the sticks.
    noise_precision : float
        E[tau_X].
    """

    mean: FloatArray
    variance: FloatArray
    offset: FloatArray
    log_odds: FloatArray
    noise_precision: float

    def assign(
        self,
        observations: Observations,
        executor: Executor,
        *,
        should_stop: Callable[[], bool] = never,
    ) -> FloatArray:
        """Probabilities, shape (rows, K); told to stop, the prior's for the remaining rows."""
        arrange = observations.layout.arrange
        probabilities = np.tile(expit(self.log_odds), (observations.n_samples, 1))
        pieces = ranges(observations.n_samples, observations.piece_rows)
        with single_threaded_blas():
            forms = all_forms(
                observations,
                arrange(self.mean),
                arrange(self.variance),
                arrange(self.offset) - observations.centre,
                self.noise_precision,
            )
            task = RowTask(observations, forms, self.log_odds, probabilities, AT_REST, MAX_PASSES)
            for rows, found in map_until(should_stop, executor, settle_rows, task, pieces):
                probabilities[rows] = found
        return probabilities
