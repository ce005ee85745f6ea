"""``ibp report``: a page that shows a model and how it explains the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ibp.cli import options
from ibp.cli.data import (
    PAGE_ENDINGS,
    check_files,
    check_image_shape,
    load_model,
    match_columns,
    names_known,
    places_named,
    write_report_page,
)
from ibp.cli.problems import session
from ibp.cli.progress import Console
from ibp.cli.reading import Reading, read_data

EXAMPLES = (
    "ibp report model.ibp data.csv",
    "ibp report model.ibp digits.npy -o digits.html --image-shape 8x8",
    'ibp report model.ibp data.csv --title "Survey of 2024" --force',
)


def report(
    model: options.ModelFile,
    data: options.DataFile,
    output: Annotated[
        Path | None, options.output("Where the page goes.", show_default="MODEL's name, .html")
    ] = None,
    image_shape: options.ImageShape = None,
    title: options.Title = None,
    header: options.Header = None,
    index: options.Index = None,
    drop: options.Drop = None,
    key: options.Key = None,
    names: options.Names = None,
    transpose: options.Transpose = False,
    decimal: options.Decimal = None,
    missing_chunks: options.MissingChunks = None,
    stream: options.Stream = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Write a page that shows the features, and how sure they are.

    One HTML file that needs no network: open it in any browser, send it to anybody. It holds
    rows of your data.
    """
    output = options.beside(model, ".html") if output is None else output
    reading = Reading(header, index, drop, key, names, transpose, decimal, missing_chunks, stream)
    with session(quiet=quiet, json=json) as reporter:
        check_files((model, data), ((output, PAGE_ENDINGS),), force=force)
        fitted = load_model(reporter, model)
        table = read_data(reporter, data, reading, keep=names_known(fitted))
        table = match_columns(reporter, table, fitted, model)
        shape = check_image_shape(table, image_shape, fitted)
        reporter.stage("Writing the page")
        with places_named(table):
            write_report_page(fitted, table, output, image_shape=shape, title=title, force=force)

        def show(console: Console) -> None:
            from ibp.cli.summary import print_path

            print_path(console, "Report", output)

        reporter.result({"report": output}, show, output)
