"""The problem of one row, as figures 1 and 2 pose it, and two searches of many rows.

F(z) = w'z - z'Wz / 2 with W = A A' / noise_std^2 and w = A x / noise_std^2 plus the log-odds of the
counts: the paper's objective of a row with the factors known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.compiled import kernel
from ibp.submodular.brute_force import brute_force
from ibp.submodular.exact import nearest_plane, prepare, solve_for_target, target_of
from ibp.submodular.records import Terms, space_for_preparation, space_for_search

FloatArray = npt.NDArray[np.float64]


class RowProblems(NamedTuple):
    """Problems of many rows, with the sets that the rows were made of."""

    linear: FloatArray
    quadratic: FloatArray
    true: npt.NDArray[np.uint8]

    def values(self, chosen: npt.NDArray[np.generic]) -> FloatArray:
        """F of a set for each row."""
        z = chosen.astype(np.float64)
        return np.einsum("nk,nk->n", self.linear - 0.5 * z @ self.quadratic, z)


def draw_factors(
    n_components: int, n_features: int, rng: np.random.Generator, *, scale: float = 1.0
) -> FloatArray:
    """Half-normal factors of a data set."""
    return np.abs(rng.normal(0.0, scale, size=(n_components, n_features)))


def draw_problems(
    assignments: npt.NDArray[np.bool_], factors: FloatArray, rng: np.random.Generator
) -> RowProblems:
    """Rows of the nonnegative linear-Gaussian model in unit noise."""
    n_rows = len(assignments)
    data = assignments @ factors + rng.normal(size=(n_rows, factors.shape[1]))
    # Of the other rows, with half a row on either side, so that no count is none or all.
    counts = assignments.sum(axis=0) - assignments + 0.5
    log_odds = np.log(counts) - np.log(n_rows - counts)
    return RowProblems(
        data @ factors.T + log_odds, factors @ factors.T, assignments.astype(np.uint8)
    )


@kernel
def extremes(linear, quadratic):
    """The largest and the smallest value of F of each row, by trying all sets."""
    n_rows, n = linear.shape
    group = np.full(n, -1, dtype=np.int64)
    group_values = np.empty((0, 1))
    chosen = np.empty(n, dtype=np.uint8)
    highest, lowest = np.empty(n_rows), np.empty(n_rows)
    for row in range(n_rows):
        terms = Terms(linear[row], quadratic, group, group_values)
        highest[row], lowest[row] = brute_force(terms, chosen)
    return highest, lowest


@kernel
def nearest_planes(linear, quadratic):
    """The set that the exact search comes upon first, of each row."""
    n_rows, n = linear.shape
    prepared = space_for_preparation(n)
    space = space_for_search(n, 0)
    prepare(quadratic, prepared)
    chosen = np.empty((n_rows, n), dtype=np.uint8)
    for row in range(n_rows):
        solve_for_target(linear[row], prepared, target_of(space, n))
        nearest_plane(prepared, chosen[row], space)
    return chosen
