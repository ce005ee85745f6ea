"""The page of a study: what the paper says, what we see, where they differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ibp.atomic_files import atomic
from ibp.reproduce.running import CUT
from ibp.reproduce.study import Claim, Page, Results, Study
from ibp.reproduce.tables import Row, number

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
SEEN = {True: "seen", False: "not seen", None: "not decided"}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def listed(sentences: Sequence[str]) -> str:
    """A list in Markdown."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def figure(value: float, digits: int = 3) -> str:
    """A number for a table, a dash where there is none."""
    if math.isnan(value):
        return DASH
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace("-", MINUS)
    return f"{value:.{digits}g}".replace("-", MINUS)


def decimals(value: float, places: int = 4) -> str:
    """A number with so many places, a dash where there is none."""
    return DASH if math.isnan(value) else f"{value:.{places}f}".replace("-", MINUS)


def cut_runs(runs: Sequence[Row]) -> str | None:
    """What the time limit cut, and how far it came; None if it cut nothing."""
    cut = [row for row in runs if row.get("ending") == CUT]
    if not cut:
        return None
    lines = [
        [
            str(row["protocol"]),
            str(row["method"]),
            str(row["settings"]),
            figure(number(row, "time_limit")),
            figure(number(row, "seconds")),
            figure(number(row, "iterations")),
        ]
        for row in cut
    ]
    header = ("protocol", "method", "settings", "limit (s)", "seconds", "sweeps")
    told = "Cut by the time limit (a setting whose first restart is cut is not repeated):"
    return f"{told}\n\n{table(header, lines)}"


def restarts_told(runs: Sequence[Row]) -> str:
    """How often settings were fitted, in a sentence."""
    counts = Counter((row["protocol"], row["method"], row["settings"]) for row in runs).values()
    if not counts:
        return "No setting was fitted."
    least, most = min(counts), max(counts)
    times = str(most) if least == most else f"{least} to {most}"
    return f"Restarts of a setting: {times}."


def claims_table(claims: Sequence[Claim], header: str = "the paper claims") -> str:
    """Claims, each with whether it is seen."""
    return table(
        (header, "here", ""),
        [[claim.text, f"**{SEEN[claim.seen]}**", claim.detail] for claim in claims],
    )


def sections(page: Page) -> list[tuple[str, str]]:
    """The titles of a page and what stands below them."""
    found = [("What the paper says", page.paper), ("What we see", page.seen)]
    if page.claims:
        found.append(("What the paper claims", [claims_table(page.claims)]))
    if page.orders:
        table_of_orders = claims_table(page.orders, "tested on every real set")
        found.append(("Orders that are tested on every real set", [table_of_orders]))
    if page.differ:
        found.append(("Where they differ, and why", page.differ))
    return [(title, "\n\n".join(paragraphs)) for title, paragraphs in found]


def text_of(study: Study, results: Results, picture: str, level: int = 1) -> str:
    """The page in Markdown."""
    marks = "#" * level
    parts = [
        f"{marks} {study.title}",
        f"```text\nibp reproduce {study.name} -o FOLDER\n```",
        f"![{study.title}]({picture})",
    ]
    if any(row.get("size") == "quick" for row in results.runs):
        parts.append("*A quick run, on small data: it shows that all works, and nothing else.*")
    for title, text in sections(study.describe(results)):
        parts += [f"{marks}# {title}", text]
    return "\n\n".join(parts) + "\n"


def save(study: Study, results: Results, folder: Path) -> Path:
    """Write the page beside the tables."""
    path = folder / f"{study.name}.md"
    with atomic(path, force=True) as file:
        file.write(text_of(study, results, f"{study.name}.svg").encode("utf-8"))
    return path
