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
A: both are shared among threads in fixed pieces.

A feature whose factors are all 0 has 0 as the mode of its codes, and the other way round: it is
dead and stays so. It keeps its column, and its part of the prior, but is not counted as in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.kernels.nonnegative_coordinates import descend_rows
from ibp.methods.base import StepReport
from ibp.methods.row_forms import SharedPatterns, own_missing
from ibp.model import GaussianFactors, Known, NoIntercept, Statistics, squared_error
from ibp.model.hyperparameters import Hyperparameter
from ibp.parallel import Workers, ranges
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
class BNMFState:
    """Where a run is.

    Attributes
    ----------
    observations : Observations
        The data, about 0.
    codes : ndarray of shape (N, K)
        B.
    factors : ndarray of shape (K, D)
        A, columns in layout order; `components` has them in the user's.
    noise_variance : float
        v.
    statistics : Statistics
        B'B and B'X of the present codes.
    patterns : SharedPatterns
        Which rows share A A'.
    missing_groups : CSC array of shape (N, G) or None
        1 where a row misses a column group; None if there is one group only.
    workers : Workers
        Threads.
    """

    observations: Observations
    codes: FloatArray
    factors: FloatArray
    noise_variance: float
    statistics: Statistics
    patterns: SharedPatterns
    missing_groups: Any
    workers: Workers

    @classmethod
    def from_parts(
        cls,
        observations: Observations,
        codes: FloatArray,
        factors: FloatArray,
        noise_variance: float,
        workers: Workers,
    ) -> BNMFState:
        """Count what is to be counted once."""
        missing_groups = None
        if observations.n_groups > 1:
            everything = slice(0, observations.n_samples)
            missing_groups = sparse.csc_array(observations.missing_groups(everything))
        return cls(
            observations,
            codes,
            factors,
            noise_variance,
            code_statistics(observations, codes, missing_groups, workers),
            SharedPatterns.of(observations),
            missing_groups,
            workers,
        )

    @property
    def components(self) -> FloatArray:
        """A in the user's column order."""
        return self.observations.from_layout(self.factors)

    @property
    def noise_std(self) -> float:
        """The square root of v."""
        return float(np.sqrt(self.noise_variance))

    @property
    def in_use(self) -> npt.NDArray[np.bool_]:
        """Which features have codes and factors that are not all zero."""
        return np.asarray((self.statistics.counts > 0) & self.factors.any(axis=1))

    def squared_error(self) -> float:
        """S; from sums alone where that is accurate."""
        return squared_error(
            self.observations,
            self.statistics,
            GaussianFactors(self.factors, np.zeros_like(self.factors)),
            NoIntercept.of_width(self.observations.n_features),
            expected=False,
            codes=self.codes,
        )

    def refresh_statistics(self) -> None:
        """Make the statistics of the present codes."""
        self.statistics = code_statistics(
            self.observations, self.codes, self.missing_groups, self.workers
        )


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
    n_jobs : int
        Threads.
    """

    n_components: int
    noise_precision: Hyperparameter
    code_rate: float = 1.0
    factor_rate: float = 1.0
    inner_sweeps: int = 20
    start: CodesAndFactors | None = None
    n_jobs: int = 1

    climbs: ClassVar[bool] = True

    def init(
        self,
        observations: Observations,
        rng: np.random.Generator,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> BNMFState:
        """Take or draw the start."""
        if observations.centre.any():
            raise ValueError("BNMF has no intercept: the observations must not be centred.")
        if self.start is None:
            codes, factors = self.random_start(observations, rng)
        else:
            codes, factors = nonnegative_parts(observations, self.start)
        variance, workers = 1.0 / self.noise_precision.mean, Workers(self.n_jobs)
        state = BNMFState.from_parts(observations, codes, factors, variance, workers)
        if self.start is not None and self.start.factors is None:
            update_factors(state, self.factor_rate, MOST_PASSES, SETTLED, should_stop)
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

    def step(self, state: BNMFState, should_stop: Callable[[], bool]) -> StepReport:
        """Update the codes, the noise and the factors."""
        n_changed = update_codes(state, self.code_rate, self.inner_sweeps, ROUNDING, should_stop)
        self.update_noise(state)
        update_factors(state, self.factor_rate, self.inner_sweeps, ROUNDING, should_stop)
        return self.report(state, n_changed)

    def update_noise(self, state: BNMFState) -> None:
        """Set v to its conditional mode, unless it is known."""
        noise = self.noise_precision
        if isinstance(noise, Known):
            return
        rate = noise.prior_rate + 0.5 * state.squared_error()
        state.noise_variance = rate / (
            0.5 * state.observations.n_observed + noise.prior_shape + 1.0
        )

    def report(self, state: BNMFState, n_changed: int = 0) -> StepReport:
        """Evaluate a state; ``n_changed`` counts codes as `update_codes` does."""
        log_likelihood = log_likelihood_of(state)
        return StepReport(
            evidence=log_likelihood + self.log_prior(state),
            n_components=int(np.count_nonzero(state.in_use)),
            n_changed=n_changed,
            train_log_likelihood=log_likelihood / max(state.observations.n_observed, 1),
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
        workers: Workers,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """The most probable codes of each row; every search starts from zeros.

        Told to stop, it leaves the remaining rows at zero.
        """
        codes = np.zeros((observations.n_samples, self.components.shape[0]))
        with single_threaded_blas():
            descend_codes(
                observations,
                SharedPatterns.of(observations),
                observations.to_layout(self.components),
                self.noise_variance * self.code_rate,
                MOST_PASSES,
                SETTLED,
                codes,
                workers,
                should_stop,
            )
        return codes


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
    return codes, np.maximum(observations.to_layout(start.factors.astype(np.float64)), 0.0)


def log_likelihood_of(state: BNMFState) -> float:
    """Ln N(X; B A, v) over the observed entries."""
    v = state.noise_variance
    return float(
        -0.5 * state.observations.n_observed * np.log(2.0 * np.pi * v)
        - 0.5 * state.squared_error() / v
    )


def update_codes(
    state: BNMFState,
    code_rate: float,
    n_passes: int,
    tolerance: float,
    should_stop: Callable[[], bool],
) -> int:
    """Update B given A and v, and the statistics; return how many codes changed.

    Real codes nearly always move a little: those count that moved by more than a thousandth of the
    largest code of their feature. Told to stop, it leaves the remaining rows as they are.
    """
    least = MOVED * state.codes.max(axis=0, initial=0.0)
    n_changed = descend_codes(
        state.observations,
        state.patterns,
        state.factors,
        state.noise_variance * code_rate,
        n_passes,
        tolerance,
        state.codes,
        state.workers,
        should_stop,
        least,
    )
    state.refresh_statistics()
    return n_changed


def descend_codes(
    observations: Observations,
    patterns: SharedPatterns,
    factors: FloatArray,
    penalty: float,
    n_passes: int,
    tolerance: float,
    codes: FloatArray,
    workers: Workers,
    should_stop: Callable[[], bool],
    least: FloatArray | float = 0.0,
) -> int:
    """Descend in every row of ``codes``, in place; return how many moved by more than ``least``."""
    if codes.shape[1] == 0:
        return 0
    components = observations.from_layout(factors).astype(observations.dtype)
    grams = factor_grams(patterns, factors, workers)
    by_position = np.ascontiguousarray(factors.T)

    def descend_piece(rows: slice) -> int:
        if should_stop():
            return 0
        products = np.asarray(observations.rows(rows) @ components.T, dtype=np.float64)
        form_of_row = patterns.forms_of(observations.row_pattern[rows])
        before = codes[rows].copy()
        descend_rows(
            np.ascontiguousarray(products),
            penalty,
            form_of_row,
            grams,
            *own_missing(observations, rows, form_of_row),
            by_position,
            n_passes,
            tolerance,
            codes[rows],
        )
        return int(np.count_nonzero(np.abs(codes[rows] - before) > least))

    return sum(workers.map(descend_piece, ranges(observations.n_samples, observations.piece_rows)))


def factor_grams(patterns: SharedPatterns, factors: FloatArray, workers: Workers) -> FloatArray:
    """A A' over what rows of each shared pattern observe, shape (F, K, K)."""
    complete = factors @ factors.T
    grams = workers.map(
        lambda missing: gram_without(complete, factors, missing), patterns.missing[1:]
    )
    return np.stack([complete, *grams])


