"""What a file of rows has to know, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ibp.data.source import Block
from ibp.errors import DataFileError, counted

IntArray = npt.NDArray[np.int64]
# What is done with parts of an array that were never written.
MissingChunks = Literal["refuse", "fill"]
# Kinds of types that are numbers: truth values, integers and floating numbers.
NUMBERS = "biuf"


class StoredRows(ABC):
    """Rows of a file, of which some that lie together are read and decoded at a time.

    Attributes
    ----------
    name : str
        What to call the file in a message.
    shape : tuple of int
        N and D.
    dtype : dtype
        The floating type that rows are converted to.
    sparse : bool
        Whether blocks are CSR.
    column_names : list of str or None
        None where the file has none.
    """

    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sparse: bool = False
    column_names: list[str] | None = None

    @abstractmethod
    def chunk_bounds(self) -> IntArray:
        """The rows at which a chunk begins, that is, what is decoded as a whole; 0 and N, too."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Consecutive rows, converted; chunks are read whole as a rule, one after the other."""

    def read_few(self, numbers: IntArray) -> Block | None:
        """Some rows by their ascending numbers; None where that takes as long as reading all."""
        return None

    def place(self, row: int) -> str:
        """Where in the file a row lies, in words that follow its number; may be empty."""
        return ""

    def bytes_of_rows(self) -> IntArray:
        """How many bytes the rows before each chunk's beginning take when they are decoded."""
        return self.chunk_bounds() * (self.shape[1] * self.dtype.itemsize)

    def check_shape(self, shape: Sequence[int]) -> None:
        """Refuse to go on with a file that has another shape than when it was opened."""
        if tuple(shape) != self.shape:
            raise changed_shape(self.shape, shape, file=self.name)


def changed_shape(before: Sequence[int], now: Sequence[int], **about: Any) -> DataFileError:
    """The sentence for rows that become more or fewer while they are read."""
    return DataFileError(
        f"had {in_words(before)} at first and has {in_words(now)} now, while it is being read",
        "Let nothing write to it during a fit, and fit again",
        **about,
    )


def in_words(shape: Sequence[int]) -> str:
    """The shape of a matrix in words."""
    if len(shape) != 2:
        return f"the shape {tuple(shape)}"
    return f"{counted(int(shape[0]), 'row')} of {counted(int(shape[1]), 'column')}"


def check_matrix_of_numbers(shape: Sequence[int], dtype: Any, name: str) -> None:
    """Refuse what is no matrix of real numbers."""
    if len(shape) != 2:
        raise DataFileError(
            f"has the shape {tuple(shape)}, and a matrix is needed",
            "give an array of two axes, rows and columns",
            file=name,
        )
    if np.dtype(dtype).kind not in NUMBERS:
        raise DataFileError(
            f"holds values of type {dtype}, not real numbers", "save numbers instead", file=name
        )


def even_bounds(n_rows: int, size: int) -> IntArray:
    """Bounds of chunks of one size, of which the last may be smaller."""
    return np.append(np.arange(0, n_rows, max(size, 1)), n_rows).astype(np.int64)
