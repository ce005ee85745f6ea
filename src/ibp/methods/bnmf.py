"""BNMF: nonnegative codes and factors by iterated conditional modes.

The model of Schmidt, Winther and Hansen (2009) is X = B A + E with

    b_nk ~ Exponential(code_rate),  a_kd ~ Exponential(factor_rate),
    e_nd ~ N(0, v),  v ~ InverseGamma(shape, rate),

the last being the same as a Gamma(shape, rate) prior of the noise precision 1/v. What climbs, and
is reported as the evidence, is the logarithm of the joint density of X, B, A and v, with all its
constants; S is the squared error over the n observed entries:

    - n/2 ln(2 pi v) - S/(2v) + N K ln code_rate - code_rate sum(B)
    + K D ln factor_rate - factor_rate sum(A)
    + shape ln rate - ln Gamma(shape) - (shape + 1) ln v - rate/v          (if v is learned).

It is a density of v, not of 1/v; the mode would be another. Each update is the exact mode of its
block or coordinate given all else, so the density never falls:

    b_nk = max(0, (X_n a_k' - sum_{j != k} b_nj a_j a_k' - v code_rate) / (a_k a_k')),
    v    = (rate + S/2) / (n/2 + shape + 1),
    a_kd = max(0, (b_k' x_d - sum_{j != k} b_k' b_j a_jd - v factor_rate) / (b_k' b_k)),

sums over what row n or column d observes. In a sweep they come in this order, codes and factors
with ``inner_sweeps`` passes over k. Given A the rows of B are independent, given B the columns of
A: both can be updated in pieces at the same time.

A feature whose factors are all 0 has 0 as the mode of its codes, and the other way round: it is
dead and stays so. It keeps its column, and its part of the prior, but is not counted as in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels.nonnegative_coordinates import descend_rows
from ibp.kernels.row_forms import LEAST_LEFT, Forms, Gaps
from ibp.methods.base import SweepRecord
from ibp.methods.context import Context, never
from ibp.methods.row_forms import RowForms, gaps_of
from ibp.methods.state import State
from ibp.model import Known, Statistics, squared_error
from ibp.model.hyperparameters import Hyperparameter
from ibp.parallel import Executor, map_until, ranges
from ibp.starts.codes_and_factors import CodesAndFactors

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

COLUMNS_AT_ONCE = 256
# A pass that changes no value of a row by more than this part of its largest is the row's last.
ROUNDING = 1e-13
# When rows are brought to their optimum: when to stop.
SETTLED, MOST_PASSES = 1e-9, 1000
# A code has changed if it moved by more than this part of the largest code of its feature.
MOVED = 1e-3


@dataclass
class BNMFState(State):
    """Where a run is.

    Attributes
    ----------
    codes : ndarray of shape (N, K)
        B.
    factors : ndarray of shape (K, D)
        A, columns in layout order.
    noise_variance : float
        v.
    statistics : Statistics
        B'B and B'X of the present codes.
    """

    codes: FloatArray
    factors: FloatArray
    noise_variance: float
    statistics: Statistics

    @property
    def noise_std(self) -> float:
        """The square root of v."""
        return float(np.sqrt(self.noise_variance))

    @property
    def in_use(self) -> npt.NDArray[np.bool_]:
        """Which features have codes and factors that are not all zero."""
        return np.asarray((self.statistics.counts > 0) & self.factors.any(axis=1))

    def squared_error(self, observations: Observations) -> float:
        """S; from sums alone where that is accurate."""
        return squared_error(observations, self.statistics, self.factors, codes=self.codes)


@dataclass(frozen=True)
class Descent:
    """How far each row of codes, or column of factors, is brought in an update.

    Attributes
    ----------
    penalty : float
        v times the rate of the prior.
    n_passes : int
        At most so many passes over the features.
    tolerance : float
        A pass that changes no value by more than this part of the largest is the last.
    """

    penalty: float
    n_passes: int
    tolerance: float


@dataclass(frozen=True)
class BNMFMethod:
    """The method with its settings.

    Attributes
    ----------
    n_components : int
        K, for a random start; a given start has its own.
    noise_precision : Known or GammaPosterior
        1/v: fixed, or where its learning begins, with its prior.
    code_rate, factor_rate : float
        Rates of the exponential priors, positive.
    inner_sweeps : int
        Passes over the features per update of codes, and of factors.
    start : CodesAndFactors or None
        Its negative numbers count as 0 and its intercept does not count; without factors, they are
        the mode given its codes. None draws a start, see `random_start`.
    """

    n_components: int
    noise_precision: Hyperparameter
    code_rate: float = 1.0
    factor_rate: float = 1.0
    inner_sweeps: int = 20
    start: CodesAndFactors | None = None

    climbs: ClassVar[bool] = True

    def init(self, context: Context) -> BNMFState:
        """Take or draw the start."""
        observations = context.observations
        if observations.centre.any():
            raise ValueError("BNMF has no intercept: the observations must not be centred.")
        if self.start is None:
            codes, factors = self.random_start(observations, context.rng)
        else:
            codes, factors = nonnegative_parts(observations, self.start)
        statistics = code_statistics(observations, codes, context.executor)
        state = BNMFState(codes, factors, 1.0 / self.noise_precision.mean, statistics)
        if self.start is not None and self.start.factors is None:
            self.update_factors(context, state, MOST_PASSES, SETTLED)
        return state

    def random_start(
        self, observations: Observations, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Exponential codes and factors whose product has the mean of the data.

        Their scales are those that the priors favour for such a product: both pay the same penalty.
        So a change of the unit of X, with factor_rate and noise in the same unit, changes nothing.
        """
        n, d, k = observations.n_samples, observations.n_features, self.n_components
        product = typical_value(observations) / k
        ratio = (self.factor_rate * d) / (self.code_rate * n)
        codes = rng.standard_exponential((n, k)) * np.sqrt(product * ratio)
        factors = rng.standard_exponential((k, d)) * np.sqrt(product / ratio)
        return codes, factors

    def step(self, context: Context, state: BNMFState) -> SweepRecord:
        """Update the codes, the noise and the factors."""
        n_changed = self.update_codes(context, state, self.inner_sweeps)
        self.update_noise(context.observations, state)
        self.update_factors(context, state, self.inner_sweeps)
        return self.report(context, state, n_changed)

    def update_codes(
        self, context: Context, state: BNMFState, n_passes: int, tolerance: float = ROUNDING
    ) -> int:
        """Update B given A and v, and the statistics; return how many codes changed.

        Real codes nearly always move a little: those count that moved by more than a thousandth of
        the largest code of their feature. Told to stop, it leaves the remaining rows as they are.
        """
        observations, before = context.observations, state.codes
        least = MOVED * before.max(axis=0, initial=0.0)
        descent = Descent(state.noise_variance * self.code_rate, n_passes, tolerance)
        state.codes = descended_codes(
            observations, state.factors, descent, before, context.executor, context.should_stop
        )
        state.statistics = code_statistics(observations, state.codes, context.executor)
        return int(np.count_nonzero(np.abs(state.codes - before) > least))

    def update_noise(self, observations: Observations, state: BNMFState) -> None:
        """Set v to its conditional mode, unless it is known."""
        noise = self.noise_precision
        if isinstance(noise, Known):
            return
        rate = noise.prior_rate + 0.5 * state.squared_error(observations)
        state.noise_variance = rate / (0.5 * observations.n_observed + noise.prior_shape + 1.0)

    def update_factors(
        self, context: Context, state: BNMFState, n_passes: int, tolerance: float = ROUNDING
    ) -> None:
        """Update A given B and v; told to stop, it leaves the remaining columns as they are."""
        task = ColumnTask(
            state.statistics,
            context.observations.layout.group_of_position,
            Descent(state.noise_variance * self.factor_rate, n_passes, tolerance),
            state.factors,
        )
        pieces = ranges(state.factors.shape[1], COLUMNS_AT_ONCE)
        for columns, found in map_until(
            context.should_stop, context.executor, descend_columns, task, pieces
        ):
            state.factors[:, columns] = found.T

    def report(self, context: Context, state: BNMFState, n_changed: int = 0) -> SweepRecord:
        """Evaluate a state; ``n_changed`` counts codes as `update_codes` does."""
        log_likelihood = log_likelihood_of(context.observations, state)
        return SweepRecord(
            evidence=log_likelihood + self.log_prior(state),
            n_components=int(np.count_nonzero(state.in_use)),
            n_changed=n_changed,
            train_log_likelihood=log_likelihood / max(context.observations.n_observed, 1),
        )

    def log_prior(self, state: BNMFState) -> float:
        """Ln of the prior density of the codes, the factors and, if it is learned, v."""
        codes, factors = state.codes, state.factors
        total = codes.size * np.log(self.code_rate) - self.code_rate * codes.sum()
        total += factors.size * np.log(self.factor_rate) - self.factor_rate * factors.sum()
        if not isinstance(self.noise_precision, Known):
            # The density of 1/v, and what the change of variable adds.
            v = state.noise_variance
            total += self.noise_precision.log_prior(1.0 / v) - 2.0 * np.log(v)
        return float(total)


