"""What the columns of a file hold, whether they are data or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ibp.errors import DataFileError, counted, quoted
from ibp.files.notation import NOT_FINITE, TOO_LARGE
from ibp.files.wording import listed, option

# What a column holds if most of its cells are no numbers, and how many of them are shown.
TEXT = "text"
N_EXAMPLES = 2
EXAMPLE_LENGTH = 20


class ColumnSummary(NamedTuple):
    """A column in a line."""

    name: str
    holds: str
    missing: float
    lowest: float | None = None
    highest: float | None = None
    spread: float | None = None
    examples: tuple[str, ...] = ()  # of what is no number


class FileSummary(NamedTuple):
    """What a file holds: columns, or arrays of which one may be the data."""

    kind: str
    rows: int | None = None
    columns: Sequence[ColumnSummary] = ()
    arrays: Sequence[tuple[str, str]] = ()  # names, and what they are


@dataclass
class Tally:
    """Counts what the cells of a column are."""

    yes_no: bool = False
    n_cells: int = 0
    n_missing: int = 0
    n_text: int = 0
    n_infinite: int = 0
    whole: bool = True
    lowest: float = math.inf
    highest: float = -math.inf
    examples: list[str] = field(default_factory=list)

    def count(self, cell: str, value: float | str) -> None:
        """Count a cell of this value; text says why it has none."""
        self.n_cells += 1
        if isinstance(value, str):
            infinite = value in (NOT_FINITE, TOO_LARGE)
            self.n_infinite += infinite
            self.n_text += not infinite
            if len(self.examples) < N_EXAMPLES and cell not in self.examples:
                self.examples.append(cell)
        elif math.isnan(value):
            self.n_missing += 1
        else:
            self.whole &= float(value).is_integer()
            self.lowest, self.highest = min(self.lowest, value), max(self.highest, value)

    def summary(self, name: str, *, names_rows: bool = False) -> ColumnSummary:
        """The column in a line."""
        n_numbers = self.n_cells - self.n_missing - self.n_text - self.n_infinite
        holds = "yes or no" if self.yes_no else "whole numbers" if self.whole else "numbers"
        if names_rows:
            holds = "names of the rows"
        elif self.n_text > n_numbers + self.n_infinite:
            holds = TEXT
        else:
            held = [holds] if n_numbers else []
            held += [counted(self.n_infinite, "infinite cell")] if self.n_infinite else []
            held += [f"{counted(self.n_text, 'cell')} of text"] if self.n_text else []
            holds = listed(held) or "nothing"
        return ColumnSummary(
            name,
            holds,
            self.n_missing / max(1, self.n_cells),
            self.lowest if n_numbers else None,
            self.highest if n_numbers else None,
            examples=tuple(quoted(example, EXAMPLE_LENGTH) for example in self.examples),
        )


def no_numbers(labels: Sequence[str], held: Sequence[str], *, others: bool = True) -> DataFileError:
    """The sentence for columns that hold no numbers, all at once, and how to leave them out.

    Without ``others``, nothing would be left.
    """
    which = "a column" if len(labels) == 1 else f"{len(labels):,} columns"
    named = listed(f"{quoted(label)} ({what})" for label, what in zip(labels, held, strict=True))
    drop = " ".join(option("drop", label) for label in labels)
    if not others:
        cure = (
            "Write plain numbers, such as 1234.5, with commas, semicolons, tabs, spaces or bars "
            "between them; --decimal , says that commas stand before decimals"
        )
        return DataFileError(f"has no column of numbers: {named}", cure)
    return DataFileError(
        f"has {which} without numbers: {named}",
        f"Leave out what is no data with {drop}, or write it as numbers",
    )
