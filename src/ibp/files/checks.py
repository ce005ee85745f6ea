"""What every matrix is held to, whatever file it comes from."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ibp.data import all_rows
from ibp.errors import MOST_NAMED, PLACE, DataFileError, counted, quoted
from ibp.files.table import Table, pieces
from ibp.files.wording import SMALLER, in_bytes, listed, option


def float_type(dtype: Any) -> Any:
    """The floating type for numbers of a type.

    float32 and float64 stay as they are; half precision, booleans and integers of 8 and 16 bits fit
    into float32; all others become float64.
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "fiub" and dtype.itemsize <= (4 if dtype.kind == "f" else 2):
        return np.dtype(np.float32)
    return np.dtype(np.float64)


# What Arrow's allocator and threads may claim besides the data. Where they get none, they end the
# process with no error that could be caught; so there must be room before they are let loose.
ARROW_ROOM = 2**30 + 2**29


def new_matrix(n_rows: int, n_columns: int, dtype: Any) -> Any:
    """An empty matrix, or a sentence about its size."""
    try:
        return np.empty((n_rows, n_columns), dtype=dtype)
    except MemoryError as error:
        raise too_large(n_rows, n_columns, dtype) from error


def has_room(n_bytes: int) -> bool:
    """Whether memory of a size could be had at this moment; none of it is used."""
    try:
        np.empty(n_bytes, dtype=np.uint8)
    except MemoryError:
        return False
    return True


def too_large(n_rows: int, n_columns: int, dtype: Any, about: str = "") -> DataFileError:
    """The sentence for a matrix that memory has no room for."""
    size = in_bytes(n_rows * n_columns * np.dtype(dtype).itemsize)
    return DataFileError(
        f"does not fit into memory: {about}{counted(n_rows, 'row')} of "
        f"{counted(n_columns, 'column')} take {size}, and more while they are read",
        SMALLER,
    )


def as_floats(values: Any) -> Any:
    """Numbers of any real type, dense or sparse, in a floating type; no copy if they are that."""
    dtype = values.dtype
    if dtype.kind not in "fiub":
        kind = {"c": "complex numbers", "O": "Python objects", "U": "text", "S": "text"}
        advice = "save their magnitudes or real parts" if dtype.kind == "c" else "save numbers"
        raise DataFileError(
            f"holds {kind.get(dtype.kind, f'values of type {dtype}')}, not real numbers",
            f"{advice} instead",
        )
    try:
        return values.astype(float_type(dtype), copy=False)
    except MemoryError as error:
        n_columns = values.shape[-1]
        raise too_large(values.size // n_columns, n_columns, float_type(dtype)) from error


def dense_table(
    values: Any, row_names: list[str] | None = None, column_names: list[str] | None = None
) -> Table:
    """A table from an array of two dimensions, or of three: images."""
    if values.ndim not in (2, 3):
        raise DataFileError(
            f"has the wrong shape, {values.shape}: its array must have two axes, rows and columns, "
            "or three for a stack of images",
            "reshape it and save it again",
        )
    values = as_floats(values)
    image_shape = None
    if values.ndim == 3:
        image_shape = values.shape[1:]
        values = values.reshape(len(values), math.prod(image_shape))
    return Table(values, row_names, column_names, image_shape)


def sparse_table(
    matrix: Any, row_names: list[str] | None = None, column_names: list[str] | None = None
) -> Table:
    """A table from a sparse matrix of any format."""
    try:
        if hasattr(matrix, "check_format"):  # indices out of range would crash compiled code
            matrix.check_format(full_check=True)
    except ValueError as error:
        raise DataFileError(
            f"is damaged: its sparse matrix is not consistent ({error})", "save it again"
        ) from error
    return Table(as_floats(sparse.csr_array(matrix)), row_names, column_names)


def check_names(table: Table, *, can_be_dropped: bool = True) -> None:
    """Refuse columns of one name, which nothing could tell apart later; as of a data frame.

    A column without a name has a number.
    """
    places: dict[str, list[int]] = {}
    for name, number in zip(table.column_names or (), table.numbers, strict=False):
        places.setdefault(name, []).append(number)
    twins = {name: numbers for name, numbers in places.items() if name and len(numbers) > 1}
    if not twins:
        return
    told = listed(
        f"{quoted(name)} (columns {listed(map(str, numbers))})" for name, numbers in twins.items()
    )
    out = [str(number) for numbers in twins.values() for number in numbers[1:]]
    cure = "Rename them"
    if not can_be_dropped:  # they were the names of rows
        cure += ", or leave out the column that holds these names with --drop"
    elif places.keys().isdisjoint(out):  # a name comes before a number
        more = " and so on" if len(out) > MOST_NAMED else ""
        drops = " ".join(option("drop", number) for number in out[:MOST_NAMED])
        cure += f", or leave out all but one with {drops}{more}"
    raise DataFileError(f"has several columns of one name: {told}", cure)


def loaded(table: Table) -> Table:
    """A table whose rows lie on disk, in memory."""
    n_rows, n_columns = table.shape
    try:
        values = all_rows(table.values)
    except MemoryError as error:
        raise too_large(n_rows, n_columns, table.values.dtype) from error
    if not sparse.issparse(values):
        values.flags.writeable = True  # nobody else has it
    return replace(table, values=values)


def check_table(table: Table) -> Table:
    """Refuse a table without entries, with an infinity, or with more or fewer names than it has."""
    n_rows, n_columns = table.shape
    for names, n_things, things in (
        (table.row_names, n_rows, "rows"),
        (table.column_names, n_columns, "columns"),
    ):
        if names is not None and len(names) != n_things:
            raise DataFileError(
                f"has {counted(len(names), 'name')} for its {n_things} {things}",
                "save it again with one for each",
            )
    if n_rows == 0 or n_columns == 0:
        lacking = "rows" if n_rows == 0 else "columns"
        raise DataFileError(
            f"has no {lacking} (its shape is {n_rows} x {n_columns})", "give a file that holds data"
        )
    for start, values in pieces(table.values):
        infinite = np.isinf(values)
        if infinite.any():
            row, column = _place(table, start, infinite)
            raise DataFileError(
                f"has an infinity in {PLACE}",
                "leave the entry empty (NaN) if the value is missing, or remove the row",
                row=row,
                columns=[column],
                names=table.column_names,
                numbers=table.column_numbers,
            )
    return table


def _place(table: Table, start: int, found: Any) -> tuple[int, int]:
    """Row and column of the first of the entries found in a piece."""
    if hasattr(table.values, "tocoo"):
        entries = table.values.tocoo()
        position = int(np.argmax(found))
        return int(entries.row[position]), int(entries.col[position])
    place = np.unravel_index(int(np.argmax(found)), found.shape)
    return start + int(place[0]), int(place[1])
