"""A row whose columns go along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ibp.plots.canvas import COLOURS, QUIET, SMALL, axes_for, light_frame, shortened
from ibp.plots.decomposition import Decomposition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIGHT = "0.75"
LONGEST_NAME = 24
MOST_NAMED = 40  # columns whose names fit below the bars


def draw_columns(row: Decomposition, names: list[str] | None, ax: Any) -> Axes:
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
