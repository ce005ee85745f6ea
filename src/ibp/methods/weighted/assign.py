"""Find the weighted codes of new rows, everything else of a fitted model being as it is.

As in `ibp.methods.meibp.assign`, a new row meets N old ones, and every row is searched by itself:
from nothing and from the nonnegative least-squares solution, thoroughly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels.weighted_rows import (
    Effort,
    WeightedLists,
    WeightedOutcome,
    WeightPrior,
    improve_weighted_rows,
)
from ibp.methods.context import never
from ibp.methods.row_forms import gaps_of
from ibp.methods.weighted.forms import WeightedRowForms
from ibp.model.weights import log_mass
from ibp.parallel import Executor, map_until, ranges

FloatArray = npt.NDArray[np.float64]

# A new row is searched further than one that the next sweep visits again.
PASSES, TOLERANCE = 60, 1e-3
# Codes of a row that predictions are mixed of, and how much less probable than the best, in nats.
MOST_CODES, MARGIN = 32, 12.0


@dataclass(frozen=True)
class FrozenWeights:
    """What is needed to find the codes of new rows; in the user's column order and units.

    ``noise_std`` and ``predictive_std`` are numbers, or one for each column; the latter, if it is
    another, is the spread of recorded values about what is predicted.
    """

    mean: FloatArray
    variance: FloatArray
    offset: FloatArray
    counts: npt.NDArray[np.int64]
    n_samples: int
    noise_std: float | FloatArray
    weight_std: FloatArray
    predictive_std: float | FloatArray | None = None

    def assign(
        self,
        observations: Observations,
        executor: Executor,
        *,
        with_losses: bool = False,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[FloatArray, FloatArray]:
        """Codes and, if asked for, what the row objective loses when a feature comes or goes."""
        n_rows, n_components = observations.n_samples, self.counts.size
        codes = np.zeros((n_rows, n_components))
        losses = np.zeros((n_rows if with_losses else 0, n_components))
        if n_components == 0 or n_rows == 0:
            return codes, losses
        with single_threaded_blas():
            task = self.task(observations, with_losses=with_losses)
            pieces = ranges(n_rows, observations.piece_rows)
            for rows, found in map_until(should_stop, executor, assign_piece, task, pieces):
                codes[rows] = found.mean
                if with_losses:
                    losses[rows] = found.losses
        return codes, losses

    def probabilities(self, observations: Observations, executor: Executor) -> FloatArray:
        """P(z_nk = 1 | row n), the row's other features being as they are."""
        codes, losses = self.assign(observations, executor, with_losses=True)
        signed = np.where(codes > 0, losses, -losses)
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * signed)))

    def task(
        self,
        observations: Observations,
        start: npt.NDArray[np.floating] | None = None,
        *,
        with_losses: bool = False,
        effort: Effort | None = None,
    ) -> PlacingTask:
        """What pieces of work read; codes to ``start`` from, if any are known."""
        arrange, unit = observations.layout.arrange, observations.unit
        noise_std = np.broadcast_to(self.noise_std, observations.layout.n_columns)
        forms = WeightedRowForms(
            observations,
            arrange(self.mean) / unit,
            (arrange(np.asarray(noise_std, dtype=np.float64)) / unit) ** -2.0,
            variance=arrange(self.variance) / unit**2,
            offset=(arrange(self.offset) - observations.centre) / unit,
        )
        forms.make_all()
        log_odds = np.log(self.counts) - np.log(self.n_samples + 1.0 - self.counts)
        return PlacingTask(
            forms,
            WeightPrior(log_odds, self.weight_std, log_mass(self.weight_std)),
            effort or Effort(PASSES, TOLERANCE, start is None, True),
            start,
            with_losses,
        )


class PlacingTask(NamedTuple):
    """What rows are placed with; nothing of it changes."""

    forms: WeightedRowForms
    prior: WeightPrior
    effort: Effort
    start: npt.NDArray[np.floating] | None
    with_losses: bool


def search(task: PlacingTask, rows: slice, lists: WeightedLists | None) -> WeightedOutcome:
    """Search for the codes of some rows, and list others if they are asked for."""
    forms, observations = task.forms, task.forms.observations
    n, k = rows.stop - rows.start, task.prior.std.size
    outcome = WeightedOutcome(
        np.zeros((n, k)) if task.start is None else task.start[rows].astype(np.float64),
        np.zeros((n, k)),
        np.zeros((n, k)),
        np.empty(n),
        np.empty((n if task.with_losses else 0, k)),
    )
    improve_weighted_rows(
        np.asarray(observations.rows(rows) @ forms.components.T),
        task.prior,
        forms.weighted,
        forms.weighted_columns,
        gaps_of(observations, rows),
        task.effort,
        outcome,
        lists,
    )
    return outcome


def assign_piece(task: PlacingTask, rows: slice) -> WeightedOutcome:
    """Codes of some rows."""
    return search(task, rows, None)


def list_weighted_piece(task: PlacingTask, rows: slice) -> WeightedLists:
    """The codes that some rows may have."""
    n, k = rows.stop - rows.start, task.prior.std.size
    most = min(MOST_CODES, k + 1)
    lists = WeightedLists(
        np.empty((n, most, k)),
        np.empty((n, most, k)),
        np.empty((n, most)),
        np.zeros(n, dtype=np.int64),
        MARGIN,
    )
    search(task, rows, lists)
    return lists
