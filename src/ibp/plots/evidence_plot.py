"""How a fit went."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ibp.plots.canvas import FAINT, MAIN, SECOND, Axes, axes_for, say_only
from ibp.plots.checks import check_model, check_option
from ibp.registry import card_of


def evidence(
    model: Any, *, over: Literal["sweeps", "seconds"] = "sweeps", ax: Axes | None = None
) -> Axes:
    """Draw the evidence and the number of features as the fit went on.

    Parameters
    ----------
    model : fitted estimator
        Any of this library. For samplers and BNMF, evidence is the log of the joint probability;
        a grey ground marks a sampler's burn-in.
    over : {"sweeps", "seconds"}, default="sweeps"
        What goes along the axis.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        That of the evidence; a twin at the right has the number of features.
    """
    check_model(model)
    check_option("over", over, ("sweeps", "seconds"))
    history = model.history_
    values = np.asarray(history["evidence"])
    ax = axes_for(ax, (5.5, 3.2))
    if values.size == 0:
        return say_only(ax, "This model was fitted without a single sweep.")
    x = np.arange(1, values.size + 1) if over == "sweeps" else np.asarray(history["seconds"])
    from matplotlib.ticker import MaxNLocator

    few = "o" if values.size < 30 else None
    width = 1.5 if values.size < 200 else 0.8
    ax.plot(x, values, color=MAIN, linewidth=width, marker=few, markersize=3)
    ax.set_xlabel("sweep" if over == "sweeps" else "seconds")
    ax.set_ylabel(card_of(model).objective, color=MAIN)
    ax.tick_params(axis="y", colors=MAIN)
    _mark_burn_in(ax, model, x)

    twin = ax.twinx()
    twin.step(x, history["n_components"], where="mid", color=SECOND, linewidth=0.8 * width)
    twin.set_ylabel("features", color=SECOND)
    twin.tick_params(axis="y", colors=SECOND)
    twin.yaxis.set_major_locator(MaxNLocator(integer=True))
    if over == "sweeps":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    twin.set_ylim(0, 1.15 * max(int(np.max(history["n_components"])), 1))
    ax.spines["top"].set_visible(False)
    twin.spines["top"].set_visible(False)
    ax.set_zorder(twin.get_zorder() + 1)  # the evidence lies above
    ax.patch.set_visible(False)
    return ax


def _mark_burn_in(ax: Axes, model: Any, x: Any) -> None:
    """A grey ground where a sampler's sweeps are not kept."""
    if not card_of(model).samples:
        return
    from ibp.methods.samples import burned_sweeps

    burned = min(burned_sweeps(model.burn_in, x.size), x.size)
    if burned > 0:
        ax.axvspan(float(x[0]), float(x[burned - 1]), color=FAINT, alpha=0.6, linewidth=0, zorder=0)
