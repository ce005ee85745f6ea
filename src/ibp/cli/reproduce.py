"""``ibp reproduce``: a figure or a table of the paper, made anew."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ibp.cli import options
from ibp.cli.problems import session
from ibp.cli.progress import Console, Reporter, Work
from ibp.errors import InputError

if TYPE_CHECKING:
    from ibp.reproduce.running import RunProgress
    from ibp.reproduce.study import Cell, Options, Study

ALL = "all"
EXAMPLES = (
    "ibp reproduce figure-1 -o results",
    "ibp reproduce figure-4-piano -o results --data FOLDER --jobs 2",
    "ibp reproduce all -o results --quick",
)


def names() -> tuple[str, ...]:
    """What can be reproduced."""
    from ibp.reproduce.study import NAMES

    return (*NAMES, ALL)


def check_name(name: str) -> str:
    """Refuse what there is not."""
    if name not in names():
        raise typer.BadParameter(f"there is no {name!r}; choose from {', '.join(names())}.")
    return name


def complete_name(incomplete: str) -> list[str]:
    """Names that begin with what is typed."""
    return [name for name in names() if name.startswith(incomplete)]


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A figure or table of the paper, or all: " + ", ".join(names()) + ".",
            callback=check_name,
            autocompletion=complete_name,
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="A folder in it gets tables, picture, page."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="The folder with the real data of figure 4."),
    ] = None,
    quick: Annotated[
        bool, options.flag("--quick", help="Small data and few runs, to see that all works.")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="TIME",
            parser=options.parse_seconds,
            help="For each fit, such as 90s or 5m.",
            show_default="that of the figure",
        ),
    ] = None,
    restarts: Annotated[
        int | None,
        options.count("--restarts", help="Fits of each setting.", show_default="5; 2 with --quick"),
    ] = None,
    jobs: Annotated[
        int, options.count("--jobs", help="Fits side by side, each with one thread.")
    ] = 1,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make a figure or a table of the paper anew, beside the paper's values.

    Writes a table of all runs (and of the points of their curves), the picture and a page to a
    folder of its name. What was done before is not done again, so that an interrupted run goes on
    where it was.
    """
    with session(quiet=quiet, json=json) as reporter:
        from ibp.reproduce.pictures import check_matplotlib
        from ibp.reproduce.study import NAMES, Options, study_of

        if output.exists() and not output.is_dir():
            raise InputError("is a file", "name a folder", file=output)
        check_matplotlib()
        wanted = Options(quick, data, time_limit, restarts)
        studies = [study_of(one) for one in (NAMES if name == ALL else (name,))]
        plans = [list(study.cells(wanted)) for study in studies]  # complains of what is missing
        gc.enable()  # which loading went without
        pages = _run_all(reporter, studies, plans, output, wanted, jobs)
        reporter.result({"pages": pages}, partial(_show, pages), output)


def _run_all(
    reporter: Reporter,
    studies: list[Study],
    plans: list[list[Cell]],
    output: Path,
    wanted: Options,
    jobs: int,
) -> list[Path]:
    """Run the studies one after the other; their pages."""
    from ibp.reproduce import pages, pictures
    from ibp.reproduce.running import RUNS, run_cells, workers

    written = []
    with workers(jobs) as crew:
        for place, study in enumerate(studies):
            later = sum(cell.seconds for plan in plans[place + 1 :] for cell in plan) / jobs
            reporter.stage(study.title)

            folder = output / study.name
            table = folder / RUNS

            def tell(progress: RunProgress, later: float = later, table: Path = table) -> None:
                if progress.done and table not in reporter.written:
                    reporter.wrote(table)  # so that nobody thinks that an interrupted run is lost
                reporter.work(
                    Work(
                        progress.study,
                        progress.cell,
                        progress.done,
                        progress.total,
                        progress.elapsed,
                        progress.left + later,
                    )
                )

            results = run_cells(study, folder, wanted, crew, jobs, tell)
            reporter.stage(f"Drawing {study.name}")
            pictures.save(study, results, folder)
            written.append(pages.save(study, results, folder))
            reporter.wrote(written[-1])
    return written


def _show(pages: list[Path], console: Console) -> None:
    from ibp.cli.summary import print_path

    for page in pages:
        print_path(console, "Page", page)
