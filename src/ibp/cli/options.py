"""Arguments and options that several commands share, and how their text is understood."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ibp.registry import DEFAULT_METHOD, METHODS

DATA_FILES = (
    ".npy, .npz, .csv, .tsv, .parquet, .mtx, .h5ad, .h5, .zarr, a folder of images or of Parquet "
    "files, or - for standard input"
)
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
LARGEST_SEED = 2**32 - 1
CODES = ("binary", "weighted")


def examples(*lines: str) -> str:
    """An epilog that shows how a command is called, a line each."""
    escaped = (line.replace("[", "\\[") for line in lines)
    # Typer would strip ordinary spaces at the beginning of a line.
    indent = 2 * "\N{NO-BREAK SPACE}"
    return "\n".join(["[bold]Examples[/bold]", *(indent + line for line in escaped)])


def help_of(command: Callable[..., object]) -> str:
    """A command's docstring with its paragraphs in one line each, for typer to wrap."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def parse_seconds(text: str) -> float:
    """Read a duration: 90, 90s, 5m or 1h."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in UNITS:
        raise typer.BadParameter(f"{text!r} is not a time; write 90s, 5m or 1h.")
    return float(match[1]) * UNITS[match[2]]


def parse_shape(text: str) -> tuple[int, int]:
    """Read the height and width of an image: 28x28."""
    match = re.fullmatch(r"\s*(\d+)\s*[x,]\s*(\d+)\s*", text.lower())
    if match is None or not (int(match[1]) and int(match[2])):
        raise typer.BadParameter(f"{text!r} is not height x width; write 28x28.")
    return int(match[1]), int(match[2])


def parse_setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; a value that is no Python literal is text."""
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, such as alpha=2.")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name, value


def parse_methods(text: str) -> list[str]:
    """Read labels separated by commas."""
    labels = [label.strip() for label in text.split(",") if label.strip()]
    if not labels:
        raise typer.BadParameter(f"name at least one method of {', '.join(method_labels())}.")
    for label in labels:
        check_method(label)
    return list(dict.fromkeys(labels))


def check_method(label: str) -> str:
    """Refuse a label that there is not."""
    if label not in method_labels():
        raise typer.BadParameter(
            f"there is no method {label!r}; choose from {', '.join(method_labels())}."
        )
    return label


def method_labels() -> list[str]:
    """Every label, ours first."""
    return sorted(METHODS, key=lambda label: label != DEFAULT_METHOD)


def complete_method(incomplete: str) -> list[str]:
    """Labels that begin with what is typed."""
    return [label for label in method_labels() if label.startswith(incomplete)]


