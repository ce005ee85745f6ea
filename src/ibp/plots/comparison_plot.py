"""Which method predicts best, and when."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibp.plots.canvas import COLOURS, SMALL, Axes, axes_for, light_frame, say_only

FEW_POWERS, NEAR = 100.0, 10.0  # last time over first


def comparison(comparison: Any, *, ax: Axes | None = None) -> Axes:
    """Draw held-out scores against time, one colour per method.

    Parameters
    ----------
    comparison : Comparison
        From `ibp.comparison.compare`.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        Of each method the restart that ends with the median score is drawn strong, the others
        faint. A full dot ends a fit that came to its own end, a hollow one a fit that was cut off.
        The legend goes from the best score to the worst. Of poor beginnings the lowest part is cut
        off.
    """
    if not hasattr(comparison, "fits"):
        raise TypeError(
            "A Comparison is needed here, as ibp.comparison.compare returns; this is "
            f"{type(comparison).__name__}."
        )
    curves: dict[str, list[Any]] = {}
    for fit in comparison.fits:
        if np.isfinite(fit.log_likelihood).any():
            curves.setdefault(fit.label, []).append(fit)
    ax = axes_for(ax, (6.5, 3.8))
    if not curves:
        return say_only(ax, "No method was scored.")

    handles = {}
    for place, (label, fits) in enumerate(curves.items()):
        handles[label] = _draw_method(ax, label, fits, place)
    ax.set_ylim(*_range_of([fit for fits in curves.values() for fit in fits]))
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.set_xscale("log")
    _mark_seconds(ax)
    ax.set_xlabel("seconds")
    ax.set_ylabel("held-out log-likelihood per entry")
    light_frame(ax)
    ranked = [score.label for score in comparison.ranking() if score.label in handles]
    ranked += [label for label in handles if label not in ranked]
    ax.legend(
        [handles[label] for label in ranked],
        ranked,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=SMALL,
    )
    return ax


def _draw_method(ax: Axes, label: str, fits: list[Any], place: int) -> Any:
    """The curves of one method; what stands for it in the legend."""
    colour = COLOURS[place % len(COLOURS)]
    style = "-" if place < len(COLOURS) else "--"
    by_score = sorted(fits, key=_final)
    median = by_score[(len(by_score) - 1) // 2]
    for fit in by_score:
        if fit is not median:
            ax.plot(_seconds(fit), fit.log_likelihood, style, color=colour, alpha=0.3, linewidth=1)
    (line,) = ax.plot(
        _seconds(median), median.log_likelihood, style, color=colour, linewidth=2, label=label
    )
    ax.plot(
        _seconds(median)[-1:],
        median.log_likelihood[-1:],
        "o",
        color=colour,
        markersize=5,
        markerfacecolor=colour if median.ending in ("converged", "max_iter") else "white",
    )
    return line


def _seconds(fit: Any) -> Any:
    """When a fit was scored; a logarithm needs more than nothing."""
    return np.maximum(np.asarray(fit.seconds, dtype=np.float64), 1e-3)


def _final(fit: Any) -> float:
    """The last score that is a number."""
    scores = np.asarray(fit.log_likelihood, dtype=np.float64)
    return float(scores[np.isfinite(scores)][-1])


def _range_of(fits: list[Any]) -> tuple[float, float]:
    """From somewhat below the worst end to a little above the best score."""
    ends = np.array([_final(fit) for fit in fits])
    scores = np.concatenate([np.asarray(fit.log_likelihood, dtype=np.float64) for fit in fits])
    scores = scores[np.isfinite(scores)]
    best = float(scores.max())
    # Where all ends are alike, as of a single fit, most of the way is of interest.
    apart = float(np.ptp(ends)) or best - float(np.quantile(scores, 0.1))
    room = max(apart, 0.02 * float(np.ptp(scores)), 1e-3 * abs(best), 1e-3)
    low = max(float(scores.min()), float(ends.min()) - room)
    return low - 0.05 * room, best + 0.05 * room


def _mark_seconds(ax: Axes) -> None:
    """Write times out where they span less than two powers of ten, which have too few labels."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    first, last = ax.get_xlim()
    if last < FEW_POWERS * first:
        near = last < NEAR * first
        ax.xaxis.set_major_locator(MaxNLocator(5) if near else LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
