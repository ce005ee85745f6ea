"""Merge of weighted features: two that are shades of one thing become one, with its weights.

Rows that had either have as much of the new feature as both did together, in units of the noise.
Spread and weights are learned before rows may answer: judged as a yes or no, hardly any two shades
would be one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal, attempt, disjoint, worthwhile
from ibp.methods.meibp.moves.changes import NewFactors, with_new_features
from ibp.methods.meibp.moves.merge import alike_pairs
from ibp.methods.meibp.moves.residuals import residual_unit
from ibp.methods.weighted.spread import learn_spreads
from ibp.methods.weighted.state import WeightedState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# Pairs that are merged at once, as parts of all that are alike, and one at a time if that failed.
PARTS, ONE_BY_ONE = (1.0, 0.3), 6
# Weights that are all alike are learned from this spread on.
FIRST_STD = 0.1
# Rounds of merges that tell what weights would gain.
ROUNDS = 4


@dataclass(frozen=True)
class WeightedMerge:
    """Makes one feature of two that are alike, keeping how much rows have of them."""

    one_by_one: int = ONE_BY_ONE

    name: ClassVar[str] = "merge"

    def proposals(self, method: MEIBPMethod, context: Context, state: Any) -> Iterator[Proposal]:
        """All pairs that have no feature in common, some, then the likeliest one at a time."""
        pairs = alike_pairs(state)
        several = disjoint(pairs, state.n_components)
        groups = [several[: int(part * len(several))] for part in PARTS]
        groups = [group for group in groups if len(group) > 1]
        for group in groups + [[(int(i), int(j))] for i, j in pairs[: self.one_by_one]]:
            yield Proposal(merged(context, state, group), state.rows_with(np.ravel(group)))


def merge_shades(method: MEIBPMethod, context: Context, state: Any) -> Any:
    """Merge many features at once, as long as that gains much, a few times."""
    for _ in range(ROUNDS):
        worth = worthwhile(method, context, state)
        state, gain = attempt(method, context, state, WeightedMerge(one_by_one=0), worth)
        if not gain > worth:
            break
    return state


def merged(context: Context, state: WeightedState, pairs: list[tuple[int, int]]) -> WeightedState:
    """A state in which pairs are one feature each."""
    first, second = np.array(pairs).T
    mean, unit = state.factors.mean, residual_unit(state)
    size = np.maximum(np.linalg.norm(mean / unit, axis=1), np.finfo(np.float64).tiny)
    weights = state.weights.mean.astype(np.float64)
    together = weights[:, first] * size[first] + weights[:, second] * size[second]
    has = together > 0
    together /= together.sum(axis=0) / has.sum(axis=0)  # about one where a row has it
    squares = np.einsum("nk,nk->k", together, together)
    # The factor that gives back best what the two gave together.
    location = sum(
        (np.einsum("nk,nk->k", together, weights[:, one]) / squares)[:, None] * mean[one]
        for one in (first, second)
    )
    scale = np.minimum(state.factors.scale[first], state.factors.scale[second])
    keep = ~np.isin(np.arange(state.n_components), np.ravel(pairs))
    changed = with_new_features(context, state, has, NewFactors(np.asarray(location), scale), keep)
    assert isinstance(changed, WeightedState)
    new = slice(changed.n_components - first.size, None)
    spread = np.sqrt((has * (together - 1.0) ** 2).sum(axis=0) / has.sum(axis=0))
    changed.weights.mean[:, new] = together
    changed.weights.std[new] = np.maximum(spread, FIRST_STD)
    changed.recount(context)
    changed.refresh(context)
    learn_spreads(context, changed)
    return changed
