"""Beta-distributed sticks: what mean-field inference knows about how common the features are.

Finite model (K features), with S_k = sum over n of nu_nk:

    pi_k ~ Beta(alpha / K, 1),  z_nk ~ Bernoulli(pi_k),  q(pi_k) = Beta(a_k, b_k)
    a_k = alpha / K + S_k,  b_k = 1 + N - S_k .

Infinite model, truncated at K sticks (Doshi-Velez, Miller, Van Gael and Teh 2009):

    v_k ~ Beta(alpha, 1),  pi_k = v_1 ... v_k,  q(v_k) = Beta(a_k, b_k) .

There E ln(1 - pi_k) has no closed form. 1 - v_1 ... v_k is the sum over y <= k of
(1 - v_y) v_1 ... v_{y-1}, so for every distribution q_k over y, by Jensen's inequality,

    E ln(1 - pi_k) >= sum over y <= k of q_k(y) (t_y - ln q_k(y)),
    t_y = E ln(1 - v_y) + sum over m < y of E ln v_m,

which at the best q_k(y), proportional to exp t_y, is B_k = ln sum over y <= k of exp t_y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, digamma

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BetaSticks:
    """Independent q(v_k) = Beta(first_k, second_k)."""

    first: FloatArray
    second: FloatArray

    @property
    def mean_log(self) -> FloatArray:
        """E ln v_k."""
        return np.asarray(digamma(self.first) - digamma(self.first + self.second))

    @property
    def mean_log_complement(self) -> FloatArray:
        """E ln(1 - v_k)."""
        return np.asarray(digamma(self.second) - digamma(self.first + self.second))

    @property
    def mean_log_odds(self) -> FloatArray:
        """E ln v_k - E ln(1 - v_k)."""
        return np.asarray(digamma(self.first) - digamma(self.second))

    def entropy(self) -> float:
        """The entropy of all sticks together."""
        a, b = self.first, self.second
        return float((betaln(a, b) - (a - 1.0) * self.mean_log).sum()) - float(
            ((b - 1.0) * self.mean_log_complement).sum()
        )

    def log_prior(self, concentration: float, mean_log_concentration: float) -> float:
        """E ln p(v) under Beta(c, 1) of a c that may be uncertain itself."""
        return self.first.size * mean_log_concentration + (concentration - 1.0) * float(
            self.mean_log.sum()
        )


def finite_update(usage: FloatArray, n_samples: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Parameters of the optimal q(pi) of the finite model; ``usage`` is S."""
    return alpha / usage.size + usage, 1.0 + n_samples - usage


def breaking_terms(sticks: BetaSticks) -> FloatArray:
    """t_y, the expected logarithm of the piece that the y-th break leaves behind."""
    mean_log = sticks.mean_log
    return np.asarray(sticks.mean_log_complement + np.cumsum(mean_log) - mean_log)


def complement_bounds(sticks: BetaSticks) -> FloatArray:
    """B_k, the multinomial lower bounds of E ln(1 - pi_k)."""
    return np.asarray(np.logaddexp.accumulate(breaking_terms(sticks)))


def infinite_update(
    sticks: BetaSticks, usage: FloatArray, n_samples: int, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Parameters of the optimal q(v) given the multinomials q_k that are best for ``sticks``.

    With the q_k fixed all sticks can be updated at once: of the N - S_m rows without feature m, a
    part q_m(y) counts as broken off at stick y, and as having passed the sticks before.
    """
    terms = breaking_terms(sticks)
    bounds = np.logaddexp.accumulate(terms)
    multinomials = np.tril(np.exp(np.minimum(terms - bounds[:, None], 0.0)))
    broken = (n_samples - usage) @ multinomials
    passed = np.cumsum((usage + broken)[::-1])[::-1] - broken
    return alpha + passed, 1.0 + broken
