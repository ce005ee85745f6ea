"""What each feature looks like."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ibp.agreement import patterns_in_noise
from ibp.plots.canvas import (
    MAIN,
    QUIET,
    SECOND,
    SMALL,
    Axes,
    axes_for,
    no_frame,
    say_only,
    shortened,
    size_of,
)
from ibp.plots.checks import (
    check_model,
    check_option,
    check_positive,
    column_names_of,
    image_shape_of,
)
from ibp.plots.pictures import (
    SMALLEST_FONT,
    FloatArray,
    draw_picture,
    factor_limits,
    fitting_columns,
    is_signed,
    picture_height,
    set_view,
)

NOTHING = "This model has no features: to it, the data look like noise."
MOST_PICTURES, MOST_LISTS = 100, 24
# Of pictures, in units of their width.
GAP, LABEL = 0.12, 0.24
PICTURE_INCHES = 0.85
# Of lists, in units of the width of one.
LIST_GAP, WIDEST_NAME = 0.1, 0.5
LETTER = 0.58  # width of a letter, about, in units of the font's size
LIST_INCHES, LINE_INCHES = 2.9, 0.19


def features(
    model: Any,
    *,
    image_shape: Sequence[int] | None = None,
    feature_names: Sequence[str] | None = None,
    order: Literal["count", "size"] | None = "count",
    max_features: int | None = None,
    n_names: int = 6,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each feature looks like: as pictures, or as ranked names of columns with bars.

    Parameters
    ----------
    model : fitted estimator
        Any of this library.
    image_shape : (int, int), default=None
        Rows and columns of a picture, if the columns of the data are its pixels. None takes the
        shape noted with the model when it was fitted, if there is one.
    feature_names : sequence of str, default=None
        Names of the columns; None takes those of the data frame fitted to, or numbers.
    order : {"count", "size"} or None, default="count"
        Which features come first: those that most rows have; those with the largest entries (root
        mean square), as also where a model does not count; None leaves them as they are in the
        model.
    max_features : int, default=None
        How many to draw; None means at most 100 pictures or 24 lists.
    n_names : int, default=6
        How many columns a list has: those where the feature is largest.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        A feature's label is its number in ``components_`` and the part of the rows that have it.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> model = ibp.MEIBP(random_state=0).fit(X)
    >>> axes = ibp.plots.features(model, image_shape=(6, 6))
    """
    check_model(model)
    shape = image_shape_of(model, image_shape, named=feature_names is not None)
    names = column_names_of(model, feature_names)
    check_option("order", order, ("count", "size", None))
    n_names = min(check_positive("n_names", n_names), len(names))
    most = MOST_LISTS if shape is None else MOST_PICTURES
    if max_features is not None:
        most = check_positive("max_features", max_features)
    shown = _ranking(model, order)[:most]
    if shown.size == 0:
        return say_only(axes_for(ax, (4.0, 1.5)), NOTHING)
    if shape is None:
        ax = _draw_lists(model, shown, names, n_names, ax)
    else:
        ax = _draw_pictures(model, shown, shape, ax)
    if shown.size < model.n_components_:
        shown_of = f"{shown.size} of {model.n_components_} features"
        ax.set_xlabel(shown_of, fontsize=SMALL, color=QUIET)
    return ax


def _ranking(model: Any, order: str | None) -> npt.NDArray[np.int64]:
    """Numbers of the features, first things first."""
    counts = getattr(model, "feature_counts_", None)
    if order is None:
        return np.arange(model.n_components_)
    if order == "count" and counts is not None:
        return np.argsort(-counts, kind="stable")
    return np.argsort(-np.square(model.components_).mean(axis=1), kind="stable")


def _label(model: Any, k: int) -> str:
    """Number of a feature, and how often it is on."""
    counts = getattr(model, "feature_counts_", None)
    if counts is None:
        return f"{k}"
    part = counts[k] / model.n_samples_fit_
    percent = f"{part:.0%}" if part >= 0.01 or part == 0 else "<1%"
    return f"{k} · {percent}"


