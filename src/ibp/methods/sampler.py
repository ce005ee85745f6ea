"""What all samplers have in common: a sweep, the joint probability, and a chain that is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ibp.methods.base import SweepRecord
from ibp.methods.context import Context
from ibp.methods.samples import Chain, Sample
from ibp.methods.state import State
from ibp.model import Hyperparameters, HyperparameterValues
from ibp.model.assignment_priors import AssignmentPrior
from ibp.starts.codes_and_factors import CodesAndFactors

CodeArray = npt.NDArray[np.uint8]


@dataclass
class SamplerState(State):
    """What the states of all samplers have."""

    values: HyperparameterValues  # tau_X, tau_A and alpha
    chain: Chain  # what has been kept


StateT = TypeVar("StateT", bound=SamplerState)


@dataclass(frozen=True)
class Sampler(ABC, Generic[StateT]):
    """A Markov chain whose limit is the posterior."""

    burn_in: int | float  # sweeps that are not kept or, below one, which part of them
    thin: int  # of the later sweeps, every so many is kept
    hyperparameters: Hyperparameters  # what is `Known` stays; the chain begins at the means
    prior: AssignmentPrior  # the Indian Buffet Process, or the truncated model with its K
    # Z, and factors if a sampler needs them, to begin with; None for a draw from the prior.
    start: CodesAndFactors | None = None
    intercept_std: float | None = None  # spread of the intercept's prior; None for no intercept

    # A sweep that changes nothing says nothing: the next one may.
    climbs: ClassVar[bool] = False

    def first_assignments(self, values: HyperparameterValues, context: Context) -> CodeArray:
        """Z to begin with: without empty columns or, in a truncated model, with all K."""
        if self.start is not None:
            return self.prior.fitted_to(self.start.assignments)
        return self.prior.draw(values.alpha, context.observations.n_samples, context.rng)

    @abstractmethod
    def init(self, context: Context) -> StateT:
        """Make the state that the first sweep starts from."""

    @abstractmethod
    def sweep(self, context: Context, state: StateT) -> int:
        """Sample everything once, given the rest; return how many entries of Z changed."""

    @abstractmethod
    def log_joint(self, context: Context, state: StateT) -> float:
        """The log of the joint probability of all that is sampled, and X."""

    @abstractmethod
    def train_log_likelihood(self, context: Context, state: StateT) -> float:
        """Mean over observed entries, given Z and the (expected) factors."""

    @abstractmethod
    def sample(self, context: Context, state: StateT) -> Sample:
        """A copy of what is of interest."""

    @abstractmethod
    def n_components_in_use(self, state: StateT) -> int:
        """Features in use."""

    def step(self, context: Context, state: StateT) -> SweepRecord:
        """One sweep, kept if it is due."""
        n_changed = self.sweep(context, state)
        report = self.report(context, state, n_changed)
        state.chain.record(lambda: self.sample(context, state), self.burn_in, self.thin)
        return report

    def report(self, context: Context, state: StateT, n_changed: int = 0) -> SweepRecord:
        """Evaluate a state."""
        return SweepRecord(
            evidence=self.log_joint(context, state),
            n_components=self.n_components_in_use(state),
            n_changed=n_changed,
            train_log_likelihood=self.train_log_likelihood(context, state),
            values={
                "alpha": state.values.alpha,
                "noise_std": state.values.noise_std,
                "factor_std": state.values.factor_std,
            },
        )
