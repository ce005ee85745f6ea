"""Figure 2: how many constant-time updates a local search takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from ibp.clock import present_clock
from ibp.reproduce import pages, paper, pictures
from ibp.reproduce.protocols import PUBLISHED, SHIPPED
from ibp.reproduce.study import Cell, Claim, Options, Outcome, Page, Results, Study
from ibp.reproduce.tables import Row, mean, number, select, settings_text

SIZES, QUICK_SIZES = (25, 50, 100, 200, 300, 400, 500), (20, 40, 80)
N_ROWS, N_FEATURES, N_SETS = 1000, 1000, 3
QUICK_ROWS, QUICK_SETS = 200, 1
# How many features a row has: half of all, a few whatever K is, or as many as in an IBP whose mass
# is such that K features are expected in all, that is K / H_N with H_N = 1 + 1/2 + ... + 1/N.
HALF, FEW, BUFFET = "half", "few", "buffet"
FEATURES_WHERE_FEW = 10
TOLD = {
    HALF: "half of the features active",
    FEW: f"{FEATURES_WHERE_FEW} features active",
    BUFFET: "K / H_N features active",
}
# Whether the complement and exchanges are tried.
SEARCHES = {PUBLISHED: ("local search", False), SHIPPED: ("local search, exchanges", True)}


def cells(options: Options) -> list[Cell]:
    """One for each number of features, kind of rows and data set."""
    sizes, n_sets = (QUICK_SIZES, QUICK_SETS) if options.quick else (SIZES, N_SETS)
    return [
        Cell(
            f"{active}, K={k}, data set {number}",
            {
                "K": k,
                "active": active,
                "data_set": number,
                "n_rows": QUICK_ROWS if options.quick else N_ROWS,
            },
            seconds=0.2 + 4.0 * (k / 500.0) ** 2,
        )
        for active in TOLD
        for k in sizes
        for number in range(n_sets)
    ]


def probabilities(active: str, k: int, n_rows: int) -> npt.NDArray[np.float64]:
    """That a row has a feature, of each feature."""
    if active == HALF:
        return np.full(k, 0.5)
    if active == FEW:
        return np.full(k, min(0.5, FEATURES_WHERE_FEW / k))
    return np.full(k, 1.0 / harmonic(n_rows))


def harmonic(n_rows: int) -> float:
    """The sum of 1 / n."""
    return float(np.sum(1.0 / np.arange(1, n_rows + 1)))


def run(cell: Cell, options: Options) -> Outcome:
    """Count the updates of every row."""
    from ibp.reproduce.rows import draw_factors, draw_problems
    from ibp.submodular import batch
    from ibp.submodular.maximize import NO_LIMIT
    from ibp.submodular.records import Search

    given = cell.parameters
    k, active, n_rows = given["K"], given["active"], given["n_rows"]
    rng = np.random.default_rng([2, k, list(TOLD).index(active), given["data_set"]])
    z = rng.random((n_rows, k)) < probabilities(active, k, n_rows)
    problems = draw_problems(z, draw_factors(k, N_FEATURES, rng), rng)
    rows: list[Row] = []
    for protocol, (name, thorough) in SEARCHES.items():
        search = Search(batch.LOCAL_SEARCH, NO_LIMIT, thorough, thorough)
        chosen = np.zeros(z.shape, dtype=np.uint8)
        batch.optimize_rows(
            problems.linear[:1], problems.quadratic, chosen[:1].copy(), search, None
        )
        clock = present_clock()
        started = clock()
        _, updates, _ = batch.optimize_rows(
            problems.linear, problems.quadratic, chosen, search, None
        )
        seconds = clock() - started
        rows.append(
            {
                "protocol": protocol,
                "method": name,
                "settings": settings_text(K=k, N=n_rows, D=N_FEATURES, active=active),
                "seed": given["data_set"],
                "seconds": seconds,
                "iterations": n_rows,
                "n_components": k,
                "ending": "converged",
                "updates": float(np.mean(updates)),
                "updates_std": float(np.std(updates)),
                "chosen": float(chosen.sum(axis=1).mean()),
                "right": float(np.mean(chosen == problems.true)),
            }
        )
    return Outcome(rows)


def fitted_constant(sizes: list[float], updates: list[float]) -> float:
    """The c of c K ln K, by least squares."""
    growth = np.array(sizes) * np.log(sizes)
    return float(growth @ np.array(updates) / (growth @ growth))


class Exponent(NamedTuple):
    """A slope on logarithmic axes, and how far from it the true one may be (95%)."""

    value: float
    margin: float

    def __str__(self) -> str:
        margin = pages.decimals(self.margin, 2)
        return f"K^{pages.decimals(self.value, 2)} (± {margin})"

    @property
    def below_two(self) -> bool | None:
        """Whether it is; None where the margin reaches."""
        if math.isnan(self.margin) or abs(self.value - 2.0) <= self.margin:
            return None
        return self.value < 2.0


def exponent(sizes: Sequence[float], updates: Sequence[float]) -> Exponent:
    """How updates grow over the upper half of the sizes, by least squares."""
    half = len(sizes) // 2
    points = len(sizes) - half
    if points < 2:
        return Exponent(math.nan, math.nan)
    fit = stats.linregress(np.log(sizes[half:]), np.log(updates[half:]))
    # Two points leave nothing to tell an error from.
    margin = stats.t.ppf(0.975, points - 2) * fit.stderr if points > 2 else math.nan
    return Exponent(float(fit.slope), float(margin))


def _series(results: Results, active: str, protocol: str) -> tuple[list[float], list[list[Row]]]:
    rows = select(results.runs, active=active, protocol=protocol)
    sizes = sorted({number(row, "n_components") for row in rows})
    return sizes, [[row for row in rows if number(row, "n_components") == k] for k in sizes]


def draw(figure: Any, results: Results) -> None:
    """The three kinds of rows, each with the paper's curve."""
    axes = pictures.panels(figure, *TOLD.values())
    theirs = paper.values("figure-2")
    for ax, active in zip(axes, TOLD, strict=True):
        sizes, groups = _series(results, active, PUBLISHED)
        updates = [mean(rows, "updates") for rows in groups]
        ax.errorbar(
            sizes,
            updates,
            [mean(rows, "updates_std") for rows in groups],
            marker="o",
            color=pictures.COLOURS[0],
            label="here, with the spread over rows",
        )
        smooth = np.linspace(sizes[0], sizes[-1], 100)
        constant = fitted_constant(sizes, updates)
        ax.plot(
            smooth,
            constant * smooth * np.log(smooth),
            ":",
            color=pictures.COLOURS[1],
            label=f"{constant:.3g} K ln K",
        )
        ax.plot(
            [value.x for value in theirs],
            [value.y for value in theirs],
            "s--",
            color=pictures.PAPER_COLOUR,
            label="the paper",
        )
        ax.set_xlabel("latent features (K)")
        pictures.legend(ax, loc="upper left")
    axes[0].set_ylabel("updates per search")


