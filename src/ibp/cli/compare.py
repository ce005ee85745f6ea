"""``ibp compare``: which method predicts entries of your data best, and how soon."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibp.cli import options
from ibp.cli.data import PAGE_ENDINGS, check_checkpoint, check_files, places_named
from ibp.cli.problems import INTERRUPTED, session
from ibp.cli.progress import ComparisonSweep, Console
from ibp.cli.reading import Reading, read_data
from ibp.cli.startup import end_of_loading
from ibp.cli.words import duration
from ibp.errors import InputError, counted
from ibp.registry import COMPARED_BY_COMMAND

if TYPE_CHECKING:
    from ibp.comparison import Comparison, ComparisonProgress

EXAMPLES = (
    "ibp compare data.csv -k 20",
    "ibp compare data.csv --methods meibp,i-vibp,aibp -k 20 --minutes 10",
    "ibp compare data.csv --methods meibp-default,bnmf -k 20 --restarts 3 --json",
)
MOST_MINUTES = 1e6


def compare(
    context: typer.Context,
    data: options.DataFile,
    output: Annotated[
        Path | None,
        options.output("Where the page goes.", show_default="DATA's name, -comparison.html"),
    ] = None,
    methods: Annotated[
        Any,
        typer.Option(
            "--methods",
            metavar="LABEL,...",
            parser=options.parse_methods,
            help=f"What to compare, separated by commas: {', '.join(options.method_labels())}.",
            autocompletion=options.complete_methods,
        ),
    ] = COMPARED_BY_COMMAND,
    components: options.Components = None,
    minutes: Annotated[
        float,
        typer.Option(
            "--minutes", metavar="N", min=0.01, max=MOST_MINUTES, help="Time for all fits together."
        ),
    ] = 5.0,
    restarts: Annotated[
        int, options.count("--restarts", help="Fits of each method, with different seeds.")
    ] = 1,
    held_out: Annotated[
        float,
        typer.Option(
            "--held-out",
            metavar="FRACTION",
            help="The share of the columns that is hidden in half of the rows.",
            callback=options.check_fraction,
        ),
    ] = 0.2,
    seed: options.Seed = 0,
    checkpoint: options.Checkpoint = None,
    resume: options.Resume = False,
    jobs: options.Jobs = None,
    title: options.Title = None,
    header: options.Header = None,
    index: options.Index = None,
    drop: options.Drop = None,
    key: options.Key = None,
    names: options.Names = None,
    transpose: options.Transpose = False,
    decimal: options.Decimal = None,
    missing_chunks: options.MissingChunks = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Compare methods on your data: who predicts hidden entries best, and how soon.

    Part of the entries are hidden from all methods, which share the time equally; the score is
    the mean log-likelihood of a hidden entry, the same noise for all. Ctrl-C ends it with what
    there is. With --checkpoint --resume, the same command given again keeps the fits that are done.
    """
    output = options.beside(data, "-comparison.html") if output is None else output
    reading = Reading(
        header, index, drop, key, names, transpose, decimal, missing_chunks, stream=False
    )
    with session(quiet=quiet, json=json) as reporter:
        check_files((data,), ((output, PAGE_ENDINGS),), force=force)
        if checkpoint is not None or resume:
            from ibp.checkpoints import COMPARISON

            check_checkpoint(checkpoint, COMPARISON, (data, output), resume=resume, force=force)
        table = read_data(reporter, data, reading)
        n_rows, n_columns = table.shape
        reporter.stage(f"Comparing on {table.source}: {n_rows:,} x {n_columns:,}")
        from ibp.comparison import compare as run_comparison
        from ibp.comparison import places
        from ibp.compiled import compilation_reported

        started = time.monotonic()

        def tell(progress: ComparisonProgress) -> None:
            reporter.sweep(
                ComparisonSweep(
                    method=progress.label,
                    fit=min(progress.done + 1, progress.total),
                    fits=progress.total,
                    sweep=progress.sweep,
                    features=progress.n_components,
                    held_out=progress.log_likelihood,
                    seconds=progress.seconds,
                    elapsed=time.monotonic() - started,
                    time_limit=60.0 * minutes,
                )
            )

        def tell_resumed(so_far: Comparison, seconds: float) -> None:
            nonlocal started
            started -= seconds
            done = counted(len(so_far.fits), "fit")
            reporter.note(f"Going on from {checkpoint}: {done} in {duration(seconds)}.")

        end_of_loading()
        with compilation_reported(reporter.compiling), places_named(table):
            comparison = run_comparison(
                table.values,
                methods,
                n_components=components,
                n_restarts=restarts,
                time_limit=60.0 * minutes,
                fraction=held_out,
                random_state=seed,
                n_jobs=-1 if jobs is None else jobs,
                checkpoint=checkpoint,
                resume=resume,
                on_resumed=tell_resumed,
                on_progress=tell,
            )
        for label, reason in comparison.skipped.items():
            reporter.note(f"{label} was left out: {reason}")
        if not comparison.fits:
            raise InputError("None of the methods could be fitted to these data.")
        reporter.stage("Writing the page")
        from ibp.report import write_comparison

        write_comparison(comparison, output, title=title, source=table.source, force=force)
        ranking = [
            {
                "place": place,
                "method": row.label,
                "held_out": row.log_likelihood,
                "spread": row.spread,
                "own_noise": row.own_log_likelihood,
                "seconds": row.seconds,
                "features": row.n_components,
                "endings": row.endings,
            }
            for row, place in zip(comparison.ranking(), places(comparison.ranking()), strict=True)
        ]
        values = {
            "report": output,
            "hidden_entries": comparison.n_hidden,
            "noise_std": comparison.noise_std,
            "interrupted": comparison.interrupted,
            "checkpoint": checkpoint,
            "skipped": comparison.skipped,
            "ranking": ranking,
        }
        arguments = context.obj if checkpoint is not None else None
        reporter.result(values, partial(_show, comparison, output, arguments), output)
        if comparison.interrupted:
            raise typer.Exit(INTERRUPTED)


