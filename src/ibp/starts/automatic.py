"""The start that users get by default: spectral, on a sample of the rows, judged by evidence.

A sample of the rows is enough to find the features and their number. Where the independent
components of the sample are two-valued, they are the features; where they are not, a few sweeps
from them compete with a few from a random start. The factors that win are then assigned to all
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.methods.assign import FrozenModel
from ibp.methods.meibp_state import MEIBPState
from ibp.model import Factors, Observations
from ibp.parallel import Workers
from ibp.starts.base import StartingPoint
from ibp.starts.random import RandomStart
from ibp.starts.spectral import spectral_codes

SAMPLE_ROWS = 20_000
# Without a number of features given, look for at most so many.
MOST_COMPONENTS = 50
# A component is taken for two-valued if its two modes explain this share of its variance.
TWO_VALUED = 0.85
TRIAL_SWEEPS = 5
SETTLING_UPDATES = 10


@dataclass(frozen=True)
class CodesStart:
    """A start from assignments alone: factors, intercept and noise follow from them."""

    assignments: npt.NDArray[np.uint8]

    def draw(
        self,
        method: Any,
        observations: Observations,
        rng: np.random.Generator,
        workers: Workers,
        should_stop: Callable[[], bool],
    ) -> StartingPoint:
        """A starting point."""
        k, d = self.assignments.shape[1], observations.n_features
        state = MEIBPState.from_parts(
            observations,
            self.assignments,
            Factors.from_parameters(np.zeros((k, d)), method.hyperparameters.factor_std),
            method.no_intercept_yet(observations),
            method.hyperparameters,
            rng,
            workers,
        )
        for _ in range(SETTLING_UPDATES):
            state.refresh()
            method.learn(state)
        return point_of(state)


def point_of(state: MEIBPState) -> StartingPoint:
    """A state as a place to start from."""
    return StartingPoint(
        state.assignments,
        state.factors.location,
        state.factors.scale,
        state.intercept,
        state.hyperparameters,
    )


@dataclass(frozen=True)
class AutomaticStart:
    """Spectral, in competition with random where in doubt.

    Attributes
    ----------
    n_components : int or None
        Features to start with at most; None to let the data tell.
    spectral : bool
        Whether the spectral start takes part.
    """

    n_components: int | None
    spectral: bool = True

    def n_expected(self, observations: Observations) -> int:
        """A number of features to expect, for hyperpriors that are in proportion to it."""
        return self.n_components or min(MOST_COMPONENTS, observations.n_samples)

    def draw(
        self,
        method: Any,
        observations: Observations,
        rng: np.random.Generator,
        workers: Workers,
        should_stop: Callable[[], bool],
    ) -> StartingPoint:
        """A starting point."""
        rows = sample_rows(observations.n_samples, rng)
        sample = observations if rows is None else observations.take(rows)
        state = self.best_on(method, sample, rng, workers, should_stop)
        if rows is None:
            return point_of(state)
        return extended(method, state, observations, workers)

    def best_on(
        self,
        method: Any,
        sample: Observations,
        rng: np.random.Generator,
        workers: Workers,
        should_stop: Callable[[], bool],
    ) -> MEIBPState:
        """The best state among the candidates, on the sample."""
        codes = spectral_codes(
            sample.values,
            self.n_components,
            max_components=MOST_COMPONENTS,
            rng=rng,
            workers=workers,
            should_stop=should_stop,
        )
        n_components = self.n_components or max(codes.assignments.shape[1], 1)
        spectral = self.tried(method, CodesStart(codes.assignments), sample, rng, should_stop)
        sure = codes.separation.size and np.median(codes.separation) > TWO_VALUED
        if sure or should_stop():
            return spectral
        random = self.tried(method, RandomStart(n_components), sample, rng, should_stop)
        better = method.evidence(random).total > method.evidence(spectral).total
        return random if better else spectral

    def tried(
        self,
        method: Any,
        start: Any,
        sample: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool],
    ) -> MEIBPState:
        """A few sweeps from a start."""
        trial = replace(method, start=start)
        state: MEIBPState = trial.init(sample, rng, should_stop)
        for _ in range(TRIAL_SWEEPS):
            if should_stop() or trial.step(state, should_stop).n_changed == 0:
                break
        return state


def sample_rows(n_samples: int, rng: np.random.Generator) -> npt.NDArray[np.int64] | None:
    """Some of the rows, or None for all."""
    if n_samples <= SAMPLE_ROWS:
        return None
    return np.sort(rng.choice(n_samples, SAMPLE_ROWS, replace=False)).astype(np.int64)


def extended(
    method: Any, state: MEIBPState, observations: Observations, workers: Workers
) -> StartingPoint:
    """The features of a sample, assigned to all rows."""
    sample, factors = state.observations, state.factors
    frozen = FrozenModel(
        location=sample.from_layout(factors.location),
        scale=sample.from_layout(factors.scale),
        mean=sample.from_layout(factors.mean),
        variance=sample.from_layout(factors.variance),
        offset=sample.from_layout(sample.centre + state.intercept.mean),
        counts=state.statistics.counts,
        n_samples=sample.n_samples,
        noise_std=state.hyperparameters.noise_std,
        optimizer=method.optimizer,
        thorough=method.row_start == "current",
        node_budget=method.node_budget,
    )
    assignments, _ = frozen.assign(observations, workers)
    intercept = state.intercept
    mean = sample.from_layout(intercept.mean)
    return StartingPoint(
        assignments,
        observations.to_layout(frozen.location),
        observations.to_layout(frozen.scale),
        replace(
            intercept,
            mean=observations.to_layout(mean),
            variance=observations.to_layout(sample.from_layout(intercept.variance)),
        ),
        state.hyperparameters,
    )
