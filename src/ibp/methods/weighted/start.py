"""Where weighted codes start: a nonnegative factorisation in competition with binary features.

With bits that cost nothing and weights that may be anything, the model itself is a nonnegative
matrix factorisation, with noise of each column, missing entries and all. Its factors begin at rows
that are unlike each other, above a low quantile of each column, and settle in some passes; then
bits get their price. On recordings and faces that leads further than a binary fit does, and where
features are binary the start of a binary fit leads further: a few sweeps from either tell which.
All of that is done on a sample of the rows, the features of which all rows are then searched for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from ibp.data import Observations
from ibp.kernels.column_hashes import column_hashes
from ibp.kernels.weighted_rows import Effort
from ibp.methods.context import Context
from ibp.methods.meibp.automatic_start import AutomaticStart, CodesStart, Trial, sample_rows
from ibp.methods.meibp.moves.changes import with_noise_times
from ibp.methods.meibp.start import Start, StartingPoint
from ibp.methods.weighted.assign import FrozenWeights, assign_piece
from ibp.methods.weighted.rows import improved_pieces
from ibp.methods.weighted.state import WeightedState
from ibp.model import Factors, LearnedIntercept
from ibp.model.ibp_prior import tangent_log_odds
from ibp.model.weights import Weights
from ibp.parallel import map_until, ranges

if TYPE_CHECKING:
    from ibp.methods.weighted.method import WeightedMethod

FloatArray = npt.NDArray[np.float64]

# A factorisation starts with as many features as there are directions above the noise, but no more
# than the first number; with the second if that cannot be told. Moves find the rest.
MOST_FEATURES, FIRST_FEATURES = 50, 25
# A column's offset is put to this quantile of its entries.
LOW_QUANTILE = 0.02
# Updates of the factorisation with noise as it is assumed, and with noise as it is learned; passes
# over the weights in the first of them, and the spread of the weights.
ROUNDS, LEARNING_ROUNDS, FIRST_PASSES, FREE_STD = 30, 10, 10, 2.0
# The noise variance is taken for this part of what it is to begin with: features that explain
# little would all become alike.
COOLING = 0.02
# This quantile of a feature's weights is what all rows have of it; less is left at this part.
COMMON_QUANTILE, TINY_WEIGHT = 0.2, 1e-3
# Log-odds of bits that cost nothing, and of bits when they first have a price: about a third of the
# rows have a feature then. And the spread of weights at that time.
FREE, FIRST_PRICE, FIRST_STD = 1e6, -1.0, 0.5
# Updates of factors and noise before the first sweep, and sweeps after which starts are compared.
SETTLING_UPDATES, TRIAL_SWEEPS = 3, 8
# Factors that are given are off by this part, to begin with.
KNOWN_DOUBT = 0.01
# How far rows are searched for a start: the sweeps that follow go further.
START_EFFORT = Effort(20, 0.03, True, True)
# Rounds in which bits get their price: when some have gone, the offset answers, and others go.
PRICING_ROUNDS = 4


class WeightedStart(Protocol):
    """A way to begin."""

    def draw(self, method: WeightedMethod, context: Context) -> WeightedState:
        """Find a state to start from."""
        ...


@dataclass(frozen=True)
class FactorizationStart:
    """A start from a nonnegative factorisation of all rows."""

    n_components: int

    def draw(self, method: WeightedMethod, context: Context) -> WeightedState:
        """A state to start from."""
        observations = context.observations
        values, low = values_above_low(observations)
        location = unlike_rows(values, self.n_components, context.rng)
        k = location.shape[0]
        intercept = method.initial_intercept(observations)
        if isinstance(intercept, LearnedIntercept):
            intercept = replace(intercept, mean=low)
        weights = Weights.ones(
            np.ones((observations.n_samples, k), dtype=np.uint8), observations.dtype
        )
        weights.mean /= max(k, 1)
        weights.std[:] = FREE_STD
        known = with_noise_times(method.hyperparameters, COOLING)
        factors = Factors.from_parameters(location, method.hyperparameters.noise_std)
        state = WeightedState.of_weights(context, weights, factors, intercept, known)
        factorize(method, context, state)
        for _ in range(PRICING_ROUNDS):
            give_bits_a_price(context, state)
            settle(method, context, state)
        return state


@dataclass(frozen=True)
class KnownStart:
    """A start from known codes, in the user's order and units: binary ones or weights.

    Without factors, these follow from the codes. ``weight_std`` is that of a model with weights,
    whose codes are known to be what they should.
    """

    codes: FloatArray
    factors: FloatArray | None = None
    intercept: FloatArray | None = None
    weight_std: FloatArray | None = None

    @property
    def n_components(self) -> int:
        """Features to start with."""
        return int(self.codes.shape[1])

    def draw(self, method: WeightedMethod, context: Context) -> WeightedState:
        """A state to start from."""
        observations = context.observations
        k, d = self.codes.shape[1], observations.n_features
        real = not np.isin(self.codes, (0.0, 1.0)).all()
        # Weights are about one, whatever part of the scale the codes came with.
        scale = typical_weights(self.codes) if self.weight_std is None else np.ones(k)
        weights = Weights.ones((self.codes > 0).astype(np.uint8), observations.dtype)
        if real:
            weights.mean[:] = self.codes / scale
            weights.std[:] = FIRST_STD if self.weight_std is None else self.weight_std
        location, doubt = np.zeros((k, d)), np.ones((k, 1))
        if self.factors is not None:
            location = observations.layout.arrange(self.factors) / observations.unit
            location = location * scale[:, None]
            doubt = KNOWN_DOUBT * np.sqrt(np.mean(location**2, axis=1, keepdims=True))
        state = WeightedState.of_weights(
            context,
            weights,
            Factors.from_parameters(location, np.where(doubt > 0, doubt, 1.0)),
            method.initial_intercept(observations, self.intercept),
            method.hyperparameters,
        )
        state.drop_empty()
        if self.factors is not None and self.intercept is None:
            state.update_intercept(context)
        if real:
            for _ in range(SETTLING_UPDATES if self.factors is None else 1):
                state.refresh(context)
            if self.weight_std is None:
                give_bits_a_price(context, state)
            else:
                settle(method, context, state)
                counts, n = state.statistics.counts, observations.n_samples
                find_codes(context, state, tangent_log_odds(counts, n), thorough=False)
        settle(method, context, state)
        return state


@dataclass(frozen=True)
class BinaryStart:
    """The start of a binary fit, every weight being one."""

    start: Start

    def draw(self, method: WeightedMethod, context: Context) -> WeightedState:
        """A state to start from."""
        return state_of(method, context, self.start.draw(method.binary(), context))


@dataclass(frozen=True)
class ComponentsStart:
    """As many independent components as are given, each cut in two, every weight being one."""

    n_components: int

    def draw(self, method: WeightedMethod, context: Context) -> WeightedState:
        """A state to start from."""
        trial = Trial(method, context, context.observations.n_samples)
        found = trial.spectral_codes(self.n_components, self.n_components)
        return state_of(
            method, context, CodesStart(found.assignments).draw(method.binary(), context)
        )


@dataclass(frozen=True)
class CompetingStart:
    """A factorisation, or that and binary starts of which the best is taken, on a sample.

    A fit of several restarts has the competition first, and then factorisations in turn with it.
    """

    n_components: int | None
    kind: str = "auto"  # or "spectral" or "random", for one of the two alone

    def most_components(self, n_samples: int) -> int:
        """Features to start with at most."""
        return min(self.n_components or MOST_FEATURES, n_samples)

    def draw(self, method: WeightedMethod, context: Context) -> WeightedState:
        """A state to start from."""
        observations = context.observations
        most = self.most_components(observations.n_samples)
        rows = sample_rows(observations.n_samples, most, context.rng)
        sample = observations if rows is None else observations.take(rows)
        trial = replace(
            method, hyperparameters=method.hyperparameters.moved(observations, sample), moves=False
        )
        there = replace(context, observations=sample)
        seen = Trial(trial, there, observations.n_samples).directions_above_noise(most)
        if seen is None:
            seen = min(most, self.n_components or FIRST_FEATURES)
        best, evidence = None, -np.inf
        for start in self.candidates(max(seen, 1), context.restart):
            if best is not None and context.should_stop():
                break
            state = start.draw(trial, there)
            state.block_size = method.first_block_size(sample.n_samples)
            for _ in range(TRIAL_SWEEPS):
                if context.should_stop():
                    break
                trial.improve(there, state)
            reached = trial.evidence(there, state).total
            if best is None or reached > evidence:
                best, evidence = state, reached
        assert best is not None
        if rows is None:
            return best
        return extended(method, context, best, sample)

    def candidates(self, most: int, restart: int) -> list[WeightedStart]:
        """Starts that compete."""
        free = FactorizationStart(most)
        if self.kind == "random" or (self.kind == "auto" and restart % 2 == 0):
            return [free]
        binary: list[WeightedStart] = [
            BinaryStart(AutomaticStart(self.n_components)),
            ComponentsStart(most),
        ]
        return binary if self.kind == "spectral" else [*binary, free]


def state_of(method: WeightedMethod, context: Context, point: StartingPoint) -> WeightedState:
    """The state of a binary start."""
    state = WeightedState.of_weights(
        context,
        Weights.ones(point.assignments, context.observations.dtype),
        Factors.from_parameters(point.location, point.scale),
        point.intercept or method.initial_intercept(context.observations),
        point.hyperparameters or method.hyperparameters,
    )
    state.drop_empty()
    settle(method, context, state)
    return state


def factorize(method: WeightedMethod, context: Context, state: WeightedState) -> None:
    """Let weights and factors answer to each other, bits costing nothing.

    The offset is fixed at first. What all rows have of a feature then makes up for an offset that
    is too low, and goes to it.
    """
    for number in range(ROUNDS + LEARNING_ROUNDS):
        if context.should_stop() or state.n_components == 0:
            break
        passes = FIRST_PASSES if number == 0 else 1
        free = np.full(state.n_components, FREE)
        search_all(context, state, free, Effort(passes, 0.0, False))
        if number in (ROUNDS, ROUNDS + LEARNING_ROUNDS - 1):
            leave_to_intercept(state)
        state.recount(context)
        if number == ROUNDS:
            state.hyperparameters = method.hyperparameters
        if number < ROUNDS:
            state.update_factors(context, np.zeros(state.factors.mean.shape[1]))
        else:
            state.refresh(context)
            method.learn(context, state)


def leave_to_intercept(state: WeightedState) -> None:
    """Let the intercept have what nearly all rows have of a feature."""
    weights, intercept = state.weights, state.intercept
    if isinstance(intercept, LearnedIntercept):
        common = np.quantile(weights.mean, COMMON_QUANTILE, axis=0)
        weights.mean[:] = np.maximum(weights.mean - common, TINY_WEIGHT * weights.mean)
        state.intercept = replace(intercept, mean=intercept.mean + common @ state.factors.mean)


def give_bits_a_price(context: Context, state: WeightedState) -> None:
    """Let rows keep what features they need, weights being about one."""
    weights, q = state.weights, state.factors
    scale = 1.0 / typical_weights(weights.mean)
    down = 1.0 / scale[:, None]
    state.factors = Factors(q.location * down, q.scale * down, q.mean * down, q.variance * down**2)
    weights.mean *= scale.astype(weights.mean.dtype)
    weights.std[:] = FIRST_STD
    find_codes(context, state, np.full(state.n_components, FIRST_PRICE), thorough=True)


def typical_weights(weights: npt.NDArray[np.floating]) -> FloatArray:
    """The mean of each feature's weights, each counting as much as it is; 1 if there are none."""
    first = weights.sum(axis=0, dtype=np.float64)
    second = np.einsum("nk,nk->k", weights, weights, dtype=np.float64)
    return np.where(second > 0, second / np.where(second > 0, first, 1.0), 1.0)


