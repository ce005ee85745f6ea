"""What factors, codes and an intercept leave of the rows of X."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations

FloatArray = npt.NDArray[np.float64]


def residuals_of_rows(
    observations: Observations,
    mean: FloatArray,
    intercept: FloatArray,
    codes: npt.NDArray[np.generic],
    rows: Any,
    positions: Any = slice(None),
) -> tuple[FloatArray, npt.NDArray[np.bool_] | None]:
    """x - b - z A of some rows at some layout positions, in units of the columns.

    Zero where an entry is missing; which ones these are, None if there are none.
    """
    unit = observations.unit[positions]
    columns = observations.layout.column_order[positions]
    values = observations.source.rows(rows)[:, columns]
    values = (values.toarray() if observations.sparse else values).astype(np.float64)
    residual = values - (observations.centre[positions] + intercept[positions] * unit)
    residual -= codes[rows].astype(np.float64) @ (mean[:, positions] * unit)
    residual /= unit
    missing = np.isnan(values)
    if not missing.any():
        return residual, None
    residual[missing] = 0.0
    return residual, missing
