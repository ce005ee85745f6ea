"""Numbers, times and names in words that suit a terminal."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence


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


def duration(seconds: float) -> str:
    """A time: 3.2 s, 1 m 26 s, 2 h 05 m."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"


def plural(count: int, noun: str) -> str:
    """1 feature, 2 features, 3 entries."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("try") else f"{count:,} {noun}s"


def printable(text: str) -> str:
    """Text from a file, without what would steer a terminal."""
    return "".join(
        f"\\x{ord(character):02x}" if _steers(character) else character for character in text
    )


def in_quotes(name: str) -> str:
    """A name from a file, as messages show it."""
    return f'"{printable(name)}"'


def _steers(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def listed(names: Sequence[str], longest: int = 24) -> str:
    """Names in a row, long ones cut."""
    return ", ".join(shortened(name, longest) for name in names)


def shortened(name: str, longest: int) -> str:
    """A name of at most so many characters."""
    name = printable(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"
