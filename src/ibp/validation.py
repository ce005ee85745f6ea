"""Turning what a user passes into what the library works on, or into a sentence that helps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _get_feature_names, validate_data

FloatingArray = npt.NDArray[np.floating]
# Squares of larger numbers leave the range of double precision when they are added up.
LARGEST = 1e150
VARIANCE_RATIO = 1e4


def check_matrix(estimator: Any, X: Any, *, reset: bool) -> FloatingArray:
    """Return X as a finite-or-NaN floating matrix, float32 kept, or say what is wrong and where."""
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
        if "could not convert" in str(error) or "Unable to convert" in str(error):
            place = _first_text(X)
            if place is not None:
                raise ValueError(place) from error
        raise
    matrix = np.ascontiguousarray(matrix)
    infinite = np.isinf(matrix)
    if infinite.any():
        where = _place(infinite, X)
        raise ValueError(
            f"X has an infinity in {where}. Replace it by NaN if the value is missing, "
            "or remove the row."
        )
    too_large = np.abs(matrix) > LARGEST
    if too_large.any():
        where = _place(too_large, X)
        raise ValueError(
            f"X has a value beyond {LARGEST:g} in {where}, too large to be squared and summed. "
            "Divide X by a constant."
        )
    return matrix


def check_columns_observed(matrix: FloatingArray, X: Any) -> None:
    """Refuse columns with no observed value: nothing can be learned about them."""
    empty = np.flatnonzero(np.isnan(matrix).all(axis=0))
    if empty.size:
        named = ", ".join(_column_name(int(j), X) for j in empty[:5])
        more = f" and {empty.size - 5} more" if empty.size > 5 else ""
        raise ValueError(
            f"X has no observed value in {named}{more}, so nothing can be learned of it. "
            "Remove such columns before fitting."
        )


def observed_scale(matrix: FloatingArray) -> float:
    """Standard deviation over all observed entries."""
    return float(np.sqrt(np.nanvar(matrix, dtype=np.float64)))


def warn_about_data(matrix: FloatingArray, X: Any) -> None:
    """Warn of negative entries and of columns on very different scales."""
    with np.errstate(invalid="ignore"):
        negative = matrix < 0
    if negative.any():
        where = _place(negative, X)
        warnings.warn(
            f"X has negative entries, the first in {where}, and sums of nonnegative factors are "
            "never negative. The usual remedy is to shift the data, X - np.nanmin(X); "
            "ibp never shifts it for you.",
            UserWarning,
            stacklevel=4,
        )
    if matrix.shape[0] > 1:
        variance = np.nanvar(matrix, axis=0, dtype=np.float64)
        varying = variance > 0
        if varying.any():
            low, high = variance[varying].min(), variance.max()
            if high > VARIANCE_RATIO * low:
                big = _column_name(int(np.argmax(variance)), X)
                warnings.warn(
                    f"The variances of X's columns differ by a factor of {high / low:.0e} "
                    f"(largest in {big}). One noise level serves all columns, so the large ones "
                    "will decide the fit. If they are in different units, divide each by its "
                    "standard deviation or maximum.",
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


def _first_text(X: Any) -> str | None:
    """A sentence about the first cell that is text and not a number."""
    cells = np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return None
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            if isinstance(cell, str):
                try:
                    float(cell)
                except ValueError:
                    return (
                        f"X has the text {cell[:40]!r} in row {row}, {_column_name(column, X)}, "
                        "where a number is needed. Encode the column as numbers or drop it; use "
                        "NaN for missing values."
                    )
    return None
