"""One pass over the data: errors of rows and columns, and which features are on together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from scipy import sparse

from ibp.blas import reconstruct, single_threaded_blas
from ibp.evaluate import expected_entries, row_log_likelihood
from ibp.parallel import Threads, ranges
from ibp.report.codes import WeightCounts, is_on, weight_spreads
from ibp.report.reading import DataReader, FloatArray, IntArray

# Entries of the rows that are worked on together.
PIECE = 200_000
# A column that spreads less than this, in units of its mean, only does so by rounding.
CONSTANT = 1e-13


@dataclass(frozen=True)
class Measurements:
    """Sums over all rows of X, for each of N rows, D columns, and K features."""

    row_squares: FloatArray  # squared errors of a row's observed entries
    row_scaled_squares: FloatArray  # the same, each in units of its column's noise
    row_counts: IntArray  # how many of them there are
    row_features: IntArray  # features that are on in a row
    column_squares: FloatArray
    column_counts: IntArray
    spread: FloatArray  # sum of squares of a column about its mean
    on_counts: IntArray  # in how many rows a feature is on
    together: IntArray  # in how many rows two are, (K, K)
    correlation: FloatArray  # of being on, or of real codes; 0 where one never changes, (K, K)
    mean_codes: FloatArray  # average code of the rows that have it; 1 if none has
    largest_codes: FloatArray  # of all rows; 1 if none has it
    weights: WeightCounts | None  # of the rows that have a feature, if these have weights
    own_noise: bool  # whether every column has its own

    @property
    def n_missing(self) -> int:
        """Entries that were not observed."""
        return int(self.row_counts.size * self.column_counts.size - self.row_counts.sum())

    @property
    def row_errors(self) -> FloatArray:
        """Root mean square error of each row; NaN where nothing was observed."""
        return _root_mean(self.row_squares, self.row_counts)

    @property
    def row_misfits(self) -> FloatArray:
        """Root mean square error of each row in units of the noise: 1 is what noise alone does."""
        return _root_mean(self.row_scaled_squares, self.row_counts)

    @property
    def column_errors(self) -> FloatArray:
        """Root mean square error of each column."""
        return _root_mean(self.column_squares, self.column_counts)

    @property
    def column_spreads(self) -> FloatArray:
        """Standard deviation of each column."""
        return _root_mean(self.spread, self.column_counts)

    @property
    def variance_explained(self) -> float:
        """Share of the variance within columns that is gone with the features; NaN if none was.

        Where columns have noise of their own, and may have a unit of their own, each counts alike.
        """
        left, total = self.column_squares, self.spread
        if self.own_noise:
            varies = total > 0
            left = self.column_counts[varies] * left[varies] / total[varies]
            total = self.column_counts[varies].astype(np.float64)
        whole = float(total.sum())
        return 1.0 - float(left.sum()) / whole if whole > 0 else float("nan")


def measure(reader: DataReader) -> Measurements:
    """Go through the data once."""
    model = reader.model
    components = np.asarray(model.components_, dtype=np.float64)
    intercept = np.asarray(model.intercept_, dtype=np.float64)
    noise_std = np.asarray(model.noise_std_, dtype=np.float64)
    n, d, k = reader.n_rows, reader.n_columns, components.shape[0]
    row_squares, row_scaled_squares = np.zeros(n), np.zeros(n)
    row_counts = np.zeros(n, dtype=np.int64)
    row_features = np.zeros(n, dtype=np.int64)
    column_squares, column_counts = np.zeros(d), np.zeros(d, dtype=np.int64)
    means, spread = np.zeros(d), np.zeros(d)
    together, products, code_sums = np.zeros((k, k)), np.zeros((k, k)), np.zeros(k)
    largest_codes = np.zeros(k)
    weights = None if weight_spreads(model) is None else WeightCounts(k)
    executor = Threads(effective_n_jobs(model.n_jobs))
    for rows, matrix, codes in reader.blocks():
        # Pieces of a dense block fit the cache.
        pieces = ranges(len(codes), len(codes) if reader.sparse else PIECE // d + 1)
        task = (matrix, codes, components, intercept, noise_std)
        parts = executor.map(_block_of, task, pieces)
        for piece, part in zip(pieces, parts, strict=True):
            own = slice(rows.start + piece.start, rows.start + piece.stop)
            row_squares[own], row_counts[own] = part.row_squares, part.row_counts
            row_scaled_squares[own] = part.row_scaled_squares
            column_squares += part.column_squares
            # Two samples' sums of squares about their means, as one (Chan, Golub and LeVeque).
            total = np.maximum(column_counts + part.column_counts, 1)
            apart = part.means - means
            spread += part.spread + apart**2 * (column_counts * part.column_counts / total)
            means += apart * (part.column_counts / total)
            column_counts += part.column_counts
        on = is_on(model, codes).astype(np.float64)
        row_features[rows] = on.sum(axis=1)
        with single_threaded_blas():
            together += on.T @ on
            used = codes.astype(np.float64) if model.real_codes else on
            products += used.T @ used
        code_sums += used.sum(axis=0)
        largest_codes = np.maximum(largest_codes, codes.max(axis=0))
        if weights is not None:
            weights.add(used)
    on_counts = together.diagonal()
    return Measurements(
        row_squares,
        row_scaled_squares,
        row_counts,
        row_features,
        column_squares,
        column_counts,
        np.where(spread > column_counts * (CONSTANT * (intercept + means)) ** 2, spread, 0.0),
        on_counts.astype(np.int64),
        together.astype(np.int64),
        _correlation(products, code_sums, n),
        np.where(on_counts > 0, code_sums / np.maximum(on_counts, 1), 1.0),
        np.where(largest_codes > 0, largest_codes, 1.0),
        weights,
        noise_std.ndim > 0,
    )


@dataclass(frozen=True)
class _Block:
    """What one block of rows adds; means of columns are about the intercept, spread about them."""

    row_squares: FloatArray
    row_scaled_squares: FloatArray
    row_counts: IntArray
    column_squares: FloatArray
    column_counts: IntArray
    means: FloatArray
    spread: FloatArray


def _block_of(
    task: tuple[Any, npt.NDArray[Any], FloatArray, FloatArray, FloatArray], piece: slice
) -> _Block:
    matrix, codes, components, intercept, noise_std = task
    work = _sparse_block if sparse.issparse(matrix) else _dense_block
    return work(matrix[piece], codes[piece], components, intercept, noise_std)


def _dense_block(
    matrix: Any,
    codes: npt.NDArray[Any],
    components: FloatArray,
    intercept: FloatArray,
    noise_std: FloatArray,
) -> _Block:
    centred = matrix - intercept
    seen = ~np.isnan(centred)
    np.copyto(centred, 0.0, where=~seen)
    residual = centred - reconstruct(codes, components)
    np.copyto(residual, 0.0, where=~seen)
    squares = residual**2
    column_counts = seen.sum(axis=0)
    means = centred.sum(axis=0) / np.maximum(column_counts, 1)
    centred -= means
    np.copyto(centred, 0.0, where=~seen)
    precision = np.broadcast_to(noise_std, intercept.shape) ** -2.0
    return _Block(
        squares.sum(axis=1),
        np.einsum("nd,d->n", squares, precision),
        seen.sum(axis=1),
        squares.sum(axis=0),
        column_counts,
        means,
        np.einsum("nd,nd->d", centred, centred),
    )


def _sparse_block(
    matrix: Any,
    codes: npt.NDArray[Any],
    components: FloatArray,
    intercept: FloatArray,
    noise_std: FloatArray,
) -> _Block:
    """The same from the stored entries alone."""
    n, d = matrix.shape
    z = codes.astype(np.float64)
    row_squares, row_counts = _sparse_row_squares(matrix, z, components, intercept)
    row_scaled_squares = row_squares / noise_std**2 if noise_std.ndim == 0 else None
    if row_scaled_squares is None:
        scaled = matrix.astype(np.float64)  # a copy
        scaled.data /= noise_std[scaled.indices]
        row_scaled_squares, _ = _sparse_row_squares(
            scaled, z, components / noise_std, intercept / noise_std
        )
    entries = matrix.astype(np.float64).tocoo()
    missing = np.isnan(entries.data)
    row, column = entries.row[missing], entries.col[missing]
    stored = sparse.csr_array(
        (entries.data[~missing], (entries.row[~missing], entries.col[~missing])), shape=(n, d)
    )
    column_counts = n - np.bincount(column, minlength=d)
    predicted = expected_entries(z, components, intercept, row, column)
    # Sum over rows of (x - b - zA)^2, without what is missing.
    fitted = np.einsum("kd,kd->d", components, (z.T @ z) @ components)
    fitted += 2.0 * intercept * (z.sum(axis=0) @ components) + n * intercept**2
    fitted -= np.bincount(column, weights=predicted**2, minlength=d)
    x_sums = np.asarray(stored.sum(axis=0)).ravel()
    x_squares = np.asarray(stored.multiply(stored).sum(axis=0)).ravel()
    crossed = intercept * x_sums + np.einsum("kd,kd->d", components, (stored.T @ z).T)
    means = x_sums / np.maximum(column_counts, 1)
    place = entries.col[~missing]
    from_mean = (entries.data[~missing] - means[place]) ** 2
    n_zeros = column_counts - np.bincount(place, minlength=d)
    return _Block(
        row_squares,
        row_scaled_squares,
        row_counts,
        np.maximum(x_squares - 2.0 * crossed + fitted, 0.0),
        column_counts,
        means - intercept,
        np.bincount(place, weights=from_mean, minlength=d) + n_zeros * means**2,
    )


def _sparse_row_squares(
    matrix: Any, z: FloatArray, components: FloatArray, intercept: FloatArray
) -> tuple[FloatArray, IntArray]:
    log_likelihood, row_counts = row_log_likelihood(matrix, z, components, intercept, 1.0)
    squares = -2.0 * log_likelihood - row_counts * np.log(2.0 * np.pi)
    return np.maximum(squares, 0.0), row_counts


def _correlation(products: FloatArray, sums: FloatArray, n: int) -> FloatArray:
    covariance = products / n - np.outer(sums, sums) / n**2
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    scale = np.outer(deviation, deviation)
    varies = scale > 1e-12 * max(float(products.max(initial=0.0)) / n, 1e-300)
    correlation = np.where(varies, covariance / np.where(varies, scale, 1.0), 0.0)
    return np.clip(correlation, -1.0, 1.0)


def _root_mean(squares: FloatArray, counts: IntArray) -> FloatArray:
    return np.where(counts > 0, np.sqrt(squares / np.maximum(counts, 1)), np.nan)
