"""Assign the features of a fitted model to new observations.

A new row meets N old ones, so the prior log-odds of feature k are ln(m_k / (N + 1 - m_k)), finite
for every feature in use. Nothing of the model changes, so rows are independent: they are cut into
fixed pieces and shared among threads, and the answer does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels.block_rows import improve_rows
from ibp.methods.row_forms import SearchForms, SharedPatterns, own_missing
from ibp.parallel import Workers, ranges
from ibp.submodular import OPTIMIZERS

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FrozenModel:
    """What is needed to place new rows: factors in the user's column order, counts, settings."""

    mean: FloatArray
    variance: FloatArray
    offset: FloatArray
    counts: npt.NDArray[np.int64]
    n_samples: int
    noise_std: float
    optimizer: str
    thorough: bool
    node_budget: int

    def assign(
        self,
        observations: Observations,
        workers: Workers,
        *,
        with_losses: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[npt.NDArray[np.uint8], FloatArray]:
        """Assignments and, if asked for, what the row objective loses when a bit flips.

        Every search starts from the empty set, so that the answer depends on the row alone. Told
        to stop, it leaves the remaining rows empty.
        """
        n_rows, n_components = observations.n_samples, self.counts.size
        chosen = np.zeros((n_rows, n_components), dtype=np.uint8)
        losses = np.zeros((n_rows if with_losses else 0, n_components))
        if n_components == 0 or n_rows == 0:
            return chosen, losses
        log_odds = np.log(self.counts) - np.log(self.n_samples + 1.0 - self.counts)
        uniforms = np.empty((1, 0))
        if self.optimizer == "randomized_double_greedy":
            # The same draws for every row.
            uniforms = np.random.default_rng(0).random((1, n_components))
        to_layout = observations.to_layout
        with single_threaded_blas():
            forms = SearchForms(
                observations,
                SharedPatterns.of(observations),
                to_layout(self.mean),
                to_layout(self.variance),
                to_layout(self.offset) - observations.centre,
                self.noise_std**-2.0,
            )
            # All that the rows may need is made before threads share it.
            forms.make_all(np.arange(-1 if not observations.complete else 0, forms.made.size))

            def assign_piece(rows: slice) -> None:
                if should_stop():
                    return
                block = observations.rows(rows)
                form_of_row = forms.patterns.forms_of(observations.row_pattern[rows])
                n = rows.stop - rows.start
                improve_rows(
                    np.asarray(block @ forms.components.T),
                    log_odds,
                    forms.noise_precision,
                    form_of_row,
                    forms.quadratic,
                    forms.constant,
                    forms.needed,
                    forms.prepared,
                    *own_missing(observations, rows, form_of_row),
                    *forms.by_column,
                    OPTIMIZERS[self.optimizer],
                    self.node_budget,
                    self.thorough,
                    uniforms,
                    chosen[rows],
                    np.zeros(n, dtype=np.uint8),
                    np.empty(n),
                    np.empty(n, dtype=bool),
                    losses[rows] if with_losses else losses,
                )

            workers.each(assign_piece, ranges(n_rows, observations.piece_rows))
        return chosen, losses
