"""The start that users get by default: spectral, on a sample of the rows, judged by evidence.

A sample of the rows is enough to find the features and their number. A few sweeps from the
independent components above the noise compete with a few from more components. The factors that win
are then assigned to all rows.

Components that are not two-valued are no features, but cuts through scores that vary: half of the
rows have each, so that their codes are dear, and a fit that starts from them stays near them. With
moves it starts from the few that are two-valued, and births find the others one batch after the
other; on digits it ends higher so, and sooner. Without moves a random start competes with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from ibp.data import Observations
from ibp.methods.context import Context
from ibp.methods.meibp.assign import FrozenModel
from ibp.methods.meibp.moves.base import worthwhile
from ibp.methods.meibp.moves.growth import grow_once
from ibp.methods.meibp.random_start import RandomStart
from ibp.methods.meibp.start import Start, StartingPoint
from ibp.methods.meibp.state import MEIBPState
from ibp.model import AnyHyperparameters, Factors, Intercept, Statistics
from ibp.starts.spectral import SpectralCodes, spectral_codes
from ibp.starts.uniqueness import directions_above_noise

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# Rows that the start is sought on: enough for independent components of so many features.
SAMPLE_ROWS, ROWS_PER_FEATURE = 5_000, 100
# Without a number of features given, start with at most so many.
MOST_COMPONENTS = 50
# Of a random start with moves, births finding the rest, so many.
FEW_AT_RANDOM = 10
# Unless the components are two-valued, and then up to so many, with so many rows for each.
MOST_TWO_VALUED, ROWS_PER_DIRECTION = 256, 10
# Components are taken for two-valued if their two modes explain this share of their variance.
TWO_VALUED = 0.85
TRIAL_SWEEPS, TRIAL_SETTLING, TRIAL_BUDGET = 5, 3, 16
SETTLING_UPDATES = 10


@dataclass(frozen=True)
class CodesStart:
    """A start from assignments alone: factors, intercept and noise follow from them."""

    assignments: npt.NDArray[np.uint8]

    @property
    def n_components(self) -> int:
        """Features to start with."""
        return int(self.assignments.shape[1])

    def draw(self, method: MEIBPMethod, context: Context) -> StartingPoint:
        """A starting point."""
        observations = context.observations
        k, d = self.assignments.shape[1], observations.n_features
        state = method.state_kind.from_parts(
            context,
            self.assignments.copy(),  # the state changes it, and the next restart begins here too
            Factors.from_parameters(np.zeros((k, d)), method.hyperparameters.factor_std),
            method.initial_intercept(observations),
            method.hyperparameters,
        )
        for _ in range(SETTLING_UPDATES):
            if context.should_stop():
                break
            state.refresh(context)
            method.learn(context, state)
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
class SampledStart(ABC):
    """A start that is sought on a sample of the rows, by short runs from several candidates."""

    n_components: int | None  # features to start with at most; None to let the data tell

    def most_components(self, n_samples: int) -> int:
        """Features to start with at most."""
        return self.n_components or min(MOST_COMPONENTS, n_samples)

    def draw(self, method: MEIBPMethod, context: Context) -> StartingPoint:
        """A starting point."""
        trial = self.best_trial(method, context)
        assert trial.best is not None
        return point_of(trial.best) if trial.has_all_rows else extended(method, trial, context)

    def best_trial(self, method: MEIBPMethod, context: Context) -> Trial:
        """Short runs on a sample that is large enough, the best of which is a start."""
        most = self.most_components(context.observations.n_samples)
        trial = Trial.on_sample(method, context, most)
        wanted = self.compete(trial, min(most, trial.context.observations.n_samples))
        while wanted is not None:  # the sample shows more than it can tell apart
            trial = Trial.on_sample(method, context, wanted)
            wanted = self.compete(trial, wanted)
        return trial

    @abstractmethod
    def compete(self, trial: Trial, most: int) -> int | None:
        """Run the candidates, of at most so many features.

        Returns how many features a larger sample should be drawn for, None if this will do.
        """


class SampledRandomStart(SampledStart):
    """A random start that has taken shape on the sample."""

    def compete(self, trial: Trial, most: int) -> int | None:
        """Run the one candidate."""
        few = trial.method.moves and self.n_components is None
        trial.run(RandomStart(min(most, FEW_AT_RANDOM) if few else most))
        if trial.method.moves and not trial.grow():
            trial.run(RandomStart(most))
        return None


class AutomaticStart(SampledStart):
    """Spectral, in competition with random where in doubt."""

    def compete(self, trial: Trial, most: int) -> int | None:
        """Try candidates, the likelier ones first, until one is good enough.

        Without a limit, components above the noise edge are taken however many they are if they
        are two-valued. If they are not, and there are moves, the few that are make a start. Else
        as many as there are above the noise edge compete with as many as a start has at most, and
        unless the better ones are two-valued, with a random start.
        """
        codes = None
        if self.n_components is None:
            most = min(most, MOST_COMPONENTS)
            n_rows = trial.context.observations.n_samples
            widest = min(MOST_TWO_VALUED, n_rows // ROWS_PER_DIRECTION)
            n_directions = trial.directions_above_noise(widest)
            if n_directions is not None and trial.is_too_small_for(n_directions):
                return n_directions
            codes = trial.spectral_codes(n_directions, n_directions or widest)
            n_components, two_valued = describe(codes)
            if trial.is_too_small_for(n_components):
                return n_components
            if n_components > most and two_valued:
                trial.run(CodesStart(codes.assignments))
                return None
        if codes is None or codes.separation.size > most:
            codes = trial.spectral_codes(trial.directions_above_noise(most), most)
        n_components, two_valued = describe(codes)
        if trial.method.moves and not two_valued:
            trial.run(CodesStart(codes.assignments[:, codes.separation > TWO_VALUED]))
            if trial.grow():
                return None
        trial.run(CodesStart(codes.assignments))
        if n_components < most:
            codes = trial.spectral_codes(most, most)
            if trial.run(CodesStart(codes.assignments)):
                n_components, two_valued = describe(codes)
        if not two_valued:
            trial.run(RandomStart(max(n_components, 1)))
        return None


@dataclass(frozen=True)
class AlternatingStart:
    """Spectral and random in turn, from one start of a fit to the next."""

    n_components: int | None

    def most_components(self, n_samples: int) -> int:
        """Features to start with at most."""
        return AutomaticStart(self.n_components).most_components(n_samples)

    def draw(self, method: MEIBPMethod, context: Context) -> StartingPoint:
        """A starting point."""
        return self.kind(context).draw(method, context)

    def best_trial(self, method: MEIBPMethod, context: Context) -> Trial:
        """As that of the start whose turn it is."""
        return self.kind(context).best_trial(method, context)

    def kind(self, context: Context) -> SampledStart:
        """The start whose turn it is."""
        kind = AutomaticStart if context.restart % 2 else SampledRandomStart
        return kind(self.n_components)


def describe(codes: SpectralCodes) -> tuple[int, bool]:
    """How many components were found, and whether they are two-valued by and large."""
    n_found = codes.separation.size
    return n_found, n_found > 0 and float(np.median(codes.separation)) > TWO_VALUED


class Trial:
    """Short runs on a sample, of which the best by evidence is kept."""

    def __init__(self, method: MEIBPMethod, context: Context, n_rows: int) -> None:
        self.method = method
        self.context = context
        self.n_rows = n_rows  # that there are in all
        self.best: MEIBPState | None = None
        self.evidence = -np.inf

    @classmethod
    def on_sample(cls, method: MEIBPMethod, context: Context, n_components: int) -> Trial:
        """On as many rows as so many features need."""
        observations = context.observations
        rows = sample_rows(observations.n_samples, n_components, context.rng)
        sample = observations if rows is None else observations.take(rows)
        known = method.hyperparameters.moved(observations, sample)
        return cls(
            replace(method, hyperparameters=known),
            replace(context, observations=sample),
            observations.n_samples,
        )

    @cached_property
    def values(self) -> Any:
        """The sample, as components are sought in it."""
        return self.context.observations.in_memory()

    @property
    def has_all_rows(self) -> bool:
        """Whether the sample is all there is."""
        return self.context.observations.n_samples == self.n_rows

    def is_too_small_for(self, n_components: int) -> bool:
        """Whether there are more features than the sample can tell apart, and more rows."""
        n_rows = self.context.observations.n_samples
        many = n_components > MOST_COMPONENTS and ROWS_PER_FEATURE * n_components > n_rows
        return many and not self.has_all_rows

    def directions_above_noise(self, most: int) -> int | None:
        """Directions in which the sample varies by more than noise of each column; None if unknown.

        With one noise for all columns the principal directions tell as well.
        """
        context = self.context
        if not context.observations.has_units or issparse(self.values):
            return None
        return directions_above_noise(
            self.values, most, context.rng, context.executor, context.should_stop
        )

    def spectral_codes(self, n_components: int | None, most: int) -> SpectralCodes:
        """Two-valued components of the sample."""
        context = self.context
        return spectral_codes(
            self.values,
            n_components,
            max_components=most,
            rng=context.rng,
            executor=context.executor,
            should_stop=context.should_stop,
        )

    def run(self, start: Start) -> bool:
        """A few sweeps from a start; whether they led further than any before."""
        context = self.context
        if self.best is not None and context.should_stop():
            return False
        method = replace(self.method, start=start, settling_updates=TRIAL_SETTLING, moves=False)
        state = method.init(context)
        for _ in range(TRIAL_SWEEPS):
            if context.should_stop() or method.step(context, state).n_changed == 0:
                break
        evidence = method.evidence(context, state).total
        better = self.best is None or evidence > self.evidence
        if better:
            self.best, self.evidence = state, evidence
        return better

    def grow(self) -> bool:
        """Let features be born; return whether there are any then.

        In a sample as many as there are, since that takes less time than in all rows; in all rows
        the fit goes on with it.
        """
        context, state = self.context, self.best
        assert state is not None
        gain, worth = np.inf, 0.0
        while gain > worth and not context.should_stop():
            worth = worthwhile(self.method, context, state)
            state, gain = grow_once(self.method, context, state, worth, self.n_rows)
            if self.has_all_rows:
                break
        self.best, self.evidence = state, self.method.evidence(context, state).total
        return state.n_components > 0


def sample_rows(
    n_samples: int, n_components: int, rng: np.random.Generator
) -> npt.NDArray[np.int64] | None:
    """Draw some of the rows; None stands for all of them."""
    n_rows = max(SAMPLE_ROWS, ROWS_PER_FEATURE * n_components)
    if n_samples <= n_rows:
        return None
    return np.sort(rng.choice(n_samples, n_rows, replace=False)).astype(np.int64)


class Learned(Protocol):
    """What rows are placed by, in units of the columns and layout order."""

    @property
    def factors(self) -> Factors:
        """q(A)."""
        ...

    @property
    def intercept(self) -> Intercept:
        """q(b)."""
        ...

    @property
    def hyperparameters(self) -> AnyHyperparameters:
        """The other factors of q."""
        ...


def frozen_at(
    method: MEIBPMethod,
    sample: Observations,
    state: Learned,
    counts: npt.NDArray[np.int64],
    n_samples: int,
) -> FrozenModel:
    """What places rows by features that were learned, and that some of so many rows have.

    The ``sample`` has the layout and the units of what was learned.
    """
    factors, unit = state.factors, sample.unit
    noise_std = state.hyperparameters.noise_std
    return FrozenModel(
        mean=sample.layout.restore(factors.mean * unit),
        variance=sample.layout.restore(factors.variance * unit**2),
        offset=sample.layout.restore(sample.centre + state.intercept.mean * unit),
        counts=counts,
        n_samples=n_samples,
        noise_std=sample.layout.restore(noise_std * unit) if sample.has_units else noise_std,
        optimizer=method.optimizer,
        thorough=method.row_start == "current",
        node_budget=TRIAL_BUDGET,
        search_again=False,
    )


def extended(method: MEIBPMethod, trial: Trial, context: Context) -> StartingPoint:
    """The features that a trial found in a sample, assigned to all rows."""
    observations, sample, state = context.observations, trial.context.observations, trial.best
    assert state is not None
    frozen = frozen_at(method, sample, state, state.statistics.counts, sample.n_samples)
    assignments, statistics = frozen.assign_and_sum(
        observations, context.executor, should_stop=context.should_stop
    )
    return moved_to(observations, sample, state, assignments, statistics)


def moved_to(
    observations: Observations,
    sample: Observations,
    state: MEIBPState,
    assignments: Any,
    statistics: Statistics | None = None,
) -> StartingPoint:
    """What was found in a sample, with assignments of all rows and their sums, if known."""
    factors = state.factors

    def relaid(by_position: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return observations.layout.arrange(sample.layout.restore(by_position))

    intercept = replace(
        state.intercept,
        mean=relaid(state.intercept.mean),
        variance=relaid(state.intercept.variance),
    )
    return StartingPoint(
        assignments,
        relaid(factors.location),
        relaid(factors.scale),
        intercept,
        state.hyperparameters.moved(sample, observations),
        statistics,
    )
