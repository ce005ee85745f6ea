"""Numbers, times and names in words that suit a terminal."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any


def number(value: float) -> str:
    """A number with thousands apart, and as many decimals as it is worth."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.3g}"
    if float(value).is_integer() or size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def root_mean_square(values: Any) -> float:
    """One number for one number, or for one of each column."""
    import numpy as np

    return float(np.sqrt(np.mean(np.square(values))))


def duration(seconds: float) -> str:
    """A time: 3.2 s, 1 m 26 s, 2 h 05 m."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"


def printable(text: str) -> str:
    """Text from a file, without what would steer a terminal."""
    steering = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        f"\\x{ord(character):02x}" if unicodedata.category(character) in steering else character
        for character in text
    )


def in_quotes(name: str) -> str:
    """A name from a file, as messages show it."""
    return f'"{printable(name)}"'


def listed(names: Sequence[str], longest: int = 24) -> str:
    """Names in a row, long ones cut."""
    texts = map(printable, names)
    return ", ".join(t if len(t) <= longest else t[: longest - 1] + "…" for t in texts)
