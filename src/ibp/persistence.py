"""Model files: one zip archive of plain arrays and a JSON header. Nothing in it is ever executed.

The layout is NumPy's ``.npz`` with ``allow_pickle=False``; the header names the format, its version
and the estimator's class, which must have a card in the registry. Assignments are packed to bits.
"""

from __future__ import annotations

import json
import math
import os
import platform
import zipfile
from collections.abc import Mapping
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from ibp.archives import members_of, unpacked_size
from ibp.atomic_files import atomic
from ibp.errors import ClusterError, InvalidValueError, ModelFileError
from ibp.registry import CARDS, card_of

FORMAT = "ibp-model"
VERSION = 6
# Models are saved as they are. One that somebody has packed may unpack to so many times its size,
# or to so many bytes; one that would take more is no model.
MOST_UNPACKED, SMALL = 50, 10_000_000
# Of two sums that must be the same, but for the order in which they were added up.
ROUNDING = 1e-6
# Of evidence, for each number that it accounts for: fits may add it up in single precision.
EVIDENCE_ROUNDING = 1e-3
# No fit gives larger numbers, nor smaller ones where they must be positive, nor patterns so many
# times its noise: data beyond `validation.LARGEST` are refused, and squares must be finite.
LARGEST, LEAST = 1e100, 1e-120
# Parameters that are about the run that led to a model, and a file of it on that machine.
OF_THE_RUN = ("checkpoint", "checkpoint_seconds", "resume")
# Integers of a header, as NumPy has them.
LARGEST_INTEGER = 2**63 - 1


class SavedArray(NamedTuple):
    """An array of a model file: its type, its axes by letter, and whether it may be negative."""

    dtype: Any
    axes: str
    negative: bool = True


def save_model(
    model: Any, path: str | PathLike[str], *, assignments: bool, overwrite: bool
) -> None:
    """Write a fitted model, all or nothing."""
    if not isinstance(model.notes_, dict):
        raise InvalidValueError(f"notes_ must be a dictionary; it is {model.notes_!r}")
    names = getattr(model, "feature_names_in_", None)
    values = {name: _plain(getattr(model, name)) for name in _declared(model, "values")}
    known = {name: _plain(getattr(model, name)) for name in _declared(model, "optional_values")}
    values |= {name: value for name, value in known.items() if value is not None}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": card_of(model).name,
        "parameters": _plain_parameters(model),
        "scalars": {name: value for name, value in values.items() if np.ndim(value) == 0},
        "evidence_parts": {
            name: float(value) for name, value in getattr(model, "evidence_parts_", {}).items()
        },
        "history": list(model.history_),
        "notes": model.notes_,
        "feature_names": None if names is None else [str(name) for name in names],
    }
    arrays = {name: getattr(model, name) for name in _declared(model, "arrays")}
    arrays |= {name: np.array(value) for name, value in values.items() if np.ndim(value)}
    arrays |= model._more_arrays(with_rows=assignments)
    arrays |= {f"history_{name}": values for name, values in model.history_.items()}
    if assignments:
        rows = _declared(model, "rows")
        arrays |= {name: getattr(model, name) for name in rows if hasattr(model, name)}
        if "assignments_" in vars(model):
            arrays["assignments_packed"] = np.packbits(_assignments_here(model), axis=1)
    arrays["header"] = np.frombuffer(
        json.dumps(header, allow_nan=False).encode("utf-8"), dtype=np.uint8
    )
    assert not any(array.dtype.hasobject for array in arrays.values())  # nothing to pickle
    with atomic(path, force=overwrite) as file:
        np.savez(file, **arrays)


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

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> ibp.MEIBP(random_state=0).fit(X).save("blocks.ibp")
    >>> ibp.load("blocks.ibp").n_components_
    4
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            _check_size(file)
            file.seek(0)
            with zipfile.ZipFile(file) as archive:
                damaged = archive.testzip()  # reads everything, against its checksums
            if damaged is not None:
                raise ValueError(f"{damaged} has a wrong checksum")
            file.seek(0)
            with np.load(file, allow_pickle=False) as members:
                arrays = {name: members[name] for name in members.files}
        if "header" not in arrays:
            raise ModelFileError("is not an ibp model file: it has no header", file=path)
        header = json.loads(arrays.pop("header").tobytes().decode("utf-8"))
        _check_header(header, path)
        _check_integers(header)
        return _restore(header, arrays)
    except (FileNotFoundError, IsADirectoryError, PermissionError, ModelFileError):
        raise
    except Exception as error:  # damage can surface as nearly anything
        # What Python says of other errors, nobody understands who has not written the code.
        reason = f" ({error})" if isinstance(error, ValueError | zipfile.BadZipFile) else ""
        raise ModelFileError(
            f"is not an ibp model file, or it is damaged{reason}",
            "If it was copied or downloaded, do that again; otherwise fit and save the model anew",
            file=path,
        ) from error


