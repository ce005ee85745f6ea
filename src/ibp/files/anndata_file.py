"""AnnData files: the matrix or one of its layers, with the names of observations and variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import sparse

from ibp.errors import DataFileError, quoted
from ibp.files.checks import dense_table, sparse_table
from ibp.files.options import Options
from ibp.files.table import Table
from ibp.files.wording import damaged, did_you_mean, listed, option


def read(path: Path, options: Options) -> Table:
    """Read what is asked for of a file, and nothing else of it."""
    options.refuse("header", "index", "decimal")
    import h5py
    from anndata.io import read_elem

    if not h5py.is_hdf5(path):
        raise damaged(path)
    try:
        with h5py.File(path, "r") as file:
            matrix = read_elem(_chosen(file, options.key))
            row_names, column_names = (
                [str(name) for name in read_elem(file[axis]).index] for axis in ("obs", "var")
            )
    except (OSError, KeyError, RuntimeError, TypeError) as error:
        raise damaged(path) from error
    make = sparse_table if sparse.issparse(matrix) else dense_table
    return make(matrix, row_names, column_names)


def _chosen(file: Any, key: str | None) -> Any:
    """The element of a file that is the matrix."""
    layers = list(file.get("layers", ()))
    choice = f"its layers are {listed(map(quoted, layers))}" if layers else "it has no layers"
    if key is None or (key == "X" and key not in layers):
        if "X" in file:
            return file["X"]
        cure = f"{choice}, of which you can choose one"
        raise DataFileError(
            "has no matrix X", cure + f" with {option('key', layers[0])}" * bool(layers)
        )
    if key not in layers:
        near = did_you_mean(key, layers)
        raise DataFileError(f"has no layer {quoted(key)}{near}", choice)
    return file["layers"][key]
