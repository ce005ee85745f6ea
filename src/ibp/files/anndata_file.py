"""AnnData files: the matrix or one of its layers, with the names of observations and variables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scipy import sparse

from ibp.files import guesses, hdf5
from ibp.files.checks import dense_table, sparse_table
from ibp.files.hierarchy import part_of_annotated, told_apart
from ibp.files.options import Options
from ibp.files.table import Table
from ibp.files.wording import damaged


def read(path: Path, options: Options) -> Table:
    """Read what is asked for of a file, and nothing else of it."""
    options.refuse("header", "index", "decimal")
    import h5py
    from anndata.io import read_elem

    if not h5py.is_hdf5(path):
        raise damaged(path)
    try:
        with h5py.File(path, "r") as file:
            matrix = read_elem(part_of_annotated(file, options.key))
            row_names, column_names = (
                [str(name) for name in read_elem(file[axis]).index] for axis in ("obs", "var")
            )
    except (OSError, KeyError, RuntimeError, TypeError) as error:
        raise damaged(path) from error
    make = sparse_table if sparse.issparse(matrix) else dense_table
    unique = told_apart(column_names)
    table = make(matrix, row_names, unique)
    if unique == column_names:
        return table
    return replace(table, guesses=(*table.guesses, guesses.numbered_names(column_names, unique)))


def open_stored_rows(path: Path, options: Options) -> Table:
    """A matrix whose rows stay on disk; the rows' own names are left there."""
    return hdf5.open_stored_rows(path, options)
