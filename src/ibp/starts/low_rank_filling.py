"""What is missing, filled in from the directions above the noise edge.

Zeros or column means in place of missing entries would shrink the features, and where whole blocks
are missing would make features of their own. So the first directions come from moments over the
pairs of entries that are both observed; scores and loadings then take turns, each fitted to what
is observed and to what the other fills in. The filling is never made whole: it is kept as scores
and loadings, and multiplied out a piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ibp.starts.centred_matrix import AnyFloatArray, DenseMatrix, FloatArray, add_up, call
from ibp.starts.noise_edge import Noise, noise_edge, noise_level
from ibp.starts.principal_directions import EXACT_ORDER, falling_eigenvalues, leading_vectors

# Rounds of filling in what is missing: of the scores alone, then of all.
SCORE_ROUNDS = 4
FILL_ROUNDS = 20
FILL_TOLERANCE = 5e-3
# Moments from fewer pairs of entries are not used.
LEAST_PAIRS = 5
# Filling goes in stages: one takes the eigenvalues of at least this share of the largest.
STAGE_SHARE = 0.1
STAGE_ROUNDS = 5


def fill_missing(
    matrix: DenseMatrix,
    max_components: int,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
) -> Noise:
    """Set ``matrix.fill``; returns the noise, which looks smaller once the filling is in."""
    part = matrix
    if matrix.order > EXACT_ORDER:
        rows = np.sort(rng.permutation(matrix.n_rows)[: EXACT_ORDER // 2])
        part = DenseMatrix(matrix.entries[rows], matrix.executor)
    n_above, directions = fill_in_stages(part, max_components, should_stop)
    if directions.shape[1] > 0:
        settle(matrix, directions, FILL_ROUNDS, should_stop)
    return Noise(n_above, residual_variance(matrix))


def fill_in_stages(
    matrix: DenseMatrix, max_components: int, should_stop: Callable[[], bool]
) -> tuple[int, FloatArray]:
    """Fill from the strongest directions, then from the strongest of the residual, and so on.

    Moments are means over the rows (or columns) that have both entries. Each has other ones, so
    a strong direction leaves errors in them that look like weak directions; hence the stages.
    """
    weights = pair_weights(matrix)
    # The variances of the moments' errors go with the weights, and the noise edge with their norm.
    norm = float(falling_eigenvalues(weights)[0])
    edge = noise_edge(matrix, len(weights) / max(norm, 1.0))
    order, length = matrix.free_order, matrix.free_length
    directions = np.zeros((matrix.n_columns, 0))
    n_above, level_by_median = 0, None
    while n_above < order and not should_stop():
        moments = matrix.moments(matrix.residual)
        moments *= weights
        eigenvalues = falling_eigenvalues(moments)
        if level_by_median is None:
            level_by_median = noise_level(matrix, eigenvalues)
        # Signal or noise, all variance makes errors in the moments.
        free = (order - n_above) * (length - n_above)
        level = max(level_by_median, matrix.n_rows * eigenvalues.sum() / free)
        n_more = int((eigenvalues > max(edge * level, STAGE_SHARE * eigenvalues[0])).sum())
        n_above += n_more
        n_more = min(n_more, max_components - directions.shape[1])
        if n_more == 0:
            break
        vectors = leading_vectors(moments, n_more)
        if not matrix.is_tall:
            vectors = matrix.transposed_times(vectors, matrix.residual)
            vectors /= np.maximum(matrix.observed_share, 1.0 / matrix.n_rows)[:, None]
        directions = np.linalg.qr(np.hstack([directions, vectors]))[0]
        directions = settle(matrix, directions, STAGE_ROUNDS, should_stop)
    return n_above, directions


def pair_weights(matrix: DenseMatrix) -> FloatArray:
    """What turns moments over all rows (or columns) into means over those that have both entries.

    Zero for pairs that are hardly ever observed together.
    """

    def both_observed(part: slice) -> AnyFloatArray:
        values = matrix.entries[part] if matrix.is_tall else matrix.entries[:, part].T
        observed = (~np.isnan(values)).astype(np.float32)
        return observed.T @ observed

    length = max(matrix.n_rows, matrix.n_columns)
    shares = matrix.sum_along(both_observed) / length
    least = LEAST_PAIRS / length
    weights: FloatArray = 1.0 / np.maximum(shares, least)
    weights[shares < least] = 0.0
    return weights


def settle(
    matrix: DenseMatrix, directions: FloatArray, n_rounds: int, should_stop: Callable[[], bool]
) -> FloatArray:
    """Fill from the directions, then let them settle."""
    if matrix.fill is None or len(matrix.fill[1]) < directions.shape[1]:
        for _ in range(SCORE_ROUNDS):
            refill(matrix, directions, adapt=False)
    for _ in range(n_rounds):
        before, directions = directions, refill(matrix, directions, adapt=True)
        change = np.linalg.norm(directions - before @ (before.T @ directions))
        if change <= FILL_TOLERANCE * np.sqrt(directions.shape[1]) or should_stop():
            break
    return directions


def refill(matrix: DenseMatrix, directions: FloatArray, *, adapt: bool) -> FloatArray:
    """Replace the filling and the mean by better ones; returns the filling's directions.

    Its scores are those of the present filling; its loadings are the directions or, to
    ``adapt``, those that fit the scores best.
    """
    narrow = directions.astype(matrix.entries.dtype)

    def piece(rows: slice) -> tuple[AnyFloatArray, AnyFloatArray, FloatArray]:
        block = matrix.block(rows)
        scores = block @ narrow
        product = block.T @ scores if adapt else np.zeros(0)
        return scores, product, block.sum(axis=0, dtype=np.float64)

    pieces = matrix.executor.map(call, piece, matrix.rows)
    score_pieces, products, sums = zip(*pieces, strict=True)
    scores = np.concatenate(score_pieces)
    shift = add_up(sums, matrix.n_columns) / matrix.n_rows
    centre = scores.mean(axis=0, dtype=np.float64)
    scores -= centre.astype(scores.dtype)
    matrix.mean = matrix.mean + shift.astype(matrix.mean.dtype)
    loadings = directions.T
    if adapt:
        product = add_up(products, *directions.shape) - matrix.n_rows * np.outer(shift, centre)
        wide = scores.astype(np.float64, copy=False)
        loadings = np.linalg.lstsq(wide.T @ wide, product.T, rcond=None)[0]
        directions = np.linalg.qr(loadings.T)[0]
    matrix.fill = scores, loadings.astype(matrix.entries.dtype)
    return directions


def residual_variance(matrix: DenseMatrix) -> float:
    """Variance of the observed entries about the filling, less its degrees of freedom."""

    def piece(rows: slice) -> float:
        residual = matrix.residual(rows)
        residual *= residual
        return float(np.sum(residual, dtype=np.float64))

    squares = sum(matrix.executor.map(call, piece, matrix.rows))
    n_observed = matrix.observed_share.sum() * matrix.n_rows
    rank = 0 if matrix.fill is None else matrix.fill[0].shape[1]
    free = n_observed - matrix.n_columns - rank * (matrix.n_rows + matrix.n_columns - rank)
    return float(squares / max(free, 0.1 * n_observed, 1.0))
