"""Text with one line per row: comma, semicolon, tab, space or bar between the cells.

Arrow parses the file on all cores. It says little when it refuses, so then the file is read again,
slowly, cell by cell, which either finds the place of the trouble or copes with it.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ibp.data.stored.parquet import arrow_floats
from ibp.errors import PLACE, DataFileError, counted, quoted
from ibp.files import guesses
from ibp.files.checks import ARROW_ROOM, has_room, new_matrix, too_large
from ibp.files.columns import TEXT, ColumnSummary, FileSummary, Tally, no_numbers
from ibp.files.notation import FALSE, MISSING, TRUE, Notation, is_yes_no
from ibp.files.options import Options, dropped, find_index, kept_columns, label_of
from ibp.files.table import Table, named_columns
from ibp.files.wording import option

# What stands between cells, and before decimals; the first of those that fit equally well is taken.
DIALECTS = (
    (",", "."),
    ("\t", "."),
    (";", "."),
    (";", ","),
    ("\t", ","),
    (" ", "."),
    ("|", "."),
    ("|", ","),
)
# One sign for both, where cells are in quotes, is not guessed at.
TOLD_DIALECTS = (*DIALECTS, (",", ","), (" ", ","))
# How text begins that is no table, though its name says so.
OTHER_FORMATS = {
    "<!doctype": ("is a web page", "download the data that it links to"),
    "<html": ("is a web page", "download the data that it links to"),
    "<?xml": ("is in XML", "write its numbers as a table, with a line for each row"),
    "[{": ("is in JSON", "write its numbers as a table, with a line for each row"),
    "{": ("is in JSON", "write its numbers as a table, with a line for each row"),
}
# As much is looked at for that: so many lines, or fewer if they are long.
N_LINES = 200
N_CHARACTERS = 300_000
# Up to this size, NumPy is done before Arrow is loaded.
SMALL = 4_000_000
# Where there is too little memory for Arrow, files up to this size are read slowly.
SLOW_LIMIT = 20_000_000


@dataclass(frozen=True)
class Layout:
    """How a file is to be read."""

    delimiter: str
    notation: Notation
    n_cells: int
    names: list[str] | None  # one per cell of a row
    index: int | None
    kept: list[int]  # cells of a row that are data
    yes_no: frozenset[int]  # those of them that hold TRUE and FALSE
    header_lines: int  # and those above them
    line_length: int  # on average, of those that were looked at
    aligned: bool  # with as many spaces between cells as look well

    @property
    def block_size(self) -> int:
        """Bytes that Arrow parses at a time, with an array for each column: so, many rows."""
        return min(2**28, max(2**20, 256 * self.line_length))


def read(path: Path, options: Options) -> Table:
    """Read delimited text."""
    options.refuse("key")
    told: list[str] = []
    try:
        layout = _detect(path, options, told)
        quick = _read_small(path, layout)
        two_signs = layout.delimiter != layout.notation.decimal  # as Arrow needs
        if quick is None and two_signs and not layout.aligned and _has_room_for_arrow(path, layout):
            quick = _read_quickly(path, layout)
        values, row_names = quick or _read_slowly(path, layout)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error
    except DataFileError as error:
        error.guesses = tuple(told)
        raise
    names = layout.names
    kept_names = None if names is None else [names[j] for j in layout.kept]
    numbers = [j + 1 for j in layout.kept]
    if options.index is None:
        told += guesses.identifiers(values, kept_names, numbers, first=layout.index is None)
    index_name = None
    if names is not None and layout.index is not None:
        index_name = names[layout.index] or None
    return Table(
        values,
        row_names,
        kept_names,
        index_name=index_name,
        guesses=tuple(told),
        column_numbers=numbers,
    )


def describe(path: Path, options: Options) -> FileSummary:
    """What the columns of a file hold, whether it can be fitted or not."""
    layout = _detect(path, options, [])
    n_rows = sum(1 for _ in _rows(path, layout))
    shown = sorted({*layout.kept, *([] if layout.index is None else [layout.index])})
    columns = _columns(path, layout)
    return FileSummary("text", n_rows, [columns[j] for j in shown])


# Detection


def _detect(path: Path, options: Options, told: list[str]) -> Layout:
    """Find a file's layout from its first lines and what the caller says.

    What is guessed is ``told`` there, a sentence each.
    """
    lines = _first_lines(path)
    if not any(line.strip() for line in lines):
        raise DataFileError("is empty", "give a file that holds data")
    for beginning, (problem, cure) in OTHER_FORMATS.items():
        if "".join(lines[:2]).strip().lower().startswith(beginning):
            raise DataFileError(problem, cure)
    if lines[0].strip().strip('"').lower().startswith("sep="):
        raise DataFileError(
            f"begins with {quoted(lines[0].strip())}, which is meant for spreadsheets",
            "remove that line",
        )
    delimiter, decimal = _dialect(path, lines, options.decimal)
    notation = Notation(decimal, grouped=options.decimal is not None)
    aligned = delimiter == " " and _is_aligned(lines)
    reader = csv.reader(_unaligned(lines) if aligned else lines, delimiter=delimiter)
    rows, ends = _rows_and_ends(reader)
    n_above = _rows_above(rows, notation) if options.header is None else 0
    lines_above = ends[n_above - 1] if n_above else 0
    if n_above:
        told.append(guesses.left_out(rows[:n_above], lines_above))
    first, body, header_lines = rows[n_above], rows[n_above + 1 :], ends[n_above]
    names: list[str] | None = first
    alike = _is_like_the_rest(first, body, notation)
    has_header = options.header
    if has_header is None:
        has_header = _is_header(first, body, notation, alike=alike)
    words = any(map(notation.is_word, first))
    if options.header is None and (alike or not words):
        said = guesses.numbers_as_names if has_header else guesses.numbers_as_data
        told.append(said(first, words=words, line=lines_above + 1))
    if not has_header:
        body, names, header_lines = [first, *body], None, lines_above
    if not body:
        raise DataFileError("has a header but no rows", "give a file that holds data")
    n_cells = _usual_width(body)
    # R gives the column of names none. If all rows end in a delimiter, it is not that.
    if names is not None and len(names) == n_cells - 1 and any(row[-1] for row in body):
        names = ["", *names]
    if names is not None:
        names = [name.strip(" ") for name in names]  # as they stand after ", "
    if names is not None and len(names) != n_cells:
        raise DataFileError(
            f"has {counted(len(names), 'name')} in its header ({PLACE}), but "
            f"{counted(n_cells, 'cell')} in its rows",
            "correct the header",
            line=header_lines,
        )
    columns = list(itertools.zip_longest(*body, fillvalue=""))[:n_cells]
    if options.decimal is None:
        cells = [cell for column in columns for cell in column]
        if decimal == ",":
            told.append(guesses.decimal_commas(cells))
        elif delimiter == ";" and guesses.may_part_thousands(cells):
            told.append(guesses.decimal_points(cells))
    index = _find_index(options, names, columns, notation)
    if options.index is None and index is not None:
        name = None if names is None else names[index]
        text = notation.is_text(columns[0])
        said_of_names = guesses.rows_named_by(name, columns[0], text=text)
        told += [] if said_of_names is None else [said_of_names]
    kept = kept_columns(options, names, n_cells, [] if index is None else [index])
    yes_no = frozenset(j for j in kept if is_yes_no(columns[j]))
    length = -(-sum(map(len, lines)) // len(lines))
    return Layout(
        delimiter,
        notation,
        n_cells,
        names,
        index,
        kept,
        yes_no,
        header_lines,
        length,
        aligned,
    )


def _first_lines(path: Path) -> list[str]:
    """The first lines of a file of text."""
    with _open_binary(path) as file:
        start = file.read(4096)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataFileError("is in UTF-16", "save it as UTF-8")
    if b"\0" in start:
        raise DataFileError(
            "is not text, although its name says so",
            "save the data as text, or give the file the ending of what it is",
        )
    lines: list[str] = []
    n_characters = 0
    with _open_text(path) as file:
        for line in file:
            lines.append(line)
            n_characters += len(line)
            if len(lines) == N_LINES or (n_characters > N_CHARACTERS and len(lines) > 4):
                break
    return lines


def _dialect(path: Path, lines: list[str], told: str | None) -> tuple[str, str]:
    """Delimiter and decimal sign under which most cells below the first row are numbers."""
    candidates = list(DIALECTS)
    if told is not None:
        candidates = [dialect for dialect in TOLD_DIALECTS if dialect[1] == told]
    if ".tsv" in [suffix.lower() for suffix in path.suffixes]:
        candidates = [dialect for dialect in candidates if dialect[0] == "\t"]

    def fit(dialect: tuple[str, str]) -> tuple[bool, float]:
        delimiter, decimal = dialect
        rows = _sample(csv.reader(lines, delimiter=delimiter))
        rows = rows[1:] or rows
        cells = [cell for row in rows for cell in row]
        notation = Notation(decimal, grouped=told is not None)
        fitting = sum(not notation.is_word(cell) for cell in cells)
        return _usual_width(rows) > 1, fitting / max(1, len(cells))

    return max(candidates, key=fit)  # the first of the best


def _is_aligned(lines: Sequence[str]) -> bool:
    """Whether spaces in a row part two cells, as in columns lined up for the eye."""
    if any('"' in line for line in lines):
        return False
    first, *others = [len(line.split()) for line in lines if line.strip()]
    # Where cells are empty, two spaces in a row, lines differ in the number of their words.
    even = len({*others}) <= 1 and first in (others[0], others[0] - 1) if others else True
    return even and any(line.rstrip("\r\n") != " ".join(line.split()) for line in lines)


def _unaligned(lines: Iterable[str]) -> Iterator[str]:
    """Lines with one space between their cells, and none around them."""
    return (" ".join(line.split()) + "\n" for line in lines)


def _sample(reader: Any) -> list[list[str]]:
    """The rows of the first lines, as far as they can be split into cells."""
    rows: list[list[str]] = []
    # What cannot be split is found again, with its place, when the whole file is read.
    with contextlib.suppress(csv.Error):
        rows.extend(row for row in reader if row)
    return rows


def _rows_and_ends(reader: Any) -> tuple[list[list[str]], list[int]]:
    """The rows of the first lines, but for blank ones, and the line that each ends in."""
    rows: list[list[str]] = []
    ends: list[int] = []
    try:
        for row in reader:
            rows.append(row)
            ends.append(reader.line_num)
    except csv.Error as error:  # below the first row it is found again, with its place
        if not any(rows):
            raise _unreadable(reader.line_num, error) from error
    table = _usual_width([row for row in rows if row and not _is_blank(row)]) > 1
    filled = [bool(row) and not (table and _is_blank(row)) for row in rows]
    return list(itertools.compress(rows, filled)), list(itertools.compress(ends, filled))


def _is_blank(row: Sequence[str]) -> bool:
    """Whether a row comes of a line with nothing in it but spaces."""
    return len(row) == 1 and not row[0].strip()


def _rows_above(rows: Sequence[Sequence[str]], notation: Notation) -> int:
    """How many rows stand above a table: titles of one cell, and empty cells above the names."""
    width = _usual_width([row for row in rows if len(row) > 1])
    n_above = 0
    for row in rows if width > 1 else ():
        filled = [cell for cell in row if cell.strip()]
        if len(filled) > 1 or not all(map(notation.is_word, filled)):
            break
        n_above += 1
    if n_above in (0, len(rows)):
        return 0
    first, body = rows[n_above], rows[n_above + 1 :]
    names = any(map(notation.is_word, first)) and not _is_like_the_rest(first, body, notation)
    # One cell cannot be the names of three columns, nor of two, as R writes them.
    alone = width > 2 and all(len(row) == 1 for row in rows[:n_above])
    return n_above if alone or (names and body) else 0


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    """The number of cells that most rows have."""
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0


def _is_header(
    first: Sequence[str], body: Sequence[Sequence[str]], notation: Notation, *, alike: bool
) -> bool:
    """Whether a file's first row holds names; ``alike`` says that it looks like those below."""
    if any(map(notation.is_word, first)):
        return not (alike and _comes_back(first, body, notation))
    if not body:
        return False
    lacks_corner = first[0] == "" or len(first) == len(body[0]) - 1  # as pandas or R write it
    if lacks_corner and notation.is_text([row[0] for row in body]):
        return True
    # pandas numbers columns without names 0, 1, 2 ...; a matrix that counts on is data.
    numbers = first[1:] if first[0] == "" else first
    if numbers != [str(number) for number in range(len(numbers))]:
        return False
    return first[0] == "" or (len(numbers) > 2 and body[0][0].strip() != str(len(numbers)))


