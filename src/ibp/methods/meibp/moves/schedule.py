"""Which move is tried when: the most promising first, and none twice in vain.

Moves are tried once Z has gone quiet. One that raises the bound enough begins the round anew, since
all that failed before may succeed now. Reheatings are a walk of many steps, which a fit makes once.
After the last move has failed there is nothing left to try. What counts is the bound and the work
and never the clock, so that the same seed gives the same answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Move, attempt, worthwhile
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.exchange import Exchange
from ibp.methods.meibp.moves.growth import Growth
from ibp.methods.meibp.moves.merge import Merge
from ibp.methods.meibp.moves.reheating import Reheating, plan_walk, walk_is_over, walk_on
from ibp.methods.meibp.moves.removal import Removal
from ibp.methods.meibp.moves.split import Split
from ibp.methods.meibp.moves.turn import Turn
from ibp.methods.meibp.moves.union import Union
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

MOVES: tuple[Move, ...] = (
    Growth(),
    Birth(),
    Exchange(),
    Turn(),
    Reheating(),
    Removal(),
    Merge(),
    Split(),
)


class Tried(NamedTuple):
    """The name of a move that was accepted, if any, and by how much it raised the bound."""

    name: str = ""
    gain: float = 0.0

    def values(self) -> dict[str, Any]:
        """For the history."""
        return {"move": self.name, "move_gain": self.gain}


def moves_left(method: MEIBPMethod, state: MEIBPState) -> bool:
    """Whether there is a move that has not failed since something changed."""
    return state.next_move < len(method.kinds_of_moves)


def try_next(method: MEIBPMethod, context: Context, state: MEIBPState) -> Tried:
    """Try moves in their turn until one is accepted or Z may have to move first."""
    worth = worthwhile(method, context, state)
    tried = Tried()
    while moves_left(method, state) and not tried.name:
        move = method.kinds_of_moves[state.next_move]
        walks = isinstance(move, Reheating)
        if walks:
            plan_walk(state)
        over = walks and walk_is_over(state)
        if over or (isinstance(move, Growth) and not move.applies(method, state)):
            state.next_move += 1
            continue
        context.announce(move.name)
        if walks:
            changed, gain = walk_on(method, context, state)
        else:
            changed, gain = attempt(method, context, state, move, worth)
        if context.should_stop() and not gain > 0.0:
            return tried
        if gain > 0.0:
            tried = Tried(move.name, gain)
            vars(state).update(vars(changed))
        walking = walks and not walk_is_over(state)
        if gain > 0.0 or walks:
            # Between the steps of a walk Z is not brought to rest: that takes longer than it gains.
            state.n_changed = 0 if walking else -1
        if not walking:
            # Where a walk has led further, births may find more than before it.
            again = state.walk_pays if walks else gain > worth
            state.next_move = 0 if again else state.next_move + 1
        if walks:
            break
    if not moves_left(method, state):
        finish(method, context, state)
    return tried


def finish(method: MEIBPMethod, context: Context, state: MEIBPState) -> None:
    """See to what is left to do when no move is left to try: sweeps in earnest come next."""
    if state.n_components == method.limit:
        state.limit_gain = gain_of_one_more(method, context, state)
    state.n_changed = -1
    state.forget_failures()


def gain_of_one_more(method: MEIBPMethod, context: Context, state: MEIBPState) -> float:
    """What the bound would gain by one feature more than there may be."""
    beyond = replace(method, limit=state.n_components + 1)
    return attempt(beyond, context, state, Birth()).gain


def take_over(method: MEIBPMethod, context: Context, state: MEIBPState, other: MEIBPState) -> Tried:
    """Let a state have what it can use of the features of another one."""
    worth = worthwhile(method, context, state)
    total, gain = 0.0, np.inf
    state.walker = None  # of a run that was cut short
    context.announce(Union.name)
    while gain > worth and not context.should_stop():
        changed, gain = attempt(method, context, state, Union(other.assignments), worth)
        total += gain
        if gain > 0.0:
            vars(state).update(vars(changed))
    return Tried(Union.name, total) if total > 0.0 else Tried()
