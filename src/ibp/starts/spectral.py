"""The spectral start: assignments from the principal subspace, without any model.

In X = 1b' + ZA + noise the columns of Z are independent two-valued sources and A mixes them. So
the leading principal components span the features, independent component analysis turns them into
one score per feature, and every score has two modes: off and on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from ibp.parallel import Workers, ranges

FloatArray: TypeAlias = npt.NDArray[np.float64]
AnyFloatArray: TypeAlias = npt.NDArray[np.floating[Any]]

# Rows or columns in a piece of a product: fixed, so that no sum depends on the number of threads.
CHUNK = 2048
EVERYTHING = slice(None)
# Beyond it, or below its inverse, squares need double precision.
WIDE_RANGE = 1e12
# Moment matrices up to this order are decomposed exactly, larger ones by subspace iteration.
EXACT_ORDER = 2000
OVERSAMPLING = 20
SUBSPACE_ROUNDS = 8
# An eigenvalue is signal if it is above the noise edge by this share of it and by this many units
# of the largest noise eigenvalue's spread (Tracy-Widom: one in a thousand lies further out).
EDGE_SLACK = 0.02
EDGE_SPREADS = 3.27
# Eigenvalues below this share of the largest are taken for rounding.
RELATIVE_ROUNDING = 1e-6
# A subspace has settled when its eigenvalues grow by less than this share in a round.
SUBSPACE_TOLERANCE = 3e-3
# Rounds of filling in what is missing: of the scores alone, then of all.
SCORE_ROUNDS = 4
FILL_ROUNDS = 20
FILL_TOLERANCE = 5e-3
# Moments from fewer pairs of entries are not used.
LEAST_PAIRS = 5
# Filling goes in stages: one takes the eigenvalues of at least this share of the largest.
STAGE_SHARE = 0.1
STAGE_ROUNDS = 5
# Rounds of independent component analysis; fewer where they would take more multiplications.
ROTATION_ROUNDS = 100
ROTATION_WORK = 1e11
ROTATION_TOLERANCE = 1e-5
# Weight of the even contrast, and size of the nudge off a saddle point.
EVEN_WEIGHT = 4.0
DISTURBANCE = 0.3
# The two modes of a score are fitted to so many of its quantiles.
N_QUANTILES = 1000
MODE_ROUNDS = 25
LEAST_VARIANCE = 1e-9
# Modes so many deviations apart are believed. Lower finds weaker rare features, but in real data
# takes the tails of skewed scores for features (digits: 4 explains 58%, 3 54%, two means 60%).
CLEAR_DISTANCE = 4.0


def never() -> bool:
    """Do not stop."""
    return False


@dataclass(frozen=True)
class SpectralCodes:
    """Assignments from the principal subspace, strongest feature first.

    Attributes
    ----------
    assignments : ndarray of shape (n, K), uint8
        No column is constant and no two are equal or opposite: such components are left out, so
        there may be fewer than were asked for.
    separation : ndarray of shape (K,)
        Share of the variance of a feature's scores that its two modes explain: 1 for a noiseless
        feature. Cutting a Gaussian in halves explains 2/pi = 0.637, so that a balanced feature
        below this is doubtful; one that few rows have may be sound with much less.
    noise_std : float
        Standard deviation of what the directions above the noise edge leave unexplained.
    n_above_edge : int
        Eigenvalues of the covariance above the noise edge, before any bound.
    """

    assignments: npt.NDArray[np.uint8]
    separation: FloatArray
    noise_std: float
    n_above_edge: int


def spectral_codes(
    values: AnyFloatArray | scipy.sparse.csr_array,
    n_components: int | None,
    *,
    max_components: int,
    rng: np.random.Generator,
    workers: Workers,
    should_stop: Callable[[], bool] = never,
) -> SpectralCodes:
    """Find two-valued features by principal and independent component analysis.

    Run it with BLAS held to a single thread; the answer is then the same for any number of workers.

    Parameters
    ----------
    values : ndarray or csr_array of shape (n, D)
        NaN is missing. Entries that a sparse array does not store are observed zeros; it is never
        made dense, and a NaN stored in it counts as the mean of its column.
    n_components : int or None
        Features to look for, as far as the data vary in so many directions; None for the number
        of eigenvalues above the noise edge, which may be zero.
    max_components : int
        Bound on the number of features if ``n_components`` is None.
    rng : Generator
        Source of all randomness.
    workers : Workers
        Threads for the large products.
    should_stop : callable
        Asked between rounds; once it says True the remaining rounds are left out.

    Returns
    -------
    SpectralCodes
    """
    matrix = _matrix_of(values, workers)
    bound = max_components if n_components is None else n_components
    bound = min(bound, matrix.free_order)
    if bound < 1:
        return _no_features(matrix, _Noise(0, 0.0))
    noise = None
    if isinstance(matrix, _DenseMatrix) and matrix.has_missing:
        # Filled in, the data look less noisy than they are: the noise is judged here.
        noise = _fill_missing(matrix, max(bound, max_components), rng, should_stop)
    if isinstance(matrix, _DenseMatrix) and matrix.order <= EXACT_ORDER:
        directions, noise = _exact_directions(matrix, n_components, bound, noise)
    else:
        directions, noise = _iterated_directions(
            matrix, n_components, bound, noise, rng, should_stop
        )
    if directions.shape[1] == 0:
        return _no_features(matrix, noise)

    scores, loadings = _whitened(matrix, directions)
    codes, separation = _two_valued(scores, rng, workers, should_stop)
    kept = _distinct_columns(codes)
    codes, separation = codes[:, kept], separation[kept]
    codes, strength = _oriented(codes, scores, loadings)
    order = np.argsort(-strength, kind="stable")
    return SpectralCodes(
        np.ascontiguousarray(codes[:, order]),
        separation[order],
        float(np.sqrt(noise.variance)),
        noise.n_above,
    )


class _Noise(NamedTuple):
    """How many eigenvalues are above the noise edge, and the variance of the noise."""

    n_above: int
    variance: float


def _no_features(matrix: _DenseMatrix | _SparseMatrix, noise: _Noise) -> SpectralCodes:
    codes = np.zeros((matrix.n_rows, 0), dtype=np.uint8)
    return SpectralCodes(codes, np.zeros(0), float(np.sqrt(noise.variance)), noise.n_above)


# The data, centred, as something to multiply with.


class _DenseMatrix:
    """Rows less the column means; what is missing is zero there, or ``fill[0] @ fill[1]``."""

    def __init__(self, values: AnyFloatArray, workers: Workers) -> None:
        self.values = values
        self.workers = workers
        self.fill: tuple[AnyFloatArray, AnyFloatArray] | None = None
        self.n_rows, self.n_columns = values.shape
        self.is_tall = self.n_columns <= self.n_rows
        self.order = min(values.shape)
        self.rows = ranges(self.n_rows, CHUNK)
        observed = self.sum_over_rows(lambda rows: (~np.isnan(values[rows])).sum(axis=0))
        self.has_missing = bool((observed < self.n_rows).any())
        add = np.nansum if self.has_missing else np.sum
        sums = self.sum_over_rows(lambda rows: add(values[rows], axis=0, dtype=np.float64))
        self.mean = (sums / np.maximum(observed, 1)).astype(values.dtype)
        self.observed_share = observed / self.n_rows
        squares = self.sum_over_rows(lambda rows: _column_squares(self.block(rows)))
        self.sum_of_squares = float(squares.sum())
        n_varying = _count_varying(squares, self.mean, self.n_rows)
        self.free_order, self.free_length = sorted((self.n_rows - 1, n_varying))

    def sum_over_rows(self, work: Callable[[slice], Any]) -> Any:
        """Sum of the pieces, in order."""
        return sum(self.workers.map(work, self.rows))

    def block(self, rows: slice, columns: slice = EVERYTHING) -> AnyFloatArray:
        """Part of the centred matrix."""
        part: AnyFloatArray = self.values[rows, columns] - self.mean[columns]
        if self.has_missing:
            np.copyto(part, self._filling(rows, columns), where=np.isnan(part))
        return part

    def residual(self, rows: slice, columns: slice = EVERYTHING) -> AnyFloatArray:
        """Part of what is observed less what would be filled in there; zero where missing."""
        part: AnyFloatArray = self.values[rows, columns] - self.mean[columns]
        part -= self._filling(rows, columns)
        np.copyto(part, 0.0, where=np.isnan(part))
        return part

    def _filling(self, rows: slice, columns: slice) -> AnyFloatArray | float:
        return 0.0 if self.fill is None else self.fill[0][rows] @ self.fill[1][:, columns]

    def times(self, right: FloatArray) -> AnyFloatArray:
        """The matrix times (D, k)."""
        right = right.astype(self.values.dtype, copy=False)
        return np.concatenate(list(self.workers.map(lambda r: self.block(r) @ right, self.rows)))

    def transposed_times(
        self, left: AnyFloatArray, block: Callable[[slice], AnyFloatArray] | None = None
    ) -> FloatArray:
        """The transpose times (n, k)."""
        left = left.astype(self.values.dtype, copy=False)
        block = self.block if block is None else block
        return np.asarray(self.sum_over_rows(lambda r: (block(r).T @ left[r]).astype(np.float64)))

    def moments(self, block: Callable[[slice, slice], AnyFloatArray]) -> FloatArray:
        """X'X/n, or XX'/n if that is smaller, where X is made of ``block`` or ``residual``."""

        def product(part: slice) -> FloatArray:
            piece = block(part, EVERYTHING) if self.is_tall else block(EVERYTHING, part).T
            return (piece.T @ piece).astype(np.float64)

        return np.asarray(self._sum_along(product) / self.n_rows)

    def pair_shares(self) -> FloatArray:
        """For each pair of columns (or rows, see ``moments``), how often both are observed."""

        def product(part: slice) -> FloatArray:
            values = self.values[part] if self.is_tall else self.values[:, part].T
            seen = (~np.isnan(values)).astype(np.float32)
            return (seen.T @ seen).astype(np.float64)

        return np.asarray(self._sum_along(product) / max(self.n_rows, self.n_columns))

    def _sum_along(self, work: Callable[[slice], FloatArray]) -> Any:
        return sum(self.workers.map(work, ranges(max(self.n_rows, self.n_columns), CHUNK)))

    def refill(self, directions: FloatArray, adapt: bool) -> FloatArray:
        """Replace the filling by a better one; returns its directions.

        Its scores are those of the present filling; its loadings are the directions or, to
        ``adapt``, those that fit the scores best.
        """
        narrow = directions.astype(self.values.dtype)

        def piece(rows: slice) -> tuple[AnyFloatArray, FloatArray, FloatArray]:
            block = self.block(rows)
            scores = block @ narrow
            product = block.T @ scores if adapt else np.zeros(0)
            return scores, product.astype(np.float64), block.sum(axis=0, dtype=np.float64)

        score_pieces, products, sums = zip(*self.workers.map(piece, self.rows), strict=True)
        scores = np.concatenate(score_pieces)
        shift = sum(sums) / self.n_rows
        centre = scores.mean(axis=0, dtype=np.float64)
        scores -= centre.astype(scores.dtype)
        self.mean = self.mean + shift.astype(self.mean.dtype)
        loadings = directions.T
        if adapt:
            product = sum(products) - self.n_rows * np.outer(shift, centre)
            wide = scores.astype(np.float64, copy=False)
            loadings = np.linalg.lstsq(wide.T @ wide, product.T, rcond=None)[0]
            directions = np.linalg.qr(loadings.T)[0]
        self.fill = scores, loadings.astype(self.values.dtype)
        return directions

    def residual_variance(self) -> float:
        """Variance of the observed entries about the filling, less its degrees of freedom."""

        def piece(rows: slice) -> float:
            residual = self.residual(rows)
            return float(np.sum(residual * residual, dtype=np.float64))

        n_observed = self.observed_share.sum() * self.n_rows
        rank = 0 if self.fill is None else self.fill[0].shape[1]
        free = n_observed - self.n_columns - rank * (self.n_rows + self.n_columns - rank)
        return float(self.sum_over_rows(piece) / max(free, 0.1 * n_observed, 1.0))


class _SparseMatrix:
    """Stored rows, centred in the products only."""

    def __init__(self, values: scipy.sparse.csr_array, workers: Workers) -> None:
        self.workers = workers
        self.n_rows, self.n_columns = values.shape
        missing = np.isnan(values.data)
        columns = values.indices
        n_missing = np.bincount(columns[missing], minlength=self.n_columns)
        sums = np.bincount(columns[~missing], values.data[~missing], self.n_columns)
        self.mean = sums / np.maximum(self.n_rows - n_missing, 1)
        if missing.any():
            values = values.copy()
            values.data[missing] = self.mean[columns[missing]]
        raw_squares = np.bincount(columns, values.data.astype(np.float64) ** 2, self.n_columns)
        squares = np.maximum(raw_squares - self.n_rows * self.mean**2, 0.0)
        self.sum_of_squares = float(squares.sum())
        n_varying = _count_varying(squares, self.mean, self.n_rows)
        self.free_order, self.free_length = sorted((self.n_rows - 1, n_varying))
        self.values = values
        transposed = values.T.tocsr()
        self.row_pieces = [values[rows] for rows in ranges(self.n_rows, CHUNK)]
        self.column_pieces = [transposed[part] for part in ranges(self.n_columns, CHUNK)]

    def times(self, right: FloatArray) -> AnyFloatArray:
        """The matrix times (D, k)."""
        product = np.concatenate(list(self.workers.map(lambda rows: rows @ right, self.row_pieces)))
        product -= self.mean @ right
        return product

    def transposed_times(self, left: AnyFloatArray) -> FloatArray:
        """The transpose times (n, k)."""
        sums = left.sum(axis=0)

        def piece(part: slice, columns: scipy.sparse.csr_array) -> FloatArray:
            product = columns @ left
            product -= np.outer(self.mean[part], sums)
            return product

        pieces = zip(ranges(self.n_columns, CHUNK), self.column_pieces, strict=True)
        return np.concatenate(list(self.workers.map(lambda pair: piece(*pair), pieces)))

    def with_shuffled_columns(self, rng: np.random.Generator) -> _SparseMatrix:
        """The same columns, but independent: every one turned round by a number of its own."""
        entries = self.values.tocoo()
        turns = rng.integers(self.n_rows, size=self.n_columns)
        rows = (rng.permutation(self.n_rows)[entries.row] + turns[entries.col]) % self.n_rows
        values = scipy.sparse.csr_array((entries.data, (rows, entries.col)), self.values.shape)
        return _SparseMatrix(values, self.workers)


def _matrix_of(
    values: AnyFloatArray | scipy.sparse.csr_array, workers: Workers
) -> _DenseMatrix | _SparseMatrix:
    if scipy.sparse.issparse(values):
        return _SparseMatrix(values, workers)
    largest = max(np.fmax.reduce(values, None, initial=0), -np.fmin.reduce(values, None, initial=0))
    if not 1.0 / WIDE_RANGE < largest < WIDE_RANGE:
        values = values.astype(np.float64, copy=False)
    return _DenseMatrix(values, workers)


def _column_squares(block: AnyFloatArray) -> FloatArray:
    return np.asarray(np.einsum("nd,nd->d", block, block), dtype=np.float64)


def _count_varying(squares: FloatArray, mean: AnyFloatArray, n_rows: int) -> int:
    """Columns that vary by more than rounding."""
    rounding = (8 * np.finfo(mean.dtype).eps * np.abs(mean.astype(np.float64))) ** 2
    return int((squares > n_rows * rounding).sum())


# The principal subspace and the noise around it.


def _exact_directions(
    matrix: _DenseMatrix, n_components: int | None, bound: int, noise: _Noise | None
) -> tuple[FloatArray, _Noise]:
    """Leading directions (D, k), as many as asked for or as are above the noise, and the noise."""
    moments = matrix.moments(matrix.block)
    if noise is None:
        eigenvalues = _falling_eigenvalues(moments)
        edge = _noise_edge(matrix) * _noise_level(matrix, eigenvalues)
        noise = _noise_below(matrix, eigenvalues, edge)
    vectors = _leading_vectors(moments, _how_many(n_components, bound, noise))
    if not matrix.is_tall:
        vectors = _orthonormal(matrix.transposed_times(vectors))[0]
    return vectors, noise


def _iterated_directions(
    matrix: _DenseMatrix | _SparseMatrix,
    n_components: int | None,
    bound: int,
    noise: _Noise | None,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
) -> tuple[FloatArray, _Noise]:
    """The same for matrices that are too large, or sparse."""
    directions, eigenvalues = _iterated_subspace(matrix, bound, rng, should_stop)
    if noise is None:
        if isinstance(matrix, _SparseMatrix):
            # Columns differ too much in their noise for one level: see it without the signal.
            shuffled = matrix.with_shuffled_columns(rng)
            edge = (1.0 + EDGE_SLACK) * _iterated_subspace(shuffled, 1, rng, should_stop)[1][0]
        else:
            columns = np.sort(rng.permutation(matrix.n_columns)[: EXACT_ORDER // 2])
            part = _DenseMatrix(matrix.values[:, columns], matrix.workers)
            level = _noise_level(part, _falling_eigenvalues(part.moments(part.block)))
            edge = _noise_edge(matrix) * level
        noise = _noise_below(matrix, eigenvalues, float(edge))
    return directions[:, : _how_many(n_components, bound, noise)], noise


def _how_many(n_components: int | None, bound: int, noise: _Noise) -> int:
    return min(noise.n_above if n_components is None else n_components, bound)


def _iterated_subspace(
    matrix: _DenseMatrix | _SparseMatrix,
    n_leading: int,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
) -> tuple[FloatArray, FloatArray]:
    """Directions, strongest first, and eigenvalues, by subspace iteration from a random start."""
    width = min(n_leading + OVERSAMPLING, matrix.n_rows, matrix.n_columns)
    # The basis is of the shorter side, where it is cheaper to keep orthogonal.
    by_columns = matrix.n_columns <= matrix.n_rows
    shorter = matrix.n_columns if by_columns else matrix.n_rows
    basis = _orthonormal(rng.standard_normal((shorter, width)))[0]
    eigenvalues = np.zeros(width)
    for _ in range(SUBSPACE_ROUNDS):
        if by_columns:
            product = matrix.transposed_times(matrix.times(basis))
        else:
            product = matrix.times(matrix.transposed_times(basis)).astype(np.float64, copy=False)
        before = eigenvalues
        basis, lengths = _orthonormal(product)
        eigenvalues = lengths / matrix.n_rows
        change = np.abs(eigenvalues - before)[:n_leading].sum()
        if change <= SUBSPACE_TOLERANCE * eigenvalues[:n_leading].sum() or should_stop():
            break
    return (basis if by_columns else _orthonormal(matrix.transposed_times(basis))[0]), eigenvalues


def _orthonormal(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Left singular vectors and singular values, by way of the small matrix of products."""
    squares, rotation = np.linalg.eigh(columns.T @ columns)
    lengths = np.sqrt(np.maximum(squares[::-1], 0.0))
    floor = max(RELATIVE_ROUNDING * lengths.max(initial=0.0), np.finfo(np.float64).tiny)
    return columns @ (rotation[:, ::-1] / np.maximum(lengths, floor)), lengths


