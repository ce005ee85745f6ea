"""Rows of q(Z) = prod Bernoulli(nu_nk), each by coordinate ascent on its own part of the bound.

With the row's linear coefficients l and quadratic form W the optimum of one probability is

    logit nu_k = l_k - W_kk / 2 - sum over j != k of W_kj nu_j,

so a pass over a row costs O(K^2) and does not look at X.
"""

import math

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.factors import dot
from ibp.kernels.row_forms import Form, missing_of_row, own_form

LARGE = 1e300


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
def update_rows(
    products, log_odds, forms, columns, covariance, gaps, tolerance, max_passes, probabilities
):
    """Passes over every row of ``probabilities`` (n x K) until none moves more than the tolerance.

    ``products`` is X times the components of the rows; l = log_odds + scale products - constant.
    ``columns`` is None if no row of X misses anything; ``covariance`` is as in `own_form`. At least
    one pass is made. Returns the rows' entropies.
    """
    n_rows, n = products.shape
    entropy = np.empty(n_rows)
    linear = np.empty(n)
    if columns is not None:
        complete = Form(forms.quadratic[0], forms.constant[0])
        own = Form(np.empty((n, n)), np.empty(n))
    for i in range(n_rows):
        number = gaps.form_of_row[i]
        if columns is not None and number < 0:
            own_form(missing_of_row(i, gaps), columns, covariance, complete, own)
            form = own
        else:
            form = Form(forms.quadratic[number], forms.constant[number])
        for k in range(n):
            linear[k] = log_odds[k] + (forms.scale * products[i, k] - form.constant[k])
        for _ in range(max_passes):
            entropy[i], largest = pass_over_row(linear, form.quadratic, probabilities[i])
            if largest <= tolerance:
                break
    return entropy
