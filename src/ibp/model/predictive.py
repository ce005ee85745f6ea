"""The predictive density of an entry: a mixture over the codes that its row may have.

With code z an entry of column d is intercept_d + z'a_d + noise, and to second order Gaussian with

    mean_zd = intercept_d + z'E[a_d],    variance_zd = noise_std_d^2 + sum over k of z_k Var[a_kd];

the codes have their posterior probabilities given what was seen of the row. So the doubt of an
entry has three parts: the noise of its column, the doubt of its factors and that of the bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

FloatArray = npt.NDArray[np.float64]


class PredictiveTerms(NamedTuple):
    """What the columns contribute, in any order that all share.

    Attributes
    ----------
    mean, variance : ndarrays of shape (D, K)
        Of the factors.
    intercept : ndarray of shape (D,)
        The offsets.
    noise_variance : ndarray of shape (D,)
        noise_std^2 of each column.
    """

    mean: FloatArray
    variance: FloatArray
    intercept: FloatArray
    noise_variance: FloatArray


class Filled(NamedTuple):
    """Some entries of some rows: which of these rows, which columns, expectation and doubt."""

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    mean: FloatArray
    std: FloatArray


def predict_row(
    codes: npt.NDArray[np.generic], weight: FloatArray, terms: PredictiveTerms
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of every entry of a row that has these codes with these probabilities."""
    means, variances = _components(codes, terms)
    mean = weight @ means
    return mean, weight @ (variances + (means - mean) ** 2)


def log_density_of_row(
    x: FloatArray, codes: npt.NDArray[np.generic], weight: FloatArray, terms: PredictiveTerms
) -> FloatArray:
    """Ln of the predictive density of each entry by itself, NaN where it is missing."""
    means, variances = _components(codes, terms)
    logs = -0.5 * (np.log(2.0 * np.pi * variances) + (x - means) ** 2 / variances)
    return np.asarray(logsumexp(logs, axis=0, b=weight[:, None]))


def _components(
    codes: npt.NDArray[np.generic], terms: PredictiveTerms
) -> tuple[FloatArray, FloatArray]:
    """Means and variances of the entries with each code."""
    z = codes.astype(np.float64)
    return z @ terms.mean.T + terms.intercept, z @ terms.variance.T + terms.noise_variance
