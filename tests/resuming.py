"""That a state can be written down and read back."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np


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
    read_back = type(state).from_arrays(arrays)
    assert_same_state(read_back, state)
    others = [
        (replace(context, rng=deepcopy(context.rng)), read_back),
        (replace(context, rng=deepcopy(context.rng)), state.copy()),
    ]
    before = deepcopy(arrays)
    reports = [method.step(context, state) for _ in range(n_sweeps)]
    for name, array in before.items():  # what was written down is not the state's own
        np.testing.assert_array_equal(arrays[name], array, strict=True)
    for other_context, other in others:
        assert [method.step(other_context, other) for _ in range(n_sweeps)] == reports
        assert_same_state(other, state)
