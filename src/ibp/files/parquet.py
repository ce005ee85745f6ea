"""Parquet files, with the index that pandas notes in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ibp.errors import DataFileError
from ibp.files import guesses
from ibp.files.checks import ARROW_ROOM, float_type, has_room, new_matrix
from ibp.files.columns import ColumnSummary, FileSummary, no_numbers
from ibp.files.options import Options, dropped, find_index, kept_columns
from ibp.files.table import Table
from ibp.files.wording import SMALLER, damaged, in_bytes

# How pandas calls an index that has no name; and how we do.
NAMELESS = re.compile(r"__index_level_\d+__|row_*")


def read(path: Path, options: Options) -> Table:
    """Read a Parquet file, a group of rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

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
    types = {j: _dtype(schema.field(j).type) for j in kept}
    others = [j for j in kept if types[j] is None]
    if others:
        raise no_numbers(
            [schema.names[j] for j in others], [str(schema.field(j).type) for j in others]
        )
    dtypes = [dtype for dtype in types.values() if dtype is not None]
    dtype = max(dtypes, key=lambda dtype: dtype.itemsize, default=np.dtype(np.float64))
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


def describe(path: Path, options: Options) -> FileSummary:
    """What the columns of a file hold, whether it can be fitted or not."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
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
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return np.dtype(np.float32)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return float_type(kind.to_pandas_dtype())
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
    return column.to_numpy(zero_copy_only=False)
