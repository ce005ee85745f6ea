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

MAX_ELEMENTS = 20


@kernel
def brute_force(linear, quadratic, group, group_values, chosen):
    """Overwrite ``chosen`` with a maximiser; return the largest and the smallest value of F.

    Consecutive Gray codes differ in one element, so a set costs O(1) to score and O(K) to enter.
    """
    n = linear.shape[0]
    current = np.zeros(n, dtype=np.uint8)
    gains = np.empty(n)
    group_count = np.zeros(group_values.shape[0], dtype=np.int64)
    start_marginals(linear, quadratic, group, current, gains, group_count)
    value = value_from_marginals(linear, quadratic, current, gains, group_values, group_count)
    highest = value
    lowest = value
    chosen[:] = current
    for code in range(1, 1 << n):
        k = 0
        while not (code >> k) & 1:
            k += 1
        if current[k]:
            value += gain_of_removing(k, gains, group, group_values, group_count)
        else:
            value += gain_of_adding(k, gains, group, group_values, group_count)
        flip(k, quadratic, group, current, gains, group_count)
        if code % 4096 == 0:  # keep rounding errors from adding up
            start_marginals(linear, quadratic, group, current, gains, group_count)
            value = value_from_marginals(
                linear, quadratic, current, gains, group_values, group_count
            )
        if value > highest:
            highest = value
            chosen[:] = current
        lowest = min(lowest, value)
    return highest, lowest
