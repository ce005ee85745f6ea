"""What a model's notes say, as far as they can be understood: a file may hold anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ibp.persistence import versions
from ibp.registry import DEFAULT_METHOD, METHODS
from ibp.report.encoding import clean_name

MOST_VERSIONS = 20
LONGEST_FIT = 1e9  # seconds
LONGEST_ARGUMENT, MOST_ARGUMENTS = 200, 60


@dataclass(frozen=True)
class HeldOutScore:
    """How well hidden entries were predicted."""

    score: float
    n_entries: int | None
    fraction: float | None
    error: float | None  # root mean square
    relative_error: float | None  # to that of the columns' means, in units of the columns


@dataclass(frozen=True)
class Notes:
    """Notes of the fit; None where there is none."""

    data: str | None
    method: str | None
    image_shape: tuple[int, int] | None
    held_out: HeldOutScore | None
    versions: dict[str, str]
    fitted_at: str | None
    seconds: float | None
    weights_gain: float | None = None  # what weights would gain in a few steps, in nats
    data_file: str | None = None  # as a command names it
    reading: tuple[str, ...] = ()  # the options by which it was read
    model_file: str | None = None  # where the model was saved

    @classmethod
    def of(cls, model: Any) -> Notes:
        """Read the notes of a fitted model."""
        notes = model.notes_ if isinstance(model.notes_, dict) else {}
        seconds = _number(notes.get("seconds"))
        return cls(
            data=_text(notes.get("data")),
            method=_label(notes.get("method")),
            image_shape=_shape(notes.get("image_shape")),
            held_out=_held_out(notes.get("held_out")),
            versions=_versions(notes.get("versions")),
            fitted_at=_text(notes.get("fitted_at")),
            seconds=seconds if seconds is not None and 0 <= seconds < LONGEST_FIT else None,
            weights_gain=_number(notes.get("weights_gain")),
            data_file=_argument(notes.get("data_file")),
            reading=_arguments(notes.get("reading")),
            model_file=_argument(notes.get("model_file")),
        )


def _text(value: Any) -> str | None:
    return clean_name(value) if isinstance(value, str) and value else None


def _argument(value: Any) -> str | None:
    """Text that can stand in a command."""
    usable = isinstance(value, str) and 0 < len(value) <= LONGEST_ARGUMENT and value.isprintable()
    return value if usable else None


def _arguments(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_ARGUMENTS:
        return ()
    found = [_argument(text) for text in value]
    return tuple(text for text in found if text is not None) if None not in found else ()


def _label(value: Any) -> str | None:
    """A method of ours, if it is not the one that a fit takes anyway."""
    known = isinstance(value, str) and value in METHODS and value != DEFAULT_METHOD
    return value if known else None


def _versions(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return versions()
    known = {name: version for name, version in value.items() if isinstance(version, str)}
    items = list(known.items())[:MOST_VERSIONS]
    return {clean_name(name): clean_name(version) for name, version in items}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number without end
        return None
    return number if math.isfinite(number) else None


def _shape(value: Any) -> tuple[int, int] | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    if not all(isinstance(side, int) and side > 0 for side in value):
        return None
    return int(value[0]), int(value[1])


def _held_out(value: Any) -> HeldOutScore | None:
    score = _number(value.get("score")) if isinstance(value, dict) else None
    if score is None:
        return None
    n_entries, fraction = _number(value.get("n_entries")), _number(value.get("fraction"))
    error, ratio = _number(value.get("error")), _number(value.get("relative_error"))
    return HeldOutScore(
        score,
        int(n_entries) if n_entries is not None and 0 < n_entries < 1e15 else None,
        fraction if fraction is not None and 0 < fraction <= 1 else None,
        error if error is not None and error >= 0 else None,
        ratio if ratio is not None and ratio >= 0 else None,
    )