def find_codes(
    context: Context, state: WeightedState, log_odds: FloatArray, *, thorough: bool
) -> None:
    """Search all rows from what weights they have, of which nothing but the mean is known."""
    weights = state.weights
    weights.variance[:], weights.divergence[:] = 0.0, 0.0
    search_all(context, state, log_odds, START_EFFORT._replace(thorough=thorough))
    state.assignments = (weights.mean > 0).astype(np.uint8)
    state.column_hash = column_hashes(state.assignments)
    state.recount(context)
    state.drop_empty()


def search_all(
    context: Context, state: WeightedState, log_odds: FloatArray, effort: Effort
) -> None:
    """Search all rows at the same log-odds; the statistics stay as they are."""
    if state.n_components == 0:
        return
    forms = state.row_forms(context)
    forms.make_all()
    rows, weights = slice(0, context.observations.n_samples), state.weights
    for piece in improved_pieces(context, state, forms, rows, log_odds, effort):
        weights.mean[piece.rows] = piece.mean
        weights.variance[piece.rows] = piece.variance
        weights.divergence[piece.rows] = piece.divergence


def settle(method: WeightedMethod, context: Context, state: WeightedState) -> None:
    """Let factors, intercept and noise answer to the codes."""
    for _ in range(SETTLING_UPDATES):
        state.refresh(context)
        method.learn(context, state)
    state.refresh(context)


