"""Probabilities of a fitted model's features for new observations, by mean-field inference.

Everything but the new rows' own q(z_n) stays. Each row starts from the prior's probabilities and
is updated coordinate by coordinate until it is at rest, so the answer depends on the row alone:
neither on the other rows nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.methods.mean_field.method import all_forms, update_piece
from ibp.methods.row_forms import RowForms, SharedPatterns
from ibp.parallel import Workers, ranges

FloatArray = npt.NDArray[np.float64]

# A row is at rest once no probability moves by more than this in a pass.
AT_REST = 1e-6
MAX_PASSES = 200


@dataclass(frozen=True)
class FrozenMeanField:
    """What is needed to place new rows.

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
        workers: Workers,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """Probabilities, shape (rows, K); told to stop, the prior's for the remaining rows."""
        to_layout = observations.to_layout
        with single_threaded_blas():
            forms = all_forms(
                observations,
                SharedPatterns.of(observations),
                to_layout(self.mean),
                to_layout(self.variance),
                to_layout(self.offset) - observations.centre,
                self.noise_precision,
            )
            return settle_rows(observations, forms, self.log_odds, workers, should_stop=should_stop)


def settle_rows(
    observations: Observations,
    forms: RowForms,
    log_odds: FloatArray,
    workers: Workers,
    *,
    tolerance: float = AT_REST,
    max_passes: int = MAX_PASSES,
    should_stop: Callable[[], bool] = lambda: False,
) -> FloatArray:
    """Bring all rows to rest under ``forms``, all of which must have been made."""
    probabilities = np.tile(expit(log_odds), (observations.n_samples, 1))

    def settle(rows: slice) -> None:
        if should_stop():
            return
        update_piece(
            observations,
            forms,
            rows,
            observations.rows(rows),
            log_odds,
            probabilities[rows],
            np.empty(rows.stop - rows.start),
            tolerance=tolerance,
            max_passes=max_passes,
        )

    workers.each(settle, ranges(observations.n_samples, observations.piece_rows))
    return probabilities
