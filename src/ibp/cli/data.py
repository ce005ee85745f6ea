"""Data and model files on their way into a command, and checks of where results go."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibp.cli.progress import Reporter
from ibp.cli.words import in_quotes
from ibp.errors import DataWarning, InputError, counted

if TYPE_CHECKING:
    from ibp.files.table import Table

PAGE_ENDINGS = (".html", ".htm")


def check_files(
    read: Iterable[Path], written: Iterable[tuple[Path | None, Sequence[str]]], *, force: bool
) -> None:
    """Refuse, before any work is done, a file named twice and what could not be written.

    Files to be written come with the endings that they may have.
    """
    from ibp.files.write import check_target

    targets = [(path, endings) for path, endings in written if path is not None]
    seen: set[str] = set()
    for path in (*read, *(path for path, _ in targets)):
        real = os.path.realpath(path)
        if real in seen:
            raise InputError("is named twice", "each file needs a name of its own", file=path)
        seen.add(real)
    for path, endings in targets:
        if os.path.lexists(path) and not path.is_dir() and not force:
            cure = "name another file, or replace it with --force"
            raise InputError("exists already", cure, file=path)
        check_target(path, force=True, endings=endings)


def read_data(
    reporter: Reporter,
    path: Path,
    *,
    header: bool | None,
    index: str | None,
    drop: Sequence[str] | None,
    key: str | None,
) -> Table:
    """Read a data file and say so."""
    from ibp.files.read import read_table

    reporter.stage(f"Reading {path.name}")
    table = read_table(path, header=header, index=index, drop=drop or (), key=key)
    if table.names_from is not None:
        reporter.note(
            f"The column {in_quotes(table.names_from)} of {path.name} holds text, so it names the "
            f"rows and is no data; --index {in_quotes(table.names_from)} says that this is meant."
        )
    return table


def load_model(reporter: Reporter, path: Path) -> Any:
    """Read a model file and say so."""
    import ibp

    reporter.stage(f"Reading {path.name}")
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would be waited for
        cure = "give a model that was saved in one"
        raise InputError("is not an ordinary file", cure, file=path)
    return ibp.load(path)


def write_report_page(
    model: Any,
    table: Table,
    path: Path,
    *,
    image_shape: tuple[int, int] | None,
    title: str | None = None,
    force: bool,
) -> None:
    """Write the report page about a model and its data."""
    from ibp.report import write_report

    write_report(
        model,
        table.values,
        path,
        row_names=table.row_names,
        column_names=table.column_names,
        image_shape=image_shape,
        title=title,
        force=force,
    )


def check_image_shape(
    table: Table, asked: tuple[int, int] | None, model: Any = None
) -> tuple[int, int] | None:
    """The shape of the images that rows are: as asked, else of the data, else of the model."""
    n_columns = table.shape[1]
    if asked is not None:
        if asked[0] * asked[1] != n_columns:
            raise InputError(
                f"has {counted(n_columns, 'column')}, but an image of {asked[0]}x{asked[1]} has "
                f"{asked[0] * asked[1]} pixels",
                file=table.source,
            )
        return asked
    if table.image_shape is not None:
        return table.image_shape
    noted = getattr(model, "notes_", {}).get("image_shape")
    return None if noted is None else (int(noted[0]), int(noted[1]))


def match_columns(reporter: Reporter, table: Table, model: Any, model_path: Path) -> Table:
    """The table with its columns as the model knows them."""
    wanted = getattr(model, "feature_names_in_", None)
    wanted = None if wanted is None else [str(name) for name in wanted]
    found = table.column_names
    n_wanted, n_found = model.n_features_in_, table.shape[1]
    named = wanted is not None and found is not None
    if n_wanted != n_found:
        extra = [name for name in found or () if name not in set(wanted or ())] if named else []
        cure = ""
        if named and n_found - len(extra) == n_wanted:
            cure = f"Leave out the rest with --drop, such as --drop {in_quotes(extra[0])}"
        raise InputError(
            f"has {counted(n_found, 'column')}, but {model_path.name} was fitted to {n_wanted:,}",
            cure,
            file=table.source,
        )
    if wanted is None or found is None or found == wanted:
        return table
    present = set(found)
    missing = next((name for name in wanted if name not in present), None)
    if missing is not None:
        raise InputError(
            f"has no column {in_quotes(missing)}, which {model_path.name} was fitted to",
            file=table.source,
        )
    place = {name: j for j, name in enumerate(found)}
    if len(place) < n_found:
        raise InputError(
            f"has columns of one name in another order than {model_path.name}, so they cannot be "
            "told apart",
            "rename them, or put them in the order of the model",
            file=table.source,
        )
    reporter.note(f"The columns of {table.source} were put in the order of {model_path.name}.")
    values = table.values[:, [place[name] for name in wanted]]
    return replace(table, values=values, column_names=wanted)


@contextmanager
def places_named(table: Table) -> Iterator[None]:
    """Let errors and warnings name columns and count rows as the file does."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_named(message: Warning | str, *place: Any, **more: Any) -> None:
            if isinstance(message, DataWarning):
                message.read_from(table.source, table.column_names)
            show(message, *place, **more)

        warnings.showwarning = show_named
        try:
            yield
        except InputError as error:
            if error.file is None and error.row is None and error.columns:
                error.cure = "Leave such columns out with --drop"
            error.read_from(table.source, table.column_names)
            raise
