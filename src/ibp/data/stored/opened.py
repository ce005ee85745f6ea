"""Sources of what other libraries have opened, known by where its class comes from.

None of these libraries is imported here: whoever has one of their objects has imported it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data.source import floating
from ibp.data.stored.base import MissingChunks, StoredRows
from ibp.data.stored.compressed import CompressedRows
from ibp.data.stored.read_ahead import ReadAhead
from ibp.errors import InvalidTypeError

# How numbers of a type are converted, given the type.
FloatOf = Callable[[Any], npt.DTypeLike]


def open_stored(
    X: Any, *, missing_chunks: MissingChunks = "refuse", float_of: FloatOf = floating
) -> ReadAhead | None:
    """The rows of an opened array, dataset or backed AnnData; None if it is none of these."""
    stored = _stored(X, missing_chunks, float_of)
    return None if stored is None else ReadAhead(stored)


def _stored(X: Any, missing_chunks: MissingChunks, float_of: FloatOf) -> StoredRows | None:
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(X).__mro__}
    if ("h5py", "Dataset") in kinds:
        return stored_dataset(X, missing_chunks, float_of)
    if ("zarr", "Array") in kinds:
        return stored_array(X, missing_chunks, float_of)
    if ("anndata", "AnnData") in kinds and X.isbacked:
        return _backed(X, missing_chunks, float_of)
    if ("pyarrow", "Dataset") in kinds:
        return _of_dataset(X, float_of)
    return None


def stored_dataset(
    dataset: Any,
    missing_chunks: MissingChunks,
    float_of: FloatOf,
    name: str | None = None,
    column_names: list[str] | None = None,
) -> StoredRows:
    """Rows of an ``h5py.Dataset``."""
    from ibp.data.stored.hdf5 import HDF5Rows

    name = _last(dataset.file.filename) if name is None else name
    return HDF5Rows(dataset, float_of(dataset.dtype), name, column_names, missing_chunks)


def stored_array(
    array: Any,
    missing_chunks: MissingChunks,
    float_of: FloatOf,
    name: str | None = None,
    column_names: list[str] | None = None,
) -> StoredRows:
    """Rows of a ``zarr.Array``."""
    from ibp.data.stored.zarr_array import ZarrRows

    name = _store_name(array) if name is None else name
    return ZarrRows(array, float_of(array.dtype), name, column_names, missing_chunks)


def stored_group(
    group: Any,
    missing_chunks: MissingChunks,
    float_of: FloatOf,
    name: str,
    column_names: list[str] | None = None,
) -> StoredRows:
    """Rows of a sparse matrix in a group, as AnnData writes it to HDF5 and Zarr."""
    kind = str(group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "")))
    if not kind.startswith("csr"):
        columns = " by columns (CSC)" * kind.startswith("csc")
        raise InvalidTypeError(
            f"stores its matrix{columns} in a way that cannot be read row by row",
            "Write it as CSR, or dense",
            file=name,
        )
    shape = group.attrs["shape"] if "shape" in group.attrs else group.attrs["h5sparse_shape"]
    check: Callable[[Any, int, int], None]
    if type(group).__module__.startswith("zarr"):
        from ibp.data.stored.zarr_array import ChunkCheck

        check = ChunkCheck(name, missing_chunks)
    else:
        from ibp.data.stored.hdf5 import check_all_written

        def check(array: Any, start: int, stop: int) -> None:
            if missing_chunks == "refuse" and start == 0:
                check_all_written(array, name)

    return CompressedRows(
        group["data"],
        group["indices"],
        group["indptr"],
        (int(shape[0]), int(shape[1])),
        float_of(group["data"].dtype),
        name,
        column_names,
        check,
    )


def _backed(data: Any, missing_chunks: MissingChunks, float_of: FloatOf) -> StoredRows:
    """Rows of X of an AnnData in backed mode."""
    if data.is_view:
        raise InvalidTypeError(
            "is a view of a backed AnnData, and only whole ones are read from their file",
            "Give all of it, or load the view with X.to_memory()",
            about="X",
        )
    element = data.file._file["X"]
    name = _last(str(data.filename))
    names = [str(column) for column in data.var_names]
    make: Any = stored_dataset if hasattr(element, "shape") else stored_group
    return make(element, missing_chunks, float_of, name, names)


def _of_dataset(dataset: Any, float_of: FloatOf) -> StoredRows:
    """Rows of the Parquet files of a ``pyarrow.dataset.Dataset``."""
    from ibp.data.stored.parquet import ParquetRows, common_type, plain_type

    if getattr(getattr(dataset, "format", None), "default_extname", None) != "parquet":
        raise InvalidTypeError(
            "is a dataset of pyarrow, but not one of Parquet files",
            "Only these are read a block of rows at a time; give the others as an array",
            about="X",
        )
    open_input = dataset.filesystem.open_input_file
    files = [(_last(path), partial(open_input, path)) for path in dataset.files]
    if not files:
        raise InvalidTypeError("is a dataset of no files", "give one that holds rows", about="X")
    name = files[0][0] if len(files) == 1 else "The dataset"
    kinds = [plain_type(field.type) for field in dataset.schema]
    dtype = common_type([np.dtype(float_of(kind)) for kind in kinds if kind is not None])
    return ParquetRows(files, name, dataset.schema.names, dtype)


def _last(path: Any) -> str:
    """The last part of a path, which may be one of another system."""
    text = path.decode() if isinstance(path, bytes) else str(path)
    return text.replace("\\", "/").rstrip("/").rpartition("/")[2] or text


def _store_name(array: Any) -> str:
    """What to call an array of Zarr."""
    root = getattr(array.store, "root", None)
    name = "The Zarr array" if root is None else _last(root)
    return f"{name}/{array.path}" if array.path else name
