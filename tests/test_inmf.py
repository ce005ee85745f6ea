"""INMF: tilted moments, expectation propagation, the objective, rows, and growth."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import betaln, digamma, entr, expit, gammaln, logsumexp

from ibp.data import Observations, all_rows
from ibp.datasets import make_block_images
from ibp.kernels.nonnegative_sites import Settings, Sites, update_sites
from ibp.loop import run
from ibp.methods.context import Context
from ibp.methods.inmf.candidate import objective, optimal_sticks
from ibp.methods.inmf.growth import new_feature
from ibp.methods.inmf.method import INMFMethod
from ibp.methods.row_forms import RowForms
from ibp.methods.soft_rows import RowTask, ascend_rows
from ibp.model import Hyperparameters
from ibp.model import expectation_propagation as ep
from ibp.parallel import Threads
from ibp.starts.codes_and_factors import CodesAndFactors
from problems import missing_kinds, random_data, random_hyperparameters, seeds, stop_after

KNOWN = Hyperparameters.known(noise_std=0.5, factor_std=1.0, alpha=1.0)


# Tilted distributions


def exact_tilted(cavity_precision, cavity_linear, factor_precision, power):
    """Moments and log-normaliser of a Gaussian cut at zero, with many digits."""
    with mpmath.workdps(120):
        precision = mpmath.mpf(cavity_precision) + mpmath.mpf(power) * factor_precision
        scale = 1 / mpmath.sqrt(precision)
        location = mpmath.mpf(cavity_linear) / precision
        ratio = location / scale
        mass = mpmath.erfc(-ratio / mpmath.sqrt(2)) / 2
        hazard = mpmath.npdf(ratio) / mass
        mean = location + scale * hazard
        variance = scale**2 * (1 - hazard * (hazard + ratio))
        log_normalizer = mpmath.log(mpmath.sqrt(2 * mpmath.pi) * scale * mass) + ratio**2 / 2
        return float(mean), float(variance), float(log_normalizer)


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("cavity_precision", [0.0, 1e-6, 1.0, 1e8])
@pytest.mark.parametrize("cavity_linear", [-1e9, -1e3, -2.0, 0.0, 1e-3, 5.0, 1e6])
def test_tilted_moments_are_exact_at_extreme_arguments(cavity_precision, cavity_linear, power):
    found = ep.tilted(cavity_precision, cavity_linear, 0.7, power)
    mean, variance, log_normalizer = exact_tilted(cavity_precision, cavity_linear, 0.7, power)
    assert_allclose(found.mean, mean, rtol=1e-11)
    assert_allclose(found.variance, variance, rtol=1e-10)
    assert_allclose(found.log_normalizer, log_normalizer, rtol=1e-12, atol=1e-12)
    # The cavity with the new site has the tilted moments, up to how they are added here.
    precision = cavity_precision + power * found.site_precision
    assert_allclose(precision * variance, 1.0, rtol=1e-9)
    assert_allclose((cavity_linear + power * found.site_linear) / precision, mean, rtol=1e-6)
    assert found.site_precision >= 0.7


@pytest.mark.parametrize("power", [1.0, 0.4])
def test_tilted_moments_agree_with_quadrature(power):
    def density(a):
        return mpmath.exp(-1.3 * a**2 / 2 - 0.8 * a - power * 0.6 * a**2 / 2)

    mass, first, second = (
        mpmath.quad(lambda a, n=n: a**n * density(a), [0, 1, 3, 20]) for n in range(3)
    )
    found = ep.tilted(1.3, -0.8, 0.6, power)
    assert_allclose(found.mean, float(first / mass), rtol=1e-12)
    assert_allclose(found.variance, float(second / mass - (first / mass) ** 2), rtol=1e-11)
    assert_allclose(found.log_normalizer, float(mpmath.log(mass)), rtol=1e-12)


# Expectation propagation


class Columns:
    """A random problem of some columns, and the compiled answer to it."""

    def __init__(self, rng, n_components, n_columns=3, scale=3.0):
        codes = rng.random((12, n_components))
        moments = codes.T @ codes
        np.fill_diagonal(moments, codes.sum(axis=0))
        self.noise_precision, self.factor_precision = rng.uniform(0.3, 2.0, size=2)
        self.moments = moments
        self.cross = scale * rng.normal(size=(n_components, n_columns))

    def settle(self, power=1.0, damping=0.0, n_passes=30):
        k, d = self.cross.shape
        self.site_precision = np.full((d, k), self.factor_precision)
        self.site_linear = np.zeros((d, k))
        self.mean, self.covariance, self.log_partition = update_sites(
            self.moments[None],
            self.cross,
            np.zeros(d, dtype=np.int64),
            Settings(self.noise_precision, self.factor_precision, power, damping, n_passes),
            Sites(self.site_precision, self.site_linear),
        )
        return self

    def column(self, d):
        return self.noise_precision * self.moments, self.noise_precision * self.cross[:, d]

    def whole_log_partition(self, d):
        quadratic, linear = self.column(d)
        mean = self.mean[:, d]
        return self.log_partition[d] + linear @ mean - 0.5 * mean @ quadratic @ mean


legendre = cache(np.polynomial.legendre.leggauss)


def integrate(quadratic, linear, factor_precision, n_nodes):
    """ln Z, mean and variances over the positive orthant by a product of Gauss-Legendre rules."""
    k = linear.size
    precision = quadratic + factor_precision * np.eye(k)
    nodes, weights = legendre(n_nodes)
    spread = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    middle = np.linalg.solve(precision, linear)
    low = np.maximum(middle - 9 * spread, 0.0)
    high = np.maximum(middle, 0.0) + 9 * spread
    points = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * nodes
    grid = np.stack(np.meshgrid(*points, indexing="ij"), axis=-1).reshape(-1, k)
    log_weights = np.log(0.5 * (high - low)[:, None] * weights)
    log_weight = sum(np.meshgrid(*log_weights, indexing="ij")).ravel()
    log_density = grid @ linear - 0.5 * np.einsum("nk,kl,nl->n", grid, precision, grid)
    log_z = logsumexp(log_density + log_weight)
    share = np.exp(log_density + log_weight - log_z)
    mean = share @ grid
    return log_z, mean, share @ (grid - mean) ** 2


def test_one_factor_is_exact():
    for seed in range(5):
        problem = Columns(np.random.default_rng(seed), 1).settle(n_passes=1)
        for d in range(3):
            log_z, mean, variance = integrate(*problem.column(d), problem.factor_precision, 120)
            assert_allclose(problem.mean[:, d], mean, rtol=1e-9)
            assert_allclose(np.diagonal(problem.covariance[d]), variance, rtol=1e-8)
            assert_allclose(problem.whole_log_partition(d), log_z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n_components", "n_nodes"), [(2, 120), (3, 50)])
def test_marginals_agree_with_numerical_integration(n_components, n_nodes):
    """Means to 1% of a deviation, variances to 2%, ln Z to 0.01."""
    for seed in range(6):
        problem = Columns(np.random.default_rng(seed), n_components).settle()
        for d in range(3):
            log_z, mean, variance = integrate(*problem.column(d), problem.factor_precision, n_nodes)
            assert_allclose((problem.mean[:, d] - mean) / np.sqrt(variance), 0.0, atol=0.01)
            assert_allclose(np.diagonal(problem.covariance[d]), variance, rtol=0.02)
            assert_allclose(problem.whole_log_partition(d), log_z, atol=0.01)


def test_half_the_power_underestimates_variances():
    """The smaller rho, the more q avoids the mass that is cut: as it does for one factor."""
    for seed in range(6):
        problem = Columns(np.random.default_rng(seed), 2).settle(power=0.5)
        for d in range(3):
            log_z, mean, variance = integrate(*problem.column(d), problem.factor_precision, 120)
            assert_allclose((problem.mean[:, d] - mean) / np.sqrt(variance), 0.0, atol=0.1)
            ratio = np.diagonal(problem.covariance[d]) / variance
            assert (ratio > 0.5).all()
            assert (ratio < 1.0).all()
            assert log_z - 0.5 < problem.whole_log_partition(d) < log_z


@pytest.mark.parametrize("power", [1.0, 0.5, 0.2])
def test_fixed_points_match_the_moments_of_the_tilted_marginals(power):
    """q(a_k) (t / site)^power, integrated numerically, has the moments of q(a_k)."""
    problem = Columns(np.random.default_rng(3), 3).settle(power, 1.0 - power, n_passes=400)
    for d in range(3):
        for k in range(3):
            mean, variance = problem.mean[k, d], problem.covariance[d, k, k]
            precision = problem.factor_precision - problem.site_precision[d, k]
            grid, weights = legendre(120)
            top = max(mean, 0.0) + 30 * np.sqrt(variance)
            a = 0.5 * top * (grid + 1.0)
            log_density = -0.5 * (a - mean) ** 2 / variance - power * (
                0.5 * precision * a**2 + problem.site_linear[d, k] * a
            )
            density = weights * np.exp(log_density - log_density.max())
            density /= density.sum()
            assert_allclose(density @ a, mean, rtol=1e-6)
            assert_allclose(density @ (a - mean) ** 2, variance, rtol=1e-6)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_derivatives_of_the_partition_function_are_the_moments(power):
    problem = Columns(np.random.default_rng(8), 3, n_columns=1).settle(power, n_passes=200)
    mean, covariance = problem.mean[:, 0].copy(), problem.covariance[0].copy()
    step = 1e-5

    def difference(array, *places):
        values = []
        for sign in (1.0, -1.0):
            for place in places:
                array[place] += sign * step
            problem.settle(power, n_passes=200)
            values.append(problem.whole_log_partition(0))
            for place in places:
                array[place] -= sign * step
        return (values[0] - values[1]) / (2.0 * step * problem.noise_precision)

    assert_allclose(difference(problem.cross, (1, 0)), mean[1], rtol=1e-6)
    second = covariance + np.outer(mean, mean)
    assert_allclose(difference(problem.moments, (0, 0)), -0.5 * second[0, 0], rtol=1e-6)
    assert_allclose(difference(problem.moments, (0, 2), (2, 0)), -second[0, 2], rtol=1e-6)


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_kernel_agrees_with_the_plain_version(power, damping):
    for seed, k in enumerate([1, 2, 5]):
        problem = Columns(np.random.default_rng(seed), k).settle(power, damping, n_passes=4)
        for d in range(3):
            quadratic, linear = problem.column(d)
            sites = ep.Sites(np.full(k, problem.factor_precision), np.zeros(k))
            for _ in range(4):
                sites = ep.pass_over_sites(
                    quadratic, linear, sites, problem.factor_precision, power, damping
                )
            mean, covariance = ep.posterior(quadratic, linear, sites)
            assert_allclose(problem.mean[:, d], mean, rtol=1e-10)
            assert_allclose(problem.covariance[d], covariance, rtol=1e-10, atol=1e-14)
            assert_allclose(problem.site_precision[d], sites.precision, rtol=1e-10)
            assert_allclose(problem.site_linear[d], sites.linear, rtol=1e-9, atol=1e-12)
            expected = ep.log_partition(quadratic, linear, sites, problem.factor_precision, power)
            assert_allclose(problem.whole_log_partition(d), expected, rtol=1e-11)


@given(seed=seeds, power=st.sampled_from([1.0, 0.5]), damping=st.sampled_from([0.0, 0.5]))
@settings(max_examples=60)
def test_no_negative_variance_whatever_the_data(seed, power, damping):
    rng = np.random.default_rng(seed)
    k, d, n = int(rng.integers(1, 9)), 4, int(rng.integers(1, 12))
    codes = rng.random((n, k)) ** rng.choice([0.001, 1.0, 50.0])
    if k > 1 and rng.random() < 0.5:
        codes[:, 1] = codes[:, 0] = codes[:, 0].round()  # equal and certain: a singular E[Z'Z]
    if rng.random() < 0.3:
        codes[:, -1] = 0.0
    problem = Columns(rng, k, d)
    problem.moments = codes.T @ codes
    np.fill_diagonal(problem.moments, codes.sum(axis=0))
    problem.cross = codes.T @ rng.normal(rng.choice([-3.0, 0.0, 3.0]), 1.0, size=(n, d))
    problem.cross *= 10.0 ** rng.integers(-20, 20)
    problem.noise_precision = 10.0 ** rng.integers(-15, 15)
    problem.factor_precision = 10.0 ** rng.integers(-15, 15)
    problem.settle(power, damping, n_passes=5)
    assert (problem.site_precision >= problem.factor_precision * (1.0 - 1e-12)).all()
    for part in (problem.mean, problem.covariance, problem.site_linear, problem.log_partition):
        assert np.isfinite(part).all()
    for j in range(d):
        variance = np.diagonal(problem.covariance[j])
        assert (variance > 0).all()
        assert_array_equal(problem.covariance[j], problem.covariance[j].T)
        scale = np.sqrt(variance)
        np.linalg.cholesky(problem.covariance[j] / np.outer(scale, scale) + 1e-14 * np.eye(k))


# Rows


def random_candidate(seed, missing, learned=False, n=14, d=7, k=3, **settings_of_method):
    """A method, its context and a state after a sweep, with nothing at rest."""
    rng = np.random.default_rng(seed)
    X = random_data(rng, n, d, missing=missing)
    observations = Observations.from_array(X)
    hyper = random_hyperparameters(rng, learned, k, d, observations.n_observed)
    start = CodesAndFactors(rng.random((n, k)))
    method = INMFMethod(hyper, start=start, n_components=k, tol=0.0, **settings_of_method)
    context = Context(observations, rng)
    state = method.init(context)
    method.step(context, state)
    return method, context, state


def naive_rows(X, mean, covariance, log_odds, noise_precision, probabilities):
    """One pass over the rows, entry by entry; columns in the user's order."""
    e = probabilities.copy()
    for i in range(X.shape[0]):
        for k in range(e.shape[1]):
            logit = log_odds[k]
            for j in np.flatnonzero(~np.isnan(X[i])):
                second = covariance[j] + np.outer(mean[:, j], mean[:, j])
                others = sum(e[i, r] * second[r, k] for r in range(e.shape[1]) if r != k)
                logit -= 0.5 * noise_precision * (2 * others + second[k, k])
                logit += noise_precision * X[i, j] * mean[k, j]
            e[i, k] = expit(logit)
    return e


