"""How features add up to a row: its columns along an axis, or pictures side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from ibp.plots.canvas import (
    COLOURS,
    QUIET,
    SMALL,
    Axes,
    axes_for,
    light_frame,
    no_frame,
    shortened,
    size_of,
)
from ibp.plots.checks import (
    check_model,
    check_positive,
    column_names_of,
    image_shape_of,
    row_of,
    values_of,
)
from ibp.plots.pictures import (
    SMALLEST_FONT,
    FloatArray,
    draw_picture,
    fitting_columns,
    picture_height,
    set_view,
)

NEGLIGIBLE = 0.005  # codes below this are not drawn on their own
# Of columns along an axis.
LIGHT = "0.75"
LONGEST_NAME = 24
MOST_NAMED = 40  # columns whose names fit below the bars
# Of pictures: room between and above them, in units of their width.
SIGN, LABEL = 0.34, 0.26
PICTURE_INCHES, MOST_IN_LINE = 0.95, 6  # about as wide as a page


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
    return _draw_columns(decomposition, names if named else None, ax)


@dataclass(frozen=True)
class Term:
    """What a feature, or several, add to a row."""

    label: str
    values: FloatArray
    several: bool = False


@dataclass(frozen=True)
class Decomposition:
    """A row as observed and as rebuilt, which is the offset plus all terms."""

    observed: FloatArray
    rebuilt: FloatArray
    offset: FloatArray
    terms: list[Term]

    @property
    def signed(self) -> bool:
        """Whether features take away as well as add."""
        return any((term.values < 0).any() for term in self.terms)


def decompose(model: Any, X: Any, row: int, most: int) -> Decomposition:
    """Split what the model makes of a row; the smallest of many features are one term."""
    one_row = row_of(X, row)
    codes = np.asarray(model.transform(one_row), dtype=np.float64)
    parts = codes[0][:, None] * model.components_
    by_size = np.argsort(-np.square(parts).sum(axis=1), kind="stable")
    ranked = [int(k) for k in by_size if codes[0, k] > NEGLIGIBLE]
    single = ranked if len(ranked) <= most else ranked[: most - 1]
    terms = [Term(_label(k, codes[0, k]), parts[k]) for k in single]
    n_others = len(ranked) - len(single)
    if n_others:
        others = np.setdiff1d(np.arange(codes.shape[1]), single)
        terms.append(Term(f"{n_others} others", parts[others].sum(axis=0), several=True))
    rebuilt = model.inverse_transform(codes)[0]
    return Decomposition(values_of(one_row), rebuilt, model.intercept_, terms)


def _label(k: int, code: float) -> str:
    """Number of a feature, and how much of it where that is not all."""
    return f"feature {k}" if abs(code - 1.0) < NEGLIGIBLE else f"{code:.2f} of {k}"


def _draw_columns(row: Decomposition, names: list[str] | None, ax: Any) -> Axes:
    """Draw features stacked on the offset, or as lines if some take away; NaN leaves a gap."""
    n_columns = row.observed.size
    few = n_columns <= MOST_NAMED
    ax = axes_for(ax, (min(9.0, max(4.5, 2.5 + 0.22 * n_columns)), 3.2))
    from matplotlib.ticker import MaxNLocator

    edges = np.arange(n_columns + 1) - 0.5
    if row.offset.any():
        ax.stairs(row.offset, edges, color=QUIET, linewidth=1.0, baseline=None, label="offset")
    level = row.offset
    for place, term in enumerate(row.terms):
        colour = LIGHT if term.several else COLOURS[place % len(COLOURS)]
        if row.signed:
            ax.stairs(
                term.values, edges, color=colour, linewidth=1.2, baseline=None, label=term.label
            )
        else:
            above = level + term.values
            ax.stairs(above, edges, baseline=level, fill=True, color=colour, label=term.label)
            level = above
    ax.stairs(row.rebuilt, edges, color="black", linewidth=0.8, baseline=None, label="rebuilt")
    ax.plot(
        np.arange(n_columns),
        row.observed,
        linestyle="none",
        marker="o",
        markersize=4 if few else 2,
        markerfacecolor="white" if few else "black",
        markeredgecolor="black",
        markeredgewidth=0.8 if few else 0.0,
        label="observed",
    )
    ax.set_xlim(edges[0], edges[-1])
    if names is not None and few:
        labels = [shortened(name, LONGEST_NAME) for name in names]
        ax.set_xticks(range(n_columns), labels, rotation=90, fontsize=SMALL, parse_math=False)
        ax.tick_params(axis="x", length=0)
    else:
        ax.set_xlabel("column")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    light_frame(ax)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=SMALL)
    return ax


def draw_strip(row: Decomposition, shape: tuple[int, int], ax: Any) -> Axes:
    """Draw pictures with signs between them, in several lines where these fit the Axes better."""
    tiles = _tiles(row)
    tile = (1.0 + SIGN, picture_height(shape) + LABEL)
    if ax is None:  # in lines of about the same length
        n_columns = ceil(len(tiles) / ceil(len(tiles) / MOST_IN_LINE))
    else:
        n_columns = fitting_columns(len(tiles), tile, size_of(axes_for(ax, (1, 1))))
    width, height = n_columns * tile[0], ceil(len(tiles) / n_columns) * tile[1]
    ax = axes_for(ax, (width * PICTURE_INCHES, height * PICTURE_INCHES + 0.1))
    inches = size_of(ax)
    font = min(SMALL, 72.0 * 0.6 * LABEL * min(inches[0] / width, inches[1] / height))
    for place, (sign, label, values, limits) in enumerate(tiles):
        line, column = divmod(place, n_columns)
        left, top = SIGN + column * tile[0], line * tile[1] + LABEL
        signed = limits[0] == -limits[1]
        draw_picture(ax, values.reshape(shape), left, top, signed=signed, limits=limits)
        if font > SMALLEST_FONT:
            ax.text(left + 0.5, top - 0.05, label, fontsize=font, ha="center")
            middle = top + 0.5 * (tile[1] - LABEL)
            ax.text(left - 0.5 * SIGN, middle, sign, fontsize=1.5 * font, ha="center", va="center")
    no_frame(ax)
    set_view(ax, width, height)
    return ax


def _tiles(row: Decomposition) -> list[tuple[str, str, FloatArray, tuple[float, float]]]:
    """Sign before it, label, values and ends of the colour map of each picture."""
    low, high = _range_of(row.observed, row.rebuilt)
    span = high - low
    offset_limits = (low, high)
    if row.offset.min() < min(low, 0.0) - 0.02 * span:
        offset_limits = (-span, span)
    term_limits = (-span if row.signed else 0.0, span)
    tiles = [
        ("", "observed", row.observed, (low, high)),
        ("≈", "rebuilt", row.rebuilt, (low, high)),
    ]
    if row.offset.any() or not row.terms:
        tiles.append(("=", "offset", row.offset, offset_limits))
    for term in row.terms:
        tiles.append(("=" if len(tiles) == 2 else "+", term.label, term.values, term_limits))
    return tiles


def _range_of(observed: FloatArray, rebuilt: FloatArray) -> tuple[float, float]:
    """From the least that was observed, or zero if that is near, to the largest of both."""
    seen = observed[np.isfinite(observed)]
    low = float(seen.min() if seen.size else rebuilt.min())
    high = float(max(seen.max(initial=-np.inf), rebuilt.max()))
    if 0.0 < low < 0.5 * high:
        low = 0.0
    return low, high if high > low else low + 1.0
