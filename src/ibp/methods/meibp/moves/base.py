"""What a move is, and how one is tried: change a state, let it settle, keep it if it is better.

A move never touches the state that it starts from. So a move that is not accepted leaves it as it
was, bit for bit, and one that is accepted raises the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

IntArray = npt.NDArray[np.int64]

# Sweeps after which a changed state is judged: on digits fits with three take a third longer and
# end no higher, and those with one end lower.
SETTLING_SWEEPS = 2
LEAST_WORTH = 10.0
# Updates of noise and factors before rows may answer: the noise of a model with few features is
# far from what it will be.
SETTLING_UPDATES = 2
# Updates of intercept and noise that a model without features needs.
UPDATES_WITHOUT_FEATURES = 5
# Updates of noise and factors after a sweep of a changed state that changed no row.
UPDATES_AT_REST = 3


class Proposal(NamedTuple):
    """A changed state, and the rows that the change concerns; None for all."""

    state: MEIBPState
    rows: IntArray | None = None


class Move(Protocol):
    """A change of several features at once, which no sweep over the rows would make."""

    name: ClassVar[str]

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Changed states, the likeliest first; the next is asked for if one is not accepted."""
        ...


class Outcome(NamedTuple):
    """What came of trying a move: the state to go on with, and by how much the bound rose."""

    state: MEIBPState
    gain: float


def attempt(
    method: MEIBPMethod, context: Context, state: MEIBPState, move: Move, worth: float = 0.0
) -> Outcome:
    """Try a move: the first of its proposals that is worth its while, else the best that is better.

    ``worth`` is a rise of the bound that is not worth looking for a better one.
    """
    before = method.evidence(context, state).total
    best = Outcome(state, 0.0)
    for proposal in move.proposals(method, context, state):
        settle(method, context, proposal)
        gain = method.evidence(context, proposal.state).total - before
        if gain > max(best.gain, rounding(before)):
            best = Outcome(proposal.state, gain)
        if best.gain > worth or context.should_stop():
            break
    return best


def worthwhile(method: MEIBPMethod, context: Context, state: MEIBPState) -> float:
    """The least rise of the bound that a move is repeated for, in nats.

    It is a part of what the features together have raised the bound by, and not so little that
    nobody would call it evidence.
    """
    return max(method.tol * gain_of_features(method, context, state), LEAST_WORTH)


def gain_of_features(method: MEIBPMethod, context: Context, state: MEIBPState) -> float:
    """What the features together have raised the bound by."""
    return method.evidence(context, state).total - without_features(method, context, state)


def without_features(method: MEIBPMethod, context: Context, state: MEIBPState) -> float:
    """The bound of the same model without any feature."""
    bare = replace(state)  # `keep` and all that follows put other arrays into it
    bare.keep(np.zeros(state.n_components, dtype=bool))
    for _ in range(UPDATES_WITHOUT_FEATURES):
        bare.update_intercept(context)
        method.learn(context, bare)
    return method.evidence(context, bare).total


def rounding(evidence: float) -> float:
    """A rise of the bound that is no more than rounding."""
    return 1e-9 * (1.0 + abs(evidence))


def settle(method: MEIBPMethod, context: Context, proposal: Proposal) -> None:
    """Let factors, noise and rows answer to a change, a little."""
    method, state = settling_little(method), proposal.state
    state.refresh(context)
    for _ in range(SETTLING_UPDATES):
        method.answer(context, state)
    for _ in range(SETTLING_SWEEPS):
        if context.should_stop() or method.improve(context, state, proposal.rows) == 0:
            break


def settling_little(method: MEIBPMethod) -> MEIBPMethod:
    """The method, but for how far it goes where rows are at rest: what is judged need not be."""
    return replace(method, settling_updates=min(method.settling_updates, UPDATES_AT_REST))


def disjoint(pairs: npt.NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """The first so many pairs that have no feature in common with one before."""
    taken: set[int] = set()
    chosen: list[tuple[int, int]] = []
    for first, second in pairs:
        if len(chosen) == most:
            break
        if first not in taken and second not in taken:
            chosen.append((int(first), int(second)))
            taken |= {int(first), int(second)}
    return chosen
