"""Rows of a dataset of an HDF5 file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.source import Block
from ibp.data.stored.base import (
    IntArray,
    MissingChunks,
    StoredRows,
    check_matrix_of_numbers,
    even_bounds,
)
from ibp.errors import DataFileError

# Rows of a dataset that is not cut into chunks are read so many bytes at a time.
READ_AT_ONCE = 1 << 20
# A row at a time is read if these are no more than such a part of all.
FEW = 0.05


class HDF5Rows(StoredRows):
    """Rows of an open dataset (``h5py.Dataset``); whoever opened its file closes it.

    Parameters
    ----------
    dataset : h5py.Dataset
        A matrix of numbers.
    dtype : dtype
        The floating type of the rows.
    name : str
        What to call the file.
    column_names : list of str or None
        Names of the columns.
    missing_chunks : {"refuse", "fill"}
        What to do with chunks that were never written, which HDF5 gives as a fill value.
    """

    def __init__(
        self,
        dataset: Any,
        dtype: npt.DTypeLike,
        name: str,
        column_names: list[str] | None = None,
        missing_chunks: MissingChunks = "refuse",
    ) -> None:
        check_matrix_of_numbers(dataset.shape, dataset.dtype, name)
        self.shape = (int(dataset.shape[0]), int(dataset.shape[1]))
        self.dtype = np.dtype(dtype)
        self.name = name
        self.column_names = column_names
        self._dataset = dataset
        if missing_chunks == "refuse":
            check_all_written(dataset, name)

    def chunk_bounds(self) -> IntArray:
        """Those of the dataset's chunks; of one without, rows of a megabyte."""
        n_rows, n_columns = self.shape
        if self._dataset.chunks is not None:
            return even_bounds(n_rows, self._dataset.chunks[0])
        return even_bounds(n_rows, READ_AT_ONCE // max(n_columns * self.dtype.itemsize, 1))

    def read(self, start: int, stop: int) -> Block:
        """Consecutive rows."""
        self.check_shape(self._dataset.shape)
        return np.asarray(self._dataset[start:stop]).astype(self.dtype, copy=False)

    def read_few(self, numbers: IntArray) -> Block | None:
        """Rows of a dataset without chunks, each by itself; decoding a chunk takes longer."""
        if self._dataset.chunks is not None or numbers.size > FEW * self.shape[0]:
            return None
        self.check_shape(self._dataset.shape)
        values = np.empty((numbers.size, self.shape[1]), dtype=self.dtype)
        for place, number in enumerate(numbers.tolist()):
            values[place] = self._dataset[number]
        return values

    def place(self, row: int) -> str:
        """The chunk that a row lies in."""
        if self._dataset.chunks is None:
            return ""
        return f" (chunk {row // self._dataset.chunks[0]} of {self._dataset.name})"


def check_all_written(dataset: Any, name: str) -> None:
    """Refuse a dataset of which some chunks were never written, or have been lost."""
    if dataset.chunks is None or 0 in dataset.shape:
        return
    places = [-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
    if dataset.id.get_num_chunks() == int(np.prod(places)):
        return
    known = {dataset.id.get_chunk_info(i).chunk_offset for i in range(dataset.id.get_num_chunks())}
    for chunk in np.ndindex(*places):
        offset = tuple(i * size for i, size in zip(chunk, dataset.chunks, strict=True))
        if offset not in known:
            raise missing_chunk(name, chunk, dataset.shape, dataset.chunks, dataset.fillvalue)


def missing_chunk(name: str, chunk: Any, shape: Any, chunks: Any, fill_value: Any) -> DataFileError:
    """The sentence for a chunk that is not there, where the format would make one up."""
    ends = [
        (i * size, min((i + 1) * size, total))
        for i, size, total in zip(chunk, chunks, shape, strict=True)
    ]
    axes = ("rows", "columns") if len(ends) == 2 else ("entries",)
    where = ", ".join(
        f"{axis} {first + 1:,} to {last:,}" for axis, (first, last) in zip(axes, ends, strict=True)
    )
    return DataFileError(
        f"lacks the chunk {'.'.join(map(str, chunk))} ({where}): it was lost, or never written "
        f"because all of it is {fill_value}",
        "Write it again; if it is meant, open the file with "
        'ibp.open_rows(..., missing_chunks="fill"), or give --missing-chunks fill',
        file=name,
    )
