"""The best sets of a problem without groups, with their values: a list instead of one.

If F is a log-probability up to a constant, sets far below the best one have no weight, and a list
of those within a margin of it is the distribution, as good as that margin. Two searches fill it:

- From the best set known, sets are looked at that differ in one or two elements, then those of the
  next best that were found, and so on. That is no proof, but it goes in every direction alike.
- The tree of the exact search, of which now all is left out that cannot come within the margin, or
  above the worst of a full list. If it ends before its budget, the list is proven: it holds every
  set within the margin or, if it is full, the best ones.

An element whose marginal is below -margin whatever else is chosen is in no set within the margin of
the best: without it that set would be better by more than the margin.
"""

from typing import NamedTuple

import numpy as np

from ibp.compiled import inlined, inner_kernel
from ibp.submodular.exact import solve_for_target, target_of
from ibp.submodular.marginals import rounding_noise, start_marginals
from ibp.submodular.records import Marginals


class BestSets(NamedTuple):
    """Room for a list of C sets.

    Attributes
    ----------
    chosen : ndarray of shape (C, K), uint8
        The sets, in any order.
    value : ndarray of shape (C,)
        What they are worth.
    looked_around : ndarray of shape (C,), uint8
        Whether the sets near to one have been looked at.
    heap : ndarray of shape (C,), int64
        Numbers of the sets; none is worth less than the first.
    candidate : ndarray of shape (K,), uint8
        A set that may become one of the list.
    """

    chosen: np.ndarray
    value: np.ndarray
    looked_around: np.ndarray
    heap: np.ndarray
    candidate: np.ndarray


class ListLimits(NamedTuple):
    """How far a list goes.

    Attributes
    ----------
    margin : float
        How far below the best a set may be.
    look_around_budget, node_budget : int
        Sets from which the first search goes on, and nodes of the tree that the second visits.
    stop_when_full : bool
        Whether the second search ends when the list is full of sets within the margin: nothing
        is left to be proven then.
    """

    margin: float
    look_around_budget: int
    node_budget: int
    stop_when_full: bool


@inlined
def space_for_best_sets(n, capacity):
    """Room for so many sets of n elements."""
    return BestSets(
        np.empty((capacity, n), dtype=np.uint8),
        np.empty(capacity),
        np.empty(capacity, dtype=np.uint8),
        np.empty(capacity, dtype=np.int64),
        np.empty(n, dtype=np.uint8),
    )


@inner_kernel
def offer(best_sets, n_found, value, alike):
    """Put the candidate into the list, unless it is there; return how many there are.

    A full list loses its worst set, which must be worth less. Only sets whose values are
    ``alike``, apart by no more than that, can be the same.
    """
    chosen, values, heap = best_sets.chosen, best_sets.value, best_sets.heap
    candidate = best_sets.candidate
    n_alike = 0  # mostly there are none, which is seen soonest without a branch
    for i in range(n_found):
        n_alike += abs(values[i] - value) <= alike
    if n_alike > 0:
        for i in range(n_found):
            if abs(values[i] - value) <= alike:
                same = True
                for k in range(candidate.shape[0]):
                    if chosen[i, k] != candidate[k]:
                        same = False
                        break
                if same:
                    return n_found
    if n_found < heap.shape[0]:
        slot = n_found
        place = n_found
        n_found += 1
        while place > 0:  # up the heap
            above = (place - 1) // 2
            if values[heap[above]] <= value:
                break
            heap[place] = heap[above]
            place = above
    else:
        slot = heap[0]
        place = 0
        while 2 * place + 1 < n_found:  # down the heap
            below = 2 * place + 1
            if below + 1 < n_found and values[heap[below + 1]] < values[heap[below]]:
                below += 1
            if values[heap[below]] >= value:
                break
            heap[place] = heap[below]
            place = below
    heap[place] = slot
    values[slot] = value
    best_sets.looked_around[slot] = 0
    for k in range(candidate.shape[0]):
        chosen[slot, k] = candidate[k]
    return n_found


@inlined
def floor_of(best_sets, n_found, best, margin):
    """What a set has to be worth more than to become one of the list."""
    floor = best - margin
    if n_found == best_sets.heap.shape[0]:
        floor = max(floor, best_sets.value[best_sets.heap[0]])
    return floor


@inlined
def is_full(best_sets, n_found, best, margin):
    """Whether the list is full of sets within the margin."""
    if n_found < best_sets.heap.shape[0]:
        return False
    return best_sets.value[best_sets.heap[0]] > best - margin


@inlined
def best_value(best_sets, n_found):
    """What the best set of the list is worth."""
    best = best_sets.value[0]
    for i in range(1, n_found):
        best = max(best, best_sets.value[i])
    return best


