"""Figure 2: how many constant-time updates a local search takes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.reproduce import pages, paper, pictures
from ibp.reproduce.protocols import PUBLISHED, SHIPPED
from ibp.reproduce.study import Cell, Claim, Options, Outcome, Page, Results, Study
from ibp.reproduce.tables import Row, mean, number, select, settings_text

SIZES, QUICK_SIZES = (25, 50, 100, 200, 300, 400, 500), (20, 40, 80)
N_ROWS, N_FEATURES, N_SETS = 1000, 1000, 3
QUICK_ROWS, QUICK_SETS = 200, 1
# How many features a row has: half of all, a few whatever K is, or as many as in an IBP whose mass
# is such that K features are expected in all.
HALF, FEW, BUFFET = "half", "few", "buffet"
FEATURES_WHERE_FEW = 10
TOLD = {
    HALF: "half of the features active",
    FEW: f"{FEATURES_WHERE_FEW} features active",
    BUFFET: "K / ln N features active, as in an IBP",
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
    harmonic = float(np.sum(1.0 / np.arange(1, n_rows + 1)))
    return np.full(k, 1.0 / harmonic)  # K / H_N features a row, in expectation


def run(cell: Cell, options: Options) -> Outcome:
    """Count the updates of every row."""
    from ibp.reproduce.rows import draw_problems
    from ibp.submodular import batch
    from ibp.submodular.maximize import NO_LIMIT
    from ibp.submodular.records import Search

    given = cell.parameters
    k, active, n_rows = given["K"], given["active"], given["n_rows"]
    rng = np.random.default_rng([2, k, list(TOLD).index(active), given["data_set"]])
    z = rng.random((n_rows, k)) < probabilities(active, k, n_rows)
    problems = draw_problems(z, N_FEATURES, rng)
    rows: list[Row] = []
    for protocol, (name, thorough) in SEARCHES.items():
        search = Search(batch.LOCAL_SEARCH, NO_LIMIT, thorough, thorough)
        chosen = np.zeros(z.shape, dtype=np.uint8)
        batch.optimize_rows(
            problems.linear[:1], problems.quadratic, chosen[:1].copy(), search, None
        )
        started = time.perf_counter()
        _, updates, _ = batch.optimize_rows(
            problems.linear, problems.quadratic, chosen, search, None
        )
        seconds = time.perf_counter() - started
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


def exponent(sizes: list[float], updates: list[float]) -> float:
    """The slope on logarithmic axes, over the upper half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(updates[half:]), 1)[0])


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
    grown = "; ".join(f"{TOLD[a]}: K^{exponents[a]:.2f}" for a in TOLD)
    return Page(
        paper=[
            "Updates of one local search on rows of the nonnegative linear-Gaussian model "
            "(N = 1000, D = 1000, unit noise), close to a constant times K log K, below the bound "
            "K^3 log K. How many features a row has is not told. The values are read off the plot."
        ],
        seen=[
            "As published, from the empty set; an update is the evaluation of one element's gain. "
            "`chosen` is how many features the search ends with; the last but one column is the "
            "count over the best fit of c K ln K.",
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
            f"Growth over the upper half of the sizes: {grown}.",
        ],
        claims=[
            Claim(
                f"updates grow less than quadratically ({TOLD[active]})",
                bool(value < 1.95),
                f"like K^{value:.2f}",
            )
            for active, value in exponents.items()
        ],
        differ=[
            "A search that begins with nothing adds one element at a time, and looks at all K "
            "before each, so that it takes K updates for every feature that it ends with, and K or "
            "2 K to see that it is done: the column of `updates / K (chosen + 1)` is near one "
            "whatever K is. With half of the features active that is K^2 / 2, with few active it "
            "is K times a constant. K log K is neither; it comes out where the number of features "
            "of a row grows slowly with K, so the paper's rows must have been of that kind."
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
