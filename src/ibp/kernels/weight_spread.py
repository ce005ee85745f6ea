"""How far the weights of a feature spread: s_k and q(w_k) together, for all rows that have it.

With z and all other features as they are, the best q(w_nk) and what it gains are known for any s,
so s_k is found by maximising the rows' summed gains. Steps in turn, s for fixed q and q for fixed
s, hardly move where weights that are all alike are known well: s would shrink for ever.
"""

import math

import numpy as np

from ibp.compiled import inner_kernel, kernel
from ibp.kernels.row_forms import missing_of_row
from ibp.kernels.truncated_normal import standard_log_mass, standard_moments_at

# The most that s may be. With more, weights are anything but about one, and rows of which little is
# seen take weights that are far off: hidden blocks of Piano are missed by a quarter more at 10.
MOST_STD = 1.0
# Candidates for s, of which the best is looked about; zero is tried, too.
CANDIDATES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7, MOST_STD])
# Rows that the candidates are tried on, rows of the search about the best one, and its steps. What
# is found is held to what there was by all rows.
TRIED_ROWS, SEARCHED_ROWS, STEPS = 256, 1024, 8
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


@inner_kernel
def log_prior_mass(s):
    """Ln Phi(1 / s)."""
    ratio = 1.0 / s
    mean, _ = standard_moments_at(ratio)
    return standard_log_mass(ratio, mean)


@inner_kernel
def summed_gain(s, linear, own, step):
    """What every ``step``-th of some rows gains together by its weight, at its best for s."""
    total = 0.0
    if s == 0.0:
        for i in range(0, linear.shape[0], step):
            total += linear[i] - 0.5 * own[i]
        return total
    mass = log_prior_mass(s)
    for i in range(0, linear.shape[0], step):
        r, growth = linear[i], 1.0 + own[i] * s * s
        ratio = (1.0 + r * s * s) / (s * math.sqrt(growth))
        if ratio < 6.0:  # else less than 1e-9 of the Gaussian is cut off
            mean, _ = standard_moments_at(ratio)
            total += standard_log_mass(ratio, mean)
        total += (2.0 * r + (r * s) * (r * s) - own[i]) / (2.0 * growth) - 0.5 * math.log(growth)
        total -= mass
    return total


@kernel
def best_spread(linear, own, present):
    """The s that the rows together gain most by, from their r and P; never worse than the present.

    Returns s and by how much it is better.
    """
    n = linear.shape[0]
    step = max(1, n // TRIED_ROWS)
    chosen, highest = 0, -np.inf
    for i in range(CANDIDATES.shape[0]):
        value = summed_gain(CANDIDATES[i], linear, own, step)
        if value > highest:
            chosen, highest = i, value
    low = math.log(CANDIDATES[max(chosen - 1, 0)])
    high = math.log(CANDIDATES[min(chosen + 1, CANDIDATES.shape[0] - 1)])
    step = max(1, n // SEARCHED_ROWS)
    found, at_found = CANDIDATES[chosen], summed_gain(CANDIDATES[chosen], linear, own, step)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left = summed_gain(math.exp(left), linear, own, step)
    at_right = summed_gain(math.exp(right), linear, own, step)
    for _ in range(STEPS):
        if at_left > at_right:
            if at_left > at_found:
                found, at_found = math.exp(left), at_left
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = summed_gain(math.exp(left), linear, own, step)
        else:
            if at_right > at_found:
                found, at_found = math.exp(right), at_right
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = summed_gain(math.exp(right), linear, own, step)
    before = summed_gain(present, linear, own, 1)
    best, at_best = present, before
    for s in (0.0, found):
        value = summed_gain(s, linear, own, 1)
        if value > at_best:
            best, at_best = s, value
    return best, at_best - before


@kernel
def rests_of_rows(products, forms, columns, gaps, mean, rest):
    """Fill in r - W c for all rows, r being what the data say of the features together."""
    n_rows, n = products.shape
    for i in range(n_rows):
        number = gaps.form_of_row[i]
        own = columns is not None and number < 0
        form = 0 if own else number
        for k in range(n):
            total = forms.scale * products[i, k] - forms.constant[form, k]
            for j in range(n):
                total -= forms.quadratic[form, k, j] * mean[i, j]
            rest[i, k] = total
        if columns is not None and own:
            missing = missing_of_row(i, gaps)
            for place in range(missing.shape[0]):
                d = missing[place]
                fitted = 0.0
                for j in range(n):
                    fitted += columns.mean[d, j] * mean[i, j]
                for k in range(n):
                    rest[i, k] += (
                        columns.constant[d, k] + columns.weight[d] * columns.mean[d, k] * fitted
                    )


@kernel
def terms_of_feature(k, rows, forms, columns, gaps, mean, rest, linear, own):
    """Fill in r and P of feature k for some rows, its own weight being taken out of r."""
    for place in range(rows.shape[0]):
        i = rows[place]
        number = gaps.form_of_row[i]
        if columns is not None and number < 0:
            square, doubt = forms.quadratic[0, k, k], forms.doubt[0, k]
            missing = missing_of_row(i, gaps)
            for entry in range(missing.shape[0]):
                d = missing[entry]
                square -= columns.weight[d] * columns.mean[d, k] ** 2
                doubt -= columns.doubt[d, k]
            square, doubt = max(square, 0.0), max(doubt, 0.0)
        else:
            square, doubt = forms.quadratic[number, k, k], forms.doubt[number, k]
        linear[place] = rest[i, k] + square * mean[i, k]
        own[place] = square + doubt


@kernel
def set_weights(k, s, rows, terms, forms, columns, gaps, weights, rest):
    """Give rows their best weights of feature k for s, and bring r - W c along.

    ``terms`` are the rows' r and P, ``weights`` means, variances and divergences.
    """
    linear, own = terms
    mean, variance, divergence = weights
    n = mean.shape[1]
    mass = log_prior_mass(s) if s > 0.0 else 0.0
    for place in range(rows.shape[0]):
        i, r = rows[place], linear[place]
        old = mean[i, k]
        if s == 0.0:
            mean[i, k], variance[i, k], divergence[i, k] = 1.0, 0.0, 0.0
        else:
            growth = 1.0 + own[place] * s * s
            scale = s / math.sqrt(growth)
            ratio = (1.0 + r * s * s) / (growth * scale)
            g, v = standard_moments_at(ratio)
            m, spread = scale * g, scale * scale * v
            gain = standard_log_mass(ratio, g) - mass - 0.5 * math.log(growth)
            gain += (2.0 * r + (r * s) * (r * s) - own[place]) / (2.0 * growth)
            mean[i, k], variance[i, k] = m, spread
            divergence[i, k] = max(r * m - 0.5 * own[place] * (m * m + spread) - gain, 0.0)
        change = mean[i, k] - old
        number = gaps.form_of_row[i]
        alone = columns is not None and number < 0
        row = forms.quadratic[0 if alone else number, k]
        for j in range(n):
            rest[i, j] -= change * row[j]
        if columns is not None and alone:
            missing = missing_of_row(i, gaps)
            for entry in range(missing.shape[0]):
                d = missing[entry]
                step = change * columns.weight[d] * columns.mean[d, k]
                for j in range(n):
                    rest[i, j] += step * columns.mean[d, j]
