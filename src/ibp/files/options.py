"""What the caller says about a file, where it is not to be detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibp.errors import DataFileError, quoted
from ibp.files.wording import did_you_mean, lacking, listed

if TYPE_CHECKING:
    from ibp.data.stored.base import MissingChunks


@dataclass(frozen=True)
class Options:
    """The arguments of ``read_table`` as its readers see them."""

    header: bool | None = None
    index: str | int | None = None
    drop: tuple[str, ...] = ()
    key: str | None = None
    keep: tuple[str, ...] | None = None  # of columns that have names, these alone
    decimal: str | None = None
    missing_chunks: MissingChunks = "refuse"  # of Zarr and HDF5, that are not there

    def refuse(self, *names: str) -> None:
        """Say that an option has no meaning for a kind of file."""
        for name in names:
            if getattr(self, name) is not None:
                raise DataFileError(
                    f"is of a kind to which the option {quoted(name)} does not apply",
                    f"leave out --{name}",
                )


def find_column(wanted: str | int, names: Sequence[str] | None, n_columns: int) -> list[int]:
    """Positions of the columns of a name, or the one of a number that counts from 1."""
    if isinstance(wanted, str):
        found = [j for j, name in enumerate(names or ()) if name == wanted]
        if found:
            return found
    number = str(wanted)
    if number.isdecimal() and 1 <= int(number) <= n_columns:
        return [int(number) - 1]
    if names is None:
        raise DataFileError(
            f"has no column {quoted(wanted)}: its columns have no names",
            f"give a number from 1 to {n_columns}",
        )
    near, known = did_you_mean(number, names), listed(map(quoted, names))
    raise DataFileError(f"has no column {quoted(wanted)}{near}", f"its columns are {known}")


def find_index(wanted: str | int, names: Sequence[str] | None, n_columns: int) -> int | None:
    """Position of the column that is to name the rows; 0 stands for none."""
    if wanted == 0 or (wanted == "0" and "0" not in (names or ())):
        return None
    return find_column(wanted, names, n_columns)[0]


def label_of(position: int, names: Sequence[str] | None) -> str:
    """What to call a column in an option: its name, or its number if it has none."""
    return (names[position] if names is not None else "") or str(position + 1)


def dropped(options: Options, names: Sequence[str] | None, n_columns: int) -> set[int]:
    """Positions of the columns that are to be left out."""
    return {j for name in options.drop for j in find_column(name, names, n_columns)}


def kept_columns(
    options: Options, names: Sequence[str] | None, n_columns: int, index: Sequence[int] = ()
) -> list[int]:
    """Positions of the columns that are data; the columns of ``index`` name the rows."""
    out = dropped(options, names, n_columns) | {*index}
    kept = [j for j in range(n_columns) if j not in out]
    if n_columns and not kept:
        cure = "leave out fewer with --drop" if options.drop else "keep one with --index 0"
        raise DataFileError("has no column left that is data", cure)
    if options.keep is None or names is None:
        return kept
    found = {names[j] for j in kept}
    missing = [name for name in options.keep if name not in found]
    if missing:
        raise lacking(missing, [names[j] for j in kept], None)
    return [j for j in kept if names[j] in set(options.keep)]
