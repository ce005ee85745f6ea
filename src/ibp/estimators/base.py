"""What every fitted model can do, whatever fitted it: place rows, rebuild, impute, score, save."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ibp.blas import reconstruct
from ibp.data import ColumnUnits, Observations, RowSource, all_rows, summarize
from ibp.errors import InvalidValueError
from ibp.estimators.chunked import (
    by_chunks,
    imputed_by_chunks,
    is_dask,
    sums_by_chunks,
    transformed_by_chunks,
)
from ibp.estimators.fitting import IterativeEstimator
from ibp.evaluate import Explanation, Prediction
from ibp.parallel import Executor, ranges
from ibp.persistence import SavedArray, save_model
from ibp.registry import card_of
from ibp.validation import check_matrix, check_range

FloatArray = npt.NDArray[np.float64]


class LatentFeatureModel(ClassNamePrefixFeaturesOutMixin, IterativeEstimator):
    """Explains rows by codes times components, plus an intercept."""

    # What a model file holds, here and in the classes that extend this one: arrays by type and
    # axes (K features, D columns, R restarts), plain values, and arrays with a row (N) per training
    # row, which may be left out.
    saved_arrays: ClassVar[dict[str, SavedArray]] = {
        "components_": SavedArray(np.float64, "KD"),
        "intercept_": SavedArray(np.float64, "D"),
        "restart_evidence_": SavedArray(np.float64, "R"),
        "restart_n_components_": SavedArray(np.int64, "R"),
        "restart_similarity_": SavedArray(np.float64, "RK"),
    }
    saved_values: ClassVar[dict[str, type]] = {
        "n_components_": int,
        "n_features_in_": int,
        "n_samples_fit_": int,
        "noise_std_": float,
        "evidence_": float,
        "n_iter_": int,
        "converged_": bool,
        "ending_": str,
        "restart_kept_": int,
    }
    saved_rows: ClassVar[dict[str, SavedArray]] = {}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = card_of(self).accepts_sparse
        tags.transformer_tags.preserves_dtype = []  # codes have a type of their own
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _observe(self, X: Any) -> Observations:
        """Validate new data."""
        source = check_matrix(self, X, reset=False)
        with self._executor() as executor:
            summary = summarize(source, executor)
        check_range(summary, source, X, fitting=False)
        # In units of each column's noise, products keep to the range of single precision.
        units = None
        if np.ndim(self.noise_std_):
            units = ColumnUnits(self.noise_std_, np.zeros_like(self.noise_std_))
        return Observations.from_summary(source, summary, centre=self.intercept_, units=units)

    @abstractmethod
    def _codes(self, observations: Observations) -> npt.NDArray[Any]:
        """Codes of new rows."""

    def _predict(self, seen: Observations, executor: Executor) -> Prediction:
        """What imputation and scores of new rows are made of."""
        return self._explain(seen).of(seen.source)

    def _predict_training(self, rows: Any, seen: Observations, executor: Executor) -> Prediction:
        """The same of some training rows, by the codes that the fit found for them."""
        return self._explain_training().of(seen.source, rows)

    def _explain(self, observations: Observations) -> Explanation:
        """One code for each new row."""
        return self._explained_by(self._codes(observations))

    def _explain_training(self) -> Explanation:
        """The same of the training rows, by the codes that the fit found for them."""
        return self._explained_by(self._training_codes())

    def _explained_by(self, codes: npt.NDArray[Any]) -> Explanation:
        return Explanation(codes, self.components_, self.intercept_, self.noise_std_)

    def transform(self, X: Any) -> Any:
        """Find the features of new observations.

        Each row is placed on its own, all that was learned from the training rows frozen.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Codes: 1 (uint8) where a row has a feature; from a model with soft assignments the
            probability that it does, and from one with real codes, these.
        """
        check_is_fitted(self)
        if is_dask(X):
            return transformed_by_chunks(self, X)
        return self._codes(self._observe(X))

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
            raise InvalidValueError(
                f"Z has {codes.shape[1]} columns, but this model has {self.n_components_} features."
            )
        return reconstruct(codes, self.components_) + self.intercept_

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Fill what is missing with its expectation; leave what is observed as it is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.
        return_std : bool, default=False
            Whether the doubt of what was filled in is returned, too.

        Returns
        -------
        filled : array, data frame or sparse matrix like X
            A copy without missing values.
        std : ndarray or sparse array of shape (n_samples, n_features)
            Only with ``return_std``: standard deviations of the predictive densities, of which
            the filled values are the means; 0 where X is observed.
        """
        check_is_fitted(self)
        if is_dask(X):
            if return_std:
                raise InvalidValueError(
                    "return_std is not for a Dask X", "Map impute over its blocks: X.map_blocks"
                )
            return imputed_by_chunks(self, X)
        observations = self._observe(X)
        source, shape = observations.source, observations.source.shape
        filled: Any
        std: Any = None
        if observations.sparse:
            filled = all_rows(source).copy()
        else:
            filled = np.empty(shape, dtype=source.dtype)
            for rows in ranges(shape[0], observations.piece_rows):
                filled[rows] = source.rows(rows)
        if return_std:
            std = filled.copy() if observations.sparse else np.zeros(shape)
        with self._executor() as executor:
            for rows, entries in self._predict(observations, executor).missing_entries():
                if observations.sparse:  # the entries are in the order in which they are stored
                    stored = slice(filled.indptr[rows.start], filled.indptr[rows.stop])
                    missing = np.isnan(filled.data[stored])
                    filled.data[stored][missing] = entries.mean
                    if return_std:
                        std.data[stored] = 0.0
                        std.data[stored][missing] = entries.std
                    continue
                filled[rows][entries.row, entries.column] = entries.mean
                if return_std:
                    std[rows][entries.row, entries.column] = entries.std
        if return_std and observations.sparse:
            std.eliminate_zeros()
        if hasattr(X, "iloc"):  # pandas
            filled = type(X)(filled, index=X.index, columns=X.columns)
        elif hasattr(X, "get_columns"):  # polars
            filled = type(X)(filled, schema=X.columns)
        return (filled, std) if return_std else filled

    def score_samples(self, X: Any) -> Any:
        """Log-density of each row's observed entries, given what the row itself says.

        Each entry by itself is scored by its predictive density. Of models with hard codes that is
        a mixture: sum over codes z of P(z | row) N(x; intercept + z.a, noise_std_^2 + the variance
        of z.a), with the doubt of bits and factors. Of other models it is N(x; prediction,
        noise_std_^2), at the row's codes; samplers average the predictions, and the noise
        variances, of their samples. The paper's density, at one code and any noise level, is
        `ibp.evaluate.row_log_likelihood`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            Sum over the row's observed entries of the logarithm of the density.
        """
        check_is_fitted(self)
        if is_dask(X):
            return by_chunks(self, X, "score_samples", n_columns=None, dtype=np.float64)
        seen = self._observe(X)
        return self._log_likelihood(seen, seen.source)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the observed entries, each by itself: see `score_samples`.

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
        if is_dask(X):
            total, count = sums_by_chunks(self, X)
        else:
            seen = self._observe(X)
            sums, counts = self._log_likelihood(seen, seen.source)
            total, count = float(sums.sum()), int(counts.sum())
        if count == 0:
            raise InvalidValueError("has no observed entry to score", about="X")
        return total / count

    def score_heldout(self, X_seen: Any, X_true: Any) -> float:
        """Mean log-density of entries that were hidden from the features.

        Each entry is scored by its predictive density given what was seen of its row, as
        `score_samples` says; `ibp.evaluate.HeldOut.score` is the score of the paper.

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
        if is_dask(X_seen) or is_dask(X_true):
            return self._score_heldout_chunks(X_seen, X_true)
        seen, true = self._observe(X_seen), self._observe(X_true)
        if seen.source.shape != true.source.shape:
            raise InvalidValueError(
                "X_seen and X_true must have one shape; they have "
                f"{seen.source.shape} and {true.source.shape}."
            )
        if seen.sparse != true.sparse:
            raise InvalidValueError("X_seen and X_true must both be dense, or both be sparse.")
        sums, counts = self._log_likelihood(seen, true.source, seen.source)
        if counts.sum() == 0:
            raise InvalidValueError("No entry is missing in X_seen and present in X_true.")
        return float(sums.sum() / counts.sum())

    def _score_heldout_chunks(self, X_seen: Any, X_true: Any) -> float:
        """The same of Dask's arrays or frames."""
        if not (is_dask(X_seen) and is_dask(X_true)):
            raise InvalidValueError("X_seen and X_true must both be Dask's, or none of them.")
        total, count = sums_by_chunks(self, X_seen, X_true)
        if count == 0:
            raise InvalidValueError("No entry is missing in X_seen and present in X_true.")
        return total / count

    def save(
        self, path: str | PathLike[str], *, assignments: bool = True, overwrite: bool = True
    ) -> None:
        """Write the fitted model to one file; `ibp.load` reads it back.

        Parameters
        ----------
        path : path-like
            Where to.
        assignments : bool, default=True
            Whether what was found of each training row, its assignments or codes, goes along.
            Without, `transform` has no known codes to begin at, and may place a few hard rows
            otherwise.
        overwrite : bool, default=True
            Whether a file that is there may be replaced, at once and only when all is written.
        """
        check_is_fitted(self)
        save_model(self, path, assignments=assignments, overwrite=overwrite)

    def _more_arrays(self, *, with_rows: bool) -> dict[str, Any]:
        """Further arrays for a model file."""
        return {}

    def _restore_more(self, arrays: dict[str, Any]) -> None:
        """Take back the further arrays of a model file."""

    def _log_likelihood(
        self, seen: Observations, scored: RowSource, hidden_from: RowSource | None = None
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        with self._executor() as executor:
            return self._predict(seen, executor).row_log_likelihood(scored, hidden_from)

    @contextmanager
    def _prediction_of_training(
        self, rows: npt.NDArray[np.int64], X_seen: Any
    ) -> Iterator[Prediction]:
        """What is said of some training rows, of which so much was seen."""
        seen = self._observe(X_seen)
        with self._executor() as executor:
            yield self._predict_training(rows, seen, executor)
