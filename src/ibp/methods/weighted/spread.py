"""How far the weights of each feature spread, and the scale that weights and factors share.

For one feature after the other, the rest as it is, s_k and all its weights are brought to their
joint optimum (`ibp.kernels.weight_spread`). Then weights may be multiplied and factors divided by
one number: the likelihood does not change, and the priors tell which is best.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.weight_spread import (
    MOST_STD,
    best_spread,
    rests_of_rows,
    set_weights,
    terms_of_feature,
)
from ibp.methods.context import Context
from ibp.methods.meibp.state import by_column
from ibp.methods.row_forms import gaps_of
from ibp.methods.weighted.forms import WeightedRowForms
from ibp.methods.weighted.state import WeightedState
from ibp.model import Factors
from ibp.model.weights import log_mass
from ibp.parallel import ranges

if TYPE_CHECKING:
    from ibp.methods.meibp.method import MEIBPMethod

FloatArray = npt.NDArray[np.float64]

# The spread of a feature's weights is told from these many rows at the least.
LEAST_ROWS = 3
# Numbers that the weights of a feature are tried to be multiplied by.
SCALES = np.exp(np.linspace(-0.7, 0.7, 57))
# And the least that s is then, if it is not zero.
LEAST_STD = 0.01


class RestTask(NamedTuple):
    """What the rests of rows are made from."""

    observations: Observations
    forms: WeightedRowForms
    mean: npt.NDArray[np.floating]


def rest_piece(task: RestTask, rows: slice) -> FloatArray:
    """r - W c of some rows."""
    products = np.asarray(task.observations.rows(rows) @ task.forms.components.T)
    rest = np.empty(products.shape)  # in double precision: features are taken out one by one
    gaps = gaps_of(task.observations, rows)
    forms = task.forms
    rests_of_rows(products, forms.weighted, forms.weighted_columns, gaps, task.mean[rows], rest)
    return rest


def learn_spreads(context: Context, state: WeightedState) -> None:
    """Bring s_k and the weights of every feature to their joint optimum, one after the other."""
    weights = state.weights
    if state.n_components == 0:
        return
    forms = state.row_forms(context)
    forms.make_all()
    task = RestTask(context.observations, forms, weights.mean)
    pieces = ranges(context.observations.n_samples, context.observations.piece_rows)
    rest = np.concatenate(list(context.executor.map(rest_piece, task, pieces)))
    gaps = gaps_of(context.observations, slice(0, context.observations.n_samples))
    common = (forms.weighted, forms.weighted_columns, gaps)
    arrays = (weights.mean, weights.variance, weights.divergence)
    for k in range(state.n_components):
        rows = np.flatnonzero(state.assignments[:, k])
        linear, own = np.empty(rows.size), np.empty(rows.size)
        terms_of_feature(k, rows, *common, weights.mean, rest, linear, own)
        std = weights.std[k]
        if rows.size >= LEAST_ROWS:
            std, _ = best_spread(linear, own, std)
        set_weights(k, std, rows, (linear, own), *common, arrays, rest)
        weights.std[k] = std
    state.recount(context)


def share_scale(method: MEIBPMethod, context: Context, state: WeightedState) -> bool:
    """Multiply all weights, and divide all factors, by one number that suits the weights best.

    The precision of the factors, if it is learned, goes along: no feature could go by itself.
    Returns whether there was such a number.
    """
    precision = state.hyperparameters.factor_precision
    spread = weights_spread(state)
    if not precision.learned or not spread.any():
        return False
    first, second, n = weight_sums(state)
    values, stds = scaled_priors(first, second, n)
    best = int(np.where(spread, values, 0.0).sum(axis=1).argmax())
    scale = SCALES[best]
    if scale == 1.0:
        return False
    before, changed = method.evidence(context, state).total, state.copy()
    rescale(changed, np.where(spread, scale, 1.0), np.where(spread, stds[best], state.weights.std))
    answer: Any = precision.divided(scale**-2.0)
    changed.hyperparameters = replace(state.hyperparameters, factor_precision=answer)
    better = method.evidence(context, changed).total > before
    if better:
        vars(state).update(vars(changed))
    return better


def weights_spread(state: WeightedState) -> npt.NDArray[np.bool_]:
    """Which features have weights that differ."""
    return np.asarray(state.weights.std > 0)


def weight_sums(state: WeightedState) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of E[w] and E[w^2] of each feature, and how many weights it has."""
    weights = state.weights
    first = weights.mean.sum(axis=0, dtype=np.float64)
    second = np.einsum("nk,nk->k", weights.mean, weights.mean, dtype=np.float64)
    second = second + weights.variance.sum(axis=0, dtype=np.float64)
    return first, second, np.maximum(state.statistics.counts.astype(np.float64), 1.0)


