"""What the three parts of figure 4 share: fits of every method at K = 10, 25, 50 and unbounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ibp.errors import InvalidValueError
from ibp.evaluate import HeldOut
from ibp.reproduce import pages, paper, pictures
from ibp.reproduce.fits import Fit, Task, fit_after, fit_cell, fit_of, run_fit
from ibp.reproduce.protocols import PUBLISHED, SHIPPED
from ibp.reproduce.running import CUT, restarts
from ibp.reproduce.study import Cell, Claim, Options, Outcome, Page, Results, Study, all_of, greater
from ibp.reproduce.tables import Row, distinct, mean, numbers, select, settings_of, spread

SIZES, QUICK_SIZES = (10, 25, 50), (5,)
LIMIT, QUICK_LIMIT = 45.0, 0.5
# Restarts of a setting, less the first, may take so long together.
RESTART_SECONDS = 60.0
TRUNCATED = ("meibp", "bnmf", "i-vibp", "f-vibp", "t-aibp", "t-ugibbs")
UNBOUNDED = ("aibp", "ugibbs")
OURS = ("meibp-default", "meibp-weighted")
VARIATIONAL = ("i-vibp", "f-vibp")
QUICK_ROWS = 300
# Rows of MEIBP, as published, between updates of q(A). After every row, as the authors' code has
# it, a sweep of these sets takes from seven seconds to minutes; the paper does not ask for it.
BLOCK_SIZE = 64
FRACTION = 0.2
# What the data of quick runs are called.
STAND_IN = "digits"
AN_ORDER, A_THIRD = 10.0, 3.0
# Marks of unbounded methods are the largest and faded.
MARK_SIZES = {"5": 4.0, "10": 4.0, "25": 7.0, "50": 10.0, "": 13.0}


@dataclass(frozen=True, eq=False)
class Version:
    """One form of the data: how it is called, its hidden entries, and who is fitted to it.

    Attributes
    ----------
    name : str
        In settings and tables.
    load : callable
        Makes the held-out data from the folder.
    truncated, unbounded, shipped : sequence of str
        Labels that are fitted at every K, without one, and under the second protocol.
    extra : sequence of (str, int)
        Further labels of the first protocol, each at one K.
    papers_size : bool
        Whether the paper's data are of this size, so that its values can stand beside.
    """

    name: str
    load: Callable[[Path], HeldOut]
    truncated: Sequence[str] = TRUNCATED
    unbounded: Sequence[str] = UNBOUNDED
    shipped: Sequence[str] = OURS
    extra: Sequence[tuple[str, int]] = ()
    papers_size: bool = True


@dataclass(frozen=True, eq=False)
class RealSet:
    """A part of figure 4.

    Attributes
    ----------
    name, title : str
        Of the study.
    versions : sequence of Version
        The first is the one that is drawn, and that the claims are about.
    stand_in : callable
        Makes held-out digits, for quick runs.
    told : str
        What the paper says.
    differ : sequence of str
        Where our data differ from the paper's.
    claims : callable
        What the paper claims of this set.
    """

    name: str
    title: str
    versions: Sequence[Version]
    stand_in: Callable[[], HeldOut]
    told: str
    differ: Sequence[str]
    claims: Callable[[Results], list[Claim]]

    def study(self) -> Study:
        """The study of this set."""
        return Study(
            self.name,
            self.title,
            self.cells,
            self.run,
            self.draw,
            self.describe,
            figure_size=(14.0, 4.6),
            restart_seconds=RESTART_SECONDS,
        )

    def cells(self, options: Options) -> list[Cell]:
        """All methods, K and versions."""
        self.folder(options)
        limit = options.limit(LIMIT, QUICK_LIMIT)
        sizes = QUICK_SIZES if options.quick else SIZES
        found: list[Cell] = []
        for place, version in enumerate(self.versions):
            if options.quick and place > 0:
                break
            fits: list[tuple[str, str, int | None]]
            fits = [(PUBLISHED, label, k) for label in version.truncated for k in sizes]
            fits += [(PUBLISHED, label, None) for label in version.unbounded]
            fits += [
                (PUBLISHED, label, sizes[-1] if options.quick else k) for label, k in version.extra
            ]
            fits += [(SHIPPED, label, k) for label in version.shipped for k in (*sizes, None)]
            for protocol, label, k in fits:
                fit = Fit(protocol, label, k, 0, limit)
                cell = fit_cell(fit, version=place)
                if place > 0:
                    cell = Cell(f"{version.name}, {cell.name}", cell.parameters, "", 0, limit)
                found += restarts(cell, options.n_restarts)
        return found

    def folder(self, options: Options) -> Path:
        """Where the data are, if they are needed."""
        if options.quick:
            return Path()
        if options.data is None:
            raise InvalidValueError(
                f"{self.name} needs its data",
                "name their folder with --data, or add --quick to see it work on digits",
            )
        if not options.data.is_dir():
            raise InvalidValueError("is not a folder", about=str(options.data))
        for version in self.versions:  # now rather than in an hour
            version.load(options.data)
        return options.data

    def run(self, cell: Cell, options: Options) -> Outcome:
        """Fit and score."""
        given = cell.parameters
        task = _task(self, given["version"], options)
        blocks = {"block_size": BLOCK_SIZE} if given["label"] == "meibp" else {}
        fit = fit_of(cell, changes=blocks, remarks=blocks)
        if fit.label == "meibp+aibp":
            return fit_after("meibp", fit, task, {"block_size": BLOCK_SIZE})
        return run_fit(fit, task)

    def draw(self, figure: Any, results: Results) -> None:
        """Convergence time against test log-likelihood: here under both protocols, the paper's."""
        published, shipped, theirs = pictures.panels(figure, PUBLISHED, SHIPPED, "the paper")
        runs = self.main_runs(results)
        for ax, protocol in ((published, PUBLISHED), (shipped, SHIPPED)):
            own = select(runs, protocol=protocol)
            for method in distinct(own, "method"):
                for rows in _by_size(select(own, method=method)):
                    _mark(ax, rows, method)
            ax.set_xscale("log")
            ax.set_xlabel("seconds; hollow where the limit cut")
            pictures.legend(ax, loc="best", markerscale=0.6)
        low = min(ax.get_ylim()[0] for ax in (published, shipped))
        high = max(ax.get_ylim()[1] for ax in (published, shipped))
        for ax in (published, shipped):
            ax.set_ylim(low, high)
        published.set_ylabel("test log-likelihood")
        for value in paper.values(self.name):
            colour, mark = pictures.style_of(value.series)
            size = MARK_SIZES["" if value.note == "unbounded" else value.note.removeprefix("K=")]
            theirs.plot(
                value.x,
                value.y,
                mark,
                color=colour,
                markersize=size,
                alpha=0.4 if value.note == "unbounded" else 1.0,
                label=value.series,
            )
        theirs.set_xscale("log")
        theirs.set_xlabel("seconds")
        pictures.legend(theirs, loc="best", markerscale=0.6)

    def main_runs(self, results: Results) -> list[Row]:
        """Those of the first version, which the figure is about."""
        return select(results.runs, data=self.versions[0].name) or select(
            results.runs, data=STAND_IN
        )

    def describe(self, results: Results) -> Page:
        """Tables of all settings, the paper's values beside them, and its claims."""
        runs = self.main_runs(results)
        seen = [
            "Fits end by the paper's rule (as shipped: by their own), or at their limit. Scores "
            "are sums over the hidden entries at one noise level for all, the paper's 0.75 "
            "standard deviations of the data; *own density* is the mean log-density of an entry by "
            "each model's own predictive density. As published, MEIBP updates q(A) after every "
            f"{BLOCK_SIZE} rows: after every row, as the authors' code does, few sweeps would fit "
            f"into the limit. {pages.restarts_told(results.runs)} There are fewer where those "
            f"after the first would take more than {RESTART_SECONDS:.0f} seconds together, and "
            "one where that was cut. The unbounded samplers start with a draw from their prior.",
        ]
        sizes_of_paper = {version.name for version in self.versions if version.papers_size}
        for name in distinct(results.runs, "data"):
            own = select(results.runs, data=name)
            size = settings_of(own[0])
            seen.append(f"{name}, {int(size['N']):,} x {int(size['D']):,}:")
            for protocol in (PUBLISHED, SHIPPED):
                rows = select(own, protocol=protocol)
                if rows:
                    seen += [f"{protocol.capitalize()}:", self.table(rows, name in sizes_of_paper)]
        cut = pages.cut_runs(results.runs)
        return Page(
            paper=[self.told, "The values are read off the plot."],
            seen=[*seen, *([cut] if cut else [])],
            claims=self.claims(Results(runs)),
            orders=[
                ahead(runs, "MEIBP ends above the variational methods", ["meibp"], VARIATIONAL),
                ahead(runs, "MEIBP ends above truncated UGibbs", ["meibp"], ["t-ugibbs"]),
                quicker(
                    runs,
                    "MEIBP is quicker than AIBP by one order of magnitude",
                    ["meibp"],
                    ["t-aibp"],
                    AN_ORDER,
                ),
            ],
            differ=list(self.differ),
        )

    def table(self, rows: Sequence[Row], with_paper: bool) -> str:
        """A line for each method and K."""
        theirs = {(v.series, v.note): v for v in paper.values(self.name)}
        lines = []
        for method in distinct(rows, "method"):
            for own in _by_size(select(rows, method=method)):
                k = settings_of(own[0]).get("K", "")
                value = theirs.get((method, f"K={k}" if k else "unbounded"))
                n_hidden = mean(own, "n_hidden")
                found = sorted({int(x) for x in numbers(own, "n_components")})
                beside = (
                    pages.DASH
                    if value is None or not with_paper
                    else (f"{pages.figure(value.y)} in {pages.figure(value.x)} s")
                )
                lines.append(
                    [
                        method,
                        k or pages.DASH,
                        str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}",
                        pages.figure(n_hidden * mean(own, "test_log_likelihood")),
                        pages.figure(n_hidden * spread(own, "test_log_likelihood")),
                        pages.decimals(mean(own, "test_log_likelihood")),
                        pages.decimals(mean(own, "own_log_likelihood")),
                        pages.figure(mean(own, "seconds")),
                        pages.figure(mean(own, "iterations")),
                        f"{'; '.join(distinct(own, 'ending'))} ({len(own)})",
                        beside,
                    ]
                )
        return pages.table(
            [
                "method",
                "K",
                "K found",
                "test log-likelihood",
                "spread",
                "an entry",
                "own density",
                "seconds",
                "sweeps",
                "ended by (runs)",
                "paper",
            ],
            lines,
        )


