"""One row placed after the others: the best ways to extend the hypotheses of a beam.

A hypothesis is Z for the rows placed so far. Its factors are integrated out; what it knows of them
are their mean and covariance, by column group g:

    p(x | z, j) = prod over g of N(x_g; z mean_g, (z cov_g z' + sigma_X^2 + j sigma_A^2) I)

for a row with the known features z and j new ones. With gram = mean mean' and projection = mean x,

    variance = z cov z' + sigma_X^2,    error = |x|^2 - 2 z projection + z gram z'

take O(K) to keep up when one feature is flipped, whatever the width of x.

Features with equal histories are interchangeable: which of them a row takes does not matter, only
how many. They stand side by side, and a row may only take the first ones. The prior

    prod over k of (m_k / n)^z_k (1 - m_k / n)^(1 - z_k)  prod over groups of binomial(size, taken)

is then linear in z: a feature at place i of s equal ones has the log-odds of its count plus
ln (s - i) / (i + 1). So no two children, of whatever parents, are the same up to column order.
"""

import numpy as np

from ibp.compiled import kernel

# What `tally` counts.
COUNT, WORST, OVERFLOW = 0, 1, 2
NO_FLIP = -1
# Climbs end when no flip gains more than this part of the value.
LEAST_GAIN = 1e-9


@kernel
def key_of(k):
    """A number for feature k, such that sums by exclusive or tell sets apart (splitmix64)."""
    key = np.uint64(k + 1) * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


@kernel
def log_density(width, variance, error):
    """Ln N(r; 0, variance I) of ``width`` entries with |r|^2 = error."""
    return -0.5 * (width * np.log(2.0 * np.pi * variance) + error / variance)


@kernel
def prior_of_row(counts, first, n_fixed, n_active, n_placed, log_odds):
    """Log-odds of each feature, by its place among its equals; return ln P(no known feature)."""
    n = n_placed + 1.0
    none = 0.0
    k = n_fixed
    while k < n_active:
        size = 1
        while k + size < n_active and not first[k + size]:
            size += 1
        off = n - counts[k]
        none += size * np.log(off / n)
        for i in range(size):
            log_odds[k + i] = np.log(counts[k] / off) + np.log((size - i) / (i + 1.0))
        k += size
    return none


@kernel
def project(x, group_start, seen, mean, n_active, projection):
    """Products of the mean factors with the row, by column group."""
    for g in seen:
        for k in range(n_active):
            total = 0.0
            for d in range(group_start[g], group_start[g + 1]):
                total += mean[k, d] * x[d]
            projection[g, k] = total


@kernel
def new_point(n_groups, n_components):
    """Space for a set of features: who is in, products with the forms, value, log prior, key."""
    return (
        np.zeros(n_components, dtype=np.uint8),
        np.zeros((n_groups, n_components)),
        np.zeros((n_groups, n_components)),
        np.zeros(n_groups),
        np.zeros(n_groups),
        np.zeros(1),
        np.zeros(1, dtype=np.uint64),
    )


@kernel
def shift(
    k, n, sign, seen, covariance, gram, projection, covariance_times, gram_times, variance, error
):
    """Bring products, variance and error up to date with feature k of n taken in (1) or out (-1).

    Here and in `moved` arrays are passed one by one: taking tuples of them apart costs more than
    the arithmetic.
    """
    for g in seen:
        variance[g] += 2.0 * sign * covariance_times[g, k] + covariance[g, k, k]
        error[g] += 2.0 * sign * (gram_times[g, k] - projection[g, k]) + gram[g, k, k]
        for i in range(n):
            covariance_times[g, i] += sign * covariance[g, k, i]
            gram_times[g, i] += sign * gram[g, k, i]


@kernel
def flip(k, form, point):
    """Take feature k in or out of the set."""
    seen, _, covariance, gram, projection, log_odds = form
    chosen, covariance_times, gram_times, variance, error, prior, key = point
    sign = -1.0 if chosen[k] else 1.0
    shift(
        k,
        log_odds.shape[0],
        sign,
        seen,
        covariance,
        gram,
        projection,
        covariance_times,
        gram_times,
        variance,
        error,
    )
    chosen[k] = 1 - chosen[k]
    prior[0] += sign * log_odds[k]
    key[0] ^= key_of(k)


