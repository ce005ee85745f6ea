"""Table 1: how the time of a sweep grows with N, K and D, beside the paper's formulae."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.datasets import make_binary_factors
from ibp.reproduce import pages, pictures
from ibp.reproduce.protocols import PUBLISHED, SHIPPED, estimator
from ibp.reproduce.running import CUT
from ibp.reproduce.study import Cell, Claim, Options, Outcome, Page, Results, Study, all_of, greater
from ibp.reproduce.tables import Row, number, select, settings_of, settings_text

VARIABLES = ("N", "K", "D")
BASE = {"N": 2000, "K": 16, "D": 128}
SIZES: dict[str, tuple[int, ...]] = {
    "N": (1000, 2000, 4000, 8000),
    "K": (8, 16, 32, 64),
    "D": (128, 256, 512, 1024),
}
QUICK_BASE = {"N": 200, "K": 4, "D": 32}
QUICK_SIZES: dict[str, tuple[int, ...]] = {"N": (200, 400), "K": (4, 8), "D": (32, 64)}
# A beam looks at 2^K sets of a row, so it has a smaller base.
BEAM_BASE = {"N": 400, "K": 4, "D": 64}
BEAM_SIZES: dict[str, tuple[int, ...]] = {
    "N": (200, 400, 800, 1600),
    "K": (2, 4, 6, 8),
    "D": (64, 128, 256, 512),
}
SWEEPS = 5
# A slope that is above by less is not above.
MARGIN = 0.15
TIME_LIMIT = 20.0


@dataclass(frozen=True)
class Formula:
    """Operations of an iteration but for a factor, as the paper has them."""

    text: str
    operations: Callable[[float, float, float], float]


VIBP = Formula("N K² D", lambda n, k, d: n * k**2 * d)
FORMULAE = {
    "meibp": Formula("N (K² D + K³ ln K)", lambda n, k, d: n * (k**2 * d + k**3 * math.log(k))),
    "i-vibp": VIBP,
    "f-vibp": VIBP,
    "t-aibp": Formula("N (K² + K D)", lambda n, k, d: n * (k**2 + k * d)),
    "t-ugibbs": VIBP,
    "bs-ibp": Formula("N³ (K + D) 2^K", lambda n, k, d: n**3 * (k + d) * 2.0**k),
    "inmf": Formula("N (K³ D + K D²)", lambda n, k, d: n * (k**3 * d + k * d**2)),
    "bnmf": Formula("N (K² + K D)", lambda n, k, d: n * (k**2 + k * d)),
}
METHODS = [(PUBLISHED, label) for label in FORMULAE] + [(SHIPPED, "meibp-default")]


def _sizes(label: str, options: Options) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    if options.quick:
        return QUICK_BASE, QUICK_SIZES
    return (BEAM_BASE, BEAM_SIZES) if label == "bs-ibp" else (BASE, SIZES)


def cells(options: Options) -> list[Cell]:
    """One for each method, variable and size."""
    found = []
    for protocol, label in METHODS:
        base, sizes = _sizes(label, options)
        for variable in VARIABLES:
            for size in sizes[variable]:
                found.append(
                    Cell(
                        f"{protocol}, {label}, {variable}={size}",
                        {"protocol": protocol, "label": label, "variable": variable}
                        | base
                        | {variable: size}
                        | {"time_limit": options.limit(TIME_LIMIT, TIME_LIMIT)},
                        seconds=2.0,
                    )
                )
    return found


def run(cell: Cell, options: Options) -> Outcome:
    """The quickest of a few sweeps."""
    given = cell.parameters
    n, k, d = (given[variable] for variable in VARIABLES)
    protocol, label = given["protocol"], given["label"]
    drawn = make_binary_factors(n, d, k, random_state=0)
    model = _from_truth(protocol, label, drawn, given["time_limit"])
    small = make_binary_factors(64, d, k, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _from_truth(protocol, label, small, None).fit(small.data)  # compiles
        model.fit(drawn.data)
    sweeps = whole_sweeps(model.history_["seconds"], cut=model.ending_ == CUT)
    return Outcome(
        [
            {
                "protocol": protocol,
                "method": label,
                "settings": settings_text(variable=given["variable"], N=n, K=k, D=d),
                "seed": 0,
                "seconds": float(sweeps.min()) if sweeps.size else None,
                "iterations": model.n_iter_,
                "n_components": model.n_components_,
                "ending": model.ending_,
                "time_limit": given["time_limit"],
            }
        ]
    )


def whole_sweeps(ends: Sequence[float], *, cut: bool) -> npt.NDArray[np.float64]:
    """Seconds of the sweeps that count, from when each ended.

    One that the limit broke off is none. The first is not like the others, and counts if it is the
    only one: a beam has one pass.
    """
    seconds = np.diff([0.0, *ends])
    if cut:
        seconds = seconds[:-1]
    return seconds[1:] if seconds.size > 1 else seconds


def _from_truth(protocol: str, label: str, drawn: Any, time_limit: float | None) -> Any:
    """An estimator that starts with all features, so that their number stays what it is.

    Of MEIBP that would be the end, too, and nothing would be left to do for its second sweep.
    """
    k = drawn.factors.shape[0]
    changes: dict[str, Any] = {
        "max_iter": SWEEPS,
        "tol": 0.0,
        "time_limit": time_limit,
        "random_state": 0,
    }
    if label in ("meibp", "meibp-default"):
        changes |= {"init": "random", "moves": False}
    elif label != "bs-ibp":
        changes["init"] = {"Z": drawn.assignments.astype(np.float64), "A": drawn.factors}
    return estimator(protocol, label, k, **changes)


def slope(rows: Sequence[Row], variable: str, seconds: Callable[[Row], float]) -> float:
    """On logarithmic axes, over the upper half of the sizes."""
    points = sorted((float(_setting(row, variable)), seconds(row)) for row in rows)
    points = [point for point in points if point[1] > 0]
    if len(points) < 2:
        return math.nan
    sizes, values = zip(*points[min(len(points) // 2, len(points) - 2) :], strict=True)
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _setting(row: Row, name: str) -> str:
    return settings_of(row)[name]


def _by_formula(formula: Formula) -> Callable[[Row], float]:
    return lambda row: formula.operations(*(float(_setting(row, name)) for name in VARIABLES))


def draw(figure: Any, results: Results) -> None:
    """Seconds of a sweep against each size; dotted, the paper's formula through the last point."""
    axes = pictures.panels(figure, *(f"growth with {variable}" for variable in VARIABLES))
    for ax, variable in zip(axes, VARIABLES, strict=True):
        for protocol, label in METHODS:
            rows = select(results.runs, protocol=protocol, method=label, variable=variable)
            rows.sort(key=lambda row: float(_setting(row, variable)))
            if not rows:
                continue
            colour, mark = pictures.style_of(label)
            sizes = [float(_setting(row, variable)) for row in rows]
            seconds = [number(row, "seconds") for row in rows]
            name = label if protocol == PUBLISHED else f"{label} ({protocol})"
            ax.plot(sizes, seconds, marker=mark, color=colour, label=name, markersize=4)
            if label in FORMULAE:
                operations = [_by_formula(FORMULAE[label])(row) for row in rows]
                scaled = [value * seconds[-1] / operations[-1] for value in operations]
                ax.plot(sizes, scaled, ":", color=colour, linewidth=1)
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter("")  # labels between the powers of ten would overlap
        ax.set_yscale("log")
        ax.set_xlabel(variable)
    axes[0].set_ylabel("seconds of a sweep")
    pictures.legend(axes[-1], loc="upper left", bbox_to_anchor=(1.0, 1.0))


