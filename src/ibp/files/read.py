"""Reading a data file of any kind that we know."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gzip
import importlib
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

from ibp.errors import PLACE, DataFileError, counted
from ibp.files.columns import FileSummary
from ibp.files.options import Options, kept_columns
from ibp.files.table import Table
from ibp.files.wording import (
    SMALLER,
    alike,
    damaged,
    did_you_mean,
    ending,
    in_bytes,
    listed,
    needs_package,
)

# Ending -> module whose `read` knows it.
READERS = {
    ".npy": "arrays",
    ".npz": "arrays",
    ".csv": "delimited",
    ".csv.gz": "delimited",
    ".tsv": "delimited",
    ".tsv.gz": "delimited",
    ".txt": "delimited",
    ".txt.gz": "delimited",
    ".parquet": "parquet",
    ".mtx": "matrix_market",
    ".mtx.gz": "matrix_market",
    ".h5ad": "anndata_file",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".zarr": "zarr_store",
}
# The extra that a reader needs, if it is not that of the command line.
EXTRAS = {"anndata_file": "anndata", "hdf5": "hdf5", "zarr_store": "zarr"}
# Readers that leave columns out at once, because these may hold text.
DROPPED_WHILE_READ = {"delimited", "parquet"}
# Files that people may well try, and what to do with them.
ADVICE = {
    ".ibp": ("is a model file, not data", "give the data to use it on"),
    ".zip": ("is an archive", "unpack it and give the file in it"),
    ".mat": ("is a MATLAB file", "write its matrix as CSV: writematrix(X, 'data.csv')"),
    **dict.fromkeys(
        (".pkl", ".pickle", ".joblib"),
        (
            "is a pickle, which is never loaded because that could run code",
            "save it as .npy or CSV",
        ),
    ),
    **dict.fromkeys(
        (".rds", ".rdata"), ("is a file of R", "write it as CSV: write.csv(X, 'data.csv')")
    ),
    **dict.fromkeys((".feather", ".arrow"), ("is an Arrow file", "save it as .parquet")),
    ".json": ("is in JSON", "write its numbers as CSV, with a line for each row"),
    **dict.fromkeys(
        (".xlsx", ".xls", ".ods"), ("is a spreadsheet", "save it as CSV and give that file")
    ),
    **dict.fromkeys(
        (".png", ".jpg", ".jpeg"), ("is a single image", "give the folder that holds the images")
    ),
}


def read_table(
    path: str | PathLike[str],
    *,
    header: bool | None = None,
    index: str | int | None = None,
    drop: Sequence[str] = (),
    key: str | None = None,
    names: str | PathLike[str] | None = None,
    transpose: bool = False,
    keep: Sequence[str] | None = None,
    decimal: str | None = None,
    name: str | None = None,
    missing_chunks: Literal["refuse", "fill"] = "refuse",
) -> Table:
    """Read a data matrix.

    Known are ``.npy`` (memory-mapped), ``.npz`` (dense, or sparse as SciPy writes it), ``.csv``,
    ``.tsv`` and ``.txt`` (also compressed, ``.csv.gz``), ``.parquet``, ``.mtx``, ``.h5ad``, ``.h5``
    and ``.hdf5``, ``.zarr``, a folder of Parquet files and a folder of images of one size. Nothing
    in a file is ever executed. All but ``.npy`` is loaded; `ibp.open_rows` leaves it on disk.

    Parameters
    ----------
    path : path-like
        The file or folder.
    header : bool, optional
        Whether the first line of a delimited file holds the names of its columns. By default it
        does unless all its cells are numbers.
    index : str or int, optional
        The column that holds the names of the rows: its name, or its number, counted from 1; 0 for
        none. By default the first column is taken if it has no name of its own or holds text.
    drop : sequence of str
        Columns to leave out: names, or numbers counted from 1 where there is no such name.
    key : str, optional
        Which array of an ``.npz``, ``.h5`` or ``.zarr`` file that has several, or which layer of an
        ``.h5ad`` file.
    names : path-like, optional
        A file of text with the names of the columns, one on a line, for files that hold none.
    transpose : bool, default=False
        Whether the columns of the file are the observations. Text and Parquet files are rid of the
        columns to ``drop`` before they are turned.
    keep : sequence of str, optional
        Of a table whose columns have names, the columns to read; the others may hold anything.
    decimal : {".", ","}, optional
        The sign before decimals in a delimited file; the other one may then part thousands. By
        default it is found from the first lines.
    name : str, optional
        What to call the file in messages.
    missing_chunks : {"refuse", "fill"}, default="refuse"
        What to do where a chunk of a Zarr or HDF5 array is not there, as `ibp.open_rows` says.

    Returns
    -------
    Table
        float32 and float64 stay as they are. Half precision, booleans, integers of 8 and 16 bits
        and the grey values of images become float32; other integers, and all numbers in text,
        become float64. Sparse matrices stay sparse. Missing entries are NaN.

    Raises
    ------
    DataFileError
        If the file cannot be read, with the place of the trouble in one sentence.
    """
    path = Path(path)
    options = Options(
        header,
        index,
        tuple(drop),
        key,
        None if keep is None or transpose else tuple(keep),
        decimal,
        missing_chunks,
    )
    kind = kind_of(path)
    if name is None:
        name = path.resolve().name if path.is_dir() else path.name
    with reading_reported(path, name, kind):
        from ibp.files.checks import check_names, check_table

        module = importlib.import_module(f"ibp.files.{kind}")
        table = dataclasses.replace(module.read(path, options), source=name)
        with guesses_told(table.guesses):
            if transpose:
                table = _turned(table)
            if names is not None:
                table = named(table, Path(names))
            if kind not in DROPPED_WHILE_READ:
                table = _without_columns(table, options)
            check_names(table, can_be_dropped=not (transpose and kind in DROPPED_WHILE_READ))
            return check_table(table)


@contextlib.contextmanager
def guesses_told(guesses: tuple[str, ...]) -> Iterator[None]:
    """Let an error know what was guessed before it: one of the guesses may be why."""
    try:
        yield
    except DataFileError as error:
        error.guesses = error.guesses or guesses
        raise


@contextlib.contextmanager
def reading_reported(path: Path, name: str, kind: str) -> Iterator[None]:
    """Make sentences of all that can go wrong while a file is read."""
    try:
        yield
    except DataFileError as error:
        error.read_from(name)  # which readers leave to us
        raise
    except MemoryError as error:
        raise _too_large(path) from error
    except ImportError as error:
        raise needs_package(path.name, error, EXTRAS.get(kind, "cli")) from error
    except PermissionError as error:
        raise DataFileError(
            "may not be read by you", "change its permissions", file=path
        ) from error
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile) as error:
        raise damaged(path) from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise _too_large(path) from error
        raise DataFileError(f"cannot be read: {error.strerror or error}", file=path) from error


def describe_file(
    path: str | PathLike[str],
    *,
    header: bool | None = None,
    index: str | int | None = None,
    drop: Sequence[str] = (),
    decimal: str | None = None,
) -> FileSummary | None:
    """What a file holds that `read_table` refuses; None if there is no more to say.

    The arguments are those of `read_table`.
    """
    path = Path(path)
    try:
        module = importlib.import_module(f"ibp.files.{kind_of(path)}")
        describe = getattr(module, "describe", None)
        return (
            describe(path, Options(header, index, tuple(drop), decimal=decimal))
            if describe
            else None
        )
    except (ValueError, OSError, EOFError, ImportError, zlib.error, zipfile.BadZipFile):
        return None  # damaged, and the sentence of `read_table` says all there is to say


def kind_of(path: Path) -> str:
    """The module that reads a file, or a sentence if there is no such file or module."""
    if path.is_dir():
        return _kind_of_folder(path)
    if not path.exists():
        raise _missing(path)
    end = ending(path)
    if end in ADVICE:
        problem, cure = ADVICE[end]
        raise DataFileError(problem, cure, file=path.name)
    if end not in READERS:
        known = listed(known for known in READERS if not known.endswith(".gz"))
        has = f"the unknown ending {end}" if end else "no ending that says what it is"
        raise DataFileError(
            f"has {has}",
            f"ibp reads {known} files, and folders of images or of Parquet files; name it .csv if "
            "it is text",
            file=path.name,
        )
    if not path.is_file():
        raise DataFileError("is not an ordinary file", "save the data in a file first", file=path)
    if path.stat().st_size == 0:
        raise DataFileError("is empty", "give a file that holds data", file=path.name)
    return READERS[end]


def _kind_of_folder(path: Path) -> str:
    """The module that reads a folder: by what is in it."""
    from ibp.files import parquet, zarr_store

    if zarr_store.is_store(path) or ending(path) == ".zarr":
        return "zarr_store"
    return "parquet" if parquet.is_folder(path) else "images"


def _too_large(path: Path) -> DataFileError:
    """The sentence for a file that memory has no room for, if the matrix's size is not known."""
    size = in_bytes(path.stat().st_size)
    return DataFileError(f"({size}) does not fit into memory", SMALLER, file=path.name)


