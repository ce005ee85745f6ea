"""Data and model files on their way into a command, and checks of where results go."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibp.cli.progress import Reporter
from ibp.cli.reading import name_of
from ibp.errors import MOST_NAMED, DataWarning, InputError, counted, quoted

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


def check_checkpoint(
    path: Path | None,
    of: str,
    others: Iterable[Path | None],
    *,
    resume: bool,
    force: bool,
) -> None:
    """Refuse a checkpoint that could not be written, or whose file is something else.

    With ``force``, and without ``resume``, one that is there is removed, to begin anew.
    """
    from ibp.checkpoints import FIT, kind_of
    from ibp.estimators.checkpointing import OF_START
    from ibp.files.write import check_target

    if path is None:
        if resume:
            cure = "Name the file that --checkpoint wrote: --checkpoint FILE --resume"
            raise InputError("--resume needs to know from where", cure)
        return
    taken = {os.path.realpath(other) for other in others if other is not None}
    if os.path.realpath(path) in taken:
        raise InputError("is named twice", "each file needs a name of its own", file=path)
    check_target(path, force=True)
    if resume:
        return
    files = [path, path.with_name(f"{path.name}{OF_START}")] if of == FIT else [path]
    there = [file for file in files if os.path.lexists(file)]
    for file in there:
        if kind_of(file) != of:
            raise InputError(
                f"exists already, and is no checkpoint of a {of}", "name another file", file=file
            )
        if not force:
            cure = "go on from it with --resume, or begin anew with --force"
            raise InputError("exists already", cure, file=file)
    for file in there:
        file.unlink()


def load_model(reporter: Reporter, path: Path, called: Path | None = None) -> Any:
    """Read a model file and say so."""
    import ibp

    reporter.stage(f"Reading {name_of(path if called is None else called)}")
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

    # By the numbers that they have in the file, where these are not their places here.
    named = table.column_names is not None or [*table.numbers] != [*range(1, table.shape[1] + 1)]
    write_report(
        model,
        table.values,
        path,
        row_names=table.row_names,
        column_names=table.labels if named else None,
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
    if table.image_shape is not None or model is None:
        return table.image_shape
    from ibp.report.notes import Notes

    said = model.notes_.get("image_shape")
    noted = Notes.of(model).image_shape
    if said is not None and (noted is None or math.prod(noted) != n_columns):
        raise InputError(
            f"The model's notes say that rows are images of the shape {quoted(said)}, which "
            f"{counted(n_columns, 'column')} cannot be",
            "Give the shape with --image-shape",
        )
    return noted


def names_known(model: Any) -> list[str] | None:
    """The names of the columns that a model was fitted to, if it has any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def match_columns(reporter: Reporter, table: Table, model: Any, model_path: Path) -> Table:
    """The table with its columns as the model knows them."""
    from ibp.files.wording import lacking

    wanted, found = names_known(model), table.column_names
    n_wanted, n_found = model.n_features_in_, table.shape[1]
    if wanted is None or found is None:
        if n_wanted != n_found:
            raise InputError(
                f"has {counted(n_found, 'column')}, but {model_path.name} was fitted to "
                f"{n_wanted:,}",
                "Only columns that have names, here and there, are found among others",
                file=table.source,
            )
        return table
    if found == wanted:
        return table
    present = set(found)
    missing = [name for name in wanted if name not in present]
    if missing:
        raise lacking(missing, found, table.source, model_path.name)
    place = {name: j for j, name in enumerate(found)}
    if len(place) < n_found or len(set(wanted)) < n_wanted:
        own = len(place) < n_found
        other = model_path.name if own else table.source
        raise InputError(
            f"has columns of one name in another order than {other}, so they cannot be told apart",
            "rename them, or put them in the order of the model",
            file=table.source if own else model_path.name,
        )
    order = [place[name] for name in wanted]
    if n_found == n_wanted:
        reporter.note(f"The columns of {table.source} were put in the order of {model_path.name}.")
    else:
        reporter.note(
            f"Of {table.source}, the {counted(n_wanted, 'column')} that {model_path.name} knows "
            "were taken."
        )
    return replace(table, values=_some_columns(table, order), column_names=wanted)


def _some_columns(table: Table, order: Sequence[int]) -> Any:
    """The values of a table, a matrix or a source of rows, with some of its columns."""
    from ibp.data.source import is_source
    from ibp.data.stored import ReadAhead
    from ibp.data.stored.some_columns import SomeColumns

    if isinstance(table.values, ReadAhead):
        return ReadAhead(SomeColumns(table.values.stored, order))
    if is_source(table.values):
        raise InputError(
            "is a mapped array of integers, of which all columns are read as they stand",
            "give --load",
            file=table.source,
        )
    return table.values[:, order]


def note_scales(reporter: Reporter, model: Any, table: Table, model_path: Path) -> None:
    """Say what one noise level for columns of different units means for what is filled in."""
    from ibp.data.summary import summarize
    from ibp.validation import spreads_too_far_apart

    images = model.notes_.get("image_shape") is not None
    apart = spreads_too_far_apart(model, summarize(table.values).variances, images=images)
    if apart is not None:
        reporter.note(
            f"The spreads of the columns differ by a factor of {apart:.3g}, and "
            f"{model_path.name} has one noise level for all, so the large ones decide which "
            "features a row has, and gaps in the others are filled by them. A fit by the default "
            "method gives each column its own."
        )


def _drops(table: Table, columns: Sequence[int]) -> str:
    """The options that leave out some columns of a table, or the first of many."""
    from ibp.files.wording import option

    names = table.column_names or [""] * table.shape[1]
    drops = [option("drop", names[j] or str(table.numbers[j])) for j in columns]
    more = " and so on" if len(drops) > MOST_NAMED else ""
    return " ".join(drops[:MOST_NAMED]) + more


@contextmanager
def places_named(table: Table) -> Iterator[None]:
    """Let errors and warnings name columns and count rows as the file does."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_named(message: Warning | str, *place: Any, **more: Any) -> None:
            if isinstance(message, DataWarning):
                message.read_from(table.source, table.column_names, table.numbers)
            show(message, *place, **more)

        warnings.showwarning = show_named
        try:
            yield
        except InputError as error:
            if error.file is None and error.row is None and error.columns:
                error.cure = f"Leave such columns out with {_drops(table, error.columns)}"
            error.read_from(table.source, table.column_names, table.numbers)
            raise
