"""A data matrix as it comes from a file, with the names of its rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix and what its file says about it.

    Attributes
    ----------
    values : ndarray, scipy.sparse.csr_array or row source
        Rows are observations. float32 or float64; NaN where a value is missing. It may be
        memory-mapped and read-only, or a source whose rows are read from disk.
    row_names, column_names : list of str or None
        None where the file has none.
    image_shape : tuple of int or None
        Height and width, where each row is an image.
    source : str
        The name of the file, for people.
    index_name : str or None
        The name of the column with the names of the rows.
    guesses : tuple of str
        What was guessed of the file and might be otherwise, a sentence each, with the option of the
        command line that undoes it.
    column_numbers : list of int or None
        Which columns of the file these are, counted from 1; None if they are all of it.
    """

    values: Any
    row_names: list[str] | None = None
    column_names: list[str] | None = None
    image_shape: tuple[int, int] | None = None
    source: str = ""
    index_name: str | None = None
    guesses: tuple[str, ...] = ()
    column_numbers: list[int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        n_rows, n_columns = self.values.shape
        return int(n_rows), int(n_columns)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers that the columns have in the file, as options take them."""
        return self.column_numbers or range(1, self.shape[1] + 1)

    @property
    def labels(self) -> list[str]:
        """What to call the columns: by name, or by number in the file."""
        return named_columns(self.column_names, self.numbers)

    @property
    def n_missing(self) -> int:
        """Number of missing entries."""
        import numpy as np

        return sum(int(np.isnan(values).sum()) for _, values in pieces(self.values))


def named_columns(names: Sequence[str] | None, numbers: Sequence[int]) -> list[str]:
    """Columns by name; one without a name by its number."""
    if names is None:
        return [f"column {number}" for number in numbers]
    return [name or f"column {number}" for name, number in zip(names, numbers, strict=True)]


def pieces(values: Any) -> Any:
    """Yield the stored numbers in pieces of about 32 MB, each with its first row (0 if sparse)."""
    n_rows = max(1, 2**22 // max(1, values.shape[1]))
    if hasattr(values, "rows") and not hasattr(values, "tocsr"):  # a source
        for start in range(0, values.shape[0], n_rows):
            block = values.rows(slice(start, start + n_rows))
            yield start, block.data if hasattr(block, "tocsr") else block
        return
    if not hasattr(values, "strides"):  # sparse
        yield 0, values.data
        return
    for start in range(0, len(values), n_rows):
        yield start, values[start : start + n_rows]