def scaled_priors(
    first: FloatArray, second: FloatArray, n: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What the weights' part of the bound is for each of `SCALES`, and the best s; shape (C, K)."""
    c = SCALES[:, None]
    away = np.maximum(c**2 * second - 2.0 * c * first + n, 0.0)
    stds = np.clip(np.sqrt(away / n), LEAST_STD, MOST_STD)
    return weights_bound(c, stds, away, n), stds


def weights_bound(c: FloatArray, std: FloatArray, away: FloatArray, n: FloatArray) -> FloatArray:
    """The weights' part of the bound when all are multiplied by c: what depends on c and s."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(n * (np.log(c) - np.log(std) - log_mass(std)) - away / (2.0 * std**2))


def share_scales(state: WeightedState) -> bool:
    """Multiply the weights of each feature, and divide its factors, by what suits the priors best.

    Returns whether that changed any.

    With c for that number, n weights and D factors, the bound has, beside what does not change,

        (n - D) ln c - n [ln s + ln Phi(1 / s)] - sum (c^2 E[w^2] - 2 c E[w] + 1) / (2 s^2)
        - sum_d tau_A E[a^2] / (2 c^2)

    in which s may answer.
    """
    weights, factors = state.weights, state.factors
    first, second, n = weight_sums(state)
    d = factors.mean.shape[1]
    precision = by_column(state.hyperparameters.factor_precision.mean, d)
    penalty = 0.5 * factors.second_moment @ precision
    spread = weights_spread(state)
    c = SCALES[:, None]
    values, stds = scaled_priors(first, second, n)
    values = np.where(spread, values - d * np.log(c) - penalty / c**2, -np.inf)
    best = values.argmax(axis=0)
    columns = np.arange(state.n_components)
    away = np.maximum(second - 2.0 * first + n, 0.0)
    present = np.where(spread, weights_bound(np.ones(1), weights.std, away, n) - penalty, 0.0)
    better = spread & (values[best, columns] > present + 1e-9 * (1.0 + np.abs(present)))
    scale = np.where(better, SCALES[best], 1.0)
    std = np.where(better, stds[best, columns], weights.std)
    if better.any():
        rescale(state, scale, std)
    return bool(better.any())


def rescale(state: WeightedState, scale: FloatArray, std: FloatArray) -> None:
    """Multiply weights and divide factors of some features, which get another s as well."""
    weights, statistics = state.weights, state.statistics
    has = state.assignments > 0
    for k in np.flatnonzero((scale != 1.0) | (std != weights.std)):
        rows, c, s, new = has[:, k], scale[k], weights.std[k], std[k]
        mean = weights.mean[rows, k].astype(np.float64)
        variance = weights.variance[rows, k].astype(np.float64)
        away, moved = (mean - 1.0) ** 2 + variance, (c * mean - 1.0) ** 2 + c**2 * variance
        constant = np.log(new) + log_mass(new) - np.log(s) - log_mass(s) - np.log(c)
        weights.divergence[rows, k] += constant + moved / (2.0 * new**2) - away / (2.0 * s**2)
        weights.mean[rows, k] = c * mean
        weights.variance[rows, k] = c**2 * variance
    weights.std = std
    statistics.gram *= scale[:, None] * scale
    statistics.totals *= scale
    statistics.cross *= scale[:, None]
    if statistics.doubt is not None:
        statistics.doubt *= scale**2
    down = 1.0 / scale[:, None]
    q = state.factors
    state.factors = Factors(q.location * down, q.scale * down, q.mean * down, q.variance * down**2)
