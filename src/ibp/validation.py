"""Turning what a user passes into what the library works on, or into a sentence that helps."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _get_feature_names, validate_data

from ibp.data.chunks import ChunkedRows, first_wrong
from ibp.data.source import RowSource, as_source, is_source
from ibp.data.stored import ReadAhead, open_stored
from ibp.data.summary import ROWS_AT_ONCE, Summary
from ibp.errors import (
    PLACE,
    InvalidTypeError,
    InvalidValueError,
    NegativeEntriesWarning,
    UnequalScalesWarning,
    quoted,
)
from ibp.parallel import ranges
from ibp.registry import CARDS, card_of, class_names

# Squares of larger numbers leave the range of double precision when they are added up.
LARGEST = 1e100
SMALLEST = 1e-100
# The largest spread of a column, in parts of the smallest, that one noise level can serve.
FURTHEST_SPREADS = 100.0
# Kinds of types: truth values, integers and floating numbers.
NUMBERS = "biuf"


@contextmanager
def sklearn_checks() -> Iterator[None]:
    """Make errors of scikit-learn's own checks ours, as they stand."""
    try:
        yield
    except ValueError as error:
        raise InvalidValueError(str(error)) from error
    except TypeError as error:
        raise InvalidTypeError(str(error)) from error


def check_matrix(estimator: Any, X: Any, *, reset: bool) -> RowSource:
    """Return the rows of X, or say what is wrong and where; float32 is kept, sparse becomes CSR.

    Numbers in a mapped file, in an array that another library has opened (of Zarr, h5py, pyarrow or
    a backed AnnData) and the rows of a source stay where they are, and only the first row is read.
    Whether the values are in range `check_range` tells, from a summary.
    """
    X = _opened(X)
    _check_kind(X)
    _check_indices(X)
    _check_names(X)
    X = _missing_as_nan(X)
    if is_source(X) and np.dtype(X.dtype).kind not in NUMBERS:
        raise InvalidTypeError(
            f"gives rows of type {X.dtype}, where numbers are needed",
            "Encode them as numbers; use NaN for missing values",
            about="X",
        )
    if is_source(X) and len(X.shape) != 2:
        raise InvalidValueError(
            f"gives rows but has the shape {tuple(X.shape)}",
            "it must be the numbers of rows and columns",
            about="X",
        )
    mapped = isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in NUMBERS
    source = as_source(X) if mapped or is_source(X) else None
    looked_at = X
    if source is not None:
        n_rows, n_columns = source.shape
        looked_at = source.rows(slice(0, 1 if n_columns else n_rows))
    if sparse.issparse(looked_at) and not card_of(estimator).accepts_sparse:
        others = class_names(card for card in CARDS.values() if card.accepts_sparse)
        raise InvalidTypeError(
            f"{type(estimator).__name__} does not take sparse X, because its sweeps need whole "
            "rows",
            f"{others} do; or pass X.toarray()",
        )
    try:
        with sklearn_checks(), _names_checked(estimator, X, reset=reset):
            matrix = validate_data(
                estimator,
                looked_at,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                reset=reset,
            )
    except (InvalidValueError, InvalidTypeError) as error:
        found = _first_unreadable(looked_at)
        if found is None:
            raise
        if isinstance(error, TypeError):  # what scikit-learn says stays in it
            found |= {"problem": f"{error} X {found['problem']}", "about": ""}
        raise type(error)(**found) from error
    return as_source(matrix) if source is None else source


def _check_kind(X: Any) -> None:
    """Refuse what people pass for data and is none: the name of a file, and a stack of images."""
    if isinstance(X, str | bytes | PathLike):
        raise InvalidValueError(
            f"is a name, {str(X)!r}, and no data",
            "Read the file first, by pandas.read_csv or numpy.load say, or fit it on the command "
            "line: ibp fit",
            about="X",
        )
    if isinstance(X, np.ndarray) and X.ndim == 3:
        raise InvalidValueError(  # which begins with what scikit-learn says
            f"Found array with dim 3, the shape {X.shape}, where rows and columns are needed",
            "Of images make a row each: X.reshape(len(X), -1)",
        )


def _opened(X: Any) -> Any:
    """The rows of what another library has opened, and all else as it is."""
    source = open_stored(X)
    return X if source is None else source


