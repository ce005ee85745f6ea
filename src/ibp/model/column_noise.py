"""Noise of each column on its own, under a prior that the columns share.

Everything is in units of the columns, tau_d being the noise precision of column d. The prior is
worth a fixed share f of a column's n_d entries, at a variance v that all columns have in common:

    tau_d ~ Gamma(f n_d / 2, f n_d v / 2)
    q(tau_d) = Gamma((1 + f) n_d / 2, (f n_d v + E_d + n_d g_d^2 / 12) / 2)
    1 / v = sum_d n_d E[tau_d] / sum_d n_d

E_d is the expected squared error of the column. Each update is where the bound is highest, the rest
unchanged; the variance 1 / E[tau_d] is never below a share of v, however many rows there are.

That alone would not keep a feature from copying a column of few values, a tag or a pixel that is
nearly always black: its error goes to zero, and the density of its entries would rise without end.
But a recorded value stands for all that would have been recorded as it: an interval as wide as the
gap to the next value (`ibp.data.units`). With q uniform on an interval of width g, the bound of
ln P(interval) is that of the density plus ln g, less tau_d g^2 / 24 for an entry, because g^2 / 12
is the variance of such a value; g_d^2 is the mean of g^2 in a column. As a probability is at most
one, nothing is gained any more once the noise is far below the resolution. Without ln g, what is
left is still below the log-density of the recorded values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from ibp.data.observations import Observations
from ibp.model.hyperparameters import GammaPosterior, Hyperparameters, Known
from ibp.model.ibp_prior import harmonic_number

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# What the shared prior is worth, as a part of a column's entries. Weighted codes can follow every
# value of a column, so that its noise would say too little: hidden entries of breast cancer are 0.2
# to 0.3 nats better with the second share than with the first, those of digits about as good.
SHARE, SHARE_FOR_WEIGHTS = 0.001, 0.05
# The levels of the columns and what they have in common are updated in turn so often.
ROUNDS = 3


@dataclass(frozen=True)
class KnownColumns:
    """A precision for each column, fixed."""

    learned: ClassVar[bool] = False

    values: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The values."""
        return self.values

    @property
    def mean_log(self) -> FloatArray:
        """Their logarithms."""
        return np.asarray(np.log(self.values))

    @property
    def rounding_variance(self) -> FloatArray:
        """What is known needs no guard against a noise of zero."""
        return np.zeros_like(self.values)

    def bound_changes(self, squared_error: FloatArray, changes: FloatArray) -> FloatArray:
        """What the bound gains, column by column, if the squared error changes."""
        return np.asarray(-0.5 * self.values * changes)

    def divergence(self) -> float:
        """Nothing is inferred, so nothing is paid."""
        return 0.0

    def updated(self, n_observed: IntArray, squared_error: FloatArray) -> KnownColumns:
        """Stay as they are."""
        return self

    def divided(self, factor: float) -> KnownColumns:
        """Precisions that are lower by a factor."""
        return KnownColumns(self.values / factor)

    def moved(self, order: IntArray, n_observed: IntArray) -> KnownColumns:
        """The same of columns in another order."""
        return KnownColumns(self.values[order])


@dataclass(frozen=True)
class ColumnNoise:
    """q(tau_d) of every column, D numbers each, in layout order and units of the columns."""

    learned: ClassVar[bool] = True

    prior_shape: FloatArray
    prior_rate: FloatArray
    shape: FloatArray
    rate: FloatArray
    rounding_variance: FloatArray  # g_d^2 / 12
    pooled: bool = True  # whether the prior's level is learned
    share: float = SHARE  # what the prior is worth, if it is

    @classmethod
    def starting_at(
        cls,
        mean: FloatArray,
        n_observed: IntArray,
        rounding_variance: FloatArray,
        prior: tuple[float, float] | None = None,
        share: float = SHARE,
    ) -> ColumnNoise:
        """Posteriors of the shape that their first update will have, with given means.

        A ``prior`` that is given, shape and rate, is that of every column, and is not learned.
        """
        if prior is None:
            prior_shape = np.asarray(0.5 * share * n_observed, dtype=np.float64)
            prior_rate = prior_shape / _pooled(prior_shape, mean)
        else:
            prior_shape, prior_rate = (np.full(mean.size, value) for value in prior)
        shape = prior_shape + 0.5 * n_observed
        pooled = prior is None
        return cls(prior_shape, prior_rate, shape, shape / mean, rounding_variance, pooled, share)

    @property
    def mean(self) -> FloatArray:
        """E[tau_d]."""
        return self.shape / self.rate

    @property
    def mean_log(self) -> FloatArray:
        """E[ln tau_d]."""
        return np.asarray(digamma(self.shape) - np.log(self.rate))

    @property
    def level(self) -> float:
        """The variance that the columns have in common."""
        return float(self.prior_rate.sum() / self.prior_shape.sum())

    def divergence(self) -> float:
        """KL(q || prior), all columns together."""
        each = (
            (self.shape - self.prior_shape) * digamma(self.shape)
            - gammaln(self.shape)
            + gammaln(self.prior_shape)
            + self.prior_shape * (np.log(self.rate) - np.log(self.prior_rate))
            + self.shape * (self.prior_rate / self.rate - 1.0)
        )
        return float(each.sum())

    def bound_changes(self, squared_error: FloatArray, changes: FloatArray) -> FloatArray:
        """What the bound gains, column by column, if the squared error changes and q answers.

        With q at its optimum the bound is -shape ln(rate), and what does not change.
        """
        rate = self.prior_rate + 0.5 * squared_error
        ratio = np.maximum(1.0 + 0.5 * changes / rate, np.finfo(np.float64).tiny)
        return np.asarray(-self.shape * np.log(ratio))

    def updated(self, n_observed: IntArray, squared_error: FloatArray) -> ColumnNoise:
        """The conjugate updates of the columns and, in turn, of what they have in common."""
        shape = self.prior_shape + 0.5 * n_observed
        gain = 0.5 * (squared_error + n_observed * self.rounding_variance)
        prior_rate = self.prior_rate
        for _ in range(ROUNDS if self.pooled else 0):
            mean = shape / (prior_rate + gain)
            prior_rate = self.prior_shape / _pooled(self.prior_shape, mean)
        return replace(self, shape=shape, prior_rate=prior_rate, rate=prior_rate + gain)

    def divided(self, factor: float) -> ColumnNoise:
        """Posteriors whose means are lower by a factor, until their next update."""
        return replace(self, rate=self.rate * factor)

    def moved(self, order: IntArray, n_observed: IntArray) -> ColumnNoise:
        """The same levels for columns in another order, with other numbers of entries."""
        prior_shape, prior_rate = self.prior_shape[order], self.prior_rate[order]
        if self.pooled:
            # Some of the rows may have no entry of a column.
            entries = np.maximum(n_observed, 1)
            prior_shape = np.asarray(0.5 * self.share * entries, dtype=np.float64)
            prior_rate = prior_shape * self.level
        shape = prior_shape + 0.5 * n_observed
        return replace(
            self,
            prior_shape=prior_shape,
            prior_rate=prior_rate,
            shape=shape,
            rate=shape / self.mean[order],
            rounding_variance=self.rounding_variance[order],
        )


