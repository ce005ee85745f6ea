"""What every method's state must be able to do."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np


def assert_same(first, second):
    """The same arrays under the same names, of the same types."""
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype and array.dtype != object, name
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def assert_goes_on(method, context, state, n_sweeps=3):
    """A run goes on from a state that was written down and read back as if nothing had happened."""
    arrays, kept = state.to_arrays(), state.copy()
    again = type(state).from_arrays(arrays)
    assert_same(again.to_arrays(), arrays)
    other = replace(context, rng=deepcopy(context.rng))
    for _ in range(n_sweeps):
        assert method.step(context, state) == method.step(other, again)
        assert_same(again.to_arrays(), state.to_arrays())
    assert_same(kept.to_arrays(), arrays)
