"""How features add up to a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ibp.plots.checks import check_model, check_positive, column_names_of, image_shape_of
from ibp.plots.decomposition import decompose
from ibp.plots.reconstruction_columns import draw_columns
from ibp.plots.reconstruction_strip import draw_strip

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reconstruction(
    model: Any,
    X: Any,
    row: int,
    *,
    image_shape: Sequence[int] | None = None,
    feature_names: Sequence[str] | None = None,
    max_features: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw a row, what the model makes of it, and the features that add up to that.

    The row's features are those that `transform` finds.

    Parameters
    ----------
    model : fitted estimator
        Any of this library.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data; NaN where missing.
    row : int
        Which row of X, counted from 0.
    image_shape : (int, int), default=None
        Rows and columns of a picture, if the columns of the data are its pixels. None takes the
        shape noted with the model when it was fitted, if there is one. Without, the columns go
        along an axis, and features that only add are stacked.
    feature_names : sequence of str, default=None
        Names of the columns; None takes those of the data frame fitted to.
    max_features : int, default=8
        If the row has more features, the smaller ones are drawn as one sum.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        Of pictures, observed and rebuilt share a scale, and features one of the same span from
        zero; what takes away is blue, and missing pixels are grey.
    """
    check_model(model)
    shape = image_shape_of(model, image_shape, named=feature_names is not None)
    names = column_names_of(model, feature_names)
    max_features = check_positive("max_features", max_features)
    decomposition = decompose(model, X, row, max_features)
    if shape is not None:
        return draw_strip(decomposition, shape, ax)
    named = feature_names is not None or hasattr(model, "feature_names_in_")
    return draw_columns(decomposition, names if named else None, ax)
