"""The two priors of Z that samplers know: the Indian Buffet Process and its finite cousin.

The process leaves K open. A row n that is taken out and put back has feature k with the odds

    m_k / (N - m_k) ,    m_k counted without row n,

and Poisson(alpha / N) features of its own. The finite model has K features with pi_k ~
Beta(alpha / K, 1), integrated out:

    odds (m_k + alpha / K) / (N - m_k)
    P(Z) = prod over k of (alpha / K) Gamma(m_k + alpha / K) (N - m_k)! / Gamma(N + 1 + alpha / K) .

Given Z, alpha has a Gamma posterior under the process, with K+ more in its shape and H_N in its
rate. In the finite model it has one given pi, and pi_k | Z ~ Beta(alpha / K + m_k, 1 + N - m_k):
p(alpha | pi) is proportional to p(alpha) alpha^K exp(alpha / K sum of ln pi_k).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from ibp.model.hyperparameters import Hyperparameter, Known
from ibp.model.ibp_prior import LEFT_ORDERED, harmonic_number, sample_assignments

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BitArray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class UnboundedPrior:
    """The Indian Buffet Process; features that no row has are not there."""

    def pseudo_count(self, alpha: float) -> float:
        """What is added to m_k in the odds of a feature."""
        return 0.0

    def rate_of_own(self, alpha: float, n_samples: int) -> float:
        """How many features of its own a row has on average, however many there are."""
        return alpha / n_samples

    def draw(self, alpha: float, n_samples: int, rng: np.random.Generator) -> BitArray:
        """Z from the prior."""
        return sample_assignments(alpha, n_samples, rng)

    def fitted_to(self, assignments: BitArray) -> BitArray:
        """Given assignments without empty columns."""
        return np.ascontiguousarray(assignments[:, assignments.any(axis=0)])

    def kept(self, counts: IntArray) -> npt.NDArray[np.bool_]:
        """Which features stay after a sweep."""
        return counts > 0

    def log_probability(self, assignments: BitArray, alpha: float) -> float:
        """Ln P([Z]) of the class of left-ordered form."""
        return LEFT_ORDERED.log_probability(assignments, alpha)

    def draw_alpha(
        self,
        belief: Hyperparameter,
        counts: IntArray,
        n_samples: int,
        alpha: float,
        rng: np.random.Generator,
    ) -> float:
        """Alpha given Z."""
        return belief.draw(int(np.count_nonzero(counts)), harmonic_number(n_samples), rng)


@dataclass(frozen=True)
class FinitePrior:
    """The beta-Bernoulli model of K features, used or not."""

    n_components: int

    def pseudo_count(self, alpha: float) -> float:
        """What is added to m_k in the odds of a feature."""
        return alpha / self.n_components

    def rate_of_own(self, alpha: float, n_samples: int) -> float:
        """Zero: there are no features beyond the K that all rows have in common."""
        return 0.0

    def draw(self, alpha: float, n_samples: int, rng: np.random.Generator) -> BitArray:
        """Z from the prior."""
        probability = rng.beta(alpha / self.n_components, 1.0, size=self.n_components)
        return (rng.random((n_samples, self.n_components)) < probability).astype(np.uint8)

    def fitted_to(self, assignments: BitArray) -> BitArray:
        """Given assignments, with empty columns up to K."""
        n_samples, given = assignments.shape
        if given > self.n_components:
            raise ValueError(
                f"the start has {given} features, more than n_components={self.n_components}"
            )
        empty = np.zeros((n_samples, self.n_components - given), dtype=np.uint8)
        return np.concatenate([assignments, empty], axis=1)

    def kept(self, counts: IntArray) -> npt.NDArray[np.bool_]:
        """Which features stay after a sweep: all."""
        return np.ones(counts.size, dtype=bool)

    def log_probability(self, assignments: BitArray, alpha: float) -> float:
        """Ln P(Z)."""
        n_samples = assignments.shape[0]
        counts = np.count_nonzero(assignments, axis=0)
        share = alpha / self.n_components
        per_feature = (
            np.log(share)
            + gammaln(counts + share)
            + gammaln(n_samples - counts + 1.0)
            - gammaln(n_samples + 1.0 + share)
        )
        return float(per_feature.sum())

    def draw_alpha(
        self,
        belief: Hyperparameter,
        counts: IntArray,
        n_samples: int,
        alpha: float,
        rng: np.random.Generator,
    ) -> float:
        """Alpha given Z and the present alpha, by way of pi."""
        if isinstance(belief, Known):
            return belief.value
        successes = counts.astype(np.float64)
        log_probability = log_beta_draws(
            alpha / self.n_components + successes, 1.0 + n_samples - successes, rng
        )
        return belief.draw(self.n_components, -float(log_probability.mean()), rng)


AssignmentPrior = UnboundedPrior | FinitePrior


def log_beta_draws(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Ln of Beta draws, finite however small the first parameter is.

    The first of the two Gamma draws is that of one shape more, times U^(1 / shape).
    """
    log_first = np.log(rng.gamma(first + 1.0)) + np.log1p(-rng.random(first.shape)) / first
    return np.asarray(log_first - np.logaddexp(log_first, np.log(rng.gamma(second))))


def prior_of(n_components: int | None) -> AssignmentPrior:
    """The finite model of so many features, or the process if there is no number."""
    return UnboundedPrior() if n_components is None else FinitePrior(int(n_components))
