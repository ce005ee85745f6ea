"""Rows of q(Z) = prod Bernoulli(nu_nk), each by coordinate ascent on its own part of the bound.

With the row's linear coefficients l and quadratic form W the optimum of one probability is

    logit nu_k = l_k - W_kk / 2 - sum over j != k of W_kj nu_j,

so a pass over a row costs O(K^2) and does not look at X.
"""

import math

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.block_rows import form_of_own
from ibp.kernels.factors import dot

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
    products,
    log_odds,
    noise_precision,
    form_of_row,
    quadratic,
    constant,
    missing_start,
    missing,
    mean_by_column,
    constant_by_column,
    tolerance,
    max_passes,
    probabilities,
    entropy,
):
    """Passes over every row of ``probabilities`` (n x K) until none moves more than the tolerance.

    ``products`` is X E[A]' of the rows; l = log_odds + noise_precision (products - constant). Row i
    has the form ``form_of_row[i]``; if that is -1, its own, made from form 0 and the positions that
    it misses, ``missing[missing_start[i]:missing_start[i + 1]]``. Forms may be any symmetric
    matrices; only own ones are taken to be sums over columns of E[a] E[a]'. ``entropy`` (n) is
    filled with the rows' entropies.
    """
    n_rows, n = products.shape
    linear = np.empty(n)
    own_quadratic = np.empty((n, n))
    own_constant = np.empty(n)
    no_margins, unused = np.zeros(n), np.empty(n)
    for i in range(n_rows):
        form = form_of_row[i]
        if form < 0:
            form_of_own(
                missing[missing_start[i] : missing_start[i + 1]],
                noise_precision,
                mean_by_column,
                constant_by_column,
                quadratic[0],
                constant[0],
                no_margins,
                own_quadratic,
                own_constant,
                unused,
            )
            form_quadratic, form_constant = own_quadratic, own_constant
        else:
            form_quadratic, form_constant = quadratic[form], constant[form]
        for k in range(n):
            linear[k] = log_odds[k] + noise_precision * (products[i, k] - form_constant[k])
        for _ in range(max_passes):
            entropy[i], largest = pass_over_row(linear, form_quadratic, probabilities[i])
            if largest <= tolerance:
                break
