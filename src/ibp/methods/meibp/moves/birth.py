"""Birth: features of what the present ones leave unexplained.

Candidates come from the independent components of the residual, as a start's do, and from the rows
that are explained worst. Each is climbed with by itself, the present features being as they are
(`new_features`), and a batch of the best is added. Few of them raise the bound before the others
have answered, so that a batch is judged when it has settled and what does not pay is gone again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal
from ibp.methods.meibp.moves.changes import NewFactors, with_new_features, with_noise_times
from ibp.methods.meibp.moves.new_features import Candidates, FeaturePrior, best_together, place
from ibp.methods.meibp.moves.residuals import (
    PIECE_ROWS,
    Residuals,
    ResidualTask,
    residual_piece,
    residual_task,
    residual_unit,
    residuals,
)
from ibp.methods.meibp.state import MEIBPState
from ibp.model.statistics import Statistics, SumsOfRows, sums_by_codes
from ibp.parallel import ranges
from ibp.starts.spectral import spectral_codes

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# Features that may be born at once: so many or this part of those there are; after that so many.
BATCH, PART, FEW = 5, 0.1, 3
# The noise variance is taken for this part of what it is, as long as there are no features.
FIRST_COOLING = 0.1
# For each feature of a batch so many candidates, half of them from components, half from rows.
CANDIDATES = 2
# Components need not be exact, as each candidate climbs by itself afterwards.
ROTATION_ROUNDS = 12


class Birth:
    """Adds features of the residual."""

    name: ClassVar[str] = "birth"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """A batch, then a few; no more than there may be.

        Noise that has to account for everything hides what there is: without any feature, births
        are looked for as if there were less of it.
        """
        if state.n_components == 0 and state.hyperparameters.noise_precision.learned:
            state = state.copy()
            state.hyperparameters = with_noise_times(state.hyperparameters, FIRST_COOLING)
        room = np.inf if method.limit is None else method.limit - state.n_components
        for size in (max(BATCH, int(PART * state.n_components)), FEW):
            born = with_births(context, state, int(min(size, room))) if room >= 1 else None
            if born is None:
                return
            yield Proposal(born)


def with_births(
    context: Context,
    state: MEIBPState,
    most: int,
    codes_to_try: npt.NDArray[np.uint8] | None = None,
) -> MEIBPState | None:
    """A state with up to so many features more; None if there is nothing to find.

    They are looked for in the residual, or among features that are known from elsewhere.
    """
    left = residuals(context, state)
    prior = FeaturePrior.of(state)
    if codes_to_try is None:
        candidates = seeds(context, left, most)
    else:
        candidates = codes_to_try[left.rows].astype(bool)
    found = best_together(left, prior, candidates, most)
    if found is not None and left.share < 1.0:
        # To try a feature in all rows takes long: only if it raises the bound as it is.
        worthy = np.flatnonzero(found.gain > 0.0)
        found = found.take(worthy) if worthy.size else None
    if found is None or context.should_stop():
        return None
    placed = Placed(found.codes)
    if left.share < 1.0:
        placed = place_all(context, state, prior, found)
    unit = residual_unit(state)
    factors = NewFactors(found.location * unit, found.scale * unit)
    return with_new_features(context, state, placed.codes, factors, statistics=placed.statistics)


def seeds(context: Context, left: Residuals, most: int) -> npt.NDArray[np.bool_]:
    """Rows to begin with, a column for each candidate."""
    n, d = left.values.shape
    n_components = min(CANDIDATES * most // 2 + 2, d, n)
    components = spectral_codes(
        left.values,
        n_components,
        max_components=n_components,
        rng=context.rng,
        executor=context.executor,
        should_stop=context.should_stop,
        most_rounds=ROTATION_ROUNDS,
        roughly=True,
    ).assignments.astype(bool)
    return np.hstack([components, ~components, worst_rows(left, n_components)])


def worst_rows(left: Residuals, most: int) -> npt.NDArray[np.bool_]:
    """Rows whose positive residuals are large, each with the rows that are like it."""
    norms = np.einsum("nd,nd->n", left.values, np.maximum(left.values, 0.0))
    chosen: list[npt.NDArray[np.bool_]] = []
    while len(chosen) < most:
        worst = int(np.argmax(norms))
        if not norms[worst] > 0.0:
            break
        positive = np.maximum(left.values[worst], 0.0)
        like = left.values @ positive > 0.5 * (positive @ positive)
        like[worst] = True
        chosen.append(like)
        norms[like] = 0.0
    return np.stack(chosen, axis=1) if chosen else np.zeros((norms.size, 0), dtype=bool)


class Placed(NamedTuple):
    """New features of all rows and, if they are known, the statistics with the present ones."""

    codes: npt.NDArray[np.bool_]
    statistics: Statistics | None = None


class PlacingTask(NamedTuple):
    """What pieces of rows need to know to be placed."""

    residuals: ResidualTask
    prior: FeaturePrior
    found: Candidates
    share: npt.NDArray[np.float64]
    sum_up: bool  # whether sums over the rows are made in the same pass


def place_all(
    context: Context, state: MEIBPState, prior: FeaturePrior, found: Candidates
) -> Placed:
    """Features that were found in some rows, for all rows.

    Where codes are Z and pieces are those in which statistics are summed, both take one pass.
    """
    observations = context.observations
    sum_up = state.codes is state.assignments and observations.piece_rows == PIECE_ROWS
    share = found.codes.mean(axis=0)
    task = PlacingTask(residual_task(context, state), prior, found, share, sum_up)
    pieces = ranges(observations.n_samples, PIECE_ROWS)
    codes = np.zeros((observations.n_samples, share.size), dtype=bool)

    def placed() -> Iterator[SumsOfRows | None]:
        for rows, (new, sums) in zip(
            pieces, context.executor.map(place_piece, task, pieces), strict=True
        ):
            codes[rows] = new
            yield sums

    if not sum_up:
        for _ in placed():
            pass
        return Placed(codes)
    sums = (one for one in placed() if one is not None)
    n_components = state.n_components + share.size
    return Placed(codes, Statistics.summed(observations, n_components, sums))


def place_piece(task: PlacingTask, rows: slice) -> tuple[npt.NDArray[np.bool_], SumsOfRows | None]:
    """Which new features some rows have, and the sums of all features if that is asked for."""
    y, observed = residual_piece(task.residuals, rows)
    new = place(y, observed, task.prior, task.found, task.share)
    if not task.sum_up:
        return new, None
    observations = task.residuals.observations
    codes = np.hstack([task.residuals.codes[rows], new])
    return new, sums_by_codes(observations, rows, observations.rows(rows), codes)
