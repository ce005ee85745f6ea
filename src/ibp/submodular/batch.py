"""One entry for every optimiser, for one problem or many, in compiled code.

``uniforms`` says which optimisers are meant: None for the local and the exact search, an array for
the double greedies. The compiler sees that it is None and leaves the double greedies out, which
most fits never use.
"""

import numpy as np

from ibp.compiled import inlined, kernel
from ibp.submodular.double_greedy import double_greedy
from ibp.submodular.exact import prepare, solve_for_target, sphere_search, target_of
from ibp.submodular.local_search import local_search
from ibp.submodular.marginals import rounding_noise
from ibp.submodular.records import Terms, space_for_preparation, space_for_search

LOCAL_SEARCH = 0
EXACT = 1
DOUBLE_GREEDY = 2
RANDOMIZED_DOUBLE_GREEDY = 3


@inlined
def optimize(terms, prepared, chosen, search, uniforms, space):
    """Improve or replace ``chosen`` in place; return (value, updates, proven).

    The local search and the exact search start from ``chosen`` and never end below it; the double
    greedies ignore it. ``prepared`` is read by the exact search only.
    """
    if uniforms is not None:
        value, n_updates = double_greedy(terms, chosen, uniforms, space)
        proven = False
    else:
        value, n_updates = local_search(terms, chosen, search, space)
        proven = False
        if search.optimizer == EXACT:
            noise = rounding_noise(terms)
            solve_for_target(terms.linear, prepared, target_of(space, chosen.shape[0]))
            value, n_nodes, proven = sphere_search(
                terms, prepared, chosen, value, search.node_budget, noise, space
            )
            n_updates += n_nodes
    return value, n_updates, proven


@kernel
def optimize_rows(linear, quadratic, chosen, search, uniforms):
    """Solve one problem per row of ``linear``, all with the same W and no groups.

    Overwrites the rows of ``chosen``; returns value, updates and proven per row.
    """
    n_rows, n = linear.shape
    group = np.full(n, -1, dtype=np.int64)
    group_values = np.empty((0, 1))
    prepared = space_for_preparation(n)
    space = space_for_search(n, 0)
    if search.optimizer == EXACT:
        prepare(quadratic, prepared)
    values = np.empty(n_rows)
    n_updates = np.empty(n_rows, dtype=np.int64)
    proven = np.empty(n_rows, dtype=np.bool_)
    for row in range(n_rows):
        terms = Terms(linear[row], quadratic, group, group_values)
        draws = None if uniforms is None else uniforms[row]
        values[row], n_updates[row], proven[row] = optimize(
            terms, prepared, chosen[row], search, draws, space
        )
    return values, n_updates, proven
