"""Union: features of another fit to the same rows, where they explain what is left of these.

Its features are candidates for a birth; what does not pay, of either fit, is gone when they have
settled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal
from ibp.methods.meibp.moves.birth import BATCH, FEW, with_births
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod


@dataclass(frozen=True)
class Union:
    """Adds features that another fit has found."""

    name: ClassVar[str] = "union"
    patience: ClassVar[int] = 1

    codes: npt.NDArray[np.uint8]  # of the other fit, for the same rows

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Several of the other's features, then a few; no more than there may be."""
        room = np.inf if method.limit is None else method.limit - state.n_components
        for size in (BATCH, FEW):
            if room >= 1 and self.codes.shape[1]:
                born = with_births(context, state, int(min(size, room)), self.codes)
                if born is not None:
                    yield Proposal(born)