def is_model(path: Path) -> bool:
    """Whether a file is a model, whatever its name; no more than its header is unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo("header.npy").file_size > SMALL:
                return False
            with archive.open("header.npy") as member:
                header = np.lib.format.read_array(member, allow_pickle=False)
        header = json.loads(header.tobytes())
    except Exception:  # as with `load`: what is damaged or no archive is none
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def _check_size(file: BinaryIO) -> None:
    """Refuse, before anything is unpacked, what would take far more memory than disk."""
    limit = max(SMALL, MOST_UNPACKED * os.fstat(file.fileno()).st_size)
    size = unpacked_size(file)
    if size > limit:
        raise ValueError(f"it would unpack to {size / 1e6:,.0f} MB, which is too much for its size")
    file.seek(0)
    for name, member in members_of(file).items():
        if member is None:
            raise ValueError(f"{name} is no array, or claims more entries than it holds")


def _check_header(header: Any, path: Path) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError("is not an ibp model file", file=path)
    version = _checked(header["version"], int, "version")
    if version > VERSION:
        raise ModelFileError(
            f"was written by a newer version of ibp (file format {version}; this version reads up "
            f"to {VERSION})",
            "Upgrade ibp to read it",
            file=path,
        )
    if version < 1:
        raise ModelFileError(f"has the impossible format version {version}", file=path)
    if header["class"] not in CARDS:
        problem = f"holds a {header['class']!r}, which this ibp does not know"
        raise ModelFileError(problem, file=path)


def _assignments_here(model: Any) -> npt.NDArray[np.uint8]:
    """The codes of the training rows, fetched if they are with workers of a cluster."""
    try:
        return np.asarray(model.assignments_)
    except Exception as error:  # whatever Dask says of workers that have gone
        raise ClusterError(
            "assignments_ are with workers of a Dask cluster that cannot be reached any more",
            "Save the model while they can, or with assignments=False",
        ) from error


def _check_integers(value: Any) -> None:
    """Refuse, anywhere in a header, integers that no machine counts to."""
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError(f"it has an integer of {len(hex(value)) * 4} bits")
    for part in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _check_integers(part)


def _restore(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    estimator_class = CARDS[header["class"]].estimator
    from ibp.runs import Ending  # loaded with any estimator

    if header["version"] < 3:
        _complete_older(header, arrays)
    known = estimator_class._get_param_names()
    parameters = {k: v for k, v in header["parameters"].items() if k in known}
    if header["version"] < 6 and "codes" in known:  # which knew no weights
        arrays["weight_std_"] = np.zeros(len(arrays["components_"]))
    if header["version"] < 5 and "moves" in known:  # which knew none
        parameters["moves"] = False
    if header["version"] < 4 and "noise" in known:  # which knew no other
        parameters["noise"] = "shared"
        header["scalars"].setdefault("resolution_", 0.0)
    if header["version"] == 1:  # which knew no intercept
        parameters["fit_intercept"] = False
        header["evidence_parts"].setdefault("intercept", 0.0)
        arrays["intercept_"] = np.zeros(arrays["components_"].shape[1])
    model = estimator_class(**parameters)
    model._validate_params()
    by_column = _declared_by_column(model, arrays)
    for name, kind in _declared(model, "values").items():
        if name not in by_column:
            setattr(model, name, _checked(header["scalars"][name], kind, name))
    for name, kind in _declared(model, "optional_values").items():
        value = header["scalars"].get(name)
        setattr(model, name, None if value is None else _checked(value, kind, name))
    sizes = {
        "K": model.n_components_,
        "D": model.n_features_in_,
        "N": model.n_samples_fit_,
        "R": arrays["restart_evidence_"].size,
    }
    if model.ending_ not in get_args(Ending):
        raise ValueError(f"ending_ is {model.ending_!r}")
    if not 0 <= model.restart_kept_ < sizes["R"]:
        raise ValueError(f"restart_kept_ is {model.restart_kept_} of {sizes['R']} restarts")
    rows = {name: what for name, what in _declared(model, "rows").items() if name in arrays}
    for name, saved in (_declared(model, "arrays") | rows | by_column).items():
        shape = tuple(sizes.get(axis, 2) for axis in saved.axes)
        check_array(arrays[name], name, saved.dtype, shape)
        if not saved.negative and (arrays[name] < 0).any():
            raise ValueError(f"{name} has negative entries")
        setattr(model, name, arrays[name])
    positive = {"noise_std_", "alpha_", "factor_std_", "stick_parameters_", *by_column}
    for name in sorted(name for name in positive - {"resolution_"} if hasattr(model, name)):
        if not np.all(getattr(model, name) >= LEAST):
            raise ValueError(f"{name} is {getattr(model, name)}, which is not positive")
    model._restore_more(arrays)
    parts = _checked(header["evidence_parts"], dict, "evidence_parts")
    if parts:
        model.evidence_parts_ = {k: _checked(value, float, k) for k, value in parts.items()}
    model.notes_ = _checked(header["notes"], dict, "notes")
    model.history_ = {}
    for name in header["history"]:
        values = arrays[f"history_{name}"]
        if values.shape != (model.n_iter_,):
            raise ValueError(f"the history of {name} has shape {values.shape}")
        if values.dtype.kind not in ("U" if name == "move" else "if"):
            raise ValueError(f"the history of {name} is of type {values.dtype}")
        if name != "move" and (np.abs(values) > LARGEST).any():
            raise ValueError(f"the history of {name} has entries beyond {LARGEST:g}")
        model.history_[name] = values
    if header["feature_names"] is not None:
        names = _checked(header["feature_names"], list, "the list of feature names")
        names = [_checked(name, str, "a feature name") for name in names]
        if len(names) != sizes["D"]:
            raise ValueError(f"there are {len(names)} feature names for {sizes['D']} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    if "assignments_packed" in arrays:
        packed = arrays["assignments_packed"]
        model.assignments_ = unpacked(packed, "assignments", sizes["N"], sizes["K"])
    _check_against_each_other(model)
    return model


def _check_against_each_other(model: Any) -> None:
    """Refuse numbers of which each may be true, but not all."""
    n_rows, kept = model.n_samples_fit_, model.restart_kept_
    if n_rows < 1 or model.n_features_in_ < 1:
        raise ValueError(f"it was fitted to {n_rows} rows of {model.n_features_in_} columns")
    if (model.restart_n_components_ < 0).any():
        raise ValueError("restart_n_components_ has negative entries")
    if model.restart_n_components_[kept] != model.n_components_:
        raise ValueError(
            f"n_components_ is {model.n_components_}, but the restart that was kept has "
            f"{model.restart_n_components_[kept]}"
        )
    if (np.abs(model.restart_similarity_) > 1.0 + ROUNDING).any():
        raise ValueError("restart_similarity_ has entries beyond 1, which no correlation has")
    for name in ("components_", "intercept_"):
        check_above_noise(getattr(model, name), name, model.noise_std_)
    _check_evidence(model)
    counts = getattr(model, "feature_counts_", None)
    if counts is not None and (counts > n_rows).any():
        raise ValueError(f"feature_counts_ has {counts.max()} of {n_rows} rows")
    assignments = vars(model).get("assignments_")
    if assignments is None:
        return
    if counts is not None and (counts != assignments.sum(axis=0, dtype=np.int64)).any():
        raise ValueError("feature_counts_ are not those of the assignments")
    weights = vars(model).get("weights_")
    if weights is not None and (weights[assignments == 0] != 0).any():
        raise ValueError("weights_ has entries where rows lack the feature")


def _check_evidence(model: Any) -> None:
    """Refuse evidence that is not what the fit came by; samplers keep the best of their sweeps."""
    kept = model.restart_evidence_[model.restart_kept_]
    passed = np.append(model.history_.get("evidence", np.empty(0)).astype(np.float64), kept)
    size = model.n_samples_fit_ * model.n_features_in_ + np.abs(kept)
    if not abs(passed[max(0, passed.size - 2)] - kept) <= EVIDENCE_ROUNDING * size:
        raise ValueError(f"restart_evidence_ has {kept:g}, but the fit ended at {passed[-2]:g}")
    low, high = np.nanmin(passed), np.nanmax(passed)
    slack = EVIDENCE_ROUNDING * size
    if not low - slack <= model.evidence_ <= high + slack:
        raise ValueError(
            f"evidence_ is {model.evidence_:g}, but the fit went from {low:g} to {high:g}"
        )


def _complete_older(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Give a file of format 1 or 2 what later ones say of the fit: it was as if the only start."""
    scalars = header["scalars"]
    scalars |= {"ending_": "converged" if scalars["converged_"] else "max_iter", "restart_kept_": 0}
    arrays["restart_evidence_"] = np.array([scalars["evidence_"]], dtype=np.float64)
    arrays["restart_n_components_"] = np.array([scalars["n_components_"]], dtype=np.int64)
    # As many as there are, not as the header says, which may claim more than memory holds.
    arrays["restart_similarity_"] = np.ones((1, len(arrays["components_"])))
    header["notes"] = {}


