"""Rows under one q(A) with full covariances: their quadratic forms, and new rows placed by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels import inmf_rows
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.kernels.inmf_rows import CovarianceForms
from ibp.methods.context import never
from ibp.methods.row_forms import gaps_of
from ibp.parallel import Executor, map_until, ranges

FloatArray = npt.NDArray[np.float64]

# New rows are at rest once no probability moves by more than this in a pass.
AT_REST = 1e-6
MAX_ROW_PASSES = 200


class RowTask(NamedTuple):
    """What the updates of rows read.

    Attributes
    ----------
    observations : Observations
        The data.
    components : ndarray of shape (K, D)
        E[A] in the user's column order and X's precision, to multiply X by.
    forms : CovarianceForms
        The quadratic forms.
    log_odds : ndarray of shape (K,)
        From the sticks.
    probabilities : ndarray of shape (N, K)
        e before the update.
    tolerance, max_passes
        A row is updated until no probability moves by more in a pass, or for so many passes.
    """

    observations: Observations
    components: npt.NDArray[np.floating]
    forms: CovarianceForms
    log_odds: FloatArray
    probabilities: FloatArray
    tolerance: float = 0.0
    max_passes: int = 1


def update_rows(task: RowTask, rows: slice) -> tuple[FloatArray, FloatArray]:
    """New probabilities and entropies of some rows."""
    probabilities = task.probabilities[rows].copy()
    products = task.observations.rows(rows) @ task.components.T
    entropy = inmf_rows.update_rows(
        np.asarray(products, dtype=np.float64),
        task.log_odds,
        task.forms,
        gaps_of(task.observations, rows),
        task.tolerance,
        task.max_passes,
        probabilities,
    )
    return probabilities, entropy


def covariance_forms(
    observations: Observations, mean: FloatArray, covariance: FloatArray, noise_precision: float
) -> CovarianceForms:
    """The quadratic forms W of rows under one q(A), its columns in layout order."""
    mean_by_column = np.ascontiguousarray(mean.T)

    def weighted_sum(columns: Any) -> FloatArray:
        """E[tau_X] times the sum of E[a a'] over some columns."""
        part = mean_by_column[columns]
        second_moment = covariance[columns].sum(axis=0) + part.T @ part
        return np.asarray(noise_precision * second_moment)

    n_features = observations.n_features
    whole = weighted_sum(slice(None))
    forms = [whole]
    for missing in observations.shared_patterns.missing[1:]:
        left = whole - weighted_sum(missing)
        enough = (np.diagonal(left) >= LEAST_LEFT * np.diagonal(whole)).all()
        if 2 * missing.size > n_features or not enough:
            left = weighted_sum(np.setdiff1d(np.arange(n_features), missing))
        forms.append(left)
    return CovarianceForms(noise_precision, np.stack(forms), mean_by_column, covariance)


@dataclass(frozen=True)
class FrozenINMF:
    """What is needed to place new rows.

    Attributes
    ----------
    mean : ndarray of shape (K, D)
        E[A] in the user's column order.
    covariance : ndarray of shape (D, K, K)
        The V_j, likewise.
    log_odds : ndarray of shape (K,)
        From the sticks.
    noise_precision : float
        E[tau_X].
    """

    mean: FloatArray
    covariance: FloatArray
    log_odds: FloatArray
    noise_precision: float

    def assign(
        self,
        observations: Observations,
        executor: Executor,
        *,
        should_stop: Callable[[], bool] = never,
    ) -> FloatArray:
        """Probabilities, shape (rows, K); told to stop, the prior's for the remaining rows.

        Each row starts from the prior's and is updated until it is at rest, so that the answer
        depends on the row alone.
        """
        layout = observations.layout
        probabilities = np.tile(expit(self.log_odds), (observations.n_samples, 1))
        pieces = ranges(observations.n_samples, observations.piece_rows)
        with single_threaded_blas():
            task = RowTask(
                observations,
                np.ascontiguousarray(self.mean, dtype=observations.dtype),
                covariance_forms(
                    observations,
                    layout.arrange(self.mean),
                    np.ascontiguousarray(self.covariance[layout.column_order]),
                    self.noise_precision,
                ),
                self.log_odds,
                probabilities,
                AT_REST,
                MAX_ROW_PASSES,
            )
            for rows, found in map_until(should_stop, executor, update_rows, task, pieces):
                probabilities[rows] = found[0]
        return probabilities
