"""HDF5: the one matrix of a file, or that of a name; AnnData files are known by what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ibp.data.stored import ReadAhead
from ibp.data.stored.opened import stored_dataset, stored_group
from ibp.errors import InputError
from ibp.files.checks import float_type, loaded
from ibp.files.hierarchy import (
    chosen_matrix,
    is_annotated,
    names_of,
    part_of_annotated,
    told_apart,
)
from ibp.files.options import Options
from ibp.files.table import Table
from ibp.files.wording import damaged


def read(path: Path, options: Options) -> Table:
    """Read a matrix into memory."""
    return loaded(open_stored_rows(path, options))


def open_stored_rows(path: Path, options: Options) -> Table:
    """A matrix whose rows stay on disk."""
    import h5py

    options.refuse("header", "index", "decimal")
    if not h5py.is_hdf5(path):
        raise damaged(path)
    try:
        file = h5py.File(path, "r")  # closed with the last of its datasets
        element: Any
        names = None
        if is_annotated(file):
            element, names = part_of_annotated(file, options.key), names_of(file, "var")
        else:
            element = chosen_matrix(_datasets(file), options.key)
        if names is not None:
            names = told_apart(names)
        make: Any = stored_dataset if isinstance(element, h5py.Dataset) else stored_group
        stored = make(element, options.missing_chunks, float_type, path.name, names)
        return Table(ReadAhead(stored), None, names)
    except InputError:
        raise
    except (OSError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise damaged(path) from error


def _datasets(file: Any) -> dict[str, Any]:
    """All datasets of a file, by their paths."""
    import h5py

    found = {}

    def visit(name: str, element: Any) -> None:
        if isinstance(element, h5py.Dataset):
            found[name] = element

    file.visititems(visit)
    return found
