"""Rows under one q(A) with full covariances: their quadratic forms, and new rows placed by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.kernels.inmf_rows import update_rows
from ibp.methods.row_forms import SharedPatterns, own_missing
from ibp.parallel import Workers, ranges

FloatArray = npt.NDArray[np.float64]

# New rows are at rest once no probability moves by more than this in a pass.
AT_REST = 1e-6
MAX_ROW_PASSES = 200


class CovarianceForms:
    """The quadratic forms W of rows under one q(A), its columns in layout order."""

    def __init__(
        self,
        observations: Observations,
        patterns: SharedPatterns,
        mean: FloatArray,
        covariance: FloatArray,
        noise_precision: float,
    ) -> None:
        self.observations = observations
        self.patterns = patterns
        self.noise_precision = noise_precision
        self.covariance = covariance
        self.mean_by_column = np.ascontiguousarray(mean.T)
        self.components = observations.from_layout(mean).astype(observations.dtype)
        n_features = observations.n_features
        whole = self._sum(slice(None))
        forms = [whole]
        for missing in patterns.missing[1:]:
            left = whole - self._sum(missing)
            enough = (np.diagonal(left) >= LEAST_LEFT * np.diagonal(whole)).all()
            if 2 * missing.size > n_features or not enough:
                left = self._sum(np.setdiff1d(np.arange(n_features), missing))
            forms.append(left)
        self.quadratic = np.stack(forms)

    def _sum(self, columns: Any) -> FloatArray:
        """E[tau_X] times the sum of E[a a'] over some columns."""
        mean = self.mean_by_column[columns]
        second_moment = self.covariance[columns].sum(axis=0) + mean.T @ mean
        return np.asarray(self.noise_precision * second_moment)

    def update(
        self,
        probabilities: FloatArray,
        log_odds: FloatArray,
        entropy: FloatArray,
        workers: Workers,
        should_stop: Callable[[], bool],
        tolerance: float = 0.0,
        max_passes: int = 1,
    ) -> bool:
        """Passes over all rows, in place; False if it was told to stop before the last."""
        observations = self.observations

        def update_piece(rows: slice) -> bool:
            if should_stop():
                return False
            form_of_row = self.patterns.forms_of(observations.row_pattern[rows])
            products = observations.rows(rows) @ self.components.T
            update_rows(
                np.asarray(products, dtype=np.float64),
                log_odds,
                self.noise_precision,
                form_of_row,
                self.quadratic,
                *own_missing(observations, rows, form_of_row),
                self.mean_by_column,
                self.covariance,
                tolerance,
                max_passes,
                probabilities[rows],
                entropy[rows],
            )
            return True

        pieces = ranges(observations.n_samples, observations.piece_rows)
        return all(list(workers.map(update_piece, pieces)))


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
        workers: Workers,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """Probabilities, shape (rows, K); told to stop, the prior's for the remaining rows.

        Each row starts from the prior's and is updated until it is at rest, so that the answer
        depends on the row alone.
        """
        probabilities = np.tile(expit(self.log_odds), (observations.n_samples, 1))
        with single_threaded_blas():
            forms = CovarianceForms(
                observations,
                SharedPatterns.of(observations),
                observations.to_layout(self.mean),
                np.ascontiguousarray(self.covariance[observations.column_order]),
                self.noise_precision,
            )
            forms.update(
                probabilities,
                self.log_odds,
                np.empty(observations.n_samples),
                workers,
                should_stop,
                AT_REST,
                MAX_ROW_PASSES,
            )
        return probabilities
