"""Which move is tried when: the most promising first, and none twice in vain.

Moves are tried once Z has gone quiet. One that raises the bound enough begins the round anew, since
all that failed before may succeed now; after the last one has failed there is nothing left to try.
What counts is the bound and never the clock, so that the same seed gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Move, attempt, worthwhile
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.exchange import Exchange
from ibp.methods.meibp.moves.merge import Merge
from ibp.methods.meibp.moves.reheating import Reheating
from ibp.methods.meibp.moves.removal import Removal
from ibp.methods.meibp.moves.split import Split
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

MOVES: tuple[Move, ...] = (Birth(), Exchange(), Removal(), Merge(), Split(), Reheating())


class Tried(NamedTuple):
    """The name of a move that was accepted, if any, and by how much it raised the bound."""

    name: str = ""
    gain: float = 0.0


def moves_left(state: MEIBPState) -> bool:
    """Whether there is a move that has not failed since something changed."""
    return state.next_move < len(MOVES)


def try_next(method: MEIBPMethod, context: Context, state: MEIBPState) -> Tried:
    """Try moves in their turn until one is accepted or Z may have to move first."""
    worth = worthwhile(method, context, state)
    while moves_left(state):
        move = MOVES[state.next_move]
        context.announce(move.name)
        changed, gain = attempt(method, context, state, move, worth)
        if gain > 0.0:
            changed.next_move = 0 if gain > worth else state.next_move + 1
            changed.n_changed = -1
            vars(state).update(vars(changed))
            return Tried(move.name, gain)
        if context.should_stop():
            break
        state.next_move += 1
    return Tried()
