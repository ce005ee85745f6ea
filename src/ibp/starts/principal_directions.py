"""The leading directions of the centred data, as many as are asked for or stand out of the noise.

Moment matrices of moderate order are decomposed exactly, because their middle eigenvalues tell the
level of the noise. Larger ones, and sparse data, whose moments would be dense, go through subspace
iteration; their noise is then seen in a part of the columns, or in shuffled columns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from ibp.starts.centred_matrix import CentredMatrix, DenseMatrix, FloatArray, SparseMatrix
from ibp.starts.noise_edge import (
    EDGE_SLACK,
    RELATIVE_ROUNDING,
    Noise,
    noise_below,
    noise_edge,
    noise_level,
)

# Moment matrices up to this order are decomposed exactly, larger ones by subspace iteration.
EXACT_ORDER = 2000
OVERSAMPLING = 20
SUBSPACE_ROUNDS = 8
# A subspace has settled when its eigenvalues grow by less than this share in a round.
SUBSPACE_TOLERANCE = 3e-3


def principal_directions(
    matrix: CentredMatrix,
    n_components: int | None,
    bound: int,
    noise: Noise | None,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
) -> tuple[FloatArray, Noise]:
    """Orthonormal directions (D, k), in no particular order, and the noise.

    As many directions as are asked for, None for those above the noise edge, but at most ``bound``.
    What is missing in the matrix has been filled in; ``noise`` is None if it is still to be judged.
    """
    if isinstance(matrix, DenseMatrix) and matrix.order <= EXACT_ORDER:
        return exact_directions(matrix, n_components, bound, noise)
    return iterated_directions(matrix, n_components, bound, noise, rng, should_stop)


def exact_directions(
    matrix: DenseMatrix, n_components: int | None, bound: int, noise: Noise | None
) -> tuple[FloatArray, Noise]:
    """The directions of a matrix that is small enough, by decomposing its moments."""
    moments = matrix.moments(matrix.block)
    if noise is None:
        eigenvalues = falling_eigenvalues(moments)
        edge = noise_edge(matrix) * noise_level(matrix, eigenvalues)
        noise = noise_below(matrix, eigenvalues, edge)
    vectors = leading_vectors(moments, how_many(n_components, bound, noise))
    if not matrix.is_tall:
        vectors = orthonormal(matrix.transposed_times(vectors))[0]
    return vectors, noise


def iterated_directions(
    matrix: CentredMatrix,
    n_components: int | None,
    bound: int,
    noise: Noise | None,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
) -> tuple[FloatArray, Noise]:
    """The directions of a matrix that is too large for that, or sparse, by iteration."""
    directions, eigenvalues = iterated_subspace(matrix, bound, rng, should_stop)
    if noise is None:
        if isinstance(matrix, SparseMatrix):
            # Columns differ too much in their noise for one level: see it without the signal.
            shuffled = matrix.with_shuffled_columns(rng)
            edge = (1.0 + EDGE_SLACK) * iterated_subspace(shuffled, 1, rng, should_stop)[1][0]
        else:
            columns = np.sort(rng.permutation(matrix.n_columns)[: EXACT_ORDER // 2])
            part = DenseMatrix(matrix.entries[:, columns], matrix.executor)
            level = noise_level(part, falling_eigenvalues(part.moments(part.block)))
            edge = noise_edge(matrix) * level
        noise = noise_below(matrix, eigenvalues, float(edge))
    return directions[:, : how_many(n_components, bound, noise)], noise


def how_many(n_components: int | None, bound: int, noise: Noise) -> int:
    """How many directions to keep."""
    return min(noise.n_above if n_components is None else n_components, bound)


def iterated_subspace(
    matrix: CentredMatrix, n_leading: int, rng: np.random.Generator, should_stop: Callable[[], bool]
) -> tuple[FloatArray, FloatArray]:
    """Directions, strongest first, and eigenvalues, by subspace iteration from a random start."""
    width = min(n_leading + OVERSAMPLING, matrix.n_rows, matrix.n_columns)
    # The basis is of the shorter side, where it is cheaper to keep orthogonal.
    by_columns = matrix.n_columns <= matrix.n_rows
    shorter = matrix.n_columns if by_columns else matrix.n_rows
    basis = orthonormal(rng.standard_normal((shorter, width)))[0]
    eigenvalues = np.zeros(width)
    for _ in range(SUBSPACE_ROUNDS):
        if by_columns:
            product = matrix.transposed_times(matrix.times(basis))
        else:
            product = matrix.times(matrix.transposed_times(basis)).astype(np.float64, copy=False)
        before = eigenvalues
        basis, lengths = orthonormal(product)
        eigenvalues = lengths / matrix.n_rows
        change = np.abs(eigenvalues - before)[:n_leading].sum()
        if change <= SUBSPACE_TOLERANCE * eigenvalues[:n_leading].sum() or should_stop():
            break
    return (basis if by_columns else orthonormal(matrix.transposed_times(basis))[0]), eigenvalues


def orthonormal(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Left singular vectors and singular values, by way of the small matrix of products."""
    squares, rotation = np.linalg.eigh(columns.T @ columns)
    lengths = np.sqrt(np.maximum(squares[::-1], 0.0))
    floor = max(RELATIVE_ROUNDING * lengths.max(initial=0.0), np.finfo(np.float64).tiny)
    return columns @ (rotation[:, ::-1] / np.maximum(lengths, floor)), lengths


def falling_eigenvalues(moments: FloatArray) -> FloatArray:
    """All eigenvalues, largest first."""
    return np.asarray(scipy.linalg.eigvalsh(moments)[::-1], dtype=np.float64)


def leading_vectors(moments: FloatArray, n_leading: int) -> FloatArray:
    """Eigenvectors of the largest eigenvalues, largest last."""
    order = len(moments)
    if n_leading == 0:
        return np.zeros((order, 0))
    index = [order - n_leading, order - 1]
    return np.asarray(scipy.linalg.eigh(moments, subset_by_index=index)[1], dtype=np.float64)
