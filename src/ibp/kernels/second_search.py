"""The second search of rows: the best code among those near to the codes found so far.

It has a kernel of its own, since a fit needs no more of `code_lists`, which takes long to compile.
"""

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.row_forms import Form, missing_of_row, own_form
from ibp.submodular.best_sets import best_value, list_near_sets, space_for_best_sets
from ibp.submodular.marginals import rounding_noise, start_marginals, value_from_marginals
from ibp.submodular.records import Marginals, Terms, space_for_search


@kernel
def better_codes(products, log_odds, forms, columns, gaps, limits, chosen, gain):
    """Replace the codes in ``chosen`` by better ones, and fill in by how much these are better.

    Other arguments are those of `ibp.kernels.block_rows.improve_rows`, for the same rows, and
    ``limits`` of `ibp.submodular.best_sets`. The gain of a row for which nothing better was found
    is 0, and its code stays.
    """
    n_rows, n = products.shape
    group = np.full(n, -1, dtype=np.int64)
    linear, group_values = np.empty(n), np.empty((0, 1))
    if columns is not None:
        complete = Form(forms.quadratic[0], forms.constant[0])
        own = Form(np.empty((n, n)), np.empty(n))
    space = space_for_search(n, 0)
    marginals = Marginals(space.gains[0], space.group_count[0])
    best_sets = space_for_best_sets(n, limits.look_around_budget)
    for i in range(n_rows):
        number = gaps.form_of_row[i]
        if columns is not None and number < 0:
            own_form(missing_of_row(i, gaps), columns, None, complete, own)
            form = own
        else:
            form = Form(forms.quadratic[number], forms.constant[number])
        for k in range(n):
            linear[k] = log_odds[k] + (forms.scale * products[i, k] - form.constant[k])
        terms = Terms(linear, form.quadratic, group, group_values)
        start_marginals(terms, chosen[i], marginals)
        value = value_from_marginals(terms, chosen[i], marginals)
        n_found, _ = list_near_sets(terms, chosen[i], value, best_sets, limits, space)
        # Not the value that the search says: of huge numbers, rounding makes several of one.
        best = best_value(best_sets, n_found)
        gain[i] = 0.0
        if best - value > n * rounding_noise(terms):
            gain[i] = best - value
            entry = 0
            while best_sets.value[entry] != best:
                entry += 1
            for k in range(n):
                chosen[i, k] = best_sets.chosen[entry, k]
