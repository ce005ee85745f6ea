"""What can go wrong while a command runs, in one line, and the exit code it leaves.

0 is good; 1 a bug of ours, with its traceback; 2 bad input; 130 interrupted; 141 nobody reads on.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer

from ibp.cli.progress import Reporter, choose_reporter
from ibp.errors import EndingWarning, InputError, NegativeEntriesWarning

BAD_INPUT = 2
INTERRUPTED = 130
UNREAD = 141  # as if SIGPIPE had ended us

# Modules of the extras: what is missing when they are.
EXTRAS = {
    "rich": "cli",
    "jinja2": "cli",
    "pyarrow": "cli",
    "PIL": "cli",
    "anndata": "anndata",
    "matplotlib": "plot",
}
# Of no use to somebody who did not write the code, or said by commands in their own words.
NOT_FOR_USERS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    ImportWarning,
    ResourceWarning,
    EndingWarning,
    NegativeEntriesWarning,
)
# Of scikit-learn, which has no type for it; commands match columns to models by themselves.
NAMES_NOT_COMPARED = "X does not have valid feature names"


def sentence(text: str) -> str:
    """The text in one line that ends like a sentence."""
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", ")")) else f"{line}."


@contextmanager
def session(*, quiet: bool, json: bool) -> Iterator[Reporter]:
    """Run a command's work: report it, turn warnings into notes and problems into exit codes."""
    reporter = choose_reporter(quiet=quiet, json=json)
    with _signals_seen() as interrupted:
        try:
            with reporter, _termination_interrupts(), _warnings_noted(reporter):
                yield reporter
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            _tell_interrupted(reporter)
        except BrokenPipeError:
            leave_unread()
            raise typer.Exit(UNREAD) from None
        except Exception as error:
            if problem := _explained(error):
                done = _done(reporter)
                reporter.error(problem + (f" Until then {done}." if done else ""))
                raise typer.Exit(BAD_INPUT) from None
            if interrupted():  # other people's code broke on it, and raised something else
                _tell_interrupted(reporter)
            raise


def _tell_interrupted(reporter: Reporter) -> NoReturn:
    reporter.error(f"Interrupted; {_done(reporter) or 'nothing was written'}.")
    raise typer.Exit(INTERRUPTED) from None


def _done(reporter: Reporter) -> str:
    """What was written before something went wrong."""
    names = [str(path) for path in reporter.written]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} written" if names else ""


def leave_unread() -> None:
    """Let Python flush what nobody reads, or nothing can hold, without a complaint."""
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def _explained(error: Exception) -> str | None:
    """What to tell the user, if it is theirs to mend."""
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return sentence(
            f"There is not enough memory for this{detail}. Fewer columns, float32 in a .npy file, "
            "or a sparse file need less"
        )
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            return None
        return f'This needs {name}, which is not installed: pip install "ibp[{EXTRAS[name]}]".'
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"There is no file {error.filename}."
    if isinstance(error, IsADirectoryError) and error.filename is not None:
        return f"{error.filename} is a folder, not a file."
    if isinstance(error, OSError) and error.filename is not None:
        return sentence("; ".join([f"{error.filename}: {error.strerror}", *notes_of(error)]))
    if isinstance(error, InputError | OSError):
        return sentence(str(error) or type(error).__name__)
    return None


def notes_of(error: BaseException) -> list[str]:
    """What is said beside an error, such as that a file is as it was."""
    return list(getattr(error, "__notes__", ()))


@contextmanager
def _warnings_noted(reporter: Reporter) -> Iterator[None]:
    """Show each warning once, as a note."""
    seen: set[str] = set()

    def note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        text = sentence(str(message))
        if issubclass(category, NOT_FOR_USERS) or text.startswith(NAMES_NOT_COMPARED):
            return
        if text not in seen:
            seen.add(text)
            reporter.note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield


@contextmanager
def _signals_seen() -> Iterator[Callable[[], bool]]:
    """Tell whether we were interrupted, whatever became of the exception that it raised."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)

        def seen() -> bool:
            try:
                return not set(receiver.recv(4096)).isdisjoint((signal.SIGINT, signal.SIGTERM))
            except BlockingIOError:
                return False

        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            yield seen
        finally:
            signal.set_wakeup_fd(before)


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that a fit saves what it has."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in a script's background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
