"""What a fit came to, in a few lines, and the same for machines."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from ibp.cli.pictures import print_pictures
from ibp.cli.words import duration, listed, number, printable, root_mean_square
from ibp.errors import counted
from ibp.files.table import Table

if TYPE_CHECKING:
    from ibp.agreement import RestartAgreement
    from ibp.report.trust import Limit

SHOWN_FEATURES = 5
SHOWN_COLUMNS = 4
WIDEST_WEIGHTS = len("varies by about 99 %")
ENDINGS = {
    "converged": "converged",
    "max_iter": "stopped at the limit of sweeps",
    "time_limit": "stopped at the time limit",
    "callback": "stopped",
    "interrupted": "interrupted",
}


@dataclass(frozen=True)
class FitSummary:
    """A fitted model and what is worth telling about it."""

    model: Any
    table: Table
    image_shape: tuple[int, int] | None
    seconds: float
    variance_explained: float
    features_per_row: float | None
    held_out: dict[str, Any] | None

    @property
    def most_used(self) -> list[int]:
        """Features, the most used first; the largest first where use is not counted."""
        counts = getattr(self.model, "feature_counts_", None)
        use = np.abs(self.model.components_).sum(axis=1) if counts is None else counts
        return [int(k) for k in np.argsort(-use, kind="stable")]

    def share(self, feature: int) -> float | None:
        """In which share of the rows a feature is on."""
        counts = getattr(self.model, "feature_counts_", None)
        return None if counts is None else float(counts[feature] / self.model.n_samples_fit_)

    @property
    def weight_spreads(self) -> Any:
        """How far the weights of each feature spread; None if rows have none."""
        from ibp.report.codes import weight_spreads

        return weight_spreads(self.model)

    def columns_of(self, feature: int) -> list[str]:
        """The columns that a feature has most to do with."""
        names = self.table.labels
        component = np.abs(self.patterns[feature])
        order = np.argsort(-component, kind="stable")[:SHOWN_COLUMNS]
        return [names[j] for j in order if component[j] > 0]

    @cached_property
    def patterns(self) -> Any:
        """The patterns, such that columns of different units can be compared."""
        from ibp.agreement import patterns_in_noise

        return patterns_in_noise(self.model)

    @cached_property
    def restarts(self) -> RestartAgreement:
        """How far the restarts agree."""
        from ibp.agreement import restarts_of

        return restarts_of(self.model)

    @cached_property
    def limit(self) -> Limit | None:
        """The limit of features that the fit is at; None if it is at none."""
        from ibp.report.trust import limit_of

        return limit_of(self.model, self.model.notes_.get("method"))

    @property
    def similarity(self) -> float | None:
        """How similar features are to their matches in other restarts, on average."""
        others = self.restarts.similarity
        return float(others.mean()) if others.size else None

    def values(self) -> dict[str, Any]:
        """For machines."""
        from ibp.report.codes import about_codes

        model = self.model
        return {
            "rows": self.table.shape[0],
            "columns": self.table.shape[1],
            "features": model.n_components_,
            **about_codes(model),
            "evidence": model.evidence_,
            "noise_std": root_mean_square(model.noise_std_),
            "sweeps": model.n_iter_,
            "seconds": self.seconds,
            "ending": model.ending_,
            "variance_explained": self.variance_explained,
            "features_per_row": self.features_per_row,
            "held_out": self.held_out,
            "restarts": {
                "evidence": model.restart_evidence_,
                "features": model.restart_n_components_,
                "came_back": self.restarts.n_came_back,
                "similarity": self.similarity,
                "evidence_spread": self.restarts.evidence_spread,
                "spread_of_gain": self.restarts.spread_of_gain,
            },
            "limit": None
            if self.limit is None
            else {"features": self.limit.n_components, "gain": self.limit.gain},
            "most_used": [
                {"feature": k, "share": self.share(k), "columns": self.columns_of(k)}
                for k in self.most_used[:SHOWN_FEATURES]
            ],
        }

    def show(self, console: Console) -> None:
        """For people: facts, and the features that are used most."""
        self.show_facts(console)
        if self.model.n_components_ > 0:
            self._show_features(console)

    def show_facts(self, console: Console) -> None:
        """How many features there are, and what is to be said of the fit."""
        model = self.model
        n_rows, n_columns = self.table.shape
        weights = ""
        if self.weight_spreads is not None and model.n_components_:
            weights = f", {said_of_weights(self.weight_spreads)},"
        console.print(
            Text.assemble(
                (counted(model.n_components_, "feature"), "bold green"),
                weights,
                f" in {counted(n_rows, 'row')} and {counted(n_columns, 'column')}",
            )
        )
        console.print()
        self._show_grid(console)
        console.print()
        if model.n_components_ == 0:
            own = np.ndim(model.noise_std_) > 0
            shared = ", or one level for all columns with --set noise=shared" if own else ""
            console.print(
                "No feature survived: the data look like noise at this level. Try more starts with "
                f"--restarts 5, or a lower level with --set noise_std=NUMBER{shared}."
            )

    def _show_grid(self, console: Console) -> None:
        from ibp.report import wording
        from ibp.report.codes import share_proven

        model = self.model
        facts = {
            "evidence": number(model.evidence_),
            "fit": f"{counted(model.n_iter_, 'sweep')} in {duration(self.seconds)}, "
            f"{ENDINGS[model.ending_]}",
            "variance explained": f"{self.variance_explained:.0%}"
            + (" of a column, on average" if np.ndim(model.noise_std_) else ""),
        }
        if self.features_per_row is not None:
            facts["features per row"] = f"{self.features_per_row:.1f} on average"
        if self.held_out is not None:
            facts["held-out score"] = (
                f"{self.held_out['score']:.4f} per entry, from "
                f"{counted(self.held_out['n_entries'], 'hidden entry')}"
            )
            ratio = self.held_out["relative_error"]
            if ratio is not None:
                facts["held-out score"] += (
                    f"; errors {wording.number(ratio, 2)} times those of the columns' means"
                )
        proven = share_proven(model)
        if proven is not None and model.n_components_:
            share = wording.percent(proven).replace(" %", "%")
            facts["rows proven"] = f"{share} have the best code, given the patterns"
        if self.limit is not None:
            facts["limit"] = wording.limit(self.limit, "--components")
        restarts = self.restarts
        if restarts.n_restarts > 1:
            apart = wording.spread(
                restarts.fewest_and_most, restarts.evidence_spread, restarts.spread_of_gain
            )
            facts["restarts"] = f"{restarts.n_restarts}, with {apart}"
        returned = restarts.n_came_back
        if returned is not None and self.similarity is not None:
            said = wording.came_back(returned, model.n_components_, restarts.n_restarts)
            facts["agreement"] = f"{said}; similarity {self.similarity:.2f} on average"
        print_facts(console, facts)

    def _show_features(self, console: Console) -> None:
        from ibp.report import wording

        shown, spreads = self.most_used[:SHOWN_FEATURES], self.weight_spreads
        if self.image_shape is not None:
            numbers = "" if spreads is None else ": in how many rows, and how far weights vary"
            console.print(f"Most used features{numbers}", style="bold")
            self.show_pictures(console, shown)
            return
        console.print("Most used features, and the columns they show in", style="bold")
        widest = max(len(f"feature {k}") for k in shown) + 2
        for k in shown:
            share = self.share(k)
            used = "" if share is None else f"{share:>5.0%} of rows   "
            weight = ""
            if spreads is not None:
                weight = f"{wording.weights(spreads[k]):<{WIDEST_WEIGHTS}}   "
            name = f"feature {k}".ljust(widest)
            text = Text.assemble(f"  {name}", (used, "cyan"), weight, listed(self.columns_of(k)))
            console.print(text, no_wrap=True, overflow="ellipsis")

    def show_pictures(self, console: Console, features: list[int]) -> None:
        """Features as pictures, each with its number and how often it is on."""
        from ibp.report.codes import vary

        assert self.image_shape is not None
        images = [self.model.components_[k].reshape(self.image_shape) for k in features]
        captions, spreads = [], self.weight_spreads
        for k in features:
            share = self.share(k)
            captions.append(f"{k}" if share is None else f"{k}: {share:.0%}")
            if spreads is not None and vary(spreads[k]):
                captions[-1] += f" ±{spreads[k]:.0%}"
        print_pictures(console, images, captions)


def said_of_weights(spreads: Any) -> str:
    """How many of the features rows have more or less of."""
    from ibp.report import wording
    from ibp.report.codes import vary

    return wording.with_weights(len(spreads), int(vary(spreads).sum()))


def summarize_fit(
    model: Any,
    table: Table,
    seen: Any,
    image_shape: tuple[int, int] | None,
    held_out: dict[str, Any] | None,
    seconds: float,
) -> FitSummary:
    """Measure a fit on what it has seen."""
    from ibp.data.summary import summarize
    from ibp.evaluate import row_log_likelihood
    from ibp.report.codes import features_per_row
    from ibp.report.measuring import CONSTANT

    summary = summarize(seen)
    # Columns that have noise of their own may have a unit of their own: every one that varies
    # counts alike, and in units so large the others do not.
    unit: Any = 1.0
    if np.ndim(model.noise_std_):
        spread, largest = np.sqrt(summary.variances), np.fmax(-summary.lowest, summary.highest)
        varies = spread > CONSTANT * np.abs(largest)
        unit = np.where(varies, spread, 1e8 * (1.0 + np.abs(largest)))
    log_units = float(summary.counts @ np.broadcast_to(np.log(unit), summary.counts.shape))

    def squares(codes: Any, components: Any, intercept: Any) -> float:
        sums, counts = row_log_likelihood(seen, codes, components, intercept, unit)
        return float(-2.0 * (sums.sum() + log_units) - counts.sum() * np.log(2.0 * np.pi))

    codes = model._training_codes()
    nothing = np.zeros((len(codes), 0)), np.zeros((0, summary.means.size))
    around_means = squares(*nothing, summary.means)
    left = squares(codes, model.components_, model.intercept_)
    explained = 1.0 - left / around_means if around_means > 0 else float("nan")
    per_row = features_per_row(model, codes)
    return FitSummary(model, table, image_shape, seconds, explained, per_row, held_out)


def print_facts(console: Console, facts: dict[str, str]) -> None:
    """Names and what there is to say of them, side by side."""
    margin = max(map(len, facts)) + 5
    width = console.width if console.is_terminal else sys.maxsize
    for name, fact in facts.items():
        lines = [
            part
            for line in fact.splitlines() or [""]
            for part in textwrap.wrap(line, max(20, width - margin)) or [""]
        ]
        console.print(
            Text.assemble((f"  {name}".ljust(margin), "dim"), f"\n{' ' * margin}".join(lines)),
            soft_wrap=True,
        )


def print_path(console: Console, what: str, path: Path) -> None:
    """Where a file is."""
    console.print(f"{what:<6}  {printable(str(path))}", soft_wrap=True)


def show_next_steps(console: Console, steps: dict[str, str]) -> None:
    """Commands to go on with, and why."""
    console.print("Next", style="bold")
    for command, why in steps.items():
        console.print(Text(f"  {why}", style="dim"))
        console.print(Text(f"    {command}"), soft_wrap=True)


def quoted(path: Path | str) -> str:
    """A path, or another argument, as it is typed in a shell."""
    text = printable(str(path))
    return text if sys.platform == "win32" else shlex.quote(text)


def again(arguments: Sequence[str], option: str, *more: int | str) -> str:
    """The same command with one option changed, to replace the result that is there by now.

    A checkpoint is gone on from only if that is what is wanted.
    """
    before = ["", *arguments] if more else [""] * len(arguments)  # a flag has no value after it
    kept = [
        argument
        for last, argument in zip(before, arguments, strict=False)
        if option not in (last, argument.partition("=")[0])
        and argument not in ("--force", "--resume")
    ]
    return " ".join(map(quoted, ["ibp", *kept, option, *map(str, more), "--force"]))