@lru_cache(maxsize=1)
def _task(real: RealSet, place: int, options: Options) -> Task:
    """The data of a version, kept by the process that works on it."""
    if options.quick:
        return Task.of(real.stand_in(), data=STAND_IN)
    version = real.versions[place]
    assert options.data is not None  # it was asked for when cells were made
    return Task.of(version.load(options.data), data=version.name)


def digits() -> tuple[Any, Any]:
    """Some of scikit-learn's digits, ordered by what they show, 0 to 1."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rows = np.argsort(found.target[:QUICK_ROWS], kind="stable")
    return (found.data[rows] / 16.0).astype(np.float32), found.target[rows]


def block_of_digits() -> HeldOut:
    """Digits with a fifth of the columns hidden in the last half of the rows."""
    data, _ = digits()
    return HeldOut.of(data[np.random.default_rng(0).permutation(len(data))], 0, fraction=FRACTION)


def _by_size(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one method apart by K, those without last."""
    sizes = {settings_of(row).get("K", "") for row in rows}
    ordered = sorted(sizes, key=lambda k: (k == "", float(k or 0)))
    return [[row for row in rows if settings_of(row).get("K", "") == k] for k in ordered]


def _mark(ax: Any, rows: Sequence[Row], method: str) -> None:
    """A mark with the spread of time and score; its size says K."""
    colour, mark = pictures.style_of(method)
    k = settings_of(rows[0]).get("K", "")
    cut = any(row["ending"] == CUT for row in rows)
    n_hidden = mean(rows, "n_hidden")
    ax.errorbar(
        max(mean(rows, "seconds"), 1e-3),
        n_hidden * mean(rows, "test_log_likelihood"),
        xerr=min(spread(rows, "seconds"), 0.9 * mean(rows, "seconds")),
        yerr=n_hidden * spread(rows, "test_log_likelihood"),
        marker=mark,
        color=colour,
        markerfacecolor="white" if cut else colour,
        markersize=MARK_SIZES.get(k, 5.0),
        alpha=1.0 if k else 0.4,
        linestyle="",
        label=method,
    )