def updated(observations, candidate, log_odds, noise_precision):
    """Probabilities and entropies after a pass over all rows."""
    covariance = candidate.covariance
    forms = RowForms(observations, candidate.mean, noise_precision, covariance=covariance)
    forms.make_all()
    task = RowTask(observations, forms, log_odds, candidate.probabilities)
    return ascend_rows(task, slice(0, observations.n_samples))


@given(seed=seeds, missing=missing_kinds)
@settings(max_examples=12)
def test_rows_agree_with_the_slow_update(seed, missing):
    _, context, state = random_candidate(seed, missing)
    observations, candidate = context.observations, state.current
    frozen = state.frozen(observations.layout)
    precision = candidate.hyperparameters.noise_precision.mean
    log_odds = candidate.sticks.mean_log_odds
    before = candidate.probabilities.copy()
    found, entropy = updated(observations, candidate, log_odds, precision)
    assert_array_equal(candidate.probabilities, before)
    X = all_rows(observations.source)
    expected = naive_rows(X, frozen.mean, frozen.covariance, log_odds, precision, before)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
    assert_allclose(entropy, (entr(expected) + entr(1 - expected)).sum(axis=1), atol=1e-9)


def test_common_patterns_have_a_form_of_their_own():
    """Many rows of one pattern, narrow and wide, against the slow update."""
    rng = np.random.default_rng(0)
    X = random_data(rng, 40, 7)
    X[:12, 2:4] = np.nan
    X[12:24, 1:] = np.nan
    X[24, 5] = np.nan
    observations = Observations.from_array(X)
    assert len(observations.shared_patterns.missing) == 3
    start = CodesAndFactors(rng.random((40, 3)))
    state = INMFMethod(KNOWN, start=start).init(Context(observations, rng))
    found, _ = updated(observations, state.current, np.zeros(3), 4.0)
    frozen, before = state.frozen(observations.layout), state.current.probabilities
    expected = naive_rows(X, frozen.mean, frozen.covariance, np.zeros(3), 4.0, before)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_sticks():
    probabilities = np.array([[0.9, 0.1], [0.8, 0.0], [0.6, 0.2]])
    sticks = optimal_sticks(probabilities)
    assert_allclose(sticks.first, [2.3, 1.0])
    assert_allclose(sticks.second, [1.7, 3.0])
    assert_allclose(sticks.mean_log_odds, digamma([2.3, 1.0]) - digamma([1.7, 3.0]))


