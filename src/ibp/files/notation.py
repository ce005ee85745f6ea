"""How a file of text writes its values: numbers, what is missing, yes and no."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

MISSING = ("", "NA", "NaN", "nan", "null", "NULL", "None", "N/A", "n/a", "#N/A", "<NA>", "-", "?")
TRUE = ("TRUE", "True", "true", "YES", "Yes", "yes")
FALSE = ("FALSE", "False", "false", "NO", "No", "no")
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
NUMBER = {
    ".": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII),
    ",": re.compile(r"[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?", re.ASCII),
}
# Digits in groups of three, parted by the sign that is not that of decimals.
GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?", re.ASCII),
}
# The sign as it is printed, which is not that of the keyboard.
MINUS = "\N{MINUS SIGN}"
OTHER = {".": ",", ",": "."}
# Why a cell has no value although it is a number.
NOT_FINITE = "is not finite"
TOO_LARGE = "is too large"


class Notation(NamedTuple):
    """The sign before decimals, and whether the other one may part groups of three digits."""

    decimal: str
    grouped: bool = False

    def is_number(self, cell: str) -> bool:
        """Whether a cell is a number, or an infinity."""
        cell = cell.strip()
        return self._matches(cell) or INFINITE.fullmatch(cell) is not None

    def is_word(self, cell: str) -> bool:
        """Whether a cell is neither a number nor missing."""
        return cell.strip() not in MISSING and not self.is_number(cell)

    def is_text(self, cells: Sequence[str]) -> bool:
        """Whether most of a column's cells are words rather than values."""
        words = sum(self.is_word(cell) and cell.strip() not in TRUE + FALSE for cell in cells)
        return 2 * words > len(cells)

    def value(self, cell: str, yes_no: bool) -> float | str:
        """The value of a cell without spaces around it, or why it has none."""
        if cell in MISSING:
            return math.nan
        if yes_no:
            one, zero = cell in (*TRUE, "1"), cell in (*FALSE, "0")
            return float(one) if one or zero else "is neither yes nor no as the cells above it"
        if INFINITE.fullmatch(cell):
            return NOT_FINITE
        if not self._matches(cell):
            return "is not a number"
        if self.grouped:
            cell = cell.replace(OTHER[self.decimal], "")
        number = float(cell.replace(",", ".").replace(MINUS, "-"))
        return number if math.isfinite(number) else TOO_LARGE

    def _matches(self, cell: str) -> bool:
        cell = cell.replace(MINUS, "-", 1) if cell.startswith(MINUS) else cell
        if NUMBER[self.decimal].fullmatch(cell) is not None:
            return True
        return self.grouped and GROUPED[self.decimal].fullmatch(cell) is not None


def is_yes_no(cells: Sequence[str]) -> bool:
    """Whether a column says TRUE or FALSE, and no number but 0 and 1."""
    values = {cell.strip() for cell in cells}.difference(MISSING)
    return bool(values.difference("01")) and values <= {*TRUE, *FALSE, "0", "1"}
