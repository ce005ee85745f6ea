"""Reheating: the noise is raised for a while, features thin out, and others grow in their place.

What a fit knows least well is which of many similar sets of features to have: every one of them is
an optimum of its own, and changes of single features lead from one to the next by small steps. With
more noise most features are not worth their price. Those that still are find better rows while the
noise comes down again, and births fill in the rest. This changes many features at a time, and is
judged as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal, attempt, worthwhile
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.changes import with_noise_times
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# Factors by which the noise variance is raised, one after the other if the first is in vain: on
# digits a factor of ten leaves three quarters of the features, and one of a hundred a quarter.
HEATS = (10.0, 5.0)
# Sweeps that the noise has to come down in; if it is not learned, it does so after so many.
COOLING_SWEEPS, HOT_SWEEPS = 12, 4
# Reheating takes as long as fifty sweeps. In large data it is done once; where a sweep takes fewer
# products than this, more often.
WORK = 1e8
# Where nearly all rows have a code that is proven to be the best, there is nothing to reheat for.
PROVEN = 0.99


class Reheating:
    """Raises the noise, lets it come down, and lets features be born again."""

    name: ClassVar[str] = "reheating"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """A hot one, then a warm one."""
        proven = state.n_proven > PROVEN * state.assignments.shape[0]
        if state.n_components == 0 or proven or state.n_reheatings >= most_reheatings(state):
            return
        for heat in HEATS:
            changed = reheated(method, context, state, heat)
            if context.should_stop():
                return
            yield Proposal(changed)


def reheated(method: MEIBPMethod, context: Context, state: MEIBPState, heat: float) -> MEIBPState:
    """A state of which the noise has been raised and has come down again, with births since."""
    changed = state.copy()
    known = changed.hyperparameters
    changed.hyperparameters = with_noise_times(known, heat)
    changed.refresh(context)  # factors and intercept go by the noise
    changed.begin_again()
    for number in range(COOLING_SWEEPS):
        if number == HOT_SWEEPS:
            changed.hyperparameters = cooled(changed.hyperparameters, known)
            changed.refresh(context)
        if not context.should_stop():
            method.improve(context, changed)
    worth = worthwhile(method, context, state)
    enough = method.evidence(context, state).total + worth
    gain = np.inf
    while gain > worth and not context.should_stop():
        changed, gain = attempt(method, context, changed, Birth(), worth)
        if method.evidence(context, changed).total > enough:
            break  # what is left to do will be done once this is accepted
    return changed


def most_reheatings(state: MEIBPState) -> int:
    """How often the noise may be raised in a fit: less often where sweeps are long."""
    n, k = state.assignments.shape
    return 1 + int(WORK / (n * k * (k + state.factors.mean.shape[1])))


def cooled(hyperparameters: Any, before: Any) -> Any:
    """With the noise of before, unless it is learned and comes down by itself."""
    noise = before.noise_precision
    return hyperparameters if noise.learned else replace(hyperparameters, noise_precision=noise)
