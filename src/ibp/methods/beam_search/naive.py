"""Children of a beam scored as the paper does: each from scratch, by algebra with N x N matrices.

For the study of complexity, and to test the quick scores. The row's columns are Gaussian with
covariance C = noise_variance I + Z diag(prior variances) Z', so that with the rows so far

    ln p(X | Z) = -n D / 2 ln 2 pi - D / 2 ln |C| - tr(X' C^-1 X) / 2 ,

in O(n^3 + n^2 D) for each of the 2^K subsets and every number of new features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, product

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular

from ibp.model.hyperparameters import HyperparameterValues
from ibp.model.ibp_prior import LEFT_ORDERED

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.uint8]


def dense_log_joint(
    rows: FloatArray,
    observed: npt.NDArray[np.bool_],
    group_start: IntArray,
    assignments: CodeArray,
    values: HyperparameterValues,
    intercept_std: float | None,
) -> float:
    """The score of a hypothesis about the rows so far: ln P([Z]) + ln p(X | Z)."""
    log_likelihood = 0.0
    z = assignments.astype(np.float64)
    covariance = z @ z.T / values.factor_precision
    if intercept_std is not None:
        covariance += intercept_std**2
    covariance[np.diag_indices(len(z))] += 1.0 / values.noise_precision
    for g in range(observed.shape[1]):
        seen = observed[:, g]
        x = rows[seen, group_start[g] : group_start[g + 1]]
        factor = cholesky(covariance[np.ix_(seen, seen)], lower=True)
        whitened = solve_triangular(factor, x, lower=True)
        log_determinant = 2.0 * np.log(np.diag(factor)).sum()
        log_likelihood -= 0.5 * (x.size * np.log(2.0 * np.pi) + x.shape[1] * log_determinant)
        log_likelihood -= 0.5 * float((whitened**2).sum())
    return LEFT_ORDERED.log_probability(assignments, values.alpha) + log_likelihood


def sets_of_features(assignments: CodeArray) -> Iterator[CodeArray]:
    """All sets of features that the next row may take, the first ones of those that are equal."""
    columns = groupby(column.tobytes() for column in assignments.T)
    sizes = [len(list(equal)) for _, equal in columns]
    for taken in product(*(range(size + 1) for size in sizes)):
        parts = [np.arange(size) < n for size, n in zip(sizes, taken, strict=True)]
        yield np.concatenate([np.zeros(0, dtype=np.bool_), *parts]).astype(np.uint8)


def extended(assignments: CodeArray, taken: CodeArray, n_new: int) -> CodeArray:
    """Z with one more row, which has new features of its own."""
    n_samples, k = assignments.shape
    child = np.zeros((n_samples + 1, k + n_new), dtype=np.uint8)
    child[:n_samples, :k] = assignments
    child[n_samples, :k] = taken
    child[n_samples, k:] = 1
    return child


def naive_children(
    parents: Sequence[CodeArray],
    rows: FloatArray,
    observed: npt.NDArray[np.bool_],
    group_start: IntArray,
    values: HyperparameterValues,
    intercept_std: float | None,
    log_new: FloatArray,
    beam_width: int | None,
    n_components: int | None,
    floor: float,
) -> tuple[FloatArray, IntArray, IntArray, CodeArray]:
    """Scores, parents, numbers of new features and codes of the best children.

    ``rows`` include the one to be placed, their last.
    """
    room = max((z.shape[1] for z in parents), default=0)
    scores, born = [], []
    for number, parent in enumerate(parents):
        most_new = log_new.size - 1
        if n_components is not None:
            most_new = min(most_new, n_components - parent.shape[1])
        for taken in sets_of_features(parent):
            for n_new in range(most_new + 1):
                child = extended(parent, taken, n_new)
                score = dense_log_joint(rows, observed, group_start, child, values, intercept_std)
                if score > floor:
                    scores.append(score)
                    born.append((number, n_new, np.pad(taken, (0, room - taken.size))))
    best = np.argsort(-np.array(scores), kind="stable")[:beam_width]
    codes = np.zeros((best.size, room), dtype=np.uint8)
    for i, child_number in enumerate(best):
        codes[i] = born[child_number][2]
    return (
        np.array(scores)[best],
        np.array([born[i][0] for i in best], dtype=np.int64),
        np.array([born[i][1] for i in best], dtype=np.int64),
        codes,
    )