def complete_methods(incomplete: str) -> Iterable[str]:
    """The same for the last label of a list."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [before + comma + label for label in complete_method(last) if label not in taken]


def check_codes(codes: str | None) -> str | None:
    """Refuse codes of a kind that there is not."""
    if codes is not None and codes not in CODES:
        raise typer.BadParameter(f"there are no codes {codes!r}; choose from {', '.join(CODES)}.")
    return codes


def check_decimal(sign: str | None) -> str | None:
    """Refuse what does not stand before decimals."""
    if sign not in (None, ".", ","):
        raise typer.BadParameter(f"{sign!r} is neither . nor the comma.")
    return sign


def check_missing_chunks(value: str | None) -> str | None:
    """Refuse an unknown way to deal with them."""
    if value not in (None, "refuse", "fill"):
        raise typer.BadParameter('it must be "refuse" or "fill".')
    return value


def complete_codes(incomplete: str) -> list[str]:
    """Kinds of codes that begin with what is typed."""
    return [codes for codes in CODES if codes.startswith(incomplete)]


def file(*names: str, **more: Any) -> Any:
    """An option that names a file."""
    return typer.Option(*names, metavar="FILE", **more)


def output(help: str, **more: Any) -> Any:
    """The option that says where the result goes."""
    return file("-o", "--output", help=help, **more)


def count(*names: str, **more: Any) -> Any:
    """An option that is a number of things, at least one."""
    return typer.Option(*names, metavar="N", min=1, **more)


def flag(*names: str, **more: Any) -> Any:
    """An option without a value."""
    return typer.Option(*names, metavar="", **more)


def about_data(*names: str, **more: Any) -> Any:
    """An option that says how a data file is read."""
    return typer.Option(*names, rich_help_panel="How the data are read", **more)


DataFile = Annotated[
    Path, typer.Argument(metavar="DATA", help=f"Rows and columns of numbers: {DATA_FILES}.")
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model saved by ibp fit.")]
ImageShape = Annotated[
    Any,  # a pair would be two arguments to typer
    typer.Option(
        "--image-shape",
        metavar="HxW",
        parser=parse_shape,
        help="Each row is an image of this height and width, such as 28x28.",
    ),
]
Components = Annotated[
    int | None,
    count(
        "-k",
        "--components",
        help="Most features to look for, or their number where a method cannot find it.",
        show_default="found from the data",
    ),
]
Jobs = Annotated[int | None, count("--jobs", help="Threads.", show_default="all cores")]
Codes = Annotated[
    str | None,
    typer.Option(
        "--codes",
        metavar="|".join(CODES),
        help="What a row says of each feature: that it has it or not (binary), or also how much "
        "of it, where it has it (weighted). How far weights vary is learned, and some features may "
        "stay a plain yes or no.",
        callback=check_codes,
        autocompletion=complete_codes,
        show_default="by method",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", min=0, max=LARGEST_SEED, help="The same seed gives the same answer."
    ),
]
Checkpoint = Annotated[
    Path | None,
    file(
        "--checkpoint",
        help="A file in which the work is written down as it goes, so that --resume can go on if "
        "something ends it.",
    ),
]
Resume = Annotated[
    bool,
    flag("--resume", help="Go on from what --checkpoint holds; if it is not there yet, begin."),
]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="The page's title.")]
Force = Annotated[bool, flag("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, flag("--quiet", "-q", help="Print only where the result is, and errors.")]
Json = Annotated[bool, flag("--json", help="Print JSON lines for machines, the result last.")]
Header = Annotated[
    bool | None,
    about_data(
        "--header/--no-header",
        metavar="",
        help="Whether the first line of a text file holds names.",
        show_default="detected",
    ),
]
Index = Annotated[
    str | None,
    about_data(
        "--index",
        metavar="COLUMN",
        help="The column with the names of the rows.",
        show_default="detected",
    ),
]
Drop = Annotated[
    list[str] | None,
    about_data("--drop", metavar="COLUMN", help="A column to leave out; may be repeated."),
]
Key = Annotated[
    str | None,
    about_data(
        "--key", metavar="NAME", help="Which array of an .npz, .h5 or .zarr, or layer of an .h5ad."
    ),
]
Names = Annotated[
    Path | None,
    about_data(
        "--names",
        metavar="FILE",
        help="A text file with the names of the columns, one on a line, for data without any.",
    ),
]
Transpose = Annotated[
    bool,
    about_data("--transpose", metavar="", help="The columns of the file are the observations."),
]
Decimal = Annotated[
    str | None,
    about_data(
        "--decimal",
        metavar=".|,",
        help="The sign before decimals in a text file; the other one may part thousands.",
        callback=check_decimal,
        show_default="detected",
    ),
]

MissingChunks = Annotated[
    str | None,
    about_data(
        "--missing-chunks",
        metavar="refuse|fill",
        help="What to do where a chunk of a .zarr or .h5 file is not there: it was lost, or never "
        "written because all of it is the fill value.",
        callback=check_missing_chunks,
        show_default="refuse",
    ),
]
Stream = Annotated[
    bool | None,
    about_data(
        "--stream/--load",
        metavar="",
        help="Whether rows are left on disk and read block by block, or loaded into memory. The "
        "result is the same.",
        show_default="streamed if they would take half of the memory that is free",
    ),
]


def check_fraction(fraction: float | None) -> float | None:
    """Refuse what is not between 0 and 1."""
    if fraction is not None and not 0 < fraction < 1:
        raise typer.BadParameter("it must be between 0 and 1, such as 0.1.")
    return fraction


def beside(data: Path, ending: str) -> Path:
    """A file beside the data, with their name and another ending."""
    if str(data) == "-":
        return Path(f"data{ending}")
    if data.is_dir():
        folder = data.resolve() if data.name in ("", "..") else data
        return folder.parent / ((folder.name or "data") + ending)
    return data.with_name(Path(data.name.removesuffix(".gz")).stem + ending)


def dictionary_of(settings: Sequence[tuple[str, Any]] | None) -> dict[str, Any]:
    """Settings by name; each once."""
    named: dict[str, Any] = {}
    for name, value in settings or ():
        if name in named:
            raise typer.BadParameter(f"{name} is set twice.")
        named[name] = value
    return named
