"""What was guessed of a file of text, in sentences that name the option which undoes it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ibp.errors import counted, quoted
from ibp.files.notation import GROUPED, Notation
from ibp.files.wording import option

# Numbers that people write and programs do not take for such: $5, 5%, 1,000.
AMOUNT = re.compile(r"[^\w\s]{0,3}\s*\d[\d.,' ]*\s*[^\w\s]{0,3}")
# Names of columns that count or name rows.
IDENTIFIER = re.compile(
    r"(?i:id|index|idx|no|nr|row|rows|key|number|nummer|unnamed: 0|.*[_ .-]id)|.*[a-z](Id|ID)"
)
NOTATION, POINTS = Notation(","), Notation(".")
# Fewer rows count by chance.
FEWEST_ROWS = 4


def left_out(rows: Sequence[Sequence[str]], n_lines: int) -> str:
    """The first lines of a file, which hold these rows, were taken for no part of the table."""
    titles = [cell.strip() for row in rows for cell in row if cell.strip()]
    said = quoted(titles[0]) + (", ..." if len(titles) > 1 else "") if titles else "empty cells"
    which, stand = ("Line 1", "stands") if n_lines == 1 else (f"Lines 1 to {n_lines}", "stand")
    what = "is" if n_lines == 1 else "are"
    return (
        f"{which} ({said}) {stand} above the table, and {what} left out; --header says that the "
        "first line holds the names of the columns, --no-header that it is a row of data."
    )


def numbers_as_data(first: Sequence[str], *, words: bool = False, line: int = 1) -> str:
    """A first line was taken for a row of data; ``words`` says that it has some."""
    holds = "holds what the lines below it hold" if words else "holds numbers only"
    if not any(cell.strip() for cell in first):
        holds = "holds neither names nor numbers"
    return (
        f"{_line(line)} ({_some(first)}) {holds}, so it is taken as a row of data; --header says "
        "that it holds names."
    )


def numbers_as_names(first: Sequence[str], *, words: bool = False, line: int = 1) -> str:
    """It was taken for the names of the columns."""
    holds = "has numbers in it and " if words else ""
    return (
        f"{_line(line)} ({_some(first)}) {holds}is taken as the names of the columns; --no-header "
        "says that it is a row of data."
    )


def decimal_commas(cells: Sequence[str]) -> str:
    """Commas within numbers were taken for the sign of decimals."""
    commas = [cell.strip() for cell in cells if "," in cell and NOTATION.is_number(cell)]
    example = commas[0] if commas else "1,5"
    told = f"Commas stand before decimals, so {example} is read as {NOTATION.value(example, False)}"
    if commas and all(map(GROUPED["."].fullmatch, commas)):
        told += ", but all of them stand before three digits, and may part thousands"
    return f"{told}; --decimal . says that they part thousands, --decimal , that this is meant."


def may_part_thousands(cells: Sequence[str]) -> bool:
    """Whether every point within a number stands where it could part thousands.

    It does so in countries where commas stand before decimals, and semicolons between cells.
    """
    points = [cell.strip() for cell in cells if "." in cell and POINTS.is_number(cell)]
    grouped = GROUPED[","]
    return bool(points) and all(grouped.fullmatch(cell) and "0." not in cell[:3] for cell in points)


def decimal_points(cells: Sequence[str]) -> str:
    """Points were taken for the sign of decimals, and `may_part_thousands`."""
    example = next(cell.strip() for cell in cells if "." in cell and POINTS.is_number(cell))
    return (
        f"Points stand before decimals, so {example} is read as a little more than "
        f"{example.partition('.')[0]}, but all of them stand before three digits, and may part "
        "thousands; --decimal , says that they do, --decimal . that this is meant."
    )


def rows_named_by(name: str | None, cells: Sequence[str], *, text: bool) -> str | None:
    """The first column was taken for the names of the rows; None if that is no surprise."""
    amounts = text and _are_amounts(cells)
    if not name and not amounts and (_counts_on(cells) or (text and name == "")):
        return None  # as frames are written
    which = "The first column" if not name else f"The column {quoted(name)}"
    has = f"holds text, such as {quoted(_first(cells))}," if text else "has no name,"
    said = f"{which} {has} so it names the rows and is no data; "
    if amounts:
        return f"{said}write plain numbers if it is data, or leave it out with {_drop(name)}."
    if name and text:
        return f"{said}{option('index', name)} says that this is meant."
    label = f"{option('index', '1')} says that this is meant, " if text else ""
    return f"{said}{label}--index 0 makes it data."


def identifiers(
    values: Any, names: Sequence[str] | None, numbers: Sequence[int], *, first: bool = True
) -> list[str]:
    """Columns that count or name the rows, and were taken as data.

    ``numbers`` are those that they have in the file; ``first`` says that the first may have any
    name, because no other column names the rows.
    """
    told = []
    n_rows, n_columns = values.shape
    for j in range(n_columns if n_rows >= FEWEST_ROWS and n_columns > 1 else 0):
        name = None if names is None else names[j]
        called_so = name is not None and IDENTIFIER.fullmatch(name.strip()) is not None
        if not (called_so or (first and j == 0)):
            continue
        column = values[:, j]
        if called_so:
            column = column[~np.isnan(column)]
        if column.size < FEWEST_ROWS or (column != np.floor(column)).any():  # with gaps, too
            continue
        counts = bool((np.diff(column) == 1).all())
        if not counts and not (called_so and np.unique(column).size == len(column)):
            continue
        which = f"The column {quoted(name)}" if name else "The first column"
        why = "goes up by 1 from row to row" if counts else "has another whole number in every row"
        label = name or str(numbers[j])
        told.append(
            f"{which} {why}, and is taken as data; {option('index', label)} makes it the names of "
            f"the rows, {option('drop', label)} leaves it out."
        )
    return told


def _line(line: int) -> str:
    return "The first line" if line == 1 else f"Line {line}"


def _drop(name: str | None) -> str:
    return option("drop", name or "1")


def _first(cells: Sequence[str]) -> str:
    return next((cell.strip() for cell in cells if cell.strip()), "")


def _some(cells: Sequence[str]) -> str:
    shown = ", ".join(quoted(cell.strip(), 12)[1:-1] for cell in cells[:3])
    return f"{shown}, ..." if len(cells) > 3 else shown


def _are_amounts(cells: Sequence[str]) -> bool:
    """Whether most cells are numbers with a sign beside them."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    return 2 * sum(AMOUNT.fullmatch(cell) is not None for cell in filled) > len(filled) > 0


def _counts_on(cells: Sequence[str]) -> bool:
    """Whether cells are whole numbers, each the next of the one before."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return False
    return all(after - before == 1 for before, after in itertools.pairwise(numbers))


def numbered_names(names: Sequence[str], unique: Sequence[str]) -> str:
    """Names that stood twice, and have numbers now."""
    changed = [place for place, name in enumerate(names) if name != unique[place]]
    first = changed[0]
    return (
        f"{counted(len(changed), 'column')} had the name of another and have a number now, as "
        f"{quoted(names[first])} in column {first + 1}, which is {quoted(unique[first])} here."
    )
