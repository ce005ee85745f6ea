"""Small pictures of features for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

SHADES = " ░▒▓█"
PLAIN_SHADES = " .:*#"
# Dark to bright, in between by interpolation.
RAMP = ((12, 12, 28), (120, 30, 90), (235, 110, 50), (255, 240, 190))
LARGEST_SIDE = 14  # pixels; larger images are averaged down
GAP = 2


def print_pictures(
    console: Console, images: Sequence[Any], captions: Sequence[str], indent: int = 2
) -> None:
    """Print images of one shape side by side, as many as fit, each above its caption."""
    if not len(images):
        return
    smaller = np.stack([shrink(image, LARGEST_SIDE) for image in images])
    # One scale for all; a few bright pixels do not darken the rest.
    low, high = min(0.0, float(smaller.min())), float(np.quantile(smaller, 0.995))
    levels = np.clip((smaller - low) / (high - low or 1.0), 0.0, 1.0)
    coloured = console.color_system in ("256", "truecolor", "windows") and not console.no_color
    shades = SHADES if console.encoding.lower().startswith("utf") else PLAIN_SHADES
    drawn = [_half_blocks(image) if coloured else _shades(image, shades) for image in levels]
    width = max(drawn[0][0].cell_len, max(map(len, captions)))
    per_line = max(1, (console.width - indent + GAP) // (width + GAP))
    for first in range(0, len(drawn), per_line):
        group = slice(first, first + per_line)
        for line in zip(*drawn[group], strict=True):
            console.print(_in_a_row(line, width, indent), no_wrap=True, overflow="crop")
        texts = [Text(caption, style="dim") for caption in captions[group]]
        console.print(_in_a_row(texts, width, indent), no_wrap=True, overflow="crop")
        if first + per_line < len(drawn):
            console.print()


def shrink(image: Any, largest_side: int) -> Any:
    """An image averaged over equal pieces, so that no side is longer than this."""
    height, width = image.shape
    factor = -(-max(height, width) // largest_side)
    if factor == 1:
        return np.asarray(image, dtype=float)
    rows = np.arange(0, height, factor)
    columns = np.arange(0, width, factor)
    sums = np.add.reduceat(np.add.reduceat(image.astype(float), rows, axis=0), columns, axis=1)
    sizes = np.outer(np.diff([*rows, height]), np.diff([*columns, width]))
    return sums / sizes


def _in_a_row(texts: Sequence[Text], width: int, indent: int) -> Text:
    line = Text(" " * indent)
    for text in texts:
        line.append_text(text)
        line.append(" " * (width - text.cell_len + GAP))
    line.rstrip()
    return line


def _half_blocks(image: Any) -> list[Text]:
    """Two pixels to a character, the upper in front and the lower behind."""
    lines = []
    for top in range(0, image.shape[0], 2):
        line = Text()
        for column in range(image.shape[1]):
            upper = _colour(image[top, column])
            lower = _colour(image[top + 1, column]) if top + 1 < image.shape[0] else None
            line.append("▀", Style(color=upper, bgcolor=lower))
        lines.append(line)
    return lines


def _shades(image: Any, characters: str) -> list[Text]:
    """A pixel is two characters wide, as a character is twice as high as it is wide."""
    last = len(characters) - 1
    return [Text("".join(2 * characters[round(level * last)] for level in row)) for row in image]


def _colour(level: float) -> Color:
    place = float(level) * (len(RAMP) - 1)
    lower = min(int(place), len(RAMP) - 2)
    share = place - lower
    mixed = (round(a + share * (b - a)) for a, b in zip(RAMP[lower], RAMP[lower + 1], strict=True))
    return Color.from_rgb(*mixed)
