"""From an estimator's settings to its checkpoint: of which fit it is, and what tells it apart.

Settings are told by plain values. Arrays, and models given as a start, are told by a hash; random
generators by their kind alone, since the checkpoint has their states.
"""

from __future__ import annotations

import hashlib
import warnings
from os import fspath
from typing import Any

import numpy as np

from ibp.checkpoints import CheckpointFile, Identity
from ibp.data import Fingerprint, Observations
from ibp.validation import level_of_user

# Parameters that say how long, how fast and before whom a fit runs, not what it finds. The limit of
# sweeps is looked at by `ibp.checkpoints` once a restart has ended.
NO_SETTINGS = (
    "callbacks",
    "checkpoint",
    "checkpoint_seconds",
    "n_jobs",
    "resume",
    "time_limit",
    "verbose",
)
# Arrays of no more numbers than this are told number by number.
FEW = 8
DIGITS = 12
# What the name of a checkpoint ends with that belongs to the start of another fit.
OF_START = ".start"


def open_checkpoint(estimator: Any, observations: Observations) -> CheckpointFile | None:
    """The checkpoint of an estimator's fit to some data, if it has one; refused if of another."""
    if estimator.checkpoint is None:
        return None
    data = Fingerprint.of(observations.source, observations.summary)
    return CheckpointFile(
        estimator.checkpoint,
        float(estimator.checkpoint_seconds),
        Identity(settings_of(estimator), data),
        resume=bool(estimator.resume),
        warn=lambda warning: warnings.warn(warning, stacklevel=level_of_user()),
    )


def checkpoint_of_start(estimator: Any) -> dict[str, Any]:
    """Parameters of a fit that another starts from: a checkpoint of its own, beside the other's."""
    if estimator.checkpoint is None:
        return {}
    return {
        "checkpoint": f"{fspath(estimator.checkpoint)}{OF_START}",
        "checkpoint_seconds": estimator.checkpoint_seconds,
        "resume": estimator.resume,
    }


def settings_of(estimator: Any) -> dict[str, Any]:
    """What a fit depends on, by name, in plain values."""
    given = estimator.get_params(deep=False)
    settings = {name: _told(value) for name, value in given.items() if name not in NO_SETTINGS}
    return {"estimator": type(estimator).__name__} | settings


def _told(value: Any) -> Any:
    """A value, or what tells it from others."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(name): _told(part) for name, part in value.items()}
    if isinstance(value, np.random.Generator):
        return f"a Generator of {type(value.bit_generator).__name__}"
    if isinstance(value, np.random.RandomState):
        return "a RandomState"
    if hasattr(value, "fit"):
        return f"a fitted {type(value).__name__} ({_hash_of_model(value)})"
    array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    if array.dtype.kind not in "biuf":
        return f"a {type(value).__name__}"
    if array.size <= FEW:
        return array.tolist()
    return f"an array of shape {array.shape} ({_hash(array)})"


def _hash(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:DIGITS]


def _hash_of_model(model: Any) -> str:
    """Of all numbers that fitting has given it."""
    found = (
        value
        for name, value in sorted(vars(model).items())
        if name.endswith("_") and name[0] != "_"
    )
    return _hash(*(value for value in found if isinstance(value, np.ndarray | float | int)))