def values_above_low(observations: Observations) -> tuple[Any, FloatArray]:
    """All rows above a low quantile of each column, in units and layout order; and the quantiles.

    The latter are from the centre. A sparse matrix that stays one has its zeros as quantiles.
    """
    values, order = observations.in_memory(), observations.layout.column_order
    if issparse(values):
        where = np.searchsorted(np.sort(order), order) if observations.has_units else order
        return values[:, where], np.asarray(-observations.centre / observations.unit)
    values = np.asarray(values, dtype=np.float64)
    if observations.has_units:
        values = values[:, np.searchsorted(np.sort(order), order)]
    else:
        values = values[:, order] - observations.centre
    if observations.complete:  # which is much quicker
        low = np.quantile(values, LOW_QUANTILE, axis=0)
        return values - low, low
    low = np.nanquantile(values, LOW_QUANTILE, axis=0)
    values = values - low
    return np.where(np.isnan(values), np.nanmean(values, axis=0), values), low


def unlike_rows(values: Any, most: int, rng: np.random.Generator) -> FloatArray:
    """Rows that are unlike each other: each drawn by its squared distance from those before."""
    squares = values.multiply(values) if issparse(values) else values**2
    norms = np.asarray(squares.sum(axis=1)).ravel()
    distance, chosen = norms.copy(), []
    for _ in range(min(most, norms.size)):
        total = distance.sum()
        if not total > 0:
            break
        chosen.append(int(rng.choice(norms.size, p=distance / total)))
        row = values[[chosen[-1]]]
        row = row.toarray() if issparse(row) else row
        away = norms - 2.0 * np.asarray(values @ row[0]).ravel() + norms[chosen[-1]]
        distance = np.minimum(distance, np.maximum(away, 0.0))
        distance[chosen] = 0.0
    rows = values[chosen]
    rows = rows.toarray() if issparse(rows) else rows
    return np.asarray(np.maximum(rows, 0.0), dtype=np.float64)


