"""CSV files of runs and points: rows of text, read and written whole."""

from __future__ import annotations

import csv
import io
import math
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ibp.atomic_files import atomic
from ibp.errors import DataFileError

Row = Mapping[str, Any]
# Columns of every table, in this order; what else a study has to tell comes after them.
RUN_COLUMNS = (
    "cell",
    "size",
    "protocol",
    "method",
    "settings",
    "seed",
    "seconds",
    "iterations",
    "n_components",
    "train_log_likelihood",
    "test_log_likelihood",
    "own_log_likelihood",
    "ending",
    "time_limit",
    "versions",
)
POINT_COLUMNS = (
    "cell",
    "protocol",
    "method",
    "settings",
    "seed",
    "seconds",
    "iterations",
    "n_components",
    "train_log_likelihood",
    "test_log_likelihood",
)
DIGITS = 8
NO_TABLE = "name another folder, or remove the file"


def read_rows(path: Path, columns: Iterable[str] = ()) -> list[dict[str, str]]:
    """The rows of a table that has these columns; none if there is no file."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataFileError(f"is no table of ours: {error}", NO_TABLE, file=path) from error
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise DataFileError(
            f"is no table of ours: it has no column {missing[0]!r}", NO_TABLE, file=path
        )
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise DataFileError(
                "has another number of entries than the first line",
                "Remove the file to begin anew",
                file=path,
                line=number,
            )
    return rows


def write_rows(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Write a table, all or nothing; columns that are not named come last, in order of names."""
    others = sorted({name for row in rows for name in row} - set(columns))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [*columns, *others]
    writer.writerow(names)
    writer.writerows([text_of(row.get(name)) for name in names] for row in rows)
    with atomic(path, force=True) as file:
        file.write(buffer.getvalue().encode("utf-8"))


def text_of(value: Any) -> str:
    """A value as a table holds it."""
    if value is None:
        return ""
    if isinstance(value, str | bool):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{float(value):.{DIGITS}g}"


def number(row: Row, column: str) -> float:
    """A number of a row; NaN where there is none."""
    value = row.get(column)
    return math.nan if value in (None, "") else float(str(value))


def numbers(rows: Iterable[Row], column: str) -> list[float]:
    """A column, less what is missing."""
    found = (number(row, column) for row in rows)
    return [value for value in found if not math.isnan(value)]


def mean(rows: Iterable[Row], column: str) -> float:
    """The mean of a column; NaN if it is empty."""
    found = numbers(rows, column)
    return sum(found) / len(found) if found else math.nan


def median(rows: Iterable[Row], column: str) -> float:
    """The median of a column; NaN if it is empty."""
    found = numbers(rows, column)
    return statistics.median(found) if found else math.nan


def spread(rows: Iterable[Row], column: str) -> float:
    """The standard deviation of a column; NaN if it is empty."""
    found = numbers(rows, column)
    if not found:
        return math.nan
    middle = sum(found) / len(found)
    return math.sqrt(sum((value - middle) ** 2 for value in found) / len(found))


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows with these values; those of `settings_of` count as well."""
    return [
        row
        for row in rows
        if all(
            text_of(value) == str(row[name] if name in row else settings_of(row).get(name, ""))
            for name, value in wanted.items()
        )
    ]


def distinct(rows: Iterable[Row], name: str) -> list[str]:
    """The values of a column, or of a setting, in the order in which they come."""
    found = (str(row[name] if name in row else settings_of(row).get(name, "")) for row in rows)
    return [value for value in dict.fromkeys(found) if value]


def settings_text(**settings: Any) -> str:
    """Settings in one entry of a table; None are left out."""
    return "; ".join(
        f"{name}={text_of(value)}" for name, value in settings.items() if value is not None
    )


def settings_of(row: Row) -> dict[str, str]:
    """Settings of a row by name."""
    parts = (part.partition("=") for part in str(row.get("settings", "")).split("; ") if part)
    return {name: value for name, _, value in parts}


@cache
def versions() -> str:
    """What a run was made with."""
    from importlib.metadata import version

    names = ("ibp", "numpy", "scipy", "scikit-learn", "numba")
    return "; ".join([f"python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)])
