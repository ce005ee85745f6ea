"""Turning what a user passes into what the library works on, or into a sentence that helps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _get_feature_names, validate_data

from ibp.model.observations import BLOCK_ROWS

FloatingArray = npt.NDArray[np.floating]
# Squares of larger numbers leave the range of double precision when they are added up.
LARGEST = 1e100
SMALLEST = 1e-100
VARIANCE_RATIO = 1e4


def check_matrix(estimator: Any, X: Any, *, reset: bool) -> FloatingArray:
    """Return X as a finite-or-NaN floating matrix, float32 kept, or say what is wrong and where."""
    X = _missing_as_nan(X)
    try:
        matrix = validate_data(
            estimator,
            X,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            reset=reset,
        )
    except ValueError as error:
        if "Complex data not supported" in str(error):
            raise ValueError(
                "Complex data not supported: X holds complex numbers. Pass their magnitudes, "
                "np.abs(X), or their real parts, X.real."
            ) from error
        place = _first_unreadable(X)
        if place is not None:
            raise ValueError(place) from error
        raise
    except TypeError as error:
        place = _first_unreadable(X)
        if place is not None:
            raise TypeError(f"{error}. {place}") from error
        raise
    matrix = np.ascontiguousarray(matrix)
    largest = float(max(np.fmax.reduce(matrix, axis=None), -np.fmin.reduce(matrix, axis=None)))
    if np.isinf(largest):
        raise ValueError(
            f"X has an infinity in {_place(np.isinf(matrix), X)}. Replace it by NaN if the value "
            "is missing, or remove the row."
        )
    if largest > LARGEST:
        raise ValueError(
            f"X has a value beyond {LARGEST:g} in {_place(np.abs(matrix) > LARGEST, X)}, too large "
            "to be squared and summed. Divide X by a constant."
        )
    if reset and 0 < largest < SMALLEST:  # new rows may be as small as they like
        raise ValueError(
            f"No value of X is beyond {largest:g}, too small to be squared. "
            "Multiply X by a constant."
        )
    return matrix


@dataclass(frozen=True)
class Summary:
    """What one pass over the observed entries tells.

    Attributes
    ----------
    counts, variances : ndarray of shape (D,)
        Observed entries of each column, and their variance.
    std : float
        Standard deviation over all observed entries; 0 if they are all the same.
    lowest : float
        Smallest observed entry.
    """

    counts: npt.NDArray[np.int64]
    variances: npt.NDArray[np.float64]
    std: float
    lowest: float


def summarize(matrix: FloatingArray) -> Summary:
    """Count, mean and variance by blocks of rows, so that X is never copied whole."""
    n_features = matrix.shape[1]
    counts = np.zeros(n_features, dtype=np.int64)
    means, squares = np.zeros(n_features), np.zeros(n_features)  # squares: about the mean
    lowest, highest = np.full(n_features, np.nan), np.full(n_features, np.nan)
    for start in range(0, matrix.shape[0], BLOCK_ROWS):
        block = matrix[start : start + BLOCK_ROWS].astype(np.float64)
        lowest = np.fmin(lowest, np.fmin.reduce(block, axis=0))
        highest = np.fmax(highest, np.fmax.reduce(block, axis=0))
        seen = ~np.isnan(block)
        n_block = seen.sum(axis=0)
        block[~seen] = 0.0
        mean = block.sum(axis=0) / np.maximum(n_block, 1)
        deviation = np.where(seen, block - mean, 0.0)
        # Chan's rule for joining two sets of moments.
        total = np.maximum(counts + n_block, 1)
        delta = mean - means
        squares += (deviation**2).sum(axis=0) + delta**2 * counts * n_block / total
        means += delta * n_block / total
        counts += n_block
    n_observed = max(int(counts.sum()), 1)
    grand_mean = float(counts @ means) / n_observed
    variance = float(squares.sum() + counts @ (means - grand_mean) ** 2) / n_observed
    # Equal numbers can have a mean that is not quite theirs, and so a variance.
    constant = np.fmin.reduce(lowest) == np.fmax.reduce(highest)
    return Summary(
        counts,
        np.where(lowest == highest, 0.0, squares / np.maximum(counts, 1)),
        0.0 if constant else float(np.sqrt(variance)),
        float(np.fmin.reduce(lowest)),
    )


def check_columns_observed(summary: Summary, X: Any) -> None:
    """Refuse columns with no observed value."""
    empty = np.flatnonzero(summary.counts == 0)
    if empty.size:
        named = ", ".join(_column_name(int(j), X) for j in empty[:5])
        more = f" and {empty.size - 5} more" if empty.size > 5 else ""
        raise ValueError(
            f"X has no observed value in {named}{more}, so nothing can be learned of it. "
            "Remove such columns before fitting."
        )


def warn_about_data(summary: Summary, matrix: FloatingArray, X: Any) -> None:
    """Warn of negative entries and of columns on very different scales."""
    if summary.lowest < 0:
        with np.errstate(invalid="ignore"):
            where = _place(matrix < 0, X)
        warnings.warn(
            f"X has negative entries, the first in {where}, and sums of nonnegative factors are "
            "never negative. The usual remedy is to shift the data, X - np.nanmin(X); "
            "ibp never shifts it for you.",
            UserWarning,
            stacklevel=4,
        )
    varying = summary.variances[summary.variances > 0]
    ratio = varying.max() / varying.min() if varying.size else 1.0
    if ratio > VARIANCE_RATIO:
        big = _column_name(int(np.argmax(summary.variances)), X)
        warnings.warn(
            f"The variances of X's columns differ by a factor of {ratio:.0e} "
            f"(largest in {big}). One noise level serves all columns, so the large ones will "
            "decide the fit. If they are in different units, divide each by its standard deviation "
            "or maximum.",
            UserWarning,
            stacklevel=4,
        )


def _column_name(j: int, X: Any) -> str:
    names = _get_feature_names(X)
    return f"column {j}" if names is None else f"column {j} ({names[j]!r})"


def _place(flags: npt.NDArray[np.bool_], X: Any) -> str:
    """The first flagged entry, in words."""
    row, column = divmod(int(np.argmax(flags)), flags.shape[1])
    return f"row {row}, {_column_name(column, X)}"


def _missing_as_nan(X: Any) -> Any:
    """Masked entries and pandas' NA in object columns are missing too; dates are not numbers."""
    is_frame = hasattr(X, "iloc") and hasattr(X, "dtypes")
    dtypes = np.atleast_1d(X.dtypes) if is_frame else [getattr(X, "dtype", None)]
    kinds = {getattr(dtype, "kind", None) for dtype in dtypes}
    if kinds & {"m", "M"}:
        raise ValueError("X holds dates or times; convert them to numbers of one unit first.")
    if isinstance(X, np.ma.MaskedArray):
        numeric = kinds <= {"b", "i", "u", "f"}
        values = X.data.astype(np.result_type(X.dtype, np.float32) if numeric else object)
        return np.where(np.ma.getmaskarray(X), np.nan, values)
    if is_frame and "O" in kinds:
        return X.mask(X.isna(), np.nan)
    return X


def _first_unreadable(X: Any) -> str | None:
    """A sentence about the first cell that is not a number."""
    cells = np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return None
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            try:
                float(cell)
            except (TypeError, ValueError):
                kind = "the text " if isinstance(cell, str | bytes) else ""
                where = f"row {row}, {_column_name(column, X)}"
                return (
                    f"X has {kind}{str(cell)[:40]!r} in {where}, where a number is needed. Encode "
                    "the column as numbers or drop it; use NaN for missing values."
                )
    return None
