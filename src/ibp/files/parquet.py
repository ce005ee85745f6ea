"""Parquet files, one or a folder of them, with the index that pandas notes in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ibp.data.stored import ReadAhead
from ibp.data.stored.parquet import ParquetRows, arrow_floats, open_file, plain_type
from ibp.errors import DataFileError
from ibp.files import guesses
from ibp.files.checks import ARROW_ROOM, float_type, has_room, loaded, new_matrix
from ibp.files.columns import ColumnSummary, FileSummary, no_numbers
from ibp.files.options import Options, dropped, find_index, kept_columns
from ibp.files.table import Table
from ibp.files.wording import SMALLER, damaged, in_bytes

# How pandas calls an index that has no name; and how we do.
NAMELESS = re.compile(r"__index_level_\d+__|row_*")


def is_folder(path: Path) -> bool:
    """Whether a folder holds Parquet files."""
    return bool(files_of(path))


def files_of(path: Path) -> list[Path]:
    """A file alone, or those of a folder, in the order of their names.

    Numbers in names are read as numbers. What begins with a dot or an underscore is no data, by the
    custom of those who write such folders.
    """
    if not path.is_dir():
        return [path]
    found = [
        file
        for file in path.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    ]
    return sorted(found, key=lambda file: in_order(file.relative_to(path).as_posix()))


def in_order(name: str) -> list[tuple[int, str]]:
    """What to sort a name by, so that part.10 follows part.9."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def open_stored_rows(path: Path, options: Options) -> Table:
    """A file, or a folder of files, whose rows stay on disk."""
    options.refuse("header", "key", "decimal")
    files = files_of(path)
    with open_file(files[0].name, files[0]) as first:
        schema = first.schema_arrow
    index = _find_index(schema, options)
    kept = kept_columns(options, schema.names, len(schema.names), index)
    _check_numbers(schema, kept)
    names = [schema.names[j] for j in kept]
    dtype = _common_type(_dtype(schema.field(j).type) for j in kept)
    named = [
        (file.name if file == path else file.relative_to(path).as_posix(), partial(Path, file))
        for file in files
    ]
    stored = ParquetRows(named, path.name, names, dtype)
    return Table(ReadAhead(stored), None, names, column_numbers=[j + 1 for j in kept])


def read(path: Path, options: Options) -> Table:
    """Read a Parquet file, a group of rows at a time, or all files of a folder."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.is_dir():
        return loaded(open_stored_rows(path, options))
    options.refuse("header", "key", "decimal")
    n_bytes = 4 * path.stat().st_size + ARROW_ROOM
    if not has_room(n_bytes):
        raise DataFileError(
            "cannot be read in this memory: a .parquet file of its size may take "
            f"{in_bytes(n_bytes)}",
            SMALLER,
        )
    try:
        with parquet.ParquetFile(path) as file:
            return _read(file, options)
    except pa.ArrowInvalid as error:
        raise damaged(path) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise damaged(path) from error  # Arrow's word for broken pages


def _read(file: Any, options: Options) -> Table:
    schema = file.schema_arrow
    index = _find_index(schema, options)
    kept = kept_columns(options, schema.names, len(schema.names), index)
    _check_numbers(schema, kept)
    dtype = _common_type(_dtype(schema.field(j).type) for j in kept)
    values = new_matrix(file.metadata.num_rows, len(kept), dtype)
    row_names: list[str] = []
    start = 0
    for batch in file.iter_batches():
        part = values[start : start + batch.num_rows]
        for position, j in enumerate(kept):
            part[:, position] = arrow_floats(batch.column(j))
        if index:
            columns = [batch.column(j).to_pylist() for j in index]
            row_names += [
                ", ".join("" if name is None else str(name) for name in names)
                for names in zip(*columns, strict=True)
            ]
        start += batch.num_rows
    names = [schema.names[j] for j in kept]
    index_name = schema.names[index[0]] if len(index) == 1 else None
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    told = []
    if index and not noted and options.index is None:
        texts = [guesses.rows_named_by(index_name, row_names, text=True)]
        told = [sentence for sentence in texts if sentence is not None]
    numbers = [j + 1 for j in kept]
    if options.index is None:
        told += guesses.identifiers(values, names, numbers, first=not index)
    if index_name is not None and NAMELESS.fullmatch(index_name):
        index_name = None
    return Table(
        values,
        row_names if index else None,
        names,
        index_name=index_name,
        guesses=tuple(told),
        column_numbers=numbers,
    )


def _check_numbers(schema: Any, kept: Sequence[int]) -> None:
    """Refuse columns that are to be data and hold none."""
    others = [j for j in kept if _dtype(schema.field(j).type) is None]
    if others:
        raise no_numbers(
            [schema.names[j] for j in others], [str(schema.field(j).type) for j in others]
        )


def _common_type(dtypes: Iterable[Any]) -> Any:
    """The widest of the columns' floating types."""
    return max(dtypes, key=lambda dtype: dtype.itemsize, default=np.dtype(np.float64))


def describe(path: Path, options: Options) -> FileSummary:
    """What the columns of a file hold, whether it can be fitted or not."""
    from pyarrow import parquet

    with parquet.ParquetFile(files_of(path)[0]) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        index = _find_index(schema, options)
        out = dropped(options, schema.names, len(schema.names))
        columns = []
        for j, name in enumerate(schema.names):
            if j in out:
                continue
            kind = schema.field(j).type
            holds = "numbers" if _dtype(kind) is not None else str(kind)
            gaps = sum(batch.column(0).null_count for batch in file.iter_batches(columns=[name]))
            columns.append(
                ColumnSummary(
                    name, "names of the rows" if j in index else holds, gaps / max(1, n_rows)
                )
            )
    return FileSummary("parquet", n_rows, columns)


def _find_index(schema: Any, options: Options) -> list[int]:
    """The columns that name the rows: those asked for, those of pandas, or a first one of text."""
    import pyarrow as pa

    if options.index is not None:
        chosen = find_index(options.index, schema.names, len(schema.names))
        return [] if chosen is None else [chosen]
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    # An index that merely counts is noted as a range and has no column.
    index = [schema.get_field_index(name) for name in noted if isinstance(name, str)]
    out = dropped(options, schema.names, len(schema.names))
    if index or len(schema.names) < 2 or 0 in out:
        return [j for j in index if j >= 0 and j not in out]
    first = schema.field(0).type
    is_text = pa.types.is_string(first) or pa.types.is_large_string(first)
    return [0] if is_text else []


def _dtype(kind: Any) -> Any:
    """The floating type for a column of an Arrow type; None if it does not hold numbers."""
    dtype = plain_type(kind)
    return None if dtype is None else float_type(dtype)
