"""Mean-field inference for the finite beta-Bernoulli model (f-VIBP, Doshi-Velez et al. 2009).

    pi_k ~ Beta(alpha / K, 1),  z_nk ~ Bernoulli(pi_k)
    theta_k = E ln pi_k - E ln(1 - pi_k) = digamma(a_k) - digamma(b_k) .

The rest is `ibp.methods.mean_field.method`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from ibp.methods.mean_field.method import MeanFieldMethod, Sticks
from ibp.model.beta_sticks import finite_update

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FiniteSticks(Sticks):
    """q(pi_k) = Beta(first_k, second_k): the features' probabilities themselves."""

    @classmethod
    def of_prior(cls, n_components: int, alpha: float) -> FiniteSticks:
        """Before anything is seen."""
        return cls(np.full(n_components, alpha / n_components), np.ones(n_components))

    @property
    def share(self) -> float:
        """1 / K."""
        return 1.0 / self.first.size

    def log_odds(self) -> FloatArray:
        """theta_k."""
        return np.asarray(digamma(self.first) - digamma(self.second))

    def updated(self, usage: FloatArray, n_samples: int, alpha: float) -> FiniteSticks:
        """The optimum given the probabilities of Z."""
        return FiniteSticks(*finite_update(usage, n_samples, alpha))

    def assignment_bound(self, usage: FloatArray, n_samples: int) -> float:
        """E ln p(Z | pi)."""
        return float(usage @ self.mean_log + (n_samples - usage) @ self.mean_log_complement)


@dataclass(frozen=True)
class FiniteVIBPMethod(MeanFieldMethod):
    """The method with its settings, those of `MeanFieldMethod`."""

    def first_sticks(self, n_components: int) -> FiniteSticks:
        """The prior's."""
        return FiniteSticks.of_prior(n_components, self.hyperparameters.alpha.mean)