def _noise_level(matrix: _DenseMatrix, eigenvalues: FloatArray) -> float:
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


def _noise_edge(matrix: _DenseMatrix | _SparseMatrix, share: float = 1.0) -> float:
    """Where the eigenvalues of X'X/n end for noise of variance one, and a little further.

    Each moment may be from a share of the rows (or columns) only.
    """
    order, length = matrix.free_order, share * matrix.free_length
    long, short = np.sqrt(length), np.sqrt(order)
    edge = (1.0 + short / long) ** 2
    spread = (long + short) * (1.0 / long + 1.0 / short) ** (1.0 / 3.0) / length
    edge = max((1.0 + EDGE_SLACK) * edge, edge + EDGE_SPREADS * spread)
    return float(edge * matrix.free_length / matrix.n_rows)


def _noise_below(
    matrix: _DenseMatrix | _SparseMatrix, eigenvalues: FloatArray, edge: float
) -> _Noise:
    """Count the eigenvalues above the edge; the others add up to the noise."""
    order, length = matrix.free_order, matrix.free_length
    limit = max(edge, RELATIVE_ROUNDING * eigenvalues[0])
    n_above = min(int((eigenvalues > limit).sum()), order)
    rest = max(matrix.sum_of_squares - matrix.n_rows * eigenvalues[:n_above].sum(), 0.0)
    return _Noise(n_above, rest / max((order - n_above) * (length - n_above), 1))


