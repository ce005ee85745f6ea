"""Changed states: with features added, and others taken away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.methods.context import Context
from ibp.methods.meibp.state import MEIBPState
from ibp.model import Factors, Statistics

FloatArray = npt.NDArray[np.float64]


class NewFactors(NamedTuple):
    """Truncated Gaussians of new features, in units of the columns and layout order."""

    location: FloatArray
    scale: FloatArray


def with_noise_times(hyperparameters: Any, factor: float) -> Any:
    """The same hyperparameters with another noise variance, until it is learned anew."""
    noise = hyperparameters.noise_precision.divided(factor)
    return replace(hyperparameters, noise_precision=noise)


def with_new_features(
    context: Context,
    state: MEIBPState,
    codes: npt.NDArray[np.generic],
    factors: NewFactors,
    keep: npt.NDArray[np.bool_] | None = None,
    statistics: Statistics | None = None,
) -> MEIBPState:
    """A state with features added, and without those that are not to be kept.

    ``statistics`` are those of all its features, if they are known.
    """
    changed = state.copy_but_assignments()
    if keep is not None and not keep.all():
        changed.keep(keep)
    added = np.ascontiguousarray(codes, dtype=np.uint8)
    old, new = changed.factors, Factors.from_parameters(*factors)
    changed.factors = Factors(
        *(
            np.concatenate([getattr(old, part), getattr(new, part)])
            for part in ("location", "scale", "mean", "variance")
        )
    )
    changed.add_codes(context, added, statistics)
    changed.failed_searches[:] = 0
    changed.drop_empty()
    return changed
