"""Many rows of Z at once: each on its own, with q(A) and the prior's log-odds the same for all.

That is the row problem of a block of rows under the tangent of the count term, and of new rows
under a fitted model. No groups, so most rows are settled by a certificate of O(K).
"""

import numpy as np

from ibp.compiled import inlined, kernel
from ibp.kernels.row_forms import Form, missing_of_row, own_form
from ibp.submodular.batch import EXACT
from ibp.submodular.certificate import certified
from ibp.submodular.double_greedy import double_greedy
from ibp.submodular.exact import (
    nearest_plane,
    prepare,
    solve_for_target,
    sphere_search,
    target_of,
)
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


@inlined
def own_margins(needed, complete, own, lost, own_needed):
    """Fill in the margins that prove an optimum of a row's own form, from those of complete rows.

    They hold because W - D loses no more than what W ``lost`` in any direction.
    """
    for k in range(needed.shape[0]):
        change = own.quadratic[k, k] - complete.quadratic[k, k]
        own_needed[k] = needed[k] + 0.5 * (change + lost)


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
        solve_for_target(terms.linear, prepared, target_of(space, n))
        nearest_plane(prepared, chosen, space)
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
def improve_rows(products, log_odds, forms, searches, columns, gaps, search, uniforms, outcome):
    """Improve every row of ``outcome.chosen`` and say by how much, and whether it is proven.

    ``products`` is X times the components of `ibp.methods.row_forms`. A row whose form is its own
    has it made from form 0 and its gaps; ``columns`` is None, and code for that not compiled, if no
    row of X has any. Each time that the exact search of a row was in vain halves its next budget.
    ``uniforms`` is as in `ibp.submodular.batch`, for each row or the same for all.
    """
    n_rows, n = products.shape
    failed_searches, losses = outcome.failed_searches, outcome.losses
    linear = np.empty(n)
    group = np.full(n, -1, dtype=np.int64)
    group_values = np.empty((0, 1))
    before = np.empty(n, dtype=np.uint8)
    if columns is not None:
        complete = Form(forms.quadratic[0], forms.constant[0])
        own = Form(np.empty((n, n)), np.empty(n))
        own_needed = np.empty(n)
        own_prepared = space_for_preparation(n)
    space = space_for_search(n, 0)
    for i in range(n_rows):
        number = gaps.form_of_row[i]
        if columns is not None and number < 0:
            lost = own_form(missing_of_row(i, gaps), columns, None, complete, own)
            own_margins(searches.needed[0], complete, own, lost, own_needed)
            form, needed, prepared = own, own_needed, own_prepared
            prepared.shift[0] = NOT_PREPARED
        else:
            form = Form(forms.quadratic[number], forms.constant[number])
            needed = searches.needed[number]
            prepared = preparation_of(number, searches.prepared)
        for k in range(n):
            linear[k] = log_odds[k] + (forms.scale * products[i, k] - form.constant[k])
        terms = Terms(linear, form.quadratic, group, group_values)
        chosen = outcome.chosen[i]
        outcome.gain[i], outcome.proven[i], in_vain = improve_row(
            terms,
            needed,
            prepared,
            chosen,
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
            start_marginals(terms, chosen, marginals)
            for k in range(n):
                gain = marginals.gains[k]
                losses[i, k] = gain if chosen[k] else -gain