# The objective


def naive_objective(X, e, mean, covariance, sites, hyper, power):
    """L by sums over entries; columns in the user's order."""
    n, k = e.shape
    tau, tau_a, alpha = hyper.noise_precision, hyper.factor_precision, hyper.alpha
    total = 0.0
    for j in range(X.shape[1]):
        seen = np.flatnonzero(~np.isnan(X[:, j]))
        moments = np.zeros((k, k))
        for i in seen:
            moments += np.outer(e[i], e[i])
            moments[np.diag_indices(k)] += e[i] * (1 - e[i])
        quadratic, linear = tau.mean * moments, tau.mean * (X[seen, j] @ e[seen])
        column = ep.Sites(sites[0][j], sites[1][j])
        assert_allclose(ep.posterior(quadratic, linear, column)[0], mean[:, j], rtol=1e-8)
        total += ep.log_partition(quadratic, linear, column, tau_a.mean, power)
        total += k * 0.5 * (tau_a.mean_log + np.log(2 / np.pi))
        total += 0.5 * seen.size * (tau.mean_log - np.log(2 * np.pi))
        total -= 0.5 * tau.mean * (X[seen, j] ** 2).sum()
    counts = np.maximum(e.sum(axis=0), 1.0)
    total += betaln(counts, n - counts + 1).sum() + k * alpha.mean_log - gammaln(k + 1)
    total -= alpha.mean * (1.0 / np.arange(1, n + 1)).sum()
    return total + (entr(e) + entr(1 - e)).sum() - hyper.divergence()