def describe(results: Results) -> Page:
    """Updates beside the paper's, and how they grow."""
    theirs = {value.x: value.y for value in paper.values("figure-2")}
    lines = []
    exponents = {}
    for active in TOLD:
        sizes, groups = _series(results, active, PUBLISHED)
        updates = [mean(rows, "updates") for rows in groups]
        exponents[active] = exponent(sizes, updates)
        if not sizes:
            continue
        constant = fitted_constant(sizes, updates)
        for k, rows, count in zip(sizes, groups, updates, strict=True):
            lines.append(
                [
                    active,
                    f"{k:.0f}",
                    pages.figure(count),
                    pages.figure(mean(rows, "updates_std")),
                    pages.figure(mean(rows, "chosen")),
                    pages.decimals(count / k / (mean(rows, "chosen") + 1.0), 2),
                    pages.decimals(count / (constant * k * np.log(k)), 2),
                    pages.figure(theirs.get(k, np.nan)),
                ]
            )
    grown = "; ".join(f"{TOLD[a]}: {exponents[a]}" for a in TOLD)
    return Page(
        paper=[
            "Updates of one local search on rows of the nonnegative linear-Gaussian model "
            "(N = 1000, D = 1000, unit noise), close to a constant times K log K, below the bound "
            "K^3 log K. How many features a row has is not told. The values are read off the plot."
        ],
        seen=[
            "As published, from the empty set; an update is the evaluation of one element's gain. "
            "`chosen` is how many features the search ends with; the last but one column is the "
            "count over the best fit of c K ln K. In the rows *buffet* each feature has the "
            "probability 1 / H_N, where H_N = 1 + 1/2 + ... + 1/N is "
            f"{harmonic(N_ROWS):.2f} for N = {N_ROWS}: so many features has a row of an IBP in "
            "which K are expected in all.",
            pages.table(
                [
                    "rows",
                    "K",
                    "updates",
                    "spread",
                    "chosen",
                    "updates / K (chosen + 1)",
                    "over c K ln K",
                    "paper",
                ],
                lines,
            ),
            f"Growth over the upper half of the sizes, with its error (95%): {grown}.",
        ],
        claims=[
            Claim(
                f"updates grow less than quadratically ({TOLD[active]})",
                value.below_two,
                f"like {value}",
            )
            for active, value in exponents.items()
        ],
        differ=[
            "A search that begins with nothing adds one element at a time, and looks at all K "
            "before each, so that it takes K updates for every feature that it ends with, and K or "
            "2 K to see that it is done: the column of `updates / K (chosen + 1)` is near one "
            "whatever K is. With half of the features active that is K^2 / 2, with K / H_N of them "
            "K^2 / H_N, quadratic as well whatever slope these sizes show; with few active it is K "
            "times a constant. K log K is none of these; it comes out where the number of features "
            "of a row grows slowly with K, so the paper's rows may have been of that kind."
        ],
    )


STUDY = Study(
    "figure-2",
    "Figure 2: updates of a local search",
    cells,
    run,
    draw,
    describe,
    figure_size=(12.0, 3.6),
)
