"""The spectral start: assignments from the principal subspace, without any model.

In X = 1b' + ZA + noise the columns of Z are independent two-valued sources and A mixes them. So
the leading principal components span the features, independent component analysis turns them into
one score per feature, and every score has two modes: off and on.

`spectral_codes` goes through these steps, each in a module of its own: `low_rank_filling`,
`principal_directions` with `noise_edge`, `independent_components`, `two_modes`; all products with
the data are in `centred_matrix`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.parallel import Executor
from ibp.starts.centred_matrix import (
    AnyFloatArray,
    CentredMatrix,
    DenseMatrix,
    FloatArray,
    Values,
    centred,
    in_safe_range,
)
from ibp.starts.independent_components import independent_rotation
from ibp.starts.low_rank_filling import fill_missing
from ibp.starts.noise_edge import RELATIVE_ROUNDING
from ibp.starts.principal_directions import principal_directions
from ibp.starts.two_modes import cut_in_two


@dataclass(frozen=True)
class SpectralCodes:
    """Assignments from the principal subspace, strongest feature first."""

    # (n, K). No column is constant and no two are equal or opposite: such components are left out,
    # so there may be fewer than were asked for.
    assignments: npt.NDArray[np.uint8]
    # (K,), the share of the variance of a feature's scores that its two modes explain: 1 for a
    # noiseless feature. Cutting a Gaussian in halves explains 2/pi = 0.637, so that a balanced
    # feature below this is doubtful; one that few rows have may be sound with much less.
    separation: FloatArray
    noise_std: float  # of what the directions above the noise edge leave unexplained
    n_above_edge: int  # eigenvalues of the covariance above the noise edge, before any bound


def spectral_codes(
    values: Values,
    n_components: int | None,
    *,
    max_components: int,
    rng: np.random.Generator,
    executor: Executor,
    should_stop: Callable[[], bool] = lambda: False,
    most_rounds: int | None = None,
    roughly: bool = False,
) -> SpectralCodes:
    """Find two-valued features by principal and independent component analysis.

    In ``values`` NaN is missing. Entries that a sparse array does not store are observed zeros; it
    is never made dense, and a NaN stored in it counts as the mean of its column. As many features
    are looked for as ``n_components`` says, as far as the data vary in so many directions; if that
    is None, as many as there are eigenvalues above the noise edge, which may be none, and at most
    ``max_components``. Once ``should_stop`` says True the remaining rounds are left out;
    ``most_rounds`` are those of the independent components, and scores are cut ``roughly``, where
    codes need not be exact.

    Run it with BLAS held to a single thread; the answer is then the same for any number of threads.
    """
    values, exponent = in_safe_range(values)
    matrix = centred(values, executor)
    bound = max_components if n_components is None else n_components
    bound = min(bound, matrix.free_order)
    if bound < 1:
        return no_features(matrix.n_rows, 0.0, 0)
    noise = None
    if isinstance(matrix, DenseMatrix) and matrix.has_missing:
        noise = fill_missing(matrix, max(bound, max_components), rng, should_stop)
    directions, noise = principal_directions(matrix, n_components, bound, noise, rng, should_stop)
    noise_std = float(np.ldexp(np.sqrt(noise.variance), exponent))
    scores, loadings = whitened(matrix, directions)
    if scores.shape[1] == 0:
        return no_features(matrix.n_rows, noise_std, noise.n_above)
    rotation = independent_rotation(scores, rng, executor, should_stop, most_rounds)
    codes, separation = cut_in_two(scores @ rotation.T.astype(scores.dtype), roughly=roughly)
    kept = distinct_columns(codes)
    codes, strength = oriented(codes[:, kept], scores, loadings)
    order = np.argsort(-strength, kind="stable")
    codes = np.ascontiguousarray(codes[:, order])
    return SpectralCodes(codes, separation[kept][order], noise_std, noise.n_above)


def no_features(n_rows: int, noise_std: float, n_above_edge: int) -> SpectralCodes:
    """The answer if nothing was found."""
    return SpectralCodes(
        np.zeros((n_rows, 0), dtype=np.uint8), np.zeros(0), noise_std, n_above_edge
    )


def whitened(matrix: CentredMatrix, directions: FloatArray) -> tuple[AnyFloatArray, FloatArray]:
    """Scores (n, k) without correlation and of variance one, and their loadings (k, D)."""
    scores = matrix.times(directions)
    scores -= scores.mean(axis=0)
    wide = scores.astype(np.float64, copy=False)
    variances, rotation = np.linalg.eigh(wide.T @ wide / matrix.n_rows)
    # There may be no directions, or rounding alone in them: columns of equal, huge numbers.
    kept = variances > RELATIVE_ROUNDING * variances.max(initial=0.0)
    deviations, rotation = np.sqrt(variances[kept]), rotation[:, kept]
    loadings = deviations[:, None] * (directions @ rotation).T
    return (wide @ (rotation / deviations)).astype(scores.dtype), loadings


def distinct_columns(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Columns that vary, the first of those that are equal or opposite."""
    packed = np.packbits(codes ^ codes[:1], axis=0)
    _, first = np.unique(packed, axis=1, return_index=True)
    return np.sort(first[packed[:, first].any(axis=0)])


def oriented(
    codes: npt.NDArray[np.uint8], scores: AnyFloatArray, loadings: FloatArray
) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Codes whose least-squares factors are mostly positive, and the variance each explains.

    Turning a code round changes the sign of its own factor and the intercept, no other factor.
    """
    centred_codes = codes - codes.mean(axis=0)
    mixing = np.linalg.lstsq(centred_codes, scores.astype(np.float64), rcond=None)[0]
    factors = mixing @ loadings
    positive = (np.maximum(factors, 0.0) ** 2).sum(axis=1)
    negative = (np.minimum(factors, 0.0) ** 2).sum(axis=1)
    strength = (positive + negative) * codes.var(axis=0)
    return codes ^ (negative > positive).astype(np.uint8), strength
