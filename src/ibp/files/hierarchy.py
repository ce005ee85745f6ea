"""Files that are folders inside: which of their arrays is the matrix, in HDF5 and Zarr alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ibp.errors import DataFileError, quoted
from ibp.files.wording import did_you_mean, listed, option, shape


def is_annotated(top: Any) -> bool:
    """Whether a file is one of AnnData."""
    return str(top.attrs.get("encoding-type", "")) == "anndata" or all(
        part in top for part in ("obs", "var")
    )


def part_of_annotated(file: Any, key: str | None) -> Any:
    """X, or a layer, of an AnnData file."""
    layers = list(file["layers"]) if "layers" in file else []
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


def names_of(file: Any, axis: str) -> list[str] | None:
    """The names of the observations or variables of an AnnData file; None if they are unknown."""
    try:
        frame = file[axis]
        index = frame[str(frame.attrs["_index"])]
        values = index["values"] if hasattr(index, "keys") else index  # with a mask beside them
    except (KeyError, TypeError, ValueError):
        return None
    return [
        value.decode() if isinstance(value, bytes) else str(value) for value in values[:].tolist()
    ]


def chosen_matrix(arrays: Mapping[str, Any], key: str | None) -> Any:
    """The array that is the data: the one of a name, or the only one with two axes."""
    matrices = {
        name: array
        for name, array in arrays.items()
        if len(array.shape) == 2 and getattr(array.dtype, "kind", "O") in "biuf"
    }
    choice = listed(f"{quoted(name)} ({shape(array.shape)})" for name, array in matrices.items())
    if key is not None:
        wanted = key.strip("/")
        if wanted in matrices:
            return matrices[wanted]
        if wanted in arrays:
            raise DataFileError(
                f"holds no matrix of numbers under {quoted(key)}, whose shape is "
                f"{shape(arrays[wanted].shape)}",
                f"its matrices are {choice}" if choice else "give a file that holds a matrix",
            )
        near = did_you_mean(wanted, arrays)
        raise DataFileError(
            f"has no array {quoted(key)}{near}", f"its matrices are {choice or 'none'}"
        )
    if not matrices:
        raise DataFileError("holds no matrix of numbers", "give a file that holds one")
    if len(matrices) > 1:
        raise DataFileError(
            f"holds several matrices, {choice}",
            f"Say which one is the data by its key, such as {option('key', next(iter(matrices)))}",
        )
    return next(iter(matrices.values()))


def told_apart(names: list[str]) -> list[str]:
    """Names of which none stands twice: genes of one symbol are numbered, as anndata does it."""
    taken, seen, unique = set(names), Counter[str](), []
    for name in names:
        numbered = name
        while seen[name] and numbered in taken:
            numbered = f"{name}-{seen[name]}"
            seen[name] += numbered in taken
        seen[name] += 1
        taken.add(numbered)
        unique.append(numbered)
    return unique