@kernel
def start_point(x, group_start, noise_variance, prior_of_none, n_fixed, form, point):
    """Begin with no feature but the fixed ones, which every row has."""
    chosen, covariance_times, gram_times, variance, error, prior, key = point
    chosen[:] = 0
    covariance_times[:] = 0.0
    gram_times[:] = 0.0
    for g in form[0]:
        variance[g] = noise_variance
        error[g] = 0.0
        for d in range(group_start[g], group_start[g + 1]):
            error[g] += x[d] * x[d]
    prior[0] = prior_of_none
    key[0] = 0
    for k in range(n_fixed):
        flip(k, form, point)


@kernel
def moved(
    a,
    b,
    seen,
    covariance,
    gram,
    projection,
    chosen,
    covariance_times,
    gram_times,
    old_variance,
    old_error,
    variance,
    error,
):
    """Variance and error of the set with a and (unless it is -1) b flipped."""
    sign_a = -1.0 if chosen[a] else 1.0
    sign_b = -1.0 if b != NO_FLIP and chosen[b] else 1.0
    for g in seen:
        v = old_variance[g] + 2.0 * sign_a * covariance_times[g, a] + covariance[g, a, a]
        e = old_error[g] + 2.0 * sign_a * (gram_times[g, a] - projection[g, a]) + gram[g, a, a]
        if b != NO_FLIP:
            cross = covariance_times[g, b] + sign_a * covariance[g, a, b]
            v += 2.0 * sign_b * cross + covariance[g, b, b]
            cross = gram_times[g, b] + sign_a * gram[g, a, b] - projection[g, b]
            e += 2.0 * sign_b * cross + gram[g, b, b]
        variance[g], error[g] = v, e


@kernel
def prior_change(k, log_odds, chosen):
    """What a flip of k adds to the log prior."""
    return -log_odds[k] if chosen[k] else log_odds[k]


@kernel
def density_with(extra_variance, seen, width, variance, error):
    """Ln density of the row when new features add so much variance."""
    total = 0.0
    for g in seen:
        total += log_density(width[g], variance[g] + extra_variance, max(error[g], 0.0))
    return total


@kernel
def threshold(floor, may_grow, board):
    """What a child must exceed to be kept."""
    values, tally = board[0], board[5]
    if may_grow or tally[COUNT] < values.shape[0]:
        return floor
    return max(floor, values[tally[WORST]])


@kernel
def keep(value, parent, n_new, key, a, b, chosen, may_grow, distinct, board):
    """Put a child on the board, in place of the worst if it is full."""
    values, parents, new, keys, codes, tally = board
    if distinct:
        for i in range(tally[COUNT]):
            if keys[i] == key and parents[i] == parent and new[i] == n_new:
                return
    if tally[COUNT] < values.shape[0]:
        slot = tally[COUNT]
        tally[COUNT] += 1
    elif may_grow:
        tally[OVERFLOW] = 1
        return
    else:
        slot = tally[WORST]
    values[slot], parents[slot], new[slot], keys[slot] = value, parent, n_new, key
    for k in range(chosen.shape[0]):
        codes[slot, k] = chosen[k]
    if a != NO_FLIP:
        codes[slot, a] = 1 - codes[slot, a]
    if b != NO_FLIP:
        codes[slot, b] = 1 - codes[slot, b]
    if tally[COUNT] == values.shape[0] and not may_grow:
        worst = 0
        for i in range(values.shape[0]):
            if values[i] < values[worst]:
                worst = i
        tally[WORST] = worst


@kernel
def best_density(seen, width, variance, error):
    """The most that new features, by adding variance, can make of the row's log density."""
    total = 0.0
    for g in seen:
        e = max(error[g], 0.0)
        total += log_density(width[g], max(e / width[g], variance[g]), e)
    return total


