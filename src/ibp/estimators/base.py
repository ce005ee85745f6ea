"""What every fitted model with binary features can do, whatever fitted it."""

from __future__ import annotations

from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ibp.blas import reconstruct
from ibp.evaluate import expected_entries, row_log_likelihood
from ibp.model import Observations, summarize, truncated_normal
from ibp.model.sampling import sample_data
from ibp.parallel import Workers
from ibp.persistence import save_model
from ibp.random_state import spawn_generators
from ibp.validation import check_matrix, check_range

FloatArray = npt.NDArray[np.float64]


class BinaryFeatureModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transform, reconstruct, impute, sample, score and save with a fitted binary feature model."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # codes are uint8
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _observe(self, X: Any) -> Observations:
        """Validate new data."""
        matrix = check_matrix(self, X, reset=False)
        summary = summarize(matrix, Workers(effective_n_jobs(self.n_jobs)))
        check_range(summary, matrix, X, fitting=False)
        return Observations.from_summary(matrix, summary, centre=self.intercept_)

    def _assign(
        self, observations: Observations, *, with_losses: bool = False
    ) -> tuple[npt.NDArray[np.uint8], FloatArray]:
        """Assignments of new rows and, if asked for, what each of their bits is worth."""
        raise NotImplementedError

    def transform(self, X: Any) -> npt.NDArray[np.uint8]:
        """Find the features of new observations.

        Each row is optimised on its own, the factors and the counts of the training rows frozen.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        ndarray of shape (n_samples, n_components_), uint8
            1 where a row has a feature.
        """
        check_is_fitted(self)
        return self._assign(self._observe(X))[0]

    def confidence(self, X: Any) -> FloatArray:
        """How sure each bit of ``transform(X)`` is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            What the row objective, a log-probability in nats, loses when that bit alone flips.
            Near 0: either value explains the row about as well. Below 0, which only a double
            greedy leaves behind: the other value would explain it better.
        """
        check_is_fitted(self)
        return self._assign(self._observe(X), with_losses=True)[1]

    def inverse_transform(self, Z: Any) -> FloatArray:
        """Reconstruct observations from features: ``intercept_`` plus Z times ``components_``.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components_)
            Features, as from `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Expected observations.
        """
        check_is_fitted(self)
        codes = check_array(
            Z, dtype=np.float64, ensure_min_features=0, ensure_min_samples=0, input_name="Z"
        )
        if codes.shape[1] != self.n_components_:
            raise ValueError(
                f"Z has {codes.shape[1]} columns, but this model has {self.n_components_} features."
            )
        return reconstruct(codes, self.components_) + self.intercept_

    def impute(self, X: Any) -> Any:
        """Fill what is missing with its expectation; leave what is observed as it is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        array, data frame or sparse matrix like X
            A copy without missing values.
        """
        check_is_fitted(self)
        observations = self._observe(X)
        matrix = observations.values
        assignments = self._assign(observations)[0]
        if observations.sparse:
            return self._impute_sparse(matrix, assignments)
        expected = self.inverse_transform(assignments)
        filled = np.where(np.isnan(matrix), expected, matrix).astype(matrix.dtype, copy=False)
        if hasattr(X, "iloc"):  # pandas
            return type(X)(filled, index=X.index, columns=X.columns)
        if hasattr(X, "get_columns"):  # polars
            return type(X)(filled, schema=X.columns)
        return filled

    def _impute_sparse(self, matrix: Any, assignments: npt.NDArray[np.uint8]) -> Any:
        """Replace stored NaN; what is not stored is an observed zero."""
        filled = matrix.copy()
        missing = np.isnan(filled.data)
        row = np.repeat(np.arange(filled.shape[0]), np.diff(filled.indptr))[missing]
        column = filled.indices[missing]
        filled.data[missing] = expected_entries(
            assignments, self.components_, self.intercept_, row, column
        )
        return filled

    def sample(
        self, n_samples: int = 1, random_state: Any = None
    ) -> tuple[FloatArray, npt.NDArray[np.uint8]]:
        """Draw new observations from the fitted model.

        Each row has feature k with probability m_k / (N + 1), as the next customer of the buffet
        would; factors are drawn once from their posterior; features that no training row has are
        left out, as the model knows nothing of them.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState, Generator or None, default=None
            By default, the estimator's own.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The observations.
        Z : ndarray of shape (n_samples, n_components_), uint8
            Their features.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 1:
            raise ValueError(f"n_samples must be a positive integer; it is {n_samples!r}")
        if random_state is None:
            random_state = self.random_state
        (rng,) = spawn_generators(random_state, 1)
        probability = self.feature_counts_ / (self.n_samples_fit_ + 1.0)
        assignments = (rng.random((n_samples, self.n_components_)) < probability).astype(np.uint8)
        factors = truncated_normal.sample(
            self.factor_location_, self.factor_scale_, rng.random(self.factor_location_.shape)
        )
        return sample_data(
            assignments, factors, self.noise_std_, rng
        ) + self.intercept_, assignments

    def score_samples(self, X: Any) -> FloatArray:
        """Log-likelihood of each row's observed entries, given the row's own features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            Sum over the row's observed entries of ln N(x; b + z E[A], noise_std_^2).
        """
        check_is_fitted(self)
        seen = self._observe(X)
        return self._log_likelihood(seen, seen.values, None)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the observed entries, given each row's own features.

        The features are found from the same entries; to score entries that the features have not
        seen use `score_heldout`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean over the observed entries.
        """
        check_is_fitted(self)
        seen = self._observe(X)
        sums, counts = self._log_likelihood(seen, seen.values, None)
        if counts.sum() == 0:
            raise ValueError("X has no observed entry to score.")
        return float(sums.sum() / counts.sum())

    def score_heldout(self, X_seen: Any, X_true: Any) -> float:
        """Mean log-likelihood of entries that were hidden from the features.

        Parameters
        ----------
        X_seen : array-like of shape (n_samples, n_features)
            What the features are found from; NaN where an entry is missing or hidden.
        X_true : array-like of shape (n_samples, n_features)
            The same rows with the hidden entries in place.

        Returns
        -------
        float
            Mean over the entries missing in ``X_seen`` and present in ``X_true``.
        """
        check_is_fitted(self)
        seen, true = self._observe(X_seen), self._observe(X_true).values
        if seen.values.shape != true.shape:
            raise ValueError(
                "X_seen and X_true must have one shape; they have "
                f"{seen.values.shape} and {true.shape}."
            )
        if seen.sparse != sparse.issparse(true):
            raise ValueError("X_seen and X_true must both be dense, or both be sparse.")
        sums, counts = self._log_likelihood(seen, true, seen.values)
        if counts.sum() == 0:
            raise ValueError("No entry is missing in X_seen and present in X_true.")
        return float(sums.sum() / counts.sum())

    def save(self, path: str | PathLike[str], *, assignments: bool = True) -> None:
        """Write the fitted model to one file; `ibp.load` reads it back.

        Parameters
        ----------
        path : path-like
            Where to. An existing file is replaced, at once and only when all is written.
        assignments : bool, default=True
            Whether ``assignments_`` goes along, one bit per entry.
        """
        check_is_fitted(self)
        save_model(self, path, assignments=assignments)

    def _log_likelihood(
        self, seen: Observations, scored: Any, hidden_from: Any
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        return row_log_likelihood(
            scored,
            self._assign(seen)[0],
            self.components_,
            self.intercept_,
            self.noise_std_,
            hidden_from,
        )
