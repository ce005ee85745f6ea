"""Mean-field variational inference for binary features with Gaussian factors.

    q = prod_nk Bernoulli(z_nk; nu_nk)  prod_kd N(a_kd; mean_kd, variance_kd)
        x q(sticks) q(b) q(tau_X) q(tau_A) q(alpha)

What the finite and the infinite model have in common (Doshi-Velez, Miller, Van Gael and Teh 2009):

    logit nu_nk = theta_k + E[tau_X] sum_d { E[a_kd] (x_nd - E[b_d] - sum over j != k of
                  nu_nj E[a_jd]) - E[a_kd^2] / 2 }
    1 / variance_kd = E[tau_A] + E[tau_X] sum_n nu_nk
    mean_kd = variance_kd E[tau_X] sum_n nu_nk (x_nd - E[b_d] - sum over j != k of nu_nj E[a_jd])

with sums over observed entries. The models differ in their sticks, which give theta_k and a part of
the bound (`ibp.methods.mean_field.sticks`). A sweep updates each factor of q in turn, so the bound
never falls. Rows need X once; everything else needs its sufficient statistics with nu.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from ibp.methods.base import SweepRecord
from ibp.methods.context import Context
from ibp.methods.mean_field.state import MeanFieldState
from ibp.methods.mean_field.sticks import FiniteSticks, InfiniteSticks
from ibp.model import GaussianFactors, Hyperparameters, Statistics, first_intercept
from ibp.starts.codes_and_factors import CodesAndFactors

FloatArray = npt.NDArray[np.float64]

# Probabilities of a given start are kept so far from 0 and 1, for the data to have their say.
DOUBT = 0.01
# Updates of q(A), one feature after the other, that bring it near its optimum for given codes.
PASSES_TO_START = 20
# Statistics are kept by adding changes; now and then they are summed anew, against rounding.
SWEEPS_BETWEEN_RECOUNTS = 16


@dataclass(frozen=True)
class MeanFieldMethod:
    """A method with its settings."""

    n_components: int  # K, of a random start; a given start has its own
    hyperparameters: Hyperparameters  # known values, or posteriors to begin with
    # None draws every nu_nk from the uniform distribution on [0, 1) and takes q(A) from one update.
    # Given codes are kept away from 0 and 1; given factors are the first means of q(A), and else
    # follow from the codes.
    start: CodesAndFactors | None = None
    intercept_std: float | None = None  # spread of the intercept's prior; None for no intercept

    climbs: ClassVar[bool] = True
    sticks: ClassVar[type[FiniteSticks] | type[InfiniteSticks]]

    def init(self, context: Context) -> MeanFieldState:
        """Draw or take the start, and fit the other factors of q to it."""
        observations, start = context.observations, self.start
        if start is None:
            shape = (observations.n_samples, self.n_components)
            start = CodesAndFactors(context.rng.random(shape))
            probabilities = start.codes
        else:
            probabilities = np.clip(start.codes, DOUBT, 1.0 - DOUBT).astype(np.float64)
        shape = (start.n_components, observations.n_features)
        noise_precision = self.hyperparameters.noise_precision.mean
        state = MeanFieldState(
            np.ascontiguousarray(probabilities),
            entropies(probabilities),
            Statistics.from_codes(observations, probabilities, context.executor),
            GaussianFactors(np.zeros(shape), np.zeros(shape)),
            self.sticks.of_prior(start.n_components, self.hyperparameters.alpha.mean),
            first_intercept(observations, self.intercept_std, noise_precision, start.intercept),
            self.hyperparameters,
        )
        if start.factors is None:
            for _ in range(1 if self.start is None else PASSES_TO_START):
                state.update_factors(
                    observations.layout, hold_intercept=start.intercept is not None
                )
        else:
            state.factors.mean = observations.layout.arrange(start.factors).astype(np.float64)
            state.update_variances(observations.layout)
        if start.intercept is None:
            state.update_intercept(observations)
        state.update_sticks()
        return state

    def step(self, context: Context, state: MeanFieldState) -> SweepRecord:
        """One sweep: rows, intercept and factors, sticks, hyperparameters."""
        observations = context.observations
        n_changed = state.update_rows(context)
        state.n_sweeps += 1
        if state.n_sweeps % SWEEPS_BETWEEN_RECOUNTS == 0:
            state.statistics = Statistics.from_codes(
                observations, state.probabilities, context.executor
            )
        state.update_intercept(observations)
        state.update_factors(observations.layout)
        state.update_sticks()
        state.update_hyperparameters(observations)
        return self.report(context, state, n_changed)

    def report(self, context: Context, state: MeanFieldState, n_changed: int = 0) -> SweepRecord:
        """The bound and the training likelihood of a state."""
        observations = context.observations
        error = state.error(observations)
        precision = state.hyperparameters.noise_precision.mean
        return SweepRecord(
            evidence=state.evidence(observations, error).total,
            n_components=state.n_components,
            n_changed=n_changed,
            train_log_likelihood=0.5 * float(np.log(precision / (2.0 * np.pi)))
            - 0.5 * precision * error / max(observations.n_observed, 1),
        )


class FiniteVIBPMethod(MeanFieldMethod):
    """Inference in the finite model (f-VIBP)."""

    sticks = FiniteSticks


class InfiniteVIBPMethod(MeanFieldMethod):
    """Inference in the infinite model, truncated at ``n_components`` sticks (i-VIBP)."""

    sticks = InfiniteSticks


def entropies(probabilities: FloatArray) -> FloatArray:
    """H[q(z_n)] of each row."""
    return np.asarray((entr(probabilities) + entr(1.0 - probabilities)).sum(axis=1))
