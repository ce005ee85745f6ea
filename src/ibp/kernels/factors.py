"""The update of q(A) from sufficient statistics, and the quadratic forms made from it."""

import math

import numpy as np

from ibp.compiled import inlined, kernel
from ibp.kernels.truncated_normal import standard_entropy, standard_moments_of

# Column groups narrower than this on average are handled column by column.
NARROW_GROUP = 8


# Reassociation lets the compiler add in several lanes at once; the order is fixed at compile time.
@kernel(fastmath={"reassoc", "contract"})
def dot(a, b):
    """Inner product of two vectors."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(fastmath={"contract"}, no_cpython_wrapper=True)
def subtract_combination(target, coefficients, rows, skip, start, stop):
    """Subtract from target[start:stop] the combination of ``rows``, leaving out one row.

    Four rows at a time, so that the target is read and written a quarter as often.
    """
    n = coefficients.shape[0]
    picked = np.empty(4, dtype=np.int64)
    n_picked = 0
    for k in range(n):
        if k != skip and coefficients[k] != 0.0:
            picked[n_picked] = k
            n_picked += 1
            if n_picked == 4:
                c0 = coefficients[picked[0]]
                c1 = coefficients[picked[1]]
                c2 = coefficients[picked[2]]
                c3 = coefficients[picked[3]]
                r0 = rows[picked[0]]
                r1 = rows[picked[1]]
                r2 = rows[picked[2]]
                r3 = rows[picked[3]]
                for d in range(start, stop):
                    target[d] -= c0 * r0[d] + c1 * r1[d] + c2 * r2[d] + c3 * r3[d]
                n_picked = 0
    for i in range(n_picked):
        c0 = coefficients[picked[i]]
        r0 = rows[picked[i]]
        for d in range(start, stop):
            target[d] -= c0 * r0[d]


@kernel
def update_factors(
    sums, group_start, narrow, intercept, noise_precision, factor_precision, factors, space
):
    """`ibp.model.factors.update_factors` in place, for all the columns that are given.

    Both precisions are there for each column; where they are all the same, a fifth of the time is
    saved by dividing once a feature.
    With each feature the intercept's means move by their response times what that takes from the
    sum of residuals, so that they stay at their optimum; with a response of zero they stay as they
    are. Wide column groups are combined row by row; if the groups are ``narrow``, of a column or
    two, the means are also kept by column, so that a column's coupling is one inner product.
    """
    gram, totals, cross = sums.gram, sums.totals, sums.cross
    offset, response = intercept.mean, intercept.response
    location, scale, mean, variance = factors
    residual, by_column = space.residual, space.by_column
    n_components, n_features = cross.shape
    n_groups = group_start.shape[0] - 1
    uniform = True
    for d in range(1, n_features):
        uniform &= noise_precision[d] == noise_precision[0]
        uniform &= factor_precision[d] == factor_precision[0]
    if narrow:
        for k in range(n_components):
            for d in range(n_features):
                by_column[d, k] = mean[k, d]
    for k in range(n_components):
        for g in range(n_groups):
            start, stop = group_start[g], group_start[g + 1]
            total = totals[g, k]
            for d in range(start, stop):
                residual[d] = cross[k, d] - total * offset[d]
                offset[d] += response[d] * total * mean[k, d]
            own = gram[g, k, k]
            if narrow:
                for d in range(start, stop):
                    by_column[d, k] = 0.0
                    residual[d] -= dot(gram[g, k], by_column[d])
            else:
                subtract_combination(residual, gram[g, k], mean, k, start, stop)
            if uniform:
                own_variance = 1.0 / (noise_precision[start] * own + factor_precision[start])
                own_scale = math.sqrt(own_variance)
                step = own_variance * noise_precision[start]
                for d in range(start, stop):
                    location[k, d] = step * residual[d]
                    scale[k, d] = own_scale
                    residual[d] = location[k, d] / own_scale
            else:
                for d in range(start, stop):
                    own_variance = 1.0 / (noise_precision[d] * own + factor_precision[d])
                    own_scale = math.sqrt(own_variance)
                    location[k, d] = own_variance * noise_precision[d] * residual[d]
                    scale[k, d] = own_scale
                    residual[d] = location[k, d] / own_scale
        standard_moments_of(residual, mean[k], variance[k])
        for d in range(n_features):
            mean[k, d] *= scale[k, d]
            variance[k, d] *= scale[k, d] * scale[k, d]
            if narrow:
                by_column[d, k] = mean[k, d]
        for g in range(n_groups):
            total = totals[g, k]
            for d in range(group_start[g], group_start[g + 1]):
                offset[d] -= response[d] * total * mean[k, d]


@kernel
def update_intercept(totals, column_sums, group_start, mean, intercept):
    """The means of `ibp.model.intercept.LearnedIntercept.updated` in place."""
    offset = intercept.mean
    for d in range(column_sums.shape[0]):
        offset[d] = column_sums[d]
    for g in range(group_start.shape[0] - 1):
        subtract_combination(offset, totals[g], mean, -1, group_start[g], group_start[g + 1])
    for d in range(column_sums.shape[0]):
        offset[d] *= intercept.response[d]


@inlined
def factor_entropy(k, factors):
    """`ibp.model.factors.factor_entropy` of one feature."""
    location, scale, mean = factors.location, factors.scale, factors.mean
    entropy = 0.0
    for d in range(location.shape[1]):
        s = scale[k, d]
        entropy += math.log(s) + standard_entropy(location[k, d] / s, mean[k, d] / s)
    return entropy


@kernel
def factor_entropies(factors, entropies):
    """Fill in the entropies of all features."""
    for k in range(entropies.shape[0]):
        entropies[k] = factor_entropy(k, factors)


@kernel
def feature_evidence(k, factors, prior):
    """eta_k of `ibp.model.factors.feature_evidence` for one feature."""
    mean, variance = factors.mean, factors.variance
    n_features = mean.shape[1]
    second = 0.0
    for d in range(n_features):
        second += prior.share[d] * (mean[k, d] * mean[k, d] + variance[k, d])
    log_density = 0.5 * n_features * (prior.mean_log_precision + math.log(2.0 / math.pi))
    constant = log_density + prior.mean_log_alpha
    return constant - 0.5 * prior.precision * second + factor_entropy(k, factors)


@kernel
def complete_form(weight, mean, variance, row, form):
    """The form of rows that miss nothing and have no offset; `ibp.kernels.row_forms` says of what.

    ``weight`` is the noise precision of each column, ``row`` (D floats) work space.
    """
    n_components, n_features = mean.shape
    for k in range(n_components):
        total = 0.0
        for d in range(n_features):
            row[d] = weight[d] * mean[k, d]
            total += weight[d] * variance[k, d]
        form.constant[k] = 0.5 * total
        for j in range(k + 1):
            entry = dot(row, mean[j])
            form.quadratic[k, j] = entry
            form.quadratic[j, k] = entry