def _missing(path: Path) -> DataFileError:
    """The sentence for a file that is not there."""
    if path.is_symlink():
        return DataFileError("is a link that leads to no file", "give the file itself", file=path)
    folder = path.parent
    if not folder.is_dir():
        return DataFileError(f"does not exist: there is no folder {folder}", file=path)
    try:
        near = did_you_mean(
            path.name, [entry.name for entry in folder.iterdir() if alike(entry.stem, path.stem)]
        )
    except OSError:
        near = ""
    return DataFileError(f"does not exist{near}", "check the name and the folder", file=path)


def _turned(table: Table) -> Table:
    """The table with its columns as rows."""
    values = table.values.T
    return dataclasses.replace(
        table,
        values=values.tocsr() if hasattr(values, "tocsr") else values,
        row_names=table.column_names,
        column_names=table.row_names,
        image_shape=None,
        index_name=None,
        column_numbers=None,
    )


def named(table: Table, path: Path) -> Table:
    """The table with the names of its columns from a file."""
    if table.column_names is not None:
        raise DataFileError("has names of its columns already", "leave out --names")
    if path.is_dir():
        raise DataFileError("is a folder", "give a file with one name on each line", file=path)
    if not path.is_file():
        raise _missing(path)
    try:
        names = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError as error:
        raise DataFileError("is not UTF-8 text", "save it as UTF-8", file=path) from error
    blank = next((line for line, text in enumerate(names, 1) if not text.strip()), None)
    if blank is not None:
        cure = "give one name on each line, and none without"
        raise DataFileError(f"has a blank line ({PLACE})", cure, file=path, line=blank)
    if len(names) != table.shape[1]:
        raise DataFileError(
            f"has {counted(len(names), 'line')}, but {table.source} has "
            f"{counted(table.shape[1], 'column')}",
            "give one name on each line",
            file=path,
        )
    return dataclasses.replace(table, column_names=[name.strip() for name in names])


def _without_columns(table: Table, options: Options) -> Table:
    """The table without the columns that are not wanted."""
    names = table.column_names
    if not options.drop and (options.keep is None or names is None):
        return table
    kept = kept_columns(options, names, table.shape[1])
    if len(kept) == table.shape[1]:
        return table
    return dataclasses.replace(
        table,
        values=table.values[:, kept],
        column_names=None if names is None else [names[j] for j in kept],
        column_numbers=[j + 1 for j in kept],
        image_shape=None,
    )
