"""Reheating: the noise of some columns is raised for a sweep, and features are born since.

What a fit knows least well is which of many similar sets of features to have: every one of them is
an optimum of its own, and changes of single features lead from one to the next by small steps. With
more noise in half of the columns, features that live there give up rows and the others take over
some; when the noise has come down again, births fill in what is left to explain. This changes many
features a little at a time, and is judged as a whole.

Reheatings follow one another in a walk. Each begins where the last one has led if that is not much
worse than where it began: a fall of the bound by f is put up with with probability exp(-f / t),
where t, the temperature, sinks to zero over the walk. What is better than all so far is the fit's
new state, so that the fit itself only climbs. On digits the gains of ten fits, each with something
changed that should not matter, are within 2% of the best so (`benchmarks/accidents.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import (
    Outcome,
    Proposal,
    gain_of_features,
    rounding,
    settle,
    settling_little,
)
from ibp.methods.meibp.moves.birth import with_births
from ibp.methods.meibp.moves.changes import with_noise_times
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# The noise variance is raised by so much in so large a part of the columns. Noise that all columns
# share is raised by the other factors in turn.
HEAT, PART_HEATED = 5.0, 0.5
SHARED_HEATS = (3.0, 2.0)
# Batches of births since, and of how many features.
BATCHES, BATCH, PART_BORN = 2, 5, 0.13
# The temperature at first, and how far below the best a walk may lead, as parts of what the
# features gain.
TEMPERATURE, FARTHEST = 0.01, 0.02
# Reheatings of a walk: so many where a sweep takes these products. In larger data a walk takes
# longer, but fewer steps; there are never fewer or more than the other numbers.
STEPS, PRODUCTS, FEWEST, MOST = 40, 1.3e7, 2, 200
# A walk ends when so many steps in a row, or this part of all, have found nothing better by at
# least this part of what the features gain.
IN_VAIN, PART_IN_VAIN, BETTER = 15, 0.2, 1e-4
# Where this part of the rows has a code that is proven to be the best there is hardly anything to
# reheat for: it ends when so few first steps were in vain, and sweeps of all its steps may take no
# more than these products.
PROVEN, IN_VAIN_IF_PROVEN, WORK_IF_PROVEN = 0.99, 3, 7e8


class Reheating:
    """Raises the noise of some columns, lets it come down, and lets features be born."""

    name: ClassVar[str] = "reheating"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """One, from where the walk is, of columns drawn at random."""
        if state.n_components > 0:
            yield Proposal(reheated(method, context, state.walker or state, state.n_reheatings))


def walk_on(method: MEIBPMethod, context: Context, state: MEIBPState) -> Outcome:
    """Take the next step of the walk; what it led to if that is better than the state.

    Of the state nothing changes but what it knows of the walk, which must be planned and not over.
    """
    best = method.evidence(context, state).total
    present = best if state.walker is None else state.walker_evidence
    gained = gain_of_features(method, context, state)
    temperature = TEMPERATURE * gained * (1.0 - state.n_reheatings / state.n_planned)
    proposal = next(Reheating().proposals(method, context, state))
    settle(method, context, proposal)
    changed = proposal.state
    if context.should_stop():
        return Outcome(state, 0.0)
    state.n_reheatings += 1
    state.n_in_vain += 1
    evidence = method.evidence(context, changed).total
    if evidence - best > rounding(best):
        if evidence - best > BETTER * gained:
            state.n_in_vain, state.walk_pays = 0, True
        for known in ("next_move", "n_reheatings", "n_planned", "n_in_vain", "walk_pays"):
            setattr(changed, known, getattr(state, known))
        changed.walker = None
        return Outcome(changed, evidence - best)
    put_up_with = -temperature * math.log(1.0 - context.rng.random())  # more has probability e^-f/t
    if walk_is_over(state):
        state.walker = None
    elif present - evidence < put_up_with and best - evidence < FARTHEST * gained:
        state.walker, state.walker_evidence = changed, evidence
    return Outcome(state, 0.0)


def walk_is_over(state: MEIBPState) -> bool:
    """Whether there is nothing to reheat any more."""
    if state.n_components == 0 or state.n_reheatings >= state.n_planned:
        return True
    few = is_proven(state) and not state.walk_pays
    patience = max(IN_VAIN, int(PART_IN_VAIN * state.n_planned))
    return state.n_in_vain >= (IN_VAIN_IF_PROVEN if few else patience)


def is_proven(state: MEIBPState) -> bool:
    """Whether next to all rows have the best code that there is for them."""
    return bool(state.n_proven > PROVEN * state.assignments.shape[0])


def reheated(method: MEIBPMethod, context: Context, state: MEIBPState, number: int) -> MEIBPState:
    """A state of which some noise has been raised and has come down again, with births since."""
    method = settling_little(method)
    changed, known = state.copy(), state.hyperparameters
    changed.hyperparameters = with_noise_times(known, heats(context, state, number))
    changed.refresh(context)  # factors and intercept go by the noise
    method.improve(context, changed)
    if not known.noise_precision.learned:  # it does not come down by itself
        changed.hyperparameters = cooled(changed.hyperparameters, known)
        changed.refresh(context)
    for batch in range(BATCHES):
        size = max(BATCH, int(PART_BORN * changed.n_components))
        if method.limit is not None:
            size = min(size, method.limit - changed.n_components)
        born = with_births(context, changed, size) if size > 0 else None
        if born is None or context.should_stop():
            break
        changed = born
        if batch < BATCHES - 1:  # the last one settles as every proposal does
            settle(method, context, Proposal(changed))
    return changed


def cooled(hyperparameters: Any, before: Any) -> Any:
    """The same with the noise of before."""
    return replace(hyperparameters, noise_precision=before.noise_precision)


def heats(context: Context, state: MEIBPState, number: int) -> Any:
    """By which factor the noise variance is raised, for each column if each has its own."""
    if not state.hyperparameters.by_column:
        return SHARED_HEATS[number % len(SHARED_HEATS)]
    n_columns = state.factors.mean.shape[1]
    factors: npt.NDArray[np.float64] = np.ones(n_columns)
    factors[context.rng.permutation(n_columns)[: math.ceil(PART_HEATED * n_columns)]] = HEAT
    return factors


def work_of_a_sweep(state: MEIBPState, least_features: int = 1, least_rows: int = 1) -> float:
    """How many products a sweep takes, with so many features and rows at the least."""
    n, d = max(state.assignments.shape[0], least_rows), state.factors.mean.shape[1]
    k = max(state.n_components, least_features)
    return float(max(n * k * (k + d), 1))


def steps_of_a_walk(work: float) -> int:
    """How many reheatings there are where a sweep takes so many products."""
    return int(np.clip(STEPS * (PRODUCTS / work) ** 0.75, FEWEST, MOST))


def plan_walk(state: MEIBPState) -> None:
    """Say how many reheatings a fit is worth, unless that is known: fewer where sweeps are long."""
    if state.n_planned >= 0:
        return
    work = work_of_a_sweep(state)
    steps = steps_of_a_walk(work)
    state.n_planned = min(steps, int(WORK_IF_PROVEN / work)) if is_proven(state) else steps
