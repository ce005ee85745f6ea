"""Other models that predict missing entries, for `heldout.py`: in plain NumPy, X with NaN in.

Factor analysis is x = m + W z + e with z ~ N(0, I) and e ~ N(0, diag(p)); probabilistic principal
components have one p for all columns. Both are fitted by EM, in which rows that miss the same
columns share their matrices. NMF is fitted by multiplicative updates of what is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.impute import KNNImputer

FloatArray = npt.NDArray[np.float64]
# No column's noise variance is below this share of the mean variance of the columns. Else a column
# that is constant where it is seen would have a density without bound.
FLOOR = 1e-3
N_NEIGHBORS = 10


@dataclass(frozen=True)
class Prediction:
    """What a method expects of each entry and how sure it is; no std if it has no density."""

    mean: FloatArray
    std: FloatArray | None = None


@dataclass(frozen=True)
class Patterns:
    """Rows in the order of what they miss: `rows[p]` of the `order` see the columns `seen[p]`."""

    order: npt.NDArray[np.int64]
    rows: list[slice]
    seen: FloatArray  # of shape (n_patterns, n_features), 0 and 1

    @classmethod
    def of(cls, seen: npt.NDArray[np.bool_]) -> Patterns:
        """Find the patterns of a matrix."""
        packed = np.packbits(seen, axis=1)
        _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        group = group.ravel()
        ends = np.cumsum(np.bincount(group))
        rows = [slice(*pair) for pair in zip([0, *ends[:-1]], ends, strict=True)]
        return cls(np.argsort(group, kind="stable"), rows, seen[first].astype(np.float64))


@dataclass(frozen=True)
class FactorModel:
    """Mean m, loadings W (columns of X times factors) and noise variances p."""

    mean: FloatArray
    loadings: FloatArray
    noise: FloatArray

    def posterior(
        self, X: FloatArray, patterns: Patterns
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of the ordered rows: E[z], its covariance by pattern, and the rows' log-likelihoods."""
        n_factors = self.loadings.shape[1]
        weighted = self.loadings / self.noise[:, None]
        one, other = np.triu_indices(n_factors)  # the matrices are symmetric
        products = patterns.seen @ (weighted[:, one] * self.loadings[:, other])
        precision = _symmetric(products, n_factors) + np.eye(n_factors)
        covariance = np.linalg.inv(precision)
        residual = np.nan_to_num(X - self.mean)
        projected = residual @ weighted
        means = np.empty_like(projected)
        log_likelihood = np.einsum("nd,nd,d->n", residual, residual, 1.0 / self.noise)
        constants = patterns.seen @ np.log(2.0 * np.pi * self.noise)
        constants += np.linalg.slogdet(precision)[1]
        for rows, own, constant in zip(patterns.rows, covariance, constants, strict=True):
            means[rows] = projected[rows] @ own
            log_likelihood[rows] += constant
        log_likelihood -= np.einsum("nk,nk->n", projected, means)
        return means, covariance, -0.5 * log_likelihood

    def predict(self, X: FloatArray) -> Prediction:
        """Every entry given what is seen of its row."""
        patterns = Patterns.of(~np.isnan(X))
        means, covariance, _ = self.posterior(X[patterns.order], patterns)
        mean, variance = np.empty(X.shape), np.empty(X.shape)
        mean[patterns.order] = self.mean + means @ self.loadings.T
        for rows, own in zip(patterns.rows, covariance, strict=True):
            doubt = np.einsum("dk,dk->d", self.loadings @ own, self.loadings)
            variance[patterns.order[rows]] = self.noise + doubt
        return Prediction(mean, np.sqrt(variance))


