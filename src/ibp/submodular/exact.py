"""Exact maximisation by sphere decoding.

With z^2 = z any multiple of the identity may be added to W if half of it is added to w. Choose one
that makes W positive definite, factor W = R'R and solve R'y = w; then

    w'z - z'Wz / 2 = |y|^2 / 2 - |y - Rz|^2 / 2 ,

a binary integer least-squares problem. Deciding z from the last element to the first turns the
squared distance into a sum in which every decided element has its own term: a depth-first search
that tries the nearer value first (Schnorr and Euchner) and leaves a branch once its terms exceed
the best distance known. The local search supplies the first radius. Two more facts cut branches:

- The marginal of an element is lowest with everything undecided let in that lowers it, W_kj > 0,
  and highest with everything that raises it (nothing, if F is submodular: W >= 0 off the diagonal).
  If both have one sign the element has no choice.
- A group's term h is concave, so the best it can still become is its value at the reachable count
  nearest to its maximum; that accumulates along the path beside the distance.

One factor per quadratic form serves any number of linear terms.
"""

import numpy as np

from ibp.compiled import inlined, inner_kernel, kernel


@inlined
def suggested_shift(quadratic):
    """How much to add to the diagonal.

    The bound leaves an undecided element free to be any real number. That is tightest when the
    curvature in its direction is about twice its gain, so neither no shift nor a large one is
    best; a tenth of the mean diagonal came close to the fewest nodes wherever we looked. It also
    makes a singular W well conditioned.
    """
    n = quadratic.shape[0]
    diagonal = 0.0
    for k in range(n):
        diagonal += quadratic[k, k]
    return 0.1 * diagonal / max(n, 1) + 1e-100


@kernel
def prepare(quadratic, prepared):
    """Order and factor a quadratic form for any number of searches.

    Decisions go from the last element to the first, and the earlier ones should be the surer ones:
    those with a large diagonal of R. So the factorisation takes the smallest pivot left, always.
    Rows of R are made as wholes, so that the innermost loop is one over neighbours.
    """
    shift, order, ordered = prepared.shift, prepared.order, prepared.ordered
    factor, transposed, later = prepared.factor, prepared.transposed, prepared.later
    n = quadratic.shape[0]
    shift[0] = suggested_shift(quadratic)
    pivot = np.empty(n)
    for i in range(n):
        order[i] = i
        pivot[i] = quadratic[i, i] + shift[0]
    for i in range(n):
        smallest = i
        for j in range(i + 1, n):
            if pivot[j] < pivot[smallest]:
                smallest = j
        order[i], order[smallest] = order[smallest], order[i]
        pivot[i], pivot[smallest] = pivot[smallest], pivot[i]
        row, rest = transposed[i, i + 1 :], pivot[i + 1 :]
        for j in range(n - i - 1):
            row[j] = quadratic[order[i], order[i + 1 + j]]
        for k in range(i):
            transposed[i, k] = 0.0
            above = transposed[k]
            above[i], above[smallest] = above[smallest], above[i]
            times, above = above[i], above[i + 1 :]
            for j in range(n - i - 1):
                row[j] -= times * above[j]
        # In exact arithmetic no pivot is below the shift.
        diagonal = np.sqrt(max(pivot[i], 0.5 * shift[0]))
        transposed[i, i] = diagonal
        for j in range(n - i - 1):
            row[j] /= diagonal
            rest[j] -= row[j] ** 2
    for i in range(n):
        later[0, i] = 0.0
        later[1, i] = 0.0
        for j in range(n):
            factor[i, j] = transposed[j, i]
            ordered[i, j] = quadratic[order[i], order[j]]
            if j < i:
                later[0, i] += max(ordered[i, j], 0.0)
                later[1, i] += min(ordered[i, j], 0.0)


@inlined
def target_of(space, n):
    """Where y, which the search aims at, stands in the work space for n elements."""
    return space.numbers[2 * n + 2]


@inlined
def solve_for_target(linear, prepared, target):
    """Fill in the y of R'y = w, which is w with half of the shift added.

    By columns of R', each of which is subtracted as a whole: a sum along its rows would wait for
    every addition before the next.
    """
    shift, order, transposed = prepared.shift, prepared.order, prepared.transposed
    n = linear.shape[0]
    for i in range(n):
        target[i] = linear[order[i]] + 0.5 * shift[0]
    for k in range(n):
        target[k] /= transposed[k, k]
        times = target[k]
        rest, row = target[k + 1 : n], transposed[k, k + 1 :]
        for i in range(n - k - 1):
            rest[i] -= row[i] * times


@inlined
def nearest_plane(prepared, chosen, space):
    """The set that the search comes upon first: each element at its nearer value (Babai), O(K^2).

    The target must have been solved for. Groups are left out of account.
    """
    order, factor = prepared.order, prepared.factor
    n = chosen.shape[0]
    target = space.numbers[0]
    solved = target_of(space, n)
    for k in range(n):
        target[k] = solved[k]
    for k in range(n - 1, -1, -1):
        chosen[order[k]] = 1 if target[k] > 0.5 * factor[k, k] else 0
        if chosen[order[k]]:
            for i in range(k):
                target[i] -= factor[k, i]


