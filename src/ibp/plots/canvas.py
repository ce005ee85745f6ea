"""What all plots share: where they draw, their colours, their small print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # Matplotlib is loaded by what draws

# Hues that stay apart for colour-blind readers (P. Tol's "muted"), the strongest first.
COLOURS = (
    "#332288",
    "#CC6677",
    "#44AA99",
    "#DDCC77",
    "#882255",
    "#88CCEE",
    "#117733",
    "#999933",
    "#AA4499",
)
MAIN, SECOND = COLOURS[0], COLOURS[1]
QUIET = "0.45"
FAINT = "0.85"
SMALL = 8.0


def axes_for(ax: Any, size: tuple[float, float]) -> Axes:
    """The Axes to draw on: the given one, or that of a new figure of this size in inches."""
    try:
        from matplotlib.axes import Axes
    except ImportError as error:
        raise ImportError('Plots need Matplotlib: pip install "ibp[plot]".') from error
    if ax is None:
        from matplotlib import pyplot  # so that a notebook shows the figure

        return pyplot.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a Matplotlib Axes; it is a {type(ax).__name__}.")
    return ax


def size_of(ax: Axes) -> tuple[float, float]:
    """Width and height of an Axes in inches, as far as they are known before the layout."""
    box, dpi = ax.get_window_extent(), ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    return max(box.width / dpi, 0.1), max(box.height / dpi, 0.1)


def no_frame(ax: Axes) -> None:
    """Take away ticks and frame, keep the label below."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)


def light_frame(ax: Axes) -> None:
    """Leave the two spines that carry numbers."""
    ax.spines[["top", "right"]].set_visible(False)


def say_only(ax: Axes, sentence: str) -> Axes:
    """Where there is nothing to draw, say so."""
    no_frame(ax)
    ax.text(
        0.5, 0.5, sentence, transform=ax.transAxes, ha="center", va="center", color=QUIET, wrap=True
    )
    return ax


def shortened(name: str, longest: int) -> str:
    """A name with at most so many letters, on one line."""
    name = " ".join(name.split())
    return name if len(name) <= longest else name[: max(longest - 1, 1)] + "…"
