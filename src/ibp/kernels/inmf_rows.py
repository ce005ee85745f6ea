"""Rows of q(Z) under a Gaussian q(A) whose factors are correlated within a column.

The row problem is that of `ibp.kernels.mean_field_rows`, with the quadratic form
W = E[tau_X] sum over the observed columns of (V_j + m_j m_j').
"""

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.kernels.mean_field_rows import pass_over_row


@kernel
def add_moments(scale, mean, covariance, quadratic):
    """Add a multiple of one column's E[a a'], its lower half."""
    for k in range(mean.shape[0]):
        for j in range(k + 1):
            quadratic[k, j] += scale * (covariance[k, j] + mean[k] * mean[j])


@kernel
def enough_left(missing, noise_precision, mean_by_column, covariance, complete):
    """Whether W keeps its digits when the missing columns are taken away from it."""
    for k in range(mean_by_column.shape[1]):
        left = complete[k, k]
        for i in range(missing.shape[0]):
            d = missing[i]
            left -= noise_precision * (covariance[d, k, k] + mean_by_column[d, k] ** 2)
        if left < LEAST_LEFT * complete[k, k]:
            return False
    return True


@kernel
def own_form(missing, noise_precision, mean_by_column, covariance, complete, quadratic):
    """W of a row that misses the positions ``missing``, sorted.

    What is missing is taken away from the form of complete rows or, if that is the larger part or
    would leave too few digits, what is observed is summed.
    """
    n_features, n = mean_by_column.shape
    take_away = 2 * missing.shape[0] <= n_features and enough_left(
        missing, noise_precision, mean_by_column, covariance, complete
    )
    for k in range(n):
        for j in range(k + 1):
            quadratic[k, j] = complete[k, j] if take_away else 0.0
    if take_away:
        for i in range(missing.shape[0]):
            d = missing[i]
            add_moments(-noise_precision, mean_by_column[d], covariance[d], quadratic)
    else:
        next_missing = 0
        for d in range(n_features):
            if next_missing < missing.shape[0] and missing[next_missing] == d:
                next_missing += 1
            else:
                add_moments(noise_precision, mean_by_column[d], covariance[d], quadratic)
    for k in range(n):
        for j in range(k):
            quadratic[j, k] = quadratic[k, j]


@kernel
def update_rows(
    products,
    log_odds,
    noise_precision,
    form_of_row,
    quadratic,
    missing_start,
    missing,
    mean_by_column,
    covariance,
    tolerance,
    max_passes,
    probabilities,
    entropy,
):
    """Passes over every row of ``probabilities`` (n x K) until none moves more than the tolerance.

    ``products`` is X E[A]' of the rows. Row i has the form ``form_of_row[i]``; if that is -1, its
    own, made from form 0 and the positions that it misses, ``missing[missing_start[i]:
    missing_start[i + 1]]``. ``entropy`` (n) is filled with the rows' entropies.
    """
    n_rows, n = products.shape
    linear = np.empty(n)
    own = np.empty((n, n))
    for i in range(n_rows):
        form = form_of_row[i]
        if form < 0:
            own_form(
                missing[missing_start[i] : missing_start[i + 1]],
                noise_precision,
                mean_by_column,
                covariance,
                quadratic[0],
                own,
            )
            form_quadratic = own
        else:
            form_quadratic = quadratic[form]
        for k in range(n):
            linear[k] = log_odds[k] + noise_precision * products[i, k]
        for _ in range(max_passes):
            entropy[i], largest = pass_over_row(linear, form_quadratic, probabilities[i])
            if largest <= tolerance:
                break