def _pooled(weight: FloatArray, precision: FloatArray) -> float:
    """The mean precision: where the bound is highest for the prior's level."""
    return float(weight @ precision / weight.sum())


@dataclass(frozen=True)
class ColumnHyperparameters:
    """`Hyperparameters` with a noise precision of each column; in units and layout order.

    The factors' precision is one number in units of the columns, or known for each.
    """

    by_column: ClassVar[bool] = True

    noise_precision: KnownColumns | ColumnNoise
    factor_precision: Known | GammaPosterior | KnownColumns
    alpha: Known | GammaPosterior

    @property
    def learned(self) -> bool:
        """Whether any of the three is learned."""
        return any(value.learned for value in vars(self).values())

    @property
    def noise_std(self) -> FloatArray:
        """E[tau_d]^(-1/2)."""
        return np.asarray(self.noise_precision.mean**-0.5)

    @property
    def factor_std(self) -> Any:
        """E[tau_A]^(-1/2), a number or one for each column."""
        return self.factor_precision.mean**-0.5

    def log_likelihood(self, observations: Observations, squared_error: FloatArray) -> float:
        """E ln p(X | Z, A, b), with the expected squared error of each column."""
        tau, n_observed = self.noise_precision, observations.column_counts
        error = squared_error + n_observed * tau.rounding_variance
        return 0.5 * float(n_observed @ (tau.mean_log - np.log(2.0 * np.pi)) - tau.mean @ error)

    def log_likelihood_changes(
        self, observations: Observations, squared_error: FloatArray, changes: FloatArray
    ) -> FloatArray:
        """What the bound gains from each of several (K, D) changes of the squared error.

        Learned noise answers each of them.
        """
        tau = self.noise_precision
        error = squared_error + observations.column_counts * tau.rounding_variance
        return np.asarray(tau.bound_changes(error, changes).sum(axis=1))

    def moved(self, present: Observations, other: Observations) -> ColumnHyperparameters:
        """The same for other rows, whose columns may stand in another order."""
        order = present.layout.position_of_column[other.layout.column_order]
        factors = self.factor_precision
        if isinstance(factors, KnownColumns):
            factors = factors.moved(order, other.column_counts)
        noise = self.noise_precision.moved(order, other.column_counts)
        return ColumnHyperparameters(noise, factors, self.alpha)

    def updated(
        self, observations: Observations, n_active: int, squared_error: FloatArray, squares: float
    ) -> ColumnHyperparameters:
        """The updates of `Hyperparameters`, the noise by the squared error of each column."""
        n_factors = n_active * observations.n_features
        factors = self.factor_precision
        if not isinstance(factors, KnownColumns):
            factors = factors.updated(0.5 * n_factors, 0.5 * squares)
        return ColumnHyperparameters(
            self.noise_precision.updated(observations.column_counts, squared_error),
            factors,
            self.alpha.updated(n_active, harmonic_number(observations.n_samples)),
        )

    def divergence(self) -> float:
        """What the bound pays for the three posteriors together."""
        return (
            self.noise_precision.divergence()
            + self.factor_precision.divergence()
            + self.alpha.divergence()
        )


AnyHyperparameters = Hyperparameters | ColumnHyperparameters
