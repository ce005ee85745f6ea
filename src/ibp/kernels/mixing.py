"""Numbers to well-mixed bits."""

import numpy as np

from ibp.compiled import kernel


@kernel
def mixed(number):
    """64 well-mixed bits that stand for a number (splitmix64).

    Products wrap around, which `np.multiply` does without a warning where nothing is compiled.
    """
    x = np.multiply(np.uint64(number + 1), np.uint64(0x9E3779B97F4A7C15))
    x = np.multiply(x ^ (x >> np.uint64(30)), np.uint64(0xBF58476D1CE4E5B9))
    x = np.multiply(x ^ (x >> np.uint64(27)), np.uint64(0x94D049BB133111EB))
    return x ^ (x >> np.uint64(31))