@kernel
def offer(
    parent, prior, key, a, b, chosen, variance, error, form, new, floor, may_grow, distinct, board
):
    """Offer a set with 0, 1, ... new features to the board; return the threshold after that.

    The density rises with the variance as long as that is below error / width, in each column
    group, and Poisson's probabilities fall beyond their mode: past both, a child that is not kept
    is the last worth a look.
    """
    seen, width = form[0], form[1]
    log_new, likeliest, most_new, factor_variance = new
    enough = float(likeliest)
    for g in seen:
        enough = max(enough, (error[g] / width[g] - variance[g]) / factor_variance)
    for n_new in range(most_new + 1):
        value = prior + log_new[n_new]
        value += density_with(n_new * factor_variance, seen, width, variance, error)
        if value > threshold(floor, may_grow, board):
            number = key ^ key_of(chosen.shape[0] + n_new)
            keep(value, parent, n_new, number, a, b, chosen, may_grow, distinct, board)
        elif n_new >= enough:
            break
    return threshold(floor, may_grow, board)


@kernel
def enumerate_sets(parent, first, n_fixed, n_active, form, new, floor, may_grow, point, board):
    """Offer all sets that take the first of equal features, one flip apart.

    Knuth's loopless reflected Gray code of mixed radix (7.2.1.1, algorithm H): digit i is how many
    are taken of the i-th group of equal features.
    """
    seen, width, covariance, gram, projection, log_odds = form
    chosen, covariance_times, gram_times, variance, error, prior, key = point
    log_most_likely = new[0][new[1]]
    start = np.zeros(n_active + 1, dtype=np.int64)
    n_digits = 0
    for k in range(n_fixed, n_active):
        if k == n_fixed or first[k]:
            start[n_digits] = k
            n_digits += 1
    start[n_digits] = n_active
    digit = np.zeros(n_digits, dtype=np.int64)
    direction = np.ones(n_digits, dtype=np.int64)
    focus = np.arange(n_digits + 1)
    log_prior, to_exceed = prior[0], threshold(floor, may_grow, board)
    while True:
        bound = log_prior + log_most_likely
        if bound + best_density(seen, width, variance, error) > to_exceed:
            to_exceed = offer(
                parent,
                log_prior,
                key[0],
                NO_FLIP,
                NO_FLIP,
                chosen,
                variance,
                error,
                form,
                new,
                floor,
                may_grow,
                False,
                board,
            )
        i = focus[0]
        focus[0] = 0
        if i == n_digits:
            return
        last = digit[i] if direction[i] > 0 else digit[i] - 1
        digit[i] += direction[i]
        k = start[i] + last
        sign = -1.0 if chosen[k] else 1.0
        shift(
            k,
            n_active,
            sign,
            seen,
            covariance,
            gram,
            projection,
            covariance_times,
            gram_times,
            variance,
            error,
        )
        chosen[k] = 1 - chosen[k]
        log_prior += sign * log_odds[k]
        if digit[i] == 0 or digit[i] == start[i + 1] - start[i]:
            direction[i] = -direction[i]
            focus[i] = focus[i + 1]
            focus[i + 1] = i + 1


@kernel
def may_flip(k, n_fixed, n_active, first, chosen):
    """Whether the set still takes the first of equal features after a flip of k."""
    if chosen[k]:
        return k + 1 >= n_active or first[k + 1] or not chosen[k + 1]
    return k == n_fixed or first[k] or chosen[k - 1]


@kernel
def equal_features(a, b, first):
    """Whether features a < b have one history."""
    k = b
    while k > a and not first[k]:
        k -= 1
    return k == a


