"""Which columns are worth naming where each has a noise level of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.report.measuring import Measurements
from ibp.report.reading import FloatArray, IntArray

LISTED = 5
# A column whose noise is so many times its spread varies less than its values are rounded.
BELOW_RESOLUTION = 1.1


@dataclass(frozen=True)
class ColumnNoise:
    """Noise of each column, and columns by number."""

    noise: FloatArray  # standard deviations
    takes_part: npt.NDArray[np.bool_]  # what does not vary does not
    hardly_varies: npt.NDArray[np.bool_]  # so little that all of it counts as noise
    unexplained: IntArray  # the largest share of unexplained variance first
    loudest: IntArray  # a few, the loudest first
    quietest: IntArray  # a few, the quietest first

    @property
    def constant(self) -> IntArray:
        """The columns that took no part in the fit."""
        return np.flatnonzero(~self.takes_part)


def column_noise_of(model: Any, measured: Measurements) -> ColumnNoise | None:
    """What a model says of the noise of each column; None if all have the same."""
    if np.ndim(model.noise_std_) == 0:
        return None
    noise = np.asarray(model.noise_std_, dtype=np.float64)
    spread = measured.column_spreads
    varies = spread > 0
    # Factors of a column that took no part are known to be zero.
    takes_part = (model.components_std_ > 0).any(axis=0) if model.n_components_ else varies
    hardly_varies = takes_part & ~(noise <= BELOW_RESOLUTION * spread)
    share = np.full(noise.size, np.nan)
    np.divide(measured.column_errors, spread, out=share, where=varies & takes_part)
    named = takes_part & ~hardly_varies if (takes_part & ~hardly_varies).any() else takes_part
    listed = np.flatnonzero(named)
    by_noise = listed[np.argsort(noise[listed], kind="stable")]
    by_share = listed[np.isfinite(share[listed])]
    by_share = by_share[np.argsort(-share[by_share], kind="stable")]
    n_listed = min(LISTED, -(-listed.size // 2))  # no column is both
    return ColumnNoise(
        noise, takes_part, hardly_varies, by_share, by_noise[::-1][:n_listed], by_noise[:n_listed]
    )
