"""What a model's notes say, as far as they can be understood: a file may hold anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ibp.persistence import versions


@dataclass(frozen=True)
class HeldOut:
    """How well hidden entries were predicted."""

    score: float
    n_entries: int | None
    fraction: float | None


@dataclass(frozen=True)
class Notes:
    """Notes of the fit; None where there is none."""

    data: str | None
    image_shape: tuple[int, int] | None
    held_out: HeldOut | None
    versions: dict[str, str]
    fitted_at: str | None
    seconds: float | None

    @classmethod
    def of(cls, model: Any) -> Notes:
        """Read the notes of a fitted model."""
        notes = model.notes_
        noted_versions = notes.get("versions")
        if not isinstance(noted_versions, dict):
            noted_versions = versions()
        return cls(
            data=_text(notes.get("data")),
            image_shape=_shape(notes.get("image_shape")),
            held_out=_held_out(notes.get("held_out")),
            versions={str(name): str(version) for name, version in noted_versions.items()},
            fitted_at=_text(notes.get("fitted_at")),
            seconds=_number(notes.get("seconds")),
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _shape(value: Any) -> tuple[int, int] | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    if not all(isinstance(side, int) and side > 0 for side in value):
        return None
    return int(value[0]), int(value[1])


def _held_out(value: Any) -> HeldOut | None:
    score = _number(value.get("score")) if isinstance(value, dict) else None
    if score is None:
        return None
    n_entries = _number(value.get("n_entries"))
    return HeldOut(
        score, None if n_entries is None else int(n_entries), _number(value.get("fraction"))
    )