@given(seed=seeds, missing=missing_kinds, learned=st.booleans())
@settings(max_examples=12)
def test_objective_agrees_with_the_slow_one(seed, missing, learned):
    power = 0.5 if seed % 2 else 1.0
    method, context, state = random_candidate(seed, missing, learned, power=power)
    candidate, observations = state.current, context.observations
    place = np.argsort(observations.layout.column_order)
    expected = naive_objective(
        all_rows(observations.source),
        candidate.probabilities,
        observations.layout.restore(candidate.mean),
        candidate.covariance[place],
        (candidate.site_precision[place], candidate.site_linear[place]),
        candidate.hyperparameters,
        method.power,
    )
    assert_allclose(candidate.objective, expected, rtol=1e-8)
    assert_allclose(objective(observations, candidate), candidate.objective, rtol=1e-12)


@pytest.mark.parametrize(("k", "tolerance"), [(1, 1e-7), (2, 0.02)])
def test_factor_part_is_the_best_mean_field_bound(k, tolerance):
    """One dimension: against the integral of exp(E ln p(X, A | Z)) over nonnegative factors."""
    rng = np.random.default_rng(4)
    X = np.abs(rng.normal(size=(9, 1)))
    e = rng.uniform(0.3, 0.9, size=(9, k))
    start = CodesAndFactors(e)
    state = INMFMethod(KNOWN, start=start).init(Context(Observations.from_array(X), rng))
    moments = e.T @ e
    np.fill_diagonal(moments, e.sum(axis=0))
    log_z, _, _ = integrate(4.0 * moments, 4.0 * (X[:, 0] @ e), 1.0, 120)
    counts = np.maximum(e.sum(axis=0), 1.0)
    expected = (
        log_z
        + 0.5 * k * np.log(2 / np.pi)
        + 0.5 * 9 * np.log(4.0 / (2 * np.pi))
        - 0.5 * 4.0 * (X**2).sum()
        + betaln(counts, 10 - counts).sum()
        - gammaln(k + 1)
        - (1.0 / np.arange(1, 10)).sum()
        + (entr(e) + entr(1 - e)).sum()
    )
    assert_allclose(state.current.objective, expected, atol=tolerance)


