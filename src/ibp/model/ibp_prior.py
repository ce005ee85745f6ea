"""The Indian Buffet Process prior on binary matrices, for both equivalence classes.

    P([Z]) = alpha^K+ exp(-alpha H_N) / c(Z)  prod over k of (N - m_k)! (m_k - 1)! / N!      (Eq. 1)

with c(Z) = K+! for the classes of "shifted" matrices (equal up to the place of empty columns) and
c(Z) = prod over column histories h of K_h! for those of left-ordered form ("lof", equal up to the
order of all columns).
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

FloatArray = npt.NDArray[np.float64]
Prior = Literal["shifted", "lof"]


def harmonic_number(n: int) -> float:
    """H_n = 1 + 1/2 + ... + 1/n."""
    return float(digamma(n + 1.0) - digamma(1.0))


def column_multiplicities(assignments: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """K_h: how often each distinct nonempty column occurs."""
    used = assignments[:, assignments.any(axis=0)]
    if used.shape[1] == 0:
        return np.zeros(0, dtype=np.int64)
    packed = np.packbits(used.T != 0, axis=1)
    return np.array(list(Counter(column.tobytes() for column in packed).values()), dtype=np.int64)


def log_class_size(
    n_active: int, prior: Prior, multiplicities: npt.NDArray[np.int64] | None = None
) -> float:
    """ln c(Z): ln K+! for shifted classes, the sum of ln K_h! for left-ordered ones."""
    if prior == "shifted":
        return float(gammaln(n_active + 1.0))
    if multiplicities is None:
        raise ValueError("the left-ordered form needs the multiplicities of the columns")
    return float(gammaln(multiplicities + 1.0).sum())


def log_prior(
    counts: npt.NDArray[np.int64],
    n_samples: int,
    *,
    alpha: float,
    log_alpha: float | None = None,
    prior: Prior = "shifted",
    multiplicities: npt.NDArray[np.int64] | None = None,
) -> float:
    """Ln P([Z]) from the column sums.

    ``alpha`` and ``log_alpha`` are expectations; without the second, alpha is known. Columns with
    no one are inactive and contribute nothing.
    """
    if log_alpha is None:
        log_alpha = float(np.log(alpha))
    active = counts[counts > 0].astype(np.float64)
    per_feature = gammaln(n_samples - active + 1.0) + gammaln(active) - gammaln(n_samples + 1.0)
    return float(
        active.size * log_alpha
        - alpha * harmonic_number(n_samples)
        - log_class_size(active.size, prior, multiplicities)
        + per_feature.sum()
    )


def tangent_log_odds(counts: npt.NDArray[np.int64], n_samples: int) -> FloatArray:
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
