"""Writing results: whole or not at all, and over nothing that was there before."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from ibp.atomic_files import atomic
from ibp.errors import DataFileError
from ibp.files.table import Table
from ibp.files.wording import did_you_mean, ending, listed, needs_package

CODE_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz", ".npy")
TABLE_ENDINGS = (*CODE_ENDINGS, ".mtx")


def check_target(
    path: str | PathLike[str], *, force: bool = False, endings: Sequence[str] = ()
) -> Path:
    """Refuse a file that could not be written, before any work is done for it.

    It may not exist unless ``force`` allows to replace it, and its name must have one of the
    endings, if any are given.
    """
    path = Path(path)
    if path.is_dir():
        raise DataFileError("is a folder", "name a file to write", file=path)
    if endings and ending(path) not in endings:
        raise DataFileError(
            f"cannot be written, because its name must end in {listed(endings, 'or')}", file=path
        )
    target = Path(os.path.realpath(path))
    folder = target.parent
    if not folder.is_dir():
        near = did_you_mean(folder.name, _folders(folder.parent))
        raise DataFileError(
            f"cannot be written, because there is no folder {path.parent}{near}",
            "create it, or name another",
            file=path,
        )
    if target.exists() and not target.is_file():  # a device or a pipe must not become a file
        raise DataFileError("is not an ordinary file", "name another one to write", file=path)
    if os.path.lexists(target) and not force:
        raise _exists(path)
    if not os.access(folder, os.W_OK):
        raise DataFileError(
            f"cannot be written, because you may not write to the folder {path.parent}",
            "name another",
            file=path,
        )
    return path


def write_codes(
    path: str | PathLike[str],
    codes: Any,
    *,
    row_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    index_name: str | None = None,
    force: bool = False,
) -> None:
    """Write one row of codes for each observation.

    Parameters
    ----------
    path : path-like
        The file. Its ending says how it is written: ``.csv`` and ``.tsv`` (also compressed,
        ``.csv.gz``) and ``.parquet`` with a header, and with the rows' names where there are some;
        ``.npz`` with the arrays ``codes``, ``row_names`` and ``column_names``; ``.npy`` with the
        codes alone.
    codes : array of shape (n_samples, n_components)
        Integers are written as integers, other numbers with the fewest digits that give them back.
    row_names, feature_names : sequence of str, optional
        Features without names are called "feature 0", "feature 1" and so on, as in ``components_``.
    index_name : str, optional
        What the column with the names of the rows is called.
    force : bool
        Whether a file that is there may be replaced.
    """
    if feature_names is None:
        feature_names = [f"feature {k}" for k in range(codes.shape[1])]
    names = None if row_names is None else list(row_names)
    table = Table(codes, names, list(feature_names), index_name=index_name)
    _write(path, table, "codes", force, CODE_ENDINGS)


def write_table(path: str | PathLike[str], table: Table, *, force: bool = False) -> None:
    """Write a matrix with its names, so that ``read_table`` gives it back.

    Parameters
    ----------
    path : path-like
        The file. Its ending says how it is written: ``.csv``, ``.tsv`` and ``.parquet`` with names,
        ``.npz`` with names unless the matrix is sparse, ``.npy`` and ``.mtx`` without.
    table : Table
        What to write. Rows that are images are written as images to ``.npy`` and ``.npz``.
    force : bool
        Whether a file that is there may be replaced.
    """
    _write(path, table, "values", force, TABLE_ENDINGS)


def _write(
    path: str | PathLike[str], table: Table, label: str, force: bool, endings: Sequence[str]
) -> None:
    """Write a table by its ending; what goes wrong is told in a sentence."""
    path = check_target(path, force=force, endings=endings)
    try:
        with atomic(path, force=force) as file:
            WRITERS[ending(path)](file, table, label)
    except FileExistsError as error:
        raise _exists(path) from error
    except ImportError as error:
        raise needs_package(path.name, error, "cli") from error
    except OSError as error:
        raise DataFileError(f"cannot be written: {error.strerror or error}", file=path) from error


def _write_delimited(file: BinaryIO, table: Table, label: str, delimiter: str = ",") -> None:
    from pyarrow import csv as arrow_csv

    named = table.row_names is not None
    if named or table.column_names is not None:
        line = io.StringIO()
        writer = csv.writer(line, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow([*([table.index_name or ""] if named else []), *_column_names(table)])
        file.write(line.getvalue().encode())
    # Where a row is one cell, an empty one would be a blank line, which readers skip.
    gaps = named or table.shape[1] > 1
    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    arrow_csv.write_csv(_arrow_table(table, gaps=gaps), file, options)


def _write_compressed(file: BinaryIO, table: Table, label: str, delimiter: str = ",") -> None:
    # Without the time of day, so that the same table gives the same bytes.
    with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        _write_delimited(packed, table, label, delimiter)  # type: ignore[arg-type]


def _write_parquet(file: BinaryIO, table: Table, label: str) -> None:
    from pyarrow import parquet

    parquet.write_table(_arrow_table(table), file)


def _arrow_table(table: Table, *, gaps: bool = True) -> Any:
    """The table with one Arrow array per column, names of rows first; NaN become gaps."""
    import pyarrow as pa

    values = _dense(table.values)
    columns = [pa.array(values[:, j], from_pandas=gaps) for j in range(values.shape[1])]
    names = _column_names(table)
    if table.row_names is None:
        return pa.Table.from_arrays(columns, names=names)
    label = table.index_name or "row"
    while label in names:
        label += "_"
    arrays = [pa.array(table.row_names, pa.string()), *columns]
    whole = pa.Table.from_arrays(arrays, names=[label, *names])
    return whole.replace_schema_metadata({"pandas": json.dumps(_pandas_metadata(whole, label))})


def _column_names(table: Table) -> list[str]:
    return table.column_names or [f"column {number}" for number in range(1, table.shape[1] + 1)]


def _pandas_metadata(whole: Any, index: str) -> dict[str, Any]:
    """What pandas needs in order to take a column as its index."""
    columns = [
        {
            "name": field.name,
            "field_name": field.name,
            "pandas_type": "unicode" if field.name == index else str(field.type),
            "numpy_type": "object" if field.name == index else str(field.type),
            "metadata": None,
        }
        for field in whole.schema
    ]
    return {"index_columns": [index], "column_indexes": [], "columns": columns}


def _write_npy(file: BinaryIO, table: Table, label: str) -> None:
    import numpy as np

    np.save(file, _as_images(table), allow_pickle=False)


def _write_npz(file: BinaryIO, table: Table, label: str) -> None:
    import numpy as np

    if hasattr(table.values, "toarray"):
        from scipy import sparse

        sparse.save_npz(file, table.values)
        return
    names = {"row_names": table.row_names, "column_names": table.column_names}
    arrays: dict[str, Any] = {label: _as_images(table)}
    arrays |= {name: np.array(them, np.str_) for name, them in names.items() if them is not None}
    np.savez_compressed(file, **arrays)


def _write_mtx(file: BinaryIO, table: Table, label: str) -> None:
    from scipy import io as scipy_io

    scipy_io.mmwrite(file, table.values, symmetry="general")


def _as_images(table: Table) -> Any:
    """The matrix, with rows that are images in their shape."""
    values = _dense(table.values)
    return values if table.image_shape is None else values.reshape(-1, *table.image_shape)


def _dense(values: Any) -> Any:
    return values.toarray() if hasattr(values, "toarray") else values


def _exists(path: str | PathLike[str]) -> DataFileError:
    return DataFileError(
        "exists already and is left as it is",
        "name another file, or force its replacement",
        file=path,
    )


def _folders(folder: Path) -> list[str]:
    """Names of the folders in a folder, as far as they can be seen."""
    try:
        return [entry.name for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return []


WRITERS: dict[str, Callable[[BinaryIO, Table, str], None]] = {
    ".csv": _write_delimited,
    ".tsv": partial(_write_delimited, delimiter="\t"),
    ".csv.gz": _write_compressed,
    ".tsv.gz": partial(_write_compressed, delimiter="\t"),
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".mtx": _write_mtx,
}