@given(seed=seeds, missing=missing_kinds)
@settings(max_examples=8)
def test_hyperparameters_and_likelihood_agree_with_slow_sums(seed, missing):
    method, context, state = random_candidate(seed, missing, learned=True)
    candidate, observations = state.current, context.observations
    X = all_rows(observations.source)
    method.step(context, state)
    mean, covariance = candidate.mean, candidate.covariance
    e = candidate.probabilities
    error, plain_error = 0.0, 0.0
    for position, column in enumerate(observations.layout.column_order):
        second = covariance[position] + np.outer(mean[:, position], mean[:, position])
        for i in np.flatnonzero(~np.isnan(X[:, column])):
            moments = np.outer(e[i], e[i]) + np.diag(e[i] * (1 - e[i]))
            x = X[i, column]
            error += x**2 - 2 * x * e[i] @ mean[:, position] + (moments * second).sum()
            plain_error += (x - e[i] @ mean[:, position]) ** 2
    old, new = candidate.hyperparameters, state.current.hyperparameters
    k, d = mean.shape
    tau = new.noise_precision
    assert_allclose(tau.rate, tau.prior_rate + 0.5 * error, rtol=1e-8)
    assert_allclose(tau.shape, tau.prior_shape + 0.5 * observations.n_observed)
    tau_a = new.factor_precision
    squares = (mean**2).sum() + np.diagonal(covariance, axis1=1, axis2=2).sum()
    assert_allclose(tau_a.rate, tau_a.prior_rate + 0.5 * squares, rtol=1e-9)
    assert_allclose(tau_a.shape, tau_a.prior_shape + 0.5 * k * d)
    harmonic = (1.0 / np.arange(1, X.shape[0] + 1)).sum()
    assert_allclose(new.alpha.mean, (1.0 + k) / (1.0 + harmonic), rtol=1e-9)
    state.best, state.current = None, candidate
    likelihood = method.report(context, state).train_log_likelihood
    precision = old.noise_precision.mean
    expected = 0.5 * np.log(precision / (2 * np.pi))
    expected -= 0.5 * precision * plain_error / observations.n_observed
    assert_allclose(likelihood, expected, rtol=1e-8)