def _is_like_the_rest(
    first: Sequence[str], body: Sequence[Sequence[str]], notation: Notation
) -> bool:
    """Whether the first row has numbers where those below have them, and words where they have."""
    columns = list(itertools.zip_longest(*body, fillvalue=""))
    if len(columns) != len(first):
        return False
    numbers = words = 0
    for cell, column in zip(first, columns, strict=True):
        if notation.is_text(column):
            continue
        truth = is_yes_no([cell, *column])  # and no name of a column that says so
        numbers += truth or notation.is_number(cell)
        words += not truth and notation.is_word(cell)
    return numbers > words


def _comes_back(first: Sequence[str], body: Sequence[Sequence[str]], notation: Notation) -> bool:
    """Whether a word of the first row is said again below it, as labels are and names are not."""
    return any(
        notation.is_word(cell) and cell.strip() == row[j].strip()
        for row in body
        for j, cell in enumerate(first[: len(row)])
    )


def _find_index(
    options: Options,
    names: list[str] | None,
    columns: Sequence[Sequence[str]],
    notation: Notation,
) -> int | None:
    """The column that names the rows, or None; one that is left out names nothing."""
    if options.index is not None:
        return find_index(options.index, names, len(columns))
    if len(columns) < 2 or 0 in dropped(options, names, len(columns)):
        return None
    unnamed = names is not None and names[0] == ""
    return 0 if unnamed or notation.is_text(columns[0]) else None


