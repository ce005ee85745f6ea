"""Zarr: an array in a folder, one of several in a group, or the matrix of an AnnData store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ibp.data.stored import ReadAhead
from ibp.data.stored.opened import stored_array, stored_group
from ibp.errors import DataFileError
from ibp.files.checks import float_type, loaded
from ibp.files.hierarchy import chosen_matrix, is_annotated, names_of, part_of_annotated
from ibp.files.options import Options
from ibp.files.table import Table
from ibp.files.wording import damaged

# What lies at the top of a store, of either version.
MARKS = ("zarr.json", ".zarray", ".zgroup")


def is_store(path: Path) -> bool:
    """Whether a folder is a store of Zarr."""
    return any((path / mark).is_file() for mark in MARKS)


def read(path: Path, options: Options) -> Table:
    """Read an array into memory."""
    return loaded(open_stored_rows(path, options))


def open_stored_rows(path: Path, options: Options) -> Table:
    """An array whose rows stay on disk."""
    import zarr

    options.refuse("header", "index", "decimal")
    try:
        top = zarr.open(path, mode="r")
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise damaged(path) from error
    element: Any = top
    names = None
    if not isinstance(top, zarr.Array):
        if is_annotated(top):
            element, names = part_of_annotated(top, options.key), names_of(top, "var")
        else:
            element = chosen_matrix(_arrays(top), options.key)
    else:
        options.refuse("key")
    if isinstance(element, zarr.Array) and element.ndim != 2:
        raise DataFileError(
            f"has the wrong shape, {element.shape}: its array must have two axes, rows and columns",
            "reshape it and save it again",
        )
    make: Any = stored_array if isinstance(element, zarr.Array) else stored_group
    stored = make(element, options.missing_chunks, float_type, path.name, names)
    return Table(ReadAhead(stored), None, names)


def _arrays(group: Any, prefix: str = "") -> dict[str, Any]:
    """All arrays of a group and of the groups in it, by their paths."""
    found = {prefix + name: array for name, array in group.arrays()}
    for name, inner in group.groups():
        found |= _arrays(inner, f"{prefix}{name}/")
    return found