# Whole runs


def fitted(X, hyper=KNOWN, seed=0, max_iter=400, n_jobs=1, **settings_of_method):
    observations = Observations.from_array(X)
    method = INMFMethod(hyper, **settings_of_method)
    generators = [np.random.default_rng(seed)]
    return run(
        method, observations, generators, executor=Threads(n_jobs), max_iter=max_iter, tol=0.0
    )


def frozen_model(fit):
    """The fitted model, for new rows."""
    return fit.state.frozen(fit.context.observations.layout)


@pytest.fixture(scope="module")
def images():
    return make_block_images(300, noise_std=0.5, random_state=1)


@pytest.fixture(scope="module")
def fit(images):
    return fitted(images.data)


def test_features_are_recovered_growing_from_one(images, fit):
    history = fit.history.as_arrays()
    assert fit.ending == "converged"
    assert history["n_components"][0] == 1
    assert history["n_components"][-1] == 4
    assert (np.diff(history["n_components"]) >= 0).all()
    assert (np.diff(history["evidence"]) >= 0).all()
    state = fit.state
    factors = frozen_model(fit).mean
    alike = np.corrcoef(factors, images.factors)[:4, 4:]
    order = alike.argmax(axis=1)
    assert_array_equal(np.sort(order), np.arange(4))
    wrong = (state.best_known.probabilities > 0.5) != images.assignments[:, order]
    assert wrong.mean() < 0.02
    assert_allclose(factors, images.factors[order], atol=0.25)
    assert fit.evidence == state.best_known.objective


def test_learned_variances(images):
    hyper = random_hyperparameters(np.random.default_rng(0), True, 4, 36, images.data.size)
    state = fitted(images.data, hyper).state
    assert state.best_known.n_components == 4
    assert_allclose(state.best_known.hyperparameters.noise_std, 0.5, rtol=0.05)


def test_at_most_so_many_features(images):
    fit = fitted(images.data, n_components=2)
    assert fit.ending == "converged"
    assert fit.state.best_known.n_components == 2


