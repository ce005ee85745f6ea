"""The collapsed Gibbs sampler against exact posteriors, joint simulation and plain formulae."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import gammaln

from enumeration import (
    assert_matches,
    exact_posterior,
    gaussian_log_likelihood,
    key_of,
    truncated_log_prior,
    unbounded_log_prior,
)
from ibp.blas import single_threaded_blas
from ibp.compiled import kernel
from ibp.data import Observations
from ibp.kernels.accelerated_gibbs import refresh, sample_n_new, sample_rows
from ibp.methods.accelerated_gibbs import AcceleratedGibbsMethod, recount, rows_of
from ibp.methods.context import Context
from ibp.model import GammaPosterior, Hyperparameters, Known
from ibp.model.assignment_priors import FinitePrior, UnboundedPrior
from ibp.model.collapsed import draw_factors
from ibp.model.ibp_prior import harmonic_number
from ibp.starts.codes_and_factors import CodesAndFactors
from problems import random_assignments, random_data, stop_after

UNBOUNDED = UnboundedPrior()


@pytest.fixture(autouse=True)
def _one_thread():
    """As in the loop: threads take longer to start than such small sums."""
    with single_threaded_blas():
        yield


def known(noise_std=0.7, factor_std=1.2, alpha=0.6):
    return Hyperparameters.known(noise_std=noise_std, factor_std=factor_std, alpha=alpha)


def method_of(hyperparameters=None, prior=UNBOUNDED, **settings):
    given = {"burn_in": 0, "thin": 1} | settings
    return AcceleratedGibbsMethod(hyperparameters=hyperparameters or known(), prior=prior, **given)


def start_at(Z):
    return CodesAndFactors(np.asarray(Z, dtype=np.float64))


def begin(X, seed=0, centre=None, **settings):
    """A method, the data (about zero) with a generator, and the first state."""
    method = method_of(**settings)
    context = Context(Observations.from_array(X, centre=centre), np.random.default_rng(seed))
    return method, context, method.init(context)


def all_rows(context, state):
    """X as the kernel reads it."""
    return rows_of(context.observations, slice(0, None), state.missing_value)


@kernel(cache=False)  # a cached one would not notice that the sampler has changed
def long_chain(n_kept, thin, rows, columns, n, settings, rng):
    """The columns of Z as numbers, every ``thin`` sweeps; 0 where there is none."""
    n_samples = rows.values.shape[0]
    kept = np.zeros((n_kept, 64), dtype=np.int64)
    for i in range(n_kept):
        for _ in range(thin):
            columns, n, _ = sample_rows(rows, columns, n, settings, rng)
        for k in range(settings.n_fixed, n):
            for row in range(n_samples):
                kept[i, k - settings.n_fixed] += np.int64(columns.codes[row, k]) << row
    return kept


def chain_of(method, context, state, n_kept, thin):
    kept = long_chain(
        n_kept,
        thin,
        all_rows(context, state),
        state.columns,
        state.n_columns,
        method.kernel_settings(state),
        context.rng,
    )
    return [tuple(sorted(int(column) for column in row if column)) for row in kept]


# Exact posteriors of tiny problems

TINY = np.array([[1.0, -0.6], [0.8, 1.1], [-0.9, 0.7]])
TINY_WITH_GAPS = np.array([[1.0, np.nan, 0.5], [0.8, 1.1, np.nan], [np.nan, np.nan, -0.7]])


def check_against_enumeration(X, prior, intercept_std, n_kept, thin=20, largest=6, **hyper):
    values = {"noise_std": 0.7, "factor_std": 1.2, "alpha": 0.6} | hyper
    alpha = values.pop("alpha")
    if prior is UNBOUNDED:
        log_prior_of = unbounded_log_prior(alpha)
    else:
        largest = prior.n_components
        log_prior_of = truncated_log_prior(alpha, largest)
    likelihood = gaussian_log_likelihood(X, intercept_std=intercept_std, **values)
    expected = exact_posterior(X.shape[0], largest, log_prior_of, likelihood)
    method, context, state = begin(
        X,
        hyperparameters=known(alpha=alpha, **values),
        prior=prior,
        intercept_std=intercept_std,
    )
    assert_matches(chain_of(method, context, state, n_kept, thin), expected)


CASES = pytest.mark.parametrize(
    ("X", "prior", "intercept_std"),
    [
        (TINY, UNBOUNDED, None),
        (TINY, UNBOUNDED, 2.0),
        (TINY_WITH_GAPS, UNBOUNDED, None),
        (TINY, FinitePrior(3), None),
        (TINY_WITH_GAPS, FinitePrior(2), 2.0),
    ],
)


@CASES
def test_visits_every_class_as_often_as_it_should(X, prior, intercept_std):
    check_against_enumeration(X, prior, intercept_std, n_kept=4000)


@pytest.mark.long
@CASES
def test_visits_every_class_as_often_as_it_should_for_long(X, prior, intercept_std):
    check_against_enumeration(X, prior, intercept_std, n_kept=200_000)


def test_visits_classes_rightly_when_the_noise_is_small():
    check_against_enumeration(TINY, UNBOUNDED, None, 3000, noise_std=0.3, factor_std=2.0)


def test_visits_classes_rightly_when_rows_have_features_of_their_own_and_gaps():
    """The draw of a gap has the spread of features that were born in the same row."""
    X = np.array([[2.0, np.nan, np.nan], [np.nan, 1.5, -1.0]])
    check_against_enumeration(
        X, UNBOUNDED, None, 20_000, 10, largest=14, noise_std=0.2, factor_std=1.0, alpha=1.5
    )


def test_number_of_own_features_has_the_exact_distribution():
    """Also where the residual is large, so that many terms matter."""
    rng = np.random.default_rng(0)
    for rate, variance, factor_variance, squares, n_seen in [
        (0.3, 1.0, 1.0, 3.0, 2),
        (0.3, 1.0, 0.5, 60.0, 5),
        (5.0, 1.0, 0.2, 30.0, 4),
        (2.0, 1.0, 1.0, 0.0, 0),
    ]:
        j = np.arange(200)
        total = variance + j * factor_variance
        log_weight = j * np.log(rate) - gammaln(j + 1.0)
        log_weight -= 0.5 * (n_seen * np.log(total) + squares / total)
        weight = np.exp(log_weight - log_weight.max())
        expected = {(int(i),): float(p) for i, p in zip(j, weight / weight.sum(), strict=True)}
        draws = [
            (sample_n_new(rate, variance, factor_variance, squares, n_seen, rng),)
            for _ in range(4000)
        ]
        assert_matches(draws, expected)


# Successive-conditional against marginal-conditional simulation (Geweke 2004)

GAMMA = GammaPosterior(3.0, 3.0, 3.0, 3.0)
N, D = 5, 2


def statistics_of(Z, values, X):
    counts = Z.sum(axis=0)
    return [
        np.count_nonzero(counts),
        counts.sum(),
        (counts**2).sum(),
        values.alpha,
        np.log(values.alpha),
        values.noise_precision,
        values.factor_precision,
        np.log(values.noise_precision),
        np.log(values.factor_precision),
        np.tanh(X).mean(),
        np.log1p(X**2).mean(),
        np.tanh(X[0] * X[1]).mean(),
    ]


def draw_data(Z, values, intercept_std, rng):
    """X given Z and the hyperparameters: new factors, new noise."""
    X = Z @ rng.normal(0.0, values.factor_std, (Z.shape[1], D))
    if intercept_std is not None:
        X += rng.normal(0.0, intercept_std, D)
    return X + rng.normal(0.0, values.noise_std, X.shape)


def draw_values(hyper, rng):
    values = hyper.values()
    for name in ("noise_precision", "factor_precision", "alpha"):
        setattr(values, name, getattr(hyper, name).draw(0.0, 0.0, rng))
    return values


def marginal_conditional(hyper, prior, intercept_std, n, rng):
    rows = []
    for _ in range(n):
        values = draw_values(hyper, rng)
        Z = prior.draw(values.alpha, N, rng)
        rows.append(statistics_of(Z, values, draw_data(Z, values, intercept_std, rng)))
    return np.array(rows)


def with_data(method, context, state, buffer, X):
    """Replace all data, drawn values of missing entries included."""
    missing = np.isnan(buffer)
    buffer[~missing] = X[~missing]
    state.missing_value[:] = X[missing]
    squares = float((X[~missing] ** 2).sum())
    observations = replace(context.observations, sum_of_squares=squares)
    recount(observations, state)
    refresh(state.columns, state.n_columns, method.kernel_settings(state))
    return replace(context, observations=observations)


def successive_conditional(hyper, prior, intercept_std, missing, n, rng):
    values = draw_values(hyper, rng)
    Z = prior.draw(values.alpha, N, rng)
    X = draw_data(Z, values, intercept_std, rng)
    buffer = np.where(missing, np.nan, X)
    method = method_of(hyper, prior, intercept_std=intercept_std, start=start_at(Z))
    context = Context(Observations.from_array(buffer), rng)
    state = method.init(context)
    state.values = values
    context = with_data(method, context, state, buffer, X)
    rows = []
    for _ in range(n):
        method.sweep(context, state)
        X = draw_data(state.assignments, state.values, intercept_std, rng)
        context = with_data(method, context, state, buffer, X)
        rows.append(statistics_of(state.assignments, state.values, X))
    return np.array(rows)


def standard_error(rows, n_batches=40):
    """Of the mean of a chain, by the means of batches."""
    batches = rows[: rows.shape[0] // n_batches * n_batches].reshape(n_batches, -1, rows.shape[1])
    return batches.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(n_batches)


def check_jointly(hyper, prior, intercept_std, missing, n):
    rng = np.random.default_rng(7)
    exact = marginal_conditional(hyper, prior, intercept_std, n, rng)
    chain = successive_conditional(hyper, prior, intercept_std, missing, n, rng)
    error = np.hypot(standard_error(exact), standard_error(chain))
    difference = np.abs(exact.mean(axis=0) - chain.mean(axis=0))
    moved = error > 0
    assert (difference[~moved] < 1e-12).all()
    score = difference[moved] / error[moved]
    # The batches leave about 40 degrees of freedom.
    assert 2.0 * stats.t.sf(score, 39).min() * score.size > 1e-3, score


NOTHING_MISSING = np.zeros((N, D), dtype=bool)
SOME_MISSING = np.zeros((N, D), dtype=bool)
SOME_MISSING[[0, 1, 3, 3], [0, 1, 0, 1]] = True
JOINT_CASES = pytest.mark.parametrize(
    ("hyper", "prior", "intercept_std", "missing"),
    [
        (Hyperparameters(GAMMA, GAMMA, GAMMA), UNBOUNDED, None, NOTHING_MISSING),
        (Hyperparameters(GAMMA, GAMMA, GAMMA), FinitePrior(3), 1.5, NOTHING_MISSING),
        (Hyperparameters(GAMMA, GAMMA, GAMMA), UNBOUNDED, 1.5, SOME_MISSING),
        (Hyperparameters(Known(2.0), GAMMA, Known(1.0)), FinitePrior(2), None, SOME_MISSING),
        (Hyperparameters(GAMMA, Known(1.0), GAMMA), UNBOUNDED, None, SOME_MISSING),
    ],
)


@JOINT_CASES
def test_leaves_the_joint_distribution_as_it_is(hyper, prior, intercept_std, missing):
    check_jointly(hyper, prior, intercept_std, missing, n=2500)


@pytest.mark.long
@JOINT_CASES
def test_leaves_the_joint_distribution_as_it_is_for_long(hyper, prior, intercept_std, missing):
    check_jointly(hyper, prior, intercept_std, missing, n=100_000)


def test_samples_the_prior_if_the_noise_drowns_everything():
    n_samples, alpha = 20, 1.5
    X = np.random.default_rng(0).normal(size=(n_samples, 2))
    method, context, state = begin(X, hyperparameters=known(1e6, 1.0, alpha))
    keys = chain_of(method, context, state, n_kept=1500, thin=15)
    used = np.array([len(key) for key in keys])
    mean = alpha * harmonic_number(n_samples)
    assert abs(used.mean() - mean) < 4.0 * np.sqrt(mean / used.size)
    sums = np.array(
        [[sum(key_column >> row & 1 for key_column in key) for row in (0, 9, 19)] for key in keys]
    )
    for own in sums.T:
        assert abs(own.mean() - alpha) < 4.0 * np.sqrt(alpha / own.size)
        assert abs(own.var() - alpha) < 0.3 * alpha
        expected = {(j,): float(stats.poisson.pmf(j, alpha)) for j in range(30)}
        assert_matches(Counter((int(total),) for total in own), expected)


# Numbers that are kept along


def derived(columns, n, settings):
    """S and M by the definition, with a solver of its own."""
    variance = np.full(n, settings.factor_variance)
    variance[: settings.n_fixed] = settings.fixed_variance
    precision = columns.gram[:n, :n] / settings.noise_variance + np.diag(1.0 / variance)
    covariance = np.linalg.inv(precision)
    return covariance, covariance @ columns.cross[:n] / settings.noise_variance


def relative(found, expected):
    return np.abs(found - expected).max(initial=0.0) / max(
        np.abs(expected).max(initial=0.0), 1e-300
    )


@pytest.mark.parametrize("ratio", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("intercept_std", [None, 10.0])
def test_kept_numbers_do_not_drift(ratio, intercept_std):
    rng = np.random.default_rng(3)
    n_samples, n_components = 300, 60
    Z = (rng.random((n_samples, n_components)) < 0.2).astype(np.uint8)
    X = Z @ rng.normal(size=(n_components, 7)) * ratio + rng.normal(size=(n_samples, 7))
    X[rng.random(X.shape) < 0.05] = np.nan
    method, context, state = begin(
        X,
        hyperparameters=known(1.0, ratio, 5.0),
        intercept_std=intercept_std,
        start=start_at(Z),
    )
    settings = method.kernel_settings(state)
    rows, columns, n = all_rows(context, state), state.columns, state.n_columns
    for _ in range(60):
        columns, n, _ = sample_rows(rows, columns, n, settings, context.rng)
    gram, cross = columns.gram[:n, :n].copy(), columns.cross[:n].copy()
    covariance, mean = columns.covariance[:n, :n].copy(), columns.mean[:n].copy()
    state.columns, state.n_columns = columns, n
    recount(context.observations, state)
    assert (gram == columns.gram[:n, :n]).all()
    assert relative(cross, columns.cross[:n]) < 1e-11
    expected_covariance, expected_mean = derived(columns, n, settings)
    assert relative(covariance, expected_covariance) < 1e-8
    assert relative(mean, expected_mean) < 1e-8


def test_features_grow_beyond_the_room_there_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 30)) * 10.0
    method, context, state = begin(
        X, hyperparameters=known(0.5, 2.0, 5.0), start=start_at(np.zeros((40, 0)))
    )
    before = state.columns.mean.shape[0]
    method.sweep(context, state)
    assert state.columns.mean.shape[0] > before
    assert_consistent(method, context, state)


def assert_consistent(method, context, state):
    """All that is kept fits Z."""
    n, settings = state.n_columns, method.kernel_settings(state)
    assert not state.columns.codes[:, n:].any()
    covariance, mean = state.columns.covariance[:n, :n].copy(), state.columns.mean[:n].copy()
    gram = state.columns.gram[:n, :n].copy()
    recount(context.observations, state)
    assert (gram == state.columns.gram[:n, :n]).all()
    expected_covariance, expected_mean = derived(state.columns, n, settings)
    assert relative(covariance, expected_covariance) < 1e-9
    assert relative(mean, expected_mean) < 1e-9
    assert np.isfinite(method.log_joint(context, state))


# What is reported


@pytest.mark.parametrize("missing", ["none", "block", "scattered"])
@pytest.mark.parametrize("intercept_std", [None, 3.0])
@pytest.mark.parametrize("prior", [UNBOUNDED, FinitePrior(5)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_report_agrees_with_plain_formulae(missing, intercept_std, prior, dtype):
    rng = np.random.default_rng(5)
    X = random_data(rng, 9, 6, missing=missing).astype(dtype)
    Z = random_assignments(rng, 9, 4)
    centre = np.nanmean(X, axis=0) if intercept_std else np.zeros(6)
    hyper = Hyperparameters(GAMMA, Known(0.8), GAMMA)
    method = method_of(hyper, prior, intercept_std=intercept_std, start=start_at(Z))
    context = Context(Observations.from_array(X, centre=centre), rng)
    state = method.init(context)
    tolerance = 1e-9 if dtype == np.float64 else 1e-5

    values = state.values
    likelihood = gaussian_log_likelihood(
        X - centre,
        noise_std=values.noise_std,
        factor_std=values.factor_std,
        intercept_std=intercept_std,
    )(Z)
    if prior is UNBOUNDED:
        log_prior_of_class = unbounded_log_prior(values.alpha)(Z)
    else:  # the sampler speaks of Z itself
        multiplicities = np.append(np.unique(Z, axis=1, return_counts=True)[1], 1)
        n_matrices = gammaln(6.0) - gammaln(multiplicities + 1.0).sum()
        log_prior_of_class = truncated_log_prior(values.alpha, 5)(Z) - n_matrices
    hyperprior = stats.gamma.logpdf(
        [values.alpha, values.noise_precision], 3.0, scale=1 / 3.0
    ).sum()
    expected = likelihood + log_prior_of_class + hyperprior
    np.testing.assert_allclose(method.log_joint(context, state), expected, rtol=tolerance)

    sample = method.sample(context, state)
    codes = np.hstack([np.ones((9, 1)), Z]) if intercept_std else Z.astype(float)
    precision_of = np.full(codes.shape[1], 0.8)
    if intercept_std:
        precision_of[0] = intercept_std**-2
    means, deviations = np.empty((codes.shape[1], 6)), np.empty((codes.shape[1], 6))
    for d in range(6):
        seen = ~np.isnan(X[:, d])
        z, x = codes[seen], (X[seen, d] - centre[d]).astype(np.float64)
        inverse = np.linalg.inv(values.noise_precision * z.T @ z + np.diag(precision_of))
        means[:, d] = values.noise_precision * inverse @ z.T @ x
        deviations[:, d] = np.sqrt(np.diag(inverse))
    first = int(intercept_std is not None)
    np.testing.assert_allclose(sample.components, means[first:], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(sample.components_std, deviations[first:], rtol=tolerance)
    np.testing.assert_allclose(
        sample.intercept, centre + (means[0] if first else 0.0), rtol=tolerance, atol=tolerance
    )
    assert (sample.assignments == Z).all()
    residual = X - centre - codes @ means
    mean_log_density = np.nanmean(stats.norm.logpdf(residual, scale=values.noise_std))
    np.testing.assert_allclose(
        method.train_log_likelihood(context, state), mean_log_density, rtol=max(tolerance, 1e-8)
    )
    assert method.n_components_in_use(state) == 4


@pytest.mark.parametrize("intercept_std", [None, 3.0])
def test_with_too_many_patterns_missing_entries_count_as_drawn(monkeypatch, intercept_std):
    rng = np.random.default_rng(6)
    X = random_data(rng, 12, 6, missing="scattered")
    Z = random_assignments(rng, 12, 3)
    centre = np.nanmean(X, axis=0)
    settings = {"centre": centre, "start": start_at(Z), "intercept_std": intercept_std}
    method, context, state = begin(X, **settings)
    exact = method.sample(context, state)
    filled = X.copy()
    filled[np.isnan(X)] = state.missing_value + np.broadcast_to(centre, X.shape)[np.isnan(X)]
    _, as_drawn, complete = begin(filled, **settings)
    expected = method.sample(as_drawn, complete)

    monkeypatch.setattr("ibp.methods.accelerated_gibbs.MOST_ENTRIES", 0)
    state.fit = None
    sample = method.sample(context, state)
    for name in ("components", "components_std", "intercept", "log_joint"):
        np.testing.assert_allclose(getattr(sample, name), getattr(expected, name), rtol=1e-9)
    np.testing.assert_allclose(
        method.train_log_likelihood(context, state),
        method.train_log_likelihood(as_drawn, complete),
        rtol=1e-9,
    )
    assert (np.abs(sample.components - exact.components) > 1e-6).any()


def test_factors_are_drawn_from_their_posterior():
    rng = np.random.default_rng(0)
    Z, X = random_assignments(rng, 12, 3).astype(float), rng.normal(size=(12, 2))
    precision = np.array([0.5, 1.0, 2.0])
    draws = np.array([draw_factors(Z.T @ Z, Z.T @ X, 3.0, precision, rng) for _ in range(5000)])
    covariance = np.linalg.inv(3.0 * Z.T @ Z + np.diag(precision))
    mean = 3.0 * covariance @ Z.T @ X
    spread = np.sqrt(np.diag(covariance))[:, None]
    assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * spread / np.sqrt(5000)).all()
    np.testing.assert_allclose(np.cov(draws[:, :, 1].T), covariance, atol=0.04)


def fit(X, n_sweeps, **settings):
    method, context, state = begin(X, **settings)
    reports = [method.step(context, state) for _ in range(n_sweeps)]
    return method, state, reports


def test_sparse_rows_are_refused():
    with pytest.raises(TypeError, match="needs a dense matrix"):
        begin(sparse.csr_array(np.eye(4)))


def test_same_seed_same_answer():
    rng = np.random.default_rng(1)
    X = random_data(rng, 60, 8, missing="scattered")
    hyper = Hyperparameters(GAMMA, GAMMA, GAMMA)
    first, second = (fit(X, 12, hyperparameters=hyper, burn_in=4, thin=2) for _ in range(2))
    assert first[2] == second[2]
    samples = first[1].chain.samples
    assert len(samples) == 4
    for one, other in zip(samples, second[1].chain.samples, strict=True):
        assert (one.assignments == other.assignments).all()
        assert (one.components == other.components).all()
    assert [sample.log_joint for sample in samples] == [
        report.evidence for report in first[2][5::2]
    ]


@pytest.mark.parametrize("prior", [UNBOUNDED, FinitePrior(6)])
def test_stopped_it_leaves_a_usable_state(prior):
    rng = np.random.default_rng(2)
    X = random_data(rng, 90, 5, missing="scattered")
    method, context, state = begin(
        X, prior=prior, hyperparameters=known(1.0, 1.0, 2.0), intercept_std=5.0
    )
    for n_chunks in (0, 1, 2):
        method.step(replace(context, should_stop=stop_after(n_chunks)), state)
        assert_consistent(method, context, state)
    assert state.n_sweeps == 0
    method.step(context, state)
    assert state.n_sweeps == 1


def planted(rng, dtype=np.float64):
    """Four features of moderate size: with less noise than this a chain hardly moves."""
    A = rng.normal(size=(4, 24)) * 2.0
    Z = (rng.random((200, 4)) < 0.4).astype(np.uint8)
    X = (Z @ A + 2.0 * rng.normal(size=(200, 24))).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    start = GammaPosterior.starting_at
    hyper = Hyperparameters(
        start(0.25, (1.0, 1.0), 1.0), start(0.25, (1.0, 1.0), 1.0), start(1.0, (1.0, 1.0), 1.0)
    )
    return X, Z, A, hyper


def root_mean_square(differences):
    """Of Z A itself, about its mean, it is 2."""
    return np.sqrt(np.mean(differences**2))


def likeliest(state):
    return max(state.chain.samples, key=lambda sample: sample.log_joint)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("prior", [UNBOUNDED, FinitePrior(8)])
def test_finds_planted_features(dtype, prior):
    X, Z, A, hyper = planted(np.random.default_rng(0), dtype)
    _, state, _ = fit(X, 250, prior=prior, hyperparameters=hyper, burn_in=100)
    best = likeliest(state)
    # Beside the four, a sample may have a feature or two of a few rows.
    assert 4 <= best.assignments.shape[1] <= 6
    agreement = (Z[:, :, None] == best.assignments[:, None, :]).mean(axis=0)
    assert np.unique(agreement.argmax(axis=1)).size == 4
    assert agreement.max(axis=1).min() > 0.8
    assert root_mean_square(best.assignments @ best.components - Z @ A) < 1.0
    assert abs(best.noise_std - 2.0) < 0.1
    assert best.intercept.tolist() == [0.0] * 24


def test_finds_an_intercept_along_with_the_features():
    """Only the fit is sure: a feature and its complement are as good as each other."""
    X, Z, A, hyper = planted(np.random.default_rng(0))
    X += 1000.0
    _, state, _ = fit(
        X,
        250,
        centre=np.nanmean(X, axis=0),
        hyperparameters=hyper,
        intercept_std=20.0,
        burn_in=100,
    )
    best = likeliest(state)
    fitted = best.intercept + best.assignments @ best.components
    assert root_mean_square(fitted - 1000.0 - Z @ A) < 1.0
    assert abs(best.noise_std - 2.0) < 0.1


def test_truncated_start_is_padded_and_unbounded_start_loses_empty_columns():
    Z = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 0]])
    X = np.random.default_rng(0).normal(size=(3, 2))
    _, _, state = begin(X, start=start_at(Z))
    assert state.features.tolist() == Z[:, [0, 2]].tolist()
    method, _, state = begin(X, prior=FinitePrior(5), start=start_at(Z))
    assert state.features.shape == (3, 5)
    assert method.n_components_in_use(state) == 2
    assert state.assignments.tolist() == Z[:, [0, 2]].tolist()
    with pytest.raises(ValueError, match="more than"):
        begin(X, prior=FinitePrior(2), start=start_at(Z))


def test_nothing_to_find():
    """No feature at all, a row with nothing observed, a single row."""
    X = np.full((4, 3), np.nan)
    X[1] = 0.0
    method, context, state = begin(X, hyperparameters=known(1.0, 1.0, 1e-9))
    assert np.isfinite(method.step(context, state).evidence)
    method, context, state = begin(
        np.ones((1, 1)), hyperparameters=Hyperparameters(GAMMA, GAMMA, GAMMA), intercept_std=1.0
    )
    for _ in range(20):
        assert np.isfinite(method.step(context, state).evidence)


def test_key_of_chain_is_that_of_the_state():
    X = np.random.default_rng(0).normal(size=(4, 2))
    method, context, state = begin(X, hyperparameters=known(alpha=3.0))
    assert chain_of(method, context, state, 1, 0)[0] == key_of(state.assignments)
