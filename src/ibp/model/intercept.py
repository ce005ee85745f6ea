"""A signed offset b_d per dimension: X = 1b' + ZA + E.

Prior b_d ~ N(c_d, prior_std^2) about the observations' centre c, q(b_d) = N(c_d + mean_d,
variance_d). Like a hyperparameter it is either learned (`LearnedIntercept`) or not there
(`NoIntercept`, the paper's model); both offer what the bound needs. In the units of the
observations; tau_X may be that of each column.

    variance_d = 1 / (n_d E[tau_X] + 1 / prior_std^2)
    mean_d = variance_d E[tau_X] sum over the rows that observe d of (x_nd - c_d - z_n . E[a_d])
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ibp.data.observations import Observations
from ibp.model.statistics import Statistics, sums_by_column

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NoIntercept:
    """The paper's model: no offset."""

    mean: FloatArray
    variance: FloatArray

    @classmethod
    def of_width(cls, n_features: int) -> NoIntercept:
        """Zeros for so many columns."""
        return cls(np.zeros(n_features), np.zeros(n_features))

    def response(self, noise_precision: float | FloatArray) -> FloatArray:
        """How far the mean moves when a column's sum of residuals grows by one."""
        return np.zeros_like(self.mean)

    def divergence(self) -> float:
        """Nothing is inferred, so nothing is paid."""
        return 0.0

    def updated(
        self,
        observations: Observations,
        statistics: Statistics,
        factor_mean: FloatArray,
        noise_precision: float | FloatArray,
    ) -> NoIntercept:
        """Stay as it is."""
        return self


@dataclass(frozen=True)
class LearnedIntercept:
    """Means (about the centre) and variances of q(b), in layout order, and the prior's spread."""

    mean: FloatArray
    variance: FloatArray
    prior_std: float

    @classmethod
    def at_centre(
        cls, observations: Observations, prior_std: float, noise_precision: float | FloatArray
    ) -> LearnedIntercept:
        """At the prior's mean, with the variance that the first update will have."""
        n_observed = observations.column_counts
        variance = 1.0 / (n_observed * noise_precision + prior_std**-2.0)
        return cls(np.zeros(observations.n_features), variance, prior_std)

    def response(self, noise_precision: float | FloatArray) -> FloatArray:
        """How far the mean moves when a column's sum of residuals grows by one."""
        return self.variance * noise_precision

    def divergence(self) -> float:
        """KL(q(b) || p(b))."""
        ratio = self.variance / self.prior_std**2
        return 0.5 * float((ratio + (self.mean / self.prior_std) ** 2 - 1.0 - np.log(ratio)).sum())

    def updated(
        self,
        observations: Observations,
        statistics: Statistics,
        factor_mean: FloatArray,
        noise_precision: float | FloatArray,
    ) -> LearnedIntercept:
        """The optimal q(b) given everything else."""
        fresh = self.at_centre(observations, self.prior_std, noise_precision)
        explained = sums_by_column(statistics.totals, observations.layout, factor_mean)
        mean = fresh.response(noise_precision) * (observations.column_sums - explained)
        return LearnedIntercept(mean, fresh.variance, self.prior_std)


Intercept = NoIntercept | LearnedIntercept


def first_intercept(
    observations: Observations,
    prior_std: float | None,
    noise_precision: float | FloatArray,
    known: FloatArray | None = None,
) -> Intercept:
    """The intercept to begin with: at the prior's mean, or at known offsets.

    These are in the user's order and units.
    """
    if prior_std is None:
        return NoIntercept.of_width(observations.n_features)
    intercept = LearnedIntercept.at_centre(observations, prior_std, noise_precision)
    if known is None:
        return intercept
    offset = observations.layout.arrange(known) - observations.centre
    return replace(intercept, mean=offset / observations.unit)
