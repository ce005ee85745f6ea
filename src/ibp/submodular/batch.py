"""One entry for every optimiser, for one problem or many, in compiled code."""

import numpy as np

from ibp.compiled import kernel
from ibp.submodular.double_greedy import double_greedy
from ibp.submodular.exact import prepare, space_for_preparation, space_for_search, sphere_search
from ibp.submodular.local_search import local_search
from ibp.submodular.marginals import rounding_noise

LOCAL_SEARCH = 0
EXACT = 1
DOUBLE_GREEDY = 2
RANDOMIZED_DOUBLE_GREEDY = 3


@kernel
def optimize(
    optimizer,
    linear,
    quadratic,
    group,
    group_values,
    chosen,
    epsilon,
    complement,
    exchange,
    uniforms,
    node_budget,
    prepared,
    gains,
    group_count,
    space,
):
    """Improve or replace ``chosen`` in place; return (value, updates, proven).

    The local search and the exact search start from ``chosen`` and never end below it; the
    double greedies ignore it. ``prepared`` comes from `exact.prepare` and is read by the exact
    search only; ``gains`` (2 x K), ``group_count`` (2 x G) and ``space`` are work space.
    """
    if optimizer in (DOUBLE_GREEDY, RANDOMIZED_DOUBLE_GREEDY):
        value, n_updates = double_greedy(
            linear, quadratic, group, group_values, chosen, uniforms, gains, group_count
        )
        return value, n_updates, False
    value, n_updates = local_search(
        linear,
        quadratic,
        group,
        group_values,
        chosen,
        epsilon,
        complement,
        exchange,
        gains[0],
        group_count,
    )
    if optimizer == LOCAL_SEARCH:
        return value, n_updates, False
    noise = rounding_noise(linear, quadratic, group, group_values)
    value, n_nodes, proven = sphere_search(
        linear, group, group_values, prepared, chosen, value, node_budget, noise, space
    )
    return value, n_updates + n_nodes, proven


@kernel
def optimize_rows(
    optimizer, linear, quadratic, chosen, complement, exchange, uniforms, node_budget
):
    """Solve one problem per row of ``linear``, all with the same W and no groups.

    Overwrites the rows of ``chosen``; returns value, updates and proven per row.
    """
    n_rows, n = linear.shape
    group = np.full(n, -1, dtype=np.int64)
    group_values = np.empty((0, 1))
    group_count = np.zeros((2, 0), dtype=np.int64)
    gains = np.empty((2, n))
    prepared = space_for_preparation(n)
    space = space_for_search(n)
    if optimizer == EXACT:
        prepare(quadratic, prepared)
    values = np.empty(n_rows)
    n_updates = np.empty(n_rows, dtype=np.int64)
    proven = np.empty(n_rows, dtype=np.bool_)
    for row in range(n_rows):
        values[row], n_updates[row], proven[row] = optimize(
            optimizer,
            linear[row],
            quadratic,
            group,
            group_values,
            chosen[row],
            0.0,
            complement,
            exchange,
            uniforms[row],
            node_budget,
            prepared,
            gains,
            group_count,
            space,
        )
    return values, n_updates, proven
