"""The start that users get by default: spectral, on a sample of the rows, judged by evidence.

A sample of the rows is enough to find the features and their number. Where the independent
components of the sample are two-valued, they are the features; where they are not, a few sweeps
from them compete with a few from more components and from a random start. The factors that win are
then assigned to all rows.
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
from ibp.starts.base import Start, StartingPoint
from ibp.starts.random import RandomStart
from ibp.starts.spectral import SpectralCodes, spectral_codes

# Rows that the start is sought on: enough for independent components of so many features.
SAMPLE_ROWS, ROWS_PER_FEATURE = 5_000, 100
# Without a number of features given, start with at most so many.
MOST_COMPONENTS = 50
# Components are taken for two-valued if their two modes explain this share of their variance.
TWO_VALUED = 0.85
TRIAL_SWEEPS, TRIAL_SETTLING, TRIAL_BUDGET = 5, 3, 16
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
            if should_stop():
                break
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
        rows = sample_rows(observations.n_samples, self.n_expected(observations), rng)
        sample = observations if rows is None else observations.take(rows)
        trial = Trial(method, sample, rng, workers, should_stop)
        self.compete(trial, min(self.n_expected(observations), sample.n_samples))
        assert trial.best is not None
        if rows is None:
            return point_of(trial.best)
        return extended(method, trial.best, observations, workers, should_stop)

    def compete(self, trial: Trial, most: int) -> None:
        """Try candidates, the likelier ones first, until one is good enough.

        As many components as there are eigenvalues above the noise edge compete with as many as
        there may be. Unless the better ones are two-valued, they compete with a random start.
        """
        n_components, two_valued = most, False
        if self.spectral:
            codes = trial.spectral_codes(None, most)
            trial.run(CodesStart(codes.assignments))
            n_components, two_valued = describe(codes)
            if n_components < most:
                codes = trial.spectral_codes(most, most)
                if trial.run(CodesStart(codes.assignments)):
                    n_components, two_valued = describe(codes)
        if not two_valued:
            trial.run(RandomStart(max(n_components, 1)))


def describe(codes: SpectralCodes) -> tuple[int, bool]:
    """How many components were found, and whether they are two-valued by and large."""
    n_found = codes.separation.size
    return n_found, n_found > 0 and float(np.median(codes.separation)) > TWO_VALUED


class Trial:
    """Short runs on a sample, of which the best by evidence is kept."""

    def __init__(
        self,
        method: Any,
        sample: Observations,
        rng: np.random.Generator,
        workers: Workers,
        should_stop: Callable[[], bool],
    ) -> None:
        self.method = method
        self.sample = sample
        self.rng = rng
        self.workers = workers
        self.should_stop = should_stop
        self.best: MEIBPState | None = None
        self.evidence = -np.inf

    def spectral_codes(self, n_components: int | None, most: int) -> SpectralCodes:
        """Two-valued components of the sample."""
        return spectral_codes(
            self.sample.values,
            n_components,
            max_components=most,
            rng=self.rng,
            workers=self.workers,
            should_stop=self.should_stop,
        )

    def run(self, start: Start) -> bool:
        """A few sweeps from a start; whether they led further than any before."""
        if self.best is not None and self.should_stop():
            return False
        method = replace(self.method, start=start, settling_updates=TRIAL_SETTLING)
        state = method.init(self.sample, self.rng, self.should_stop)
        for _ in range(TRIAL_SWEEPS):
            if self.should_stop() or method.step(state, self.should_stop).n_changed == 0:
                break
        evidence = method.evidence(state).total
        better = self.best is None or evidence > self.evidence
        if better:
            self.best, self.evidence = state, evidence
        return better


def sample_rows(
    n_samples: int, n_components: int, rng: np.random.Generator
) -> npt.NDArray[np.int64] | None:
    """Some of the rows, or None for all."""
    n_rows = max(SAMPLE_ROWS, ROWS_PER_FEATURE * n_components)
    if n_samples <= n_rows:
        return None
    return np.sort(rng.choice(n_samples, n_rows, replace=False)).astype(np.int64)


def extended(
    method: Any,
    state: MEIBPState,
    observations: Observations,
    workers: Workers,
    should_stop: Callable[[], bool],
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
        node_budget=TRIAL_BUDGET,
    )
    assignments, _ = frozen.assign(observations, workers, should_stop=should_stop)
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
