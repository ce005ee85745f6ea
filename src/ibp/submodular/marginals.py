"""Incremental marginal gains: O(1) to read, O(K) to maintain after a change of the set.

``gains[k]`` is the change of the quadratic part when k joins (the rest of) the chosen set:

    gains[k] = w_k - W_kk / 2 - sum over chosen j != k of W_kj

It means the same for chosen and unchosen k, so leaving the set costs exactly ``gains[k]``.
``group_count[g]`` is how many elements of group g are chosen; the group's share of a marginal is
a difference of two table entries.
"""

import numpy as np

from ibp.compiled import kernel


@kernel
def start_marginals(linear, quadratic, group, chosen, gains, group_count):
    """Fill ``gains`` and ``group_count`` for the set ``chosen``."""
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
def gain_of_adding(k, gains, group, group_values, group_count):
    """Marginal gain of an unchosen element, O(1)."""
    g = group[k]
    if g < 0:
        return gains[k]
    t = group_count[g]
    return gains[k] + group_values[g, t + 1] - group_values[g, t]


@kernel
def gain_of_removing(k, gains, group, group_values, group_count):
    """Marginal gain of dropping a chosen element, O(1)."""
    g = group[k]
    if g < 0:
        return -gains[k]
    t = group_count[g]
    return -gains[k] + group_values[g, t - 1] - group_values[g, t]


@kernel
def flip(k, quadratic, group, chosen, gains, group_count):
    """Move element k in or out and bring every marginal up to date, O(K)."""
    n = gains.shape[0]
    own = gains[k]
    row = quadratic[k]
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


@kernel
def group_total(group_values, group_count):
    """Sum of h_g over the groups."""
    total = 0.0
    for g in range(group_values.shape[0]):
        total += group_values[g, group_count[g]]
    return total


@kernel
def value_from_marginals(linear, quadratic, chosen, gains, group_values, group_count):
    """F at the chosen set from its marginals, O(K)."""
    total = 0.0
    for k in range(linear.shape[0]):
        if chosen[k]:
            total += 0.5 * (gains[k] + linear[k] - 0.5 * quadratic[k, k])
    return total + group_total(group_values, group_count)


@kernel
def rounding_noise(linear, quadratic, group, group_values):
    """A gain below this is indistinguishable from zero in double precision.

    Searches accept larger gains only. That is what makes them end: among equals, rounding would
    otherwise offer the same exchange back and forth.
    """
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
