"""That a state is arrays and plain numbers, which can be written down and read back."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

PLAIN = (bool, int, float, str, np.bool_, np.number, type(None))


def arrays_in(value: Any, name: str) -> Iterator[np.ndarray]:
    """Every array in a state, which must hold nothing else but plain numbers and words."""
    if isinstance(value, np.ndarray):
        assert value.dtype.kind in "biuf", name
        yield value
    elif is_dataclass(value):
        for part, inner in vars(value).items():  # what is kept beside the fields included
            yield from arrays_in(inner, f"{name}.{part}")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from arrays_in(inner, f"{name}[{i}]")
    else:
        assert isinstance(value, PLAIN), f"{name} is a {type(value).__name__}"


def assert_independent(one, other):
    """No array of one is, even in part, an array of the other."""
    theirs = list(arrays_in(other, "state"))
    for array in arrays_in(one, "state"):
        assert not any(np.may_share_memory(array, their) for their in theirs)


def assert_same_state(one, other):
    """Equal bit for bit, array by array."""
    ours, theirs = one.to_arrays(), other.to_arrays()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(theirs[name], array, err_msg=name, strict=True)


def assert_resumes(method, context, state, n_sweeps=3):
    """A state read back from its arrays, and a copy, go on as the state itself does.

    In to_arrays there is nothing but arrays of numbers and words, so they can go into a file.
    """
    arrays = state.to_arrays()
    assert all(array.dtype.kind in "biufU" for array in arrays.values())
    read_back, copied = type(state).from_arrays(arrays), state.copy()
    for other in (read_back, copied):
        assert type(other) is type(state)
        assert_same_state(other, state)
        assert_independent(other, state)
    others = [(replace(context, rng=deepcopy(context.rng)), other) for other in (read_back, copied)]
    before = deepcopy(arrays)
    reports = [method.step(context, state) for _ in range(n_sweeps)]
    for name, array in before.items():  # what was written down is not the state's own
        np.testing.assert_array_equal(arrays[name], array, strict=True)
    for other_context, other in others:
        assert [method.step(other_context, other) for _ in range(n_sweeps)] == reports
        assert_same_state(other, state)
