"""MEIBP's pass over the rows of a dense matrix, in the schedule of the paper's authors.

Rows one after another, each against the current counts, and q(A) refreshed once a block of rows
has changed anything (block_size=1: after every changed row). Works on the arrays of the state in
place.
"""

import numpy as np

from ibp.compiled import inlined, kernel
from ibp.kernels.column_hashes import row_key
from ibp.kernels.exact_rows import decide_row, space_for_rows
from ibp.kernels.factors import NARROW_GROUP, complete_form, dot, update_factors, update_intercept
from ibp.kernels.records import FactorSpace
from ibp.kernels.row_forms import Columns, Form, own_form
from ibp.submodular.batch import EXACT
from ibp.submodular.exact import prepare
from ibp.submodular.records import Preparation, preparation_of

# How many quadratic forms are remembered between refreshes of q(A), one per missing pattern.
CACHED_PATTERNS = 64


@kernel
def apply_row_change(old, new, x, observed, group_start, sums):
    """Bring the statistics up to date with a changed row; return how many bits changed."""
    gram, totals, cross, counts = sums
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
                totals[g, k] += 1.0 if new[k] else -1.0
                for j in range(n):
                    change = np.float64(new[k] * new[j]) - np.float64(old[k] * old[j])
                    gram[g, k, j] += change
                    if new[j] == old[j]:  # else the pair comes up again as (j, k)
                        gram[g, j, k] += change
    return n_changed


@inlined
def fill_columns(mean, variance, columns):
    """Fill in what single columns contribute to the form of a row without an offset."""
    for k in range(mean.shape[0]):
        for d in range(mean.shape[1]):
            columns.mean[d, k] = mean[k, d]
            columns.constant[d, k] = 0.5 * columns.weight[d] * variance[k, d]


@kernel
def sweep_rows(schedule, data, layout, intercept, assignments, sums, context, search, uniforms):
    """Visit ``rows[first:last]`` of the schedule, updating every array of the state in place.

    ``data.values`` are these rows. Stops early when a feature loses its last row, so that the
    caller can drop it; the caller also refreshes q(A) after the last row. ``uniforms`` is as in
    `ibp.submodular.batch`, for each row or the same for all.

    Returns (next position, bits changed, rows proven optimal, dirty).
    """
    weight, factor_precision = data.noise_precision, context.prior.precision * context.prior.share
    values, row_pattern, column_hash = data.values, layout.row_pattern, context.column_hash
    mean, variance = context.factors.mean, context.factors.variance
    n_components, n_features = mean.shape
    x = np.empty(n_features)
    residual = np.empty(n_features)
    factor_space = FactorSpace(residual, np.empty((n_features, n_components)))
    observed = np.empty(n_features, dtype=np.bool_)
    missing = np.empty(n_features, dtype=np.int64)
    linear = np.empty(n_components)
    old = np.empty(n_components, dtype=np.uint8)
    space = space_for_rows(n_components)
    new = space.new

    # A direct-mapped cache of what rows of one missing pattern share, valid until q(A) changes.
    n_slots = min(layout.n_patterns, CACHED_PATTERNS)
    cached_pattern = np.full(n_slots, -1, dtype=np.int64)
    quadratic = np.empty((n_slots, n_components, n_components))
    constant = np.empty((n_slots, n_components))
    # What the forms of rows with gaps are made from.
    has_gaps, is_made = layout.n_patterns > 1 or row_pattern.min() < 0, False
    n_columns = n_features if has_gaps else 0
    complete = Form(np.empty((n_components, n_components)), np.empty(n_components))
    columns = Columns(
        weight, np.empty((n_columns, n_components)), np.empty((n_columns, n_components))
    )
    # The exact search's preparations take room that the other optimisers need not spare.
    exact = search.optimizer == EXACT
    n_prepared = n_slots if exact else 1
    preparations = Preparation(
        np.empty((n_prepared, 1)),
        np.empty((n_prepared, n_components), dtype=np.int64),
        np.empty((n_prepared, n_components, n_components)),
        np.empty((n_prepared, n_components, n_components)),
        np.empty((n_prepared, n_components, n_components)),
        np.empty((n_prepared, 2, n_components)),
    )

    narrow = (layout.group_start.shape[0] - 1) * NARROW_GROUP > n_features
    total_changed = 0
    total_proven = 0
    position = schedule.first
    dirty = schedule.dirty
    while position < schedule.last:
        if dirty and position % schedule.block_size == 0:
            update_intercept(sums.totals, data.column_sums, layout.group_start, mean, intercept)
            update_factors(
                sums,
                layout.group_start,
                narrow,
                intercept,
                weight,
                factor_precision,
                context.factors,
                factor_space,
            )
            for i in range(n_slots):
                cached_pattern[i] = -1
            dirty, is_made = False, False
        n = schedule.rows[position]
        n_missing = 0
        for d in range(n_features):
            entry = values[position - schedule.first, layout.column_order[d]]
            observed[d] = entry == entry
            x[d] = (entry - data.centre[d]) / data.unit[d] if observed[d] else 0.0
            if not observed[d]:
                missing[n_missing] = d
                n_missing += 1
        pattern = row_pattern[n]
        slot = max(pattern, 0) % n_slots
        prepared = preparation_of(slot if exact else 0, preparations)
        if pattern < 0 or cached_pattern[slot] != pattern:
            form = Form(quadratic[slot], constant[slot])
            if not has_gaps:
                complete_form(weight, mean, variance, residual, form)
            else:
                if not is_made:
                    complete_form(weight, mean, variance, residual, complete)
                    fill_columns(mean, variance, columns)
                    is_made = True
                own_form(missing[:n_missing], columns, None, complete, form)
            if exact:
                prepare(quadratic[slot], prepared)
            cached_pattern[slot] = pattern

        # The linear term of the row objective (Eq. 17), for x less the intercept.
        for d in range(n_features):
            residual[d] = weight[d] * (x[d] - intercept.mean[d]) if observed[d] else 0.0
        for k in range(n_components):
            old[k] = assignments[n, k]
            linear[k] = dot(residual, mean[k]) - constant[slot, k]
        n_changed, proven = decide_row(
            n,
            linear,
            quadratic[slot],
            prepared,
            old,
            context,
            search,
            None if uniforms is None else uniforms[(position - schedule.first) % uniforms.shape[0]],
            space,
        )
        total_proven += proven
        position += 1
        if n_changed == 0:
            continue
        total_changed += apply_row_change(old, new, x, observed, layout.group_start, sums)
        dirty = True
        died = False
        for k in range(n_components):
            if new[k] != old[k]:
                assignments[n, k] = new[k]
                column_hash[k, 0] ^= row_key(n, 0)
                column_hash[k, 1] ^= row_key(n, 1)
                died = died or sums.counts[k] == 0
        if died:
            return position, total_changed, total_proven, dirty
    return position, total_changed, total_proven, dirty