def _show(comparison: Any, output: Path, arguments: Sequence[str] | None, console: Console) -> None:
    """Print the ranking; of one that has a checkpoint, by which ``arguments`` it was made."""
    from ibp.cli.summary import again, print_path, show_next_steps
    from ibp.comparison import places

    ranking = comparison.ranking()
    ranks = places(ranking)
    hidden = counted(comparison.n_hidden, "hidden entry")
    console.print(f"Held-out score per entry, from {hidden}; higher is better", style="bold")
    console.print()
    repeated = any(len(place.n_components) > 1 for place in ranking)
    header = ["  method", "score", *(["spread"] if repeated else []), "features", "time"]
    rows = []
    for rank, place in zip(ranks, ranking, strict=True):
        spread = [f"{place.spread:.4f}"] if repeated else []
        features = ", ".join(str(k) for k in sorted(set(place.n_components)))
        score = f"{place.log_likelihood:.4f}"
        name = f"  {rank}. {place.label}"
        rows.append([name, score, *spread, features, duration(place.seconds)])
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for number, row in enumerate([header, *rows]):
        cells = (
            cell.rjust(width) if j else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        best = number > 0 and ranks[number - 1] == 1
        style = "dim" if number == 0 else "bold green" if best else ""
        console.print("   ".join(cells), style=style, soft_wrap=True)
    console.print()
    if ranks.count(1) > 1:
        console.print(f"No difference between the first {ranks.count(1)} would matter.")
    if comparison.interrupted:
        console.print("Interrupted: this is the comparison so far.")
    print_path(console, "Report", output)
    if comparison.interrupted and arguments is not None:
        console.print()
        show_next_steps(
            console, {again(arguments, "--resume"): "go on with the fits that are left"}
        )