# Reading


def _read_small(path: Path, layout: Layout) -> tuple[Any, list[str] | None] | None:
    """Parse a small file of numbers alone with NumPy; None if it is not that."""
    plain = len(layout.kept) == layout.n_cells and not layout.yes_no and not layout.aligned
    gzipped = path.suffix.lower() == ".gz"
    if not plain or gzipped or layout.notation.decimal != "." or path.stat().st_size > SMALL:
        return None
    try:
        values = np.loadtxt(
            path,
            delimiter=layout.delimiter,
            comments=None,
            skiprows=layout.header_lines,
            ndmin=2,
            encoding="utf-8-sig",
        )
    except ValueError:
        return None
    return (values, None) if np.isfinite(values).all() else None


def _has_room_for_arrow(path: Path, layout: Layout) -> bool:
    """Whether Arrow can be trusted with a file; a sentence if the slow reader cannot either."""
    n_bytes = path.stat().st_size * (4 if path.suffix.lower() == ".gz" else 1)
    n_rows = n_bytes // layout.line_length + 1
    size = 8 * n_rows * len(layout.kept)
    if has_room(2 * size + 8 * layout.block_size + ARROW_ROOM):
        return True
    if n_bytes > SLOW_LIMIT or not has_room(2 * size):
        raise too_large(n_rows, len(layout.kept), np.float64, about="about ")
    return False


