"""NumPy's own files: ``.npy``, read where it lies on disk, and ``.npz``, dense or sparse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ibp.errors import DataFileError, quoted
from ibp.files.checks import dense_table, sparse_table
from ibp.files.options import Options
from ibp.files.table import Table
from ibp.files.wording import damaged, did_you_mean, ending, listed

# Arrays of text beside the matrix that name its rows and columns.
NAMES = ("row_names", "column_names")


def read(path: Path, options: Options) -> Table:
    """Read a file of one array or several."""
    options.refuse("header", "index")
    if ending(path) == ".npz":
        return _read_archive(path, options)
    options.refuse("key")
    try:
        mapped = np.lib.format.open_memmap(path, mode="r")  # left on disk until it is used
    except ValueError as error:
        if "Python objects" in str(error):
            raise _holds_objects() from error
        raise damaged(path) from error
    return dense_table(mapped)


def _read_archive(path: Path, options: Options) -> Table:
    """Read an archive of arrays, or one sparse matrix in its parts."""
    with path.open("rb") as file:  # which NumPy would leave open where it fails
        try:
            archive = np.load(file, allow_pickle=False)
        except ValueError as error:  # neither an archive nor an array
            raise damaged(path) from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise damaged(path)
        if {"format", "shape", "data"} <= set(archive.files):
            options.refuse("key")
            file.seek(0)
            try:
                matrix = sparse.load_npz(file)
            except (ValueError, KeyError, IndexError, TypeError, NotImplementedError) as error:
                raise damaged(path) from error
            return sparse_table(matrix)
        if "header" in archive.files and _is_model(archive):
            raise DataFileError("is an ibp model file, not data", "give the data to use it on")
        key = _chosen(archive.files, options.key)
        row_names, column_names = (_names(archive, name) for name in NAMES)
        return dense_table(_array(archive, key), row_names, column_names)


def _is_model(archive: Any) -> bool:
    """Whether an archive's header is that of a model."""
    from ibp.persistence import FORMAT

    try:
        header = json.loads(archive["header"].tobytes().decode("utf-8"))
    except ValueError:
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def _chosen(names: list[str], key: str | None) -> str:
    """The name of the array that is the matrix."""
    if key is not None and key in names:
        return key
    arrays = [name for name in names if name not in NAMES]
    choice = listed(map(quoted, arrays))
    if key is not None:
        near = did_you_mean(key, arrays)
        raise DataFileError(f"has no array {quoted(key)}{near}", f"it has {choice}")
    if not arrays:
        raise DataFileError("holds no array", "give a file that holds data")
    if len(arrays) > 1:
        raise DataFileError(
            f"holds several arrays, {choice}", "say which one is the data by its key"
        )
    return arrays[0]


def _array(archive: Any, key: str) -> Any:
    try:
        return archive[key]
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise _holds_objects() from error
        raise DataFileError(f"has a damaged array {quoted(key)}", "save it again") from error


def _names(archive: Any, name: str) -> list[str] | None:
    """An array of names, if the archive has it."""
    if name not in archive.files:
        return None
    return [str(entry) for entry in _array(archive, name).ravel()]


def _holds_objects() -> DataFileError:
    return DataFileError(
        "holds Python objects, which are never loaded because that could run code",
        "save an array of numbers instead",
    )
