"""Incremental marginal gains: O(1) to read, O(K) to maintain after a change of the set.

``gains[k]`` is the change of the quadratic part when k joins (the rest of) the chosen set:

    gains[k] = w_k - W_kk / 2 - sum over chosen j != k of W_kj

It means the same for chosen and unchosen k, so leaving the set costs exactly ``gains[k]``.
``group_count[g]`` is how many elements of group g are chosen; the group's share of a marginal is
a difference of two table entries.
"""

import numpy as np

from ibp.compiled import inner_kernel, kernel


@kernel
def start_marginals(terms, chosen, marginals):
    """Fill in the marginals of the set ``chosen``."""
    linear, quadratic, group = terms.linear, terms.quadratic, terms.group
    gains, group_count = marginals.gains, marginals.group_count
    n = linear.shape[0]
    for g in range(group_count.shape[0]):
        group_count[g] = 0
    for k in range(n):
        gains[k] = linear[k] - 0.5 * quadratic[k, k]
    for j in range(n):
        if chosen[j]:
            row = quadratic[j]
            for k in range(n):
                gains[k] -= row[k]
            gains[j] += row[j]
            if group[j] >= 0:
                group_count[group[j]] += 1


@kernel
def gain_of_adding(k, terms, marginals):
    """Marginal gain of an unchosen element, O(1)."""
    g = terms.group[k]
    if g < 0:
        return marginals.gains[k]
    t = marginals.group_count[g]
    return marginals.gains[k] + terms.group_values[g, t + 1] - terms.group_values[g, t]


@kernel
def gain_of_removing(k, terms, marginals):
    """Marginal gain of dropping a chosen element, O(1)."""
    g = terms.group[k]
    if g < 0:
        return -marginals.gains[k]
    t = marginals.group_count[g]
    return -marginals.gains[k] + terms.group_values[g, t - 1] - terms.group_values[g, t]


@kernel
def flip(k, terms, chosen, marginals):
    """Move element k in or out and bring every marginal up to date, O(K)."""
    group, row = terms.group, terms.quadratic[k]
    gains, group_count = marginals.gains, marginals.group_count
    n = gains.shape[0]
    own = gains[k]
    if chosen[k]:
        chosen[k] = 0
        for j in range(n):
            gains[j] += row[j]
        if group[k] >= 0:
            group_count[group[k]] -= 1
    else:
        chosen[k] = 1
        for j in range(n):
            gains[j] -= row[j]
        if group[k] >= 0:
            group_count[group[k]] += 1
    gains[k] = own


@inner_kernel
def group_total(group_values, group_count):
    """Sum of h_g over the groups."""
    total = 0.0
    for g in range(group_values.shape[0]):
        total += group_values[g, group_count[g]]
    return total


@kernel
def value_from_marginals(terms, chosen, marginals):
    """F at the chosen set from its marginals, O(K)."""
    linear, quadratic, gains = terms.linear, terms.quadratic, marginals.gains
    total = 0.0
    for k in range(linear.shape[0]):
        if chosen[k]:
            total += 0.5 * (gains[k] + linear[k] - 0.5 * quadratic[k, k])
    return total + group_total(terms.group_values, marginals.group_count)


@inner_kernel
def rounding_noise(terms):
    """A gain below this is indistinguishable from zero in double precision.

    Searches accept larger gains only. That is what makes them end: among equals, rounding would
    otherwise offer the same exchange back and forth.
    """
    linear, quadratic = terms.linear, terms.quadratic
    group, group_values = terms.group, terms.group_values
    n = linear.shape[0]
    largest = 0.0
    for k in range(n):
        # W is positive semidefinite, so its largest entry stands on the diagonal.
        largest = max(largest, abs(linear[k]), n * quadratic[k, k])
    for g in range(group_values.shape[0]):
        t = 0
        largest = max(largest, abs(group_values[g, 0]))
        for k in range(n):
            if group[k] == g:
                t += 1
                largest = max(largest, abs(group_values[g, t]))
    return 32.0 * np.finfo(np.float64).eps * largest