def test_scattered_entries_are_filled_in(images):
    X = images.data.copy()
    hidden = np.random.default_rng(0).random(X.shape) < 0.15
    X[hidden] = np.nan
    fit = fitted(X)
    assert fit.state.best_known.n_components == 4
    guess = fit.state.best_known.probabilities @ frozen_model(fit).mean
    truth = images.assignments @ images.factors
    assert np.sqrt(((guess - truth)[hidden] ** 2).mean()) < 0.2


def test_same_seed_same_answer_whatever_the_threads(images):
    X = images.data.copy()
    X[:40, 5] = np.nan
    one, again, two = (
        fitted(X, n_jobs=n_jobs, seed=3, max_iter=40).state.current for n_jobs in (1, 1, 2)
    )
    for other in (again, two):
        assert_array_equal(one.probabilities, other.probabilities)
        assert_array_equal(one.covariance, other.covariance)
        assert one.objective == other.objective


@pytest.mark.parametrize("missing", ["none", "block"])
def test_sparse_is_dense(missing):
    """With stored NaNs from a given start: the guess at a new feature may differ then."""
    rng = np.random.default_rng(2)
    X = random_data(rng, 60, 8, missing="none")
    X[np.abs(X) < 0.5] = 0.0
    start = None
    if missing == "block":
        X[30:, :2] = np.nan
        start = CodesAndFactors(rng.random((60, 3)))
    bound = 3 if start else None
    dense = fitted(X, start=start, n_components=bound, max_iter=60).state.best_known
    thin = fitted(
        sparse.csr_array(X), start=start, n_components=bound, max_iter=60
    ).state.best_known
    assert_allclose(thin.probabilities, dense.probabilities, atol=1e-5)
    assert_allclose(thin.objective, dense.objective, rtol=1e-7)


def test_order_of_columns_does_not_matter():
    rng = np.random.default_rng(5)
    X = random_data(rng, 50, 6, missing="scattered")
    order = rng.permutation(6)
    fits = [fitted(x, max_iter=30) for x in (X, X[:, order])]
    here, there = (fit.state.best_known.probabilities for fit in fits)
    assert_allclose(there, here, atol=1e-6)
    here, there = (frozen_model(fit) for fit in fits)
    assert_allclose(there.mean, here.mean[:, order], atol=1e-6)
    assert_allclose(there.covariance, here.covariance[order], atol=1e-6)


def test_dropping_a_row_that_misses_everything(images):
    """Such a row says nothing about the factors, only how many rows there are."""
    X = np.vstack([images.data[:50], np.full((2, 36), np.nan)])
    state = fitted(X, max_iter=20).state
    assert_allclose(state.best_known.probabilities[50], state.best_known.probabilities[51])
    observations = Observations.from_array(X)
    codes = np.random.default_rng(0).random((52, 2))
    method = INMFMethod(KNOWN, start=CodesAndFactors(codes))
    whole = method.init(Context(observations)).current
    method = INMFMethod(KNOWN, start=CodesAndFactors(codes[:50]))
    part = method.init(Context(Observations.from_array(X[:50]))).current
    assert_allclose(whole.mean, part.mean, rtol=1e-9)
    assert_allclose(whole.covariance, part.covariance, rtol=1e-9, atol=1e-14)


def test_given_start_keeps_its_features_and_may_grow(images):
    start = CodesAndFactors(images.assignments[:, :3].astype(np.float64), images.factors[:3])
    fit = fitted(images.data, start=start)
    assert fit.history.sweeps[0].n_components == 3
    assert fit.state.best_known.n_components == 4
    probabilities = fit.state.best_known.probabilities
    assert ((probabilities[:, :3] > 0.5) != images.assignments[:, :3]).mean() < 0.02


def test_a_start_may_be_kept_from_growing(images):
    start = CodesAndFactors(images.assignments[:, :3].astype(np.float64))
    fit = fitted(images.data, start=start, n_tries=0)
    assert fit.ending == "converged"
    assert fit.state.best_known.n_components == 3


def test_single_precision(images, fit):
    single = fitted(images.data.astype(np.float32)).state
    assert single.best_known.n_components == 4
    assert_allclose(single.best_known.probabilities, fit.state.best_known.probabilities, atol=0.02)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_data_without_features_lose_them_all(kind):
    X = kind(-np.abs(np.random.default_rng(0).normal(size=(30, 4))))
    fit = fitted(X)
    assert fit.state.best_known.n_components == 0
    assert frozen_model(fit).assign(fit.context.observations, Threads()).shape == (30, 0)