@inlined
def move_in_group(g, decided, chosen, group_values, taken, undecided, peak):
    """Decide (+1) or release (-1) one element of group g; return the change of the group's bound.

    The bound is the largest h(t) over the counts still within reach; h is concave, so that is its
    value at the one nearest to ``peak``.
    """
    before = group_values[g, min(max(peak[g], taken[g]), taken[g] + undecided[g])]
    undecided[g] -= decided
    taken[g] += decided * chosen
    after = group_values[g, min(max(peak[g], taken[g]), taken[g] + undecided[g])]
    return after - before


@inner_kernel
def sphere_search(terms, prepared, chosen, value, budget, noise, space):
    """Search for a set better than ``chosen``, whose value is ``value``.

    The target must have been solved for. Overwrites ``chosen`` whenever a better set is found.
    Returns the value, the number of nodes visited and whether the search ended before the budget.
    """
    linear, group, group_values = terms.linear, terms.group, terms.group_values
    order, ordered = prepared.order, prepared.ordered
    factor, later = prepared.factor, prepared.later
    numbers, flags = space.numbers, space.flags
    n = linear.shape[0]
    n_groups = group_values.shape[0]
    # Everything below is in decision order; level k decides element order[k].
    target = target_of(space, n)
    reachable = numbers[2 * n + 3]  # sum of y_i^2 / 2 over the levels i < k, all undecided
    reachable[0] = 0.0
    for i in range(n):
        reachable[i + 1] = reachable[i] + 0.5 * target[i] ** 2

    member = np.empty(n, dtype=np.int64)
    for i in range(n):
        member[i] = group[order[i]]
    taken = np.zeros(n_groups, dtype=np.int64)
    undecided = np.zeros(n_groups, dtype=np.int64)
    peak = np.zeros(n_groups, dtype=np.int64)
    for i in range(n):
        if member[i] >= 0:
            undecided[member[i]] += 1
    groups_bound = 0.0
    for g in range(n_groups):
        for t in range(1, undecided[g] + 1):
            if group_values[g, t] > group_values[g, peak[g]]:
                peak[g] = t
        groups_bound += group_values[g, peak[g]]

    # The running sums of R z and of the marginals over the decided levels. A level that chooses 1
    # writes a row of its own, one that chooses 0 goes on with the row of the level above it.
    offset = numbers[: n + 1]
    marginal = numbers[n + 1 : 2 * n + 2]
    for i in range(n):
        offset[n, i] = 0.0
        marginal[n, i] = linear[order[i]] - 0.5 * ordered[i, i]
    settled = numbers[2 * n + 4]  # quadratic value of the decided levels
    settled[n] = 0.0
    bit = flags[0]
    tried = flags[1]  # 0 none, 1 one value, 2 both
    first = flags[2]
    row = space.rows[0]  # where the sums over the levels above k stand
    row[n - 1 if n > 0 else 0] = n
    n_nodes = 0
    k = n - 1
    if k >= 0:
        tried[k] = 0
    while 0 <= k < n:
        g = member[k]
        if tried[k] == 0:
            # Entering the level: which values are possible, and which is nearer?
            below = marginal[row[k], k] - later[0, k]
            above = marginal[row[k], k] - later[1, k]
            if g >= 0:
                t = taken[g]
                top = t + undecided[g]
                above += group_values[g, t + 1] - group_values[g, t]
                below += group_values[g, top] - group_values[g, top - 1]
            centre = (target[k] - offset[row[k], k]) / factor[k, k]
            first[k] = 1 if centre > 0.5 else 0
            if above <= 0.0:
                first[k] = 0
                tried[k] = 1
            elif below >= 0.0:
                first[k] = 1
                tried[k] = 1
            z = first[k]
            tried[k] += 1
        else:
            # Back from below: release the value that was explored.
            if g >= 0:
                groups_bound += move_in_group(
                    g, -1, np.int64(bit[k]), group_values, taken, undecided, peak
                )
            if tried[k] == 2:
                k += 1
                continue
            z = 1 - first[k]
            tried[k] = 2

        n_nodes += 1
        if n_nodes > budget:
            return value, n_nodes - 1, False
        bit[k] = z
        if g >= 0:
            groups_bound += move_in_group(g, 1, np.int64(z), group_values, taken, undecided, peak)
        reach = offset[row[k], k] + (factor[k, k] if z else 0.0)
        settled[k] = settled[k + 1] + reach * (target[k] - 0.5 * reach)
        if settled[k] + reachable[k] + groups_bound <= value + noise:
            continue  # nothing below can win: the next turn of the loop tries the other value
        if k == 0:
            value = settled[0] + groups_bound
            for i in range(n):
                chosen[order[i]] = bit[i]
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
    return value, n_nodes, True
