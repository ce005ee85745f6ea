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

from ibp.model.factors import Factors, feature_evidence
from ibp.model.hyperparameters import Hyperparameters
from ibp.model.ibp_prior import SHIFTED, EquivalenceClasses
from ibp.submodular.problem import Problem

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
    prior: EquivalenceClasses = SHIFTED,
) -> Problem:
    """The problem whose maximiser is the best row given all others.

    ``x`` is the observation less the intercept, columns in the same order as those of ``factors``;
    ``others`` are the assignments of the other rows.
    """
    n_samples = others.shape[0] + 1
    counts = np.count_nonzero(others, axis=0)
    linear, quadratic = likelihood_terms(x, factors, hyperparameters.noise_precision.mean)
    new = counts == 0
    shared = counts[~new]
    linear[~new] += np.log(shared) - np.log(n_samples - shared)
    linear[new] += -np.log(n_samples) + feature_evidence(factors, hyperparameters)[new]
    return Problem(linear, quadratic, *prior.row_groups(others))
