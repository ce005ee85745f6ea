"""Assign the features of a fitted model to new observations.

A new row meets N old ones, so the prior log-odds of feature k are ln(m_k / (N + 1 - m_k)), finite
for every feature in use. Nothing of the model changes, so rows are independent: they are cut into
fixed pieces and shared among threads, and the answer does not depend on how many there are.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.kernels.assign_rows import assign_rows
from ibp.model import Observations
from ibp.submodular import OPTIMIZERS

FloatArray = npt.NDArray[np.float64]
ROWS_PER_PIECE = 512


@dataclass(frozen=True)
class FrozenModel:
    """What is needed to place new rows: factors in the user's column order, counts, settings."""

    mean: FloatArray
    variance: FloatArray
    counts: npt.NDArray[np.int64]
    n_samples: int
    noise_std: float
    optimizer: str
    thorough: bool
    node_budget: int

    def assign(
        self, observations: Observations, n_jobs: int = 1, *, with_losses: bool = False
    ) -> tuple[npt.NDArray[np.uint8], FloatArray]:
        """Assignments and, if asked for, what the row objective loses when a bit flips."""
        n_rows, n_components = observations.n_samples, self.counts.size
        chosen = np.zeros((n_rows, n_components), dtype=np.uint8)
        losses = np.zeros((n_rows if with_losses else 0, n_components))
        if n_components == 0 or n_rows == 0:
            return chosen, losses
        log_odds = np.log(self.counts) - np.log(self.n_samples + 1.0 - self.counts)
        uniforms = np.empty(0)
        if self.optimizer == "randomized_double_greedy":
            # The same draws for every row: the answer depends on the row alone.
            uniforms = np.random.default_rng(0).random(n_components)
        by_pattern = np.argsort(observations.row_pattern, kind="stable")

        def assign_piece(start: int) -> None:
            assign_rows(
                observations.values,
                by_pattern[start : start + ROWS_PER_PIECE],
                observations.row_pattern,
                self.mean,
                self.variance,
                log_odds,
                self.noise_std**-2.0,
                OPTIMIZERS[self.optimizer],
                self.node_budget,
                self.thorough,
                uniforms,
                chosen,
                losses,
            )

        starts = range(0, n_rows, ROWS_PER_PIECE)
        if n_jobs == 1 or len(starts) == 1:
            for start in starts:
                assign_piece(start)
        else:
            with ThreadPoolExecutor(n_jobs) as threads:
                list(threads.map(assign_piece, starts))
        return chosen, losses
