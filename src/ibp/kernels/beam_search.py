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

from typing import NamedTuple

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.mixing import mixed

# What `tally` counts.
COUNT, WORST, OVERFLOW = 0, 1, 2
NO_FLIP = -1
# Climbs end when no flip gains more than this part of the value.
LEAST_GAIN = 1e-9


class Beam(NamedTuple):
    """Hypotheses, with room for K features each; an intercept is feature 0."""

    scores: np.ndarray  # (B,), log joint probabilities of the rows so far
    n_active: np.ndarray  # (B,), how many features are in use, the intercept among them
    counts: np.ndarray  # (B, K), how many rows have each feature
    first: np.ndarray  # (B, K), 0 where a feature's history is that of the feature before it
    # The factors given the rows so far, columns in layout order.
    covariance: np.ndarray  # (B, G, K, K), by column group
    mean: np.ndarray  # (B, K, D)
    gram: np.ndarray  # (B, G, K, K), products of the means, by column group


class Row(NamedTuple):
    """The row to be placed."""

    x: np.ndarray  # (D,), zero where it is missing
    seen: np.ndarray  # the column groups that it observes
    group_start: np.ndarray  # where each of all groups starts


class Model(NamedTuple):
    """What all hypotheses have in common when a row is placed."""

    n_placed: int  # rows so far
    n_fixed: int  # 1 if there is an intercept, else 0
    noise_variance: float
    factor_variance: float
    log_new: np.ndarray  # log probabilities of 0, 1, ... new features


class Board(NamedTuple):
    """The best children so far."""

    scores: np.ndarray  # log joint probabilities
    parents: np.ndarray  # numbers of the hypotheses that they extend
    n_new: np.ndarray  # how many new features they have
    keys: np.ndarray  # numbers that tell sets of features apart
    codes: np.ndarray  # the known features that the row has
    tally: np.ndarray  # how many there are, which is the worst, whether there was no room for one
    floor: float  # what a child must exceed in any case
    may_grow: bool  # whether all such are wanted; else the worst gives way if the board is full


class Hypothesis(NamedTuple):
    """One hypothesis of a beam: its number, its features, and its score if a row takes none."""

    parent: int
    first: np.ndarray
    n_fixed: int
    n_active: int
    score_of_none: float


class Form(NamedTuple):
    """What the value of a set of features is made of, for one hypothesis and one row."""

    seen: np.ndarray  # column groups that the row observes
    width: np.ndarray  # (G,), the widths of all groups
    covariance: np.ndarray  # (G, K, K), as in `Beam`
    gram: np.ndarray  # (G, K, K), as in `Beam`
    projection: np.ndarray  # (G, K), products of the mean factors with the row
    log_odds: np.ndarray  # (K,), of each feature, by the prior


class Point(NamedTuple):
    """A set of features and what is kept up along with it."""

    chosen: np.ndarray  # (K,), 1 for the features of the set
    covariance_times: np.ndarray  # (G, K), the form's covariance times the set
    gram_times: np.ndarray  # (G, K), the form's gram times the set
    variance: np.ndarray  # (G,), of the row
    error: np.ndarray  # (G,), of the row
    prior: np.ndarray  # one entry, the log prior with the hypothesis's score
    key: np.ndarray  # one entry, the number of the set


class Candidate(NamedTuple):
    """A set that may be put on the board: ``chosen`` with a and b flipped, unless they are -1."""

    prior: float
    key: int
    a: int
    b: int
    chosen: np.ndarray
    variance: np.ndarray
    error: np.ndarray


class NewFeatures(NamedTuple):
    """Log probabilities of 0, 1, ... new features, likeliest and largest number, and sigma_A^2."""

    log_probability: np.ndarray
    likeliest: int
    most: int
    variance: float


class GroupSpace(NamedTuple):
    """Room for a row's variance and error by column group."""

    variance: np.ndarray
    error: np.ndarray


class LearningSpace(NamedTuple):
    """Room for a row's residual, and for each factor's gain and its product with the residual."""

    residual: np.ndarray
    gain: np.ndarray
    product: np.ndarray


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
def project(row, mean, n_active, projection):
    """Products of the mean factors with the row, by column group."""
    x, group_start = row.x, row.group_start
    for g in row.seen:
        for k in range(n_active):
            total = 0.0
            for d in range(group_start[g], group_start[g + 1]):
                total += mean[k, d] * x[d]
            projection[g, k] = total


