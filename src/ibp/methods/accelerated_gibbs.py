"""Collapsed Gibbs sampling of Z, row by row (Doshi-Velez and Ghahramani 2009).

Gaussian factors (and an intercept, if there is one) are integrated out. A sweep samples every row
of Z in O(K^2 + K D), see `ibp.kernels.accelerated_gibbs`, then the hyperparameters that are
learned: alpha given Z, see `ibp.model.assignment_priors`, and with a draw of A | X, Z

    tau_X | A ~ Gamma(a + N D / 2, b + ||X - ZA||^2 / 2),
    tau_A | A ~ Gamma(a + K+ D / 2, b + ||A||^2 / 2);

A is forgotten again. The intercept has a prior of its own and no part in tau_A.

Missing entries are sampled with the rows and belong to X in these draws. What is reported of a
state, its factors and probability, has them integrated out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.accelerated_gibbs import (
    Columns,
    Rows,
    Settings,
    count_rows,
    empty_columns,
    refresh,
    sample_rows,
)
from ibp.methods.chunks import in_chunks
from ibp.methods.sampler import Sampler
from ibp.methods.samples import Chain, Sample
from ibp.model import (
    FactorPosterior,
    Hyperparameters,
    HyperparameterValues,
    Statistics,
    factor_posterior,
)
from ibp.model.assignment_priors import AssignmentPrior
from ibp.model.collapsed import draw_factors
from ibp.parallel import Workers, ranges
from ibp.starts.codes_and_factors import CodesAndFactors

FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.uint8]

# Room for new features at the start; the kernel makes more when it needs more.
SPARE_COLUMNS = 8
# Z'Z and Z'X are kept by adding and subtracting rows; now and then they are summed anew.
SWEEPS_BETWEEN_RECOUNTS = 16
# Of the matrices of all column groups together, for what is reported of a state.
MOST_ENTRIES = 1 << 24


@dataclass(frozen=True)
class Fit:
    """What Z in use and the observed entries say of the factors.

    Attributes
    ----------
    observations : Observations
        X, or X as if it were complete.
    codes : ndarray of shape (N, K+) or, with an intercept, (N, 1 + K+), uint8
        Z without empty columns; an intercept is a first column of ones.
    statistics : Statistics
        Of these codes.
    posterior : FactorPosterior
        Of the factors, in layout order, an intercept (about the centre) first.
    """

    observations: Observations
    codes: CodeArray
    statistics: Statistics
    posterior: FactorPosterior


@dataclass
class AcceleratedGibbsState:
    """Z with what is kept along with it.

    Attributes
    ----------
    observations : Observations
        X.
    rows : Rows
        X as the kernel reads it, with draws of the missing entries; the user's column order.
    columns : Columns
        Z, its sums and the factors' posterior given the draws, with room for more features.
    n_columns : int
        How many there are: an intercept, and the features (in a truncated model all K).
    n_fixed : int
        1 with an intercept, else 0.
    values : HyperparameterValues
        tau_X, tau_A and alpha.
    rng : Generator
        Where all draws come from.
    workers : Workers
        Threads for the sums that are reported; the sampler itself has one.
    chain : Chain
        What is kept.
    n_sweeps : int
        Whole sweeps so far.
    fit : Fit or None
        Of the present state, once someone has asked.
    """

    observations: Observations
    rows: Rows
    columns: Columns
    n_columns: int
    n_fixed: int
    values: HyperparameterValues
    rng: np.random.Generator
    workers: Workers
    chain: Chain
    n_sweeps: int = 0
    fit: Fit | None = None

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """M of all features, empty ones included."""
        own = np.diagonal(self.columns.gram)[self.n_fixed : self.n_columns]
        return own.astype(np.int64)

    @property
    def used(self) -> npt.NDArray[np.int64]:
        """Columns that are not empty, among all: an intercept and the features in use."""
        own = np.diagonal(self.columns.gram)[: self.n_columns]
        return np.flatnonzero(own > 0)

    @property
    def features(self) -> CodeArray:
        """Z with its empty columns, a view."""
        return self.columns.codes[:, self.n_fixed : self.n_columns]

    @property
    def assignments(self) -> CodeArray:
        """Z without empty columns, a copy."""
        return np.ascontiguousarray(self.columns.codes[:, self.used[self.n_fixed :]])


@dataclass(frozen=True)
class AcceleratedGibbsMethod(Sampler[AcceleratedGibbsState]):
    """The sampler with its settings.

    Attributes
    ----------
    hyperparameters : Hyperparameters
        Known values, or priors (their means are the first values).
    prior : UnboundedPrior or FinitePrior
        The Indian Buffet Process, or the truncated (beta-Bernoulli) model with its K.
    intercept_std : float or None
        Spread of the intercept's prior; None for no intercept.
    start : CodesAndFactors or None
        Z to begin with (its factors are not needed), or None for a draw from the prior.
    n_jobs : int
        Threads.
    """

    hyperparameters: Hyperparameters
    prior: AssignmentPrior
    intercept_std: float | None = None
    start: CodesAndFactors | None = None
    n_jobs: int = 1

    @property
    def n_fixed(self) -> int:
        """Columns of ones before the features: 1 with an intercept."""
        return 0 if self.intercept_std is None else 1

    def init(
        self,
        observations: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> AcceleratedGibbsState:
        """Begin with the given Z, or one from the prior, and a draw of the missing entries."""
        if observations.sparse:
            raise TypeError("this sampler needs a dense matrix")
        values = self.hyperparameters.values()
        assignments = self.first_assignments(observations.n_samples, values.alpha, rng)
        n_columns = self.n_fixed + assignments.shape[1]
        columns = empty_columns(
            observations.n_samples, observations.n_features, n_columns + SPARE_COLUMNS
        )
        columns.codes[:, : self.n_fixed] = 1
        columns.codes[:, self.n_fixed : n_columns] = assignments
        state = AcceleratedGibbsState(
            observations,
            rows_of(observations),
            columns,
            n_columns,
            self.n_fixed,
            values,
            rng,
            Workers(self.n_jobs),
            Chain(self.burn_in, self.thin),
        )
        count_rows(state.rows, columns, n_columns)
        if not observations.complete:
            self.fill_missing(state)
            count_rows(state.rows, columns, n_columns)
        refresh(columns, n_columns, self.kernel_settings(state))
        return state

    def first_assignments(
        self, n_samples: int, alpha: float, rng: np.random.Generator
    ) -> CodeArray:
        """Z to begin with: without empty columns or, in a truncated model, with all K."""
        if self.start is None:
            return self.prior.draw(alpha, n_samples, rng)
        return self.prior.fitted_to(self.start.assignments)

    def kernel_settings(self, state: AcceleratedGibbsState) -> Settings:
        """The present hyperparameters as the kernel needs them."""
        values = state.values
        return Settings(
            self.n_fixed,
            1.0 / values.noise_precision,
            1.0 / values.factor_precision,
            1.0 if self.intercept_std is None else float(self.intercept_std) ** 2,
            self.prior.pseudo_count(values.alpha),
            self.prior.rate_of_own(values.alpha, state.observations.n_samples),
        )

    def prior_precision(self, state: AcceleratedGibbsState, n_columns: int) -> FloatArray:
        """Of an intercept and so many features less one, or of so many features."""
        precision = np.full(n_columns, state.values.factor_precision)
        if self.intercept_std is not None:
            precision[0] = self.intercept_std**-2.0
        return precision

    def fill_missing(self, state: AcceleratedGibbsState) -> None:
        """Draw missing entries given the factors that are expected from what is observed."""
        fit = self.fitted(state)
        mean = state.observations.from_layout(fit.posterior.mean)
        rows = state.rows
        n_missing = np.diff(rows.missing_start)
        for piece in ranges(state.observations.n_samples, state.observations.piece_rows):
            predicted = fit.codes[piece].astype(np.float64) @ mean
            row = np.repeat(np.arange(predicted.shape[0]), n_missing[piece])
            entries = slice(rows.missing_start[piece.start], rows.missing_start[piece.stop])
            noise = state.rng.standard_normal(row.size) * state.values.noise_std
            rows.missing_value[entries] = predicted[row, rows.missing_column[entries]] + noise

    def sweep(self, state: AcceleratedGibbsState, should_stop: Callable[[], bool]) -> int:
        """Every row of Z, then the hyperparameters; told to stop, only the rows so far."""
        settings = self.kernel_settings(state)
        n_samples = state.observations.n_samples
        n_changed = 0

        def sample_some(first: int, last: int) -> int:
            nonlocal n_changed
            state.columns, state.n_columns, changed = sample_rows(
                first, last, state.rows, state.columns, state.n_columns, settings, state.rng
            )
            n_changed += changed
            return last

        reached = in_chunks(n_samples, sample_some, should_stop)
        if reached == n_samples:
            state.n_sweeps += 1
            if state.n_sweeps % SWEEPS_BETWEEN_RECOUNTS == 0:
                count_rows(state.rows, state.columns, state.n_columns)
            self.sample_hyperparameters(state)
            refresh(state.columns, state.n_columns, self.kernel_settings(state))
        state.fit = None
        return n_changed

    def sample_hyperparameters(self, state: AcceleratedGibbsState) -> None:
        """Alpha given Z, and both precisions given a draw of the factors; what is known stays."""
        hyper, values, rng = self.hyperparameters, state.values, state.rng
        if not hyper.learned:
            return
        observations = state.observations
        values.alpha = self.prior.draw_alpha(
            hyper.alpha, state.counts, observations.n_samples, values.alpha, rng
        )
        used = state.used
        gram, cross = state.columns.gram[np.ix_(used, used)], state.columns.cross[used]
        precision = self.prior_precision(state, used.size)
        factors = draw_factors(gram, cross, values.noise_precision, precision, rng)
        own = factors[self.n_fixed :]
        squares = observations.sum_of_squares + float((state.rows.missing_value**2).sum())
        error = max(squares + float((factors * (gram @ factors - 2.0 * cross)).sum()), 0.0)
        n_entries = observations.n_samples * observations.n_features
        values.noise_precision = hyper.noise_precision.draw(0.5 * n_entries, 0.5 * error, rng)
        values.factor_precision = hyper.factor_precision.draw(
            0.5 * own.size, 0.5 * float((own**2).sum()), rng
        )

    def fitted(self, state: AcceleratedGibbsState) -> Fit:
        """The factors' posterior given Z and the observed entries.

        From the sums at hand if nothing is missing; else by a pass over X, and with one inversion
        for each pattern of missing rows that columns have. If that were too many for the features
        that there are, missing entries count as they are drawn.
        """
        if state.fit is None:
            observations, used = state.observations, state.used
            codes = np.ascontiguousarray(state.columns.codes[:, used])
            if observations.n_groups * used.size**2 > MOST_ENTRIES:
                observations = as_if_complete(observations, state.rows.missing_value)
            if observations.n_groups == 1:
                gram = state.columns.gram[np.ix_(used, used)]
                statistics = Statistics(
                    gram[None],
                    np.diagonal(gram)[None].copy(),
                    observations.to_layout(state.columns.cross[used]),
                    np.diagonal(gram).astype(np.int64),
                )
            else:
                statistics = Statistics.from_codes(observations, codes, state.workers)
            posterior = factor_posterior(
                observations,
                statistics,
                state.values.noise_precision,
                self.prior_precision(state, used.size),
            )
            state.fit = Fit(observations, codes, statistics, posterior)
        return state.fit

    def log_joint(self, state: AcceleratedGibbsState) -> float:
        """Ln P(Z) p(X | Z) p(hyperparameters), X being what is observed.

        P is that of Z itself in a truncated model, and of its left-ordered form under the process.
        """
        return (
            self.fitted(state).posterior.log_likelihood
            + self.prior.log_probability(state.features, state.values.alpha)
            + self.hyperparameters.log_prior(state.values)
        )

    def train_log_likelihood(self, state: AcceleratedGibbsState) -> float:
        """Mean over observed entries of ln N(x; z E[A | X, Z], noise_std^2)."""
        fit, tau = self.fitted(state), state.values.noise_precision
        observations = fit.observations
        mean, statistics = fit.posterior.mean, fit.statistics
        explained = 2.0 * statistics.cross - statistics.gram_times(observations, mean)
        error = max(observations.sum_of_squares - float((mean * explained).sum()), 0.0)
        n_observed = max(observations.n_observed, 1)
        return 0.5 * float(np.log(tau / (2.0 * np.pi))) - 0.5 * tau * error / n_observed

    def sample(self, state: AcceleratedGibbsState) -> Sample:
        """Z, and the mean and spread of the factors given it and the observed entries."""
        observations, fit = state.observations, self.fitted(state)
        mean = observations.from_layout(fit.posterior.mean)
        deviation = observations.from_layout(np.sqrt(fit.posterior.variance(fit.observations)))
        intercept = observations.from_layout(observations.centre)
        if self.n_fixed:
            intercept = intercept + mean[0]
        return Sample(
            np.ascontiguousarray(fit.codes[:, self.n_fixed :]),
            mean[self.n_fixed :].copy(),
            deviation[self.n_fixed :].copy(),
            intercept,
            state.values.alpha,
            state.values.noise_std,
            state.values.factor_std,
            self.log_joint(state),
        )

    def n_components_in_use(self, state: AcceleratedGibbsState) -> int:
        """Features that some row has."""
        return int(state.used.size) - self.n_fixed


def as_if_complete(observations: Observations, missing_value: FloatArray) -> Observations:
    """X with its missing entries, about the centre, as they are drawn: sums and sizes only."""
    n, d = observations.n_samples, observations.n_features
    summary = replace(
        observations.summary,
        counts=np.full(d, n, dtype=np.int64),
        column_group=np.zeros(d, dtype=np.int64),
    )
    return replace(
        observations,
        summary=summary,
        group_start=np.array([0, d], dtype=np.int64),
        group_rows=np.array([n], dtype=np.int64),
        sum_of_squares=observations.sum_of_squares + float((missing_value**2).sum()),
    )


def rows_of(observations: Observations) -> Rows:
    """X as the kernel reads it: not copied, but for room for the missing entries."""
    values: Any = observations.values
    n_missing = np.zeros(observations.n_samples, dtype=np.int64)
    missing = [np.zeros(0, dtype=np.int32)]
    if not observations.complete:
        for piece in ranges(observations.n_samples, observations.piece_rows):
            row, column = np.nonzero(np.isnan(values[piece]))
            n_missing[piece] = np.bincount(row, minlength=piece.stop - piece.start)
            missing.append(column.astype(np.int32))
    columns = np.concatenate(missing)
    return Rows(
        values,
        observations.from_layout(observations.centre),
        np.concatenate([[0], np.cumsum(n_missing)]).astype(np.int64),
        columns,
        np.zeros(columns.size),
    )
