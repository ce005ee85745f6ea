"""The Indian Buffet Process prior on binary matrices, for both equivalence classes.

    P([Z]) = alpha^K+ exp(-alpha H_N) / c(Z)  prod over k of (N - m_k)! (m_k - 1)! / N!      (Eq. 1)

with c(Z) = K+! for the classes of "shifted" matrices (equal up to the place of empty columns) and
c(Z) = prod over column histories h of K_h! for those of left-ordered form ("lof", equal up to the
order of all columns).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
# Per column of Z a small number, as `column_names` gives them, or a row of numbers of any kind,
# such as hashes: the same for equal columns.
ColumnNames = npt.NDArray[Any]


def harmonic_number(n: int) -> float:
    """H_n = 1 + 1/2 + ... + 1/n."""
    return float(digamma(n + 1.0) - digamma(1.0))


def log_count_term(counts: IntArray, n_samples: int) -> FloatArray:
    """Ln (N - m)! (m - 1)! / N! of each feature in use."""
    m = counts.astype(np.float64)
    return np.asarray(gammaln(n_samples - m + 1.0) + gammaln(m) - gammaln(n_samples + 1.0))


def column_names(assignments: npt.NDArray[np.uint8]) -> IntArray:
    """Number the distinct columns of Z in the order in which they first occur."""
    numbers: dict[bytes, int] = {}
    packed = np.packbits(assignments.T != 0, axis=1)
    return np.array([numbers.setdefault(c.tobytes(), len(numbers)) for c in packed], dtype=np.int64)


@dataclass(frozen=True)
class EquivalenceClasses(ABC):
    """Which binary matrices the prior counts as one, and what follows from their number c(Z).

    ``columns`` tell which columns of Z are equal: `column_names`, hashes, or the rows of Z'.
    """

    left_ordered: ClassVar[bool]

    @abstractmethod
    def log_size(self, n_active: int, columns: ColumnNames | None) -> float:
        """Ln c(Z) of a matrix without empty columns."""

    @abstractmethod
    def log_removal(self, n_active: int, columns: ColumnNames | None) -> FloatArray:
        """By how much ln c(Z) falls if a column is taken away, for each or one for all."""

    @abstractmethod
    def row_groups(self, others: npt.NDArray[np.uint8]) -> tuple[IntArray, FloatArray]:
        """Groups and values of -ln c(Z) as a function of a row, given the other rows."""

    def log_prior(
        self,
        counts: IntArray,
        n_samples: int,
        *,
        alpha: float,
        log_alpha: float | None = None,
        columns: ColumnNames | None = None,
    ) -> float:
        """Ln P([Z]) from the column sums (Eq. 1).

        ``alpha`` and ``log_alpha`` are expectations; without the second, alpha is known. Columns
        with no one are inactive and contribute nothing.
        """
        if log_alpha is None:
            log_alpha = float(np.log(alpha))
        active = counts > 0
        n_active = int(active.sum())
        return float(
            n_active * log_alpha
            - alpha * harmonic_number(n_samples)
            - self.log_size(n_active, None if columns is None else columns[active])
            + log_count_term(counts[active], n_samples).sum()
        )

    def log_probability(self, assignments: npt.NDArray[np.uint8], alpha: float) -> float:
        """Ln P([Z]) of the class of a matrix."""
        counts = np.count_nonzero(assignments, axis=0)
        names = column_names(assignments)
        return self.log_prior(counts, assignments.shape[0], alpha=alpha, columns=names)


@dataclass(frozen=True)
class ShiftedClasses(EquivalenceClasses):
    """Matrices are one if they are equal up to the place of empty columns: c(Z) = K+!."""

    left_ordered: ClassVar[bool] = False

    def log_size(self, n_active: int, columns: ColumnNames | None = None) -> float:
        """Ln K+!."""
        return float(gammaln(n_active + 1.0))

    def log_removal(self, n_active: int, columns: ColumnNames | None = None) -> FloatArray:
        """Ln K+."""
        return np.log(np.asarray(n_active, dtype=np.float64))

    def row_groups(self, others: npt.NDArray[np.uint8]) -> tuple[IntArray, FloatArray]:
        """The features that nobody else has, t chosen: -ln (K+ without the row + t)!."""
        from ibp.submodular.problem import NO_GROUP  # loads the compiler, which estimators do not

        new = np.asarray(~others.any(axis=0))
        t = np.arange(new.size + 1)
        return np.where(new, 0, NO_GROUP), -gammaln(new.size - new.sum() + t + 1.0)[None, :]


@dataclass(frozen=True)
class LeftOrderedClasses(EquivalenceClasses):
    """Matrices are one if they are equal up to the order of all columns: c(Z) = prod of K_h!."""

    left_ordered: ClassVar[bool] = True

    def log_size(self, n_active: int, columns: ColumnNames | None) -> float:
        """The sum of ln K_h! over the distinct columns h."""
        return float(gammaln(self.multiplicities(columns)[0] + 1.0).sum())

    def log_removal(self, n_active: int, columns: ColumnNames | None) -> FloatArray:
        """Ln of the number of columns equal to each."""
        return np.log(self.multiplicities(columns)[1].astype(np.float64))

    def multiplicities(self, columns: ColumnNames | None) -> tuple[IntArray, IntArray]:
        """K_h of the distinct columns, and for each column the number of those equal to it."""
        if columns is None:
            raise ValueError("the left-ordered form needs to know which columns are equal")
        if columns.ndim == 1:
            counts = np.bincount(columns)  # zeros among them add nothing to the sum of ln K_h!
            return counts, counts[columns]
        _, inverse, counts = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
        return counts, counts[inverse.ravel()]

    def row_groups(self, others: npt.NDArray[np.uint8]) -> tuple[IntArray, FloatArray]:
        """Columns equal in the other rows form a group of c.

        t chosen split it into t and c - t equal columns: -ln t! - ln (c - t)!. Those nobody else
        has are inactive unless chosen: -ln t! alone.
        """
        group = column_names(others)
        new = np.asarray(~others.any(axis=0))
        sizes = np.bincount(group)
        group_values = np.zeros((sizes.size, group.size + 1))
        for g, c in enumerate(sizes):
            t = np.arange(c + 1.0)
            group_values[g, : c + 1] = -gammaln(t + 1.0)
            if not new[group == g][0]:
                group_values[g, : c + 1] -= gammaln(c - t + 1.0)
        return group, group_values


SHIFTED = ShiftedClasses()
LEFT_ORDERED = LeftOrderedClasses()
# By the names that users have for them.
EQUIVALENCE_CLASSES: dict[str, EquivalenceClasses] = {"shifted": SHIFTED, "lof": LEFT_ORDERED}


def tangent_log_odds(counts: IntArray, n_samples: int) -> FloatArray:
    """Slope at m of g(m) = ln (N - m)! + ln (m - 1)!, the count term of a feature in use.

    g is convex, so that rows optimised together against g(m) + slope (m' - m) cannot lower it:
    digamma(m) - digamma(N - m + 1), one number per feature for all rows of a block.
    """
    m = counts.astype(np.float64)
    return np.asarray(digamma(m) - digamma(n_samples - m + 1.0))


def sample_assignments(
    alpha: float, n_samples: int, random_state: np.random.Generator | int | None = None
) -> npt.NDArray[np.uint8]:
    """Draw a binary matrix from the process: customers, dishes and all.

    Returns
    -------
    ndarray of shape (n_samples, K+), uint8
        Columns in the order in which they were first taken; none is empty.
    """
    if not alpha > 0:
        raise ValueError(f"alpha must be positive; it is {alpha}")
    if n_samples < 0:
        raise ValueError(f"n_samples must not be negative; it is {n_samples}")
    rng = np.random.default_rng(random_state)
    new_dishes = rng.poisson(alpha / np.arange(1, n_samples + 1))
    assignments = np.zeros((n_samples, int(new_dishes.sum())), dtype=np.uint8)
    counts = np.zeros(assignments.shape[1], dtype=np.int64)
    known = 0
    for n in range(n_samples):
        row = assignments[n]
        row[:known] = rng.random(known) < counts[:known] / (n + 1)
        row[known : known + new_dishes[n]] = 1
        known += int(new_dishes[n])
        counts += row
    return assignments