@kernel
def best_flip(extra_variance, in_pairs, above, first, n_fixed, n_active, form, point, space):
    """The flip of one feature, or of two, that raises the value most, and that value.

    Returns -1 and -1 if none raises it ``above`` a number.
    """
    seen, width, covariance, gram, projection, log_odds = form
    chosen, covariance_times, gram_times, old_variance, old_error, prior, _ = point
    variance, error = space
    best, best_a, best_b = above, NO_FLIP, NO_FLIP
    for a in range(n_fixed, n_active):
        if not may_flip(a, n_fixed, n_active, first, chosen):
            continue
        first_b, last_b = (a + 1, n_active) if in_pairs else (NO_FLIP, NO_FLIP + 1)
        for b in range(first_b, last_b):
            value = prior[0] + prior_change(a, log_odds, chosen)
            if in_pairs:
                if not may_flip(b, n_fixed, n_active, first, chosen) or equal_features(a, b, first):
                    continue
                value += prior_change(b, log_odds, chosen)
            moved(
                a,
                b,
                seen,
                covariance,
                gram,
                projection,
                chosen,
                covariance_times,
                gram_times,
                old_variance,
                old_error,
                variance,
                error,
            )
            value += density_with(extra_variance, seen, width, variance, error)
            if value > best:
                best, best_a, best_b = value, a, b
    return best_a, best_b, best


@kernel
def ascend(extra_variance, first, n_fixed, n_active, form, point, space):
    """Climb by the best flip of one feature or, if none helps, of two."""
    value = point[5][0] + density_with(extra_variance, form[0], form[1], point[3], point[4])
    while True:
        above = value + LEAST_GAIN * (1.0 + abs(value))
        a, b, value = best_flip(
            extra_variance, False, above, first, n_fixed, n_active, form, point, space
        )
        if a == NO_FLIP:
            a, b, value = best_flip(
                extra_variance, True, above, first, n_fixed, n_active, form, point, space
            )
        if a == NO_FLIP:
            return
        flip(a, form, point)
        if b != NO_FLIP:
            flip(b, form, point)


@kernel
def offer_neighbours(parent, first, n_fixed, n_active, form, new, floor, point, space, board):
    """Offer a set and all sets one or two flips from it, those that are there already excepted."""
    seen, width, covariance, gram, projection, log_odds = form
    chosen, covariance_times, gram_times, old_variance, old_error, prior, keys = point
    variance, error = space
    key = keys[0]
    to_exceed = offer(
        parent,
        prior[0],
        key,
        NO_FLIP,
        NO_FLIP,
        chosen,
        old_variance,
        old_error,
        form,
        new,
        floor,
        False,
        True,
        board,
    )
    log_most_likely = new[0][new[1]]
    for a in range(n_fixed, n_active):
        if not may_flip(a, n_fixed, n_active, first, chosen):
            continue
        for number in range(a, n_active):
            b = NO_FLIP if number == a else number
            log_prior = prior[0] + prior_change(a, log_odds, chosen)
            neighbour = key ^ key_of(a)
            if b != NO_FLIP:
                if not may_flip(b, n_fixed, n_active, first, chosen) or equal_features(a, b, first):
                    continue
                log_prior += prior_change(b, log_odds, chosen)
                neighbour ^= key_of(b)
            moved(
                a,
                b,
                seen,
                covariance,
                gram,
                projection,
                chosen,
                covariance_times,
                gram_times,
                old_variance,
                old_error,
                variance,
                error,
            )
            bound = log_prior + log_most_likely
            if bound + best_density(seen, width, variance, error) > to_exceed:
                to_exceed = offer(
                    parent,
                    log_prior,
                    neighbour,
                    a,
                    b,
                    chosen,
                    variance,
                    error,
                    form,
                    new,
                    floor,
                    False,
                    True,
                    board,
                )


@kernel
def number_of_sets(first, n_fixed, n_active, limit):
    """How many sets there are to enumerate, or a number above the limit."""
    total, size = 1.0, 0
    for k in range(n_fixed, n_active):
        if k > n_fixed and first[k]:
            total *= size + 1
            size = 0
        size += 1
        if total * (size + 1) > limit:
            return limit + 1.0
    return total * (size + 1)


