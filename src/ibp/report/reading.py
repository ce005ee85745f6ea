"""The data by rows, whatever holds them, and what a model says of some of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.data.source import all_rows, is_source
from ibp.evaluate import training_codes_of
from ibp.validation import check_matrix

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Entries of a block of rows, and of its codes.
BLOCK_ENTRIES = 4_000_000
MOST_BLOCK_ROWS = 65_536


class DataReader:
    """Blocks of rows of X, validated as a model does it, with their codes."""

    def __init__(self, model: Any, X: Any) -> None:
        if sparse.issparse(X):
            X = sparse.csr_array(cast(Any, X))
        elif not hasattr(X, "shape"):
            X = np.asarray(X)
        self.model = model
        self._data = X
        first = self.matrix(slice(0, 1))  # which says what is wrong with X, if anything is
        self.n_rows, self.n_columns = int(X.shape[0]), int(first.shape[1])
        self.sparse = bool(sparse.issparse(first))

    @property
    def row_names(self) -> list[str] | None:
        """The index of a pandas frame, unless it only counts."""
        index = getattr(self._data, "index", None)
        if index is None or not hasattr(self._data, "iloc") or hasattr(index, "step"):
            return None
        return [str(name) for name in index]

    @property
    def column_names(self) -> list[str] | None:
        """The names that the model was fitted with, or else those of the frame."""
        fitted = getattr(self.model, "feature_names_in_", None)
        if fitted is not None:
            return [str(name) for name in fitted]
        if hasattr(self._data, "columns"):
            return [str(name) for name in self._data.columns]
        return None

    def matrix(self, rows: Any) -> Any:
        """Some rows as floating numbers, NaN where missing; CSR if sparse."""
        data = self._data
        if is_source(data):
            part = data.rows(rows)
        else:
            part = data.iloc[rows] if hasattr(data, "iloc") else data[rows]
        with _names_not_compared():
            return all_rows(check_matrix(self.model, part, reset=False))

    def codes(self, rows: Any, matrix: Any) -> npt.NDArray[Any]:
        """Features of some rows, which `matrix` gave: the fit's own if it was fitted to these."""
        if self.training_codes is not None:
            return self.training_codes[rows]
        return self.new_codes(matrix)

    def new_codes(self, matrix: Any) -> npt.NDArray[Any]:
        """Features of rows that the model takes for new ones."""
        with _names_not_compared():
            return np.asarray(self.model.transform(matrix))

    def probabilities(self, matrix: Any) -> FloatArray:
        """How probable their features are."""
        with _names_not_compared():
            return np.asarray(self.model.probabilities(matrix))

    @cached_property
    def training_codes(self) -> npt.NDArray[Any] | None:
        """What the fit found, if these are the rows that it was fitted to."""
        return training_codes_of(self.model, self.n_rows, self.matrices())

    def blocks(self) -> Iterator[tuple[slice, Any, npt.NDArray[Any]]]:
        """All rows, block by block: which, their values and their codes."""
        for rows, matrix in self.matrices():
            yield rows, matrix, self.codes(rows, matrix)

    def matrices(self) -> Iterator[tuple[slice, Any]]:
        """All rows, block by block: which, and their values."""
        width = self.n_columns
        if self.sparse:
            n_stored = getattr(self._data, "nnz", self.n_rows * width)  # a source does not tell
            width = n_stored // self.n_rows + 1
        n_block = BLOCK_ENTRIES // max(width, self.model.n_components_, 1)
        n_block = min(max(n_block, 1), MOST_BLOCK_ROWS)
        for start in range(0, self.n_rows, n_block):
            rows = slice(start, min(start + n_block, self.n_rows))
            yield rows, self.matrix(rows)


@contextmanager
def _names_not_compared() -> Iterator[None]:
    """Rows without the column names of the training data are no reason to warn here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")
        yield