# ---------------------------------------------------------------- claims


def ahead(runs: Sequence[Row], text: str, better: Sequence[str], worse: Sequence[str]) -> Claim:
    """The claim that methods score higher than others at every K that both have.

    What was cut may have risen further: where it is behind, nothing is decided.
    """

    def verdict(own: Sequence[Row], other: Sequence[Row]) -> bool | None:
        higher = greater(mean(own, "test_log_likelihood"), mean(other, "test_log_likelihood"))
        return None if _cut(other if higher else own) else higher

    return _compared(
        runs,
        text,
        better,
        worse,
        verdict,
        lambda rows: pages.decimals(mean(rows, "test_log_likelihood")),
    )


def quicker(
    runs: Sequence[Row],
    text: str,
    better: Sequence[str],
    worse: Sequence[str],
    times: float = 1.0,
) -> Claim:
    """The claim that methods take so many times less time than others at every K.

    Of a run that was cut it is known only that it takes longer than that.
    """

    def verdict(own: Sequence[Row], other: Sequence[Row]) -> bool | None:
        holds = greater(mean(other, "seconds"), times * mean(own, "seconds"))
        return None if _cut(other if holds is False else own) else holds

    return _compared(
        runs, text, better, worse, verdict, lambda rows: f"{pages.figure(mean(rows, 'seconds'))} s"
    )


