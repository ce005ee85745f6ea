"""Rows of a Zarr array."""

from __future__ import annotations

from pathlib import Path
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
from ibp.data.stored.hdf5 import missing_chunk


class ZarrRows(StoredRows):
    """Rows of an open array (``zarr.Array``).

    Parameters
    ----------
    array : zarr.Array
        A matrix of numbers.
    dtype : dtype
        The floating type of the rows.
    name : str
        What to call the store.
    column_names : list of str or None
        Names of the columns.
    missing_chunks : {"refuse", "fill"}
        What to do with chunks that are not there, which Zarr gives as a fill value.
    """

    def __init__(
        self,
        array: Any,
        dtype: npt.DTypeLike,
        name: str,
        column_names: list[str] | None = None,
        missing_chunks: MissingChunks = "refuse",
    ) -> None:
        check_matrix_of_numbers(array.shape, array.dtype, name)
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(dtype)
        self.name = name
        self.column_names = column_names
        self._array = array
        self._chunks = ChunkCheck(name, missing_chunks)

    def chunk_bounds(self) -> IntArray:
        """Those of the array's files: its shards, or chunks if it has none."""
        return even_bounds(self.shape[0], files_of(self._array)[0])

    def read(self, start: int, stop: int) -> Block:
        """Consecutive rows."""
        self.check_shape(self._array.shape)
        self._chunks(self._array, start, stop)
        return np.asarray(self._array[start:stop]).astype(self.dtype, copy=False)

    def place(self, row: int) -> str:
        """The chunks that a row lies in."""
        return f" (chunks {row // files_of(self._array)[0]}.*)"


class ChunkCheck:
    """Looks whether the chunks of some rows are there before they are read.

    Where the store is a folder, in every pass; elsewhere once, when an array is first read, since
    asking may take long.
    """

    def __init__(self, name: str, missing_chunks: MissingChunks) -> None:
        self.name = name
        self.missing_chunks = missing_chunks
        self.known: set[int] = set()

    def __call__(self, array: Any, start: int, stop: int) -> None:
        """Refuse an array whose chunks of some rows, or entries, are not all there."""
        if self.missing_chunks == "fill" or stop <= start or 0 in array.shape:
            return
        sizes = files_of(array)
        root = getattr(array.store, "root", None)
        if isinstance(root, Path):
            folder = root / array.path
            numbers = range(start // sizes[0], -(-stop // sizes[0]))

            def exists(key: str) -> bool:
                return (folder / key).exists()
        elif id(array) in self.known or is_complete(array):
            self.known.add(id(array))
            return
        else:
            from zarr.core.sync import sync

            numbers = range(-(-array.shape[0] // sizes[0]))

            def exists(key: str) -> bool:
                return bool(sync(array.store.exists(f"{array.path}/{key}".lstrip("/"))))

        others = [-(-size // chunk) for size, chunk in zip(array.shape, sizes, strict=True)][1:]
        for number in numbers:
            for rest in np.ndindex(*others):
                if not exists(array.metadata.encode_chunk_key((number, *rest))):
                    raise missing_chunk(
                        self.name, (number, *rest), array.shape, sizes, array.fill_value
                    )


def is_complete(array: Any) -> bool:
    """Whether all chunks are there, by counting them."""
    return bool(array.nchunks_initialized >= array.nchunks)


def files_of(array: Any) -> Any:
    """The sizes of what lies in one file each."""
    return array.chunks if array.shards is None else array.shards
