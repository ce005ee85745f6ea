"""Which eigenvalues of the covariance are above those that noise alone would have.

The eigenvalues of pure noise fill an interval whose ends depend on its variance and on the shape
of the matrix only (Marchenko and Pastur), so that a direction beyond its upper end, the edge, is
signal: no number of features has to be tried out. In finite matrices the largest
eigenvalue of noise varies about the edge as Tracy and Widom say, hence the margin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ibp.starts.centred_matrix import CentredMatrix, DenseMatrix, FloatArray

# An eigenvalue is signal if it is above the edge by this share of it and by this many units of
# the largest noise eigenvalue's spread (Tracy-Widom: one in a thousand lies further out).
EDGE_SLACK = 0.02
EDGE_SPREADS = 3.27
# Eigenvalues below this share of the largest are taken for rounding.
RELATIVE_ROUNDING = 1e-6


class Noise(NamedTuple):
    """How many eigenvalues are above the noise edge, and the variance of the noise."""

    n_above: int
    variance: float


def noise_level(matrix: DenseMatrix, eigenvalues: FloatArray) -> float:
    """Variance of the noise if half of the eigenvalues (falling) of X'X/n are noise.

    Their median is compared to that of noise of variance one (Marchenko and Pastur).
    """
    order, length = matrix.free_order, matrix.free_length
    angles = (np.arange(1000) + 0.5) * np.pi / 1000
    places = 1.0 + order / length + 2.0 * np.sqrt(order / length) * np.cos(angles[::-1])
    weights = np.cumsum(np.sin(angles[::-1]) ** 2 / places)
    median = places[np.searchsorted(weights, 0.5 * weights[-1])]
    scale = matrix.n_rows / length
    return float(scale * max(eigenvalues[order // 2], 0.0) / median)


def noise_edge(matrix: DenseMatrix, share: float = 1.0) -> float:
    """Where the eigenvalues of X'X/n end for noise of variance one, and a little further.

    Each moment may be from a share of the rows (or columns) only.
    """
    order, length = matrix.free_order, share * matrix.free_length
    long, short = np.sqrt(length), np.sqrt(order)
    edge = (1.0 + short / long) ** 2
    spread = (long + short) * (1.0 / long + 1.0 / short) ** (1.0 / 3.0) / length
    edge = max((1.0 + EDGE_SLACK) * edge, edge + EDGE_SPREADS * spread)
    return float(edge * matrix.free_length / matrix.n_rows)


def noise_below(matrix: CentredMatrix, eigenvalues: FloatArray, edge: float) -> Noise:
    """Count the eigenvalues (falling) above the edge; the others add up to the noise."""
    order, length = matrix.free_order, matrix.free_length
    limit = max(edge, RELATIVE_ROUNDING * eigenvalues[0])
    n_above = min(int((eigenvalues > limit).sum()), order)
    rest = max(matrix.sum_of_squares - matrix.n_rows * eigenvalues[:n_above].sum(), 0.0)
    return Noise(n_above, rest / max((order - n_above) * (length - n_above), 1))
