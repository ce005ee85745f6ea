"""What of each column's variance is its own, and how many directions stand out of that.

The noise edge supposes noise of one variance. In units of the columns' standard deviations columns
that features explain well have less of it than others, and in other units it is anyone's guess; so
columns are divided by their noise before their directions are counted. As a factor analysis would
begin, the noise of a column is taken to be what the other columns, or a part of them that is small
enough, do not tell of it by linear regression.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ibp.parallel import Executor
from ibp.starts.centred_matrix import (
    AnyFloatArray,
    DenseMatrix,
    FloatArray,
    add_up,
    call,
    column_squares,
)
from ibp.starts.low_rank_filling import fill_missing
from ibp.starts.principal_directions import principal_directions

# Columns that are looked at, columns that these are predicted from, and rows that each is worth.
COLUMNS_LOOKED_AT, MOST_COLUMNS, ROWS_PER_COLUMN = 400, 256, 10
# No column has less noise than this part of its variance: it is an estimate, and divides.
LEAST_SHARE = 1e-3
# What is added to the variances of the predictors, as a part of them.
RIDGE = 1e-3


def directions_above_noise(
    values: AnyFloatArray,
    max_components: int,
    rng: np.random.Generator,
    executor: Executor,
    should_stop: Callable[[], bool],
) -> int:
    """How many directions stand out of the noise, if every column has its own, but at most so many.

    ``values`` are dense, NaN where missing. Of many columns a part is looked at.
    """
    n_columns = values.shape[1]
    if n_columns > COLUMNS_LOOKED_AT:
        values = values[:, np.sort(rng.permutation(n_columns)[:COLUMNS_LOOKED_AT])]
    matrix = DenseMatrix(values, executor)
    if matrix.has_missing and min(max_components, matrix.free_order) > 0:
        fill_missing(matrix, min(max_components, matrix.free_order), rng, should_stop)
    noise = noise_of_columns(matrix, rng)
    matrix = DenseMatrix((values / noise).astype(values.dtype, copy=False), executor)
    bound = min(max_components, matrix.free_order)
    if bound < 1:
        return 0
    if matrix.has_missing:
        return min(fill_missing(matrix, bound, rng, should_stop).n_above, bound)
    return principal_directions(matrix, None, bound, None, rng, should_stop)[0].shape[1]


def noise_of_columns(matrix: DenseMatrix, rng: np.random.Generator) -> FloatArray:
    """Standard deviation of each column about what other columns tell of it.

    What is missing has been filled in, or is at the mean of its column: with moments over the pairs
    that are both observed some columns would seem to be told by others that they have no more to do
    with than any. In columns that do not vary it is one.
    """
    most = min(MOST_COLUMNS, matrix.n_rows // ROWS_PER_COLUMN)
    columns = np.sort(rng.permutation(matrix.n_columns)[:most])
    cross = _moments(matrix, columns)
    variances = _variances(matrix)
    varying = variances[columns] > 0
    columns, cross = columns[varying], cross[varying]
    noise = variances
    if columns.size > 1:
        moments = cross[:, columns] + np.diag(RIDGE * variances[columns])
        inverse = np.linalg.pinv(moments, hermitian=True)
        noise = variances - np.einsum("jd,ji,id->d", cross, inverse, cross)
        # Of the predictors themselves, about what the others tell.
        noise[columns] = 1.0 / np.maximum(np.diagonal(inverse), 1e-300)
    noise = np.clip(noise, LEAST_SHARE * variances, variances)
    noise /= np.maximum(matrix.observed_share, 1.0 / matrix.n_rows)  # what is filled in has none
    return np.where(noise > 0, np.sqrt(noise), 1.0)


def _moments(matrix: DenseMatrix, columns: npt.NDArray[np.intp]) -> FloatArray:
    """Covariances of some columns with all."""

    def products(rows: slice) -> FloatArray:
        block = matrix.block(rows)
        return np.asarray(block[:, columns].T @ block)

    pieces = matrix.executor.map(call, products, matrix.rows)
    return add_up(pieces, columns.size, matrix.n_columns) / matrix.n_rows


def _variances(matrix: DenseMatrix) -> FloatArray:
    """Variances of all columns."""
    return matrix.sum_over_rows(lambda rows: column_squares(matrix.block(rows))) / matrix.n_rows
