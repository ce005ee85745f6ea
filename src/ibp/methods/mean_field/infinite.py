"""Mean-field inference for the truncated stick-breaking model (i-VIBP, Doshi-Velez et al. 2009).

    v_k ~ Beta(alpha, 1),  pi_k = v_1 ... v_k,  z_nk ~ Bernoulli(pi_k)
    theta_k = E ln pi_k - B_k,

where B_k is the multinomial lower bound of E ln(1 - pi_k), see `ibp.model.beta_sticks`; what is
climbed is a bound of the K-truncated model's evidence. The rest is `ibp.methods.mean_field.method`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.methods.mean_field.method import MeanFieldMethod, Sticks
from ibp.model.beta_sticks import complement_bounds, infinite_update

FloatArray = npt.NDArray[np.float64]

# Multinomials and sticks take turns, at O(K^2) a time; so often in an update.
TURNS = 10


@dataclass(frozen=True)
class InfiniteSticks(Sticks):
    """q(v_k) = Beta(first_k, second_k): each stick is a part of the one before."""

    @classmethod
    def of_prior(cls, n_components: int, alpha: float) -> InfiniteSticks:
        """Before anything is seen."""
        return cls(np.full(n_components, alpha), np.ones(n_components))

    @property
    def share(self) -> float:
        """All of alpha, for every stick."""
        return 1.0

    def log_odds(self) -> FloatArray:
        """theta_k."""
        return np.asarray(np.cumsum(self.mean_log) - complement_bounds(self))

    def updated(self, usage: FloatArray, n_samples: int, alpha: float) -> InfiniteSticks:
        """Better sticks given the probabilities of Z; no turn lowers the bound."""
        sticks = self
        for _ in range(TURNS):
            sticks = InfiniteSticks(*infinite_update(sticks, usage, n_samples, alpha))
        return sticks

    def assignment_bound(self, usage: FloatArray, n_samples: int) -> float:
        """A lower bound of E ln p(Z | v)."""
        return float(
            usage @ np.cumsum(self.mean_log) + (n_samples - usage) @ complement_bounds(self)
        )


@dataclass(frozen=True)
class InfiniteVIBPMethod(MeanFieldMethod):
    """The method with its settings, those of `MeanFieldMethod`; ``n_components`` is K."""

    def first_sticks(self, n_components: int) -> InfiniteSticks:
        """The prior's."""
        return InfiniteSticks.of_prior(n_components, self.hyperparameters.alpha.mean)
