"""The one evaluation protocol: how well a model predicts entries.

There are two densities, and which one a score uses goes by what is called:

- The paper's, ln N(x; b + z E[A], noise_std^2) at one code z for each row and any noise level: an
  `Explanation`, `HeldOut.score` and `row_log_likelihood`. `ibp.comparison`, `ibp.reproduce` and the
  benchmarks score every method by it, at one level for all and at each method's own, so that their
  numbers can be compared with each other and with the paper's.
- The model's own predictive density: a `Prediction`, which `impute`, `score`, `score_samples` and
  `score_heldout` of estimators use, and `HeldOut.own_score`. For models with hard codes it is the
  mixture of `ibp.model.predictive`, over the codes that a row may have; for the others it is the
  paper's at their own noise level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ibp.blas import reconstruct
from ibp.data.observations import missing_of
from ibp.data.source import RowSource, as_source, is_sparse
from ibp.data.summary import summarize
from ibp.errors import InvalidValueError
from ibp.model.predictive import Filled
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]
ROWS_AT_ONCE = 1024
# Mean log-likelihoods of the same data agree to so many digits, in double and in single precision.
SAME_DATA, SAME_SINGLE_DATA = 1e-8, 1e-5


class Prediction(Protocol):
    """What a model says of the entries of some rows, given what it has seen of them."""

    def row_log_likelihood(
        self, scored: RowSource, hidden_from: RowSource | None = None
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Sum of the log-densities of each row's entries, and how many there are.

        With ``hidden_from``, only of the entries that are missing there.
        """
        ...

    def missing_entries(self) -> Iterator[tuple[slice, Filled]]:
        """What is missing of the rows, piece by piece: which rows, and their entries."""
        ...


