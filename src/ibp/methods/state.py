"""A state is arrays and plain numbers: it can be copied, written down and read back.

States are dataclasses of arrays, numbers, words and other such dataclasses or named tuples (sums,
factors, an intercept, hyperparameters), or lists of them. As arrays they are one flat dictionary:
the name of a part within a part is joined by a dot, and a part that may be of several classes has
its class's name under its own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


@dataclass
class State:
    """Where a run is."""

    def copy(self) -> Self:
        """A state of its own, whatever happens to this one."""
        return deepcopy(self)

    def to_arrays(self) -> Arrays:
        """All of it as arrays by name."""
        arrays: Arrays = {}
        _write(self, "", arrays)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The state that `to_arrays` wrote down."""
        made: Self = _read(cls, "", arrays)
        return made

    @classmethod
    def named(cls, name: str) -> type[State]:
        """The class of states of a name, among those that are loaded; the latest of several."""
        return {kind.__name__: kind for kind in _extensions(cls)}[name]


def _extensions(kind: type[State]) -> Iterator[type[State]]:
    """All classes that extend one, and so on."""
    for extension in kind.__subclasses__():
        yield extension
        yield from _extensions(extension)


def _parts(kind: Any) -> list[str] | None:
    """The names of what a dataclass or a named tuple is made of; None for anything else."""
    if is_dataclass(kind):
        return [part.name for part in fields(kind)]
    return list(kind._fields) if hasattr(kind, "_fields") else None


def _write(value: Any, name: str, arrays: Arrays) -> None:
    parts = _parts(value)
    if parts is not None:
        if name:
            arrays[name] = np.array(type(value).__name__)
        for part in parts:
            _write(getattr(value, part), f"{name}.{part}".lstrip("."), arrays)
    elif isinstance(value, list | tuple):
        arrays[name] = np.array(len(value))
        for i, item in enumerate(value):
            _write(item, f"{name}.{i}", arrays)
    elif value is not None:
        arrays[name] = np.array(value)


def _read(hint: Any, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """What ``hint``, a type, says of the arrays under a name."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if name and name not in arrays:
        assert NoneType in options, f"the arrays lack {name!r}"
        return None
    classes = [option for option in options if _parts(option) is not None]
    if classes:
        kind = next(c for c in classes if not name or c.__name__ == str(arrays[name]))
        hints = get_type_hints(kind)
        return kind(
            **{
                part: _read(hints[part], f"{name}.{part}".lstrip("."), arrays)
                for part in _parts(kind) or ()
            }
        )
    if get_origin(hint) in (list, tuple):
        item = get_args(hint)[0]
        made = [_read(item, f"{name}.{i}", arrays) for i in range(int(arrays[name]))]
        return made if get_origin(hint) is list else tuple(made)
    assert not any(get_origin(option) in (list, tuple) for option in options), hint
    array = arrays[name]
    plain = next((option for option in options if option in (bool, int, float, str)), None)
    return array.copy(order="K") if plain is None else plain(array[()])