@kernel
def search_sets(
    parent,
    x,
    group_start,
    noise_variance,
    prior_of_none,
    first,
    n_fixed,
    n_active,
    form,
    new,
    floor,
    point,
    board,
):
    """Offer the surroundings of local optima instead of all sets.

    Climbs start from no feature and from all, for a row without and with a new feature.
    """
    space = (np.zeros_like(point[3]), np.zeros_like(point[4]))
    ends = np.zeros(4, dtype=np.uint64)
    n_ends = 0
    for with_new in range(2 if new[2] > 0 else 1):
        for all_of_them in range(2):
            start_point(x, group_start, noise_variance, prior_of_none, n_fixed, form, point)
            if all_of_them:
                for k in range(n_fixed, n_active):
                    flip(k, form, point)
            ascend(with_new * new[3], first, n_fixed, n_active, form, point, space)
            end = point[6][0]
            if not (ends[:n_ends] == end).any():
                ends[n_ends] = end
                n_ends += 1
                offer_neighbours(
                    parent, first, n_fixed, n_active, form, new, floor, point, space, board
                )


@kernel
def expand(
    x,
    seen,
    group_start,
    beam,
    n_placed,
    n_fixed,
    noise_variance,
    factor_variance,
    log_new,
    most_components,
    most_sets,
    floor,
    may_grow,
    board,
):
    """Fill the board with the best children of all hypotheses.

    ``beam`` is (scores, n_active, counts, first, covariance, mean, gram) as in
    `Beam`, ``log_new`` the log probabilities of 0, 1, ... new features,
    ``most_components`` the limit of features including fixed ones. Hypotheses with more than
    ``most_sets`` sets to enumerate have them searched. ``floor`` is what a child must exceed.
    """
    scores, active, counts, first, covariance, mean, gram = beam
    n_groups, n_components = covariance.shape[1], covariance.shape[2]
    width = np.zeros(n_groups)
    for g in range(n_groups):
        width[g] = group_start[g + 1] - group_start[g]
    likeliest = np.argmax(log_new)
    projection = np.zeros((n_groups, n_components))
    log_odds = np.zeros(n_components)
    point = new_point(n_groups, n_components)
    for parent in range(scores.shape[0]):
        n_active = active[parent]
        prior_of_none = scores[parent] + prior_of_row(
            counts[parent], first[parent], n_fixed, n_active, n_placed, log_odds
        )
        project(x, group_start, seen, mean[parent], n_active, projection)
        odds = log_odds[:n_active]
        form = (seen, width, covariance[parent], gram[parent], projection, odds)
        most_new = min(log_new.shape[0] - 1, most_components - n_active)
        new = (log_new, min(likeliest, most_new), most_new, factor_variance)
        if number_of_sets(first[parent], n_fixed, n_active, most_sets) <= most_sets:
            start_point(x, group_start, noise_variance, prior_of_none, n_fixed, form, point)
            enumerate_sets(
                parent, first[parent], n_fixed, n_active, form, new, floor, may_grow, point, board
            )
        else:
            search_sets(
                parent,
                x,
                group_start,
                noise_variance,
                prior_of_none,
                first[parent],
                n_fixed,
                n_active,
                form,
                new,
                floor,
                point,
                board,
            )


@kernel
def inherit(parent, child, n_before, n_active, factor_variance, old, new):
    """Copy what a hypothesis knows of its factors, new features being as before any data."""
    _, _, _, _, old_covariance, old_mean, old_gram = old
    _, _, _, _, covariance, mean, gram = new
    for g in range(covariance.shape[1]):
        for k in range(n_active):
            for i in range(n_active):
                known = k < n_before and i < n_before
                covariance[child, g, k, i] = old_covariance[parent, g, k, i] if known else 0.0
                gram[child, g, k, i] = old_gram[parent, g, k, i] if known else 0.0
            if k >= n_before:
                covariance[child, g, k, k] = factor_variance
    for k in range(n_active):
        for d in range(mean.shape[2]):
            mean[child, k, d] = old_mean[parent, k, d] if k < n_before else 0.0


