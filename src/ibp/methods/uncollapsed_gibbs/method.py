"""Uncollapsed Gibbs sampling of Z, the factors A, an intercept b and the hyperparameters.

    X = 1b' + ZA + E,   E ~ N(0, 1 / tau_X),   b_d ~ N(c_d, intercept_std^2) about the centre c,
    a_kd ~ N(0, 1 / tau_A) or its nonnegative half,   Z ~ IBP(alpha) or the finite model of K.

A sweep samples, each given the rest:

- the rows of Z in turn, with births and deaths of the features that a row has for itself
  (`ibp.kernels.uncollapsed_gibbs`; why they are not simply drawn from {0, 1} is told there);
- A and b. Gaussian factors of a column are drawn together with its b_d, from N(tau_X P^-1 Z'x,
  P^-1) with P = tau_X Z'Z + diag(prior precisions), b being a feature that every row has.
  Truncated ones are drawn one by one, in a random order;
- tau_X ~ Gamma(a + n / 2, b + sum of squared residuals / 2) over the n observed entries,
  tau_A ~ Gamma(a + KD / 2, b + sum of a_kd^2 / 2) under either prior, and alpha
  (`ibp.model.assignment_priors`), as far as they are learned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.uncollapsed_gibbs import RowModel, sample_factors
from ibp.methods.context import Context
from ibp.methods.sampler import Sampler, SamplerState
from ibp.methods.samples import Chain, Sample
from ibp.methods.uncollapsed_gibbs.rows import SPARE_SLOTS, sweep_rows, with_spare_slots
from ibp.model import Statistics
from ibp.model.collapsed import draw_factors
from ibp.model.evidence import squared_error
from ibp.model.new_feature import FactorPrior, draw_prior, log_prior_density
from ibp.starts.codes_and_factors import CodesAndFactors

FloatArray = npt.NDArray[np.float64]
BitArray = npt.NDArray[np.uint8]

# Nonnegative factors of a start are not less than this part of their prior's spread.
LEAST_FACTOR = 1e-6
# Times that truncated factors are sampled before the first sweep if a start does not have them.
SWEEPS_TO_START = 10


@dataclass
class UncollapsedGibbsState(SamplerState):
    """Where a chain is; columns in layout order."""

    assignments: BitArray  # (N, K), Z; in the finite model some columns may be empty
    components: FloatArray  # (K, D), A
    intercept: FloatArray  # (D,), b about the centre
    statistics: Statistics  # sums of Z and X
    squared_error: float = np.nan  # the sum of squared residuals over the observed entries


@dataclass(frozen=True)
class UncollapsedGibbsMethod(Sampler[UncollapsedGibbsState]):
    """The sampler with its settings; factors that a start lacks are drawn given its codes."""

    factors: FactorPrior = "half_normal"

    def init(self, context: Context) -> UncollapsedGibbsState:
        """Make the state that the first sweep starts from."""
        observations, rng = context.observations, context.rng
        values = self.hyperparameters.values()
        assignments = self.first_assignments(values, context)
        shape = (assignments.shape[1], observations.n_features)
        state = UncollapsedGibbsState(
            values,
            Chain(),
            assignments,
            draw_prior(shape, values.factor_precision, self.factors, rng),
            np.zeros(observations.n_features),
            Statistics.from_codes(observations, assignments, context.executor),
        )
        if self.start is not None:
            self._begin_at(context, state, self.start)
        self._measure(context, state)
        return state

    def _begin_at(
        self, context: Context, state: UncollapsedGibbsState, start: CodesAndFactors
    ) -> None:
        """Take factors and intercept from a start, or draw them given its codes."""
        observations = context.observations
        if start.intercept is not None and self.intercept_std is not None:
            state.intercept = observations.layout.arrange(start.intercept) - observations.centre
        if start.factors is None:
            for _ in range(SWEEPS_TO_START):
                self._sample_components(context, state)
            return
        given = observations.layout.arrange(np.asarray(start.factors, dtype=np.float64))
        if self.factors == "half_normal":
            given = np.maximum(given, LEAST_FACTOR * state.values.factor_std)
        given = given[self.prior.kept(np.count_nonzero(start.assignments, axis=0))]
        state.components[: given.shape[0]] = given

    def sweep(self, context: Context, state: UncollapsedGibbsState) -> int:
        """Sample everything once, given the rest; return how many entries of Z changed.

        Told to stop, it leaves the remaining rows of Z as they are.
        """
        n_changed = self._sample_rows(context, state)
        state.statistics = Statistics.from_codes(
            context.observations, state.assignments, context.executor
        )
        self._sample_components(context, state)
        self._measure(context, state)
        self._sample_hyperparameters(context, state)
        return n_changed

    def _sample_rows(self, context: Context, state: UncollapsedGibbsState) -> int:
        """Z given the rest, and the births and deaths of features."""
        observations, values, prior = context.observations, state.values, self.prior
        layout, n_samples = observations.layout, observations.n_samples
        model = RowModel(
            n_samples,
            values.noise_precision,
            values.factor_precision,
            self.factors == "half_normal",
            prior.pseudo_count(values.alpha),
            prior.rate_of_own(values.alpha, n_samples),
        )
        n_spare = SPARE_SLOTS if model.rate_of_own > 0 else 0
        slots = with_spare_slots(state.assignments, layout.restore(state.components), n_spare)
        offset = layout.restore(observations.centre + state.intercept)
        slots, n_changed = sweep_rows(context, offset, slots, model)
        keep = prior.kept(slots.counts)
        state.assignments = np.ascontiguousarray(slots.assignments[:, keep])
        state.components = layout.arrange(slots.factors[keep])
        return n_changed

    def _sample_components(self, context: Context, state: UncollapsedGibbsState) -> None:
        """A and b given the rest."""
        observations, rng = context.observations, context.rng
        values, statistics = state.values, state.statistics
        n_components = statistics.n_components
        precision = np.full(n_components, values.factor_precision)
        present = state.components
        if self.intercept_std is not None:
            statistics = with_intercept(observations, statistics)
            precision = np.append(precision, self.intercept_std**-2.0)
            present = np.concatenate([present, state.intercept[None]])
        if self.factors == "gaussian":
            drawn = draw_gaussian_factors(
                observations, statistics, values.noise_precision, precision, rng
            )
        else:
            by_column = np.ascontiguousarray(present.T)
            sample_factors(
                statistics.gram,
                statistics.cross,
                observations.layout.group_of_position,
                precision,
                values.noise_precision,
                n_components,
                by_column,
                rng,
            )
            drawn = np.ascontiguousarray(by_column.T)
        state.components = drawn[:n_components]
        if self.intercept_std is not None:
            state.intercept = drawn[n_components]

    def _measure(self, context: Context, state: UncollapsedGibbsState) -> None:
        """Sum the squared residuals."""
        state.squared_error = squared_error(
            context.observations,
            state.statistics,
            state.components,
            state.intercept,
            state.assignments,
        )

    def _sample_hyperparameters(self, context: Context, state: UncollapsedGibbsState) -> None:
        """Draw the hyperparameters that are learned, given the rest."""
        beliefs, values = self.hyperparameters, state.values
        observations, rng = context.observations, context.rng
        values.noise_precision = beliefs.noise_precision.draw(
            0.5 * observations.n_observed, 0.5 * state.squared_error, rng
        )
        values.factor_precision = beliefs.factor_precision.draw(
            0.5 * state.components.size, 0.5 * float((state.components**2).sum()), rng
        )
        values.alpha = self.prior.draw_alpha(
            beliefs.alpha, state.statistics.counts, observations.n_samples, values.alpha, rng
        )

    def log_likelihood(self, context: Context, state: UncollapsedGibbsState) -> float:
        """ln p(X | Z, A, b)."""
        tau = state.values.noise_precision
        n = context.observations.n_observed
        return 0.5 * n * float(np.log(tau / (2.0 * np.pi))) - 0.5 * tau * state.squared_error

    def log_joint(self, context: Context, state: UncollapsedGibbsState) -> float:
        """ln p(X, Z, A, b) and of what is learned; factors of unused features are left out.

        Of Z itself in the finite model, of its class of left-ordered form under the process. The
        density of A is in units of the root mean square of X, else which of two samples with
        different numbers of features is the more probable would depend on the unit of X.
        """
        values = state.values
        used = state.components[state.statistics.counts > 0]
        total = self.log_likelihood(context, state) + self.hyperparameters.log_prior(values)
        total += self.prior.log_probability(state.assignments, values.alpha)
        total += log_prior_density(used, values.factor_precision, self.factors)
        total += used.size * context.observations.log_unit
        if self.intercept_std is not None:
            total += log_prior_density(state.intercept, self.intercept_std**-2.0, "gaussian")
        return total

    def train_log_likelihood(self, context: Context, state: UncollapsedGibbsState) -> float:
        """Mean over observed entries of ln N(x; b + z A, noise_std^2)."""
        return self.log_likelihood(context, state) / max(context.observations.n_observed, 1)

    def sample(self, context: Context, state: UncollapsedGibbsState) -> Sample:
        """A copy of what is of interest; unused features are left out."""
        observations, values = context.observations, state.values
        used = state.statistics.counts > 0
        components = observations.layout.restore(state.components[used])
        return Sample(
            assignments=state.assignments[:, used],
            components=components,
            components_std=np.zeros_like(components),
            intercept=observations.layout.restore(observations.centre + state.intercept),
            alpha=values.alpha,
            noise_std=values.noise_std,
            factor_std=values.factor_std,
            log_joint=self.log_joint(context, state),
        )

    def n_components_in_use(self, state: UncollapsedGibbsState) -> int:
        """Features that some row has."""
        return int(np.count_nonzero(state.statistics.counts))


def with_intercept(observations: Observations, statistics: Statistics) -> Statistics:
    """The statistics with one more feature, the last, that every row has."""
    n_groups, n_components = statistics.totals.shape
    gram = np.empty((n_groups, n_components + 1, n_components + 1))
    gram[:, :-1, :-1] = statistics.gram
    gram[:, -1, :-1] = gram[:, :-1, -1] = statistics.totals
    gram[:, -1, -1] = observations.group_rows
    return Statistics(
        gram,
        np.ascontiguousarray(gram[:, -1]),
        np.concatenate([statistics.cross, observations.column_sums[None]]),
        np.append(statistics.counts, observations.n_samples),
    )


def draw_gaussian_factors(
    observations: Observations,
    statistics: Statistics,
    noise_precision: float,
    prior_precision: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """A given Z under Gaussian priors, K x D: the factors of a column together."""
    draws = np.empty_like(statistics.cross)
    for g in range(observations.layout.n_groups):
        columns = slice(observations.layout.group_start[g], observations.layout.group_start[g + 1])
        cross = statistics.cross[:, columns]
        draws[:, columns] = draw_factors(
            statistics.gram[g], cross, noise_precision, prior_precision, rng
        )
    return draws