def _draw_pictures(
    model: Any, shown: npt.NDArray[np.int64], shape: tuple[int, int], ax: Any
) -> Axes:
    """A grid of pictures, each under its label."""
    tile_height = picture_height(shape) + LABEL
    if ax is None:
        n_columns = min(shown.size, 10)
    else:
        tile = (1.0 + GAP, tile_height + GAP)
        n_columns = fitting_columns(shown.size, tile, size_of(axes_for(ax, (1, 1))))
    n_rows = ceil(shown.size / n_columns)
    width = n_columns * (1.0 + GAP) - GAP
    height = n_rows * (tile_height + GAP) - GAP
    ax = axes_for(ax, (width * PICTURE_INCHES + 0.2, height * PICTURE_INCHES + 0.3))
    inches = size_of(ax)
    font = min(SMALL, 72.0 * 0.75 * LABEL * min(inches[0] / width, inches[1] / height))
    limits, signed = factor_limits(model.components_[shown]), is_signed(model.components_)
    for place, k in enumerate(shown):
        row, column = divmod(place, n_columns)
        left, top = column * (1.0 + GAP), row * (tile_height + GAP) + LABEL
        picture = model.components_[k].reshape(shape)
        draw_picture(ax, picture, left, top, signed=signed, limits=limits)
        if font > SMALLEST_FONT:
            ax.text(left + 0.5, top - 0.05, _label(model, k), fontsize=font, ha="center")
    no_frame(ax)
    set_view(ax, width, height)
    return ax


def _draw_lists(
    model: Any, shown: npt.NDArray[np.int64], names: list[str], n_names: int, ax: Any
) -> Axes:
    """A grid of lists: label, then the names of the largest entries with their bars."""
    n_columns = min(shown.size, 3)
    n_rows = ceil(shown.size / n_columns)
    lines = n_names + 2  # with the label and a line to breathe
    width, height = n_columns * (1.0 + LIST_GAP) - LIST_GAP, n_rows * lines - 1
    ax = axes_for(ax, (width * LIST_INCHES, height * LINE_INCHES + 0.3))
    inches = size_of(ax)
    longest = min(max(len(name) for name in names), 16)
    font = min(
        SMALL,
        72.0 * 0.75 * inches[1] / height,
        max(5.0, 72.0 * WIDEST_NAME * inches[0] / width / (LETTER * longest)),
    )
    letter = LETTER * font / 72.0 * width / inches[0]
    names = [shortened(name, int(WIDEST_NAME / letter)) for name in names]
    patterns = patterns_in_noise(model)
    signed, largest = is_signed(patterns), float(np.abs(patterns[shown]).max())
    ranked = np.argsort(-np.abs(patterns[shown]), axis=1, kind="stable")[:, :n_names]
    margin = 0.04 + letter * max(len(names[j]) for j in ranked.flat)
    for place, (k, top_columns) in enumerate(zip(shown, ranked, strict=True)):
        row, column = divmod(place, n_columns)
        left, top = column * (1.0 + LIST_GAP) + margin, row * lines
        y = top + 1.5 + np.arange(n_names)
        ax.text(left, top + 0.5, _label(model, k), fontsize=font, va="center", color=QUIET)
        sizes = patterns[k, top_columns] / (largest or 1.0)
        _draw_bars(ax, sizes, left, 1.0 - margin, y, signed=signed)
        for j, line in zip(top_columns, y, strict=True):
            label = ax.text(left - 0.02, line, names[j], fontsize=font, ha="right", va="center")
            label.set_parse_math(False)  # names are data
    no_frame(ax)
    ax.set_xlim(-0.02, width + 0.02)
    ax.set_ylim(height, 0)
    return ax


def _draw_bars(
    ax: Axes, sizes: FloatArray, left: float, room: float, y: npt.NDArray[Any], *, signed: bool
) -> None:
    """Bars of sizes up to 1, from a line at the left or, if some point the other way, amid."""
    scale = 0.5 * room if signed else room
    zero = left + scale if signed else left
    colours = np.where(sizes < 0, SECOND, MAIN)
    ax.barh(y, sizes * scale, left=zero, height=0.7, color=colours.tolist())
    ax.plot([zero, zero], [y[0] - 0.5, y[-1] + 0.5], color=QUIET, linewidth=0.6)
