"""Rows of a factorised q(Z) under one q(A): pieces of rows, and new rows brought to rest."""

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


def ascend(task: RowTask, rows: slice, block: Any) -> tuple[FloatArray, FloatArray]:
    """New probabilities and entropies of some rows, of which ``block`` are the data."""
    forms, probabilities = task.forms, task.probabilities[rows].copy()
    entropy = mean_field_rows.update_rows(
        np.asarray(block @ forms.components.T, dtype=np.float64),
        task.log_odds,
        forms.forms,
        forms.columns,
        forms.covariance,
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


def ascend_rows(task: RowTask, rows: slice) -> tuple[FloatArray, FloatArray]:
    """New probabilities and entropies of some rows."""
    return ascend(task, rows, task.observations.rows(rows))


@dataclass(frozen=True)
class FrozenMeanField:
    """What is needed to place new rows, everything but their own q(z_n) being fixed.

    Each row starts from the prior's probabilities and is updated coordinate by coordinate until it
    is at rest, so the answer depends on the row alone: neither on the other rows nor on the number
    of threads.

    Attributes
    ----------
    mean : ndarray of shape (K, D)
        E[A], in the user's column order.
    log_odds : ndarray of shape (K,)
        theta_k, from the sticks.
    noise_precision : float
        E[tau_X].
    variance, offset, covariance : ndarrays of shapes (K, D), (D,), (D, K, K), or None
        As in `RowForms`, but in the user's column order, and the offset from zero.
    """

    mean: FloatArray
    log_odds: FloatArray
    noise_precision: float
    variance: FloatArray | None = None
    offset: FloatArray | None = None
    covariance: FloatArray | None = None

    def assign(
        self,
        observations: Observations,
        executor: Executor,
        *,
        should_stop: Callable[[], bool] = never,
    ) -> FloatArray:
        """Probabilities, shape (rows, K); told to stop, the prior's for the remaining rows."""
        layout, variance, offset = observations.layout, self.variance, self.offset
        covariance = self.covariance
        probabilities = np.tile(expit(self.log_odds), (observations.n_samples, 1))
        pieces = ranges(observations.n_samples, observations.piece_rows)
        with single_threaded_blas():
            forms = RowForms(
                observations,
                layout.arrange(self.mean),
                self.noise_precision,
                variance=None if variance is None else layout.arrange(variance),
                offset=None if offset is None else layout.arrange(offset) - observations.centre,
                covariance=None if covariance is None else covariance[layout.column_order],
            )
            forms.make_all()
            task = RowTask(observations, forms, self.log_odds, probabilities, AT_REST, MAX_PASSES)
            for rows, found in map_until(should_stop, executor, ascend_rows, task, pieces):
                probabilities[rows] = found[0]
        return probabilities
