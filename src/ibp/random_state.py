"""One way from scikit-learn's ``random_state`` to independent generators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def spawn_generators(random_state: Any, n: int) -> list[np.random.Generator]:
    """N independent generators from None, an integer, a RandomState or a Generator.

    With an integer the first few are the same however many are asked for.
    """
    if isinstance(random_state, np.random.Generator):
        return list(random_state.spawn(n))
    entropy = check_random_state(random_state).randint(2**32, size=8, dtype=np.uint32)
    return [np.random.default_rng(s) for s in np.random.SeedSequence(entropy.tolist()).spawn(n)]