@kernel
def new_point(n_groups, n_components):
    """Room for a set of features."""
    return Point(
        np.zeros(n_components, dtype=np.uint8),
        np.zeros((n_groups, n_components)),
        np.zeros((n_groups, n_components)),
        np.zeros(n_groups),
        np.zeros(n_groups),
        np.zeros(1),
        np.zeros(1, dtype=np.uint64),
    )


@kernel
def group_widths(group_start):
    """The number of columns of each group."""
    width = np.zeros(group_start.shape[0] - 1)
    for g in range(width.shape[0]):
        width[g] = group_start[g + 1] - group_start[g]
    return width


@kernel
def shift(
    k, n, sign, seen, covariance, gram, projection, covariance_times, gram_times, variance, error
):
    """Bring products, variance and error up to date with feature k of n taken in (1) or out (-1).

    Here and in `moved` arrays are passed one by one: taking records of them apart costs more than
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
    sign = -1.0 if point.chosen[k] else 1.0
    shift(
        k,
        form.log_odds.shape[0],
        sign,
        form.seen,
        form.covariance,
        form.gram,
        form.projection,
        point.covariance_times,
        point.gram_times,
        point.variance,
        point.error,
    )
    point.chosen[k] = 1 - point.chosen[k]
    point.prior[0] += sign * form.log_odds[k]
    point.key[0] ^= mixed(k)


@kernel
def start_point(row, noise_variance, prior_of_none, n_fixed, form, point):
    """Begin with no feature but the fixed ones, which every row has."""
    x, group_start = row.x, row.group_start
    variance, error = point.variance, point.error
    point.chosen[:] = 0
    point.covariance_times[:] = 0.0
    point.gram_times[:] = 0.0
    for g in form.seen:
        variance[g] = noise_variance
        error[g] = 0.0
        for d in range(group_start[g], group_start[g + 1]):
            error[g] += x[d] * x[d]
    point.prior[0] = prior_of_none
    point.key[0] = 0
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
def threshold(board):
    """What a child must exceed to be kept."""
    scores, tally = board.scores, board.tally
    if board.may_grow or tally[COUNT] < scores.shape[0]:
        return board.floor
    return max(board.floor, scores[tally[WORST]])


@kernel
def keep(score, parent, n_new, key, candidate, distinct, board):
    """Put a child on the board, in place of the worst if it is full."""
    scores, keys, tally = board.scores, board.keys, board.tally
    if distinct:
        for i in range(tally[COUNT]):
            if keys[i] == key and board.parents[i] == parent and board.n_new[i] == n_new:
                return
    if tally[COUNT] < scores.shape[0]:
        slot = tally[COUNT]
        tally[COUNT] += 1
    elif board.may_grow:
        tally[OVERFLOW] = 1
        return
    else:
        slot = tally[WORST]
    scores[slot], keys[slot] = score, key
    board.parents[slot], board.n_new[slot] = parent, n_new
    codes, chosen = board.codes[slot], candidate.chosen
    for k in range(chosen.shape[0]):
        codes[k] = chosen[k]
    if candidate.a != NO_FLIP:
        codes[candidate.a] = 1 - codes[candidate.a]
    if candidate.b != NO_FLIP:
        codes[candidate.b] = 1 - codes[candidate.b]
    if tally[COUNT] == scores.shape[0] and not board.may_grow:
        worst = 0
        for i in range(scores.shape[0]):
            if scores[i] < scores[worst]:
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
def offer(parent, candidate, form, new, distinct, board):
    """Offer a set with 0, 1, ... new features to the board; return the threshold after that.

    The density rises with the variance as long as that is below error / width, in each column
    group, and Poisson's probabilities fall beyond their mode: past both, a child that is not kept
    is the last worth a look.
    """
    seen, width = form.seen, form.width
    variance, error = candidate.variance, candidate.error
    enough = float(new.likeliest)
    for g in seen:
        enough = max(enough, (error[g] / width[g] - variance[g]) / new.variance)
    for n_new in range(new.most + 1):
        score = candidate.prior + new.log_probability[n_new]
        score += density_with(n_new * new.variance, seen, width, variance, error)
        if score > threshold(board):
            key = candidate.key ^ mixed(candidate.chosen.shape[0] + n_new)
            keep(score, parent, n_new, key, candidate, distinct, board)
        elif n_new >= enough:
            break
    return threshold(board)


@kernel
def enumerate_sets(hypothesis, form, new, point, board):
    """Offer all sets that take the first of equal features, one flip apart.

    Knuth's loopless reflected Gray code of mixed radix (7.2.1.1, algorithm H): digit i is how many
    are taken of the i-th group of equal features.
    """
    parent, first, n_fixed, n_active, _ = hypothesis
    seen, width, covariance, gram, projection, log_odds = form
    chosen, covariance_times, gram_times, variance, error, prior, key = point
    log_most_likely = new.log_probability[new.likeliest]
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
    log_prior, to_exceed = prior[0], threshold(board)
    while True:
        bound = log_prior + log_most_likely
        if bound + best_density(seen, width, variance, error) > to_exceed:
            present = Candidate(log_prior, key[0], NO_FLIP, NO_FLIP, chosen, variance, error)
            to_exceed = offer(parent, present, form, new, False, board)
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
def best_flip(extra_variance, in_pairs, above, hypothesis, form, point, space):
    """The flip of one feature, or of two, that raises the value most, and that value.

    Returns -1 and -1 if none raises it ``above`` a number.
    """
    _, first, n_fixed, n_active, _ = hypothesis
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
def ascend(extra_variance, hypothesis, form, point, space):
    """Climb by the best flip of one feature or, if none helps, of two."""
    value = point.prior[0]
    value += density_with(extra_variance, form.seen, form.width, point.variance, point.error)
    while True:
        above = value + LEAST_GAIN * (1.0 + abs(value))
        a, b, value = best_flip(extra_variance, False, above, hypothesis, form, point, space)
        if a == NO_FLIP:
            a, b, value = best_flip(extra_variance, True, above, hypothesis, form, point, space)
        if a == NO_FLIP:
            return
        flip(a, form, point)
        if b != NO_FLIP:
            flip(b, form, point)


@kernel
def offer_neighbours(hypothesis, form, new, point, space, board):
    """Offer a set and all sets one or two flips from it, those that are there already excepted."""
    parent, first, n_fixed, n_active, _ = hypothesis
    seen, width, covariance, gram, projection, log_odds = form
    chosen, covariance_times, gram_times, old_variance, old_error, prior, keys = point
    variance, error = space
    key = keys[0]
    present = Candidate(prior[0], key, NO_FLIP, NO_FLIP, chosen, old_variance, old_error)
    to_exceed = offer(parent, present, form, new, True, board)
    log_most_likely = new.log_probability[new.likeliest]
    for a in range(n_fixed, n_active):
        if not may_flip(a, n_fixed, n_active, first, chosen):
            continue
        for number in range(a, n_active):
            b = NO_FLIP if number == a else number
            log_prior = prior[0] + prior_change(a, log_odds, chosen)
            neighbour = key ^ mixed(a)
            if b != NO_FLIP:
                if not may_flip(b, n_fixed, n_active, first, chosen) or equal_features(a, b, first):
                    continue
                log_prior += prior_change(b, log_odds, chosen)
                neighbour ^= mixed(b)
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
                candidate = Candidate(log_prior, neighbour, a, b, chosen, variance, error)
                to_exceed = offer(parent, candidate, form, new, True, board)


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
def search_sets(row, noise_variance, hypothesis, form, new, point, board):
    """Offer the surroundings of local optima instead of all sets.

    Climbs start from no feature and from all, for a row without and with a new feature.
    """
    n_fixed = hypothesis.n_fixed
    space = GroupSpace(np.zeros_like(point.variance), np.zeros_like(point.error))
    ends = np.zeros(4, dtype=np.uint64)
    n_ends = 0
    for with_new in range(2 if new.most > 0 else 1):
        for all_of_them in range(2):
            start_point(row, noise_variance, hypothesis.score_of_none, n_fixed, form, point)
            if all_of_them:
                for k in range(n_fixed, hypothesis.n_active):
                    flip(k, form, point)
            ascend(with_new * new.variance, hypothesis, form, point, space)
            end = point.key[0]
            if not (ends[:n_ends] == end).any():
                ends[n_ends] = end
                n_ends += 1
                offer_neighbours(hypothesis, form, new, point, space, board)


@kernel
def expand(row, model, beam, most_components, most_sets, board):
    """Fill the board with the best children of all hypotheses.

    ``most_components`` is the limit of features including fixed ones. Hypotheses with more than
    ``most_sets`` sets to enumerate have them searched. The records come as plain tuples here and in
    `make_children`: it takes a compiled function longer to see the types of named ones than to
    place a small row.
    """
    row, model, beam, board = Row(*row), Model(*model), Beam(*beam), Board(*board)
    n_placed, n_fixed, noise_variance, factor_variance, log_new = model
    n_groups, n_components = beam.covariance.shape[1], beam.covariance.shape[2]
    width = group_widths(row.group_start)
    likeliest = np.argmax(log_new)
    projection = np.zeros((n_groups, n_components))
    log_odds = np.zeros(n_components)
    point = new_point(n_groups, n_components)
    for parent in range(beam.scores.shape[0]):
        n_active, first = beam.n_active[parent], beam.first[parent]
        score_of_none = beam.scores[parent] + prior_of_row(
            beam.counts[parent], first, n_fixed, n_active, n_placed, log_odds
        )
        project(row, beam.mean[parent], n_active, projection)
        hypothesis = Hypothesis(parent, first, n_fixed, n_active, score_of_none)
        form = Form(
            row.seen,
            width,
            beam.covariance[parent],
            beam.gram[parent],
            projection,
            log_odds[:n_active],
        )
        most_new = min(log_new.shape[0] - 1, most_components - n_active)
        new = NewFeatures(log_new, min(likeliest, most_new), most_new, factor_variance)
        if number_of_sets(first, n_fixed, n_active, most_sets) <= most_sets:
            start_point(row, noise_variance, score_of_none, n_fixed, form, point)
            enumerate_sets(hypothesis, form, new, point, board)
        else:
            search_sets(row, noise_variance, hypothesis, form, new, point, board)


@kernel
def inherit(parent, child, n_before, n_active, factor_variance, old, new):
    """Copy what a hypothesis knows of its factors, new features being as before any data."""
    old_covariance, old_mean, old_gram = old.covariance, old.mean, old.gram
    covariance, mean, gram = new.covariance, new.mean, new.gram
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
def make_children(row, model, old, parents, n_new, codes, new):
    """Make the chosen children of a beam: scores, counts, histories and what is known of factors.

    The scores are computed anew, from the row itself.
    """
    row, model, old, new = Row(*row), Model(*model), Beam(*old), Beam(*new)
    n_placed, n_fixed, noise_variance, factor_variance, log_new = model
    old_scores, old_counts, old_first = old.scores, old.counts, old.first
    scores, active, counts, first, covariance, mean, gram = new
    group_start = row.group_start
    log_odds = np.zeros(covariance.shape[2])
    space = LearningSpace(
        np.zeros(mean.shape[2]), np.zeros(covariance.shape[2]), np.zeros(covariance.shape[2])
    )
    for child in range(parents.shape[0]):
        parent = parents[child]
        n_before = old.n_active[parent]
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
        for g in row.seen:
            score += learn(
                row.x,
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
def fill_rows(rows, observed, group_start, model, beam, codes):
    """Give rows the known features that suit them, learning nothing from them.

    By a climb from no feature with the factors of the first hypothesis.
    """
    n_fixed = model.n_fixed
    n_groups, n_active, first = beam.covariance.shape[1], beam.n_active[0], beam.first[0]
    width = group_widths(group_start)
    projection = np.zeros((n_groups, n_active))
    log_odds = np.zeros(n_active)
    none = prior_of_row(beam.counts[0], first, n_fixed, n_active, model.n_placed, log_odds)
    hypothesis = Hypothesis(0, first, n_fixed, n_active, none)
    point = new_point(n_groups, n_active)
    space = GroupSpace(np.zeros(n_groups), np.zeros(n_groups))
    for n in range(rows.shape[0]):
        row = Row(rows[n], np.flatnonzero(observed[n]), group_start)
        project(row, beam.mean[0], n_active, projection)
        form = Form(row.seen, width, beam.covariance[0], beam.gram[0], projection, log_odds)
        start_point(row, model.noise_variance, none, n_fixed, form, point)
        ascend(0.0, hypothesis, form, point, space)
        for k in range(n_active):
            codes[n, k] = point.chosen[k]
