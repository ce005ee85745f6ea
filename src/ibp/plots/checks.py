"""What the plots are given, checked in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ibp.report.encoding import clean_name
from ibp.report.notes import Notes


def check_model(model: Any) -> None:
    """Refuse what is not a fitted model of this library."""
    from ibp.estimators.base import LatentFeatureModel

    if not isinstance(model, LatentFeatureModel):
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        raise TypeError(f"A fitted model of ibp is needed here, such as MEIBP; this is {kind}.")
    check_is_fitted(model)


def image_shape_of(
    model: Any, given: Sequence[int] | None, *, named: bool = False
) -> tuple[int, int] | None:
    """Rows and columns of a picture: as given, or as noted when the model was fitted.

    Names, if given, say that columns are no pixels; a note that does not fit is left aside.
    """
    if given is None:
        noted = Notes.of(model).image_shape
        fits = noted is not None and noted[0] * noted[1] == model.n_features_in_
        return noted if fits and not named else None
    try:
        height, width = (index(number) for number in given)
    except (TypeError, ValueError):
        raise ValueError(
            f"image_shape must be two whole numbers, rows and columns; it is {given!r}."
        ) from None
    if height < 1 or width < 1 or height * width != model.n_features_in_:
        raise ValueError(
            f"image_shape=({height}, {width}) makes {height * width} pixels, but the model was "
            f"fitted to {model.n_features_in_} columns."
        )
    return height, width


def column_names_of(model: Any, given: Sequence[str] | None) -> list[str]:
    """Names of the columns: as given, as in the data frame fitted to, or numbers."""
    n_columns = int(model.n_features_in_)
    if given is None:
        given = getattr(model, "feature_names_in_", None)
    if given is None:
        return [f"column {j}" for j in range(n_columns)]
    if len(given) != n_columns:
        raise ValueError(
            f"feature_names has {len(given)} names, but the model was fitted to {n_columns} "
            "columns."
        )
    return [clean_name(name) for name in given]


def check_option(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Refuse an unknown option."""
    if not any(value is option or value == option for option in allowed):
        known = ", ".join(repr(option) for option in allowed)
        raise ValueError(f"{name} must be one of {known}; it is {value!r}.")


def check_positive(name: str, value: Any) -> int:
    """A whole number of at least one."""
    try:
        number = index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number of at least 1; it is {value!r}.")
    return number


def row_of(X: Any, row: Any) -> Any:
    """One row of X as a matrix of the same kind."""
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"X must have rows and columns; its shape is {tuple(X.shape)}.")
    n_rows = X.shape[0]
    try:
        number = range(n_rows)[index(row)]
    except TypeError:
        raise ValueError(
            f"row must be the number of a row of X, counted from 0; it is {row!r}."
        ) from None
    except IndexError:
        raise ValueError(f"There is no row {row}: X has {n_rows} rows, counted from 0.") from None
    if hasattr(X, "iloc"):  # pandas
        return X.iloc[[number]]
    if hasattr(X, "tocsr"):  # not every sparse format can be cut
        return X.tocsr()[[number]]
    return X[[number]]


def values_of(row: Any) -> npt.NDArray[np.float64]:
    """The numbers of a matrix with one row; NaN where missing."""
    if hasattr(row, "toarray"):
        row = row.toarray()
    if isinstance(row, np.ma.MaskedArray):
        row = np.ma.filled(row.astype(np.float64), np.nan)
    if hasattr(row, "to_numpy"):
        row = row.to_numpy()
    return np.asarray(row, dtype=np.float64).ravel()
