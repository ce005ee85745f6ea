"""What the two halves of figure 3 share: the paper's synthetic data, curves, ranks and claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.datasets import make_binary_factors
from ibp.evaluate import Explanation, HeldOut
from ibp.model.assignment_priors import FinitePrior
from ibp.registry import FIXED
from ibp.reproduce import pages, paper, pictures
from ibp.reproduce.fits import Task
from ibp.reproduce.protocols import PUBLISHED, SHIPPED, is_unbounded
from ibp.reproduce.running import CUT, SPAN
from ibp.reproduce.study import Cell, Claim, Outcome, Results, all_of, greater
from ibp.reproduce.tables import (
    Row,
    distinct,
    mean,
    number,
    numbers,
    select,
    settings_of,
    settings_text,
    spread,
)

Changes = dict[str, Any]
TRUTH = "true Z and A"
FRACTION = 0.2
# A curve has arrived where this part of the way from its first to its last score is left.
LEFT = 0.02
VARIATIONAL, SAMPLERS = ("i-vibp", "f-vibp"), ("aibp", "t-aibp", "ugibbs", "t-ugibbs")
IBP_METHODS = ("meibp", *VARIATIONAL, *SAMPLERS)


@lru_cache(maxsize=1)
def synthetic_task(
    n_samples: int, n_features: int, n_components: int, dtype: str
) -> tuple[Task, Explanation]:
    """The paper's recipe with a fifth of the dimensions hidden in the last half, and its truth."""
    drawn = make_binary_factors(n_samples, n_features, n_components, random_state=0)
    held_out = HeldOut.of(drawn.data.astype(dtype), 0, fraction=FRACTION)
    truth = Explanation(drawn.assignments, drawn.factors, np.zeros(n_features), 1.0)
    return Task.of(held_out, data="synthetic"), truth


def truth_cell() -> Cell:
    """The score of what the data were made of."""
    return Cell(TRUTH, {"label": TRUTH})


def run_truth(task: Task, truth: Explanation) -> Outcome:
    """Score the true codes and factors."""
    held_out = task.held_out
    return Outcome(
        [
            {
                "protocol": "truth",
                "method": TRUTH,
                "settings": settings_text(**task.about, K=truth.components.shape[0]),
                "seed": 0,
                "seconds": 0.0,
                "iterations": 0,
                "n_components": truth.components.shape[0],
                "test_log_likelihood": held_out.score(truth, task.noise_std),
                "own_log_likelihood": held_out.score(truth, truth.noise_std),
                "ending": "converged",
                "noise_std": task.noise_std,
                "n_hidden": held_out.n_hidden,
            }
        ]
    )


def start_of(protocol: str, label: str, n_samples: int, n_components: int, seed: int) -> Changes:
    """As published, all begin with the true number of features; unbounded samplers as bounded ones.

    They are given what those draw: codes from the prior of so many features.
    """
    if protocol != PUBLISHED or not is_unbounded(label):
        return {}
    rng = np.random.default_rng([4, seed])
    codes = FinitePrior(n_components).draw(FIXED["alpha"], n_samples, rng)
    return {"init": {"Z": codes.astype(np.float64)}}


# ---------------------------------------------------------------- curves


def plain(rows: Sequence[Row]) -> list[Row]:
    """Those of the protocols as they are, without another condition."""
    return [row for row in rows if "condition" not in settings_of(row)]


def fitted(results: Results) -> list[Row]:
    """All runs but the truth."""
    return [row for row in plain(results.runs) if row["method"] != TRUTH]