def _cut(rows: Sequence[Row]) -> bool:
    return any(row["ending"] == CUT for row in rows)


def _compared(
    runs: Sequence[Row],
    text: str,
    better: Sequence[str],
    worse: Sequence[str],
    verdict: Callable[[Sequence[Row], Sequence[Row]], bool | None],
    told: Callable[[Sequence[Row]], str],
) -> Claim:
    """A claim that is tested at every K, for every pair of methods."""
    verdicts, parts = [], []
    for first in better:
        own = _at_sizes(runs, first)
        for method in worse:
            for k, rows in _at_sizes(runs, method).items():
                if k not in own:
                    continue
                verdicts.append(verdict(own[k], rows))
                parts.append(
                    f"K = {k}: {first} {told(own[k])}{_sign(own[k])} and "
                    f"{method} {told(rows)}{_sign(rows)}"
                )
    if not verdicts:
        return Claim(text, None, "no run")
    counts = f"{verdicts.count(True)} of {len(verdicts)}"
    if None in verdicts:
        counts += f", {verdicts.count(None)} undecided as a run was cut"
    return Claim(text, all_of(verdicts), f"{counts}; " + "; ".join(parts))


def _at_sizes(runs: Sequence[Row], method: str) -> dict[str, list[Row]]:
    """A method's runs by K, as published."""
    return {
        settings_of(rows[0]).get("K", ""): rows
        for rows in _by_size(select(runs, protocol=PUBLISHED, method=method))
    }


def _sign(rows: Sequence[Row]) -> str:
    return " (cut)" if _cut(rows) else ""
