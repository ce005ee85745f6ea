"""Rows of Parquet files, one or several that are parts of one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.source import Block
from ibp.data.stored.base import IntArray, StoredRows, changed_shape
from ibp.errors import DataFileError, quoted

# Row groups that take more bytes than this are decoded in parts, one after the other.
LARGE_GROUP = 1 << 26
PART_BYTES = 1 << 24
# Bytes of a column that are read at a time, of such row groups.
BUFFER_BYTES = 1 << 15


@dataclass(frozen=True)
class Part:
    """A file of several, which holds rows from ``start`` on."""

    file: Any  # pyarrow.parquet.ParquetFile
    name: str
    start: int


class ParquetRows(StoredRows):
    """Rows of Parquet files, from some of their columns.

    Parameters
    ----------
    files : sequence of (str, file)
        The names of the files, and what pyarrow opens: paths or files of its own, in their order.
    columns : sequence of str, optional
        The columns to read; all by default. Others may hold anything.
    dtype : dtype, optional
        The floating type of the rows; by default what suits the columns.
    name : str
        What to call all of them.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, Any]],
        name: str,
        columns: Sequence[str] | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.name = name
        self._parts: list[Part] = []
        bounds = [0]
        self._groups: list[tuple[int, int]] = []  # of each chunk: the part, and its row group
        for file_name, opened in files:
            part = Part(open_file(file_name, opened), file_name, bounds[-1])
            if columns is None:
                columns = part.file.schema_arrow.names
            check_columns(part, columns, None if not self._parts else self._parts[0])
            self._parts.append(part)
            for group in range(part.file.metadata.num_row_groups):
                n_rows = part.file.metadata.row_group(group).num_rows
                if n_rows:
                    self._groups.append((len(self._parts) - 1, group))
                    bounds.append(bounds[-1] + n_rows)
        assert columns is not None, "there is a file"
        self.column_names = [str(column) for column in columns]
        self.shape = (bounds[-1], len(self.column_names))
        schema = self._parts[0].file.schema_arrow
        kinds = [schema.field(column).type for column in self.column_names]
        self.dtype = np.dtype(dtype if dtype is not None else common_type(map(plain_type, kinds)))
        self._bounds = np.array(bounds, dtype=np.int64)
        # Within a large row group, where its rows are read on from.
        self._open: tuple[int, int, Iterator[Any], Any] | None = None

    def chunk_bounds(self) -> IntArray:
        """Those of the row groups; large ones are cut further."""
        row_bytes = self.shape[1] * self.dtype.itemsize
        bounds = [np.zeros(1, dtype=np.int64)]
        for start, stop in zip(self._bounds[:-1], self._bounds[1:], strict=True):
            step = stop - start
            if step * row_bytes > LARGE_GROUP:
                step = max(PART_BYTES // row_bytes, 1)
            bounds.append(np.append(np.arange(start + step, stop, step), stop))
        return np.concatenate(bounds).astype(np.int64)

    def read(self, start: int, stop: int) -> Block:
        """Consecutive rows."""
        values = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        place = 0
        while place < stop - start:
            batch = self._batch(start + place, stop)
            n_rows = min(batch.num_rows, stop - start - place)
            for j in range(self.shape[1]):
                values[place : place + n_rows, j] = self._floats(batch, j, n_rows)
            place += n_rows
        return values

    def _floats(self, batch: Any, j: int, n_rows: int) -> npt.NDArray[np.floating]:
        return np.asarray(arrow_floats(batch.column(j).slice(0, n_rows)))

    def _batch(self, row: int, stop: int) -> Any:
        """Rows from one on, of its row group; a whole one unless it is large."""
        group = int(np.searchsorted(self._bounds, row, side="right")) - 1
        number, in_file = self._groups[group]
        file, begin = self._parts[number].file, int(self._bounds[group])
        n_rows = int(self._bounds[group + 1]) - begin
        if n_rows * self.shape[1] * self.dtype.itemsize <= LARGE_GROUP:
            table = file.read_row_group(in_file, columns=self.column_names, use_threads=False)
            self._check_length(table.num_rows, n_rows, number)
            batch = table.select(self.column_names).combine_chunks().slice(row - begin)
            return batch
        if self._open is None or self._open[:2] != (group, row):
            size = max(PART_BYTES // (self.shape[1] * self.dtype.itemsize), 1)
            batches = file.iter_batches(
                size, row_groups=[in_file], columns=self.column_names, use_threads=False
            )
            self._open = (group, begin, batches, None)
        _, position, batches, rest = self._open
        while True:  # on to the row, which is the next unless one has gone back
            batch = rest if rest is not None and rest.num_rows else next(batches, None)
            if batch is None:
                self._check_length(position - begin, n_rows, number)
                raise AssertionError("rows end where they should")
            if position + batch.num_rows > row:
                batch = batch.slice(row - position)
                taken = min(batch.num_rows, stop - row)
                self._open = (group, row + taken, batches, batch.slice(taken))
                return batch.select(self.column_names)
            position, rest = position + batch.num_rows, None

    def _check_length(self, found: int, expected: int, number: int) -> None:
        if found != expected:
            n_rows = self.shape[0] - expected + found
            raise changed_shape(self.shape, (n_rows, self.shape[1]), file=self._parts[number].name)

    def place(self, row: int) -> str:
        """The row group that a row lies in, and its file if there are several."""
        group = int(np.searchsorted(self._bounds, row, side="right")) - 1
        number, in_file = self._groups[group]
        of_file = f" of {self._parts[number].name}" if len(self._parts) > 1 else ""
        return f" (row group {in_file}{of_file})"


def open_file(name: str, opened: Any) -> Any:
    """What pyarrow knows of a file before it reads it."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(opened, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise DataFileError(
            "is damaged, cut short, or not a .parquet file", "save or copy it again", file=name
        ) from error


def check_columns(part: Part, columns: Sequence[str], first: Part | None) -> None:
    """Refuse columns that are not there, or that do not hold numbers."""
    schema = part.file.schema_arrow
    lacking = [column for column in columns if schema.get_field_index(column) < 0]
    if lacking:
        twice = [column for column in lacking if column in schema.names]
        if twice:
            raise DataFileError(
                f"has several columns of the name {quoted(twice[0])}",
                "rename them, or leave them out",
                file=part.name,
            )
        than = "" if first is None else f", which {first.name} has"
        raise DataFileError(
            f"lacks the column {quoted(lacking[0])}{than}",
            "All files of a folder must have the same columns",
            file=part.name,
        )
    wrong = [name for name in columns if plain_type(schema.field(name).type) is None]
    if wrong:
        named = ", ".join(f"{quoted(name)} ({schema.field(name).type})" for name in wrong[:5])
        named += f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        which = "a column" if len(wrong) == 1 else f"{len(wrong)} columns"
        raise DataFileError(
            f"has {which} without numbers: {named}",
            "Leave out what is no data, with ibp.open_rows(..., drop=[...]) or --drop, or write it "
            "as numbers",
            file=part.name,
        )


def common_type(dtypes: Any) -> np.dtype[Any]:
    """Single precision if that is what all columns have."""
    single = all(dtype == np.float32 for dtype in dtypes)
    return np.dtype(np.float32 if single else np.float64)


def plain_type(kind: Any) -> np.dtype[Any] | None:
    """NumPy's type for a column of an Arrow type; None if it does not hold numbers."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return np.dtype(np.bool_)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return np.dtype(np.float64)
    return None


def arrow_floats(column: Any) -> Any:
    """An Arrow array of numbers or truth values, with NaN in its gaps."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    if isinstance(column, pa.ChunkedArray):
        return column.to_numpy()
    return column.to_numpy(zero_copy_only=False)
