"""Where ``ibp`` starts."""

from __future__ import annotations

import io
import os
import sys

from ibp.cli.startup import begin_to_load


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        _prepare()
        code = _run()
    except KeyboardInterrupt:  # before a command has begun
        code = 130
    _leave(code)


def _prepare() -> None:
    """Make do with what we were started with, and load quickly."""
    begin_to_load()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed; a file must not take its place
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # what it cannot print is spelt out
        sys.stdout.reconfigure(errors="backslashreplace")
    if os.environ.get("COLUMNS") == "0":  # a width that is not known, where nothing would fit
        del os.environ["COLUMNS"]


def _leave(code: int) -> None:
    """End at once: every file is written, and to take all modules apart would take a while."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads on; as if SIGPIPE had ended us
        code = code or (0 if _asks_for_help(sys.argv[1:]) else 141)
    os._exit(code)


def _asks_for_help(arguments: list[str]) -> bool:
    """Whether help is all that was asked for, of which people read as much as they like."""
    return not arguments or not {"-h", "--help", "--version"}.isdisjoint(arguments)


def _run() -> int:
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        print('The command line needs typer: pip install "ibp[cli]".', file=sys.stderr)
        return 2
    from ibp.cli.app import run
    from ibp.cli.problems import BAD_INPUT, UNREAD, leave_unread

    try:
        return run(sys.argv[1:])
    except BrokenPipeError:  # while we said what was wrong, or showed help
        leave_unread()
        return 0 if _asks_for_help(sys.argv[1:]) else UNREAD
    except SystemExit:  # how Rich takes it that nobody reads on
        if not _asks_for_help(sys.argv[1:]):
            raise
        leave_unread()
        return 0
    except OSError as error:  # stdout or stderr takes no more
        import contextlib  # which would take a while when Ctrl-C finds nobody to answer yet

        reason = error.strerror or error
        with contextlib.suppress(OSError):
            print(f"error: The output cannot be written: {reason}.", file=sys.stderr, flush=True)
        leave_unread()
        return BAD_INPUT


if __name__ == "__main__":
    main()
