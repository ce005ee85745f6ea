"""q of mean-field inference, the bound at it, and the updates that raise the bound.

The equations are in `ibp.methods.mean_field.method`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ibp.data import Layout, Observations
from ibp.methods.context import Context
from ibp.methods.mean_field.sticks import FiniteSticks, InfiniteSticks
from ibp.methods.row_forms import RowForms
from ibp.methods.soft_rows import RowTask, update_rows
from ibp.methods.state import State
from ibp.model import GaussianFactors, Hyperparameters, Intercept, Statistics, squared_error
from ibp.model.statistics import centre_sums, sums_by_column
from ibp.parallel import map_until, ranges

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MeanFieldEvidence:
    """The bound and its parts; that of the factors is -KL(q(A) || p(A))."""

    likelihood: float
    sticks: float
    assignment_entropy: float
    factors: float
    intercept: float
    hyperparameters: float

    @property
    def total(self) -> float:
        """The bound itself."""
        return float(sum(vars(self).values()))


@dataclass
class MeanFieldState(State):
    """All factors of q; those of columns, and the statistics, are in layout order."""

    probabilities: FloatArray  # (N, K), nu
    row_entropy: FloatArray  # (N,), H[q(z_n)]
    statistics: Statistics  # with nu as codes, so that diagonals of the gram are sums of nu^2
    factors: GaussianFactors
    sticks: FiniteSticks | InfiniteSticks
    intercept: Intercept
    hyperparameters: Hyperparameters
    n_sweeps: int = 0  # sweeps so far

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.probabilities.shape[1])

    @property
    def usage(self) -> FloatArray:
        """S, the expected number of rows that have each feature."""
        return np.asarray(self.probabilities.sum(axis=0))

    def offset(self, observations: Observations) -> FloatArray:
        """E[b] in the user's column order, the centre included."""
        return np.asarray(observations.layout.restore(observations.centre + self.intercept.mean))

    def update_rows(self, context: Context) -> int:
        """Update every nu_nk once; return how many crossed one half.

        Given the rest rows are independent, so pieces of them can be updated at the same time. The
        rows that are left when a stop is wanted stay as they are.
        """
        observations, statistics = context.observations, self.statistics
        log_odds, probabilities = self.sticks.log_odds(), self.probabilities
        task = RowTask(observations, self.row_forms(observations), log_odds, probabilities)
        pieces = ranges(observations.n_samples, observations.piece_rows)
        n_changed = 0
        totals, cross = np.zeros_like(statistics.totals), np.zeros_like(statistics.cross)
        for rows, updated in map_until(
            context.should_stop, context.executor, update_rows, task, pieces
        ):
            probabilities[rows], self.row_entropy[rows] = updated.probabilities, updated.entropy
            statistics.gram += updated.gram
            totals += updated.totals
            cross += updated.cross
            n_changed += updated.n_changed
        statistics.totals += totals
        statistics.cross += observations.layout.arrange(cross) - centre_sums(observations, totals)
        return n_changed

    def row_forms(self, observations: Observations) -> RowForms:
        """What the rows have in common under the present q(A), all made for pieces to share."""
        forms = RowForms(
            observations,
            self.factors.mean,
            self.hyperparameters.noise_precision.mean,
            variance=self.factors.variance,
            offset=self.intercept.mean,
        )
        forms.make_all()
        return forms

    def update_factors(self, layout: Layout, *, hold_intercept: bool = False) -> None:
        """Update q(a_k) for one feature after the other, and the intercept with each.

        The intercept, if its means are at their optimum, is kept there: they move by its response
        times the change of a column's sum of residuals. One that is held stays as it is.
        """
        statistics, mean = self.statistics, self.factors.mean
        noise_precision = self.hyperparameters.noise_precision.mean
        self.update_variances(layout)
        step = noise_precision * self.factors.variance
        totals = statistics.totals[layout.group_of_position].T
        own = statistics.own[layout.group_of_position].T
        offset = self.intercept.mean.copy()
        response = 0.0 if hold_intercept else self.intercept.response(noise_precision)
        for k in range(self.n_components):
            explained = sums_by_column(statistics.gram[:, k], layout, mean) - own[k] * mean[k]
            new = step[k] * (statistics.cross[k] - totals[k] * offset - explained)
            offset -= response * totals[k] * (new - mean[k])
            mean[k] = new
        self.intercept = replace(self.intercept, mean=offset)

    def update_variances(self, layout: Layout) -> None:
        """The variances of q(A), which depend on the totals of nu and two precisions only."""
        totals = self.statistics.totals[layout.group_of_position].T
        precision = self.hyperparameters.noise_precision.mean * totals
        self.factors.variance = 1.0 / (precision + self.hyperparameters.factor_precision.mean)

    def update_intercept(self, observations: Observations) -> None:
        """Update q(b)."""
        noise_precision = self.hyperparameters.noise_precision.mean
        self.intercept = self.intercept.updated(
            observations, self.statistics, self.factors.mean, noise_precision
        )

    def update_sticks(self) -> None:
        """Update q(sticks)."""
        n_samples, alpha = self.probabilities.shape[0], self.hyperparameters.alpha.mean
        self.sticks = self.sticks.updated(self.usage, n_samples, alpha)

    def update_hyperparameters(self, observations: Observations) -> None:
        """Update q(tau_X), q(tau_A) and q(alpha); known ones stay."""
        if not self.hyperparameters.learned:
            return
        known = self.hyperparameters
        error = self.error(observations) + self.error_spread(observations)
        squares = float(self.factors.second_moment.sum())
        self.hyperparameters = Hyperparameters(
            known.noise_precision.updated(0.5 * observations.n_observed, 0.5 * error),
            known.factor_precision.updated(0.5 * self.factors.mean.size, 0.5 * squares),
            self.sticks.updated_alpha(known.alpha),
        )

    def error(self, observations: Observations) -> float:
        """Sum over observed entries of (x - E[b] - nu E[A])^2."""
        return squared_error(
            observations,
            self.statistics,
            self.factors.mean,
            self.intercept.mean,
            self.probabilities,
        )

    def error_spread(self, observations: Observations) -> float:
        """By how much E (x - b - z A)^2 is larger: the sum of the variances of b + z A."""
        totals, layout = self.statistics.totals, observations.layout
        of_assignments = np.maximum(totals - self.statistics.own, 0.0)
        return float(
            sums_by_column(of_assignments, layout, self.factors.mean**2).sum()
            + sums_by_column(totals, layout, self.factors.variance).sum()
            + observations.column_counts @ self.intercept.variance
        )

    def evidence(self, observations: Observations, error: float | None = None) -> MeanFieldEvidence:
        """The bound and its parts; ``error`` is that of `error`, if it is known already."""
        noise, prior = self.hyperparameters.noise_precision, self.hyperparameters.factor_precision
        error = self.error(observations) if error is None else error
        expected = error + self.error_spread(observations)
        gaussian = 0.5 * (1.0 + prior.mean_log + np.log(self.factors.variance))
        n_samples, alpha = observations.n_samples, self.hyperparameters.alpha
        return MeanFieldEvidence(
            likelihood=0.5 * observations.n_observed * (noise.mean_log - np.log(2.0 * np.pi))
            - 0.5 * noise.mean * expected,
            sticks=self.sticks.bound(self.usage, n_samples, alpha),
            assignment_entropy=float(self.row_entropy.sum()),
            factors=float((gaussian - 0.5 * prior.mean * self.factors.second_moment).sum()),
            intercept=-self.intercept.divergence(),
            hyperparameters=-self.hyperparameters.divergence(),
        )