def fit_factors(
    X: FloatArray,
    n_factors: int,
    *,
    shared_noise: bool = False,
    max_iter: int = 300,
    tol: float = 1e-5,
) -> tuple[FactorModel, list[float]]:
    """Factor analysis by EM, or probabilistic principal components if the noise is shared.

    It starts at the principal components of X with column means for what is missing, and ends when
    an iteration adds less than `tol` to the mean log-likelihood of an entry. Returns the model, and
    the log-likelihood of what is seen before each iteration and at the end.
    """
    seen = ~np.isnan(X)
    patterns = Patterns.of(seen)
    X, seen = X[patterns.order], seen[patterns.order]
    counts, centre = seen.sum(axis=0), np.nanmean(X, axis=0)
    X = X - centre  # about zero, so that sums of squares may be subtracted
    filled = np.nan_to_num(X)
    squares = np.einsum("nd,nd->d", filled, filled)
    least = _least_noise(squares / counts)

    def noise_of(left: FloatArray) -> FloatArray:
        variances = left / counts
        if shared_noise:
            variances = np.full(left.shape, left.sum() / counts.sum())
        return np.maximum(variances, least)

    values, vectors = np.linalg.eigh(filled.T @ filled / len(X))
    loadings = vectors[:, -n_factors:] * np.sqrt(np.maximum(values[-n_factors:], least))
    left = squares - counts * np.einsum("dk,dk->d", loadings, loadings)
    model = FactorModel(np.zeros(X.shape[1]), loadings, noise_of(np.maximum(left, 0.1 * squares)))
    one, other = np.triu_indices(n_factors + 1)
    history: list[float] = []
    while True:
        means, covariance, log_likelihood = model.posterior(X, patterns)
        history.append(float(log_likelihood.sum()))
        gain = (history[-1] - history[-2]) / counts.sum() if len(history) > 1 else np.inf
        if gain < tol or len(history) > max_iter:
            break
        # Loadings and mean at once: the mean is the loading of a factor that is always one.
        extended = np.column_stack([means, np.ones(len(X))])
        moments = np.stack([extended[rows].T @ extended[rows] for rows in patterns.rows])
        sizes = np.array([rows.stop - rows.start for rows in patterns.rows])
        moments[:, :-1, :-1] += sizes[:, None, None] * covariance
        by_column = _symmetric(patterns.seen.T @ moments[:, one, other], n_factors + 1)
        products = filled.T @ extended
        solution = np.linalg.solve(by_column, products[:, :, None])[:, :, 0]
        noise = noise_of(squares - np.einsum("dk,dk->d", products, solution))
        # The factors' own mean and covariance are fitted too and then made standard, by a change
        # of the loadings (parameter-expanded EM): far fewer iterations.
        loadings, mean = solution[:, :-1], solution[:, -1]
        centre_of_factors = means.mean(axis=0)
        spread = moments[:, :-1, :-1].sum(axis=0) / len(X)
        spread -= np.outer(centre_of_factors, centre_of_factors)
        mean = mean + loadings @ centre_of_factors
        model = FactorModel(mean, loadings @ np.linalg.cholesky(spread), noise)
    return FactorModel(model.mean + centre, model.loadings, model.noise), history


def factor_analysis(X: FloatArray, n_factors: int) -> Prediction:
    """Noise per column."""
    return fit_factors(X, n_factors)[0].predict(X)


def principal_components(X: FloatArray, n_factors: int) -> Prediction:
    """Shared noise."""
    return fit_factors(X, n_factors, shared_noise=True)[0].predict(X)


@dataclass(frozen=True)
class NonnegativeFactors:
    """X is about codes @ factors + shift."""

    codes: FloatArray
    factors: FloatArray
    shift: FloatArray

    @property
    def mean(self) -> FloatArray:
        """What X is taken for."""
        return self.codes @ self.factors + self.shift


def masked_factors(
    X: FloatArray, n_factors: int, *, n_iter: int = 200, seed: int = 0
) -> NonnegativeFactors:
    """NMF of what is seen, by multiplicative updates; negative columns are moved to zero."""
    rng = np.random.default_rng(seed)
    seen = ~np.isnan(X)
    shift = np.minimum(np.nanmin(X, axis=0), 0.0)
    shifted = np.nan_to_num(X - shift)
    scale = 2.0 * np.sqrt(shifted.sum() / seen.sum() / n_factors)
    codes = scale * rng.random((X.shape[0], n_factors))
    factors = scale * rng.random((n_factors, X.shape[1]))
    tiny = np.finfo(np.float64).tiny
    for _ in range(n_iter):
        codes *= (shifted @ factors.T) / ((seen * (codes @ factors)) @ factors.T + tiny)
        factors *= (codes.T @ shifted) / (codes.T @ (seen * (codes @ factors)) + tiny)
    return NonnegativeFactors(codes, factors, shift)


def nonnegative_factors(
    X: FloatArray, n_factors: int, *, n_iter: int = 200, seed: int = 0
) -> Prediction:
    """NMF, with noise per column from its residuals."""
    mean = masked_factors(X, n_factors, n_iter=n_iter, seed=seed).mean
    variance = np.maximum(np.nanmean((X - mean) ** 2, axis=0), _least_noise(np.nanvar(X, axis=0)))
    return Prediction(mean, np.broadcast_to(np.sqrt(variance), X.shape))


def nearest_neighbors(X: FloatArray) -> Prediction:
    """The mean of the ten nearest rows."""
    return Prediction(KNNImputer(n_neighbors=N_NEIGHBORS).fit_transform(X))


def column_mean(X: FloatArray) -> Prediction:
    """Mean and standard deviation of each column."""
    variance = np.nanvar(X, axis=0)
    std = np.sqrt(np.maximum(variance, _least_noise(variance)))
    return Prediction(*(np.broadcast_to(row, X.shape) for row in (np.nanmean(X, axis=0), std)))


def _least_noise(variances: FloatArray) -> float:
    return FLOOR * float(variances.mean())


def _symmetric(triangles: FloatArray, size: int) -> FloatArray:
    """Matrices from their upper triangles."""
    one, other = np.triu_indices(size)
    matrices = np.empty((len(triangles), size, size))
    matrices[:, one, other] = triangles
    matrices[:, other, one] = triangles
    return matrices
