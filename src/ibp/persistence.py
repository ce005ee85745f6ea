"""Model files: one zip archive of plain arrays and a JSON header. Nothing in it is ever executed.

The layout is NumPy's ``.npz`` with ``allow_pickle=False``; the header names the format, its version
and the estimator's class, which is looked up among our own. Assignments are packed to bits.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = "ibp-model"
VERSION = 1
# Class name -> module; a file can name nothing else.
ESTIMATORS = {"MEIBP": "ibp.estimators.meibp"}

ARRAYS = (
    "components_",
    "components_std_",
    "factor_location_",
    "factor_scale_",
    "feature_counts_",
)
SCALARS = (
    "n_components_",
    "n_features_in_",
    "n_samples_fit_",
    "alpha_",
    "noise_std_",
    "factor_std_",
    "evidence_",
    "n_iter_",
    "converged_",
)


class ModelFileError(ValueError):
    """A model file that cannot be read."""


def save_model(model: Any, path: str | PathLike[str], *, assignments: bool) -> None:
    """Write a fitted model, all or nothing."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "class": type(model).__name__,
        "parameters": _plain_parameters(model),
        "scalars": {name: _plain(getattr(model, name)) for name in SCALARS},
        "evidence_parts": {k: float(v) for k, v in model.evidence_parts_.items()},
        "history": list(model.history_),
        "feature_names": None,
    }
    if hasattr(model, "feature_names_in_"):
        header["feature_names"] = [str(name) for name in model.feature_names_in_]
    arrays = {name: getattr(model, name) for name in ARRAYS}
    arrays |= {f"history_{name}": values for name, values in model.history_.items()}
    if assignments and hasattr(model, "assignments_"):
        arrays["assignments_packed"] = np.packbits(model.assignments_, axis=1)
    arrays["header"] = np.frombuffer(
        json.dumps(header, allow_nan=False).encode("utf-8"), dtype=np.uint8
    )
    _write_atomically(Path(path), arrays)


def load(path: str | PathLike[str]) -> Any:
    """Read a model that was written by its ``save`` method.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    estimator
        The fitted model. Parameters that are not plain values (callbacks, a start from arrays or
        from another model, a generator) are not in the file and have their defaults.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or comes from a newer version.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ModelFileError(f"{path} is not an ibp model file.")
            if "header" not in archive:
                raise ModelFileError(f"{path} is not an ibp model file: it has no header.")
            header = json.loads(archive["header"].tobytes().decode("utf-8"))
            _check_header(header, path)
            arrays = {name: archive[name] for name in archive.files if name != "header"}
        return _restore(header, arrays)
    except ModelFileError:
        raise
    except FileNotFoundError:
        raise
    except (
        AttributeError,
        EOFError,
        KeyError,
        MemoryError,
        OSError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        if isinstance(error, PermissionError | IsADirectoryError):
            raise
        raise ModelFileError(
            f"{path} is not an ibp model file, or it is damaged ({error}). "
            "If it was copied or downloaded, do that again; otherwise fit and save the model anew."
        ) from error


def _check_header(header: Any, path: Path) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not an ibp model file.")
    if header["version"] > VERSION:
        raise ModelFileError(
            f"{path} was written by a newer version of ibp (file format {header['version']}; this "
            f"version reads up to {VERSION}). Upgrade ibp to read it."
        )
    if header["class"] not in ESTIMATORS:
        raise ModelFileError(f"{path} holds a {header['class']!r}, which this ibp does not know.")


def _restore(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    module = importlib.import_module(ESTIMATORS[header["class"]])
    estimator_class = getattr(module, header["class"])
    known = estimator_class._get_param_names()
    model = estimator_class(**{k: v for k, v in header["parameters"].items() if k in known})
    for name in SCALARS:
        setattr(model, name, header["scalars"][name])
    k, d = model.n_components_, model.n_features_in_
    shapes = dict.fromkeys(ARRAYS, (k, d)) | {"feature_counts_": (k,)}
    for name in ARRAYS:
        if arrays[name].shape != shapes[name]:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shapes[name]}")
        setattr(model, name, arrays[name])
    model.evidence_parts_ = header["evidence_parts"]
    model.history_ = {name: arrays[f"history_{name}"] for name in header["history"]}
    if header["feature_names"] is not None:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    if "assignments_packed" in arrays:
        packed = arrays["assignments_packed"]
        if packed.shape != (model.n_samples_fit_, -(-k // 8)):
            raise ValueError(f"the assignments have shape {packed.shape}")
        model.assignments_ = np.unpackbits(packed, axis=1, count=k)
    return model


def _plain_parameters(model: Any) -> dict[str, Any]:
    """The constructor's arguments that a file can hold."""
    plain = {}
    for name, value in model.get_params(deep=False).items():
        value = _plain(value)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            continue
        plain[name] = value
    return plain


def _plain(value: Any) -> Any:
    """A NumPy scalar as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _write_atomically(path: Path, arrays: dict[str, Any]) -> None:
    """Write beside the target, then replace it in one step; leave nothing behind on failure."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