@dataclass(frozen=True)
class FrozenBNMF:
    """What is needed to find the codes of new rows: A, in the user's column order, and v."""

    components: FloatArray
    noise_variance: float
    code_rate: float

    def codes(
        self,
        observations: Observations,
        executor: Executor,
        *,
        should_stop: Callable[[], bool] = never,
    ) -> FloatArray:
        """The most probable codes of each row; every search starts from zeros.

        Told to stop, it leaves the remaining rows at zero.
        """
        factors = observations.layout.arrange(self.components)
        descent = Descent(self.noise_variance * self.code_rate, MOST_PASSES, SETTLED)
        zeros = np.zeros((observations.n_samples, factors.shape[0]))
        with single_threaded_blas():
            return descended_codes(observations, factors, descent, zeros, executor, should_stop)


def typical_value(observations: Observations) -> float:
    """The mean of the observed entries; if that is not positive, their root mean square, or 1."""
    summary = observations.summary
    n_observed = max(observations.n_observed, 1)
    mean = float(summary.counts @ summary.means) / n_observed
    return mean if mean > 0 else float(np.sqrt(observations.sum_of_squares / n_observed)) or 1.0


def nonnegative_parts(
    observations: Observations, start: CodesAndFactors
) -> tuple[FloatArray, FloatArray]:
    """What is above 0 in a start: codes, and factors in layout order, zeros if it has none."""
    codes = np.maximum(np.ascontiguousarray(start.codes, dtype=np.float64), 0.0)
    if start.factors is None:
        return codes, np.zeros((codes.shape[1], observations.n_features))
    return codes, np.maximum(observations.layout.arrange(start.factors.astype(np.float64)), 0.0)


