"""The posterior of each row's code: a list of its best codes with their weights.

Given q(A), the row objective is the logarithm of the posterior of the code up to a constant, so
weights are its softmax over the list. Where so little is known of a row that the list would be too
long, each of the best codes is moved by one sweep of Gibbs sampling, bit by bit: whatever the codes
are distributed like, that brings them nearer to the posterior, and bits that do not depend on each
other have it at once.
"""

from typing import NamedTuple

import numpy as np

from ibp.compiled import inlined, inner_kernel, kernel
from ibp.kernels.row_forms import Form, missing_of_row, own_form
from ibp.submodular.best_sets import (
    ListLimits,
    best_value,
    is_full,
    list_best_sets,
    space_for_best_sets,
)
from ibp.submodular.exact import prepare
from ibp.submodular.marginals import (
    flip,
    rounding_noise,
    start_marginals,
    value_from_marginals,
)
from ibp.submodular.records import (
    Marginals,
    Terms,
    preparation_of,
    space_for_preparation,
    space_for_search,
)


class Listing(NamedTuple):
    """How lists are made.

    Attributes
    ----------
    capacity : int
        Most codes of a row.
    limits : ListLimits
        Of the search.
    uniforms : ndarray of shape (capacity, K)
        Random numbers that move the codes of a list that is too long, the same for every row.
    """

    capacity: int
    limits: ListLimits
    uniforms: np.ndarray


class CodeLists(NamedTuple):
    """The codes of n rows, M in all.

    Attributes
    ----------
    start : ndarray of shape (n + 1,), int64
        Where the list of each row starts, and the last one ends.
    codes : ndarray of shape (M, K), uint8
        The codes, the best of each row first (before they are moved).
    weight : ndarray of shape (M,)
        Their probabilities, which sum to one for each row.
    proven : ndarray of shape (n,), bool
        Whether a row's list is known to hold all codes within the margin.
    gain : ndarray of shape (n,)
        By how much a row's best code is better than the one that its list was made from; 0 if that
        is no more than rounding.
    """

    start: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    proven: np.ndarray
    gain: np.ndarray


@inlined
def move_codes(terms, codes, uniforms, marginals):
    """Draw each bit of each code given the code's others."""
    for entry in range(codes.shape[0]):
        current = codes[entry]
        start_marginals(terms, current, marginals)
        for k in range(current.shape[0]):
            one = uniforms[entry, k] * (1.0 + np.exp(-marginals.gains[k])) < 1.0
            if one != (current[k] == 1):
                flip(k, terms, current, marginals)


@inner_kernel
def twice_as_long(codes, weight, n_filled):
    """Room for more codes, of which the first so many are filled in.

    By loops: an assignment of slices has code compiled for errors that cannot occur.
    """
    n = codes.shape[1]
    more_codes = np.empty((2 * codes.shape[0], n), dtype=np.uint8)
    more_weight = np.empty(2 * codes.shape[0])
    for entry in range(n_filled):
        more_weight[entry] = weight[entry]
        for k in range(n):
            more_codes[entry, k] = codes[entry, k]
    return more_codes, more_weight


@kernel
def list_codes(products, log_odds, forms, searches, columns, gaps, chosen, listing):
    """List the best codes of every row, from the ones in ``chosen`` on.

    Arguments are those of `ibp.kernels.block_rows.improve_rows`, for the same rows.
    """
    n_rows, n = products.shape
    group = np.full(n, -1, dtype=np.int64)
    linear, group_values = np.empty(n), np.empty((0, 1))
    if columns is not None:
        complete = Form(forms.quadratic[0], forms.constant[0])
        own = Form(np.empty((n, n)), np.empty(n))
        own_prepared = space_for_preparation(n)
    space = space_for_search(n, 0)
    marginals = Marginals(space.gains[0], space.group_count[0])
    best_sets = space_for_best_sets(n, listing.capacity)
    limits = listing.limits
    start = np.zeros(n_rows + 1, dtype=np.int64)
    all_proven = np.empty(n_rows, dtype=np.bool_)
    gain = np.zeros(n_rows)
    codes = np.empty((4 * n_rows + listing.capacity, n), dtype=np.uint8)
    weight = np.empty(codes.shape[0])
    for i in range(n_rows):
        number = gaps.form_of_row[i]
        if columns is not None and number < 0:
            own_form(missing_of_row(i, gaps), columns, None, complete, own)
            form, prepared = own, own_prepared
            prepare(form.quadratic, prepared)
        else:
            form = Form(forms.quadratic[number], forms.constant[number])
            prepared = preparation_of(number, searches.prepared)
        for k in range(n):
            linear[k] = log_odds[k] + (forms.scale * products[i, k] - form.constant[k])
        terms = Terms(linear, form.quadratic, group, group_values)
        start_marginals(terms, chosen[i], marginals)
        value = value_from_marginals(terms, chosen[i], marginals)
        n_found, _, all_proven[i] = list_best_sets(
            terms, prepared, chosen[i], value, best_sets, limits, space
        )
        # Not the value that the search says: of huge numbers, rounding makes several of one.
        best = best_value(best_sets, n_found)
        if best - value > n * rounding_noise(terms):
            gain[i] = best - value
        if limits.stop_when_full and is_full(best_sets, n_found, best, limits.margin):
            move_codes(terms, best_sets.chosen, listing.uniforms, marginals)
        if start[i] + n_found > codes.shape[0]:
            codes, weight = twice_as_long(codes, weight, start[i])
        last, total = start[i], 0.0
        for entry in range(n_found):
            below = best_sets.value[entry] - best
            if below < -limits.margin:
                continue
            for k in range(n):
                codes[last, k] = best_sets.chosen[entry, k]
            weight[last] = np.exp(below)
            total += weight[last]
            if weight[last] > weight[start[i]]:  # the best one goes first
                for k in range(n):
                    codes[last, k], codes[start[i], k] = codes[start[i], k], codes[last, k]
                weight[last], weight[start[i]] = weight[start[i]], weight[last]
            last += 1
        for entry in range(start[i], last):
            weight[entry] /= total
        start[i + 1] = last
    return CodeLists(start, codes[: start[n_rows]], weight[: start[n_rows]], all_proven, gain)