def _falling_eigenvalues(moments: FloatArray) -> FloatArray:
    return np.asarray(scipy.linalg.eigvalsh(moments)[::-1], dtype=np.float64)


def _leading_vectors(moments: FloatArray, n_leading: int) -> FloatArray:
    order = len(moments)
    if n_leading == 0:
        return np.zeros((order, 0))
    index = [order - n_leading, order - 1]
    return np.asarray(scipy.linalg.eigh(moments, subset_by_index=index)[1], dtype=np.float64)


# What is missing, filled in from the directions above the noise edge.


def _fill_missing(
    matrix: _DenseMatrix,
    max_components: int,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
) -> _Noise:
    part = matrix
    if matrix.order > EXACT_ORDER:
        rows = np.sort(rng.permutation(matrix.n_rows)[: EXACT_ORDER // 2])
        part = _DenseMatrix(matrix.values[rows], matrix.workers)
    n_above, directions = _fill_in_stages(part, max_components, should_stop)
    if directions.shape[1] > 0:
        _refill(matrix, directions, FILL_ROUNDS, should_stop)
    return _Noise(n_above, matrix.residual_variance())


def _fill_in_stages(
    matrix: _DenseMatrix, max_components: int, should_stop: Callable[[], bool]
) -> tuple[int, FloatArray]:
    """Fill from the strongest directions, then from the strongest of the residual, and so on.

    Moments are means over the rows (or columns) that have both entries. Each has other ones, so
    a strong direction leaves errors in them that look like weak directions; hence the stages.
    """
    shares = matrix.pair_shares()
    least = LEAST_PAIRS / max(matrix.n_rows, matrix.n_columns)
    weights = np.where(shares >= least, 1.0 / np.maximum(shares, least), 0.0)
    # The variances of the moments' errors go with the weights, and the noise edge with their norm.
    norm = float(_falling_eigenvalues(weights)[0])
    edge = _noise_edge(matrix, len(weights) / max(norm, 1.0))
    order, length = matrix.free_order, matrix.free_length
    directions = np.zeros((matrix.n_columns, 0))
    n_above, noise_level = 0, None
    while n_above < order and not should_stop():
        moments = weights * matrix.moments(matrix.residual)
        eigenvalues = _falling_eigenvalues(moments)
        if noise_level is None:
            noise_level = _noise_level(matrix, eigenvalues)
        # Signal or noise, all variance makes errors in the moments.
        free = (order - n_above) * (length - n_above)
        level = max(noise_level, matrix.n_rows * eigenvalues.sum() / free)
        n_more = int((eigenvalues > max(edge * level, STAGE_SHARE * eigenvalues[0])).sum())
        n_above += n_more
        n_more = min(n_more, max_components - directions.shape[1])
        if n_more == 0:
            break
        vectors = _leading_vectors(moments, n_more)
        if not matrix.is_tall:
            vectors = matrix.transposed_times(vectors, matrix.residual)
            vectors /= np.maximum(matrix.observed_share, 1.0 / matrix.n_rows)[:, None]
        directions = np.linalg.qr(np.hstack([directions, vectors]))[0]
        directions = _refill(matrix, directions, STAGE_ROUNDS, should_stop)
    return n_above, directions


def _refill(
    matrix: _DenseMatrix,
    directions: FloatArray,
    n_rounds: int,
    should_stop: Callable[[], bool],
) -> FloatArray:
    """Fill from the directions, then let them settle."""
    if matrix.fill is None or len(matrix.fill[1]) < directions.shape[1]:
        for _ in range(SCORE_ROUNDS):
            matrix.refill(directions, adapt=False)
    for _ in range(n_rounds):
        before, directions = directions, matrix.refill(directions, adapt=True)
        change = np.linalg.norm(directions - before @ (before.T @ directions))
        if change <= FILL_TOLERANCE * np.sqrt(directions.shape[1]) or should_stop():
            break
    return directions


def _whitened(
    matrix: _DenseMatrix | _SparseMatrix, directions: FloatArray
) -> tuple[AnyFloatArray, FloatArray]:
    """Scores (n, k) without correlation and of variance one, and their loadings (k, D)."""
    scores = matrix.times(directions)
    scores -= scores.mean(axis=0)
    wide = scores.astype(np.float64, copy=False)
    variances, rotation = np.linalg.eigh(wide.T @ wide / matrix.n_rows)
    kept = variances > RELATIVE_ROUNDING * variances[-1]
    deviations, rotation = np.sqrt(variances[kept]), rotation[:, kept]
    loadings = deviations[:, None] * (directions @ rotation).T
    return (wide @ (rotation / deviations)).astype(scores.dtype), loadings


# From the subspace to two-valued features.


def _two_valued(
    scores: AnyFloatArray,
    rng: np.random.Generator,
    workers: Workers,
    should_stop: Callable[[], bool],
) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Codes of the independent components, and the share of their variance these explain."""
    rotation = _independent_rotation(scores, rng, workers, should_stop)
    components = scores @ rotation.T.astype(scores.dtype)
    codes = components > _thresholds(components)
    share = codes.mean(axis=0)
    between = (codes.T.astype(scores.dtype) @ components).diagonal() / len(scores)
    separation = between.astype(np.float64) ** 2 / np.maximum(share * (1.0 - share), 1e-12)
    return codes.astype(np.uint8), np.minimum(separation, 1.0)


def _independent_rotation(
    scores: AnyFloatArray,
    rng: np.random.Generator,
    workers: Workers,
    should_stop: Callable[[], bool],
) -> FloatArray:
    """Rotation (k, k) of whitened scores to independent components.

    Symmetric FastICA with two contrasts at once: log cosh y, whose derivative is tanh y, sees the
    two modes of an even feature, and y - tanh y, with tanh^2 y, the skewness of a rarer one. Each
    alone is blind where a feature looks Gaussian to it: tanh, or the cube, at a share of about a
    fifth, tanh^2 at a half. Bounded as they are they need few rows: 20 a feature.
    """
    n_rows, size = scores.shape
    pieces = [scores[rows].astype(np.float32, copy=False) for rows in ranges(n_rows, CHUNK)]

    def contrasts(piece: npt.NDArray[np.float32]) -> tuple[FloatArray, ...]:
        even = np.tanh(piece @ narrow.T)
        odd = even * even
        slopes = 1.0 - odd
        even_slope = slopes.sum(axis=0, dtype=np.float64)
        slopes *= even
        odd_slope = 2.0 * slopes.sum(axis=0, dtype=np.float64)
        products = (even.T @ piece).astype(np.float64), (odd.T @ piece).astype(np.float64)
        return *products, even_slope, odd_slope

    rotation = _nearest_rotation(rng.standard_normal((size, size)))
    disturbance = rng.standard_normal((size, size)) * DISTURBANCE / np.sqrt(size)
    is_disturbed = False
    n_rounds = int(np.clip(ROTATION_WORK / (3 * n_rows * size**2), 10, ROTATION_ROUNDS))
    for _ in range(n_rounds):
        narrow = rotation.astype(np.float32)
        sums = [sum(part) for part in zip(*workers.map(contrasts, pieces), strict=True)]
        even, odd, even_slope, odd_slope = (total / n_rows for total in sums)
        even -= even_slope[:, None] * rotation
        odd -= odd_slope[:, None] * rotation
        step = EVEN_WEIGHT * (even * rotation).sum(axis=1, keepdims=True) * even
        step += (odd * rotation).sum(axis=1, keepdims=True) * odd
        before, rotation = rotation, _nearest_rotation(step)
        turned = 1.0 - np.abs((rotation * before).sum(axis=1)).min()
        if should_stop() or (turned < ROTATION_TOLERANCE and is_disturbed):
            break
        if turned < ROTATION_TOLERANCE:
            # Two features may have settled on their sum and difference, which is a saddle point.
            rotation = _nearest_rotation(rotation + disturbance)
            is_disturbed = True
    return rotation


def _nearest_rotation(matrix: FloatArray) -> FloatArray:
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)


def _thresholds(components: AnyFloatArray) -> FloatArray:
    """Where to cut each component in off and on.

    Two Gaussians of one variance are fitted; if they stand apart the cut is where both are as
    likely, however few rows belong to one. Otherwise two means explain most of the variance.
    """
    n = min(N_QUANTILES, len(components))
    middle = ((np.arange(n) + 0.5) * len(components) / n).astype(np.int64)
    ordered = np.sort(components.T, axis=1)[:, middle].astype(np.float64)

    # Every way to cut the ordered scores in two.
    low_share = np.arange(1, n) / n
    low_sums = np.cumsum(ordered, axis=1)[:, :-1] / n
    total = ordered.mean(axis=1, keepdims=True)
    low, high = low_sums / low_share, (total - low_sums) / (1.0 - low_share)
    within = (ordered**2).mean(axis=1, keepdims=True)
    within = np.maximum(within - low_share * low**2 - (1.0 - low_share) * high**2, LEAST_VARIANCE)
    entropy = -low_share * np.log(low_share) - (1.0 - low_share) * np.log1p(-low_share)

    cuts = within.argmin(axis=1)[:, None]
    thresholds = 0.5 * np.take_along_axis(low + high, cuts, axis=1)[:, 0]
    best = np.full(len(ordered), -np.inf)
    # The likelihood of the groups finds rare ones, the squares within them even ones.
    for cost in (within, 0.5 * np.log(within) + entropy):
        start = np.arange(len(ordered)), cost.argmin(axis=1)
        share = 1.0 - low_share[start[1]]
        fit = _fit_two_modes(ordered, low[start], high[start], within[start], share)
        better = (fit.log_likelihood > best) & (fit.distance > CLEAR_DISTANCE)
        best = np.maximum(fit.log_likelihood, best)
        thresholds = np.where(better, fit.threshold, thresholds)
    return thresholds


class _TwoModes(NamedTuple):
    """Two Gaussians of one variance: how well they fit, how many deviations they are apart."""

    log_likelihood: FloatArray
    distance: FloatArray
    threshold: FloatArray


def _fit_two_modes(
    values: FloatArray, low: FloatArray, high: FloatArray, variance: FloatArray, share: FloatArray
) -> _TwoModes:
    """Expectation maximisation for each row of ``values``."""
    n = values.shape[1]
    squares = (values * values).mean(axis=1)
    for _ in range(MODE_ROUNDS):
        slope = (high - low) / variance
        offset = np.log(share / (1.0 - share)) - slope * (low + high) / 2.0
        on = 0.5 + 0.5 * np.tanh(0.5 * (offset[:, None] + slope[:, None] * values))
        share = np.clip(on.mean(axis=1), 1.0 / n, 1.0 - 1.0 / n)
        products = (on * values).mean(axis=1)
        low, high = (values.mean(axis=1) - products) / (1.0 - share), products / share
        variance = squares - (1.0 - share) * low**2 - share * high**2
        variance = np.maximum(variance, LEAST_VARIANCE)
    logs = [
        np.log(weight)[:, None] - 0.5 * (values - mode[:, None]) ** 2 / variance[:, None]
        for weight, mode in ((1.0 - share, low), (share, high))
    ]
    log_likelihood = np.logaddexp(*logs).mean(axis=1) - 0.5 * np.log(variance)
    gap = np.maximum(high - low, np.sqrt(LEAST_VARIANCE))
    threshold = (low + high) / 2.0 + variance / gap * np.log((1.0 - share) / share)
    return _TwoModes(log_likelihood, gap / np.sqrt(variance), np.clip(threshold, low, high))


def _distinct_columns(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Columns that vary, the first of those that are equal or opposite."""
    packed = np.packbits(codes ^ codes[:1], axis=0)
    _, first = np.unique(packed, axis=1, return_index=True)
    return np.sort(first[packed[:, first].any(axis=0)])


def _oriented(
    codes: npt.NDArray[np.uint8], scores: AnyFloatArray, loadings: FloatArray
) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Codes whose least-squares factors are mostly positive, and the variance each explains.

    Turning a code round changes the sign of its own factor and the intercept, no other factor.
    """
    centred = codes - codes.mean(axis=0)
    mixing = np.linalg.lstsq(centred, scores.astype(np.float64), rcond=None)[0]
    factors = mixing @ loadings
    positive = (np.maximum(factors, 0.0) ** 2).sum(axis=1)
    negative = (np.minimum(factors, 0.0) ** 2).sum(axis=1)
    strength = (positive + negative) * codes.var(axis=0)
    return codes ^ (negative > positive).astype(np.uint8), strength
