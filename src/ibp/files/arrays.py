"""NumPy's own files: ``.npy``, read where it lies on disk, and ``.npz``, dense or sparse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ibp.archives import Member, members_of
from ibp.data import as_source
from ibp.data.source import ConvertedRows
from ibp.data.stored.base import check_matrix_of_numbers
from ibp.errors import DataFileError, quoted
from ibp.files import wording
from ibp.files.checks import dense_table, float_type, has_room, sparse_table
from ibp.files.columns import FileSummary
from ibp.files.options import Options
from ibp.files.table import Table
from ibp.files.wording import damaged, did_you_mean, ending, listed, option

# Arrays of text beside the matrix that name its rows and columns.
NAMES = ("row_names", "column_names")


def read(path: Path, options: Options) -> Table:
    """Read a file of one array or several."""
    options.refuse("header", "index", "decimal")
    if ending(path) == ".npz":
        return _read_archive(path, options)
    options.refuse("key")
    return dense_table(_mapped(path))  # left on disk until it is used, unless it is converted


def open_stored_rows(path: Path, options: Options) -> Table:
    """A mapped array, of which other types than floating ones are converted block by block."""
    options.refuse("header", "index", "decimal", "key")
    mapped = _mapped(path)
    check_matrix_of_numbers(mapped.shape, mapped.dtype, path.name)
    source, dtype = as_source(mapped), float_type(mapped.dtype)
    if source.dtype == mapped.dtype == dtype:
        return Table(mapped)
    return Table(source if source.dtype == dtype else ConvertedRows(source, dtype))


def _mapped(path: Path) -> Any:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        if "Python objects" in str(error):
            raise _holds_objects() from error
        raise damaged(path) from error


def _read_archive(path: Path, options: Options) -> Table:
    """Read an archive of arrays, or one sparse matrix in its parts."""
    with path.open("rb") as file:  # which NumPy would leave open where it fails
        try:
            archive = np.load(file, allow_pickle=False)
        except ValueError as error:  # neither an archive nor an array
            raise damaged(path) from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise damaged(path)
        file.seek(0)
        known = members_of(file)
        if {"format", "shape", "data"} <= set(archive.files):
            options.refuse("key")
            if None in known.values():
                raise damaged(path)
            _check_room(known.values())
            file.seek(0)
            try:
                matrix = sparse.load_npz(file)
            except (ValueError, KeyError, IndexError, TypeError, NotImplementedError) as error:
                raise damaged(path) from error
            return sparse_table(matrix)
        if "header" in archive.files and _is_model(path):
            raise DataFileError("is an ibp model file, not data", "give the data to use it on")
        key = _chosen(archive.files, options.key, known)
        row_names, column_names = (_names(archive, name) for name in NAMES)
        return dense_table(_array(archive, key), row_names, column_names)


def describe(path: Path, options: Options) -> FileSummary:
    """The arrays of an archive, of which one may be the data."""
    if ending(path) != ".npz":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        told = f"{wording.shape(array.shape)} {wording.type_name(array.dtype)}"
        return FileSummary("array", arrays=[("the array", told)])
    with path.open("rb") as file:
        known = members_of(file)
    if all(member is None for member in known.values()):
        raise damaged(path)
    return FileSummary("archive", arrays=[(name, _what(member)) for name, member in known.items()])


def _is_model(path: Path) -> bool:
    from ibp.persistence import is_model  # which few files need

    return is_model(path)


def _chosen(names: list[str], key: str | None, known: Mapping[str, Member | None]) -> str:
    """The name of the array that is the matrix."""
    if key is not None and key in names:
        return _readable(key, known)
    arrays = [name for name in names if name not in NAMES]
    choice = listed(_described(name, known.get(name)) for name in arrays)
    if key is not None:
        near = did_you_mean(key, arrays)
        raise DataFileError(f"has no array {quoted(key)}{near}", f"it has {choice}")
    if not arrays:
        raise DataFileError("holds no array", "give a file that holds data")
    if len(arrays) > 1:
        likely = _most_likely(arrays, known)
        raise DataFileError(
            f"holds several arrays, {choice}",
            f"Say which one is the data by its key, such as {option('key', likely)}",
        )
    return _readable(arrays[0], known)


def _readable(key: str, known: Mapping[str, Member | None]) -> str:
    """The name of a member that is an array, as far as its beginning tells."""
    member = known.get(key)
    if member is None:
        raise _no_array(key)
    _check_room([member])
    return key


def _check_room(members: Iterable[Member | None]) -> None:
    """Refuse, before anything is unpacked, arrays that memory has no room for."""
    sizes = [math.prod(member.shape) * member.dtype.itemsize for member in members if member]
    if not has_room(sum(sizes)):
        raise DataFileError(
            f"does not fit into memory: it would unpack to {wording.in_bytes(sum(sizes))}",
            wording.SMALLER,
        )


def _no_array(key: str) -> DataFileError:
    return DataFileError(
        f"has a member {quoted(key)} that is no array, or is damaged", "save the array again"
    )


def _described(name: str, member: Member | None) -> str:
    """A member by its name and what it is."""
    return f"{quoted(name)} ({_what(member)})"


def _what(member: Member | None) -> str:
    if member is None:
        return "no array"
    return f"{wording.shape(member.shape)} {wording.type_name(member.dtype)}"


def _most_likely(arrays: list[str], known: Mapping[str, Member | None]) -> str:
    """The largest of the arrays that could be the data."""

    def size(name: str) -> int:
        member = known.get(name)
        if member is None or member.dtype.kind not in "fiub" or len(member.shape) not in (2, 3):
            return -1
        return math.prod(member.shape)

    return max(arrays, key=size)


def _array(archive: Any, key: str) -> Any:
    try:
        array = archive[key]
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise _holds_objects() from error
        raise DataFileError(f"has a damaged array {quoted(key)}", "save it again") from error
    if not isinstance(array, np.ndarray):  # the bytes of something else
        raise _no_array(key)
    return array


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