def gram_without(complete: FloatArray, factors: FloatArray, missing: IntArray) -> FloatArray:
    """A A' without some columns: by subtraction if these are few and enough digits are left."""
    if 2 * missing.size <= factors.shape[1]:
        part = factors[:, missing]
        gram = complete - part @ part.T
        if (gram.diagonal() >= LEAST_LEFT * complete.diagonal()).all():
            return np.asarray(gram)
    part = np.delete(factors, missing, axis=1)
    return np.asarray(part @ part.T)


def update_factors(
    state: BNMFState,
    factor_rate: float,
    n_passes: int,
    tolerance: float,
    should_stop: Callable[[], bool],
) -> None:
    """Update A given B and v; told to stop, it leaves the remaining columns as they are."""
    if state.factors.shape[0] == 0:
        return
    penalty = state.noise_variance * factor_rate
    group = state.observations.group_of_position
    nothing = np.empty(0, dtype=np.int64)

    def descend_piece(columns: slice) -> None:
        if should_stop():
            return
        by_position = np.ascontiguousarray(state.factors[:, columns].T)
        n_columns = by_position.shape[0]
        descend_rows(
            np.ascontiguousarray(state.statistics.cross[:, columns].T),
            penalty,
            group[columns],
            state.statistics.gram,
            np.zeros(n_columns + 1, dtype=np.int64),
            nothing,
            by_position[:0],
            n_passes,
            tolerance,
            by_position,
        )
        state.factors[:, columns] = by_position.T

    state.workers.each(descend_piece, ranges(state.factors.shape[1], COLUMNS_AT_ONCE))


def code_statistics(
    observations: Observations, codes: FloatArray, missing_groups: Any, workers: Workers
) -> Statistics:
    """The statistics of some codes, accurate for every column group.

    B'B of a group is that of all rows less that of those that miss it. Where this leaves too few
    digits of a diagonal entry, so that what should be 0 might not be, it is summed directly.
    """
    statistics = Statistics.from_codes(observations, codes, workers)
    if missing_groups is None:
        return statistics
    least = LEAST_LEFT * np.einsum("nk,nk->k", codes, codes)
    doubtful = np.flatnonzero((statistics.own < least).any(axis=1)).tolist()

    def sum_directly(group: int) -> None:
        first, last = missing_groups.indptr[group : group + 2]
        observed = np.delete(codes, missing_groups.indices[first:last], axis=0)
        statistics.gram[group] = observed.T @ observed

    workers.each(sum_directly, doubtful)
    return statistics
