"""Turning what a user passes into what the library works on, or into a sentence that helps."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _get_feature_names, validate_data

from ibp.data.summary import Summary

# Squares of larger numbers leave the range of double precision when they are added up.
LARGEST = 1e100
SMALLEST = 1e-100
VARIANCE_RATIO = 1e4


def check_matrix(estimator: Any, X: Any, *, reset: bool, accept_sparse: bool = True) -> Any:
    """Return X as a floating matrix, float32 kept, CSR if sparse, or say what is wrong and where.

    Whether its values are in range `check_range` tells, from a summary.
    """
    if sparse.issparse(X) and not accept_sparse:
        raise TypeError(
            f"{type(estimator).__name__} does not take sparse X, because its sweeps need whole "
            "rows. MEIBP, FiniteVIBP, InfiniteVIBP, UncollapsedGibbs, INMF and BNMF do; or pass "
            "X.toarray()."
        )
    X = _missing_as_nan(X)
    try:
        matrix = validate_data(
            estimator,
            X,
            accept_sparse="csr",
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
    if not sparse.issparse(matrix):
        return np.ascontiguousarray(matrix)
    matrix = sparse.csr_array(cast(Any, matrix))
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's own stays as it is
        matrix.sum_duplicates()
    return matrix


def check_range(summary: Summary, matrix: Any, X: Any, *, fitting: bool) -> None:
    """Refuse infinities, and numbers whose squares cannot be summed."""
    largest = summary.largest
    if np.isinf(largest):
        raise ValueError(
            f"X has an infinity in {_place(np.isinf, matrix, X)}. Replace it by NaN if the value "
            "is missing, or remove the row."
        )
    if largest > LARGEST:
        where = _place(lambda values: np.abs(values) > LARGEST, matrix, X)
        raise ValueError(
            f"X has a value beyond {LARGEST:g} in {where}, too large "
            "to be squared and summed. Divide X by a constant."
        )
    if fitting and 0 < largest < SMALLEST:  # new rows may be as small as they like
        raise ValueError(
            f"No value of X is beyond {largest:g}, too small to be squared. "
            "Multiply X by a constant."
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


def warn_about_data(summary: Summary, matrix: Any, X: Any, *, offset_free: bool) -> None:
    """Warn of negative entries that nothing explains, and of columns on very different scales."""
    if offset_free and np.fmin.reduce(summary.lowest) < 0:
        where = _place(lambda values: values < 0, matrix, X)
        warnings.warn(
            f"X has negative entries, the first in {where}, and sums of nonnegative factors are "
            "never negative. Set fit_intercept=True, if the estimator has it, or shift the data as "
            "the paper does, X - np.nanmin(X); ibp never shifts it for you.",
            UserWarning,
            stacklevel=level_of_user(),
        )
    variances = summary.variances
    varying = variances[variances > 0]
    ratio = varying.max() / varying.min() if varying.size else 1.0
    if ratio > VARIANCE_RATIO:
        big = _column_name(int(np.argmax(variances)), X)
        warnings.warn(
            f"The variances of X's columns differ by a factor of {ratio:.0e} "
            f"(largest in {big}). One noise level serves all columns, so the large ones will "
            "decide the fit. If they are in different units, divide each by its standard deviation "
            "or maximum.",
            UserWarning,
            stacklevel=level_of_user(),
        )


def level_of_user() -> int:
    """The ``stacklevel`` that makes a warning point at the line outside ibp and scikit-learn."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in (
        "ibp",
        "sklearn",
    ):
        level, frame = level + 1, frame.f_back
    return level


def _column_name(j: int, X: Any) -> str:
    names = _get_feature_names(X)
    return f"column {j}" if names is None else f"column {j} ({names[j]!r})"


def _place(wrong: Callable[[Any], Any], matrix: Any, X: Any) -> str:
    """The first wrong entry, in words."""
    with np.errstate(invalid="ignore"):
        if not sparse.issparse(matrix):
            row, column = divmod(int(np.argmax(wrong(matrix))), matrix.shape[1])
        else:
            stored: Any = matrix
            entry = int(np.argmax(wrong(stored.data)))
            row = int(np.searchsorted(stored.indptr, entry, side="right")) - 1
            column = int(stored.indices[entry])
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
    if sparse.issparse(X):
        return None
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
