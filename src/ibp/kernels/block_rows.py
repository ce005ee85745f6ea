"""Many rows of Z at once: each on its own, with q(A) and the prior's log-odds the same for all.

That is the row problem of a block of rows under the tangent of the count term, and of new rows
under a fitted model. No groups, so most rows are settled by a certificate of O(K).
"""

import numpy as np

from ibp.compiled import inlined, kernel
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.kernels.records import Form
from ibp.submodular.batch import EXACT
from ibp.submodular.certificate import certified
from ibp.submodular.double_greedy import double_greedy
from ibp.submodular.exact import nearest_plane, prepare, sphere_search
from ibp.submodular.local_search import local_search
from ibp.submodular.marginals import rounding_noise, start_marginals, value_from_marginals
from ibp.submodular.records import (
    Marginals,
    Terms,
    preparation_of,
    space_for_preparation,
    space_for_search,
)

# An exact search with fewer nodes is not worth its preparation.
SMALLEST_BUDGET = 16
MOST_FAILED_SEARCHES = 30
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


@inlined
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
def form_of_own(row, noise_precision, gaps, complete, own):
    """Fill in ``own``, the form of a row with gaps, given that of complete rows.

    What is missing is taken away from the form of complete rows or, if that is the larger part or
    would leave too few digits, what is observed is summed. The margins hold because W - D loses no
    more than the squared norm of the missing columns in any direction.
    """
    missing = gaps.position[gaps.start[row] : gaps.start[row + 1]]
    quadratic, constant = own.quadratic, own.constant
    n_features, n = gaps.mean.shape
    take_away = 2 * missing.shape[0] <= n_features and enough_left(
        missing, noise_precision, gaps.mean, complete.quadratic
    )
    for k in range(n):
        constant[k] = complete.constant[k] if take_away else 0.0
        for j in range(k + 1):
            quadratic[k, j] = complete.quadratic[k, j] if take_away else 0.0
    lost = 0.0
    if take_away:
        for i in range(missing.shape[0]):
            d = missing[i]
            add_column(-1.0, noise_precision, gaps.mean[d], gaps.constant[d], quadratic, constant)
            for k in range(n):
                lost += noise_precision * gaps.mean[d, k] ** 2
    else:
        lost = np.inf
        next_missing = 0
        for d in range(n_features):
            if next_missing < missing.shape[0] and missing[next_missing] == d:
                next_missing += 1
                continue
            add_column(1.0, noise_precision, gaps.mean[d], gaps.constant[d], quadratic, constant)
    for k in range(n):
        change = quadratic[k, k] - complete.quadratic[k, k]
        own.needed[k] = complete.needed[k] + 0.5 * (change + lost)
        for j in range(k):
            quadratic[j, k] = quadratic[k, j]


@inlined
def improve_row(terms, needed, prepared, chosen, search, node_budget, uniforms, before, space):
    """Replace ``chosen`` by a set at least as good, if one is found.

    Returns the gain, whether the set is proven optimal, and whether the exact search was in vain:
    it ran out of its budget without finding anything better than the local search had.
    No element has a group; ``before`` (K bytes) is work space.
    """
    n = chosen.shape[0]
    marginals = Marginals(space.gains[0], space.group_count[0])
    start_marginals(terms, chosen, marginals)
    if certified(needed, chosen, marginals.gains):
        return 0.0, True, False
    present = value_from_marginals(terms, chosen, marginals)
    if uniforms is not None:
        for k in range(n):
            before[k] = chosen[k]
        value, _ = double_greedy(terms, chosen, uniforms, space)
        if value <= present + rounding_noise(terms):
            for k in range(n):
                chosen[k] = before[k]
            return 0.0, False, False
        return value - present, False, False
    if search.optimizer == EXACT and node_budget >= SMALLEST_BUDGET:
        if prepared.shift[0] == NOT_PREPARED:
            prepare(terms.quadratic, prepared)
        for k in range(n):
            before[k] = chosen[k]
        nearest_plane(terms.linear, prepared, chosen, space)
        start_marginals(terms, chosen, marginals)
        value = value_from_marginals(terms, chosen, marginals)
        if value > present and certified(needed, chosen, marginals.gains):
            return value - present, True, False
        if value <= present:
            for k in range(n):
                chosen[k] = before[k]
    value, _ = local_search(terms, chosen, search, space)
    if certified(needed, chosen, marginals.gains):
        return value - present, True, False
    if search.optimizer != EXACT or node_budget < SMALLEST_BUDGET:
        return value - present, False, False
    noise = rounding_noise(terms)
    found, _, proven = sphere_search(terms, prepared, chosen, value, node_budget, noise, space)
    return found - present, proven, not proven and found <= value


@kernel
def improve_rows(
    products, log_odds, forms, form_of_row, gaps, search, uniforms, assignments, outcome
):
    """Improve every row of ``assignments`` (n x K) and say by how much, and whether it is proven.

    ``products`` is X E[A]' of the rows. Row i has the form ``form_of_row[i]``; if that is -1, its
    own, made from form 0 and its gaps. If no row of X has any, ``gaps`` is None, and no code for
    them is compiled. Each time that the exact search of a row was in vain halves its next budget.
    ``uniforms`` is as in `ibp.submodular.batch`, for each row or the same for all.
    """
    n_rows, n = products.shape
    noise_precision = forms.noise_precision
    failed_searches, losses = outcome.failed_searches, outcome.losses
    linear = np.empty(n)
    group = np.full(n, -1, dtype=np.int64)
    group_values = np.empty((0, 1))
    before = np.empty(n, dtype=np.uint8)
    if gaps is not None:
        complete = Form(forms.quadratic[0], forms.constant[0], forms.needed[0])
        own = Form(np.empty((n, n)), np.empty(n), np.empty(n))
        own_prepared = space_for_preparation(n)
    space = space_for_search(n, 0)
    for i in range(n_rows):
        number = form_of_row[i]
        if gaps is not None and number < 0:
            form_of_own(i, noise_precision, gaps, complete, own)
            form, prepared = own, own_prepared
            prepared.shift[0] = NOT_PREPARED
        else:
            form = Form(forms.quadratic[number], forms.constant[number], forms.needed[number])
            prepared = preparation_of(number, forms.prepared)
        for k in range(n):
            linear[k] = log_odds[k] + noise_precision * (products[i, k] - form.constant[k])
        terms = Terms(linear, form.quadratic, group, group_values)
        outcome.gain[i], outcome.proven[i], in_vain = improve_row(
            terms,
            form.needed,
            prepared,
            assignments[i],
            search,
            search.node_budget >> np.int64(failed_searches[i]),
            None if uniforms is None else uniforms[i % uniforms.shape[0]],
            before,
            space,
        )
        if in_vain:
            failed_searches[i] = min(failed_searches[i] + 1, MOST_FAILED_SEARCHES)
        elif outcome.gain[i] > 0.0 or outcome.proven[i]:
            failed_searches[i] = 0
        if losses.shape[0] > 0:
            marginals = Marginals(space.gains[0], space.group_count[0])
            start_marginals(terms, assignments[i], marginals)
            for k in range(n):
                gain = marginals.gains[k]
                losses[i, k] = gain if assignments[i, k] else -gain