def extended(
    method: WeightedMethod, context: Context, state: WeightedState, sample: Observations
) -> WeightedState:
    """The features that were found in a sample, searched for in all rows."""
    observations, unit = context.observations, sample.unit
    noise_std = state.hyperparameters.noise_std
    restore = sample.layout.restore
    frozen = FrozenWeights(
        mean=restore(state.factors.mean * unit),
        variance=restore(state.factors.variance * unit**2),
        offset=restore(sample.centre + state.intercept.mean * unit),
        counts=state.statistics.counts,
        n_samples=sample.n_samples,
        noise_std=restore(noise_std * unit, fill=1.0) if sample.has_units else noise_std,
        weight_std=state.weights.std,
    )
    shape = (observations.n_samples, state.n_components)
    weights = Weights.ones(np.zeros(shape, dtype=np.uint8), observations.dtype)
    weights.std[:] = state.weights.std
    if state.n_components:
        task = frozen.task(observations, effort=START_EFFORT)
        pieces = ranges(observations.n_samples, observations.piece_rows)
        for rows, found in map_until(
            context.should_stop, context.executor, assign_piece, task, pieces
        ):
            weights.mean[rows] = found.mean
            weights.variance[rows] = found.variance
            weights.divergence[rows] = found.divergence

    def relaid(by_position: FloatArray) -> FloatArray:
        return observations.layout.arrange(restore(by_position))

    intercept = replace(
        state.intercept,
        mean=relaid(state.intercept.mean),
        variance=relaid(state.intercept.variance),
    )
    q = state.factors
    whole = WeightedState.of_weights(
        context,
        weights,
        Factors.from_parameters(relaid(q.location), np.maximum(relaid(q.scale), 1e-300)),
        intercept,
        state.hyperparameters.moved(sample, observations),
    )
    whole.drop_empty()
    settle(method, context, whole)
    return whole
