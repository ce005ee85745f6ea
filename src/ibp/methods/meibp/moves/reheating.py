"""Reheating: the noise of some columns is raised for a sweep, and features are born since.

What a fit knows least well is which of many similar sets of features to have: every one of them is
an optimum of its own, and changes of single features lead from one to the next by small steps. With
more noise in half of the columns, features that live there give up rows and the others take over
some; when the noise has come down again, births fill in what is left to explain. This changes many
features a little at a time, and is judged as a whole.

On digits most of these changes raise the bound at first. Raising the noise of all columns as much
changes so much that births need long to make up for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal, settle
from ibp.methods.meibp.moves.birth import with_births
from ibp.methods.meibp.moves.changes import with_noise_times
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# The noise variance is raised by so much in so large a part of the columns; after tries in vain in
# fewer columns. Noise that all columns share is raised by the other factors.
HEATS = ((5.0, 0.5), (5.0, 0.2))
SHARED_HEATS = (3.0, 2.0)
# A try is so many reheatings one after the other, each from where the last one has led, until one
# ends higher than where the first began: what few lead to is often reached by several.
IN_A_ROW = 3
# Batches of births since, and of how many features.
BATCHES, BATCH, PART_BORN = 2, 5, 0.1
# Tries that may be in vain, at the least and at the most: more where sweeps take fewer products
# than this.
IN_VAIN, WORK_IN_VAIN = (3, 8), 6e7
# In large data there are few tries: these many products are what sweeps of all of them may take,
# beside one try. Where this part of the rows has a code that is proven to be the best there is
# hardly anything to reheat for: then there are no more than so many, and not that one either.
WORK, PROVEN, MOST_IF_PROVEN = 2e9, 0.99, 3


class Reheating:
    """Raises the noise of some columns, lets it come down, and lets features be born."""

    name: ClassVar[str] = "reheating"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """One, of columns drawn at random; if that is in vain, others from where it has led."""
        if state.n_components == 0 or state.n_reheatings >= most_reheatings(state):
            return
        changed = state
        for _ in range(IN_A_ROW):
            changed = reheated(method, context, changed)
            yield Proposal(changed)


def reheated(method: MEIBPMethod, context: Context, state: MEIBPState) -> MEIBPState:
    """A state of which some noise has been raised and has come down again, with births since."""
    changed, known = state.copy(), state.hyperparameters
    changed.hyperparameters = with_noise_times(known, heats(context, state))
    changed.refresh(context)  # factors and intercept go by the noise
    method.improve(context, changed)
    if not known.noise_precision.learned:  # it does not come down by itself
        changed.hyperparameters = cooled(changed.hyperparameters, known)
        changed.refresh(context)
    method.improve(context, changed)
    for number in range(BATCHES):
        size = max(BATCH, int(PART_BORN * changed.n_components))
        if method.limit is not None:
            size = min(size, method.limit - changed.n_components)
        born = with_births(context, changed, size) if size > 0 else None
        if born is None or context.should_stop():
            break
        changed = born
        if number < BATCHES - 1:  # the last one settles as every proposal does
            settle(method, context, Proposal(changed))
    return changed


def cooled(hyperparameters: Any, before: Any) -> Any:
    """The same with the noise of before."""
    return replace(hyperparameters, noise_precision=before.noise_precision)


def heats(context: Context, state: MEIBPState) -> Any:
    """By which factor the noise variance is raised, for each column if each has its own."""
    if not state.hyperparameters.by_column:
        return SHARED_HEATS[state.n_in_vain % len(SHARED_HEATS)]
    heat, part = HEATS[state.n_in_vain % len(HEATS)]
    n_columns = state.factors.mean.shape[1]
    factors: npt.NDArray[np.float64] = np.ones(n_columns)
    factors[context.rng.permutation(n_columns)[: math.ceil(part * n_columns)]] = heat
    return factors


def patience(state: MEIBPState) -> int:
    """How many tries in a row have to raise the bound enough, if there are to be more."""
    return int(np.clip(WORK_IN_VAIN / sweep_work(state), *IN_VAIN))


def sweep_work(state: MEIBPState) -> float:
    """Products that a sweep takes."""
    n, k = state.assignments.shape
    return float(max(n * k * (k + state.factors.mean.shape[1]), 1))


def most_reheatings(state: MEIBPState) -> int:
    """How often noise may be raised in a fit: less often where sweeps are long."""
    most = int(WORK / sweep_work(state))
    proven = state.n_proven > PROVEN * state.assignments.shape[0]
    return min(most, MOST_IF_PROVEN) if proven else 1 + most
