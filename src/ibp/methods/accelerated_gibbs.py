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

from dataclasses import dataclass, replace

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
from ibp.methods.context import Context
from ibp.methods.sampler import CodeArray, Sampler, SamplerState
from ibp.methods.samples import Chain, Sample
from ibp.model import FactorPosterior, Statistics, factor_posterior
from ibp.model.collapsed import draw_factors
from ibp.parallel import ranges

FloatArray = npt.NDArray[np.float64]

# Room for new features at the start; the kernel makes more when it needs more.
SPARE_COLUMNS = 8
# Z'Z and Z'X are kept by adding and subtracting rows; now and then they are summed anew.
SWEEPS_BETWEEN_RECOUNTS = 16
# Of the matrices of all column groups together, for what is reported of a state.
MOST_ENTRIES = 1 << 24


@dataclass(frozen=True)
class Fit:
    """What Z in use and the observed entries say of the factors; an intercept comes first."""

    codes: CodeArray  # Z without empty columns; an intercept is a first column of ones
    statistics: Statistics  # of these codes
    posterior: FactorPosterior  # of the factors, in layout order, an intercept about the centre


@dataclass
class AcceleratedGibbsState(SamplerState):
    """Z with what is kept along with it; columns are in the user's order."""

    columns: Columns  # Z, its sums and the factors' posterior given the draws, with room to grow
    n_columns: int  # how many there are: an intercept, and the features (if K is given, all K)
    n_fixed: int  # 1 with an intercept, else 0
    # The present draws about the centre, in the order of `Observations.missing_columns`.
    missing_value: FloatArray
    n_sweeps: int = 0  # whole sweeps so far
    fit: Fit | None = None  # of the present state, once someone has asked

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
    """The sampler with its settings; of a start it needs Z only."""

    @property
    def n_fixed(self) -> int:
        """Columns of ones before the features: 1 with an intercept."""
        return 0 if self.intercept_std is None else 1

    def init(self, context: Context) -> AcceleratedGibbsState:
        """Begin with the given Z, or one from the prior, and a draw of the missing entries."""
        observations = context.observations
        if observations.sparse:
            raise TypeError("this sampler needs a dense matrix")
        values = self.hyperparameters.values()
        assignments = self.first_assignments(values, context)
        n_columns = self.n_fixed + assignments.shape[1]
        columns = empty_columns(
            observations.n_samples, observations.n_features, n_columns + SPARE_COLUMNS
        )
        columns.codes[:, : self.n_fixed] = 1
        columns.codes[:, self.n_fixed : n_columns] = assignments
        missing_value = np.zeros(observations.missing_columns[1].size)
        state = AcceleratedGibbsState(
            values, Chain(), columns, n_columns, self.n_fixed, missing_value
        )
        recount(observations, state)
        if not observations.complete:
            self.fill_missing(context, state)
            recount(observations, state)
        refresh(columns, n_columns, self.kernel_settings(state))
        return state

    def kernel_settings(self, state: AcceleratedGibbsState) -> Settings:
        """The present hyperparameters as the kernel needs them."""
        values = state.values
        return Settings(
            self.n_fixed,
            1.0 / values.noise_precision,
            1.0 / values.factor_precision,
            1.0 if self.intercept_std is None else float(self.intercept_std) ** 2,
            self.prior.pseudo_count(values.alpha),
            self.prior.rate_of_own(values.alpha, state.columns.codes.shape[0]),
        )

    def prior_precision(self, state: AcceleratedGibbsState, n_columns: int) -> FloatArray:
        """Prior precisions of the first columns, an intercept among them if there is one."""
        precision = np.full(n_columns, state.values.factor_precision)
        if self.intercept_std is not None:
            precision[0] = self.intercept_std**-2.0
        return precision

    def fill_missing(self, context: Context, state: AcceleratedGibbsState) -> None:
        """Draw missing entries given the factors that are expected from what is observed."""
        observations, fit = context.observations, self.fitted(context, state)
        mean = observations.layout.restore(fit.posterior.mean)
        start, column = observations.missing_columns
        n_missing = np.diff(start)
        for piece in ranges(observations.n_samples, observations.piece_rows):
            predicted = fit.codes[piece].astype(np.float64) @ mean
            row = np.repeat(np.arange(predicted.shape[0]), n_missing[piece])
            entries = slice(start[piece.start], start[piece.stop])
            noise = context.rng.standard_normal(row.size) * state.values.noise_std
            state.missing_value[entries] = predicted[row, column[entries]] + noise

    def sweep(self, context: Context, state: AcceleratedGibbsState) -> int:
        """Every row of Z, then the hyperparameters; told to stop, only the rows so far."""
        observations, settings = context.observations, self.kernel_settings(state)
        n_samples = observations.n_samples
        n_changed = 0

        def sample_some(first: int, last: int) -> int:
            nonlocal n_changed
            rows = rows_of(observations, slice(first, last), state.missing_value)
            state.columns, state.n_columns, changed = sample_rows(
                rows, state.columns, state.n_columns, settings, context.rng
            )
            n_changed += changed
            return last

        reached = in_chunks(n_samples, sample_some, context.should_stop)
        if reached == n_samples:
            state.n_sweeps += 1
            if state.n_sweeps % SWEEPS_BETWEEN_RECOUNTS == 0:
                recount(observations, state)
            self.sample_hyperparameters(context, state)
            refresh(state.columns, state.n_columns, self.kernel_settings(state))
        state.fit = None
        return n_changed

    def sample_hyperparameters(self, context: Context, state: AcceleratedGibbsState) -> None:
        """Alpha given Z, and both precisions given a draw of the factors; what is known stays."""
        hyper, values = self.hyperparameters, state.values
        if not hyper.learned:
            return
        observations, rng = context.observations, context.rng
        values.alpha = self.prior.draw_alpha(
            hyper.alpha, state.counts, observations.n_samples, values.alpha, rng
        )
        used = state.used
        gram, cross = state.columns.gram[np.ix_(used, used)], state.columns.cross[used]
        precision = self.prior_precision(state, used.size)
        factors = draw_factors(gram, cross, values.noise_precision, precision, rng)
        own = factors[self.n_fixed :]
        squares = observations.sum_of_squares + float((state.missing_value**2).sum())
        error = max(squares + float((factors * (gram @ factors - 2.0 * cross)).sum()), 0.0)
        n_entries = observations.n_samples * observations.n_features
        values.noise_precision = hyper.noise_precision.draw(0.5 * n_entries, 0.5 * error, rng)
        values.factor_precision = hyper.factor_precision.draw(
            0.5 * own.size, 0.5 * float((own**2).sum()), rng
        )

    def reported_observations(self, context: Context, state: AcceleratedGibbsState) -> Observations:
        """X as `fitted` sees it: if there are too many patterns, as if it were complete."""
        observations = context.observations
        if observations.layout.n_groups * state.used.size**2 > MOST_ENTRIES:
            return as_if_complete(observations, state.missing_value)
        return observations

    def fitted(self, context: Context, state: AcceleratedGibbsState) -> Fit:
        """The factors' posterior given Z and the observed entries.

        From the sums at hand if nothing is missing; else by a pass over X, and with one inversion
        for each pattern of missing rows that columns have. If that were too many for the features
        that there are, missing entries count as they are drawn.
        """
        if state.fit is None:
            observations, used = self.reported_observations(context, state), state.used
            codes = np.ascontiguousarray(state.columns.codes[:, used])
            if observations.layout.n_groups == 1:
                gram = state.columns.gram[np.ix_(used, used)]
                statistics = Statistics(
                    gram[None],
                    np.diagonal(gram)[None].copy(),
                    observations.layout.arrange(state.columns.cross[used]),
                    np.diagonal(gram).astype(np.int64),
                )
            else:
                statistics = Statistics.from_codes(observations, codes, context.executor)
            posterior = factor_posterior(
                observations,
                statistics,
                state.values.noise_precision,
                self.prior_precision(state, used.size),
            )
            state.fit = Fit(codes, statistics, posterior)
        return state.fit

    def log_joint(self, context: Context, state: AcceleratedGibbsState) -> float:
        """Ln P(Z) p(X | Z) p(hyperparameters), X being what is observed.

        P is that of Z itself in a truncated model, and of its left-ordered form under the process.
        """
        return (
            self.fitted(context, state).posterior.log_likelihood
            + self.prior.log_probability(state.features, state.values.alpha)
            + self.hyperparameters.log_prior(state.values)
        )

    def train_log_likelihood(self, context: Context, state: AcceleratedGibbsState) -> float:
        """Mean over observed entries of ln N(x; z E[A | X, Z], noise_std^2)."""
        fit, tau = self.fitted(context, state), state.values.noise_precision
        observations = self.reported_observations(context, state)
        mean, statistics = fit.posterior.mean, fit.statistics
        explained = 2.0 * statistics.cross - statistics.gram_times(observations.layout, mean)
        error = max(observations.sum_of_squares - float((mean * explained).sum()), 0.0)
        n_observed = max(observations.n_observed, 1)
        return 0.5 * float(np.log(tau / (2.0 * np.pi))) - 0.5 * tau * error / n_observed

    def sample(self, context: Context, state: AcceleratedGibbsState) -> Sample:
        """Z, and the mean and spread of the factors given it and the observed entries."""
        observations, fit = context.observations, self.fitted(context, state)
        mean = observations.layout.restore(fit.posterior.mean)
        variance = fit.posterior.variance(self.reported_observations(context, state))
        deviation = observations.layout.restore(np.sqrt(variance))
        intercept = observations.layout.restore(observations.centre)
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
            self.log_joint(context, state),
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
        layout=replace(observations.layout, group_start=np.array([0, d], dtype=np.int64)),
        group_rows=np.array([n], dtype=np.int64),
        sum_of_squares=observations.sum_of_squares + float((missing_value**2).sum()),
    )


def rows_of(observations: Observations, rows: slice, missing_value: FloatArray) -> Rows:
    """Some rows as the kernel reads them."""
    centre = observations.layout.restore(observations.centre)
    block = observations.source.rows(rows)
    return Rows(rows.start, block, centre, *observations.missing_columns, missing_value)


def recount(observations: Observations, state: AcceleratedGibbsState) -> None:
    """Sum Z'Z and Z'X anew."""
    n = state.n_columns
    state.columns.gram[:n, :n] = 0.0
    state.columns.cross[:n] = 0.0
    for rows in ranges(observations.n_samples, observations.piece_rows):
        count_rows(rows_of(observations, rows, state.missing_value), state.columns, n)
