"""Rows of Z against the exact objective (Eq. 17), one after another, with q(A) as it is.

`decide_row` is the paper's step: the best row given all the others. `visit_rows` takes rows one by
one, each against the counts that the rows before it left behind.
"""

import math

import numpy as np

from ibp.compiled import inlined, inner_kernel, kernel
from ibp.kernels.column_hashes import row_key
from ibp.kernels.factors import feature_evidence
from ibp.kernels.records import RowSpace
from ibp.submodular.batch import optimize
from ibp.submodular.marginals import rounding_noise, start_marginals, value_from_marginals
from ibp.submodular.records import Marginals, Search, Terms, preparation_of, space_for_search


@inner_kernel
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


@inner_kernel
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


@inlined
def space_for_rows(n):
    """Work space of `decide_row`."""
    return RowSpace(
        np.empty(n, dtype=np.uint8),
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty((max(n, 1), n + 1)),
        space_for_search(n, max(n, 1)),
    )


@inlined
def decide_row(row, likelihood, quadratic, prepared, old, context, search, uniforms, space):
    """Write the best row found, given the row ``old`` and the counts with it, into ``space.new``.

    ``likelihood`` is the linear term of the row objective without the prior. Returns (bits changed,
    proven).
    """
    new, linear, others = space.new, space.linear, space.others
    n_components = old.shape[0]
    for k in range(n_components):
        others[k] = context.counts[k] - old[k]
        linear[k] = likelihood[k]
        if others[k] > 0:
            linear[k] += math.log(others[k] / (context.n_samples - others[k]))
        else:
            evidence = feature_evidence(k, context.factors, context.prior)
            linear[k] += -math.log(context.n_samples) + evidence
    if search.left_ordered:
        n_groups = group_equal_columns(
            row, old, others, context.column_hash, space.group, space.group_values
        )
    else:
        n_groups = group_new_features(others, space.group, space.group_values)
    terms = Terms(linear, quadratic, space.group, space.group_values[:n_groups])

    for k in range(n_components):
        new[k] = 0 if search.cold else old[k]
    warm = not search.cold
    row_search = Search(search.optimizer, search.node_budget, warm, warm, 0.0, 0.0)
    value, _, proven = optimize(terms, prepared, new, row_search, uniforms, space.search)
    if uniforms is not None and warm:  # the double greedies do not look at the row as it is
        marginals = Marginals(space.search.gains[0], space.search.group_count[0])
        start_marginals(terms, old, marginals)
        present = value_from_marginals(terms, old, marginals)
        if value <= present + rounding_noise(terms):
            for k in range(n_components):
                new[k] = old[k]
    n_changed = 0
    for k in range(n_components):
        n_changed += new[k] != old[k]
    return n_changed, proven


@kernel
def visit_rows(
    rows, likelihood, form_of_row, quadratic, prepared, assignments, context, search, uniforms
):
    """Decide ``rows`` in that order; row i has the quadratic form number ``form_of_row[i]``.

    Overwrites their rows of ``assignments`` (which holds these rows only), the hashes and the
    counts; features may lose their last row. Returns (bits changed, rows proven optimal).
    ``uniforms`` is as in `ibp.submodular.batch`, for each row or the same for all.
    """
    counts, column_hash = context.counts, context.column_hash
    n_components = counts.shape[0]
    space = space_for_rows(n_components)
    total_changed = 0
    total_proven = 0
    for i in range(rows.shape[0]):
        form = form_of_row[i]
        n_changed, proven = decide_row(
            rows[i],
            likelihood[i],
            quadratic[form],
            preparation_of(form, prepared),
            assignments[i],
            context,
            search,
            None if uniforms is None else uniforms[i % uniforms.shape[0]],
            space,
        )
        total_proven += proven
        if n_changed == 0:
            continue
        total_changed += n_changed
        for k in range(n_components):
            if space.new[k] != assignments[i, k]:
                counts[k] += 1 if space.new[k] else -1
                column_hash[k, 0] ^= row_key(rows[i], 0)
                column_hash[k, 1] ^= row_key(rows[i], 1)
                assignments[i, k] = space.new[k]
    return total_changed, total_proven
