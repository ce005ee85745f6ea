"""Growth: births after a reheating, as long as a fit is still far from having all its features.

Births alone settle the features that are there only where the new ones touch them: what was born
first stays as it was first seen, and a fit ends with many small features that make up for it. A
reheating before each batch lets the old features share out the rows anew while they are few and
that takes little time. On every fourth row of Piano fits end 5 to 12% higher so, with fewer
features; on digits as high, and sooner (`benchmarks/accidents.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Outcome, Proposal, attempt
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.reheating import is_proven, reheated
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# With fewer features there is little to share out anew.
LEAST_FEATURES = 20


@dataclass(frozen=True)
class Growth:
    """Raises the noise of some columns, lets it come down, and adds features of the residual."""

    name: ClassVar[str] = "growth"

    least_features: int = LEAST_FEATURES

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """One, unless a walk has begun, which does the same, or most rows are beyond doubt."""
        has_room = method.limit is None or state.n_components < method.limit
        begun = state.n_reheatings > 0
        few = state.n_components < self.least_features
        if has_room and not (few or begun or is_proven(state)):
            yield Proposal(reheated(method, context, state, 0))


def grow_once(method: MEIBPMethod, context: Context, state: MEIBPState, worth: float) -> Outcome:
    """Let features be born, after a reheating if that is better than without by ``worth``."""
    grown = attempt(method, context, state, Growth(), worth)
    return grown if grown.gain > worth else attempt(method, context, state, Birth(), worth)