@inner_kernel
def look_around(terms, best_sets, n_found, best, limits, space):
    """Look at the sets near the best ones, best first.

    Returns how many sets there are and the best value.
    """
    margin = limits.margin
    quadratic = terms.quadratic
    n = terms.linear.shape[0]
    candidate, values = best_sets.candidate, best_sets.value
    alike = n * rounding_noise(terms)
    marginals = Marginals(space.gains[0], space.group_count[0])
    change = space.gains[1]  # of F, when an element alone is flipped
    sign = space.numbers[0]  # -1 for a chosen element, 1 for any other
    for _ in range(limits.look_around_budget):
        floor = floor_of(best_sets, n_found, best, margin)
        origin = -1
        for i in range(n_found):
            if best_sets.looked_around[i] or values[i] < floor:
                continue
            if origin < 0 or values[i] > values[origin]:
                origin = i
        if origin < 0:
            break
        best_sets.looked_around[origin] = 1
        value = values[origin]
        for k in range(n):
            candidate[k] = best_sets.chosen[origin, k]
        start_marginals(terms, candidate, marginals)
        for k in range(n):
            sign[k] = -1.0 if candidate[k] else 1.0
            change[k] = sign[k] * marginals.gains[k]
        for i in range(n):
            row = quadratic[i]
            n_above = np.int64(value + change[i] > floor)
            for j in range(i):  # without a branch: mostly there are none
                n_above += value + (change[i] + (change[j] - sign[i] * sign[j] * row[j])) > floor
            if n_above == 0:
                continue
            # The pair (i, i) stands for i alone.
            for j in range(i + 1):
                gain = change[i]
                if j < i:
                    gain += change[j] - sign[i] * sign[j] * row[j]
                if value + gain > floor:
                    candidate[i] = 1 - candidate[i]
                    if j < i:
                        candidate[j] = 1 - candidate[j]
                    n_found = offer(best_sets, n_found, value + gain, alike)
                    candidate[i] = 1 - candidate[i]
                    if j < i:
                        candidate[j] = 1 - candidate[j]
                    best = max(best, value + gain)
                    floor = floor_of(best_sets, n_found, best, margin)
    return n_found, best


@inner_kernel
def list_tree(terms, prepared, best_sets, n_found, best, limits, space):
    """Go through the tree of the exact search; `ibp.submodular.exact` says how, and names all.

    Returns how many sets there are, the best value, and whether the search came to its end.
    """
    margin, budget, stop_when_full = limits.margin, limits.node_budget, limits.stop_when_full
    linear = terms.linear
    order, ordered = prepared.order, prepared.ordered
    factor, later = prepared.factor, prepared.later
    numbers, flags = space.numbers, space.flags
    n = linear.shape[0]
    alike = n * rounding_noise(terms)
    target = target_of(space, n)
    reachable = numbers[2 * n + 3]
    solve_for_target(linear, prepared, target)
    reachable[0] = 0.0
    for i in range(n):
        reachable[i + 1] = reachable[i] + 0.5 * target[i] ** 2
    offset = numbers[: n + 1]
    marginal = numbers[n + 1 : 2 * n + 2]
    for i in range(n):
        offset[n, i] = 0.0
        marginal[n, i] = linear[order[i]] - 0.5 * ordered[i, i]
    settled = numbers[2 * n + 4]
    settled[n] = 0.0
    bit, tried, first = flags[0], flags[1], flags[2]
    row = space.rows[0]
    row[n - 1] = n
    floor = floor_of(best_sets, n_found, best, margin)
    n_nodes = 0
    k = n - 1
    tried[k] = 0
    while k < n:
        if tried[k] == 0:
            below = marginal[row[k], k] - later[0, k]
            above = marginal[row[k], k] - later[1, k]
            centre = (target[k] - offset[row[k], k]) / factor[k, k]
            first[k] = 1 if centre > 0.5 else 0
            if above <= -margin:
                first[k] = 0
                tried[k] = 1
            elif below >= margin:
                first[k] = 1
                tried[k] = 1
            z = first[k]
            tried[k] += 1
        else:
            if tried[k] == 2:
                k += 1
                continue
            z = 1 - first[k]
            tried[k] = 2
        n_nodes += 1
        if n_nodes > budget:
            return n_found, best, False
        bit[k] = z
        reach = offset[row[k], k] + (factor[k, k] if z else 0.0)
        settled[k] = settled[k + 1] + reach * (target[k] - 0.5 * reach)
        if settled[k] + reachable[k] <= floor:
            continue
        if k == 0:
            for i in range(n):
                best_sets.candidate[order[i]] = bit[i]
            n_found = offer(best_sets, n_found, settled[0], alike)
            best = max(best, settled[0])
            if stop_when_full and is_full(best_sets, n_found, best, margin):
                return n_found, best, False
            floor = floor_of(best_sets, n_found, best, margin)
            continue
        row[k - 1] = row[k]
        if z:
            row[k - 1] = k
            from_offset, to_offset, column = offset[row[k]], offset[k], factor[k]
            from_marginal, to_marginal, coupling = marginal[row[k]], marginal[k], ordered[k]
            for i in range(k):
                to_offset[i] = from_offset[i] + column[i]
                to_marginal[i] = from_marginal[i] - coupling[i]
        k -= 1
        tried[k] = 0
    return n_found, best, True


@inlined
def list_near_sets(terms, start, value, best_sets, limits, space):
    """Fill in the list from a set and its value, by the first search alone.

    No element has a group. Returns how many sets there are and the best value.
    """
    for k in range(start.shape[0]):
        best_sets.candidate[k] = start[k]
    n_found = offer(best_sets, np.int64(0), value, 0.0)
    return look_around(terms, best_sets, n_found, value, limits, space)


@inlined
def list_best_sets(terms, prepared, start, value, best_sets, limits, space):
    """Fill in the list from a set and its value.

    No element has a group. Returns how many sets there are, the best value, and whether the list
    is proven. Sets of the list not within the margin of the best are still to be left out.
    """
    n_found, best = list_near_sets(terms, start, value, best_sets, limits, space)
    proven = start.shape[0] == 0
    if not proven and not (
        limits.stop_when_full and is_full(best_sets, n_found, best, limits.margin)
    ):
        n_found, best, proven = list_tree(terms, prepared, best_sets, n_found, best, limits, space)
    return n_found, best, proven
