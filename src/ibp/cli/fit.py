"""``ibp fit``: find the features of a data file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibp.cli import options
from ibp.cli.data import (
    PAGE_ENDINGS,
    check_checkpoint,
    check_files,
    check_image_shape,
    write_report_page,
)
from ibp.cli.problems import INTERRUPTED, session
from ibp.cli.progress import Console
from ibp.cli.reading import STANDARD_INPUT, Reading, read_data
from ibp.cli.words import duration
from ibp.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from ibp.cli.summary import FitSummary

EXAMPLES = (
    "ibp fit data.csv",
    "ibp fit digits.npy --codes weighted --image-shape 8x8 --report digits.html",
    "ibp fit data.csv -o model.ibp --restarts 5 --held-out 0.1 --time-limit 5m",
    "ibp fit counts.h5ad --method bnmf -k 20 --set tol=1e-5 --checkpoint counts.ckpt --resume",
)
DEFAULT_RESTARTS = 1
SUGGESTED_RESTARTS = 5


def fit(
    context: typer.Context,
    data: options.DataFile,
    output: Annotated[
        Path | None, options.output("Where to save the model.", show_default="DATA's name, .ibp")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="LABEL",
            help="How to fit; every other than the default has the settings of the paper: "
            f"{', '.join(options.method_labels())}.",
            autocompletion=options.complete_method,
            callback=options.check_method,
        ),
    ] = DEFAULT_METHOD,
    codes: options.Codes = None,
    components: options.Components = None,
    restarts: Annotated[
        int,
        options.count(
            "--restarts",
            help="Fit so often from different starts, keep the best, and see what comes back.",
        ),
    ] = DEFAULT_RESTARTS,
    seed: options.Seed = 0,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            metavar="FRACTION",
            help="Hide this share of the columns in a random half of the rows, and score how well "
            "the features predict them.",
            callback=options.check_fraction,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="TIME",
            parser=options.parse_seconds,
            help="End after this time with the model so far: 90s, 5m, 1h.",
        ),
    ] = None,
    max_sweeps: Annotated[
        int | None, options.count("--max-sweeps", help="Most sweeps.", show_default="by method")
    ] = None,
    no_moves: Annotated[
        bool,
        options.flag(
            "--no-moves",
            help="Only sweep over the rows: add, split, merge and exchange no features. Quicker, "
            "and the number of features hangs on the start.",
        ),
    ] = False,
    checkpoint: options.Checkpoint = None,
    resume: options.Resume = False,
    jobs: options.Jobs = None,
    settings: Annotated[
        list[Any] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            parser=options.parse_setting,
            help="Any other setting of the method, such as alpha=2 or noise=shared; may be "
            "repeated.",
        ),
    ] = None,
    image_shape: options.ImageShape = None,
    report: Annotated[
        Path | None, options.file("--report", help="Also write a report page, a .html file.")
    ] = None,
    without_assignments: Annotated[
        bool,
        options.flag(
            "--without-assignments", help="Leave what was found of each row out of the model."
        ),
    ] = False,
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
    """Find the features of a data file, and save them as a model.

    Ctrl-C ends the fit and saves what there is. With --checkpoint --resume, the same command given
    again goes on where the last one was, and ends as if nothing had happened.
    """
    output = options.beside(data, ".ibp") if output is None else output
    changes = options.dictionary_of(settings)
    reading = Reading(header, index, drop, key, names, transpose, decimal, missing_chunks, stream)
    with session(quiet=quiet, json=json) as reporter:
        from ibp.cli import fitting

        fitting.check_model_name(output)
        check_files((data,), ((output, ()), (report, PAGE_ENDINGS)), force=force)
        fitting.check_settings(changes)
        if checkpoint is not None or resume:
            from ibp.checkpoints import FIT

            check_checkpoint(checkpoint, FIT, (data, output, report), resume=resume, force=force)
        if report is not None:
            import jinja2  # noqa: F401  # to miss it now, not after the fit
        table = read_data(reporter, data, reading)
        shape = check_image_shape(table, image_shape)
        reporter.stage("Loading the method")
        estimator = fitting.make_estimator(
            method,
            components,
            n_init=restarts,
            random_state=seed,
            max_iter=max_sweeps,
            time_limit=time_limit,
            checkpoint=None if checkpoint is None else str(checkpoint),
            resume=resume or None,
            n_jobs=jobs,
            codes=codes,
            no_moves=no_moves,
            **changes,
        )
        fitting.note_shift(reporter, method, estimator, table)
        hidden = None if held_out is None else fitting.hide(table, held_out, seed)
        model, seconds = fitting.fit_table(
            reporter, estimator, table, method=method, held_out=hidden, image_shape=shape
        )
        model.notes_ |= {
            "data_file": str(data),
            "reading": reading.arguments(),
            "model_file": str(output),
        }
        assignments = not without_assignments
        fitting.save_model(reporter, model, output, assignments=assignments, force=force)
        interrupted = model.ending_ == "interrupted"
        if report is not None and not interrupted:
            reporter.stage("Writing the report page")
            write_report_page(model, table, report, image_shape=shape, force=force)
        from ibp.cli.summary import summarize_fit

        seen = table.values if hidden is None else hidden.training
        summary = summarize_fit(model, table, seen, shape, model.notes_.get("held_out"), seconds)
        page = None if interrupted else report

        def show(console: Console) -> None:
            summary.show(console)
            given = reading.arguments()
            _show_what_now(console, summary, data, output, page, given, context.obj)

        files = {"model": output, "report": page, "checkpoint": checkpoint}
        reporter.result(files | summary.values(), show, output)
        if interrupted:
            raise typer.Exit(INTERRUPTED)


def _show_what_now(
    console: Console,
    summary: FitSummary,
    data: Path,
    output: Path,
    report: Path | None,
    reading: Sequence[str],
    arguments: Sequence[str],
) -> None:
    """Where the model is, and what to do with it.

    ``reading`` are the options by which the data were read, ``arguments`` all of this command.
    """
    from ibp.cli.summary import again, print_path, quoted, show_next_steps
    from ibp.report.codes import worthwhile_gain

    model = summary.model
    console.print()
    if model.ending_ == "interrupted":
        console.print(
            f"Interrupted after {duration(summary.seconds)}. The best model so far was saved"
            + ("." if model.checkpoint is None else f"; the fit can go on from {model.checkpoint}.")
        )
    print_path(console, "Model", output)
    if report is not None:
        print_path(console, "Report", report)
    console.print()
    source = "DATA" if data == STANDARD_INPUT else str(data)  # which was read to its end
    here, there = " ".join(map(quoted, [source, *reading])), quoted(output)
    steps = {}
    if model.checkpoint is not None and model.ending_ in ("interrupted", "time_limit"):
        steps[again(arguments, "--resume")] = "go on where it was"
    if report is None:
        page = quoted(output.with_suffix(".html"))
        steps[f"ibp report {there} {here} -o {page}"] = "see the features, and how sure they are"
    has = "how much of which features rows have"
    has = has if model.real_codes else "which rows have which features"
    codes = quoted(output.with_name(f"{output.stem}-features.csv"))
    steps[f"ibp transform {there} {here} -o {codes}"] = has
    if model.ending_ == "max_iter":
        more = ("--max-sweeps", 4 * model.max_iter)
        resumed = ("--resume",) if model.checkpoint is not None and model.n_init == 1 else ()
        steps[again(arguments, *more, *resumed)] = "go on until it converges"
    gain = worthwhile_gain(model, model.notes_.get("weights_gain"))
    if gain is not None:
        weighted = again(arguments, "--codes", "weighted")
        steps[weighted] = (
            f"how much of a feature, not only whether: a few steps gain {gain:,.0f} nats"
        )
    if model.n_init == 1:
        restarted = again(arguments, "--restarts", SUGGESTED_RESTARTS)
        steps[restarted] = "another start may find other features: see which come back"
    show_next_steps(console, steps)
