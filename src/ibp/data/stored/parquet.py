"""Rows of Parquet files, one or several that are parts of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    """A file, of one or several."""

    name: str
    opened: Callable[[], Any]  # a path, or a file of pyarrow's
    n_rows: int


class Chunk(NamedTuple):
    """A row group with rows in it."""

    part: int  # the number of its file
    group: int  # its number there


class Cursor(NamedTuple):
    """How far a large row group has been decoded."""

    chunk: int
    row: int  # the next one
    batches: Iterator[Any]
    rest: Any  # of the last batch, None if all of it was given


class ParquetRows(StoredRows):
    """Rows of Parquet files, from some of their columns.

    Parameters
    ----------
    files : sequence of (str, callable)
        The names of the files in their order, and what gives what pyarrow opens: a path, or a file
        of its own. One file is open at a time.
    columns : sequence of str, optional
        The columns to read; all by default. Others may hold anything.
    dtype : dtype, optional
        The floating type of the rows; by default what suits the columns.
    name : str
        What to call all of them.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, Callable[[], Any]]],
        name: str,
        columns: Sequence[str] | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.name = name
        self._parts: list[Part] = []
        self._chunks: list[Chunk] = []
        self._current: tuple[int, Any] | None = None  # the file that is open, and its number
        self._cursor: Cursor | None = None
        bounds = [0]
        for number, (file_name, opened) in enumerate(files):
            file = open_file(file_name, opened())
            schema, metadata = file.schema_arrow, file.metadata
            if columns is None:
                columns = schema.names
            check_columns(file_name, schema, columns, files[0][0] if number else None)
            if number == 0:
                kinds = [plain_type(schema.field(str(column)).type) for column in columns]
                dtype = common_type(kinds) if dtype is None else dtype
            self._parts.append(Part(file_name, opened, metadata.num_rows))
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).num_rows:
                    self._chunks.append(Chunk(number, group))
                    bounds.append(bounds[-1] + metadata.row_group(group).num_rows)
            file.close()
        assert columns is not None and dtype is not None, "there is a file"
        self.column_names = [str(column) for column in columns]
        self.shape = (bounds[-1], len(self.column_names))
        self.dtype = np.dtype(dtype)
        self._bounds = np.array(bounds, dtype=np.int64)

    def _file(self, number: int) -> Any:
        """One of the files, opened; what it holds must be what it held."""
        if self._current is None or self._current[0] != number:
            self._cursor = None
            if self._current is not None:
                self._current[1].close()
                self._current = None
            part = self._parts[number]
            file = open_file(part.name, part.opened())
            if file.metadata.num_rows != part.n_rows:
                width = self.shape[1]
                raise changed_shape(
                    (part.n_rows, width), (file.metadata.num_rows, width), file=part.name
                )
            self._current = (number, file)
        return self._current[1]

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
        chunk = int(np.searchsorted(self._bounds, row, side="right")) - 1
        number, group = self._chunks[chunk]
        begin, end = (int(bound) for bound in self._bounds[chunk : chunk + 2])
        row_bytes = self.shape[1] * self.dtype.itemsize
        file = self._file(number)
        if (end - begin) * row_bytes <= LARGE_GROUP:
            table = file.read_row_group(group, columns=self.column_names, use_threads=False)
            return table.select(self.column_names).combine_chunks().slice(row - begin)
        if self._cursor is None or (self._cursor.chunk, self._cursor.row) != (chunk, row):
            batches = file.iter_batches(
                max(PART_BYTES // row_bytes, 1),
                row_groups=[group],
                columns=self.column_names,
                use_threads=False,
            )
            self._cursor = Cursor(chunk, begin, batches, None)
        _, position, batches, rest = self._cursor
        while True:  # on to the row, which is the next unless somebody has gone back
            batch = rest if rest is not None and rest.num_rows else next(batches)
            if position + batch.num_rows > row:
                batch = batch.slice(row - position)
                taken = min(batch.num_rows, stop - row)
                self._cursor = Cursor(chunk, row + taken, batches, batch.slice(taken))
                return batch.select(self.column_names)
            position, rest = position + batch.num_rows, None

    def place(self, row: int) -> str:
        """The row group that a row lies in, and its file if there are several."""
        number, group = self._chunks[int(np.searchsorted(self._bounds, row, side="right")) - 1]
        of_file = f" of {self._parts[number].name}" if len(self._parts) > 1 else ""
        return f" (row group {group}{of_file})"


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


def check_columns(name: str, schema: Any, columns: Sequence[str], first: str | None) -> None:
    """Refuse columns that are not there, or that do not hold numbers.

    ``first`` is the file, if it is another, that has them all.
    """
    lacking = [column for column in columns if schema.get_field_index(column) < 0]
    if lacking:
        if lacking[0] in schema.names:
            raise DataFileError(
                f"has several columns of the name {quoted(lacking[0])}",
                "rename them, or leave them out",
                file=name,
            )
        raise DataFileError(
            f"lacks the column {quoted(lacking[0])}" + (f", which {first} has" if first else ""),
            "All files of a folder must have the same columns",
            file=name,
        )
    wrong = [column for column in columns if plain_type(schema.field(column).type) is None]
    if wrong:
        named = ", ".join(f"{quoted(each)} ({schema.field(each).type})" for each in wrong[:5])
        named += f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        which = "a column" if len(wrong) == 1 else f"{len(wrong)} columns"
        raise DataFileError(
            f"has {which} without numbers: {named}",
            "Leave out what is no data, with ibp.open_rows(..., drop=[...]) or --drop, or write it "
            "as numbers",
            file=name,
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
