"""q of INMF for one number of features, and the objective L that compares such candidates.

The equations are in `ibp.methods.inmf.method`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, entr, gammaln

from ibp.data import Observations
from ibp.model import Hyperparameters, Statistics, squared_error
from ibp.model.beta_sticks import BetaSticks
from ibp.model.expectation_propagation import log_prior_constant
from ibp.model.ibp_prior import harmonic_number
from ibp.model.statistics import sums_by_column

FloatArray = npt.NDArray[np.float64]


@dataclass
class Candidate:
    """q for one number of features; columns are in layout order."""

    probabilities: FloatArray  # (N, K), e
    entropy: float  # H[q(Z)]
    statistics: Statistics  # with e as codes, so that diagonals of the gram are sums of e^2
    mean: FloatArray  # (K, D), the m_j side by side
    covariance: FloatArray  # (D, K, K), the V_j
    # Natural parameters of the sites, (D, K).
    site_precision: FloatArray
    site_linear: FloatArray
    # (D,), what each column adds to L, but for what its means explain and the prior's constant.
    log_partition: FloatArray
    hyperparameters: Hyperparameters  # as they were when the sites were updated
    objective: float = -np.inf  # L

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.probabilities.shape[1])

    @property
    def variance(self) -> FloatArray:
        """The diagonals of V, shape (K, D)."""
        return np.ascontiguousarray(np.diagonal(self.covariance, axis1=1, axis2=2).T)

    @property
    def sticks(self) -> BetaSticks:
        """q(pi)."""
        return optimal_sticks(self.probabilities)

    def second_moments(self) -> FloatArray:
        """E[Z'Z] of each column group, shape (G, K, K)."""
        moments = self.statistics.gram.copy()
        diagonal = np.arange(self.n_components)
        moments[:, diagonal, diagonal] = self.statistics.totals
        return moments

    def squared_error(self, observations: Observations) -> float:
        """Sum over observed entries of (x - e m)^2."""
        return squared_error(observations, self.statistics, self.mean, codes=self.probabilities)

    def code_variance(self, observations: Observations) -> float:
        """Sum over observed entries of Var[z] m^2."""
        spread = np.maximum(self.statistics.totals - self.statistics.own, 0.0)
        return float(sums_by_column(spread, observations.layout, self.mean**2).sum())

    def expected_squared_error(self, observations: Observations) -> float:
        """Sum over observed entries of E[(x - z a)^2]."""
        moments, layout = self.second_moments(), observations.layout
        factor_variance = 0.0
        for g in range(layout.n_groups):
            columns = slice(layout.group_start[g], layout.group_start[g + 1])
            factor_variance += float(np.vdot(moments[g], self.covariance[columns].sum(axis=0)))
        return (
            self.squared_error(observations)
            + self.code_variance(observations)
            + max(factor_variance, 0.0)
        )


def optimal_sticks(probabilities: FloatArray) -> BetaSticks:
    """The best q(pi_k) = Beta(c_k, N - c_k + 1), c_k being at least one row."""
    counts = np.maximum(probabilities.sum(axis=0), 1.0)
    return BetaSticks(counts, np.maximum(probabilities.shape[0] - counts, 0.0) + 1.0)


def code_entropy(probabilities: FloatArray) -> float:
    """H[q(Z)]."""
    return float((entr(probabilities) + entr(1.0 - probabilities)).sum())


def updated_hyperparameters(observations: Observations, candidate: Candidate) -> Hyperparameters:
    """The conjugate updates of tau_X, tau_A and alpha; known ones stay."""
    old = candidate.hyperparameters
    if not old.learned:
        return old
    return old.updated(
        observations,
        candidate.n_components,
        candidate.expected_squared_error(observations),
        float((candidate.mean**2).sum() + candidate.variance.sum()),
    )


def objective(observations: Observations, candidate: Candidate) -> float:
    """L; the Gaussian part of every ln Z_j is in the error that its means leave."""
    k, d = candidate.mean.shape
    hyperparameters = candidate.hyperparameters
    noise, alpha = hyperparameters.noise_precision, hyperparameters.alpha
    error = candidate.squared_error(observations) + candidate.code_variance(observations)
    sticks = candidate.sticks
    return float(
        0.5 * observations.n_observed * (noise.mean_log - np.log(2.0 * np.pi))
        - 0.5 * noise.mean * error
        + candidate.log_partition.sum()
        + k * d * log_prior_constant(hyperparameters.factor_precision.mean_log)
        # E ln of the prior's product over k and the entropies of the sticks, together.
        + float(betaln(sticks.first, sticks.second).sum())
        + k * alpha.mean_log
        - gammaln(k + 1.0)
        - alpha.mean * harmonic_number(observations.n_samples)
        + candidate.entropy
        - hyperparameters.divergence()
    )
