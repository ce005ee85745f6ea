"""Data files whose rows stay on disk and are read a block at a time."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from ibp.data import RowSource, as_source
from ibp.data.stored import ReadAhead, open_stored
from ibp.data.stored.base import MissingChunks
from ibp.data.stored.some_columns import SomeColumns
from ibp.errors import DataFileError, InvalidTypeError
from ibp.files.checks import check_names, float_type
from ibp.files.options import Options, kept_columns
from ibp.files.read import kind_of, named, reading_reported
from ibp.files.table import Table
from ibp.files.wording import ending, listed

# Readers whose files can be read a block at a time, and what these are called.
STREAMED = ("arrays", "parquet", "zarr_store", "hdf5", "anndata_file")
FORMATS = (".npy", ".parquet", ".zarr", ".h5", ".h5ad")


def open_rows(
    data: str | PathLike[str] | Any,
    *,
    key: str | None = None,
    index: str | int | None = None,
    drop: Sequence[str] = (),
    missing_chunks: MissingChunks = "refuse",
) -> RowSource:
    """Open data that stay on disk, for any estimator to read a block of rows at a time.

    While one block is worked on, a thread reads the next. The result is that of the same numbers in
    memory, bit for bit. Each sweep reads the file once.

    Parameters
    ----------
    data : path-like, or an opened array
        A ``.npy``, ``.parquet``, ``.zarr``, ``.h5`` (``.hdf5``) or ``.h5ad`` file, or a folder of
        Parquet files with the same columns, whose rows follow one another in the order of the names
        of the files (of which numbers are read as numbers). Or what other libraries have opened:
        ``zarr.Array``, ``h5py.Dataset``, a backed ``anndata.AnnData`` or a
        ``pyarrow.dataset.Dataset`` of Parquet files; these can be given to ``fit`` as well.
    key : str, optional
        Which dataset of an HDF5 file, array of a Zarr group or layer of an AnnData file.
    index : str or int, optional
        The column of a Parquet file that names the rows, and is no data: its name or number,
        counted from 1; 0 for none. By default those that pandas has noted, or a first one of text.
    drop : sequence of str
        Columns to leave out: names, or numbers counted from 1 where there is no such name.
    missing_chunks : {"refuse", "fill"}, default="refuse"
        What to do where a chunk of a Zarr or HDF5 array is not there. Both libraries then give a
        fill value, and Zarr leaves out chunks that hold nothing else: nobody can tell these from
        chunks that were lost. So they are refused, unless it is said that they are meant.

    Returns
    -------
    source
        With ``shape``, ``dtype``, ``rows(slice or numbers)`` and, of files that name their columns,
        ``column_names``. Types are converted as by `ibp.files.read_table`.

    Examples
    --------
    >>> import numpy as np, ibp
    >>> np.save("small.npy", np.eye(4, dtype=np.float32))
    >>> rows = ibp.open_rows("small.npy")
    >>> rows.shape, rows.rows(slice(1, 3)).tolist()
    ((4, 4), [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    """
    if missing_chunks not in ("refuse", "fill"):
        raise InvalidTypeError(f'missing_chunks must be "refuse" or "fill", not {missing_chunks!r}')
    if not isinstance(data, str | PathLike):
        opened = open_stored(data, missing_chunks=missing_chunks, float_of=float_type)
        if opened is None:
            raise InvalidTypeError(
                f"open_rows takes a file, or an array that Zarr, h5py, AnnData (backed) or pyarrow "
                f"has opened, not {type(data).__name__}",
                "What is in memory is given to fit as it is",
            )
        table = Table(opened, column_names=opened.column_names)
        return as_source(without_columns(table, Options(drop=tuple(drop))).values)
    table = open_table(data, key=key, index=index, drop=drop, missing_chunks=missing_chunks)
    return as_source(table.values)


def open_table(
    path: str | PathLike[str],
    *,
    key: str | None = None,
    index: str | int | None = None,
    drop: Sequence[str] = (),
    names: str | PathLike[str] | None = None,
    keep: Sequence[str] | None = None,
    missing_chunks: MissingChunks = "refuse",
    name: str | None = None,
) -> Table:
    """A data file as `ibp.files.read_table` gives it, but for its values, which stay on disk.

    They are a mapped array or a row source; rows have no names, which might be too many.
    """
    path = Path(path)
    options = Options(None, index, tuple(drop), key, None if keep is None else tuple(keep))
    options = replace(options, missing_chunks=missing_chunks)
    kind = kind_of(path)
    if name is None:
        name = path.resolve().name if path.is_dir() else path.name
    if kind not in STREAMED or ending(path) == ".npz":
        raise DataFileError(
            "cannot be read a block of rows at a time",
            f"{listed(FORMATS)} files and folders of Parquet files can; convert it, or let it be "
            "loaded",
            file=name,
        )
    with reading_reported(path, name, kind):
        module = importlib.import_module(f"ibp.files.{kind}")
        table = replace(module.open_stored_rows(path, options), source=name)
        if names is not None:
            table = named(table, Path(names))
        if isinstance(table.values, ReadAhead):
            if kind != "parquet":  # which leaves columns out itself
                table = without_columns(table, options)
        elif options.drop:
            raise DataFileError(
                "is a mapped array, of which all columns are read",
                "leave out no columns, or load it with ibp.files.read_table or --load",
            )
        check_names(table)
        n_rows, n_columns = table.shape
        if n_rows == 0 or n_columns == 0:
            lacking = "rows" if n_rows == 0 else "columns"
            raise DataFileError(
                f"has no {lacking} (its shape is {n_rows} x {n_columns})",
                "give a file that holds data",
            )
        return table


def without_columns(table: Table, options: Options) -> Table:
    """A table whose rows stay on disk, without the columns that are not wanted."""
    names = table.column_names
    kept = kept_columns(options, names, table.shape[1])
    if len(kept) == table.shape[1]:
        return table
    return replace(
        table,
        values=ReadAhead(SomeColumns(table.values.stored, kept)),
        column_names=None if names is None else [names[j] for j in kept],
        column_numbers=[j + 1 for j in kept],
    )
