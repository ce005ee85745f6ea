"""How common the features are, in the finite and the infinite model (Doshi-Velez et al. 2009).

`ibp.model.beta_sticks` states the two models. The prior's part of logit nu_nk is

    finite:    theta_k = E ln pi_k - E ln(1 - pi_k)
    infinite:  theta_k = E ln pi_k - B_k ,

where B_k is the multinomial lower bound of E ln(1 - pi_k); what is climbed is a bound of the
K-truncated model's evidence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from ibp.model.beta_sticks import BetaSticks, complement_bounds, finite_update, infinite_update
from ibp.model.hyperparameters import Hyperparameter

FloatArray = npt.NDArray[np.float64]

# Multinomials and sticks take turns, at O(K^2) a time; so often in an update.
TURNS = 10


@dataclass(frozen=True)
class Sticks(BetaSticks, ABC):
    """q of how common the features are, under a prior Beta(share * alpha, 1) of each stick."""

    @property
    @abstractmethod
    def share(self) -> float:
        """What part of alpha the prior of one stick has."""

    @abstractmethod
    def assignment_bound(self, usage: FloatArray, n_samples: int) -> float:
        """E ln p(Z | sticks), or a lower bound of it; ``usage`` has the column sums of nu."""

    def bound(self, usage: FloatArray, n_samples: int, alpha: Hyperparameter) -> float:
        """The prior's part of the bound: E ln p(Z | sticks) + E ln p(sticks | alpha) + H."""
        log_prior = self.log_prior(
            self.share * alpha.mean, float(np.log(self.share)) + alpha.mean_log
        )
        return self.assignment_bound(usage, n_samples) + log_prior + self.entropy()

    def updated_alpha(self, alpha: Hyperparameter) -> Hyperparameter:
        """The optimal q(alpha): K more in shape, -share * sum E ln v_k more in rate."""
        return alpha.updated(self.first.size, -self.share * float(self.mean_log.sum()))


@dataclass(frozen=True)
class FiniteSticks(Sticks):
    """q(pi_k) = Beta(first_k, second_k): the features' probabilities themselves."""

    @classmethod
    def of_prior(cls, n_components: int, alpha: float) -> Self:
        """The sticks before anything is seen."""
        return cls(np.full(n_components, alpha / n_components), np.ones(n_components))

    @property
    def share(self) -> float:
        """1 / K."""
        return 1.0 / self.first.size

    def log_odds(self) -> FloatArray:
        """theta_k, the prior's part of logit nu_nk, the same for all rows."""
        return self.mean_log_odds

    def updated(self, usage: FloatArray, n_samples: int, alpha: float) -> Self:
        """The optimum given the probabilities of Z."""
        return type(self)(*finite_update(usage, n_samples, alpha))

    def assignment_bound(self, usage: FloatArray, n_samples: int) -> float:
        """E ln p(Z | pi)."""
        return float(usage @ self.mean_log + (n_samples - usage) @ self.mean_log_complement)


@dataclass(frozen=True)
class InfiniteSticks(Sticks):
    """q(v_k) = Beta(first_k, second_k): each stick is a part of the one before."""

    @classmethod
    def of_prior(cls, n_components: int, alpha: float) -> Self:
        """The sticks before anything is seen."""
        return cls(np.full(n_components, alpha), np.ones(n_components))

    @property
    def share(self) -> float:
        """All of alpha, for every stick."""
        return 1.0

    def log_odds(self) -> FloatArray:
        """theta_k, the prior's part of logit nu_nk, the same for all rows."""
        return np.asarray(np.cumsum(self.mean_log) - complement_bounds(self))

    def updated(self, usage: FloatArray, n_samples: int, alpha: float) -> Self:
        """Better sticks given the probabilities of Z; no turn lowers the bound."""
        sticks = self
        for _ in range(TURNS):
            sticks = type(self)(*infinite_update(sticks, usage, n_samples, alpha))
        return sticks

    def assignment_bound(self, usage: FloatArray, n_samples: int) -> float:
        """A lower bound of E ln p(Z | v)."""
        return float(
            usage @ np.cumsum(self.mean_log) + (n_samples - usage) @ complement_bounds(self)
        )
