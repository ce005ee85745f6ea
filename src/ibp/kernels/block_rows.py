"""Many rows of Z at once: each on its own, with q(A) and the prior's log-odds the same for all.

That is the row problem of a block of rows under the tangent of the count term, and of new rows
under a fitted model. No groups, so most rows are settled by a certificate of O(K).
"""

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.submodular.batch import DOUBLE_GREEDY, EXACT, RANDOMIZED_DOUBLE_GREEDY
from ibp.submodular.certificate import certified
from ibp.submodular.double_greedy import double_greedy
from ibp.submodular.exact import (
    nearest_plane,
    prepare,
    space_for_preparation,
    space_for_search,
    sphere_search,
)
from ibp.submodular.local_search import local_search
from ibp.submodular.marginals import rounding_noise, start_marginals, value_from_marginals

# An exact search with fewer nodes is not worth its preparation.
SMALLEST_BUDGET = 16
MOST_FATIGUE = 30
# In place of the shift of a preparation that is still to be made.
NOT_PREPARED = -1.0


@kernel
def add_column(sign, noise_precision, mean, constant_terms, quadratic, constant):
    """Add or take away what one column contributes to W (its lower half) and the constant."""
    for k in range(mean.shape[0]):
        constant[k] += sign * constant_terms[k]
        step = sign * noise_precision * mean[k]
        for j in range(k + 1):
            quadratic[k, j] += step * mean[j]


@kernel
def enough_left(missing, noise_precision, mean_by_column, complete_quadratic):
    """Whether W keeps its digits when the missing columns are taken away from it."""
    for k in range(mean_by_column.shape[1]):
        left = complete_quadratic[k, k]
        for i in range(missing.shape[0]):
            left -= noise_precision * mean_by_column[missing[i], k] ** 2
        if left < LEAST_LEFT * complete_quadratic[k, k]:
            return False
    return True


@kernel
def form_of_own(
    missing,
    noise_precision,
    mean_by_column,
    constant_by_column,
    complete_quadratic,
    complete_constant,
    complete_needed,
    quadratic,
    constant,
    needed,
):
    """W, the constant and the margins of a row that misses the positions ``missing``, sorted.

    What is missing is taken away from the form of complete rows or, if that is the larger part or
    would leave too few digits, what is observed is summed. The margins hold because W - D loses no
    more than the squared norm of the missing columns in any direction.
    """
    n_features, n = mean_by_column.shape
    take_away = 2 * missing.shape[0] <= n_features and enough_left(
        missing, noise_precision, mean_by_column, complete_quadratic
    )
    for k in range(n):
        constant[k] = complete_constant[k] if take_away else 0.0
        for j in range(k + 1):
            quadratic[k, j] = complete_quadratic[k, j] if take_away else 0.0
    lost = 0.0
    if take_away:
        for i in range(missing.shape[0]):
            d = missing[i]
            add_column(
                -1.0, noise_precision, mean_by_column[d], constant_by_column[d], quadratic, constant
            )
            for k in range(n):
                lost += noise_precision * mean_by_column[d, k] ** 2
    else:
        lost = np.inf
        next_missing = 0
        for d in range(n_features):
            if next_missing < missing.shape[0] and missing[next_missing] == d:
                next_missing += 1
                continue
            add_column(
                1.0, noise_precision, mean_by_column[d], constant_by_column[d], quadratic, constant
            )
    for k in range(n):
        change = quadratic[k, k] - complete_quadratic[k, k]
        needed[k] = complete_needed[k] + 0.5 * (change + lost)
        for j in range(k):
            quadratic[j, k] = quadratic[k, j]


