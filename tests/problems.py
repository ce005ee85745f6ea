"""Random data and states for the tests."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st
from scipy.special import softmax

from ibp import MEIBP
from ibp.data import ColumnUnits, Observations, as_source, summarize
from ibp.data.units import rounding_variance
from ibp.methods.context import Context
from ibp.methods.meibp.method import MEIBPMethod
from ibp.methods.meibp.random_start import RandomStart
from ibp.model import Bound, Factors, GammaPosterior, Hyperparameters, Known, Statistics
from ibp.model.column_noise import ColumnHyperparameters, ColumnNoise, KnownColumns
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from ibp.model.predictive import PredictiveTerms, log_density_of_row, predict_row


def random_data(rng, n_samples, n_features, n_components=3, missing="none"):
    """Data from the model with a kind of missing pattern: none, block, scattered, heavy."""
    A = np.abs(rng.normal(size=(n_components, n_features))) * rng.choice([0.5, 1.0, 3.0])
    Z = rng.random((n_samples, n_components)) < 0.4
    X = Z @ A + rng.normal(size=(n_samples, n_features)) * rng.choice([0.1, 1.0])
    if missing == "block":
        X[n_samples // 2 :, : max(1, n_features // 3)] = np.nan
    elif missing == "scattered":
        X[rng.random(X.shape) < 0.2] = np.nan
    elif missing == "heavy":
        X[rng.random(X.shape) < 0.6] = np.nan
        X[rng.integers(n_samples)] = np.nan
    return X


def random_assignments(rng, n_samples, n_components):
    """Z with no empty column, with singletons and equal columns among them."""
    Z = (rng.random((n_samples, n_components)) < rng.choice([0.1, 0.4, 0.8])).astype(np.uint8)
    if n_components > 1 and rng.random() < 0.5:
        Z[:, 1] = Z[:, 0]
    if rng.random() < 0.5:
        Z[:, -1] = 0
    for k in np.flatnonzero(~Z.any(axis=0)):
        Z[rng.integers(n_samples), k] = 1
    return Z


def random_hyperparameters(rng, learned, n_components=3, n_features=5, n_observed=50):
    known = Hyperparameters.known(
        noise_std=float(rng.uniform(0.2, 2)),
        factor_std=float(rng.uniform(0.3, 2)),
        alpha=float(rng.uniform(0.5, 4)),
    )
    if not learned:
        return known
    start = GammaPosterior.starting_at
    return Hyperparameters(
        start(known.noise_precision.mean, (1.0, 1e-2), n_observed / 2),
        start(known.factor_precision.mean, (1.0, 1e-2), n_components * n_features / 2),
        start(known.alpha.mean, (1.0, 1.0), n_components),
    )


def random_column_hyperparameters(rng, observations, learned, n_components=3):
    """The same with noise of each column, in units of the columns."""
    shape = observations.n_features
    noise, factor = rng.uniform(0.2, 2, size=shape), rng.uniform(0.3, 2, size=shape)
    alpha = float(rng.uniform(0.5, 4))
    if not learned:
        return ColumnHyperparameters(
            KnownColumns(noise**-2.0), KnownColumns(factor**-2.0), Known(alpha)
        )
    start = GammaPosterior.starting_at
    return ColumnHyperparameters(
        ColumnNoise.starting_at(
            noise**-2.0, observations.column_counts, rounding_variance(observations.resolution)
        ),
        start(float(np.mean(factor**-2.0)), (1.0, 1e-2), n_components * shape / 2),
        start(alpha, (1.0, 1.0), n_components),
    )


def in_units(X, centre):
    """Observations in units of the columns."""
    summary = summarize(X)
    units = ColumnUnits.of(as_source(X), summary, centre)
    return Observations.from_summary(X, summary, centre=centre, units=units)


def random_factors(rng, n_components, n_features):
    return Factors.from_parameters(
        rng.normal(size=(n_components, n_features)) * 2,
        rng.uniform(0.05, 1.5, size=(n_components, n_features)),
    )


def random_state_parts(seed, missing="scattered", learned=False, n=8, d=5, k=3):
    """Observations, assignments, statistics, factors and hyperparameters of a random state."""
    rng = np.random.default_rng(seed)
    observations = Observations.from_array(random_data(rng, n, d, missing=missing))
    Z = random_assignments(rng, n, k)
    return (
        observations,
        Z,
        Statistics.from_codes(observations, Z),
        random_factors(rng, k, d),
        random_hyperparameters(rng, learned, k, d, observations.n_observed),
    )


seeds = st.integers(0, 2**32 - 1)
missing_kinds = st.sampled_from(["none", "block", "scattered", "heavy"])
priors = st.sampled_from(["shifted", "lof"])


def unmoved(n_components=None, **settings):
    """The defaults but for moves, where a test is about sweeps."""
    return MEIBP(n_components, **({"moves": False} | settings))


def plain(n_components=None, **settings):
    """The paper's model and schedule, but with row searches that never lower the bound."""
    return MEIBP.paper(n_components, **({"row_start": "current", "n_jobs": 1} | settings))


