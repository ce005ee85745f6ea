"""``ibp demo``: handwritten digits, from data to report page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ibp.cli import options
from ibp.cli.data import check_files, write_report_page
from ibp.cli.problems import INTERRUPTED, session
from ibp.cli.progress import Console
from ibp.errors import InputError
from ibp.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from ibp.files.table import Table

EXAMPLES = ("ibp demo", "ibp demo -o elsewhere --force")
IMAGE_SHAPE = (8, 8)
RESTARTS = 2
SHOWN_FEATURES = 24


def demo(
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="The folder for data, model and page."
        ),
    ] = Path("ibp-demo"),
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Find the strokes of handwritten digits, and write a page that shows them.

    1,797 images of 8 x 8 pixels that come with scikit-learn; nothing is downloaded. It takes
    about a minute, and once on a machine half a minute more to compile.
    """
    with session(quiet=quiet, json=json) as reporter:
        from ibp.cli.fitting import fit_table, make_estimator, save_model

        data, model_path, page = (output / f"digits.{end}" for end in ("npy", "ibp", "html"))
        if output.exists() and not output.is_dir():
            raise InputError("is a file", "name a folder", file=output)
        made = not output.exists()
        output.mkdir(parents=True, exist_ok=True)
        try:
            check_files((), ((data, ()), (model_path, ()), (page, ())), force=force)
            reporter.stage("Loading")
            table = _digits()
            estimator = make_estimator(DEFAULT_METHOD, None, n_init=RESTARTS, random_state=0)
            model, seconds = fit_table(
                reporter,
                estimator,
                table,
                method=DEFAULT_METHOD,
                held_out=None,
                image_shape=IMAGE_SHAPE,
            )
            from ibp.files.write import write_table

            # A row per image, as the model takes them; the model knows their shape.
            write_table(data, replace(table, image_shape=None), force=force)
            reporter.wrote(data)
            save_model(reporter, model, model_path, force=force)
        except BaseException:
            if made and not any(output.iterdir()):
                output.rmdir()
            raise
        reporter.stage("Writing the report page")
        from ibp.cli.summary import print_path, summarize_fit

        summary = summarize_fit(model, table, table.values, IMAGE_SHAPE, None, seconds)
        title = "Handwritten digits"
        write_report_page(model, table, page, image_shape=IMAGE_SHAPE, title=title, force=force)

        def show(console: Console) -> None:
            summary.show_facts(console)
            shown = summary.most_used[:SHOWN_FEATURES]
            console.print(
                f"The {len(shown)} features used most: their numbers, and in how many digits",
                style="bold",
            )
            summary.show_pictures(console, shown)
            console.print()
            print_path(console, "Report", page)
            print_path(console, "Model", model_path)
            console.print()
            console.print("Open the report in a browser to see which digits have which strokes.")

        files = {"data": data, "model": model_path, "report": page}
        reporter.result(files | summary.values(), show, page)
        if model.ending_ == "interrupted":
            raise typer.Exit(INTERRUPTED)


def _digits() -> Table:
    """The images, each named by its place and the digit it shows."""
    from sklearn.datasets import load_digits

    from ibp.files.table import Table

    digits = load_digits()
    names = [f"image {n}, a {digit}" for n, digit in enumerate(digits.target, start=1)]
    return Table(digits.data, names, None, IMAGE_SHAPE, "digits")