@dataclass(frozen=True)
class Explanation:
    """How a model explains some rows: codes times components plus intercept, and the noise.

    A `Prediction` with one code for each row, which is taken to be certain, as factors are.

    Attributes
    ----------
    codes : ndarray of shape (N, K)
        The features of the rows.
    components : ndarray of shape (K, D)
        What the features look like.
    intercept : ndarray of shape (D,)
        The offset of each column.
    noise_std : float or ndarray of shape (D,)
        Standard deviation of the noise, of all columns or of each.
    seen : RowSource, default=None
        The rows, where what is missing of them is asked for.
    """

    codes: npt.NDArray[Any]
    components: FloatArray
    intercept: FloatArray
    noise_std: float | FloatArray
    seen: RowSource | None = None

    def of(self, seen: RowSource, rows: Any = slice(None)) -> Explanation:
        """The explanation of some of the rows, of which so much was seen."""
        return replace(self, codes=self.codes[rows], seen=seen)

    def row_log_likelihood(
        self, scored: RowSource, hidden_from: RowSource | None = None
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Sum of the log-likelihoods of each row's entries, and how many there are."""
        return row_log_likelihood(
            scored, self.codes, self.components, self.intercept, self.noise_std, hidden_from
        )

    def missing_entries(self) -> Iterator[tuple[slice, Filled]]:
        """What is missing of the rows, piece by piece; their doubt is the noise alone."""
        if self.seen is None:
            raise ValueError("what was seen of the rows is not known")
        noise_std = np.broadcast_to(np.asarray(self.noise_std), self.intercept.shape)
        for rows in ranges(self.codes.shape[0], ROWS_AT_ONCE):
            block, codes = self.seen.rows(rows), self.codes[rows]
            if is_sparse(self.seen):
                row, column = missing_of(block)
                mean = expected_entries(codes, self.components, self.intercept, row, column)
            else:
                row, column = np.nonzero(np.isnan(block))
                mean = (reconstruct(codes, self.components) + self.intercept)[row, column]
            yield rows, Filled(row, column, mean, noise_std[column])


@dataclass(frozen=True)
class HeldOut:
    """Data with a block of entries that fits do not see."""

    data: npt.NDArray[np.floating]  # all of it; NaN where missing
    hidden: npt.NDArray[np.bool_]  # rows times columns

    @classmethod
    def of(
        cls,
        data: npt.NDArray[np.floating],
        random_state: np.random.Generator | int | None = None,
        *,
        fraction: float = 0.2,
        rows: Literal["last", "random"] = "last",
    ) -> HeldOut:
        """Hide a `held_out_block`, less columns of which nothing would be left to fit.

        At least one observed entry is hidden.
        """
        n_samples, n_features = data.shape
        hidden = held_out_block(n_samples, n_features, random_state, fraction=fraction, rows=rows)
        hidden &= (~hidden & ~np.isnan(data)).any(axis=0)  # of every column something is left
        held_out = cls(data, hidden)
        if held_out.n_hidden == 0:
            raise InvalidValueError(
                "All entries that would be hidden are missing: X is missing too much"
            )
        return held_out

    @cached_property
    def training(self) -> npt.NDArray[np.floating]:
        """What fits see: NaN where it is hidden. Made once; not to be changed."""
        return np.where(self.hidden, self.data.dtype.type(np.nan), self.data)

    @property
    def n_hidden(self) -> int:
        """How many observed entries are hidden."""
        return int(np.count_nonzero(self.hidden & ~np.isnan(self.data)))

    def score(
        self, explanation: Explanation, noise_std: float | FloatArray, shift: float = 0.0
    ) -> float:
        """Mean log-likelihood of the hidden entries, by a model of all rows plus a shift.

        The paper's density: one code for each row, at the noise level that is given.
        """
        rows, columns = self.hidden.any(axis=1), self.hidden.any(axis=0)
        sums, counts = row_log_likelihood(
            self.data[np.ix_(rows, columns)] + shift,
            explanation.codes[rows],
            explanation.components[:, columns],
            explanation.intercept[columns],
            noise_std if np.ndim(noise_std) == 0 else np.asarray(noise_std)[columns],
        )
        return float(sums.sum() / counts.sum())

    def own_score(self, model: Any) -> float:
        """Mean log-density of the hidden entries, by a model that was fitted to what is not hidden.

        The model's own predictive density, from the codes that the fit found for the rows.
        """
        rows = np.flatnonzero(self.hidden.any(axis=1))
        with model._prediction_of_training(rows, self.training[rows]) as prediction:
            scored, hidden_from = as_source(self.data[rows]), as_source(self.training[rows])
            sums, counts = prediction.row_log_likelihood(scored, hidden_from)
        return float(sums.sum() / counts.sum())

    def own_errors(self, model: Any) -> tuple[float, float | None]:
        """Root mean square error of the same predictions, and its ratio to that of column means.

        For the ratio every column is measured by the spread of what was seen of it, so that
        columns of any unit count alike. None if the means have no error.
        """
        numbers = np.flatnonzero(self.hidden.any(axis=1))
        seen = summarize(self.training)
        spread = np.where(seen.variances > 0, np.sqrt(seen.variances), 1.0)
        sums, count = np.zeros(3), 0
        with model._prediction_of_training(numbers, self.training[numbers]) as prediction:
            for rows, filled in prediction.missing_entries():
                true = self.data[numbers[rows][filled.row], filled.column]
                known = ~np.isnan(true)
                true, column = true[known], filled.column[known]
                residual, from_mean = true - filled.mean[known], true - seen.means[column]
                for part, values in enumerate(
                    (residual, residual / spread[column], from_mean / spread[column])
                ):
                    sums[part] += values @ values
                count += true.size
        ratio = float(np.sqrt(sums[1] / sums[2])) if sums[2] > 0 else np.inf
        return float(np.sqrt(sums[0] / count)), ratio if np.isfinite(ratio) else None


def row_log_likelihood(
    values: Any,
    codes: npt.NDArray[np.generic],
    components: FloatArray,
    intercept: FloatArray,
    noise_std: float | FloatArray,
    hidden_from: Any = None,
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Sum of the log-likelihoods of each row's entries, and how many there are.

    Parameters
    ----------
    values : ndarray, sparse array or source of rows, of shape (n_samples, n_features)
        The entries to score; NaN where there is none.
    codes : ndarray of shape (n_samples, n_components)
        The features of the rows.
    components : ndarray of shape (n_components, n_features)
        What the features look like.
    intercept : ndarray of shape (n_features,)
        The offset of each column.
    noise_std : float or ndarray of shape (n_features,)
        Standard deviation of the noise, of all columns or of each.
    hidden_from : like values, default=None
        Count only the entries that are missing here: those that were hidden from the fit. Dense
        if ``values`` is, sparse if it is.

    Returns
    -------
    sums : ndarray of shape (n_samples,)
        Log-likelihood of each row.
    counts : ndarray of shape (n_samples,)
        How many of its entries were counted.

    Examples
    --------
    >>> import numpy as np
    >>> from ibp.evaluate import row_log_likelihood
    >>> values, codes = np.array([[1.0, np.nan]]), np.array([[1]])
    >>> sums, counts = row_log_likelihood(values, codes, np.array([[1.0, 2.0]]), np.zeros(2), 1.0)
    >>> sums.round(3).tolist(), counts.tolist()  # ln N(1; 1, 1)
    ([-0.919], [1])
    """
    source = as_source(values)
    hidden = None if hidden_from is None else as_source(hidden_from)
    if np.ndim(noise_std) == 0:
        unit, noise_std = None, float(noise_std)
    else:  # all is measured in units of the column's noise
        unit, noise_std = np.asarray(noise_std, dtype=np.float64), 1.0
        components, intercept = components / unit, intercept / unit
    squares = _sparse_squares if is_sparse(source) else _dense_squares
    explanation = Explanation(codes, components, intercept, noise_std)
    errors, counts, log_units = squares(source, explanation, hidden, unit)
    constant = -0.5 * np.log(2.0 * np.pi) - np.log(noise_std)
    return counts * constant - 0.5 * errors / noise_std**2 - log_units, counts


def _dense_squares(
    source: RowSource,
    explanation: Explanation,
    hidden_from: RowSource | None,
    unit: FloatArray | None,
) -> tuple[FloatArray, npt.NDArray[np.int64], FloatArray]:
    """Squared errors of the counted entries of each row, how many there are, sums of ln unit."""
    n_rows = source.shape[0]
    errors, counts = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    log_units = np.zeros(n_rows)
    for rows in ranges(n_rows, ROWS_AT_ONCE):
        values = source.rows(rows)
        counted = ~np.isnan(values)
        if hidden_from is not None:
            counted &= np.isnan(hidden_from.rows(rows))
        if unit is not None:
            values = values / unit
            log_units[rows] = np.where(counted, np.log(unit), 0.0).sum(axis=1)
        prediction = reconstruct(explanation.codes[rows], explanation.components)
        prediction = prediction + explanation.intercept
        residual = np.where(counted, values - prediction, 0.0)
        counts[rows] = counted.sum(axis=1)
        errors[rows] = np.einsum("nd,nd->n", residual, residual)
    return errors, counts, log_units


def _sparse_squares(
    source: RowSource,
    explanation: Explanation,
    hidden_from: RowSource | None,
    unit: FloatArray | None,
) -> tuple[FloatArray, npt.NDArray[np.int64], FloatArray]:
    """The same from the stored entries: prediction^2 everywhere, corrected where x is not zero."""
    n_rows, n_columns = source.shape
    errors, counts = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    log_units, log_unit = np.zeros(n_rows), np.zeros(n_columns) if unit is None else np.log(unit)
    components, intercept = explanation.components, explanation.intercept
    gram, offset = components @ components.T, components @ intercept
    for rows in ranges(n_rows, ROWS_AT_ONCE):
        z = explanation.codes[rows].astype(np.float64)
        n = z.shape[0]
        if hidden_from is not None:  # a stored NaN marks what is to be predicted
            row, column = missing_of(hidden_from.rows(rows))
            if row.size == 0:  # which scipy would not pick
                continue
            x = np.asarray(source.rows(rows)[row, column], dtype=np.float64).ravel()
            row, column, x = row[~np.isnan(x)], column[~np.isnan(x)], x[~np.isnan(x)]
            if unit is not None:
                x = x / unit[column]
            residual = x - expected_entries(z, components, intercept, row, column)
            errors[rows] = np.bincount(row, weights=residual**2, minlength=n)
            counts[rows] = np.bincount(row, minlength=n)
            log_units[rows] = np.bincount(row, weights=log_unit[column], minlength=n)
            continue
        block = source.rows(rows).astype(np.float64)
        row, column = missing_of(block)
        block.data = np.nan_to_num(block.data, nan=0.0)
        if unit is not None:
            block.data = block.data / unit[block.indices]
        predicted = expected_entries(z, components, intercept, row, column)
        squares = intercept @ intercept + 2.0 * z @ offset + np.einsum("nk,nk->n", z @ gram, z)
        products = block @ intercept + np.einsum("nk,nk->n", block @ components.T, z)
        errors[rows] = block.multiply(block).sum(axis=1) - 2.0 * products + squares
        errors[rows] -= np.bincount(row, weights=predicted**2, minlength=n)
        counts[rows] = n_columns - np.bincount(row, minlength=n)
        log_units[rows] = log_unit.sum() - np.bincount(row, weights=log_unit[column], minlength=n)
    return np.maximum(errors, 0.0), counts, log_units


def expected_entries(
    z: npt.NDArray[Any],
    components: FloatArray,
    intercept: FloatArray,
    row: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
) -> FloatArray:
    """Expected values of some entries, without those of all.

    Parameters
    ----------
    z : ndarray of shape (n_samples, n_components)
        The features of the rows.
    components : ndarray of shape (n_components, n_features)
        What the features look like.
    intercept : ndarray of shape (n_features,)
        The offset of each column.
    row, column : ndarray of shape (n_entries,)
        Where the entries are.

    Returns
    -------
    ndarray of shape (n_entries,)
        Intercept plus the sum of the row's features, at the column.
    """
    return np.asarray(intercept[column] + np.einsum("ek,ke->e", z[row], components[:, column]))


def training_codes_of(
    model: Any, n_rows: int, blocks: Iterable[tuple[slice, Any]]
) -> npt.NDArray[Any] | None:
    """The codes that a fit found for some rows, if they are the rows that it was fitted to.

    A model does not keep its data, but it knows how likely they were after each sweep. Other rows,
    or the same rows in another order, are not as likely to so many digits.

    Parameters
    ----------
    model : fitted estimator
        Any of this library.
    n_rows : int
        How many rows there are.
    blocks : iterable of (slice, matrix)
        All of them, block by block. Not looked at if there are too many or too few.

    Returns
    -------
    ndarray of shape (n_rows, n_components_) or None
        The codes; None if these are other rows, or the model was saved without its codes.
    """
    recorded = np.asarray(model.history_.get("train_log_likelihood", ()), dtype=np.float64)
    try:
        codes = np.asarray(model._training_codes())
    except AttributeError:  # saved without
        return None
    if codes.shape[0] != n_rows or model.n_samples_fit_ != n_rows or recorded.size == 0:
        return None
    total, count, digits = 0.0, 0, SAME_DATA
    components, intercept, noise_std = model.components_, model.intercept_, model.noise_std_
    takes_part: Any = slice(None)
    if np.ndim(noise_std):  # of which columns that do not vary are no part
        takes_part = np.flatnonzero(model.resolution_ > 0)
        components, intercept = components[:, takes_part], intercept[takes_part]
        noise_std = noise_std[takes_part]
    for rows, matrix in blocks:
        with np.errstate(over="ignore", invalid="ignore"):  # of data that will be refused
            sums, counts = row_log_likelihood(
                matrix[:, takes_part], codes[rows], components, intercept, noise_std
            )
        total, count = total + float(sums.sum()), count + int(counts.sum())
        if matrix.dtype == np.float32:
            digits = SAME_SINGLE_DATA
    found = total / max(count, 1)
    same = np.abs(recorded - found) <= digits * np.maximum(np.abs(recorded), 1.0)
    return codes if same.any() else None


def held_out_block(
    n_samples: int,
    n_features: int,
    random_state: np.random.Generator | int | None = None,
    *,
    fraction: float = 0.2,
    rows: Literal["last", "random"] = "last",
) -> npt.NDArray[np.bool_]:
    """The paper's held-out entries: a fraction of the dimensions in half of the rows.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the data.
    random_state : int, Generator or None, default=None
        Chooses the columns, and the rows.
    fraction : float, default=0.2
        Of the columns; at least one, and not all of them unless there is only one.
    rows : {"last", "random"}, default="last"
        The last half of the rows, as in the paper, or a random half.

    Returns
    -------
    ndarray of shape (n_samples, n_features), bool
        True where an entry is to be hidden from the fit.

    Examples
    --------
    >>> from ibp.evaluate import held_out_block
    >>> held_out_block(4, 5, random_state=0).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0],
           [0, 0, 1, 0, 0],
           [0, 0, 1, 0, 0]])
    """
    if not 0 < fraction < 1:
        raise InvalidValueError(f"fraction must lie between 0 and 1; it is {fraction}.")
    rng = np.random.default_rng(random_state)
    hidden = np.zeros((n_samples, n_features), dtype=bool)
    n_columns = min(max(round(fraction * n_features), 1), max(n_features - 1, 1))
    columns = rng.permutation(n_features)[:n_columns]
    half = np.arange(n_samples // 2, n_samples)
    if rows == "random":
        half = rng.permutation(n_samples)[n_samples // 2 :]
    hidden[np.ix_(half, columns)] = True
    return hidden
