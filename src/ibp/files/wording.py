"""Words for what is wrong with a file."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ibp.errors import DataFileError, quoted

# What to do with a matrix that does not fit into memory.
SMALLER = (
    "save the matrix as float32 in a .npy file, which is read piece by piece, or as a sparse .npz "
    "file, or take fewer rows"
)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that offers the nearest known name, or nothing."""
    lowered = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f" (did you mean {quoted(lowered[near[0]])}?)" if near else ""


def alike(one: str, other: str) -> bool:
    """Whether one of two names may be the other, mistyped."""
    return bool(difflib.get_close_matches(one.lower(), [other.lower()]))


def listed(words: Iterable[str], last: str = "and", limit: int = 12) -> str:
    """Words joined as in a sentence; beyond a limit, how many more there are."""
    words = list(words)
    if len(words) > limit:
        words = [*words[: limit - 1], f"{len(words) - limit + 1} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def option(name: str, value: str) -> str:
    """An option of the command line as it is typed, for a cure that names it."""
    return f"--{name} {shlex.quote(value) if value.isprintable() else quoted(value)}"


def lacking(
    missing: Sequence[str], found: Sequence[str], file: str | None, model: str = "the model"
) -> DataFileError:
    """The sentence for a table without some of the columns that a model knows."""
    which = "a column" if len(missing) == 1 else f"{len(missing):,} columns"
    near = did_you_mean(missing[0], found) if len(missing) == 1 else ""
    has = listed(map(quoted, found)) if found else "none that has a name"
    return DataFileError(
        f"lacks {which} that {model} was fitted to: {listed(map(quoted, missing))}{near}",
        f"Its columns are {has}; names must be the same",
        file=file,
    )


def shape(sizes: Sequence[int]) -> str:
    """The shape of an array in words: 100 x 64."""
    return " x ".join(f"{size:,}" for size in sizes) or "a single"


def type_name(dtype: Any) -> str:
    """The type of an array's entries in words."""
    kinds = {"U": "text", "S": "text", "O": "Python objects", "b": "truth values"}
    return kinds.get(dtype.kind, str(dtype))


def in_bytes(number: float) -> str:
    """A size of memory in the unit that suits it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


def ending(path: Path) -> str:
    """The part of a file's name that says what it is, in lower case."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def damaged(path: Path) -> DataFileError:
    """The sentence for a file that breaks off or makes no sense."""
    return DataFileError(
        f"is damaged, cut short, or not a {ending(path)} file",
        "save or copy it again",
        file=path.name,
    )


def needs_package(source: str, error: ImportError, extra: str) -> DataFileError:
    """The sentence for a file whose kind needs a package that is not installed."""
    return DataFileError(
        f"needs the package {error.name}, which is not installed",
        f'run pip install "ibp[{extra}]"',
        file=source,
    )
