"""Assign the features of a fitted model to new observations.

A new row meets N old ones, so the prior log-odds of feature k are ln(m_k / (N + 1 - m_k)), finite
for every feature in use. Nothing of the model changes, so rows are independent: they are cut into
fixed pieces and shared among threads, and the answer does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels.block_rows import improve_rows
from ibp.kernels.records import Outcome
from ibp.methods.context import never
from ibp.methods.row_forms import SearchForms, gaps_of
from ibp.parallel import Executor, map_until, ranges
from ibp.submodular import OPTIMIZERS
from ibp.submodular.maximize import DOUBLE_GREEDIES
from ibp.submodular.records import Search

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FrozenModel:
    """What is needed to place new rows: factors in the user's order and units, counts, settings.

    ``noise_std`` is a number, or one for each column.
    """

    mean: FloatArray
    variance: FloatArray
    offset: FloatArray
    counts: npt.NDArray[np.int64]
    n_samples: int
    noise_std: float | FloatArray
    optimizer: str
    thorough: bool
    node_budget: int

    def assign(
        self,
        observations: Observations,
        executor: Executor,
        *,
        with_losses: bool = False,
        should_stop: Callable[[], bool] = never,
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
        uniforms = None
        if self.optimizer in DOUBLE_GREEDIES:
            randomized = self.optimizer == "randomized_double_greedy"
            # The same draws for every row.
            uniforms = np.random.default_rng(0).random((1, n_components * randomized))
        search = Search(OPTIMIZERS[self.optimizer], self.node_budget, self.thorough, self.thorough)
        arrange, unit = observations.layout.arrange, observations.unit
        with single_threaded_blas():
            forms = SearchForms(
                observations,
                arrange(self.mean) / unit,
                self.noise_precision(observations),
                variance=arrange(self.variance) / unit**2,
                offset=(arrange(self.offset) - observations.centre) / unit,
            )
            forms.make_all()
            task = AssignmentTask(
                forms,
                np.log(self.counts) - np.log(self.n_samples + 1.0 - self.counts),
                search,
                uniforms,
                with_losses,
            )
            pieces = ranges(n_rows, observations.piece_rows)
            for rows, (bits, lost) in map_until(should_stop, executor, assign_piece, task, pieces):
                chosen[rows] = bits
                if with_losses:
                    losses[rows] = lost
        return chosen, losses

    def noise_precision(self, observations: Observations) -> float | FloatArray:
        """In the units of the observations, a number if those are the data's and the noise is."""
        if np.ndim(self.noise_std) == 0 and not observations.has_units:
            return float(float(self.noise_std) ** -2.0)
        noise_std = np.broadcast_to(self.noise_std, observations.layout.n_columns)
        return np.asarray((observations.layout.arrange(noise_std) / observations.unit) ** -2.0)


class AssignmentTask(NamedTuple):
    """What the rows are placed with; nothing of it changes."""

    forms: SearchForms
    log_odds: FloatArray
    search: Search
    uniforms: FloatArray | None
    with_losses: bool


def assign_piece(task: AssignmentTask, rows: slice) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Assignments of some rows, and what they lose by a flip of each bit if that is asked for."""
    forms, observations = task.forms, task.forms.observations
    n, k = rows.stop - rows.start, task.log_odds.size
    chosen = np.zeros((n, k), dtype=np.uint8)
    losses = np.zeros((n if task.with_losses else 0, k))
    improve_rows(
        np.asarray(observations.rows(rows) @ forms.components.T),
        task.log_odds,
        forms.forms,
        forms.searches,
        forms.columns,
        gaps_of(observations, rows),
        task.search,
        task.uniforms,
        Outcome(chosen, np.zeros(n, dtype=np.uint8), np.empty(n), np.empty(n, dtype=bool), losses),
    )
    return chosen, losses
