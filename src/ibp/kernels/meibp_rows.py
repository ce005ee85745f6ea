"""MEIBP's pass over the rows: optimise a row, keep the statistics current, refresh q(A).

`sweep_rows` is the schedule of the paper's authors: rows one after another, each against the
current counts, and q(A) refreshed once a block of rows has changed anything (block_size=1: after
every changed row). It works on the arrays of the state in place.
"""

import math

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.factors import dot, feature_evidence, quadratic_form, update_factors
from ibp.submodular.batch import DOUBLE_GREEDY, EXACT, RANDOMIZED_DOUBLE_GREEDY, optimize
from ibp.submodular.exact import prepare
from ibp.submodular.marginals import rounding_noise, start_marginals, value_from_marginals

# How many quadratic forms are remembered between refreshes of q(A), one per missing pattern.
CACHED_PATTERNS = 64


@kernel
def row_key(n, half):
    """64 well-mixed bits that stand for row n; two halves make 128."""
    x = np.uint64(2 * n + half + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def column_hashes(assignments):
    """A 128-bit hash per column, the exclusive or of its rows' keys, shape (K, 2).

    Equal columns have equal hashes and a flipped bit changes one in O(1), so columns that are equal
    outside a row are found without reading them. Different columns collide with probability 2^-128.
    """
    n_rows, n_components = assignments.shape
    hashes = np.zeros((n_components, 2), dtype=np.uint64)
    for n in range(n_rows):
        low = row_key(n, 0)
        high = row_key(n, 1)
        for k in range(n_components):
            if assignments[n, k]:
                hashes[k, 0] ^= low
                hashes[k, 1] ^= high
    return hashes


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
def apply_row_change(old, new, x, observed, group_start, gram, cross, counts):
    """Bring the statistics up to date with a changed row; return how many bits changed."""
    n = old.shape[0]
    n_changed = 0
    for k in range(n):
        if new[k] != old[k]:
            sign = 1.0 if new[k] else -1.0
            counts[k] += 1 if new[k] else -1
            n_changed += 1
            for d in range(x.shape[0]):
                cross[k, d] += sign * x[d]
    for g in range(gram.shape[0]):
        if observed[group_start[g]]:
            for k in range(n):
                if new[k] == old[k]:
                    continue
                for j in range(n):
                    change = np.float64(new[k] * new[j]) - np.float64(old[k] * old[j])
                    gram[g, k, j] += change
                    if new[j] == old[j]:  # else the pair comes up again as (j, k)
                        gram[g, j, k] += change
    return n_changed


@kernel
def sweep_rows(
    values,
    rows,
    first,
    last,
    block_size,
    dirty,
    column_order,
    group_start,
    row_pattern,
    n_patterns,
    assignments,
    column_hash,
    gram,
    cross,
    counts,
    location,
    scale,
    mean,
    variance,
    noise_precision,
    factor_precision,
    factor_mean_log_precision,
    mean_log_alpha,
    left_ordered,
    optimizer,
    node_budget,
    cold,
    uniforms,
):
    """Visit ``rows[first:last]`` in that order, updating every array of the state in place.

    Stops early when a feature loses its last row, so that the caller can drop it. ``dirty`` says
    that rows have changed since q(A) was refreshed; the caller refreshes it after the last row.
    ``cold`` searches are the authors': from the empty set, without complement or exchanges,
    accepted whatever they find. Others start from the row as it is and never lower the bound.

    Returns (next position, bits changed, dirty).
    """
    n_samples = values.shape[0]
    n_components, n_features = mean.shape
    x = np.empty(n_features)
    residual = np.empty(n_features)
    by_column = np.empty((n_features, n_components))
    observed = np.empty(n_features, dtype=np.bool_)
    packed = np.empty((n_components, n_features))
    linear = np.empty(n_components)
    others = np.empty(n_components, dtype=np.int64)
    old = np.empty(n_components, dtype=np.uint8)
    new = np.empty(n_components, dtype=np.uint8)
    gains = np.empty((2, n_components))
    group = np.empty(n_components, dtype=np.int64)
    group_values = np.empty((max(n_components, 1), n_components + 1))
    group_count = np.zeros((2, max(n_components, 1)), dtype=np.int64)

    # A direct-mapped cache of what rows of one missing pattern share, valid until q(A) changes.
    n_slots = min(n_patterns, CACHED_PATTERNS)
    cached_pattern = np.full(n_slots, -1, dtype=np.int64)
    quadratic = np.empty((n_slots, n_components, n_components))
    total_variance = np.empty((n_slots, n_components))
    # The exact search's preparations take room that the other optimisers need not spare.
    n_prepared = n_slots if optimizer == EXACT else 1
    shift = np.empty((n_prepared, 1))
    order = np.empty((n_prepared, n_components), dtype=np.int64)
    ordered = np.empty((n_prepared, n_components, n_components))
    factor = np.empty((n_prepared, n_components, n_components))
    later = np.empty((n_prepared, n_components))

    total_changed = 0
    position = first
    while position < last:
        if dirty and position % block_size == 0:
            update_factors(
                gram,
                cross,
                group_start,
                noise_precision,
                factor_precision,
                location,
                scale,
                mean,
                variance,
                residual,
                by_column,
            )
            cached_pattern[:] = -1
            dirty = False
        n = rows[position]
        for d in range(n_features):
            entry = values[n, column_order[d]]
            observed[d] = entry == entry
            x[d] = entry if observed[d] else 0.0
        pattern = row_pattern[n]
        slot = pattern % n_slots
        i = slot if optimizer == EXACT else 0
        prepared = (shift[i], order[i], ordered[i], factor[i], later[i])
        if cached_pattern[slot] != pattern:
            quadratic_form(
                observed,
                mean,
                variance,
                noise_precision,
                packed,
                quadratic[slot],
                total_variance[slot],
            )
            if optimizer == EXACT:
                prepare(quadratic[slot], prepared)
            cached_pattern[slot] = pattern

        # The linear term of the row objective (Eq. 17).
        for k in range(n_components):
            old[k] = assignments[n, k]
            others[k] = counts[k] - old[k]
            linear[k] = noise_precision * (dot(x, mean[k]) - 0.5 * total_variance[slot, k])
            if others[k] > 0:
                linear[k] += math.log(others[k] / (n_samples - others[k]))
            else:
                linear[k] += -math.log(n_samples) + feature_evidence(
                    k,
                    location,
                    scale,
                    mean,
                    variance,
                    factor_precision,
                    factor_mean_log_precision,
                    mean_log_alpha,
                )
        if left_ordered:
            n_groups = group_equal_columns(n, old, others, column_hash, group, group_values)
        else:
            n_groups = group_new_features(others, group, group_values)
        values_of_groups = group_values[:n_groups]

        for k in range(n_components):
            new[k] = 0 if cold else old[k]
        value, _, _ = optimize(
            optimizer,
            linear,
            quadratic[slot],
            group,
            values_of_groups,
            new,
            0.0,
            not cold,
            not cold,
            uniforms[(position - first) % uniforms.shape[0]],
            node_budget,
            prepared,
            gains,
            group_count,
        )
        if not cold and optimizer in (DOUBLE_GREEDY, RANDOMIZED_DOUBLE_GREEDY):
            # The double greedies do not look at the row as it is.
            start_marginals(linear, quadratic[slot], group, old, gains[0], group_count[0])
            present = value_from_marginals(
                linear, quadratic[slot], old, gains[0], values_of_groups, group_count[0]
            )
            noise = rounding_noise(linear, quadratic[slot], group, values_of_groups)
            if value <= present + noise:
                new[:] = old

        n_changed = 0
        for k in range(n_components):
            n_changed += new[k] != old[k]
        position += 1
        if n_changed == 0:
            continue
        total_changed += apply_row_change(old, new, x, observed, group_start, gram, cross, counts)
        dirty = True
        died = False
        for k in range(n_components):
            if new[k] != old[k]:
                assignments[n, k] = new[k]
                column_hash[k, 0] ^= row_key(n, 0)
                column_hash[k, 1] ^= row_key(n, 1)
                died = died or counts[k] == 0
        if died:
            return position, total_changed, dirty
    return position, total_changed, dirty
