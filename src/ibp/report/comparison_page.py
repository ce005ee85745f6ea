"""The page about a comparison of methods."""

from __future__ import annotations

import math
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import Any

from ibp.comparison import CLOSE, places
from ibp.errors import counted
from ibp.files.write import check_target
from ibp.report import wording
from ibp.report.encoding import clean_name, plain
from ibp.report.rendering import render, write_page

SCRIPTS = ("core.js", "theme.js", "charts.js", "comparison.js")


def write_comparison(
    comparison: Any,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    source: str | None = None,
    force: bool = False,
) -> Path:
    """Write a page about a comparison of methods: one HTML file that needs nothing else.

    Parameters
    ----------
    comparison : ibp.comparison.Comparison
        The result of `ibp.comparison.compare`.
    path : path-like
        The file to write.
    title : str, default=None
        Heading of the page.
    source : str, default=None
        What the data are called, such as the name of their file.
    force : bool, default=False
        Whether a file that is there may be replaced.

    Returns
    -------
    Path
        The file.
    """
    check_target(path, force=force)
    page = render_comparison(comparison, title=title, source=source)
    return write_page(path, page, force=force)


def render_comparison(
    comparison: Any, *, title: str | None = None, source: str | None = None
) -> str:
    """The page as text."""
    fits, ranking = comparison.fits, sorted(comparison.ranking(), key=_place)
    name = clean_name(source) if source else "your data"
    return render(
        "comparison.html",
        scripts=SCRIPTS,
        payload=_payload(comparison, [row.label for row in ranking]),
        title=clean_name(title) if title else f"Methods compared on {name}",
        summary=_summary(comparison, ranking, name),
        headline=_headline(comparison, ranking),
        comparison=comparison,
        close=CLOSE,
        rows=[
            _row(row) | {"place": place}
            for row, place in zip(ranking, places(ranking), strict=True)
        ],
        skipped=sorted(comparison.skipped.items()),
        # What fits warned of, each once.
        notes=list(dict.fromkeys((fit.label, note) for fit in fits for note in fit.notes)),
    )


def _place(row: Any) -> tuple[bool, float]:
    """Where a method stands: the best first, those whose score is no number last."""
    scored = math.isfinite(row.log_likelihood)
    return not scored, -row.log_likelihood if scored else 0.0


def _payload(comparison: Any, labels: list[str]) -> dict[str, Any]:
    """The curves, methods in the order of the ranking."""
    return {
        "labels": labels,
        "fits": [
            {
                "label": fit.label,
                "seed": fit.seed,
                "seconds": plain(fit.seconds),
                "sweeps": plain(fit.sweeps),
                "scores": plain(fit.log_likelihood),
            }
            for fit in comparison.fits
        ],
    }


def _summary(comparison: Any, ranking: list[Any], name: str) -> str:
    """Who won, in one paragraph."""
    size = f"{counted(comparison.n_samples, 'row')} and {counted(comparison.n_features, 'column')}"
    methods = counted(len(ranking), "method")
    were, unseen = ("was", "it had not") if len(ranking) == 1 else ("were", "none of them had")
    said = [
        f"{methods} {were} fitted to {name} ({size}), and asked to predict "
        f"{counted(comparison.n_hidden, 'entry')} that {unseen} seen."
    ]
    scored = [row for row in ranking if math.isfinite(row.log_likelihood)]
    if not ranking:
        said = ["No fit was finished, so there is nothing to rank."]
    elif not scored:
        said.append("No score is a number, so there is nothing to rank.")
    elif len(scored) == 1 < len(ranking):
        said.append(f"Only {scored[0].label} has a score that is a number.")
    elif len(scored) > 1:
        first, second = scored[0], scored[1]
        best = [row.label for row, place in zip(scored, places(scored), strict=True) if place == 1]
        if len(best) > 1:
            said.append(
                f"{wording.named(best)} predicted them best, with no difference between them that "
                "would matter."
            )
        else:
            lead = first.log_likelihood - second.log_likelihood
            said.append(
                f"{first.label} predicted them best, ahead of {second.label} by "
                f"{wording.number(lead, 2)} nats per entry."
            )
    if comparison.interrupted:
        said.append("The comparison was interrupted: what is here is what was done by then.")
    return " ".join(said)


def _headline(comparison: Any, ranking: list[Any]) -> list[tuple[str, str]]:
    """The large numbers: value and caption."""
    if not ranking or not math.isfinite(ranking[0].log_likelihood):
        return []
    best = ranking[0]
    if len(ranking) == 1:
        return [
            (wording.number(best.log_likelihood, 4), "score per entry"),
            (wording.seconds(best.seconds), "of fitting"),
            (f"{comparison.n_hidden:,}", "entries held out"),
        ]
    fastest = min(ranking, key=lambda row: row.seconds)
    n_best = places(ranking).count(1)
    tie = {1: "predicts best", 2: "predicts best, and one other as well"}
    return [
        (best.label, tie.get(n_best, f"predicts best, and {n_best - 1} others as well")),
        (wording.number(best.log_likelihood, 4), "its score per entry"),
        (fastest.label, f"was quickest: {wording.seconds(fastest.seconds)}"),
        (f"{comparison.n_hidden:,}", "entries held out"),
    ]


def _row(row: Any) -> dict[str, Any]:
    """A line of the ranking."""
    fewest, most = min(row.n_components), max(row.n_components)
    endings = Counter(wording.SHORT_ENDINGS.get(ending, ending) for ending in row.endings)
    n_fits = len(row.endings)
    return {
        "label": row.label,
        "score": wording.number(row.log_likelihood, 4, padded=True),
        "spread": wording.number(row.spread, 2, padded=True) if n_fits > 1 else wording.NOTHING,
        "own": wording.number(row.own_log_likelihood, 4, padded=True),
        "seconds": wording.number(row.seconds, 3, padded=True),
        "components": str(fewest) if fewest == most else f"{fewest} to {most}",
        "fits": n_fits,
        "endings": ", ".join(
            name if n_fits == 1 else f"{name} ({times})" for name, times in endings.most_common()
        ),
    }
