"""Turn: a feature that most rows have becomes one of the rows that lack it.

With an intercept, two features may stand in a fit as three: one for the rows that have either, and
two that nearly all rows have, whose absence says which of them it is. Every row is explained as
well so, but at a higher price, and no change of a single feature leads away from there.

If the rows that lack feature v nearly all have feature u, there is another way to say the same: the
intercept takes over v, those rows lose u, and a new feature has them, with factors a_u - a_v.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal, disjoint
from ibp.methods.meibp.moves.changes import NewFactors, with_new_features
from ibp.methods.meibp.moves.merge import factor_cosines
from ibp.methods.meibp.state import MEIBPState
from ibp.model.intercept import LearnedIntercept

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

# Of the rows that lack a feature this part must have the other one, with factors so alike; and not
# more than this part of all rows may have it.
LEAST_SHARE, LEAST_COSINE, MOST_ROWS = 0.9, 0.5, 0.9
# Features that are turned at once, and one at a time if that failed.
AT_ONCE, ONE_BY_ONE = 4, 2


class Turn:
    """Turns features round that most rows have."""

    name: ClassVar[str] = "turn"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Several that have nothing to do with each other, then one at a time."""
        if not isinstance(state.intercept, LearnedIntercept):
            return
        pairs = turnable(state)
        several = disjoint(pairs, AT_ONCE)
        groups = [several] if len(several) > 1 else []
        for group in groups + [[(int(v), int(u))] for v, u in pairs[:ONE_BY_ONE]]:
            yield Proposal(turned(context, state, group))


def turnable(state: MEIBPState) -> npt.NDArray[np.int64]:
    """Features that most rows have, and those that the other rows have, the likeliest first."""
    n, counts = state.assignments.shape[0], state.statistics.counts
    cosines = factor_cosines(state)
    together = state.statistics.gram.max(axis=0, initial=0.0)
    found: list[tuple[float, int, int]] = []
    for v in np.flatnonzero((2 * counts > n) & (counts < n)):
        share = (counts - together[v]) / (n - counts[v])  # of the rows that lack v
        share[(counts > MOST_ROWS * n) | (cosines[v] < LEAST_COSINE)] = 0.0
        share[v] = 0.0
        u = int(np.argmax(share * cosines[v]))
        if u != v and share[u] >= LEAST_SHARE:
            found.append((-float(share[u] * cosines[v, u]), int(v), u))
    return np.array([pair[1:] for pair in sorted(found)], dtype=np.int64).reshape(-1, 2)


def turned(context: Context, state: MEIBPState, pairs: list[tuple[int, int]]) -> MEIBPState:
    """A state in which the first of each pair has been turned round within the second."""
    v, u = np.array(pairs).T
    keep = ~np.isin(np.arange(state.n_components), np.ravel(pairs))
    mean = state.factors.mean
    factors = NewFactors(
        np.concatenate([mean[u], np.maximum(mean[u] - mean[v], 0.0)]),
        np.concatenate([state.factors.scale[u]] * 2),
    )
    codes = state.derived_codes(turned_codes, v, u)
    return with_new_features(context, state, codes, factors, keep)


def turned_codes(
    z: npt.NDArray[np.uint8], v: npt.NDArray[np.int64], u: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which rows have u and v, and which have u alone."""
    lacking, own = z[:, v] == 0, z[:, u] == 1
    return np.hstack([own & ~lacking, own & lacking])
