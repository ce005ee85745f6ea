"""Double greedy (Buchbinder, Feldman, Naor and Schwartz 2012): two passes' worth of O(K^2) work.

One set grows from nothing, one shrinks from everything, and each element in turn is settled in
both. The deterministic rule takes the larger of the two gains (1/3 of the optimum of F shifted to
a zero minimum); the randomised one chooses in proportion to the positive parts (1/2 in
expectation). Gains do not change with the shift, so none is computed.
"""

import numpy as np

from ibp.compiled import inner_kernel
from ibp.submodular.marginals import (
    flip,
    gain_of_adding,
    gain_of_removing,
    start_marginals,
    value_from_marginals,
)
from ibp.submodular.records import Marginals


@inner_kernel
def double_greedy(terms, chosen, uniforms, space):
    """Overwrite ``chosen`` with the greedy set; return its value and the marginals evaluated.

    ``uniforms`` holds one number in [0, 1) per element, or is empty for the deterministic rule.
    """
    n = chosen.shape[0]
    randomized = uniforms.shape[0] > 0
    upper = np.ones(n, dtype=np.uint8)
    for k in range(n):
        chosen[k] = 0
    from_below = Marginals(space.gains[0], space.group_count[0])
    from_above = Marginals(space.gains[1], space.group_count[1])
    start_marginals(terms, chosen, from_below)
    start_marginals(terms, upper, from_above)
    for k in range(n):
        add = gain_of_adding(k, terms, from_below)
        drop = gain_of_removing(k, terms, from_above)
        if randomized:
            add = max(add, 0.0)
            drop = max(drop, 0.0)
            total = add + drop
            keep = total <= 0.0 or uniforms[k] * total < add
        else:
            keep = add >= drop
        if keep:
            flip(k, terms, chosen, from_below)
        else:
            flip(k, terms, upper, from_above)
    return value_from_marginals(terms, chosen, from_below), 2 * n
