"""What all samplers have in common: a sweep, the joint probability, and a chain that is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from ibp.data import Observations
from ibp.methods.base import StepReport
from ibp.methods.samples import Chain, Sample
from ibp.model import HyperparameterValues


class SamplerState(Protocol):
    """A state with its hyperparameters and its chain."""

    values: HyperparameterValues
    chain: Chain


StateT = TypeVar("StateT", bound=SamplerState)


@dataclass(frozen=True)
class Sampler(ABC, Generic[StateT]):
    """A Markov chain whose limit is the posterior.

    Attributes
    ----------
    burn_in : int or float
        Sweeps that are not kept or, below one, which part of them.
    thin : int
        Of the later ones, every so many is kept.
    """

    burn_in: int | float
    thin: int

    # A sweep that changes nothing says nothing: the next one may.
    climbs: ClassVar[bool] = False

    @abstractmethod
    def init(
        self,
        observations: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> StateT:
        """Make the state that the first sweep starts from."""

    @abstractmethod
    def sweep(self, state: StateT, should_stop: Callable[[], bool]) -> int:
        """Sample everything once, given the rest; return how many entries of Z changed."""

    @abstractmethod
    def log_joint(self, state: StateT) -> float:
        """The log of the joint probability of all that is sampled, and X."""

    @abstractmethod
    def train_log_likelihood(self, state: StateT) -> float:
        """Mean over observed entries, given Z and the (expected) factors."""

    @abstractmethod
    def sample(self, state: StateT) -> Sample:
        """A copy of what is of interest."""

    @abstractmethod
    def n_components_in_use(self, state: StateT) -> int:
        """Features in use."""

    def step(self, state: StateT, should_stop: Callable[[], bool]) -> StepReport:
        """One sweep, kept if it is due."""
        n_changed = self.sweep(state, should_stop)
        report = self.report(state, n_changed)
        state.chain.record(lambda: self.sample(state))
        return report

    def report(self, state: StateT, n_changed: int = 0) -> StepReport:
        """Evaluate a state."""
        return StepReport(
            evidence=self.log_joint(state),
            n_components=self.n_components_in_use(state),
            n_changed=n_changed,
            train_log_likelihood=self.train_log_likelihood(state),
            values={
                "alpha": state.values.alpha,
                "noise_std": state.values.noise_std,
                "factor_std": state.values.factor_std,
            },
        )
