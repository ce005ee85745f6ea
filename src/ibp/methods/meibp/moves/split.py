"""Split: a feature whose rows fall into two groups becomes two.

What a feature leaves unexplained in its own rows is cut in two along its leading direction, as
two-means would. What that explains, less what another feature costs, ranks the features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal
from ibp.methods.meibp.moves.changes import NewFactors, with_new_features
from ibp.methods.meibp.moves.residuals import Residuals, residual_unit, residuals
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

FloatArray = npt.NDArray[np.float64]

# Features that are split at once, as a part of all, and one at a time if that failed.
PART, ONE_BY_ONE = 0.05, 3
# Rounds of two-means, and rows that each half must have.
ROUNDS, LEAST_ROWS = 6, 2


class Halves(NamedTuple):
    """A feature's rows in two groups, and the means of their residuals in units of the noise."""

    feature: int
    second: npt.NDArray[np.bool_]  # (n,), those of the second group among the rows looked at
    means: FloatArray  # (2, D)
    explained: float  # what the bound's likelihood gains by them


class Split:
    """Makes two features of one."""

    name: ClassVar[str] = "split"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Several features that fall apart the most, then one at a time."""
        if state.n_components == 0 or method.limit is not None:
            return
        left = residuals(context, state)
        if left.share < 1.0:
            return  # of large data births find the same
        halves = [halved(left, state, k) for k in range(state.n_components)]
        found = sorted(
            (half for half in halves if half is not None), key=lambda half: -half.explained
        )
        several = found[: max(1, int(PART * state.n_components))]
        groups = [several] if len(several) > 1 else []
        for group in groups + [[half] for half in found[:ONE_BY_ONE]]:
            rows = state.rows_with([half.feature for half in group])
            yield Proposal(divided(context, state, group), rows)


def halved(left: Residuals, state: MEIBPState, feature: int) -> Halves | None:
    """Cut the rows of a feature in two; None if there is nothing to cut."""
    own = state.assignments[left.rows, feature].astype(bool)
    y = left.values[own]
    if y.shape[0] < 2 * LEAST_ROWS:
        return None
    y = y - y.mean(axis=0)
    direction = y[int(np.argmax(np.einsum("nd,nd->n", y, y)))]
    for _ in range(ROUNDS):
        second = y @ direction > 0.0
        m = int(second.sum())
        if m < LEAST_ROWS or m > y.shape[0] - LEAST_ROWS:
            return None
        direction = y[second].mean(axis=0) - y[~second].mean(axis=0)
    share = m / y.shape[0]
    explained = 0.5 * m * (1.0 - share) * float(direction @ direction)
    if explained < m * np.log(2.0):  # not even what it takes to tell which half a row is in
        return None
    codes = np.zeros(left.rows.size, dtype=bool)
    codes[np.flatnonzero(own)[second]] = True
    y = left.values[own]
    return Halves(
        feature, codes, np.stack([y[~second].mean(axis=0), y[second].mean(axis=0)]), explained
    )


def divided(context: Context, state: MEIBPState, halves: list[Halves]) -> MEIBPState:
    """A state in which features are two each."""
    features = np.array([half.feature for half in halves])
    keep = ~np.isin(np.arange(state.n_components), features)
    unit = residual_unit(state)
    codes, location = [], []
    for half in halves:
        own = state.assignments[:, half.feature].astype(bool)
        codes += [own & ~half.second, own & half.second]
        location += [state.factors.mean[half.feature] + mean * unit for mean in half.means]
    scale = np.repeat(state.factors.scale[features], 2, axis=0)
    factors = NewFactors(np.maximum(np.stack(location), 0.0), scale)
    return with_new_features(context, state, np.stack(codes, axis=1), factors, keep)
