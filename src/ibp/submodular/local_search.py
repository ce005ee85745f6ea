"""Local search for unconstrained submodular maximisation (Feige, Mirrokni and Vondrák 2011).

Grow the set by its best element while that helps; drop the worst when that helps and grow again;
at a local optimum compare with the complement, and go on from there if it is better. For F less a
lower bound of it the result is at least (1/3 - eps/K) of the optimum, from any start: the proof
only uses that the set is locally optimal and no worse than its complement. With eps = 0 no bound
enters the search, so that the minimum itself may be subtracted.

Exchanges of one element for another, when no single change helps, are an option of ours. Where the
search starts from a good set they matter most: a set that was optimal for almost the same function
is rarely improved by one change, and often by two.
"""

import numpy as np

from ibp.compiled import kernel
from ibp.submodular.marginals import (
    flip,
    gain_of_adding,
    gain_of_removing,
    group_total,
    rounding_noise,
    start_marginals,
    value_from_marginals,
)


@kernel
def lower_bound(linear, quadratic, group, group_values):
    """A value that F is nowhere below.

    By submodularity element k never adds less than it adds to the set of all others.
    """
    n = linear.shape[0]
    size = np.zeros(group_values.shape[0], dtype=np.int64)
    for k in range(n):
        if group[k] >= 0:
            size[group[k]] += 1
    total = 0.0
    for g in range(group_values.shape[0]):
        total += group_values[g, 0]
    for k in range(n):
        least = linear[k] + 0.5 * quadratic[k, k]
        for j in range(n):
            least -= quadratic[k, j]
        g = group[k]
        if g >= 0:
            least += group_values[g, size[g]] - group_values[g, size[g] - 1]
        total += min(least, 0.0)
    return total


@kernel
def climb(
    quadratic, group, group_values, chosen, gains, group_count, noise, rate, value, floor, limit
):
    """Grow and prune until no single change gains enough.

    A change is accepted if it gains more than rounding noise and more than ``rate`` times the
    current value above ``floor``, a lower bound of F. Returns the value and the number of marginals
    that were evaluated; soon after ``limit`` of these it gives up.
    """
    n = chosen.shape[0]
    n_updates = 0
    while True:
        while True:
            least = max(noise, rate * (value - floor))
            best_gain = least
            best = -1
            for k in range(n):
                if not chosen[k]:
                    gain = gain_of_adding(k, gains, group, group_values, group_count)
                    if gain > best_gain:
                        best_gain = gain
                        best = k
            n_updates += n
            if best < 0 or n_updates > limit:
                break
            flip(best, quadratic, group, chosen, gains, group_count)
            value += best_gain
        best_gain = least
        best = -1
        for k in range(n):
            if chosen[k]:
                gain = gain_of_removing(k, gains, group, group_values, group_count)
                if gain > best_gain:
                    best_gain = gain
                    best = k
        n_updates += n
        if best < 0 or n_updates > limit:
            return value, n_updates
        flip(best, quadratic, group, chosen, gains, group_count)
        value += best_gain


@kernel
def complement_value(linear, quadratic, group, group_values, chosen, gains, group_count, scratch):
    """F at the complement of the chosen set; leaves its group counts in ``scratch``."""
    n = linear.shape[0]
    for g in range(group_values.shape[0]):
        scratch[g] = 0
    total = 0.0
    for k in range(n):
        if not chosen[k]:
            # gains[k] holds the weight to the chosen set, the row sum the weight to everything.
            row = 0.0
            for j in range(n):
                row += quadratic[k, j]
            to_chosen = linear[k] - 0.5 * quadratic[k, k] - gains[k]
            total += linear[k] - 0.5 * (row - to_chosen)
            if group[k] >= 0:
                scratch[group[k]] += 1
    return total + group_total(group_values, scratch)


@kernel
def best_exchange(quadratic, group, group_values, chosen, gains, group_count, least):
    """The exchange of a chosen for an unchosen element that gains most, and more than ``least``.

    Returns (gain, element out, element in), with elements -1 if there is none.
    """
    n = chosen.shape[0]
    best_gain = least
    best_out = -1
    best_in = -1
    for i in range(n):
        if not chosen[i]:
            continue
        gain_out = gain_of_removing(i, gains, group, group_values, group_count)
        for j in range(n):
            if chosen[j]:
                continue
            if group[i] == group[j]:  # the group's count stays, or there is no group
                gain = gains[j] - gains[i] + quadratic[i, j]
            else:
                gain_in = gain_of_adding(j, gains, group, group_values, group_count)
                gain = gain_out + gain_in + quadratic[i, j]
            if gain > best_gain:
                best_gain = gain
                best_out = i
                best_in = j
    return best_gain, best_out, best_in


@kernel
def local_search(
    linear,
    quadratic,
    group,
    group_values,
    chosen,
    epsilon,
    complement,
    exchange,
    gains,
    group_count,
):
    """Improve ``chosen`` in place; return its value and the number of marginals evaluated.

    ``complement`` and ``exchange`` say whether, at a local optimum, the complement and the
    exchanges of two elements are tried. ``gains`` (K floats) and ``group_count`` (2 x G integers)
    are work space.
    """
    n = linear.shape[0]
    noise = rounding_noise(linear, quadratic, group, group_values)
    count = group_count[0]
    start_marginals(linear, quadratic, group, chosen, gains, count)
    value = value_from_marginals(linear, quadratic, chosen, gains, group_values, count)
    rate = epsilon / (n * n) if n > 0 else 0.0
    floor = value if rate == 0.0 else lower_bound(linear, quadratic, group, group_values)
    # Far more than a search takes; compiled code cannot be interrupted, so it must end for sure.
    limit = 1000 * (n + 1) * (n + 1)
    total_updates = 0
    while True:
        value, n_updates = climb(
            quadratic, group, group_values, chosen, gains, count, noise, rate, value, floor, limit
        )
        total_updates += n_updates
        if total_updates > limit:
            break
        if exchange:
            gain, leaving, entering = best_exchange(
                quadratic,
                group,
                group_values,
                chosen,
                gains,
                count,
                max(noise, rate * (value - floor)),
            )
            n_chosen = 0
            for k in range(n):
                n_chosen += chosen[k]
            total_updates += n_chosen * (n - n_chosen)
            if leaving >= 0:
                flip(leaving, quadratic, group, chosen, gains, count)
                flip(entering, quadratic, group, chosen, gains, count)
                value += gain
                continue
        if not complement:
            break
        other = complement_value(
            linear, quadratic, group, group_values, chosen, gains, count, group_count[1]
        )
        total_updates += n
        if not other > value + noise:
            break
        for k in range(n):
            chosen[k] = 1 - chosen[k]
        start_marginals(linear, quadratic, group, chosen, gains, count)
        value = other
    return (
        value_from_marginals(linear, quadratic, chosen, gains, group_values, count),
        total_updates,
    )
