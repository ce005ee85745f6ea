"""Errors and warnings as data: what is wrong, in which file, row and column, and what to do.

Whatever the user can mend is an `InputError`; any other exception is a bug of ours. Their text is
made of their fields, so whoever shows them may change a field first. Needs nothing of ibp.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

# In a problem's words, where row and columns are to stand; no text of a user's has it.
PLACE = "\0"
# Columns that a sentence names one by one.
MOST_NAMED = 5


def quoted(text: object, limit: int = 40) -> str:
    """Text from a file in quotes, on one line, with what cannot be printed spelt out."""
    text = str(text)
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    plain = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f'"{"".join(plain)}"'


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 row, 12,000 rows, 3 entries."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("try") else f"{noun}s"
    return f"{number:,} {noun}"


class Explained(Exception):
    """An error or a warning whose sentence is made of its fields.

    Parameters
    ----------
    problem : str
        What is wrong: a whole sentence, or one that begins with what it is about. `PLACE` in it
        stands for row and columns; without that, they follow what it is about.
    cure : str
        What to do; a sentence of its own if it begins with a capital.
    about : str
        What the problem begins with: ``"X"``, or nothing. By default the file, if there is one.
    file : path-like, optional
        The file that it is about. Places in a file count from 1, those in an array from 0.
    row, columns : int, sequence of int
        Counted from 0, whatever the sentence does.
    names : sequence of str, optional
        Of all columns.
    numbers : sequence of int, optional
        Of all columns in the file, counted from 1, if columns of it were left out.
    line : int, optional
        Of the file, counted from 1.
    chunk : str
        Which part of the file the row lies in, in words that follow its place.
    """

    usually_about = ""

    def __init__(
        self,
        problem: str,
        cure: str = "",
        *,
        about: str = "",
        file: str | PathLike[str] | None = None,
        row: int | None = None,
        columns: Sequence[int] = (),
        names: Sequence[str] | None = None,
        numbers: Sequence[int] | None = None,
        line: int | None = None,
        chunk: str = "",
    ) -> None:
        super().__init__(problem)  # alone, so that copies can be made
        self.problem = problem
        self.cure = cure
        self.file = None if file is None else fspath(file)
        self.about = about or self.file or self.usually_about
        self.row = row
        self.columns = list(columns)
        self.names = names
        self.numbers = numbers
        self.line = line
        self.chunk = chunk

    @property
    def column(self) -> int | None:
        """The first of the columns."""
        return self.columns[0] if self.columns else None

    def read_from(
        self, file: str, names: Sequence[str] | None = None, numbers: Sequence[int] | None = None
    ) -> None:
        """Tell it of the file that the data are read from, and what its columns are called."""
        if self.file is None and (self.about or self.columns):
            self.file = file
            self.names = names or self.names
            self.numbers = numbers or self.numbers
            self.about = self.about and file

    @property
    def place(self) -> str:
        """Line, row and columns in words, as far as they are known."""
        line = [] if self.line is None else [f"line {self.line}"]
        if self.row is not None:
            row = f"row {self.row if self.file is None else self.row + 1}"
            line = [row if self.line is None else f"{row} ({line[0]})"]
        named = ", ".join([*line, *map(self._column, self.columns[:MOST_NAMED])])
        more = len(self.columns) - MOST_NAMED
        return (f"{named} and {more} more" if more > 0 else named) + self.chunk

    def _column(self, j: int) -> str:
        if self.file is None:
            return f"column {j}" if self.names is None else f"column {j} ({self.names[j]!r})"
        if self.names is not None and self.names[j]:
            return f"column {quoted(self.names[j])}"
        return f"column {j + 1 if self.numbers is None else self.numbers[j]}"

    def __str__(self) -> str:
        place, text = self.place, self.problem
        if PLACE in text:
            text = text.replace(PLACE, place)
        elif place:
            text = f", {place}, {text}"
        if self.about:
            text = self.about + (text if text.startswith(",") else f" {text}")
        if self.cure:
            text += (". " if self.cure[0].isupper() else "; ") + self.cure
        ended = text.endswith((".", "!", "?")) or text.rpartition(" ")[2].startswith("https://")
        return text if ended else f"{text}."


class InputError(Explained):
    """Something that was given and cannot be worked with; whoever gave it can mend it."""


class InvalidValueError(InputError, ValueError):
    """Data or a setting whose value makes no sense."""


class InvalidTypeError(InputError, TypeError):
    """Data or an argument of a kind that is not taken."""


class MissingPackageError(InputError, ImportError):
    """A package that is not installed and needed for what was asked."""


class DataFileError(InputError, ValueError):
    """A data file that cannot be read, or a result that cannot be written.

    Its text is one sentence for the person who named the file: which file, where in it, what is
    there, and what to do. Those who read the file leave its name to those who opened it.

    Attributes
    ----------
    guesses : tuple of str
        What was guessed of the file before it was refused, perhaps for a wrong guess.
    """

    usually_about = "The file"
    guesses: tuple[str, ...] = ()


class ModelFileError(InputError, ValueError):
    """A model file that cannot be read."""


class CheckpointError(InputError, ValueError):
    """A checkpoint that cannot be gone on from: damaged, or of other data or settings."""


class CheckpointWarning(Explained, UserWarning):
    """A checkpoint that could not be written, though the work goes on."""


class ClusterError(InputError, RuntimeError):
    """A cluster that does not do its work."""


class DataWarning(Explained, UserWarning):
    """Data that can be fitted, but perhaps not as they are."""


class RechunkedWarning(DataWarning):
    """Chunks that do not hold whole rows, and were put together so that they do."""


class NegativeEntriesWarning(DataWarning):
    """Negative entries that the model cannot explain."""


class UnequalScalesWarning(DataWarning):
    """Columns on very different scales."""


class EndingWarning(UserWarning):
    """How a fit ended, where that is not as one would wish."""


class FitInterrupted(KeyboardInterrupt):
    """Ctrl-C during a fit, raised when what there is by then has been kept.

    Attributes
    ----------
    model : estimator
        The one whose fit it was, fitted as far as it came; its ``ending_`` is ``"interrupted"``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)  # so that copies can be made
        self.model = model

    def __str__(self) -> str:
        kept = f"{type(self.model).__name__} keeps what it found in {self.model.n_iter_} sweeps"
        checkpoint = getattr(self.model, "checkpoint", None)
        if checkpoint is None:
            return f"{kept}."
        return f"{kept}; with resume=True, fit goes on from {fspath(checkpoint)}."
