"""Known or learned hyperparameters: two precisions and alpha.

A hyperparameter is known (`Known`) or has a Gamma posterior under a Gamma prior (`GammaPosterior`,
supplement S.3). Both offer what the bound needs: the mean, the mean logarithm (digamma, not the
logarithm of the mean) and the divergence from the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import digamma, gammaln

from ibp.data.observations import Observations
from ibp.model.ibp_prior import harmonic_number


@dataclass(frozen=True)
class Known:
    """A hyperparameter fixed at a value."""

    learned: ClassVar[bool] = False

    value: float

    @property
    def mean(self) -> float:
        """The value."""
        return self.value

    @property
    def mean_log(self) -> float:
        """The logarithm of the value."""
        return float(np.log(self.value))

    def divergence(self) -> float:
        """Nothing is inferred, so nothing is paid."""
        return 0.0

    def updated(self, shape_gain: float, rate_gain: float) -> Known:
        """Stay as it is."""
        return self

    def draw(self, shape_gain: float, rate_gain: float, rng: np.random.Generator) -> float:
        """The value."""
        return self.value

    def log_prior(self, value: float) -> float:
        """Zero: what is given has no density."""
        return 0.0

    def divided(self, factor: float) -> Known:
        """A precision that is lower by a factor."""
        return Known(self.value / factor)


@dataclass(frozen=True)
class GammaPosterior:
    """q = Gamma(shape, rate) under the prior Gamma(prior_shape, prior_rate)."""

    learned: ClassVar[bool] = True

    prior_shape: float
    prior_rate: float
    shape: float
    rate: float

    @classmethod
    def starting_at(
        cls, mean: float, prior: tuple[float, float], shape_gain: float
    ) -> GammaPosterior:
        """A posterior of the shape that its first update will have, with a given mean."""
        shape = prior[0] + shape_gain
        return cls(prior[0], prior[1], shape, shape / mean)

    @property
    def mean(self) -> float:
        """E[tau]."""
        return self.shape / self.rate

    @property
    def mean_log(self) -> float:
        """E[ln tau]."""
        return float(digamma(self.shape) - np.log(self.rate))

    def divergence(self) -> float:
        """KL(q || prior)."""
        return float(
            (self.shape - self.prior_shape) * digamma(self.shape)
            - gammaln(self.shape)
            + gammaln(self.prior_shape)
            + self.prior_shape * (np.log(self.rate) - np.log(self.prior_rate))
            + self.shape * (self.prior_rate / self.rate - 1.0)
        )

    def updated(self, shape_gain: float, rate_gain: float) -> GammaPosterior:
        """The conjugate update: prior plus what the data add."""
        return replace(self, shape=self.prior_shape + shape_gain, rate=self.prior_rate + rate_gain)

    def divided(self, factor: float) -> GammaPosterior:
        """A posterior whose mean is lower by a factor, until its next update."""
        return replace(self, rate=self.rate * factor)

    def draw(self, shape_gain: float, rate_gain: float, rng: np.random.Generator) -> float:
        """A sample from the conjugate posterior, for methods that sample."""
        rate = self.prior_rate + rate_gain
        return float(rng.gamma(self.prior_shape + shape_gain) / rate)

    def log_prior(self, value: float) -> float:
        """Ln of the prior density."""
        return float(
            self.prior_shape * np.log(self.prior_rate)
            - gammaln(self.prior_shape)
            + (self.prior_shape - 1.0) * np.log(value)
            - self.prior_rate * value
        )


Hyperparameter = Known | GammaPosterior


@dataclass
class HyperparameterValues:
    """The values that a sampler is at: tau_X, tau_A and alpha."""

    noise_precision: float
    factor_precision: float
    alpha: float

    @property
    def noise_std(self) -> float:
        """tau_X^(-1/2)."""
        return float(self.noise_precision**-0.5)

    @property
    def factor_std(self) -> float:
        """tau_A^(-1/2)."""
        return float(self.factor_precision**-0.5)


@dataclass(frozen=True)
class Hyperparameters:
    """tau_X = 1 / noise_std^2, tau_A = 1 / factor_std^2, and alpha, the same for all columns."""

    by_column: ClassVar[bool] = False

    noise_precision: Hyperparameter
    factor_precision: Hyperparameter
    alpha: Hyperparameter

    @classmethod
    def known(cls, *, noise_std: float, factor_std: float, alpha: float) -> Hyperparameters:
        """The three hyperparameters, all fixed."""
        return cls(Known(noise_std**-2.0), Known(factor_std**-2.0), Known(alpha))

    @property
    def learned(self) -> bool:
        """Whether any of the three is learned."""
        return any(value.learned for value in vars(self).values())

    @property
    def noise_std(self) -> float:
        """E[tau_X]^(-1/2)."""
        return float(self.noise_precision.mean**-0.5)

    @property
    def factor_std(self) -> float:
        """E[tau_A]^(-1/2)."""
        return float(self.factor_precision.mean**-0.5)

    def values(self) -> HyperparameterValues:
        """Their means, for a sampler to begin with."""
        return HyperparameterValues(
            self.noise_precision.mean, self.factor_precision.mean, self.alpha.mean
        )

    def log_prior(self, values: HyperparameterValues) -> float:
        """Ln of the prior density of what is learned."""
        return (
            self.noise_precision.log_prior(values.noise_precision)
            + self.factor_precision.log_prior(values.factor_precision)
            + self.alpha.log_prior(values.alpha)
        )

    def updated(
        self, observations: Observations, n_active: int, squared_error: float, squares: float
    ) -> Hyperparameters:
        """Supplement S.3: the conjugate updates from K+ features (known ones stay).

        ``squared_error`` and ``squares`` are the expected ones: of X less what the features make of
        it, and of the factors.
        """
        n_factors = n_active * observations.n_features
        return Hyperparameters(
            self.noise_precision.updated(0.5 * observations.n_observed, 0.5 * squared_error),
            self.factor_precision.updated(0.5 * n_factors, 0.5 * squares),
            self.alpha.updated(n_active, harmonic_number(observations.n_samples)),
        )

    def log_likelihood(self, observations: Observations, squared_error: float) -> float:
        """E ln p(X | Z, A, b), with the expected squared error."""
        tau = self.noise_precision
        log_density = 0.5 * observations.n_observed * (tau.mean_log - np.log(2.0 * np.pi))
        return float(log_density - 0.5 * tau.mean * squared_error)

    def moved(self, present: Observations, other: Observations) -> Hyperparameters:
        """The same for other rows."""
        return self

    def divergence(self) -> float:
        """What the bound pays for the three posteriors together."""
        return (
            self.noise_precision.divergence()
            + self.factor_precision.divergence()
            + self.alpha.divergence()
        )