@contextmanager
def _names_checked(estimator: Any, X: Any, *, reset: bool) -> Iterator[None]:
    """Let the names of a file's columns count as those of a data frame do."""
    names = getattr(X, "column_names", None) if isinstance(X, ReadAhead) else None
    if names is None:
        yield
        return
    fitted = None if reset else getattr(estimator, "feature_names_in_", None)
    if fitted is not None and list(fitted) != list(names):
        lacking = [str(name) for name in fitted if name not in set(names)]
        raise InvalidValueError(
            "has other columns than those that were fitted"
            + (f", and lacks {quoted(lacking[0])}" if lacking else ", or in another order"),
            "Give the same columns in the same order",
            file=X.file,
        )
    with warnings.catch_warnings():
        # What scikit-learn sees is an array of the first row, which has no names.
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
    if reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def _names_of(source: RowSource, X: Any) -> Any:
    """The names of the columns of a file or a data frame, if it has any."""
    names = getattr(source, "column_names", None)
    return _get_feature_names(X) if names is None else names


def _check_indices(X: Any) -> None:
    """Refuse a sparse matrix with an entry outside of it, which compiled code would look for."""
    if not sparse.issparse(X):
        return
    try:
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)
        elif X.format == "coo" and any(
            np.min(places, initial=0) < 0 or np.max(places, initial=0) >= size
            for places, size in zip(X.coords, X.shape, strict=True)
        ):
            raise ValueError("an entry lies outside of it")
    except ValueError as error:
        raise InvalidValueError(
            f"is a sparse matrix that is not consistent with itself: {error}",
            "Make it anew, from its entries and their places",
            about="X",
        ) from error


def _check_names(X: Any) -> None:
    """Refuse a data frame in which several columns have one name."""
    if not hasattr(X, "columns") or not hasattr(X, "__dataframe__"):
        return
    names = [str(name) for name in X.columns]
    times = Counter(names)
    twice = [j for j, name in enumerate(names) if times[name] > 1]
    if twice:
        raise InvalidValueError(
            f"has several columns of one name: {PLACE}",
            "Rename them, or leave out all but one",
            about="X",
            columns=twice,
            names=names,
        )


def check_range(summary: Summary, source: RowSource, X: Any, *, fitting: bool) -> None:
    """Refuse infinities, and numbers whose squares cannot be summed."""
    largest = summary.largest
    if np.isinf(largest):
        raise InvalidValueError(
            f"has an infinity in {PLACE}",
            "Replace it by NaN if the value is missing, or remove the row",
            **_first(np.isinf, source, X),
        )
    if largest > LARGEST:
        raise InvalidValueError(
            f"has a value beyond {LARGEST:g} in {PLACE}, too large to be squared and summed",
            "Divide the data by a constant",
            **_first(lambda values: np.abs(values) > LARGEST, source, X),
        )
    if fitting and 0 < largest < SMALLEST:  # new rows may be as small as they like
        raise InvalidValueError(
            f"has no value beyond {largest:g}, too small to be squared",
            "Multiply the data by a constant",
            about="X",
        )


def check_columns_observed(summary: Summary, source: RowSource, X: Any) -> None:
    """Refuse columns with no observed value."""
    empty = np.flatnonzero(summary.counts == 0)
    if empty.size:
        raise InvalidValueError(
            f"has no observed value in {PLACE}, so nothing can be learned of it",
            "Remove such columns before fitting",
            about="X",
            columns=empty.tolist(),
            names=_names_of(source, X),
        )


def warn_about_data(
    summary: Summary, source: RowSource, X: Any, *, offset_free: bool, one_unit: bool
) -> None:
    """Warn of negative entries that nothing explains, and of columns on very different scales."""
    if offset_free and np.fmin.reduce(summary.lowest) < 0:
        negative = NegativeEntriesWarning(
            f"has negative entries, the first in {PLACE}, and sums of nonnegative factors are "
            "never negative",
            "Set fit_intercept=True, if the estimator has it, or shift the data as the paper "
            "does, X - np.nanmin(X); ibp never shifts it for you",
            **_first(lambda values: values < 0, source, X),
        )
        warnings.warn(negative, stacklevel=level_of_user())
    apart = spreads_apart(summary.variances) if one_unit else None
    if apart is not None:
        unequal = UnequalScalesWarning(
            f"has columns whose spreads differ by a factor of {apart:.3g} (the largest is {PLACE}"
            "), and one noise level serves all of them, so the large ones will decide the fit",
            "If they are in different units, divide each by its standard deviation, or let each "
            'have its own noise level where the estimator has noise="per_column"',
            about="X",
            columns=[int(np.argmax(summary.variances))],
            names=_names_of(source, X),
        )
        warnings.warn(unequal, stacklevel=level_of_user())