def curves_of(points: Sequence[Row]) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Seconds and scores of each restart."""
    curves = []
    for cell in distinct(points, "cell"):
        own = [row for row in points if row["cell"] == cell]
        curves.append(
            (
                np.array([number(row, "seconds") for row in own]),
                np.array([number(row, "test_log_likelihood") for row in own]),
            )
        )
    return curves


def arrival(seconds: npt.NDArray[Any], scores: npt.NDArray[Any]) -> float:
    """When a curve has come so near to its last score that little is left of its way."""
    left = np.abs(scores - scores[-1])
    away = np.flatnonzero(left > LEFT * abs(scores[-1] - scores[0]))
    return float(seconds[min(away[-1] + 1, len(seconds) - 1)] if away.size else seconds[0])


def arrivals(results: Results, protocol: str, method: str) -> float:
    """The mean of these times over restarts; NaN without a run."""
    points = plain(select(results.points, protocol=protocol, method=method))
    found = [arrival(*curve) for curve in curves_of(points)]
    return float(np.mean(found)) if found else math.nan


def draw_curves(ax: Any, points: Sequence[Row], n_hidden: float, log: bool) -> None:
    """Mean and spread of each method's restarts over time; what has ended stays where it is."""
    all_seconds = [value for value in numbers(points, "seconds") if value > 0]
    if not all_seconds:
        return
    first, last = max(min(all_seconds), 1e-3), max(all_seconds)
    grid = np.geomspace(first, last, 200) if log else np.linspace(first, last, 200)
    for method in distinct(points, "method"):
        curves = curves_of(select(points, method=method))
        start = max(seconds[0] for seconds, _ in curves)
        own = grid[grid >= start] if (grid >= start).any() else grid[-1:]
        values = n_hidden * np.array(
            [scores[np.searchsorted(seconds, own, side="right") - 1] for seconds, scores in curves]
        )
        colour, mark = pictures.style_of(method)
        middle, width = values.mean(axis=0), values.std(axis=0)
        ax.plot(own, middle, color=colour, linewidth=1.2)
        ax.fill_between(own, middle - width, middle + width, color=colour, alpha=0.15)
        ax.plot(own[-1:], middle[-1:], marker=mark, color=colour, label=method)
    if log:
        ax.set_xscale("log")


def draw(figure: Any, results: Results, name: str, *, log: bool) -> None:
    """As published, as shipped, and the paper's ends of its curves."""
    published, shipped, theirs = pictures.panels(figure, PUBLISHED, SHIPPED, "the paper")
    truth = select(results.runs, method=TRUTH)
    n_hidden = mean(truth, "n_hidden")
    for ax, protocol in ((published, PUBLISHED), (shipped, SHIPPED)):
        draw_curves(ax, plain(select(results.points, protocol=protocol)), n_hidden, log)
        ax.axhline(n_hidden * mean(truth, "test_log_likelihood"), color="black", linestyle=":")
        ax.set_xlabel("seconds")
    ends = n_hidden * np.array(numbers(plain(results.runs), "test_log_likelihood"))
    # What is far below most would leave no room for them.
    lowest = max(ends.min(), np.median(ends) - 3.0 * (ends.max() - np.median(ends)))
    room = 0.15 * max(float(ends.max() - lowest), 1.0)
    for ax in (published, shipped):
        ax.set_ylim(lowest - room, ends.max() + room)
        pictures.legend(ax, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4)
    for value in paper.values(name):
        colour, mark = pictures.style_of(value.series)
        theirs.plot(value.x, value.y, marker=mark, color=colour, linestyle="", label=value.series)
    if log:
        theirs.set_xscale("log")
    theirs.set_xlabel("seconds, at the end of the curve")
    published.set_ylabel("test log-likelihood")
    pictures.legend(theirs, loc="best")


# ---------------------------------------------------------------- tables and claims


