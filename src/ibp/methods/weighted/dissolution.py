"""Dissolution: a feature that others add up to goes, and rows have more of those.

Two features that rows often have together can stand as three: one, the other, and both. No row
leaves the third by steps of single features, and without it, all else as it is, its rows would lose
much. So its factor is written as a sum of the others, and its rows get these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.kernels.column_hashes import column_hashes
from ibp.kernels.nonnegative_coordinates import descend
from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal
from ibp.methods.meibp.moves.residuals import residual_unit
from ibp.methods.weighted.spread import learn_spreads
from ibp.methods.weighted.state import WeightedState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

FloatArray = npt.NDArray[np.float64]

# A feature is tried if no more than this part of its squares is left of it, and so many are.
MOST_LEFT, ONE_BY_ONE = 0.1, 4
# Parts of a sum that are less are left out, in units of the feature's own length.
LEAST_PART = 0.05
# Passes of nonnegative least squares, and the change that ends them.
PASSES, TOLERANCE = 200, 1e-6


class Sum(NamedTuple):
    """A feature as a sum of others: how much of each, and what part of its squares is left."""

    feature: int
    parts: FloatArray
    left: float


class Dissolution:
    """Drops a feature that others add up to, and gives its rows these."""

    name: ClassVar[str] = "dissolution"

    def proposals(self, method: MEIBPMethod, context: Context, state: Any) -> Iterator[Proposal]:
        """The features that others come closest to, one at a time."""
        for sum_of_others in sums_of_others(state)[:ONE_BY_ONE]:
            rows = state.rows_with([sum_of_others.feature])
            yield Proposal(dissolved(context, state, sum_of_others), rows)


def sums_of_others(state: WeightedState) -> list[Sum]:
    """Features that are nearly a nonnegative sum of others, the nearest first."""
    scaled = state.factors.mean / residual_unit(state)
    gram = scaled @ scaled.T
    squares = np.diagonal(gram)
    lengths = np.sqrt(squares)
    found = []
    for k in np.flatnonzero(squares > 0):
        others = np.flatnonzero((np.arange(squares.size) != k) & (squares > 0))
        if not others.size:
            continue
        quadratic = np.ascontiguousarray(gram[np.ix_(others, others)])
        linear = gram[others, k]
        parts, gradient = np.zeros(others.size), -linear
        descend(quadratic, gradient, parts, PASSES, TOLERANCE)
        parts[parts * lengths[others] < LEAST_PART * lengths[k]] = 0.0
        left = 1.0 - (2.0 * linear @ parts - parts @ quadratic @ parts) / squares[k]
        if left < MOST_LEFT:
            whole = np.zeros(squares.size)
            whole[others] = parts
            found.append(Sum(int(k), whole, float(left)))
    return sorted(found, key=lambda one: one.left)


def dissolved(context: Context, state: WeightedState, whole: Sum) -> WeightedState:
    """A state without a feature, whose rows have more of what it is a sum of."""
    changed = state.copy()
    weights = changed.weights
    own = weights.mean[:, whole.feature].astype(np.float64)
    weights.mean += np.outer(own, whole.parts).astype(weights.mean.dtype)
    has_parts = whole.parts > 0
    weights.std[has_parts] = np.maximum(weights.std[has_parts], LEAST_PART)
    changed.assignments = (weights.mean > 0).astype(np.uint8)
    changed.column_hash = column_hashes(changed.assignments)
    changed.recount(context)
    changed.keep(np.arange(state.n_components) != whole.feature)
    changed.forget_failures()
    changed.refresh(context)
    learn_spreads(context, changed)
    return changed
