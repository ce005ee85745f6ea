"""Exchange: at the limit of features, the weakest ones for births.

Births go beyond the limit for a while; when they have settled, the features that the bound loses
least by are taken away until there are as many as there may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal, settle
from ibp.methods.meibp.moves.birth import with_births
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# Features that are exchanged at once, and fewer if that failed.
BATCH, FEW = 5, 1


class Exchange:
    """Puts births in the place of the weakest features."""

    name: ClassVar[str] = "exchange"
    patience: ClassVar[int] = 1

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Several at once, then one."""
        limit = method.limit
        if limit is None or limit < 1 or state.n_components < limit:
            return
        for size in (BATCH, FEW):
            if size > limit:
                continue
            born = with_births(context, state, size)
            if born is None:
                return
            settle(method, context, Proposal(born))
            prune(method, context, born, limit)
            yield Proposal(born)


def prune(method: MEIBPMethod, context: Context, state: MEIBPState, limit: int) -> None:
    """Take features away until there are no more than the limit, the weakest first."""
    while state.n_components > limit:
        gains = method.bound(context, state, state.entropies(context)).removal_gains()
        state.keep(np.arange(state.n_components) != int(np.argmax(gains)))
        state.refresh(context)
