"""Nonnegative least squares with a linear penalty, row by row, one coordinate at a time.

A row of codes b >= 0 minimises  b'Gb/2 - (p - penalty)'b  with G = A A' and p = A x over the
columns that the row observes. The minimum over one coordinate is

    b_k = max(0, b_k - gradient_k / G_kk),    gradient = G b - p + penalty.

Where G_kk = 0 nothing but the penalty is left of coordinate k, and its minimum is 0. Columns of A
are the same problem, with B'B and B'X.
"""

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.cancellation import LEAST_LEFT


@kernel
def add_outer(sign, vector, gram):
    """Add or take away what one column contributes to the lower half of G."""
    for k in range(vector.shape[0]):
        step = sign * vector[k]
        for j in range(k + 1):
            gram[k, j] += step * vector[j]


@kernel
def take_away(missing, by_position, complete, gram):
    """G without the positions ``missing`` (lower half); whether enough digits are left of it."""
    n = complete.shape[0]
    for k in range(n):
        for j in range(k + 1):
            gram[k, j] = complete[k, j]
    for i in range(missing.shape[0]):
        add_outer(-1.0, by_position[missing[i]], gram)
    accurate = True
    for k in range(n):
        accurate &= gram[k, k] >= LEAST_LEFT * complete[k, k]
    return accurate


@kernel
def add_observed(missing, by_position, gram):
    """G summed over all positions but those in ``missing``, which is sorted (lower half)."""
    for k in range(gram.shape[0]):
        for j in range(k + 1):
            gram[k, j] = 0.0
    next_missing = 0
    for position in range(by_position.shape[0]):
        if next_missing < missing.shape[0] and missing[next_missing] == position:
            next_missing += 1
        else:
            add_outer(1.0, by_position[position], gram)


@kernel
def gram_of_own(missing, by_position, complete, gram):
    """G of a row that misses the positions ``missing``, in the cheaper of two ways."""
    few = 2 * missing.shape[0] <= by_position.shape[0]
    if not (few and take_away(missing, by_position, complete, gram)):
        add_observed(missing, by_position, gram)
    for k in range(gram.shape[0]):
        for j in range(k):
            gram[j, k] = gram[k, j]


@kernel
def descend(gram, gradient, values, n_passes, tolerance):
    """Go through the coordinates until ``n_passes`` are made or one changes next to nothing.

    That is, no value by more than ``tolerance`` times the largest. ``gradient`` belongs to
    ``values``, and both are brought along.
    """
    n = values.shape[0]
    for _ in range(n_passes):
        largest, largest_change = 0.0, 0.0
        for k in range(n):
            old = values[k]
            new = max(0.0, old - gradient[k] / gram[k, k]) if gram[k, k] > 0.0 else 0.0
            if new != old:
                change = new - old
                values[k] = new
                for j in range(n):
                    gradient[j] += change * gram[k, j]
                largest_change = max(largest_change, abs(change))
            largest = max(largest, new)
        if largest_change <= tolerance * largest:
            return


@kernel
def descend_rows(products, penalty, grams, by_position, gaps, n_passes, tolerance, values):
    """Descend in every row of ``values`` (n x K), in place.

    ``products`` are the rows' p. Row i has G = ``grams[gaps.form_of_row[i]]``; if that form is -1,
    its own, made from form 0 and the positions that it misses, with ``by_position`` (D x K) the
    transposed factors.
    """
    n_rows, n = products.shape
    own = np.empty((n, n))
    gradient = np.empty(n)
    for i in range(n_rows):
        form = gaps.form_of_row[i]
        if form < 0:
            positions = gaps.missing[gaps.missing_start[i] : gaps.missing_start[i + 1]]
            gram_of_own(positions, by_position, grams[0], own)
        gram = own if form < 0 else grams[form]
        for k in range(n):
            gradient[k] = penalty - products[i, k]
        for k in range(n):
            if values[i, k] != 0.0:
                for j in range(n):
                    gradient[j] += values[i, k] * gram[k, j]
        descend(gram, gradient, values[i], n_passes, tolerance)
