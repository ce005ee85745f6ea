"""Nonnegative least squares with a linear penalty, row by row, one coordinate at a time.

A row of codes b >= 0 minimises  b'Gb/2 - (p - penalty)'b  with G = A A' and p = A x over the
columns that the row observes. The minimum over one coordinate is

    b_k = max(0, b_k - gradient_k / G_kk),    gradient = G b - p + penalty.

Where G_kk = 0 nothing but the penalty is left of coordinate k, and its minimum is 0. Columns of A
are the same problem, with B'B and B'X.
"""

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.row_forms import Form, missing_of_row, own_form


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
def descend_rows(products, penalty, forms, columns, gaps, n_passes, tolerance, values):
    """Descend in every row of ``values`` (n x K), in place.

    ``products`` are the rows' p, the quadratic parts of ``forms`` their G; that of a row without a
    shared form is made from form 0 and its gaps. ``columns`` is None if there are no such rows.
    """
    n_rows, n = products.shape
    if columns is not None:
        complete = Form(forms.quadratic[0], forms.constant[0])
        own = Form(np.empty((n, n)), np.empty(n))
    gradient = np.empty(n)
    for i in range(n_rows):
        number = gaps.form_of_row[i]
        if columns is not None and number < 0:
            own_form(missing_of_row(i, gaps), columns, None, complete, own)
            gram = own.quadratic
        else:
            gram = forms.quadratic[number]
        for k in range(n):
            gradient[k] = penalty - products[i, k]
        for k in range(n):
            if values[i, k] != 0.0:
                for j in range(n):
                    gradient[j] += values[i, k] * gram[k, j]
        descend(gram, gradient, values[i], n_passes, tolerance)