@kernel
def learn(x, columns, noise_variance, z, covariance, mean, gram, space):
    """Condition the factors of a column group on a row; return the row's log density."""
    begin, end = columns
    residual, gain, product = space
    variance, error = noise_variance, 0.0
    for d in range(begin, end):
        residual[d] = x[d]
    for k in range(z.shape[0]):
        gain[k] = 0.0
        for i in range(z.shape[0]):
            gain[k] += covariance[k, i] * z[i]
        variance += gain[k] * z[k]
        if z[k]:
            for d in range(begin, end):
                residual[d] -= mean[k, d]
    for d in range(begin, end):
        error += residual[d] * residual[d]
    for k in range(z.shape[0]):
        product[k] = 0.0
        for d in range(begin, end):
            product[k] += mean[k, d] * residual[d]
    for k in range(z.shape[0]):
        step = gain[k] / variance
        for i in range(z.shape[0]):
            other = gain[i] / variance
            covariance[k, i] -= gain[k] * gain[i] / variance
            gram[k, i] += step * product[i] + other * product[k] + error * step * other
        for d in range(begin, end):
            mean[k, d] += step * residual[d]
    return log_density(end - begin, variance, error)


@kernel
def make_children(
    x,
    seen,
    group_start,
    old,
    n_placed,
    n_fixed,
    noise_variance,
    factor_variance,
    log_new,
    parents,
    n_new,
    codes,
    new,
):
    """Make the chosen children of a beam: scores, counts, histories and what is known of factors.

    The scores are computed anew, from the row itself.
    """
    old_scores, old_active, old_counts, old_first = old[0], old[1], old[2], old[3]
    scores, active, counts, first, covariance, mean, gram = new
    log_odds = np.zeros(covariance.shape[2])
    residual = np.zeros(mean.shape[2])
    space = (residual, np.zeros(covariance.shape[2]), np.zeros(covariance.shape[2]))
    for child in range(parents.shape[0]):
        parent = parents[child]
        n_before = old_active[parent]
        n_active = n_before + n_new[child]
        score = old_scores[parent] + log_new[n_new[child]]
        score += prior_of_row(
            old_counts[parent], old_first[parent], n_fixed, n_before, n_placed, log_odds
        )
        for k in range(n_before):
            taken = codes[child, k]
            if taken:
                score += log_odds[k]
            counts[child, k] = old_counts[parent, k] + taken
            parted = k > n_fixed and codes[child, k - 1] != taken
            first[child, k] = 1 if parted else old_first[parent, k]
        for k in range(n_before, n_active):
            counts[child, k] = 1
            first[child, k] = k == n_before
        active[child] = n_active
        inherit(parent, child, n_before, n_active, factor_variance, old, new)
        for g in seen:
            score += learn(
                x,
                (group_start[g], group_start[g + 1]),
                noise_variance,
                codes[child, :n_active],
                covariance[child, g],
                mean[child],
                gram[child, g],
                space,
            )
        scores[child] = score


@kernel
def fill_rows(rows, observed, group_start, beam, n_placed, n_fixed, noise_variance, codes):
    """Give rows the known features that suit them, learning nothing from them.

    By a climb from no feature with the factors of the first hypothesis.
    """
    _, active, counts, first, covariance, mean, gram = beam
    n_groups, n_active = covariance.shape[1], active[0]
    width = np.zeros(n_groups)
    for g in range(n_groups):
        width[g] = group_start[g + 1] - group_start[g]
    projection = np.zeros((n_groups, n_active))
    log_odds = np.zeros(n_active)
    none = prior_of_row(counts[0], first[0], n_fixed, n_active, n_placed, log_odds)
    point = new_point(n_groups, n_active)
    space = (np.zeros(n_groups), np.zeros(n_groups))
    for n in range(rows.shape[0]):
        seen = np.flatnonzero(observed[n])
        project(rows[n], group_start, seen, mean[0], n_active, projection)
        form = (seen, width, covariance[0], gram[0], projection, log_odds)
        start_point(rows[n], group_start, noise_variance, none, n_fixed, form, point)
        ascend(0.0, first[0], n_fixed, n_active, form, point, space)
        for k in range(n_active):
            codes[n, k] = point[0][k]
