"""Removal with repair: features are dropped, the others answer, and only then is it judged.

A sweep tries the removal of each feature with all others as they are, which two features that
share a task will always survive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal
from ibp.methods.meibp.state import MEIBPState
from ibp.model.intercept import LearnedIntercept

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# Of the features this part is dropped at once, then the weakest, so many, one at a time.
PART, ONE_BY_ONE = 0.1, 3
# A feature is worth a try if the rest of the bound loses less than so many times what it costs.
MOST_LOST = 2.0
# Or if more than this part of the rows have it.
NEARLY_ALL = 0.98


class Removal:
    """Drops the weakest features, and lets the others answer."""

    name: ClassVar[str] = "removal"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Several of the weakest, then one at a time."""
        if state.n_components == 0:
            return
        weakest = weakest_features(method, context, state)
        several = weakest[: max(1, int(PART * state.n_components))]
        groups = [several] if several.size > 1 else []
        for dropped in groups + [weakest[i : i + 1] for i in range(min(ONE_BY_ONE, weakest.size))]:
            rows = state.rows_with(dropped)
            changed = state.copy_but_assignments()
            changed.keep(~np.isin(np.arange(state.n_components), dropped))
            yield Proposal(changed, rows)


def weakest_features(
    method: MEIBPMethod, context: Context, state: MEIBPState
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Features that explain little more than they cost, the weakest first.

    One that nearly all rows have is an offset: an intercept, once it has answered, may do.
    """
    bound = method.bound(context, state, state.entropies(context))
    loss, cost = -bound.removal_gains(), bound.feature_costs()
    if isinstance(state.intercept, LearnedIntercept):
        loss[state.statistics.counts > NEARLY_ALL * state.assignments.shape[0]] = -np.inf
    order = np.argsort(loss, kind="stable")
    return order[(loss < MOST_LOST * cost)[order]]
