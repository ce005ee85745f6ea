"""Rows of q(Z) = prod Bernoulli(nu_nk), each by coordinate ascent on its own part of the bound.

With the row's linear coefficients l and quadratic form W the optimum of one probability is

    logit nu_k = l_k - W_kk / 2 - sum over j != k of W_kj nu_j,

so a pass over a row costs O(K^2) and does not look at X.
"""

import math
from typing import NamedTuple

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.block_rows import form_of_own
from ibp.kernels.factors import dot
from ibp.kernels.records import Form, Gaps

LARGE = 1e300


class Forms(NamedTuple):
    """The forms that rows share, and what forms of single rows are made of.

    Attributes
    ----------
    noise_precision : float
        E[tau_X].
    quadratic, constant : ndarrays of shapes (F, K, K), (F, K)
        W, and what X E[A]' loses to intercept and variances.
    mean_by_column, constant_by_column : ndarrays of shape (D, K)
        E[A] and the constant's terms by layout position; not filled in if all rows share a form.
    """

    noise_precision: float
    quadratic: np.ndarray
    constant: np.ndarray
    mean_by_column: np.ndarray
    constant_by_column: np.ndarray


@kernel
def pass_over_row(linear, quadratic, probabilities):
    """Update a row's probabilities one after another; return its entropy and largest move.

    The entropy of a bit with logit t is ln(1 + exp(-|t|)) + |t| / (1 + exp |t|).
    """
    entropy, product, largest = 0.0, 1.0, 0.0
    for k in range(linear.shape[0]):
        old = probabilities[k]
        own = quadratic[k, k]
        logit = linear[k] - 0.5 * own - dot(quadratic[k], probabilities) + own * old
        # exp of a negative number only, so that neither side overflows.
        small = math.exp(-abs(logit))
        likely = 1.0 / (1.0 + small)
        probabilities[k] = likely if logit > 0.0 else small * likely
        largest = max(largest, abs(probabilities[k] - old))
        entropy += abs(logit) * (small * likely)
        product *= 1.0 + small
        if product > LARGE:  # one logarithm for many bits
            entropy += math.log(product)
            product = 1.0
    return entropy + math.log(product), largest


@kernel
def update_rows(products, log_odds, forms, gaps, tolerance, max_passes, probabilities):
    """Passes over every row of ``probabilities`` (n x K) until none moves more than the tolerance.

    ``products`` is X E[A]' of the rows; l = log_odds + noise_precision (products - constant). What
    a row without a shared form misses is taken away from form 0. Forms may be any symmetric
    matrices; only those of single rows are taken to be sums over columns of E[a] E[a]'. At least
    one pass is made. Returns the rows' entropies.
    """
    n_rows, n = products.shape
    entropy = np.empty(n_rows)
    linear = np.empty(n)
    own_gaps = Gaps(
        gaps.missing_start, gaps.missing, forms.mean_by_column, forms.constant_by_column
    )
    complete = Form(forms.quadratic[0], forms.constant[0], np.zeros(n))
    own = Form(np.empty((n, n)), np.empty(n), np.empty(n))
    for i in range(n_rows):
        form = gaps.form_of_row[i]
        if form < 0:
            form_of_own(i, forms.noise_precision, own_gaps, complete, own)
            quadratic, constant = own.quadratic, own.constant
        else:
            quadratic, constant = forms.quadratic[form], forms.constant[form]
        for k in range(n):
            linear[k] = log_odds[k] + forms.noise_precision * (products[i, k] - constant[k])
        for _ in range(max_passes):
            entropy[i], largest = pass_over_row(linear, quadratic, probabilities[i])
            if largest <= tolerance:
                break
    return entropy
