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

from ibp.compiled import inlined, inner_kernel, kernel
from ibp.submodular.marginals import (
    flip,
    gain_of_adding,
    gain_of_removing,
    group_total,
    rounding_noise,
    start_marginals,
    value_from_marginals,
)
from ibp.submodular.records import Marginals

# In place of an element. A plain -1 would have functions compiled for that number, too.
NONE = np.int64(-1)


@kernel
def lower_bound(terms):
    """A value that F is nowhere below.

    By submodularity element k never adds less than it adds to the set of all others.
    """
    linear, quadratic = terms.linear, terms.quadratic
    group, group_values = terms.group, terms.group_values
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


@inlined
def climb(terms, chosen, marginals, noise, rate, value, floor, limit):
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
            best = NONE
            for k in range(n):
                if not chosen[k]:
                    gain = gain_of_adding(k, terms, marginals)
                    if gain > best_gain:
                        best_gain = gain
                        best = k
            n_updates += n
            if best < 0 or n_updates > limit:
                break
            flip(best, terms, chosen, marginals)
            value += best_gain
        best_gain = least
        best = NONE
        for k in range(n):
            if chosen[k]:
                gain = gain_of_removing(k, terms, marginals)
                if gain > best_gain:
                    best_gain = gain
                    best = k
        n_updates += n
        if best < 0 or n_updates > limit:
            return value, n_updates
        flip(best, terms, chosen, marginals)
        value += best_gain


@inlined
def complement_value(terms, chosen, gains, scratch):
    """F at the complement of the chosen set; leaves its group counts in ``scratch``."""
    linear, quadratic, group = terms.linear, terms.quadratic, terms.group
    n = linear.shape[0]
    for g in range(terms.group_values.shape[0]):
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
    return total + group_total(terms.group_values, scratch)


@inlined
def best_exchange(terms, chosen, marginals, least, of_unchosen):
    """The exchange of a chosen for an unchosen element that gains most, and more than ``least``.

    Returns (gain, element out, element in), with elements -1 if there is none. Without groups most
    elements are found to have no such partner by the largest of their gains, several partners at a
    time; ``of_unchosen`` (K numbers) is work space.
    """
    quadratic, group, gains = terms.quadratic, terms.group, marginals.gains
    n = chosen.shape[0]
    has_groups = terms.group_values.shape[0] > 0
    for j in range(n):
        of_unchosen[j] = -np.inf if chosen[j] else gains[j]
    best_gain = least
    best_out = NONE
    best_in = NONE
    for i in range(n):
        if not chosen[i]:
            continue
        if not has_groups and not largest_sum(of_unchosen, gains[i], quadratic[i]) > best_gain:
            continue
        gain_out = gain_of_removing(i, terms, marginals)
        for j in range(n):
            if chosen[j]:
                continue
            if group[i] == group[j]:  # the group's count stays, or there is no group
                gain = gains[j] - gains[i] + quadratic[i, j]
            else:
                gain_in = gain_of_adding(j, terms, marginals)
                gain = gain_out + gain_in + quadratic[i, j]
            if gain > best_gain:
                best_gain = gain
                best_out = i
                best_in = j
    return best_gain, best_out, best_in


@inlined
def largest_sum(first, less, second):
    """The largest of ``first - less + second``.

    Four at a time: none waits for the comparison before it.
    """
    n = first.shape[0]
    a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
    for block in range(n // 4):
        j = 4 * block
        w = first[j] - less + second[j]
        x = first[j + 1] - less + second[j + 1]
        y = first[j + 2] - less + second[j + 2]
        z = first[j + 3] - less + second[j + 3]
        a = w if w > a else a
        b = x if x > b else b
        c = y if y > c else c
        d = z if z > d else d
    for j in range(n - n % 4, n):
        w = first[j] - less + second[j]
        a = w if w > a else a
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a


@inner_kernel
def local_search(terms, chosen, search, space):
    """Improve ``chosen`` in place; return its value and the number of marginals evaluated.

    Its marginals are left in the first row of the work space.
    """
    n = chosen.shape[0]
    noise = rounding_noise(terms)
    marginals = Marginals(space.gains[0], space.group_count[0])
    start_marginals(terms, chosen, marginals)
    value = value_from_marginals(terms, chosen, marginals)
    rate = search.epsilon / (n * n) if n > 0 else 0.0
    floor = value if rate == 0.0 else search.floor
    # Far more than a search takes; compiled code cannot be interrupted, so it must end for sure.
    limit = 1000 * (n + 1) * (n + 1)
    total_updates = 0
    while True:
        value, n_updates = climb(terms, chosen, marginals, noise, rate, value, floor, limit)
        total_updates += n_updates
        if total_updates > limit:
            break
        if search.exchange:
            least = max(noise, rate * (value - floor))
            gain, leaving, entering = best_exchange(terms, chosen, marginals, least, space.gains[1])
            n_chosen = 0
            for k in range(n):
                n_chosen += np.int64(chosen[k])
            total_updates += n_chosen * (n - n_chosen)
            if leaving >= 0:
                flip(leaving, terms, chosen, marginals)
                flip(entering, terms, chosen, marginals)
                value += gain
                continue
        if not search.complement:
            break
        other = complement_value(terms, chosen, marginals.gains, space.group_count[1])
        total_updates += n
        if not other > value + noise:
            break
        for k in range(n):
            chosen[k] = 1 - chosen[k]
        start_marginals(terms, chosen, marginals)
        value = other
    return value_from_marginals(terms, chosen, marginals), total_updates
