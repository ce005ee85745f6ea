"""The paper's values, from the table that is beside this module."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple


class PaperValue(NamedTuple):
    """A point of a figure of the paper.

    Attributes
    ----------
    figure, series : str
        Where it stands.
    x, y : float
        Its place; of the y axis in plain units.
    spread : float or None
        Half the length of its error bar, where that is known.
    exact : bool
        Whether it is a number of the source of the paper, or was read off the plot.
    note : str
        What else is to be said: K, or "unbounded".
    """

    figure: str
    series: str
    x: float
    y: float
    spread: float | None
    exact: bool
    note: str


@cache
def all_values() -> tuple[PaperValue, ...]:
    """The whole table, less its first lines, which say where it comes from."""
    text = resources.files("ibp.reproduce").joinpath("paper_values.csv").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        PaperValue(
            row["figure"],
            row["series"],
            float(row["x"]),
            float(row["y"]),
            float(row["spread"]) if row["spread"] else None,
            row["exact"] == "yes",
            row["note"],
        )
        for row in csv.DictReader(lines)
    )


def values(figure: str, series: str | None = None) -> list[PaperValue]:
    """The points of a figure, or of one of its series."""
    return [
        value for value in all_values() if value.figure == figure and series in (None, value.series)
    ]
