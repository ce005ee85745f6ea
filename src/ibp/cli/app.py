"""The commands put together, and what becomes of arguments that make no sense."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ibp import __version__
from ibp.cli import compare, demo, fit, info, report, reproduce, simulate, transform
from ibp.cli.options import examples, flag, help_of
from ibp.cli.problems import BAD_INPUT, sentence

# The base of typer's own errors, wherever the installed version keeps it.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="ibp",
    help="Find the hidden yes/no features of a table of numbers, and how many there are.",
    epilog=examples(
        "ibp demo                        handwritten digits, from data to report page",
        "ibp fit data.csv                find the features, save data.ibp",
        "ibp report data.ibp data.csv    a page that shows them",
        "ibp fit --help                  all about one command",
    ),
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (fit, transform, report, compare, info, simulate, demo, reproduce):
    name = module.__name__.rpartition(".")[2]
    command = getattr(module, name)
    app.command(name, help=help_of(command), epilog=examples(*module.EXAMPLES))(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"ibp {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, flag("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        text = context.get_help()
        if text:  # typer has printed it already where rich is at hand
            print(text)


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit code."""
    try:
        code = app(list(arguments), prog_name="ibp", standalone_mode=False, obj=arguments)
    except USAGE_ERROR as error:
        return _refuse(error, machine="--json" in arguments)
    return int(code or 0)


def _refuse(error: Exception, *, machine: bool) -> int:
    """Say in one line what is wrong with the arguments."""
    message = sentence(error.format_message())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ibp"
    message = f"{message} Try: {command} --help"
    if machine:
        print(json.dumps({"event": "error", "message": message}))
    print(f"error: {message}", file=sys.stderr)
    return BAD_INPUT