def make(
    seed,
    missing="none",
    learned=False,
    n=25,
    d=6,
    k=5,
    intercept=False,
    by_column=False,
    **settings_of_method,
):
    rng = np.random.default_rng(seed)
    X = random_data(rng, n, d, missing=missing)
    if intercept:
        X += rng.normal(size=d) * 10.0 ** rng.integers(-1, 3)
        settings_of_method["intercept_std"] = float(10 * np.nanstd(X))
    summary = summarize(X)
    centre = summary.means if intercept else None
    if by_column:
        scale = 10.0 ** rng.integers(-3, 4, size=d)
        observations = in_units(X * scale, centre if centre is None else centre * scale)
        settings_of_method["intercept_std"] = 10.0 if intercept else None
        hyper = random_column_hyperparameters(rng, observations, learned, k)
    else:
        observations = Observations.from_summary(X, summary, centre=centre)
        hyper = random_hyperparameters(rng, learned, k, d, observations.n_observed)
    classes = EQUIVALENCE_CLASSES[settings_of_method.pop("prior", "shifted")]
    method = MEIBPMethod(RandomStart(k), hyper, prior=classes, **settings_of_method)
    context = Context(observations, np.random.default_rng(seed + 1))
    return method, context, method.init(context)


def direct_bound(method, context, state):
    """The bound from Z alone, as it is reported: statistics and equal columns computed anew."""
    return (
        Bound(
            context.observations,
            Statistics.from_codes(context.observations, state.assignments),
            state.factors,
            state.hyperparameters,
            method.prior,
            state.intercept,
            columns=state.assignments.T,
        )
        .evidence_in_data_units()
        .total
    )


def assert_not_lower(after, before):
    assert after >= before - 1e-9 * max(abs(before), 1.0)


def stop_after(n_checks):
    """A should_stop that allows a number of chunks."""
    left = iter(range(n_checks))
    return lambda: next(left, None) is None


def all_codes(model, x):
    """Every code of a new row of a fitted model with few features, and their probabilities.

    As in the library those more than 12 nats below the best have none.
    """
    seen = ~np.isnan(x)
    every = np.array(list(product((0.0, 1.0), repeat=model.n_components_)))
    precision = np.broadcast_to(model.noise_std_, x.shape)[seen] ** -2.0
    residual = (x - model.intercept_ - every @ model.components_)[:, seen]
    spread = (every @ model.components_std_**2)[:, seen]
    counts = model.feature_counts_
    log_odds = np.log(counts / (model.n_samples_fit_ + 1.0 - counts))
    weight = softmax(every @ log_odds - 0.5 * (residual**2 + spread) @ precision)
    within = weight > np.exp(-12.0) * weight.max()
    return every[within], weight[within] / weight[within].sum()


def predictive(model, X_seen, X_true=None):
    """Means and log-densities of all entries of rows, each given what is seen of its row."""
    noise_std = np.broadcast_to(model.noise_std_, model.intercept_.shape)
    terms = PredictiveTerms(
        model.components_.T, model.components_std_.T**2, model.intercept_, noise_std**2
    )
    means, densities = [], []
    for x, true in zip(X_seen, X_seen if X_true is None else X_true, strict=True):
        codes, weight = all_codes(model, x)
        means.append(predict_row(codes, weight, terms)[0])
        densities.append(log_density_of_row(true, codes, weight, terms))
    return np.array(means), np.array(densities)