def versions() -> dict[str, str]:
    """Versions of what a fit depends on, by name."""
    packages = ("ibp", "numpy", "scipy", "scikit-learn", "numba")
    found = {name: metadata.version(name) for name in packages}
    return {"python": platform.python_version()} | found


def _checked(value: Any, kind: type, name: str) -> Any:
    """A header's value of the type it must have."""
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} is {value!r}, not a {kind.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which is not finite")
    if isinstance(value, float) and abs(value) > LARGEST:
        raise ValueError(f"{name} is {value}, beyond {LARGEST:g}")
    return value


def check_array(array: Any, name: str, dtype: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array of another type or shape, or with entries that are not finite."""
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{name} is {array.dtype} of shape {array.shape}, not {np.dtype(dtype)} of {shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has entries that are not finite")
    if np.dtype(dtype).kind == "f" and (np.abs(array) > LARGEST).any():
        raise ValueError(f"{name} has entries beyond {LARGEST:g}")


def check_above_noise(array: Any, name: str, noise_std: Any) -> None:
    """Refuse noise of which squares of an array are more than a number can say."""
    if not np.all(noise_std >= LEAST) or (np.abs(array) > LARGEST * np.min(noise_std)).any():
        raise ValueError(f"{name} has entries beyond {LARGEST:g} times the noise")


def unpacked(packed: Any, name: str, n_rows: int, n_bits: int) -> Any:
    """Rows of bits from rows of bytes."""
    check_array(packed, name, np.uint8, (n_rows, -(-n_bits // 8)))
    return np.unpackbits(packed, axis=1, count=n_bits)


def _declared(model: Any, kind: str) -> dict[str, Any]:
    """What a model's class and those that it extends say a file holds: arrays, values or rows."""
    declared: dict[str, Any] = {}
    for cls in reversed(type(model).__mro__):
        declared |= vars(cls).get(f"saved_{kind}", {})
    return declared


def _declared_by_column(model: Any, arrays: Mapping[str, Any]) -> dict[str, SavedArray]:
    """Values of which the file has one for each column."""
    return {
        name: SavedArray(np.float64, "D", negative=False)
        for name in getattr(type(model), "saved_by_column", ())
        if name in arrays
    }


def _plain_parameters(model: Any) -> dict[str, Any]:
    """The constructor's arguments that a file can hold."""
    plain = {}
    for name, value in model.get_params(deep=False).items():
        if name in OF_THE_RUN:
            continue
        value = _plain(value)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            continue
        plain[name] = value
    return plain


def _plain(value: Any) -> Any:
    """A NumPy scalar or array as Python's own."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
