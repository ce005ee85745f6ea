"""``ibp info``: what a file holds."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibp.cli import options
from ibp.cli.data import load_model, read_data
from ibp.cli.problems import session
from ibp.cli.progress import Console
from ibp.cli.words import listed, number, printable, root_mean_square

if TYPE_CHECKING:
    from ibp.files.table import Table

EXAMPLES = ("ibp info model.ibp", "ibp info data.csv", "ibp info model.ibp --json")
SHOWN_NAMES, SHOWN_SPREADS = 8, 30


def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A model or a data file.")],
    header: options.Header = None,
    index: options.Index = None,
    drop: options.Drop = None,
    key: options.Key = None,
    json: options.Json = False,
) -> None:
    """Say what a model or a data file holds."""
    with session(quiet=False, json=json) as reporter:
        if is_model(file):
            values = _about_model(load_model(reporter, file))
        else:
            table = read_data(reporter, file, header=header, index=index, drop=drop, key=key)
            values = _about_table(table)
        reporter.result({"file": file} | values, partial(_show, file, values), file)


def is_model(path: Path) -> bool:
    """Whether a file is a model, whatever its name."""
    if path.suffix.lower() == ".ibp":
        return True
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"header.npy", "components_.npy"} <= set(archive.namelist())
    except zipfile.BadZipFile:  # whoever reads it as data says so
        return False


def _about_model(model: Any) -> dict[str, Any]:
    from ibp.report.codes import about_codes

    settings = {name: value for name, value in model.get_params().items() if value is not None}
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


def _about_table(table: Table) -> dict[str, Any]:
    import numpy as np

    from ibp.files.table import pieces

    values = table.values
    dense = isinstance(values, np.ndarray)
    n_rows, n_columns = table.shape
    lowest, highest, missing, stored = np.inf, -np.inf, 0, 0
    for _, piece in pieces(values):
        present = piece[~np.isnan(piece)]
        missing += piece.size - present.size
        stored += piece.size
        if present.size:
            lowest = min(lowest, float(present.min()))
            highest = max(highest, float(present.max()))
    if stored < n_rows * n_columns:  # what a sparse matrix does not store is 0
        lowest, highest = min(lowest, 0.0), max(highest, 0.0)
    return {
        "kind": "dense data" if dense else "sparse data",
        "rows": n_rows,
        "columns": n_columns,
        "type": str(values.dtype),
        "stored": None if dense else stored,
        "missing": missing / (n_rows * n_columns),
        "lowest": lowest,
        "highest": highest,
        "image_shape": table.image_shape,
        "names": table.column_names,
        "row_names": table.row_names,
    }


def _show(file: Path, values: dict[str, Any], console: Console) -> None:
    from rich.text import Text

    from ibp.cli.summary import print_facts

    console.print(Text.assemble((printable(file.name), "bold"), f", {values['kind']}"))
    console.print()
    print_facts(
        console,
        {
            name.replace("_", " "): _in_words(name, value)
            for name, value in values.items()
            if name != "kind" and value is not None and value != {}
        },
    )


def _in_words(name: str, value: Any) -> str:
    if name == "missing":
        return "none" if value == 0 else f"{value:.2%}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, dict) and "root_mean_square" in value:
        mean, low, high = (number(part) for part in value.values())
        return f"{mean}, root mean square of the columns' {low} to {high}"
    if isinstance(value, dict):
        return "\n".join(f"{part.rstrip('_')}: {_in_words(part, v)}" for part, v in value.items())
    if name == "image_shape":
        return f"{value[0]}x{value[1]}"
    if name in ("names", "row_names"):
        return _some(value, SHOWN_NAMES)
    if name == "weight_std":
        from ibp.cli.summary import said_of_weights

        spreads = _some([f"{spread:.2g}" for spread in value], SHOWN_SPREADS)
        return f"{spreads}; {said_of_weights(value)}" if len(value) else "none"
    return printable(str(value))


def _some(texts: Sequence[str], most: int) -> str:
    """The first of some texts, and how many more there are."""
    more = len(texts) - most
    return listed(texts[:most]) + (f" and {more:,} more" if more > 0 else "")
