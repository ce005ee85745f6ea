"""A start from codes, for any method: those of a fitted model, or the user's own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CodesAndFactors:
    """What is known before the first sweep."""

    codes: FloatArray  # (N, K), assignments, their probabilities, or nonnegative codes
    # In the user's column order, (K, D) and (D,); None if they are to follow from the codes.
    factors: FloatArray | None = None
    intercept: FloatArray | None = None
    real: bool = False  # whether the codes have a scale of their own, or are between zero and one
    interrupted: bool = False  # whether the user broke off what led here
    cut_short: bool = False  # whether that, or a time limit, did

    @property
    def n_components(self) -> int:
        """Features to start with."""
        return int(self.codes.shape[1])

    def binary(self) -> CodesAndFactors:
        """The same start with codes between zero and one.

        Real codes are cut at half of the largest that their feature has, and the factors take on
        their scale.
        """
        if not self.real:
            return self
        largest = self.codes.max(axis=0, initial=0.0)
        used = largest > 0
        on = self.codes[:, used] > 0.5 * largest[used]
        scale = (self.codes[:, used] * on).sum(axis=0) / on.sum(axis=0)
        factors = None if self.factors is None else self.factors[used] * scale[:, None]
        return replace(self, codes=on.astype(np.float64), factors=factors, real=False)

    @property
    def assignments(self) -> npt.NDArray[np.uint8]:
        """The codes rounded to zeros and ones."""
        return (self.codes > 0.5).astype(np.uint8)
