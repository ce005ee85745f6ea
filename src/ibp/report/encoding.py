"""How data go into a page: names as harmless text, numbers as JSON, arrays as base64."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

LONGEST_NAME = 120
JOINERS = "\u200c\u200d"  # shape letters and emoji, and show nothing themselves
# Largest entries for which an array is well kept in single precision; what marks the others.
SMALLEST_SINGLE, LARGEST_SINGLE = 1e-30, 1e30
DOUBLE = "double:"
# What could end a script element, or a line of a script.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def clean_name(name: object) -> str:
    """A name that any page can hold: valid Unicode, on one line, not endless."""
    text = str(name).encode("utf-8", "replace").decode("utf-8")
    text = " ".join("".join(c if c.isprintable() or c in JOINERS else " " for c in text).split())
    if len(text) > LONGEST_NAME:
        text = text[: LONGEST_NAME - 1] + "…"
    return text or "(no name)"


def packed(values: npt.ArrayLike) -> str:
    """An array as base64 of little-endian single precision, or ``double:`` and double precision.

    Double where single has no such numbers.
    """
    array = np.asarray(values)
    sizes = np.abs(array[np.isfinite(array)])
    largest = float(sizes.max(initial=0.0))
    if largest == 0 or SMALLEST_SINGLE < largest < LARGEST_SINGLE:
        return base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")
    return DOUBLE + base64.b64encode(array.astype("<f8").tobytes()).decode("ascii")


def plain(values: Iterable[Any] | None, digits: int = 6) -> list[float | None] | None:
    """A few numbers as JSON has them; None where there is no number."""
    return None if values is None else [plain_number(value, digits) for value in values]


def plain_number(value: Any, digits: int = 6) -> float | None:
    """One number with so many digits, or None."""
    number = float(value)
    if not math.isfinite(number):
        return None
    if number.is_integer() and abs(number) < 1e15:
        return int(number)
    return float(f"{number:.{digits}g}")


def script_json(content: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)
