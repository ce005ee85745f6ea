"""Double greedy (Buchbinder, Feldman, Naor and Schwartz 2012): two passes' worth of O(K^2) work.

One set grows from nothing, one shrinks from everything, and each element in turn is settled in
both. The deterministic rule takes the larger of the two gains (1/3 of the optimum of F shifted to
a zero minimum); the randomised one chooses in proportion to the positive parts (1/2 in
expectation). Gains do not change with the shift, so none is computed.
"""

import numpy as np

from ibp.compiled import kernel
from ibp.submodular.marginals import (
    flip,
    gain_of_adding,
    gain_of_removing,
    start_marginals,
    value_from_marginals,
)


@kernel
def double_greedy(linear, quadratic, group, group_values, chosen, uniforms, gains, group_count):
    """Overwrite ``chosen`` with the greedy set; return its value and the marginals evaluated.

    ``uniforms`` holds one number in [0, 1) per element, or is empty for the deterministic rule.
    ``gains`` (2 x K floats) and ``group_count`` (2 x G integers) are work space.
    """
    n = linear.shape[0]
    randomized = uniforms.shape[0] > 0
    upper = np.ones(n, dtype=np.uint8)
    for k in range(n):
        chosen[k] = 0
    start_marginals(linear, quadratic, group, chosen, gains[0], group_count[0])
    start_marginals(linear, quadratic, group, upper, gains[1], group_count[1])
    for k in range(n):
        add = gain_of_adding(k, gains[0], group, group_values, group_count[0])
        drop = gain_of_removing(k, gains[1], group, group_values, group_count[1])
        if randomized:
            add = max(add, 0.0)
            drop = max(drop, 0.0)
            total = add + drop
            keep = total <= 0.0 or uniforms[k] * total < add
        else:
            keep = add >= drop
        if keep:
            flip(k, quadratic, group, chosen, gains[0], group_count[0])
        else:
            flip(k, quadratic, group, upper, gains[1], group_count[1])
    value = value_from_marginals(linear, quadratic, chosen, gains[0], group_values, group_count[0])
    return value, 2 * n
