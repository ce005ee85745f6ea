"""How a data file is read: what the options say of it, and data on standard input."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ibp.cli.progress import Reporter
from ibp.errors import DataFileError, InputError

if TYPE_CHECKING:
    from ibp.files.columns import FileSummary
    from ibp.files.table import Table

STANDARD_INPUT, STREAM = Path("-"), "standard input"
# How files begin, and the ending of their kind; anything else is text.
BEGINNINGS = (
    (b"\x93NUMPY", ".npy"),
    (b"PK\x03\x04", ".npz"),
    (b"PAR1", ".parquet"),
    (b"\x1f\x8b", ".csv.gz"),
    (b"%%MatrixMarket", ".mtx"),
    (b"\x89HDF", ".h5ad"),
)
LONGEST_BEGINNING = max(len(beginning) for beginning, _ in BEGINNINGS)


@dataclass(frozen=True)
class Reading:
    """The options of a command that say how its data file is read."""

    header: bool | None = None
    index: str | None = None
    drop: Sequence[str] | None = None
    key: str | None = None
    names: Path | None = None
    transpose: bool = False
    decimal: str | None = None
    missing_chunks: str | None = None
    stream: bool | None = None  # for the command alone: another reads as suits it

    def arguments(self) -> list[str]:
        """What to give another command for it to read the data alike."""
        given = [] if self.header is None else ["--header" if self.header else "--no-header"]
        values = (
            ("--index", [self.index]),
            ("--drop", self.drop or ()),
            ("--key", [self.key]),
            ("--names", [self.names]),
            ("--decimal", [self.decimal]),
            ("--missing-chunks", [self.missing_chunks]),
        )
        for option, texts in values:
            for text in texts:
                given += [] if text is None else [option, str(text)]
        return given + (["--transpose"] if self.transpose else [])

    def describe(self, file: Path) -> FileSummary | None:
        """What a file holds that cannot be read so; None if there is no more to say."""
        from ibp.files.read import describe_file

        if self.key is not None or self.names is not None or self.transpose:
            return None
        return describe_file(
            file,
            header=self.header,
            index=self.index,
            drop=self.drop or (),
            decimal=self.decimal,
        )


def name_of(path: Path) -> str:
    """What to call a file."""
    return STREAM if path == STANDARD_INPUT else path.name


def read_data(
    reporter: Reporter, path: Path, reading: Reading, *, keep: Sequence[str] | None = None
) -> Table:
    """Read a data file and say so, with what was guessed of it.

    Of a table whose columns have names, those of ``keep`` are read and no others.
    """
    with file_of(path) as file:
        return read_file(reporter, file, path, reading, keep=keep)


def read_file(
    reporter: Reporter,
    file: Path,
    path: Path,
    reading: Reading,
    *,
    keep: Sequence[str] | None = None,
) -> Table:
    """The same, of what `file_of` made of a path."""
    from ibp.files.read import read_table

    name = name_of(path)
    reporter.stage(f"Reading {name}")
    table = _left_on_disk(file, name, reading, keep, is_copy=file is not path)
    if table is not None:
        if reading.stream is None:
            reporter.note(
                f"{table.source} is read block by block, and not loaded into memory; --load loads "
                "it."
            )
        return table
    try:
        table = read_table(
            file,
            header=reading.header,
            index=reading.index,
            drop=reading.drop or (),
            key=reading.key,
            names=reading.names,
            transpose=reading.transpose,
            keep=keep,
            decimal=reading.decimal,
            name=None if file is path else name,
            missing_chunks="fill" if reading.missing_chunks == "fill" else "refuse",
        )
    except DataFileError as error:
        for guess in error.guesses:  # one of them may be why
            reporter.note(f"{name}: {guess}")
        raise
    if file is not path and hasattr(table.values, "filename"):  # mapped from what goes away
        import numpy as np

        table = replace(table, values=np.array(table.values))
    for guess in table.guesses:
        reporter.note(f"{table.source}: {guess}")
    return table


def _left_on_disk(
    file: Path, name: str, reading: Reading, keep: Sequence[str] | None, *, is_copy: bool
) -> Table | None:
    """A table whose rows are read block by block, if that is asked for or memory is short."""
    asked = reading.stream is True
    if reading.stream is False or (is_copy and not asked):
        return None
    if is_copy or reading.transpose:
        if not asked:
            return None
        raise InputError(
            "cannot be read block by block from standard input, or with rows for columns",
            "Leave out --stream",
            file=name,
        )
    from ibp.files.memory import is_too_large
    from ibp.files.streamed import open_table

    try:
        table = open_table(
            file,
            key=reading.key,
            index=reading.index,
            drop=reading.drop or (),
            names=reading.names,
            keep=keep,
            missing_chunks="fill" if reading.missing_chunks == "fill" else "refuse",
        )
    except InputError:
        if asked:
            raise
        return None  # who loads it may do better, or knows a better sentence
    if not asked and (hasattr(table.values, "filename") or not is_too_large(table.values)):
        return None  # what is mapped stays where it is in any case
    return table


@contextlib.contextmanager
def file_of(path: Path) -> Iterator[Path]:
    """The file itself, or one with what comes by standard input, while it is needed."""
    if path != STANDARD_INPUT:
        yield path
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(
            "The data are to come by standard input, and nothing is sent there",
            "Send a file, as in: ibp info - < data.csv",
        )
    stream = sys.stdin.buffer
    start = stream.read(LONGEST_BEGINNING)
    ending = next((end for beginning, end in BEGINNINGS if start.startswith(beginning)), ".csv")
    with tempfile.TemporaryDirectory(prefix="ibp-") as folder:
        file = Path(folder) / f"data{ending}"
        with file.open("wb") as copy:
            copy.write(start)
            shutil.copyfileobj(stream, copy)
        try:
            yield file
        except InputError as error:
            if error.file in (str(file), file.name):  # which nobody knows
                error.file = error.about = STREAM
            raise
