"""The best rows for new observations, with q(A) and the counts frozen."""

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.factors import dot, quadratic_form
from ibp.submodular.batch import EXACT, optimize
from ibp.submodular.exact import prepare, space_for_preparation
from ibp.submodular.marginals import start_marginals


@kernel
def assign_rows(
    values,
    rows,
    row_pattern,
    mean,
    variance,
    log_odds,
    noise_precision,
    optimizer,
    node_budget,
    thorough,
    uniforms,
    chosen,
    losses,
):
    """Optimise ``rows``, which should come sorted by pattern, each from the empty set.

    Fills their rows of ``chosen`` and, unless it is empty, of ``losses``: what the row objective
    loses when a bit flips.
    ``thorough`` adds the complement step and exchanges to the local search.
    """
    n_components, n_features = mean.shape
    x = np.empty(n_features)
    observed = np.empty(n_features, dtype=np.bool_)
    packed = np.empty((n_components, n_features))
    quadratic = np.empty((n_components, n_components))
    total_variance = np.empty(n_components)
    linear = np.empty(n_components)
    gains = np.empty((2, n_components))
    group = np.full(n_components, -1, dtype=np.int64)
    group_values = np.empty((0, 1))
    group_count = np.zeros((2, 0), dtype=np.int64)
    prepared = space_for_preparation(n_components)
    pattern = -1
    for i in range(rows.shape[0]):
        n = rows[i]
        for d in range(n_features):
            entry = values[n, d]
            observed[d] = entry == entry
            x[d] = entry if observed[d] else 0.0
        if row_pattern[n] != pattern:
            pattern = row_pattern[n]
            quadratic_form(
                observed, mean, variance, noise_precision, packed, quadratic, total_variance
            )
            if optimizer == EXACT:
                prepare(quadratic, prepared)
        for k in range(n_components):
            chosen[n, k] = 0
            linear[k] = log_odds[k] + noise_precision * (dot(x, mean[k]) - 0.5 * total_variance[k])
        optimize(
            optimizer,
            linear,
            quadratic,
            group,
            group_values,
            chosen[n],
            0.0,
            thorough,
            thorough,
            uniforms,
            node_budget,
            prepared,
            gains,
            group_count,
        )
        if losses.shape[0] == 0:
            continue
        start_marginals(linear, quadratic, group, chosen[n], gains[0], group_count[0])
        for k in range(n_components):
            losses[n, k] = gains[0, k] if chosen[n, k] else -gains[0, k]
