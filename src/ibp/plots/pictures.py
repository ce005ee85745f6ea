"""Small pictures side by side on one Axes.

The unit of length is the width of a picture; y grows downwards.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.plots.canvas import FAINT, Axes

FloatArray = npt.NDArray[np.float64]

PAPER_TO_INK = ("#FFFFFF", "#A9B8E0", "#332288", "#0D0724")  # even steps of lightness
LONGEST = 4.0  # side of a picture, in units of the other
SMALLEST_FONT = 3.5  # smaller ones cannot be read


def colour_map(*, signed: bool) -> Any:
    """Paper to ink, or red and blue about white; missing pixels are grey."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    if signed:
        return matplotlib.colormaps["RdBu_r"].with_extremes(bad="0.75")
    return LinearSegmentedColormap.from_list("ink", PAPER_TO_INK).with_extremes(bad="0.75")


def is_signed(components: FloatArray) -> bool:
    """Whether features take away as well as add."""
    return bool((components < 0).any())


def factor_limits(components: FloatArray) -> tuple[float, float]:
    """Values at the ends of the colour map: from zero, or about it; a few may lie beyond."""
    largest = float(np.quantile(np.abs(components), 0.998)) if components.size else 0.0
    largest = largest or float(np.abs(components).max(initial=0.0)) or 1.0
    return (-largest if is_signed(components) else 0.0), largest


def fitting_columns(n: int, tile: tuple[float, float], inches: tuple[float, float]) -> int:
    """How many columns make n tiles of this shape largest on an Axes of this size."""

    def scale(n_columns: int) -> float:
        n_rows = ceil(n / n_columns)
        return min(inches[0] / (n_columns * tile[0]), inches[1] / (n_rows * tile[1]))

    return max(range(1, n + 1), key=scale)


def picture_height(shape: tuple[int, ...]) -> float:
    """Height of a picture that is one unit wide; very long ones are squeezed."""
    return min(max(shape[0] / shape[1], 1.0 / LONGEST), LONGEST)


def draw_picture(
    ax: Axes,
    values: FloatArray,
    left: float,
    top: float,
    *,
    signed: bool,
    limits: tuple[float, float],
) -> None:
    """Draw one picture, one unit wide, with a thin frame."""
    from matplotlib.patches import Rectangle

    height = picture_height(values.shape)
    ax.imshow(
        values,
        cmap=colour_map(signed=signed),
        vmin=limits[0],
        vmax=limits[1],
        extent=(left, left + 1.0, top + height, top),
    )
    ax.add_patch(Rectangle((left, top), 1.0, height, fill=False, edgecolor=FAINT, linewidth=0.6))


def set_view(ax: Axes, width: float, height: float) -> None:
    """Show everything between (0, 0) and the given corner, with a hair's breadth around it."""
    ax.set_xlim(-0.02, width + 0.02)
    ax.set_ylim(height + 0.02, -0.02)
    ax.set_aspect("equal")
