"""``ibp info``: what a file holds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibp.cli import options
from ibp.cli.data import load_model
from ibp.cli.problems import session
from ibp.cli.progress import Console, Reporter
from ibp.cli.reading import Reading, file_of, name_of, read_file
from ibp.cli.words import listed, number, printable, root_mean_square
from ibp.errors import DataFileError

if TYPE_CHECKING:
    from ibp.files.table import Table

EXAMPLES = (
    "ibp info model.ibp",
    "ibp info data.csv",
    "ibp info data.npz --key train",
    "ibp info model.ibp --json",
)
SHOWN_NAMES, SHOWN_SPREADS, SHOWN_COLUMNS = 8, 30, 20
LONGEST_NAME, GAP = 24, 3


def info(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A model, a data file, or a checkpoint; - for standard input."
        ),
    ],
    header: options.Header = None,
    index: options.Index = None,
    drop: options.Drop = None,
    key: options.Key = None,
    names: options.Names = None,
    transpose: options.Transpose = False,
    decimal: options.Decimal = None,
    missing_chunks: options.MissingChunks = None,
    json: options.Json = False,
) -> None:
    """Say what a model, a data file or a checkpoint holds.

    Of data, each column with its range; of a file that cannot be fitted as it is, what is in it
    and what stands in the way.
    """
    reading = Reading(
        header, index, drop, key, names, transpose, decimal, missing_chunks=missing_chunks
    )
    with session(quiet=False, json=json) as reporter:
        from ibp.checkpoints import kind_of
        from ibp.persistence import is_model

        with file_of(file) as read:
            if read.suffix.lower() == ".ibp" or (read.is_file() and is_model(read)):
                values = _about_model(load_model(reporter, read, file))
            elif read.is_file() and (kind := kind_of(read)) is not None:
                values = _about_checkpoint(read, kind)
            else:
                values = _about_data(reporter, read, file, reading)
        reporter.result({"file": file} | values, partial(_show, file, values), file)


def _about_checkpoint(path: Path, of: str) -> dict[str, Any]:
    from ibp.checkpoints import read

    header, _ = read(path, of)
    rows, columns = header["data"]["shape"]
    result = header.get("result", {})
    return {
        "kind": f"checkpoint of a {of}",
        "rows": rows,
        "columns": columns,
        "restart": header.get("restart"),
        "sweeps": header.get("n_sweeps"),
        "fits": len(result["fits"]) if result else None,
        "seconds": header["seconds"],
        "ended": header["finished"],
        "settings": {name: v for name, v in header["settings"].items() if v is not None},
    }


def _about_model(model: Any) -> dict[str, Any]:
    from ibp.persistence import OF_THE_RUN
    from ibp.report.codes import about_codes

    settings = {
        name: value
        for name, value in model.get_params().items()
        if value is not None and name not in OF_THE_RUN
    }
    learned = ("alpha_", "noise_std_", "factor_std_")
    names = getattr(model, "feature_names_in_", None)
    return {
        "kind": "model",
        "class": type(model).__name__,
        "features": model.n_components_,
        **about_codes(model),
        "rows": model.n_samples_fit_,
        "columns": model.n_features_in_,
        "evidence": model.evidence_,
        "sweeps": model.n_iter_,
        "ending": model.ending_,
        "restarts": model.restart_evidence_.size,
        "with_assignments": hasattr(model, "assignments_") or hasattr(model, "codes_"),
        "learned": {name: _level(getattr(model, name)) for name in learned if hasattr(model, name)},
        "settings": settings,
        "names": None if names is None else [str(name) for name in names],
        "notes": model.notes_,
    }


def _level(value: Any) -> Any:
    """A number; of one for each column the root mean square and the range."""
    import numpy as np

    if np.ndim(value) == 0:
        return value
    return {
        "root_mean_square": root_mean_square(value),
        "lowest": float(np.min(value)),
        "highest": float(np.max(value)),
    }


def _about_data(reporter: Reporter, file: Path, path: Path, reading: Reading) -> dict[str, Any]:
    """The data of a file; of one that cannot be fitted as it is, what it holds instead."""
    try:
        return _about_table(read_file(reporter, file, path, reading))
    except DataFileError as error:
        held = reading.describe(file)
        if held is None:
            raise
        return {
            "kind": "not yet data",
            "rows": held.rows,
            "columns": len(held.columns) or None,
            "in_the_way": str(error),
            "arrays": dict(held.arrays) or None,
            "each_column": [column._asdict() for column in held.columns] or None,
        }


def _about_table(table: Table) -> dict[str, Any]:
    import numpy as np

    from ibp.data.source import as_source, is_sparse
    from ibp.data.summary import summarize
    from ibp.files.table import pieces

    dense = not is_sparse(as_source(table.values))
    n_rows, n_columns = table.shape
    summary = summarize(table.values)
    spreads = np.sqrt(summary.variances)
    missing = 1.0 - summary.counts / n_rows
    columns = None
    if table.image_shape is None:
        names = table.labels
        columns = [
            {
                "name": names[j],
                "missing": float(missing[j]),
                "lowest": _known(summary.lowest[j]),
                "highest": _known(summary.highest[j]),
                "spread": _known(spreads[j]),
            }
            for j in range(n_columns)
        ]
    varying = spreads[spreads > 0]
    return {
        "kind": "dense data" if dense else "sparse data",
        "rows": n_rows,
        "columns": n_columns,
        "type": str(table.values.dtype),
        "stored": None if dense else sum(stored.size for _, stored in pieces(table.values)),
        "missing": float(missing.mean()),
        "lowest": _known(np.fmin.reduce(summary.lowest)),
        "highest": _known(np.fmax.reduce(summary.highest)),
        "spreads": [float(varying.min()), float(varying.max())] if varying.size else None,
        "image_shape": table.image_shape,
        "names": table.column_names,
        "row_names": table.row_names,
        "each_column": columns,
    }


def _known(value: Any) -> float | None:
    """A number, or nothing of a column without any."""
    import math

    return float(value) if math.isfinite(value) else None


def _show(file: Path, values: dict[str, Any], console: Console) -> None:
    from rich.text import Text

    from ibp.cli.summary import print_facts

    console.print(Text.assemble((printable(name_of(file)), "bold"), f", {values['kind']}"))
    console.print()
    columns = values.get("each_column")
    listed_below = {"kind", "each_column"} | ({"names"} if columns else set())
    print_facts(
        console,
        {
            name.replace("_", " "): _in_words(name, value)
            for name, value in values.items()
            if name not in listed_below and value is not None and value != {}
        },
    )
    if columns:
        console.print()
        _show_columns(console, columns)


def _show_columns(console: Console, columns: Sequence[dict[str, Any]]) -> None:
    """A line for each column: what it holds, its gaps and its range."""
    described = any(column.get("holds") for column in columns)
    parts = ("lowest", "highest") if described else ("lowest", "highest", "spread")
    rows = [["  column", *(["holds"] if described else []), "missing", *parts]]
    for column in columns[:SHOWN_COLUMNS]:
        name = listed([column["name"]], LONGEST_NAME)
        missing = "" if not column["missing"] else f"{column['missing']:.1%}"
        kind = [_held(column)] if described else []
        numbers = ["" if column[part] is None else number(column[part]) for part in parts]
        rows.append([f"  {name}", *kind, missing, *numbers])
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    while console.is_terminal and sum(widths) + GAP * len(widths) > console.width + GAP:
        if len(widths) < 3:  # the name and something of it are shown, whatever the width
            break
        widths.pop()  # of the numbers on the right
    left = 2 if described else 1  # columns of words
    for place, row in enumerate(rows):
        cells = (
            cell.ljust(width) if j < left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=False))
        )
        console.print(
            (GAP * " ").join(cells).rstrip(), style="dim" if place == 0 else "", soft_wrap=True
        )
    more = len(columns) - SHOWN_COLUMNS
    if more > 0:
        console.print(f"  and {more:,} more; --json lists all", style="dim")


def _held(column: dict[str, Any]) -> str:
    examples = column["examples"]
    holds = str(column["holds"])
    return f"{holds}, such as {printable(examples[0])}" if examples else holds


def _in_words(name: str, value: Any) -> str:
    if name == "missing":
        return "none" if value == 0 else f"{value:.2%}"
    if name == "learned":
        return "\n".join(f"{part.rstrip('_')}: {_level_in_words(v)}" for part, v in value.items())
    if name == "image_shape":
        return f"{value[0]}x{value[1]}"
    if name == "spreads":
        return f"of the columns, {number(value[0])} to {number(value[1])}"
    if name in ("names", "row_names"):
        return _some(value, SHOWN_NAMES)
    if name == "weight_std":
        from ibp.cli.summary import said_of_weights

        spreads = _some([f"{spread:.2g}" for spread in value], SHOWN_SPREADS)
        return f"{spreads}; {said_of_weights(value)}" if len(value) else "none"
    return _plain(value)


def _level_in_words(value: Any) -> str:
    if not isinstance(value, dict):
        return number(value)
    mean, low, high = (number(part) for part in value.values())
    return f"{mean}, root mean square of the columns' {low} to {high}"


def _plain(value: Any) -> str:
    """Any value in words: what a file notes may be anything."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, dict):
        said = {part: v for part, v in value.items() if v is not None and v != []}
        return "\n".join(f"{printable(str(part))}: {_inline(v)}" for part, v in said.items())
    return printable(str(value))


def _inline(value: Any) -> str:
    """A value that is a part of another, on one line; texts are options, as they are typed."""
    if isinstance(value, dict):
        return ", ".join(f"{printable(str(part))} {_inline(v)}" for part, v in value.items())
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(shlex.quote(printable(part)) for part in value)
    return _plain(value)


def _some(texts: Sequence[str], most: int) -> str:
    """The first of some texts, and how many more there are."""
    more = len(texts) - most
    return listed(texts[:most]) + (f" and {more:,} more" if more > 0 else "")