def ranking(results: Results, name: str, protocol: str) -> str:
    """Methods of a protocol by their final score, beside the paper's."""
    truth = select(results.runs, method=TRUTH)
    n_hidden = mean(truth, "n_hidden")
    order = sorted(paper.values(name), key=lambda value: -value.y)
    theirs = {value.series: (place, value) for place, value in enumerate(order, start=1)}
    runs = plain(select(results.runs, protocol=protocol))
    lines = [
        [
            f"*{TRUTH}*",
            pages.figure(n_hidden * mean(truth, "test_log_likelihood")),
            pages.decimals(mean(truth, "test_log_likelihood")),
            pages.decimals(mean(truth, "own_log_likelihood")),
            *["" for _ in range(6)],
        ]
    ]
    methods = distinct(runs, "method")
    methods.sort(key=lambda method: -mean(select(runs, method=method), "test_log_likelihood"))
    for method in methods:
        own = select(runs, method=method)
        found = sorted({int(value) for value in numbers(own, "n_components")})
        ending = "; ".join(distinct(own, "ending"))
        place, value = theirs.get(method, (None, None))
        total = n_hidden * mean(own, "test_log_likelihood")
        width = n_hidden * spread(own, "test_log_likelihood")
        lines.append(
            [
                method,
                f"{pages.figure(total)} ± {pages.figure(width)}",
                pages.decimals(mean(own, "test_log_likelihood")),
                pages.decimals(mean(own, "own_log_likelihood")),
                pages.figure(mean(own, "seconds")),
                pages.figure(arrivals(results, protocol, method)),
                pages.figure(mean(own, "iterations")),
                str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}",
                f"{ending} ({len(own)})",
                "" if value is None else f"{pages.figure(value.y)} ({place})",
            ]
        )
    return pages.table(
        [
            "method",
            "test log-likelihood",
            "an entry",
            "own density",
            "seconds",
            "arrived",
            "sweeps",
            "K",
            "ended by (runs)",
            "paper (rank)",
        ],
        lines,
    )


COLUMNS = (
    "Scores are sums over the hidden entries at one noise level for all, the paper's 0.75 standard "
    "deviations of the data; *an entry* is their mean; *own density* is the mean log-density of an "
    "entry by each model's own predictive density. *Arrived* is when a curve has left 2% of its "
    f"way. A run that ended by `{SPAN}` ran for all of its time and was still going."
)


STARTS = (
    "As published, the unbounded samplers start as the truncated ones do, from a draw of the true "
    "number of features, less those that no row has."
)


def score(results: Results, method: str, protocol: str = PUBLISHED) -> float:
    """The mean final score; NaN without a run."""
    runs = plain(select(results.runs, protocol=protocol, method=method))
    return mean(runs, "test_log_likelihood")


def was_cut(results: Results, method: str) -> bool:
    """Whether the limit cut one of a method's runs, as published."""
    runs = plain(select(results.runs, protocol=PUBLISHED, method=method))
    return any(row["ending"] == CUT for row in runs)


def ahead(results: Results, text: str, better: Sequence[str], worse: Sequence[str]) -> Claim:
    """The claim that each of some methods scores higher than each of others.

    What was cut may have risen further: where it is behind, nothing is decided.
    """

    def verdict(first: str, second: str) -> bool | None:
        higher = greater(score(results, first), score(results, second))
        behind = second if higher else first
        return None if was_cut(results, behind) else higher

    return compared(
        text,
        better,
        worse,
        verdict,
        lambda method: pages.decimals(score(results, method), 4) + _sign(results, method),
    )


def sooner(results: Results, text: str, better: Sequence[str], worse: Sequence[str]) -> Claim:
    """The claim that each of some methods has arrived before each of others.

    Where a curve that was cut would have arrived is not known.
    """

    def verdict(first: str, second: str) -> bool | None:
        if was_cut(results, first) or was_cut(results, second):
            return None
        times = (arrivals(results, PUBLISHED, method) for method in (second, first))
        return greater(*times)

    return compared(
        text,
        better,
        worse,
        verdict,
        lambda method: (
            f"{pages.figure(arrivals(results, PUBLISHED, method))} s{_sign(results, method)}"
        ),
    )


def _sign(results: Results, method: str) -> str:
    return " (cut)" if was_cut(results, method) else ""


def compared(
    text: str,
    better: Sequence[str],
    worse: Sequence[str],
    verdict: Callable[[str, str], bool | None],
    told: Callable[[str], str],
) -> Claim:
    """A claim about an order, with the values that it stands on."""
    verdicts = [verdict(a, b) for a in better for b in worse if a != b]
    detail = ", ".join(f"{method} {told(method)}" for method in dict.fromkeys((*better, *worse)))
    return Claim(text, all_of(verdicts), detail)
