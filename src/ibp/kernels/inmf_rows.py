"""Rows of q(Z) under a Gaussian q(A) whose factors are correlated within a column.

The row problem is that of `ibp.kernels.mean_field_rows`, with the quadratic form
W = E[tau_X] sum over the observed columns of (V_j + m_j m_j').
"""

from typing import NamedTuple

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.kernels.mean_field_rows import pass_over_row


class CovarianceForms(NamedTuple):
    """The forms that rows share, and what forms of single rows are made of.

    Attributes
    ----------
    noise_precision : float
        E[tau_X].
    quadratic : ndarray of shape (F, K, K)
        W.
    mean_by_column, covariance : ndarrays of shapes (D, K), (D, K, K)
        The m_j and V_j by layout position.
    """

    noise_precision: float
    quadratic: np.ndarray
    mean_by_column: np.ndarray
    covariance: np.ndarray


@kernel
def add_moments(scale, mean, covariance, quadratic):
    """Add a multiple of one column's E[a a'], its lower half."""
    for k in range(mean.shape[0]):
        for j in range(k + 1):
            quadratic[k, j] += scale * (covariance[k, j] + mean[k] * mean[j])


@kernel
def enough_left(missing, forms):
    """Whether W keeps its digits when the missing columns are taken away from it."""
    complete = forms.quadratic[0]
    for k in range(complete.shape[0]):
        left = complete[k, k]
        for i in range(missing.shape[0]):
            d = missing[i]
            moment = forms.covariance[d, k, k] + forms.mean_by_column[d, k] ** 2
            left -= forms.noise_precision * moment
        if left < LEAST_LEFT * complete[k, k]:
            return False
    return True


@kernel
def own_form(missing, forms, quadratic):
    """W of a row that misses the positions ``missing``, sorted.

    What is missing is taken away from the form of complete rows or, if that is the larger part or
    would leave too few digits, what is observed is summed.
    """
    complete, mean, covariance = forms.quadratic[0], forms.mean_by_column, forms.covariance
    n_features, n = mean.shape
    take_away = 2 * missing.shape[0] <= n_features and enough_left(missing, forms)
    for k in range(n):
        for j in range(k + 1):
            quadratic[k, j] = complete[k, j] if take_away else 0.0
    if take_away:
        for i in range(missing.shape[0]):
            d = missing[i]
            add_moments(-forms.noise_precision, mean[d], covariance[d], quadratic)
    else:
        next_missing = 0
        for d in range(n_features):
            if next_missing < missing.shape[0] and missing[next_missing] == d:
                next_missing += 1
            else:
                add_moments(forms.noise_precision, mean[d], covariance[d], quadratic)
    for k in range(n):
        for j in range(k):
            quadratic[j, k] = quadratic[k, j]


@kernel
def update_rows(products, log_odds, forms, gaps, tolerance, max_passes, probabilities):
    """Passes over every row of ``probabilities`` (n x K) until none moves more than the tolerance.

    ``products`` is X E[A]' of the rows. What a row without a shared form misses is taken away from
    form 0. At least one pass is made. Returns the rows' entropies.
    """
    n_rows, n = products.shape
    entropy = np.empty(n_rows)
    linear = np.empty(n)
    own = np.empty((n, n))
    for i in range(n_rows):
        form = gaps.form_of_row[i]
        if form < 0:
            own_form(gaps.missing[gaps.missing_start[i] : gaps.missing_start[i + 1]], forms, own)
            quadratic = own
        else:
            quadratic = forms.quadratic[form]
        for k in range(n):
            linear[k] = log_odds[k] + forms.noise_precision * products[i, k]
        for _ in range(max_passes):
            entropy[i], largest = pass_over_row(linear, quadratic, probabilities[i])
            if largest <= tolerance:
                break
    return entropy
