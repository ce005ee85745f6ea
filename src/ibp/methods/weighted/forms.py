"""What the rows of one q(A) have in common where codes have weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.weighted_rows import WeightedColumns, WeightedForms
from ibp.methods.row_forms import RowForms

FloatArray = npt.NDArray[np.float64]


class WeightedRowForms(RowForms):
    """Forms of rows, and what the factors' variances make of each.

    A weight multiplies the mean of a factor once and its variance by E[w^2], so that the variances
    stay out of the forms' constants and have a place of their own.

    Attributes
    ----------
    weighted : WeightedForms
        All that rows share, for the kernels.
    weighted_columns : WeightedColumns or None
        What single columns contribute; None if nothing is missing.
    """

    def __init__(
        self,
        observations: Observations,
        mean: FloatArray,
        noise_precision: float | FloatArray,
        *,
        variance: FloatArray,
        offset: FloatArray,
    ) -> None:
        weighted = noise_precision * variance
        self.doubt = np.empty((observations.shared_patterns.n_forms, mean.shape[0]))
        self.doubt[0] = weighted.sum(axis=1)
        self.column_doubt: FloatArray | None = None
        if not observations.complete:
            self.column_doubt = np.ascontiguousarray(weighted.T)
        super().__init__(observations, mean, noise_precision, offset=offset)
        self.weighted = WeightedForms(*self.forms, self.doubt)
        self.weighted_columns: WeightedColumns | None = None
        if self.columns is not None and self.column_doubt is not None:
            self.weighted_columns = WeightedColumns(*self.columns, self.column_doubt)

    def finish(self, form: int) -> None:
        """Take away the variances of what a form's rows miss."""
        if form > 0:
            assert self.column_doubt is not None
            missed = self.column_doubt[self.patterns.missing[form]].sum(axis=0)
            self.doubt[form] = np.maximum(self.doubt[0] - missed, 0.0)
        super().finish(form)
