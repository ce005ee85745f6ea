"""The page about a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ibp.agreement import CAME_BACK, IN_PART
from ibp.errors import counted
from ibp.files.write import check_target
from ibp.registry import JOINT, card_of
from ibp.report import wording
from ibp.report.content import MATRIX_FEATURES, MAX_ROWS, ReportContent, gather
from ibp.report.encoding import clean_name
from ibp.report.rendering import render, write_page
from ibp.report.trust import MOST_ROWS

SCRIPTS = (
    "core.js",
    "theme.js",
    "charts.js",
    "pictures.js",
    "matrix.js",
    "fit.js",
    "features.js",
    "explorer.js",
    "trust.js",
    "details.js",
)
CERTAINTY_LABELS = (
    ("nearly a toss-up", "up to 73 % sure"),
    ("leaning", "73 to 95 % sure"),
    ("sure", "95 to 99.3 % sure"),
    ("very sure", "99.3 to 99.995 % sure"),
    ("beyond doubt", "more"),
)


def write_report(
    model: Any,
    X: Any,
    path: str | PathLike[str],
    *,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    title: str | None = None,
    force: bool = False,
    max_rows: int = MAX_ROWS,
    random_state: int = 0,
) -> Path:
    """Write a page about a fitted model: one HTML file that needs nothing else.

    It shows the features, how sure they are, how they add up to each row, what they do not
    explain, and what to do next. Large data are sampled, and the page says so.

    Parameters
    ----------
    model : estimator
        A fitted model of this library.
    X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
        The data; NaN where missing. They are read by blocks of rows, so a memory map will do.
    path : path-like
        The file to write.
    row_names, column_names : sequence of str, default=None
        Names; by default those of the frame or of the training data, else numbers.
    image_shape : tuple of int, default=None
        Height and width, if every row is a picture; by default what the model's notes say.
    title : str, default=None
        Heading of the page.
    force : bool, default=False
        Whether a file that is there may be replaced.
    max_rows : int, default=300
        Most rows in the explorer.
    random_state : int, default=0
        Of the rows that are drawn for it.

    Returns
    -------
    Path
        The file.
    """
    check_target(path, force=force)  # before the work rather than after it
    content = gather(
        model,
        X,
        row_names=row_names,
        column_names=column_names,
        image_shape=image_shape,
        max_rows=max_rows,
        random_state=random_state,
    )
    return write_page(path, render_report(content, title=title), force=force)


def render_report(content: ReportContent, *, title: str | None = None) -> str:
    """The page as text."""
    source = None if content.notes.data is None else clean_name(content.notes.data)
    facts = content.facts()
    return render(
        "report.html",
        scripts=SCRIPTS,
        payload=content.payload(),
        title=clean_name(title) if title else f"Features of {source or 'your data'}",
        summary=wording.summary(facts, source),
        headline=_headline(facts),
        advice=wording.advice(facts),
        facts=facts,
        content=content,
        samples=_samples(content),
        certainty=_certainty(content),
        restarts=_restarts(content),
        returns=_returns(content),
        held_out=_held_out(content),
        noise=_noise(content),
        proven=_proven(content),
        matrix_features=MATRIX_FEATURES,
        came_back=CAME_BACK,
        in_part=IN_PART,
        joint=card_of(content.model).objective == JOINT,
    )


def _headline(facts: wording.Facts) -> list[tuple[str, str]]:
    """The large numbers: value and caption."""
    numbers = [(f"{facts.n_components:,}", "feature" if facts.n_components == 1 else "features")]
    if facts.codes == "weighted" and facts.n_components:
        numbers.append((f"{facts.n_weighted:,}", "of them with weights"))
    if math.isfinite(facts.variance_explained):
        whose = "a column's" if facts.own_noise else "the"
        share = wording.explained(facts.variance_explained)
        numbers.append((share, f"of {whose} variance explained"))
    per_row = wording.number(facts.features_per_row, 2)
    numbers.append((per_row, "feature per row" if per_row == "1" else "features per row"))
    if facts.returned is not None and facts.n_components:
        numbers.append(
            (
                f"{facts.returned} of {facts.n_components}",
                f"came back in {wording.other_restarts(facts.n_restarts - 1)}",
            )
        )
    elif facts.mean_probability is not None:
        sure = wording.probability(facts.mean_probability).replace("over ", ">")
        numbers.append((sure, "average certainty, given these features"))
    if facts.proven is not None and facts.n_components:
        numbers.append((wording.percent(facts.proven), "of the rows proven to have the best code"))
    return numbers


def _samples(content: ReportContent) -> list[str]:
    """What of the data the page has, if not all."""
    shown, measured = content.shown, content.measured
    said = []
    n_rows, n_columns = measured.row_counts.size, measured.column_counts.size
    if shown.rows.size < n_rows:
        said.append(
            f"{shown.rows.size:,} of {n_rows:,} rows: the {shown.worst.size} that are explained "
            "worst, and others drawn at random"
        )
    if shown.stride > 1:
        every = {2: "second", 3: "third"}.get(shown.stride, f"{shown.stride}th")
        said.append(f"every {every} pixel in each direction")
    elif shown.columns.size < n_columns:
        said.append(
            f"{shown.columns.size:,} of {n_columns:,} columns, the strongest of every feature"
        )
    return said


def _certainty(content: ReportContent) -> dict[str, Any] | None:
    """How sure the assignments are."""
    certainty = content.certainty
    if certainty is None:
        return None
    least = np.argsort(certainty.feature_probability, kind="stable")[:8]
    n_rows = content.measured.row_counts.size
    return {
        "rows": f"a random {MOST_ROWS:,} of {n_rows:,} rows"
        if certainty.n_rows < n_rows
        else "all rows",
        "mean": wording.probability(certainty.mean_probability),
        "toss_ups": wording.percent(certainty.toss_ups, 1),
        "differing": wording.percent(certainty.differing, 1) if certainty.differing else None,
        "bins": [
            (name, meaning, wording.percent(float(share), 1), float(share))
            for (name, meaning), share in zip(CERTAINTY_LABELS, certainty.shares, strict=True)
        ],
        "least": [
            (
                int(k),
                wording.probability(float(certainty.feature_probability[k])),
                wording.probability(float(certainty.feature_on_probability[k])),
                wording.percent(float(certainty.feature_toss_ups[k]), 1),
            )
            for k in least
        ],
    }


def _restarts(content: ReportContent) -> list[dict[str, Any]]:
    """The table of restarts."""
    restarts = content.restarts
    return [
        {
            "number": number + 1,  # as the progress of a fit counts them
            "kept": number == restarts.kept,
            "evidence": wording.number(float(restarts.evidence[number]), 6, padded=True),
            "n_components": int(restarts.n_components[number]),
        }
        for number in range(restarts.n_restarts)
    ]


def _returns(content: ReportContent) -> str:
    """How far the restarts agree, and which features came back, in two sentences."""
    restarts = content.restarts
    if restarts.n_restarts < 2:
        return ""
    apart = wording.spread(
        restarts.fewest_and_most, restarts.evidence_spread, restarts.spread_of_gain
    )
    said = f"They have {apart}."
    if not content.n_components:
        return said
    n_others = restarts.n_restarts - 1
    always = int((restarts.times_back == n_others).sum())
    in_all = f" ({always} in all of them)" if n_others > 2 else ""
    return (
        f"{said} Of {counted(content.n_components, 'feature')}, {restarts.n_came_back} "
        f"came back in {wording.other_restarts(n_others)}{in_all}, {int(restarts.in_part.sum())} "
        f"only in part, and {int(restarts.lost.sum())} not at all."
    )


def _held_out(content: ReportContent) -> str | None:
    """The held-out score in words."""
    held_out = content.notes.held_out
    if held_out is None:
        return None
    entries = "Entries"
    if held_out.n_entries is not None:
        entries = counted(held_out.n_entries, "entry")
    share = ""
    if held_out.fraction:
        share = f", in {wording.percent(held_out.fraction)} of the columns of half of the rows,"
    said = (
        f"{entries}{share} were hidden from the fit and then predicted: the mean log-density "
        f"is {wording.number(held_out.score, 4)} per entry."
    )
    if held_out.error is not None:
        said += f" The typical error is {wording.number(held_out.error)}"
        if held_out.relative_error is not None:
            said += (
                f", {wording.number(held_out.relative_error, 2)} times that of the columns' means "
                "if each column is measured by its spread"
            )
        said += "."
    return said


def _noise(content: ReportContent) -> str | None:
    """The noise of the columns in words, if each has its own."""
    noise = content.column_noise
    if noise is None:
        return None
    if not noise.takes_part.any():
        return "No column varies, so there is nothing to tell noise from."
    levels = noise.noise[noise.takes_part]
    low, high = wording.number(float(levels.min())), wording.number(float(levels.max()))
    said = (
        "Each column has a noise level of its own, in its own unit: a standard deviation of "
        f"{f'{low} to {high}' if low != high else low}. What a column varies beyond it, features "
        "explain."
    )
    if noise.hardly_varies.any():
        said += (
            f" {counted(int(noise.hardly_varies.sum()), 'column')} hardly varied, less than values "
            "are rounded, and are not listed here."
        )
    if noise.constant.size:
        names = [content.column_name(int(column)) for column in noise.constant]
        said += (
            f" {wording.capital(wording.named(names))} did not vary in what was fitted, and took "
            "no part in it."
        )
    return said


def _proven(content: ReportContent) -> str | None:
    """How many rows have the best features that there are."""
    share = content.proven
    if share is None or not content.n_components:
        return None
    if share == 1:
        return (
            "In the last sweep of the fit every row's features were proven to be the best, the "
            "patterns and all other rows being as they were."
        )
    return (
        f"For {wording.percent(share)} of the rows the features were proven to be the best in the "
        "last sweep of the fit, the patterns and all other rows being as they were; another "
        "search might change some of the others."
    )