def _read_quickly(path: Path, layout: Layout) -> tuple[Any, list[str] | None] | None:
    """Parse a file with Arrow; None if it refuses, or finds an infinity."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    cells = [str(j) for j in range(layout.n_cells)]
    types = {cells[j]: pa.bool_() if j in layout.yes_no else pa.float64() for j in layout.kept}
    wanted = [cells[j] for j in layout.kept]
    if layout.index is not None:
        types[cells[layout.index]] = pa.string()
        wanted.append(cells[layout.index])
    try:
        parsed = arrow_csv.read_csv(
            str(path),
            arrow_csv.ReadOptions(
                column_names=cells, skip_rows=layout.header_lines, block_size=layout.block_size
            ),
            arrow_csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=layout.index is not None
            ),
            arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=wanted,
                null_values=list(MISSING),
                true_values=[*TRUE, "1"],
                false_values=[*FALSE, "0"],
                decimal_point=layout.notation.decimal,
            ),
        )
    except (pa.ArrowInvalid, OSError, UnicodeEncodeError):  # the last: a name that is no text
        return None
    values = new_matrix(parsed.num_rows, len(layout.kept), np.float64)
    start = 0
    for batch in parsed.to_batches():
        part = values[start : start + batch.num_rows]
        for j in range(len(layout.kept)):
            part[:, j] = arrow_floats(batch.column(j))
        if np.isinf(part).any():
            return None
        start += batch.num_rows
    return values, None if layout.index is None else parsed.column(len(layout.kept)).to_pylist()


def _read_slowly(path: Path, layout: Layout) -> tuple[Any, list[str] | None]:
    """Read cell by cell; a cell that cannot be read is told with its place."""
    numbers = array("d")
    row_names: list[str] | None = None if layout.index is None else []
    n_rows = 0
    for line, cells in _rows(path, layout):
        if len(cells) != layout.n_cells:
            only = "only " if len(cells) < layout.n_cells else ""
            cure = "correct that line (text that holds the delimiter must be in quotes)"
            if len(cells) == 1:
                cure = "remove that line if it is a remark, or correct it"
            raise DataFileError(
                f"has {only}{counted(len(cells), 'cell')} where {layout.n_cells} are expected",
                cure,
                row=n_rows,
                line=line,
            )
        if row_names is not None and layout.index is not None:
            row_names.append(cells[layout.index])
        for j in layout.kept:
            number = layout.notation.value(cells[j].strip(), j in layout.yes_no)
            if isinstance(number, str):
                if "\n" in cells[j]:
                    raise _unreadable(line, f"{quoted(cells[j])} would be one cell")
                _refuse_text_columns(path, layout)
                words = sum(map(layout.notation.is_word, cells))
                if n_rows == 0 and layout.names is not None and words > 1:
                    raise DataFileError(
                        f"has words in {PLACE}, where columns hold numbers below it",
                        "remove that line if it is a second header, such as one of units",
                        line=line,
                    )
                raise DataFileError(
                    f"holds {quoted(cells[j])}, which {number}",
                    "correct it, leave the cell empty if the value is missing, or drop the column "
                    f"with {option('drop', label_of(j, layout.names))}",
                    row=n_rows,
                    line=line,
                    columns=[j],
                    names=layout.names,
                )
            numbers.append(number)
        n_rows += 1
    return np.array(numbers).reshape(n_rows, len(layout.kept)), row_names


def _refuse_text_columns(path: Path, layout: Layout) -> None:
    """Name all columns whose cells are mostly no numbers, if there are any."""
    found = _columns(path, layout)
    text = [j for j in layout.kept if found[j].holds == TEXT]
    if text:
        labels = [label_of(j, layout.names) for j in text]
        held = [", ".join(found[j].examples) for j in text]
        raise no_numbers(labels, held, others=len(text) < len(layout.kept))


def _columns(path: Path, layout: Layout) -> list[ColumnSummary]:
    """What the columns hold, as far as rows have as many cells as they should."""
    tallies = [Tally(j in layout.yes_no) for j in range(layout.n_cells)]
    for _, cells in _rows(path, layout):
        for tally, cell in zip(tallies, map(str.strip, cells), strict=False):
            tally.count(cell, layout.notation.value(cell, tally.yes_no))
    names = named_columns(layout.names, range(1, layout.n_cells + 1))
    return [
        tally.summary(name, names_rows=j == layout.index)
        for j, (name, tally) in enumerate(zip(names, tallies, strict=True))
    ]


def _rows(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header, each with the line of the file that it begins in."""
    with _open_text(path) as file:
        for _ in range(layout.header_lines):
            next(file)
        lines = _unaligned(file) if layout.aligned else file
        reader = csv.reader(lines, delimiter=layout.delimiter)
        while True:
            line = layout.header_lines + reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise _unreadable(line, error) from error
            if len(cells) > 1 or (cells and (layout.n_cells == 1 or cells[0].strip())):
                yield line, cells


def _unreadable(line: int, error: csv.Error | str) -> DataFileError:
    return DataFileError(
        f"cannot be split into cells from {PLACE} on ({error})",
        "look for a quote that is not closed",
        line=line,
    )


def _not_utf8(path: Path, error: UnicodeDecodeError) -> DataFileError:
    """The sentence for text in another encoding, with the first line that shows it."""
    with _open_binary(path) as file:
        for line, content in enumerate(file, 1):
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as place:
                byte = content[place.start]
                return DataFileError(
                    f"is not UTF-8 text: {PLACE} has the byte 0x{byte:02x} "
                    f"({bytes([byte]).decode('latin-1')!r} in Latin-1)",
                    "save it as UTF-8",
                    line=line,
                )
    return DataFileError(f"is not UTF-8 text ({error.reason})", "save it as UTF-8")


def _open_binary(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _open_text(path: Path) -> TextIO:
    """A file as text whose line ends are left alone, without a mark of byte order."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")