def log_likelihood_of(observations: Observations, state: BNMFState) -> float:
    """Ln N(X; B A, v) over the observed entries."""
    v = state.noise_variance
    return float(
        -0.5 * observations.n_observed * np.log(2.0 * np.pi * v)
        - 0.5 * state.squared_error(observations) / v
    )


class RowTask(NamedTuple):
    """What the updates of rows of codes read.

    Attributes
    ----------
    observations : Observations
        The data.
    forms : RowForms
        A, and A A' over what rows of each shared pattern observe.
    descent : Descent
        How far to go.
    codes : ndarray of shape (N, K)
        B before the update.
    """

    observations: Observations
    forms: RowForms
    descent: Descent
    codes: FloatArray


def descend_codes(task: RowTask, rows: slice) -> FloatArray:
    """New codes of some rows."""
    codes = task.codes[rows].copy()
    products = np.asarray(task.observations.rows(rows) @ task.forms.components.T, dtype=np.float64)
    descend_rows(
        np.ascontiguousarray(products),
        task.descent.penalty,
        task.forms.forms,
        task.forms.columns,
        gaps_of(task.observations, rows),
        task.descent.n_passes,
        task.descent.tolerance,
        codes,
    )
    return codes


def descended_codes(
    observations: Observations,
    factors: FloatArray,
    descent: Descent,
    codes: FloatArray,
    executor: Executor,
    should_stop: Callable[[], bool],
) -> FloatArray:
    """New codes of all rows; those left when a stop is wanted are as they were."""
    new = codes.copy()
    if codes.shape[1] == 0:
        return new
    forms = RowForms(observations, factors, 1.0)
    forms.make_all()
    task = RowTask(observations, forms, descent, codes)
    pieces = ranges(observations.n_samples, observations.piece_rows)
    for rows, found in map_until(should_stop, executor, descend_codes, task, pieces):
        new[rows] = found
    return new


class ColumnTask(NamedTuple):
    """What the updates of columns of factors read: B'B and B'X, the columns' groups, and A."""

    statistics: Statistics
    group: IntArray
    descent: Descent
    factors: FloatArray


def descend_columns(task: ColumnTask, columns: slice) -> FloatArray:
    """New factors of some columns, transposed."""
    factors = np.array(task.factors[:, columns].T, order="C")
    nothing = np.empty(0, dtype=np.int64)
    descend_rows(
        np.ascontiguousarray(task.statistics.cross[:, columns].T),
        task.descent.penalty,
        Forms(1.0, task.statistics.gram, task.statistics.totals),
        None,
        Gaps(task.group[columns], np.zeros(factors.shape[0] + 1, dtype=np.int64), nothing),
        task.descent.n_passes,
        task.descent.tolerance,
        factors,
    )
    return factors


def code_statistics(
    observations: Observations, codes: FloatArray, executor: Executor
) -> Statistics:
    """The statistics of some codes, accurate for every column group.

    B'B of a group is that of all rows less that of those that miss it. Where this leaves too few
    digits of a diagonal entry, so that what should be 0 might not be, it is summed directly.
    """
    statistics = Statistics.from_codes(observations, codes, executor)
    if observations.layout.n_groups == 1:
        return statistics
    least = LEAST_LEFT * np.einsum("nk,nk->k", codes, codes)
    doubtful = np.flatnonzero((statistics.own < least).any(axis=1)).tolist()
    sums = executor.map(observed_gram, (codes, observations.group_gaps), doubtful)
    for group, gram in zip(doubtful, sums, strict=True):
        statistics.gram[group] = gram
    return statistics


def observed_gram(task: tuple[FloatArray, Any], group: int) -> FloatArray:
    """B'B over the rows that observe a column group."""
    codes, group_gaps = task
    first, last = group_gaps.indptr[group : group + 2]
    observed = np.delete(codes, group_gaps.indices[first:last], axis=0)
    return np.asarray(observed.T @ observed)