def describe(results: Results) -> Page:
    """Slopes, measured and by the formulae."""
    lines, above, judged = [], [], []
    for protocol, label in METHODS:
        formula = FORMULAE.get(label, FORMULAE["meibp"])
        line = [label, protocol, formula.text]
        for variable in VARIABLES:
            rows = select(results.runs, protocol=protocol, method=label, variable=variable)
            own = slope(rows, variable, lambda row: number(row, "seconds"))
            theirs = slope(rows, variable, _by_formula(formula))
            line += [pages.decimals(theirs, 2), pages.decimals(own, 2)]
            faster = greater(own, theirs + MARGIN)
            judged.append(None if faster is None else not faster)
            if faster:
                above.append(f"{label} ({protocol}) in {variable}: {own:.2f} against {theirs:.2f}")
        lines.append(line)
    header = ["method", "protocol", "formula"]
    for variable in VARIABLES:
        header += [f"{variable}: formula", "measured"]
    return Page(
        paper=[
            "Worst-case operations of an iteration, for N rows, D dimensions and K features. The "
            "formula of BNMF stands in the text, not in the table."
        ],
        seen=[
            "Slopes of the seconds of a sweep on logarithmic axes, over the upper half of the "
            "sizes, beside those of the formula over the same sizes. Fits start from the true "
            "features of synthetic data, with one thread; the quickest of the second to the fifth "
            "sweep counts. Of beam search it is the pass over all rows. MEIBP, and meibp-default "
            "with it, starts from random features and without moves, so that rows still change "
            "and sweeps are all alike. A sweep that the limit broke off does not count.",
            pages.table(header, lines),
            *(text for text in [pages.cut_runs(results.runs)] if text),
        ],
        claims=[
            Claim(
                "no method grows faster than its formula",
                all_of(judged),
                "; ".join(above)
                if above
                else f"no slope that was measured is above by more than {MARGIN:g}",
            )
        ],
        differ=[
            "Formulae are worst cases. Sums that the paper's methods make anew are kept up to date "
            "here (Z'Z, Z'X and, in beam search, what the parent of a set knows), so that measured "
            "slopes in K and, of beam search, in N are lower; what does not grow, such as the work "
            "for each row, lowers them further at these sizes."
        ],
    )


STUDY = Study(
    "table-1",
    "Table 1: the complexity of an iteration",
    cells,
    run,
    draw,
    describe,
    figure_size=(13.0, 4.0),
)
