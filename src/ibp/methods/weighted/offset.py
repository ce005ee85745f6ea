"""Offset: what nearly all rows have of a feature goes to the intercept.

A feature that makes up for an intercept which is too low is in all rows, a little of it in most.
Sweeps lead away from there slowly: no row can lack the feature as long as the intercept is where it
is, and the intercept stays as long as all rows have the feature.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal
from ibp.methods.weighted.start import FIRST_PRICE, find_codes
from ibp.model.ibp_prior import tangent_log_odds
from ibp.model.intercept import LearnedIntercept

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# A feature is asked for its common part if more than this part of the rows have it; that part is
# one of these quantiles of its weights.
OFTEN, QUANTILES = 0.6, (0.4, 0.15)


@dataclass(frozen=True)
class Offset:
    """Lets the intercept have the common part of features that most rows have.

    All features move at once, so it takes some ``sweeps`` until that pays where the intercept is
    far off; with none it is quick, and tells whether it is a little.
    """

    sweeps: int = 0

    name: ClassVar[str] = "offset"

    def proposals(self, method: MEIBPMethod, context: Context, state: Any) -> Iterator[Proposal]:
        """A large part, then a small one."""
        n_samples = state.assignments.shape[0]
        often = state.statistics.counts > OFTEN * n_samples
        if not isinstance(state.intercept, LearnedIntercept) or not often.any():
            return
        for quantile in QUANTILES:
            common = np.zeros(state.n_components)
            common[often] = np.quantile(state.codes[:, often], quantile, axis=0)
            if not common.any():
                continue
            changed = state.copy()
            weights, intercept = changed.weights, changed.intercept
            weights.mean[:] = np.maximum(weights.mean - common, 0.0)
            changed.intercept = replace(
                intercept, mean=intercept.mean + common @ changed.factors.mean
            )
            log_odds = tangent_log_odds(state.statistics.counts, n_samples)
            log_odds = np.where(often, FIRST_PRICE, log_odds)
            find_codes(context, changed, log_odds, thorough=True)
            for _ in range(self.sweeps):
                if not context.should_stop():
                    changed.refresh(context)
                    method.improve(context, changed)
            yield Proposal(changed)
