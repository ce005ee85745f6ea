"""Weighted codes: how much of a feature a row has, where it has it.

    x_nd = b_d + sum_k z_nk w_nk a_kd + noise_nd,    w_nk ~ N(1, s_k^2) truncated to [0, inf)

where z_nk = 1; elsewhere there is no weight. q(w_nk) is a truncated Gaussian. With s_k = 0 every
weight of feature k is 1, and it is a feature of the paper's model.

All that the data say of a weight, the row's other codes being as they are, is in two numbers,

    P = sum_d tau_d E[a_kd^2],    r = sum_d tau_d E[a_kd] (x_nd - b_d - sum_{j != k} c_nj E[a_jd])

with the expected codes c = z E[w] and sums over what the row observes: the likelihood is
r w - P w^2 / 2. So the best q(w_nk) has the precision p = 1 / s^2 + P and the location
m = (1 / s^2 + r) / p, and to have the feature gains

    ln odds + ln Phi(m sqrt p) - ln Phi(1 / s) - ln(1 + P s^2) / 2
            + (2 r + r^2 s^2 - P) / (2 (1 + P s^2)),

in which nothing cancels, and which for s = 0 is that of the binary model, ln odds + r - P / 2.

Sums over the rows are those of the binary model with c in the place of Z and, on the diagonal of
Z'Z, E[w^2] in the place of ones. The bound pays the divergence of each q(w_nk) from its prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from ibp.model import truncated_normal

FloatArray = npt.NDArray[np.float64]


@dataclass
class Weights:
    """q(W) where a row has a feature, and zeros elsewhere; N x K each, in X's precision.

    Attributes
    ----------
    mean, variance : ndarray of shape (N, K)
        E[w] and Var[w]. With zeros where z = 0 the means are the expected codes.
    divergence : ndarray of shape (N, K)
        KL(q(w) || p(w)).
    std : ndarray of shape (K,)
        s, the spread of the prior of each feature's weights.
    """

    mean: npt.NDArray[np.floating]
    variance: npt.NDArray[np.floating]
    divergence: npt.NDArray[np.floating]
    std: FloatArray

    @classmethod
    def ones(cls, assignments: npt.NDArray[np.uint8], dtype: npt.DTypeLike) -> Weights:
        """Those of the binary model: every weight is known to be one."""
        zeros = np.zeros(assignments.shape, dtype=dtype)
        return cls(assignments.astype(dtype), zeros, zeros.copy(), np.zeros(assignments.shape[1]))

    def select(self, keep: npt.NDArray[np.bool_]) -> Weights:
        """The weights of some of the features."""
        return Weights(
            np.ascontiguousarray(self.mean[:, keep]),
            np.ascontiguousarray(self.variance[:, keep]),
            np.ascontiguousarray(self.divergence[:, keep]),
            self.std[keep],
        )

    def divergences(self) -> FloatArray:
        """What the bound pays for the weights of each feature."""
        return np.asarray(self.divergence.sum(axis=0, dtype=np.float64))


class BestWeight(NamedTuple):
    """The best q(w) given all else, elementwise, and what it gains to have the feature."""

    gain: FloatArray
    mean: FloatArray
    variance: FloatArray
    divergence: FloatArray


def log_mass(std: npt.ArrayLike) -> FloatArray:
    """Ln Phi(1 / s): how much of the prior's Gaussian is not cut off."""
    with np.errstate(divide="ignore"):
        return np.asarray(log_ndtr(1.0 / np.asarray(std, dtype=np.float64)))


def best_weight(
    linear: npt.ArrayLike, precision: npt.ArrayLike, std: npt.ArrayLike, log_odds: npt.ArrayLike
) -> BestWeight:
    """The joint optimum of z and q(w), from r, P, s and the log-odds of z; the gain of z = 1."""
    r, own, s, odds = np.broadcast_arrays(
        *(np.asarray(value, dtype=np.float64) for value in (linear, precision, std, log_odds))
    )
    growth = 1.0 + own * s**2
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = s / np.sqrt(growth)
        location = (1.0 + r * s**2) / growth
        moments = truncated_normal.moments(location, np.where(s > 0, scale, 1.0))
        mass = log_ndtr(np.where(s > 0, location / scale, np.inf))
    mean = np.where(s > 0, moments.mean, 1.0)
    variance = np.where(s > 0, moments.variance, 0.0)
    log_evidence = (
        mass - log_mass(s) - 0.5 * np.log(growth) + (2.0 * r + (r * s) ** 2 - own) / (2.0 * growth)
    )
    divergence = r * mean - 0.5 * own * (mean**2 + variance) - log_evidence
    return BestWeight(odds + log_evidence, mean, variance, np.where(s > 0, divergence, 0.0))


def weight_divergence(location: FloatArray, scale: FloatArray, std: FloatArray) -> FloatArray:
    """KL(TN(location, scale) || TN(1, std)), for std > 0."""
    moments = truncated_normal.moments(location, scale)
    squares = moments.second_moment - 2.0 * moments.mean + 1.0
    log_prior = -0.5 * np.log(2.0 * np.pi * std**2) - log_mass(std) - 0.5 * squares / std**2
    return np.asarray(-truncated_normal.entropy(location, scale) - log_prior)


def row_objective(
    mean: FloatArray,
    variance: FloatArray,
    divergence: FloatArray,
    linear: FloatArray,
    quadratic: FloatArray,
    doubt: FloatArray,
    log_odds: FloatArray,
) -> float:
    """What the bound has of one row, up to a constant.

    ``linear`` is sum_d tau_d E[a_d] (x_d - b_d), ``quadratic`` sum_d tau_d E[a_d] E[a_d]' and
    ``doubt`` sum_d tau_d Var[a_d]; a row has the features whose mean weight is not zero.
    """
    own = np.diagonal(quadratic) + doubt
    likelihood = linear @ mean - 0.5 * mean @ quadratic @ mean
    likelihood -= 0.5 * (own @ variance + doubt @ mean**2)
    return float(likelihood + (log_odds - divergence)[mean > 0].sum())