def spreads_apart(variances: Any) -> float | None:
    """How many times the smallest spread of a column the largest is, if one noise is not for both.

    Columns that do not vary do not count.
    """
    varying = np.asarray(variances)[np.asarray(variances) > 0]
    apart = float(np.sqrt(varying.max() / varying.min())) if varying.size else 1.0
    return apart if apart > FURTHEST_SPREADS else None


def spreads_too_far_apart(model: Any, variances: Any, *, images: bool) -> float | None:
    """The same for a fitted model; None if each column has its own noise, or all have one unit.

    That is so of the pixels of ``images``, though some hardly vary.
    """
    return None if images or np.ndim(model.noise_std_) else spreads_apart(variances)


def level_of_user() -> int:
    """The ``stacklevel`` that makes a warning point at the line outside ibp and scikit-learn."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in (
        "ibp",
        "sklearn",
    ):
        level, frame = level + 1, frame.f_back
    return level


def _first(wrong: Callable[[Any], Any], source: RowSource, X: Any) -> dict[str, Any]:
    """The place of the first wrong entry, of which there is one, as errors take it."""
    if isinstance(source, ChunkedRows):
        row, column, chunk = source.first_wrong(wrong)
        where: dict[str, Any] = {"about": f"X ({chunk})"}
    else:
        found = (
            (rows, first_wrong(source.rows(rows), wrong))
            for rows in ranges(source.shape[0], ROWS_AT_ONCE)
        )
        rows, place = next((rows, place) for rows, place in found if place is not None)
        row, column = rows.start + place[0], place[1]
        where = {"about": "X"} | _in_file(source, row)
    return {"row": row, "columns": [column], "names": _names_of(source, X)} | where


def _in_file(source: RowSource, row: int) -> dict[str, Any]:
    """The file that a row is read from and where in it that lies, as errors take it."""
    if not isinstance(source, ReadAhead):
        return {}
    return {"file": source.file, "about": source.file, "chunk": source.place(row)}


def _missing_as_nan(X: Any) -> Any:
    """Masked entries and pandas' NA in object columns are missing too; dates are not numbers."""
    is_frame = hasattr(X, "iloc") and hasattr(X, "dtypes")
    dtypes = np.atleast_1d(X.dtypes) if is_frame else [getattr(X, "dtype", None)]
    kinds = {getattr(dtype, "kind", None) for dtype in dtypes}
    if "c" in kinds:
        raise InvalidValueError(
            "Complex data not supported: X holds complex numbers",
            "Pass their magnitudes, np.abs(X), or their real parts, X.real",
        )
    if kinds & {"m", "M"}:
        raise InvalidValueError(
            "holds dates or times", "convert them to numbers of one unit first", about="X"
        )
    if isinstance(X, np.ma.MaskedArray):
        numeric = kinds <= {"b", "i", "u", "f"}
        values = X.data.astype(np.result_type(X.dtype, np.float32) if numeric else object)
        return np.where(np.ma.getmaskarray(X), np.nan, values)
    if is_frame and "O" in kinds:
        return X.mask(X.isna(), np.nan)
    return X


def _first_unreadable(X: Any) -> dict[str, Any] | None:
    """What an error says of the first cell that is not a number."""
    is_array = isinstance(X, np.ndarray)
    if sparse.issparse(X) or (is_array and X.dtype.kind in NUMBERS):
        return None
    cells = np.asarray(X, dtype=None if is_array else object)
    if cells.ndim != 2:
        return None
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            try:
                float(cell)
            except (TypeError, ValueError):
                kind = "the text " if isinstance(cell, str | bytes) else ""
                return {
                    "problem": f"has {kind}{str(cell)[:40]!r} in {PLACE}, where a number is needed",
                    "cure": "Encode the column as numbers or drop it; use NaN for missing values",
                    "about": "X",
                    "row": row,
                    "columns": [column],
                    "names": _get_feature_names(X),
                }
    return None
