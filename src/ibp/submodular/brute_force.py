"""Every set, in Gray-code order: the oracle that the other optimisers are tested against."""

import numpy as np

from ibp.compiled import kernel
from ibp.submodular.marginals import (
    flip,
    gain_of_adding,
    gain_of_removing,
    start_marginals,
    value_from_marginals,
)
from ibp.submodular.records import Marginals

MAX_ELEMENTS = 20


@kernel
def brute_force(terms, chosen):
    """Overwrite ``chosen`` with a maximiser; return the largest and the smallest value of F.

    Consecutive Gray codes differ in one element, so a set costs O(1) to score and O(K) to enter.
    """
    n = chosen.shape[0]
    current = np.zeros(n, dtype=np.uint8)
    group_count = np.zeros(terms.group_values.shape[0], dtype=np.int64)
    marginals = Marginals(np.empty(n), group_count)
    start_marginals(terms, current, marginals)
    value = value_from_marginals(terms, current, marginals)
    highest = value
    lowest = value
    chosen[:] = current
    for code in range(1, 1 << n):
        k = 0
        while not (code >> k) & 1:
            k += 1
        if current[k]:
            value += gain_of_removing(k, terms, marginals)
        else:
            value += gain_of_adding(k, terms, marginals)
        flip(k, terms, current, marginals)
        if code % 4096 == 0:  # keep rounding errors from adding up
            start_marginals(terms, current, marginals)
            value = value_from_marginals(terms, current, marginals)
        if value > highest:
            highest = value
            chosen[:] = current
        lowest = min(lowest, value)
    return highest, lowest
