"""Rows of Z against the exact objective (Eq. 17), one after another, with q(A) as it is.

`decide_row` is the paper's step: the best row given all the others. `visit_rows` takes rows one by
one, each against the counts that the rows before it left behind.
"""

import math

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.column_hashes import row_key
from ibp.kernels.factors import feature_evidence
from ibp.submodular.batch import DOUBLE_GREEDY, RANDOMIZED_DOUBLE_GREEDY, optimize
from ibp.submodular.exact import space_for_search
from ibp.submodular.marginals import rounding_noise, start_marginals, value_from_marginals


@kernel
def group_new_features(counts, group, group_values):
    """Shifted classes: the features nobody else has, with -ln K+!. Returns the number of groups."""
    n = counts.shape[0]
    n_new = 0
    for k in range(n):
        if counts[k] == 0:
            n_new += 1
            group[k] = 0
        else:
            group[k] = -1
    if n_new == 0:
        return 0
    for t in range(n_new + 1):
        group_values[0, t] = -math.lgamma(n - n_new + t + 1.0)
    return 1


@kernel
def group_equal_columns(row, own, counts, column_hash, group, group_values):
    """Left-ordered form: columns equal outside the row, with -ln t! - ln (c - t)!.

    ``counts`` are those of the other rows, ``own`` is the row. Returns the number of groups;
    groups of one shared feature are constant and left out.
    """
    n = counts.shape[0]
    low = row_key(row, 0)
    high = row_key(row, 1)
    n_groups = 0
    for k in range(n):
        group[k] = -2  # not looked at yet
    for k in range(n):
        if group[k] != -2:
            continue
        size = 0
        k_low = column_hash[k, 0] ^ (low if own[k] else np.uint64(0))
        k_high = column_hash[k, 1] ^ (high if own[k] else np.uint64(0))
        for j in range(k, n):
            if group[j] == -2 and counts[j] == counts[k]:
                j_low = column_hash[j, 0] ^ (low if own[j] else np.uint64(0))
                j_high = column_hash[j, 1] ^ (high if own[j] else np.uint64(0))
                if j_low == k_low and j_high == k_high:
                    group[j] = n_groups
                    size += 1
        if size == 1:
            # One column: t = 0 or 1, and ln 0! = ln 1! = 0.
            group[k] = -1
            continue
        for t in range(size + 1):
            group_values[n_groups, t] = -math.lgamma(t + 1.0)
            if counts[k] > 0:
                group_values[n_groups, t] -= math.lgamma(size - t + 1.0)
        n_groups += 1
    return n_groups


@kernel
def space_for_rows(n):
    """Work space of `decide_row`: linear, others, gains, group, group_values, group_count, ..."""
    return (
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.empty((2, n)),
        np.empty(n, dtype=np.int64),
        np.empty((max(n, 1), n + 1)),
        np.zeros((2, max(n, 1)), dtype=np.int64),
        space_for_search(n),
    )


@kernel
def decide_row(
    row,
    n_samples,
    likelihood,
    quadratic,
    prepared,
    old,
    new,
    column_hash,
    counts,
    factors,
    prior,
    search,
    uniforms,
    space,
):
    """Write the best row found, given the row ``old`` and the counts with it, into ``new``.

    ``likelihood`` is the linear term of the row objective without the prior. ``factors`` is q(A):
    location, scale, mean, variance; ``prior`` the terms of eta: E tau_A, E ln tau_A, E ln alpha;
    ``search`` says whether the classes are left-ordered, the optimiser, its budget, and whether it
    is cold. Cold searches are the authors': from the empty set, without complement or exchanges,
    accepted whatever they find. Others start from the row as it is and never lower the bound.
    Returns (bits changed, proven).
    """
    left_ordered, optimizer, node_budget, cold = search
    linear, others, gains, group, group_values, group_count, search_space = space
    n_components = old.shape[0]
    for k in range(n_components):
        others[k] = counts[k] - old[k]
        linear[k] = likelihood[k]
        if others[k] > 0:
            linear[k] += math.log(others[k] / (n_samples - others[k]))
        else:
            linear[k] += -math.log(n_samples) + feature_evidence(k, factors, prior)
    if left_ordered:
        n_groups = group_equal_columns(row, old, others, column_hash, group, group_values)
    else:
        n_groups = group_new_features(others, group, group_values)
    values_of_groups = group_values[:n_groups]

    for k in range(n_components):
        new[k] = 0 if cold else old[k]
    value, _, proven = optimize(
        optimizer,
        linear,
        quadratic,
        group,
        values_of_groups,
        new,
        0.0,
        not cold,
        not cold,
        uniforms,
        node_budget,
        prepared,
        gains,
        group_count,
        search_space,
    )
    if not cold and optimizer in (DOUBLE_GREEDY, RANDOMIZED_DOUBLE_GREEDY):
        # The double greedies do not look at the row as it is.
        start_marginals(linear, quadratic, group, old, gains[0], group_count[0])
        present = value_from_marginals(
            linear, quadratic, old, gains[0], values_of_groups, group_count[0]
        )
        noise = rounding_noise(linear, quadratic, group, values_of_groups)
        if value <= present + noise:
            for k in range(n_components):
                new[k] = old[k]
    n_changed = 0
    for k in range(n_components):
        n_changed += new[k] != old[k]
    return n_changed, proven


@kernel
def visit_rows(
    rows,
    n_samples,
    likelihood,
    form_of_row,
    quadratic,
    prepared_forms,
    assignments,
    column_hash,
    counts,
    factors,
    prior,
    search,
    uniforms,
):
    """Decide ``rows`` in that order; row i has the quadratic form number ``form_of_row[i]``.

    Other arguments are as in `decide_row`.
    Overwrites their rows of ``assignments`` (which holds these rows only), the hashes and the
    counts; features may lose their last row. Returns (bits changed, rows proven optimal).
    """
    shift, order, ordered, factor, later = prepared_forms
    n_components = counts.shape[0]
    space = space_for_rows(n_components)
    new = np.empty(n_components, dtype=np.uint8)
    total_changed = 0
    total_proven = 0
    for i in range(rows.shape[0]):
        form = form_of_row[i]
        prepared = (shift[form], order[form], ordered[form], factor[form], later[form])
        n_changed, proven = decide_row(
            rows[i],
            n_samples,
            likelihood[i],
            quadratic[form],
            prepared,
            assignments[i],
            new,
            column_hash,
            counts,
            factors,
            prior,
            search,
            uniforms[i % uniforms.shape[0]],
            space,
        )
        total_proven += proven
        if n_changed == 0:
            continue
        total_changed += n_changed
        for k in range(n_components):
            if new[k] != assignments[i, k]:
                counts[k] += 1 if new[k] else -1
                column_hash[k, 0] ^= row_key(rows[i], 0)
                column_hash[k, 1] ^= row_key(rows[i], 1)
                assignments[i, k] = new[k]
    return total_changed, total_proven
