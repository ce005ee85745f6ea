"""``ibp reproduce``: a figure or a table of the paper, made anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ibp.cli import options
from ibp.cli.problems import session
from ibp.cli.progress import Console, Reporter, Work
from ibp.cli.startup import end_of_loading
from ibp.errors import InputError

if TYPE_CHECKING:
    from ibp.reproduce.running import Ledger, RunProgress
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


def parse_limit(text: str) -> float:
    """Read a duration that leaves time for something."""
    seconds = options.parse_seconds(text)
    if seconds == 0:
        raise typer.BadParameter("nothing can be fitted in no time; write 90s, 5m or 1h.")
    return seconds


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
            parser=parse_limit,
            help="For each fit, such as 90s or 5m; figures 1 and 2 have no fits.",
            show_default="that of the figure",
        ),
    ] = None,
    restarts: Annotated[
        int | None,
        options.count(
            "--restarts",
            help="Fits of each setting.",
            show_default="at most 5, as the figure has it; 2 with --quick",
        ),
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
        plans = [study.cells(wanted) for study in studies]  # complains of what is missing
        ledgers = [  # as does this: now rather than in an hour
            _ledger(output / study.name, wanted, plan)
            for study, plan in zip(studies, plans, strict=True)
        ]
        end_of_loading()
        pages = _run_all(reporter, studies, ledgers, jobs)
        reporter.result({"pages": pages}, partial(_show, pages), output)


def _ledger(folder: Path, wanted: Options, plan: Sequence[Cell]) -> Ledger:
    """The tables of a study, in a folder that can be written to."""
    from ibp.reproduce.running import Ledger, make_folder

    make_folder(folder)
    return Ledger.open(folder, wanted, plan)


def seconds_left(studies: Sequence[Study], ledgers: Sequence[Ledger]) -> float:
    """What is to be done of some studies will take so long, roughly."""
    return sum(
        cell.seconds
        for study, ledger in zip(studies, ledgers, strict=True)
        for cell in ledger.open_cells()
        if not ledger.left_out(study, cell)
    )


def _run_all(
    reporter: Reporter,
    studies: list[Study],
    ledgers: list[Ledger],
    jobs: int,
) -> list[Path]:
    """Run the studies one after the other; their pages."""
    from ibp.reproduce import pages, pictures
    from ibp.reproduce.running import RUNS, run_cells, workers

    written = []
    with workers(jobs) as crew:
        for place, (study, ledger) in enumerate(zip(studies, ledgers, strict=True)):
            later = seconds_left(studies[place + 1 :], ledgers[place + 1 :]) / jobs
            reporter.stage(study.title)

            folder = ledger.folder
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

            results = run_cells(study, ledger, crew, jobs, tell)
            reporter.stage(f"Drawing {study.name}")
            pictures.save(study, results, folder)
            written.append(pages.save(study, results, folder))
            reporter.wrote(written[-1])
    return written


def _show(pages: list[Path], console: Console) -> None:
    from ibp.cli.summary import print_path

    for page in pages:
        print_path(console, "Page", page)
