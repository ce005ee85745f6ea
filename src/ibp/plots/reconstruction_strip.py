"""A row that is a picture: observed = rebuilt = offset + feature + feature ..."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibp.plots.canvas import SMALL, axes_for, no_frame, size_of
from ibp.plots.decomposition import Decomposition
from ibp.plots.pictures import (
    SMALLEST_FONT,
    draw_picture,
    fitting_columns,
    picture_height,
    set_view,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]

# Room between and above the pictures, in units of their width.
SIGN, LABEL = 0.34, 0.26
PICTURE_INCHES, MOST_IN_LINE = 0.95, 6  # about as wide as a page


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