@kernel
def improve_row(
    optimizer,
    linear,
    quadratic,
    needed,
    prepared,
    chosen,
    thorough,
    uniforms,
    node_budget,
    group,
    group_values,
    group_count,
    gains,
    before,
    space,
):
    """Replace ``chosen`` by a set at least as good, if one is found.

    Returns the gain, whether the set is proven optimal, and whether the exact search was in vain:
    it ran out of its budget without finding anything better than the local search had.
    ``group`` is all -1; ``before`` (K bytes), ``gains`` (2 x K) and ``space`` are work space.
    """
    start_marginals(linear, quadratic, group, chosen, gains[0], group_count[0])
    if certified(needed, chosen, gains[0]):
        return 0.0, True, False
    present = value_from_marginals(
        linear, quadratic, chosen, gains[0], group_values, group_count[0]
    )
    if optimizer in (DOUBLE_GREEDY, RANDOMIZED_DOUBLE_GREEDY):
        for k in range(linear.shape[0]):
            before[k] = chosen[k]
        value, _ = double_greedy(
            linear, quadratic, group, group_values, chosen, uniforms, gains, group_count
        )
        if value <= present + rounding_noise(linear, quadratic, group, group_values):
            for k in range(linear.shape[0]):
                chosen[k] = before[k]
            return 0.0, False, False
        return value - present, False, False
    if optimizer == EXACT and node_budget >= SMALLEST_BUDGET:
        if prepared[0][0] == NOT_PREPARED:
            prepare(quadratic, prepared)
        for k in range(linear.shape[0]):
            before[k] = chosen[k]
        nearest_plane(linear, prepared, chosen, space)
        start_marginals(linear, quadratic, group, chosen, gains[0], group_count[0])
        value = value_from_marginals(
            linear, quadratic, chosen, gains[0], group_values, group_count[0]
        )
        if value > present and certified(needed, chosen, gains[0]):
            return value - present, True, False
        if value <= present:
            for k in range(linear.shape[0]):
                chosen[k] = before[k]
    value, _ = local_search(
        linear,
        quadratic,
        group,
        group_values,
        chosen,
        0.0,
        thorough,
        thorough,
        gains[0],
        group_count,
    )
    if certified(needed, chosen, gains[0]):
        return value - present, True, False
    if optimizer != EXACT or node_budget < SMALLEST_BUDGET:
        return value - present, False, False
    noise = rounding_noise(linear, quadratic, group, group_values)
    found, _, proven = sphere_search(
        linear, group, group_values, prepared, chosen, value, node_budget, noise, space
    )
    return found - present, proven, not proven and found <= value


@kernel
def improve_rows(
    products,
    log_odds,
    noise_precision,
    form_of_row,
    quadratic,
    constant,
    needed,
    prepared_forms,
    missing_start,
    missing,
    mean_by_column,
    constant_by_column,
    optimizer,
    node_budget,
    thorough,
    uniforms,
    assignments,
    fatigue,
    gain,
    proven,
    losses,
):
    """Improve every row of ``assignments`` (n x K) and say by how much, and whether it is proven.

    ``products`` is X E[A]' of the rows. Row i has the quadratic form ``form_of_row[i]``; if that is
    -1, its own, made from form 0 and the positions that it misses, ``missing[missing_start[i]:
    missing_start[i + 1]]``. ``fatigue`` counts how often the exact search of a row was in vain, one
    after the other; each time halves its next budget. ``losses``, unless it is empty, is filled
    with what each row loses when a bit flips.
    """
    n_rows, n = products.shape
    shift, order, ordered, factor, later = prepared_forms
    linear = np.empty(n)
    group = np.full(n, -1, dtype=np.int64)
    group_values = np.empty((0, 1))
    group_count = np.zeros((2, 0), dtype=np.int64)
    gains = np.empty((2, n))
    before = np.empty(n, dtype=np.uint8)
    own_quadratic = np.empty((n, n))
    own_constant = np.empty(n)
    own_needed = np.empty(n)
    own_prepared = space_for_preparation(n)
    space = space_for_search(n)
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
                needed[0],
                own_quadratic,
                own_constant,
                own_needed,
            )
            form_quadratic, form_constant, form_needed = own_quadratic, own_constant, own_needed
            prepared = own_prepared
            prepared[0][0] = NOT_PREPARED
        else:
            form_quadratic, form_constant = quadratic[form], constant[form]
            form_needed = needed[form]
            prepared = (shift[form], order[form], ordered[form], factor[form], later[form])
        for k in range(n):
            linear[k] = log_odds[k] + noise_precision * (products[i, k] - form_constant[k])
        gain[i], proven[i], in_vain = improve_row(
            optimizer,
            linear,
            form_quadratic,
            form_needed,
            prepared,
            assignments[i],
            thorough,
            uniforms[i % uniforms.shape[0]],
            node_budget >> fatigue[i],
            group,
            group_values,
            group_count,
            gains,
            before,
            space,
        )
        if in_vain:
            fatigue[i] = min(fatigue[i] + 1, MOST_FATIGUE)
        elif gain[i] > 0.0 or proven[i]:
            fatigue[i] = 0
        if losses.shape[0] > 0:
            start_marginals(linear, form_quadratic, group, assignments[i], gains[0], group_count[0])
            for k in range(n):
                losses[i, k] = gains[0, k] if assignments[i, k] else -gains[0, k]