def test_new_rows(images, fit):
    frozen = frozen_model(fit)
    new = make_block_images(100, noise_std=0.5, random_state=9)
    found = frozen.assign(Observations.from_array(new.data), Threads())
    order = np.corrcoef(frozen.mean, images.factors)[:4, 4:].argmax(axis=1)
    assert ((found > 0.5) != new.assignments[:, order]).mean() < 0.03
    for piece in (new.data[7:9], new.data[8:9]):
        alone = frozen.assign(Observations.from_array(piece), Threads(2))
        assert_allclose(alone[-1], found[8], atol=1e-12)
    thin = frozen.assign(Observations.from_array(sparse.csr_array(new.data)), Threads())
    assert_allclose(thin, found, atol=1e-8)
    X = new.data.copy()
    X[:50, :6] = np.nan
    X[50:, :30] = np.nan
    assert np.isfinite(frozen.assign(Observations.from_array(X), Threads())).all()
    stopped = frozen.assign(Observations.from_array(X), Threads(), should_stop=lambda: True)
    assert_allclose(stopped, np.tile(expit(frozen.log_odds), (100, 1)))


@pytest.mark.parametrize("n_checks", [0, 1, 3, 9, 30])
def test_told_to_stop_the_best_is_left(images, n_checks):
    observations = Observations.from_array(images.data[:60])
    method = INMFMethod(KNOWN, tol=1e-3)
    context = Context(observations, np.random.default_rng(0))
    state = method.init(replace(context, should_stop=lambda: True))
    for _ in range(12):
        method.step(context, state)
    before = method.report(context, state).evidence
    report = method.step(replace(context, should_stop=stop_after(n_checks)), state)
    assert report.evidence >= before
    candidate = state.best_known
    assert np.isfinite(candidate.objective)
    assert_allclose(objective(observations, candidate), candidate.objective, rtol=1e-12)
    assert candidate.mean.shape == (candidate.n_components, 36)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 3)),
        np.full((6, 2), 4.0),
        -np.abs(np.random.default_rng(0).normal(size=(20, 3))),
        np.random.default_rng(0).normal(size=(1, 4)),
        np.abs(np.random.default_rng(0).normal(size=(8, 1))) * 1e12,
        np.abs(np.random.default_rng(0).normal(size=(8, 2))) * 1e-12,
        np.where(np.arange(12).reshape(4, 3) % 3 == 0, np.nan, 1.0),
    ],
    ids=["zeros", "constant", "negative", "one row", "huge", "tiny", "an empty column"],
)
def test_strange_data(X):
    fit = fitted(X)
    candidate = fit.state.best_known
    assert fit.ending == "converged"
    assert np.isfinite(candidate.objective)
    assert np.isfinite(candidate.probabilities).all()
    assert (np.diagonal(candidate.covariance, axis1=1, axis2=2) > 0).all()
    assert np.isfinite(frozen_model(fit).assign(fit.context.observations, Threads())).all()


def test_new_feature_finds_what_is_left():
    rng = np.random.default_rng(0)
    on = rng.random(400) < 0.1
    X = np.outer(on, [3.0, 0.0, 3.0]) + 0.1 * rng.normal(size=(400, 3)) + 1.0
    codes, mean = np.full((400, 1), 1.0), np.ones((1, 3))
    for tries in (0, 1):
        found = new_feature(Context(Observations.from_array(X), rng), codes, mean, tries)
        assert tries or ((found > 0.5) == on).all()
        assert ((found > 0.0) & (found < 1.0)).all()


@pytest.mark.parametrize("wrong", [{"power": 0.0}, {"power": 1.5}, {"damping": 1.0}])
def test_settings_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        fitted(np.ones((3, 2)), **wrong)


def test_a_centre_is_refused():
    observations = Observations.from_array(np.ones((3, 2)), centre=np.ones(2))
    with pytest.raises(ValueError, match="intercept"):
        INMFMethod(KNOWN).init(Context(observations))
