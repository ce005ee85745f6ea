"""Merge: pairs of features that are alike in their rows or in their factors become one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal, disjoint
from ibp.methods.meibp.moves.changes import NewFactors, with_new_features
from ibp.methods.meibp.moves.residuals import residual_unit
from ibp.methods.meibp.state import MEIBPState

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

FloatArray = npt.NDArray[np.float64]

# Pairs that are merged at once, as a part of the features, and one at a time if that failed.
PART, ONE_BY_ONE = 0.05, 4
# Pairs less alike are not tried.
ALIKE = 0.5


class Merge:
    """Makes one feature of two that are alike."""

    name: ClassVar[str] = "merge"

    def proposals(
        self, method: MEIBPMethod, context: Context, state: MEIBPState
    ) -> Iterator[Proposal]:
        """Several pairs that have no feature in common, then the likeliest one at a time."""
        pairs = alike_pairs(state)
        several = disjoint(pairs, max(1, int(PART * state.n_components)))
        groups = [several] if len(several) > 1 else []
        for group in groups + [[(int(i), int(j))] for i, j in pairs[:ONE_BY_ONE]]:
            yield Proposal(merged(context, state, group), state.rows_with(np.ravel(group)))


def alike_pairs(state: MEIBPState) -> npt.NDArray[np.int64]:
    """Pairs of features by how alike their rows or their factors are, the most alike first."""
    similarity = np.maximum(code_correlations(state), factor_cosines(state))
    first, second = np.triu_indices(state.n_components, 1)
    order = np.argsort(-similarity[first, second], kind="stable")
    order = order[similarity[first, second][order] > ALIKE]
    return np.stack([first[order], second[order]], axis=1)


def code_correlations(state: MEIBPState) -> FloatArray:
    """Correlations of the columns of Z, from Z'Z where all columns of X are observed."""
    n = state.assignments.shape[0]
    if state.statistics.doubt is None:
        together = state.statistics.gram.max(axis=0, initial=0.0) / n
    else:  # whose sums are of weights
        bits = state.assignments.astype(np.float32)
        together = (bits.T @ bits).astype(np.float64) / n
    share = state.statistics.counts / n
    spread = np.sqrt(np.maximum(share * (1.0 - share), 1.0 / n**2))
    return np.asarray((together - np.outer(share, share)) / np.outer(spread, spread))


def factor_cosines(state: MEIBPState) -> FloatArray:
    """Cosines of the factors in units of the noise."""
    scaled = state.factors.mean / residual_unit(state)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled = scaled / np.where(norms > 0.0, norms, 1.0)
    return np.asarray(scaled @ scaled.T)


def merged(context: Context, state: MEIBPState, pairs: list[tuple[int, int]]) -> MEIBPState:
    """A state in which pairs are one feature: for the rows that had either, with their mean."""
    first, second = np.array(pairs).T
    keep = ~np.isin(np.arange(state.n_components), np.ravel(pairs))
    weight = state.statistics.counts.astype(np.float64)[:, None]
    share = weight[first] / (weight[first] + weight[second])
    location = share * state.factors.mean[first] + (1.0 - share) * state.factors.mean[second]
    scale = np.minimum(state.factors.scale[first], state.factors.scale[second])
    codes = state.derived_codes(either, first, second)
    return with_new_features(context, state, codes, NewFactors(location, scale), keep)


def either(
    z: npt.NDArray[np.uint8], first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Which rows have the first or the second of each pair of features."""
    return np.asarray(z[:, first] | z[:, second])
