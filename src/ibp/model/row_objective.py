"""The bound as a function of one row of Z (Eq. 17), as a problem for `ibp.submodular`.

Up to a constant, with the counts m of the other rows,

    F(z_n) = w'z - z'Wz / 2 + h(z),    W = tau_X sum over observed d of E[a_d] E[a_d]'
    w_k = tau_X (x_n . E[a_k] - sum_d Var[a_kd] / 2) + ln(m_k / (N - m_k))           if m_k > 0
    w_k = tau_X (x_n . E[a_k] - sum_d Var[a_kd] / 2) - ln N + eta_k                  if m_k = 0

and h collects the terms that depend on how many features of a group are chosen: -ln K+! for the
shifted classes, and for the left-ordered form the multiplicities of equal columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from ibp.model.factors import Factors, feature_evidence
from ibp.model.hyperparameters import Hyperparameters
from ibp.model.ibp_prior import Prior
from ibp.submodular.problem import NO_GROUP, Problem

FloatArray = npt.NDArray[np.float64]


def likelihood_terms(
    x: npt.NDArray[np.floating], factors: Factors, noise_precision: float
) -> tuple[FloatArray, FloatArray]:
    """w and W of the likelihood for one row less the intercept, NaN where it is not observed."""
    seen = ~np.isnan(x)
    mean = factors.mean[:, seen]
    linear = mean @ x[seen].astype(np.float64) - 0.5 * factors.variance[:, seen].sum(axis=1)
    return noise_precision * linear, noise_precision * (mean @ mean.T)


def row_problem(
    x: npt.NDArray[np.floating],
    others: npt.NDArray[np.uint8],
    factors: Factors,
    hyperparameters: Hyperparameters,
    prior: Prior = "shifted",
) -> Problem:
    """The problem whose maximiser is the best row given all others.

    Parameters
    ----------
    x : ndarray of shape (D,)
        The observation less the intercept, columns in the same order as those of ``factors``.
    others : ndarray of shape (N - 1, K)
        The assignments of the other rows.
    factors, hyperparameters, prior
        The rest of the state.
    """
    n_samples = others.shape[0] + 1
    counts = np.count_nonzero(others, axis=0)
    linear, quadratic = likelihood_terms(x, factors, hyperparameters.noise_precision.mean)
    new = counts == 0
    shared = counts[~new]
    linear[~new] += np.log(shared) - np.log(n_samples - shared)
    linear[new] += -np.log(n_samples) + feature_evidence(factors, hyperparameters)[new]
    group, group_values = class_size_groups(others, prior)
    return Problem(linear, quadratic, group, group_values)


def class_size_groups(
    others: npt.NDArray[np.uint8], prior: Prior
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Groups and values of -ln c(Z) as a function of the row, given the other rows.

    Shifted: the features that nobody else has, t chosen: -ln (K+ without the row + t)!.
    Left-ordered form: columns equal in the other rows form a group of c; t chosen split it into
    t and c - t equal columns: -ln t! - ln (c - t)!. Those nobody else has are inactive unless
    chosen: -ln t! alone.
    """
    k = others.shape[1]
    new = np.asarray(~others.any(axis=0))
    t = np.arange(k + 1)
    if prior == "shifted":
        group = np.where(new, 0, NO_GROUP)
        return group, -gammaln(k - new.sum() + t + 1.0)[None, :]
    columns = np.packbits(others != 0, axis=0).T
    if others.shape[0] == 0:
        group = np.zeros(k, dtype=np.int64)
    else:
        group = np.unique(columns, axis=0, return_inverse=True)[1].ravel()
    group_values = np.zeros((int(group.max(initial=-1)) + 1, k + 1))
    for g in range(group_values.shape[0]):
        members = group == g
        c = int(members.sum())
        values = -gammaln(t[: c + 1] + 1.0)
        if not new[members][0]:
            values -= gammaln(c - t[: c + 1] + 1.0)
        group_values[g, : c + 1] = values
    return group, group_values
