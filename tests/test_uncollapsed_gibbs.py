"""Uncollapsed Gibbs sampling: exact where that can be checked, and as quick and steady as said."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache, partial

import mpmath
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import log_ndtr

import ibp
from enumeration import (
    all_keys,
    assert_matches,
    exact_posterior,
    gaussian_log_likelihood,
    key_of,
    matrix_of,
    p_value,
    truncated_log_prior,
    unbounded_log_prior,
)
from ibp.blas import single_threaded_blas
from ibp.compiled import kernel
from ibp.data import Observations, summarize
from ibp.kernels import uncollapsed_gibbs as kernels
from ibp.methods.context import Context
from ibp.methods.uncollapsed_gibbs.method import UncollapsedGibbsMethod
from ibp.model import (
    GammaPosterior,
    Hyperparameters,
    Known,
    LeftOrderedClasses,
    Statistics,
    sample_assignments,
)
from ibp.model.assignment_priors import FinitePrior, UnboundedPrior, log_beta_draws, prior_of
from ibp.model.ibp_prior import harmonic_number
from ibp.model.new_feature import (
    draw_prior,
    factor_conditional,
    log_prior_density,
    log_ratio,
    log_scaled_cdf,
)
from ibp.parallel import Threads
from ibp.starts.codes_and_factors import CodesAndFactors
from problems import random_data, stop_after

FACTORS = ("half_normal", "gaussian")


def row_model(
    factors="half_normal",
    n_samples=10,
    noise=1.7,
    factor=0.6,
    alpha=1.0,
    pseudo_count=0.0,
):
    return kernels.RowModel(
        n_samples, noise, factor, factors == "half_normal", pseudo_count, alpha / n_samples
    )


def make_method(factors="half_normal", n_components=None, *, alpha=2.0, noise_std=0.5, **settings):
    defaults = {
        "burn_in": 0,
        "thin": 1,
        "hyperparameters": Hyperparameters.known(noise_std=noise_std, factor_std=1.0, alpha=alpha),
    }
    return UncollapsedGibbsMethod(
        factors=factors, prior=prior_of(n_components), **(defaults | settings)
    )


def context_of(X, seed):
    """X about zero, with a generator."""
    return Context(Observations.from_array(X), np.random.default_rng(seed))


# ---- one new feature, in closed form


@pytest.mark.parametrize("x", [-1e6, -300.0, -40.0, -5.1, -4.9, -1.0, -1e-9, 0.0, 0.3, 6.0, 40.0])
def test_log_scaled_cdf_is_accurate_in_both_tails(x):
    with mpmath.workdps(60):
        z = mpmath.mpf(x)
        exact = float(
            -mpmath.log(2)
            + (
                z**2 / 2 + mpmath.log(mpmath.erfc(-z / mpmath.sqrt(2)))
                if abs(x) < 1e4
                else mpmath.log(mpmath.sqrt(2 / mpmath.pi) / -z * (1 - 1 / z**2))
            )
        )
    np.testing.assert_allclose(log_scaled_cdf(x), exact, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(kernels.log_scaled_cdf(x), exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("residual", [-60.0, -4.0, -0.2, 0.0, 1.5, 25.0])
@pytest.mark.parametrize("precisions", [(1.7, 0.6), (0.05, 3.0), (40.0, 0.3)])
def test_new_feature_marginal_is_the_integral(factors, residual, precisions):
    tau_noise, tau_factor = precisions
    with mpmath.workdps(40):

        def log_integrand(a):
            return -tau_noise / 2 * (residual - a) ** 2 - tau_factor / 2 * mpmath.mpf(a) ** 2

        middle = residual * tau_noise / (tau_noise + tau_factor)
        scale = (tau_noise + tau_factor) ** -0.5
        if factors == "half_normal":
            # Where the integrand falls off: as an exponential if its top is left of zero.
            slope = max(-middle, scale) / scale**2
            begin = max(middle, 0.0)
            points = [0.0] if begin == 0.0 else [0.0, max(begin - 12 * scale, 0.0), begin]
            points += [begin + t * min(scale, 1 / slope) for t in (1, 5, 20, 60)]
            points = sorted(set(points))
        else:
            points = [middle + t * scale for t in (-14, -4, 0, 4, 14)]
        top = max(float(log_integrand(p)) for p in points)
        integral = mpmath.quad(lambda a: mpmath.exp(log_integrand(a) - top), points)
        height = mpmath.sqrt(tau_factor / (2 * mpmath.pi)) * (2 if factors == "half_normal" else 1)
        exact = float(
            mpmath.log(height * integral) + top + tau_noise / 2 * mpmath.mpf(residual) ** 2
        )
    r = np.array([residual])
    np.testing.assert_allclose(log_ratio(r, *precisions, factors), exact, rtol=1e-9, atol=1e-10)
    model = row_model(factors, noise=tau_noise, factor=tau_factor)
    np.testing.assert_allclose(
        kernels.log_new_feature(r, np.array([True]), model), exact, rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("factors", FACTORS)
def test_entries_that_are_missing_say_nothing_of_a_new_feature(factors):
    residual = np.random.default_rng(0).normal(size=7) * 3
    observed = np.array([True, False, True, True, False, True, True])
    np.testing.assert_allclose(
        kernels.log_new_feature(residual, observed, row_model(factors)),
        log_ratio(residual[observed], 1.7, 0.6, factors),
        rtol=1e-12,
    )


# ---- draws


def truncated_cdf(location, scale):
    """Of TN(location, scale), without cancellation in the tail."""
    start = -location / scale
    return lambda a: -np.expm1(log_ndtr(-(start + a / scale)) - log_ndtr(-start))


@pytest.mark.parametrize("location", [-500.0, -30.0, -3.0, -0.26, -0.24, 0.0, 0.2, 2.0, 50.0])
def test_truncated_draws_have_their_distribution(location):
    rng = np.random.default_rng(abs(int(100 * location)) + 1)
    draws = np.array([kernels.truncated_draw(location, 1.3, rng) for _ in range(5000)])
    assert (draws >= 0).all()
    assert stats.kstest(draws, truncated_cdf(location, 1.3)).pvalue > 1e-3


@pytest.mark.parametrize("factors", FACTORS)
def test_factors_of_a_new_feature_have_their_distribution(factors):
    rng = np.random.default_rng(3)
    residual = np.array([-4.0, 0.5, 3.0, 9.0])
    observed = np.array([True, True, True, False])
    draws = np.empty((4000, 4))
    for row in draws:
        kernels.draw_new_feature(residual, observed, row_model(factors), rng, row)
    location, scale = factor_conditional(residual, 1.7, 0.6)
    location[3] = 0.0
    for d in range(4):
        spread = scale if observed[d] else 0.6**-0.5
        if factors == "half_normal":
            cdf = truncated_cdf(location[d], spread)
        else:
            cdf = stats.norm(location[d], spread).cdf
        assert stats.kstest(draws[:, d], cdf).pvalue > 1e-3


def test_log_beta_draws_have_their_distribution():
    rng = np.random.default_rng(0)
    for a, b in ((0.4, 3.0), (2.5, 1.0), (5.0, 9.0)):
        draws = np.exp(log_beta_draws(np.full(4000, a), np.full(4000, b), rng))
        assert stats.kstest(draws, stats.beta(a, b).cdf).pvalue > 1e-3
    tiny = log_beta_draws(np.full(50, 1e-6), np.full(50, 3.0), rng)
    assert np.isfinite(tiny).all() and (tiny < -1e3).any()


# ---- births and deaths


def own_feature_posterior(x, alpha, tau_noise, tau_factor, most=12):
    """P(J | x) for a single row and Gaussian factors, D = 1."""
    j = np.arange(most + 1)
    weights = stats.poisson.pmf(j, alpha) * stats.norm.pdf(
        x, 0.0, np.sqrt(1 / tau_noise + j / tau_factor)
    )
    return weights / weights.sum()


def draw_own_features(j, x, tau_noise, tau_factor, rng):
    """Factors of J features given x, which is their sum and noise: a prior draw, corrected."""
    a = rng.standard_normal(j) * tau_factor**-0.5
    noise = rng.standard_normal() * tau_noise**-0.5
    return a + (x - a.sum() - noise) / (tau_factor / tau_noise + j)


def after_one_update(j, a, x, model, rng, slots):
    """How many features a lone row has after the kernel, if there is room for so many."""
    assignments = np.zeros((1, slots), dtype=np.uint8)
    assignments[0, :j] = 1
    factors = np.zeros((slots, 1))
    factors[:j, 0] = a
    seen, fresh = np.ones((1, 1), dtype=bool), np.zeros(slots, dtype=bool)
    piece = kernels.RowPiece(np.array([[x]]), seen, seen[0], np.array([[x]]) @ factors.T)
    counts = assignments[0].astype(np.int64)
    room = kernels.Slots(assignments, counts, factors, factors @ factors.T, fresh)
    kernels.sample_rows(0, piece, room, model, rng)
    return int(assignments.sum())


def test_births_and_deaths_keep_the_distribution_and_drawing_from_0_or_1_does_not():
    """Exact draws of a row with any number of features of its own, two among them, moved once."""
    alpha, tau_noise, tau_factor, x = 1.3, 2.0, 0.8, 2.5
    model = row_model("gaussian", 1, tau_noise, tau_factor, alpha)
    rng = np.random.default_rng(11)
    posterior = own_feature_posterior(x, alpha, tau_noise, tau_factor)
    expected = dict(enumerate(posterior.tolist()))
    assert posterior[2] > 0.2
    moved, replaced, beside, changed = Counter(), Counter(), Counter(), 0
    for j in rng.choice(posterior.size, size=8000, p=posterior).tolist():
        a = draw_own_features(j, x, tau_noise, tau_factor, rng)
        new = after_one_update(j, a, x, model, rng, j + 1)
        moved[new] += 1
        changed += new != j
        # The plain Gibbs step over {0, 1}: instead of the row's features, or beside them.
        gain = alpha * np.exp(log_ratio(np.array([x]), tau_noise, tau_factor, "gaussian"))
        replaced[int(rng.random() < gain / (1 + gain))] += 1
        gain = alpha * np.exp(log_ratio(np.array([x - a.sum()]), tau_noise, tau_factor, "gaussian"))
        beside[j + int(rng.random() < gain / (1 + gain))] += 1
    assert changed > 1500
    assert_matches(moved, expected)
    assert p_value(replaced, expected) < 1e-20
    assert p_value(beside, expected) < 1e-20


def test_births_and_deaths_keep_the_distribution_of_a_finite_model():
    """The same with K = 3 features in all, each with the prior odds alpha / K for a lone row."""
    share, tau_noise, tau_factor, x = 1.3, 2.0, 0.8, 3.5
    model = row_model("gaussian", 1, tau_noise, tau_factor, 0.0, share)
    rng = np.random.default_rng(12)
    j = np.arange(4)
    weights = stats.binom.pmf(j, 3, share / (1.0 + share)) * stats.norm.pdf(
        x, 0.0, np.sqrt(1 / tau_noise + j / tau_factor)
    )
    posterior = weights / weights.sum()
    moved = Counter()
    for own in rng.choice(4, size=8000, p=posterior).tolist():
        a = draw_own_features(own, x, tau_noise, tau_factor, rng)
        moved[after_one_update(own, a, x, model, rng, 3)] += 1
    assert_matches(moved, dict(enumerate(posterior.tolist())))


# ---- the posterior of tiny problems


def half_normal_log_likelihood(X, *, noise_std, factor_std, intercept_std=None):
    """Ln p(X | Z) with half-normal factors: the Gaussian's, times 2^K P(a >= 0 | x) per column."""
    gaussian = gaussian_log_likelihood(
        X, noise_std=noise_std, factor_std=factor_std, intercept_std=intercept_std
    )

    def of(Z):
        total, k = gaussian(Z), Z.shape[1]
        if k == 0:
            return total
        for x in X.T:
            seen = np.flatnonzero(~np.isnan(x))
            z = Z[seen].astype(np.float64)
            noise = noise_std**2 * np.eye(seen.size) + (intercept_std or 0.0) ** 2
            weighted = np.linalg.solve(noise, z)
            covariance = np.linalg.inv(z.T @ weighted + np.eye(k) / factor_std**2)
            mean = covariance @ weighted.T @ x[seen]
            cdf = stats.multivariate_normal.cdf(
                np.zeros(k),
                -mean,
                covariance,
                abseps=1e-3,
                releps=1e-3,
                rng=np.random.default_rng(0),
            )
            total += k * np.log(2.0) + np.log(cdf)
        return float(total)

    return of


TINY = np.array([[1.4, -0.3], [1.1, 0.9], [-0.2, 1.2]])
TINY_WITH_HOLES = np.array([[1.4, np.nan], [1.1, 0.9], [np.nan, 1.2]])
NOISE_STD = 0.7
# With so small an alpha more features are too rare to be met.
ALPHA, MOST = 0.4, 4
# With K given alpha is large, so that all births and deaths are about as likely.
ALPHA_OF_FINITE = 4.0
SLOTS = 14


@cache
def tiny_log_likelihoods(factors, intercept_std, missing):
    """By class, for whatever prior of Z."""
    make = half_normal_log_likelihood if factors == "half_normal" else gaussian_log_likelihood
    of = make(
        TINY_WITH_HOLES if missing else TINY,
        noise_std=NOISE_STD,
        factor_std=1.0,
        intercept_std=intercept_std,
    )
    with single_threaded_blas():
        return {key: of(matrix_of(key, 3)) for key in all_keys(3, MOST)}


def tiny_posterior(factors, n_components, intercept_std, missing):
    known = tiny_log_likelihoods(factors, intercept_std, missing)
    if n_components is None:
        prior, most = unbounded_log_prior(ALPHA), MOST
    else:
        prior, most = truncated_log_prior(ALPHA_OF_FINITE, n_components), n_components
    return exact_posterior(3, most, prior, lambda Z: known[key_of(Z)])


@kernel(cache=False)  # a cache would not notice that the sampler's kernels have changed
def row_products(first, second):
    """All inner products of the rows of two matrices."""
    products = np.empty((first.shape[0], second.shape[0]))
    for i in range(first.shape[0]):
        for j in range(second.shape[0]):
            products[i, j] = kernels.dot(first[i], second[j])
    return products


@kernel(cache=False)
def fill_statistics(X, observed, Z, gram, cross):
    """Z'Z and Z'X column by column, with an intercept as the last feature."""
    n = Z.shape[1] + 1
    gram[:] = 0.0
    cross[:] = 0.0
    for d in range(X.shape[1]):
        for i in range(X.shape[0]):
            for k in range(n):
                if not observed[i, d] or (k < n - 1 and not Z[i, k]):
                    continue
                cross[k, d] += X[i, d]
                for j in range(n):
                    gram[d, k, j] += 1.0 if j == n - 1 else Z[i, j]


@kernel(cache=False)
def tiny_chain(X, observed, complete, n_slots, n_truncated, intercept_std, model, thin, rng, kinds):
    """Many sweeps with the sampler's own kernels; how many columns of each kind each draw has."""
    n_rows, n_columns = X.shape
    n = n_slots + 1
    Z = np.zeros((n_rows, n_slots), dtype=np.uint8)
    counts = np.zeros(n_slots, dtype=np.int64)
    A = np.zeros((n_slots, n_columns))
    by_column = np.zeros((n_columns, n))
    gram, cross = np.empty((n_columns, n, n)), np.empty((n, n_columns))
    centred = np.empty_like(X)
    precision = np.full(n, model.factor_precision)
    precision[n_slots] = intercept_std**-2.0
    group = np.arange(n_columns)
    for draw in range(kinds.shape[0]):
        for _ in range(thin):
            for i in range(n_rows):
                for d in range(n_columns):
                    centred[i, d] = (X[i, d] - by_column[d, n_slots]) * observed[i, d]
            piece = kernels.RowPiece(centred, observed, complete, row_products(centred, A))
            fresh = np.zeros(n_slots, dtype=np.bool_)
            slots = kernels.Slots(Z, counts, A, row_products(A, A), fresh)
            row, _changed = kernels.sample_rows(0, piece, slots, model, rng)
            if row < n_rows:
                raise RuntimeError("too few slots")
            fill_statistics(X, observed, Z, gram, cross)
            for k in range(n_slots):
                for d in range(n_columns):
                    by_column[d, k] = A[k, d]
            kernels.sample_factors(
                gram, cross, group, precision, model.noise_precision, n_truncated, by_column, rng
            )
            for k in range(n_slots):
                for d in range(n_columns):
                    A[k, d] = by_column[d, k]
        for k in range(n_slots):
            kind = 0
            for i in range(n_rows):
                kind += Z[i, k] << i
            kinds[draw, kind] += 1


def check_kernels(factors, n_components, intercept_std, missing, *, n_draws, thin, seed):
    X = TINY_WITH_HOLES if missing else TINY
    model = row_model(
        factors,
        3,
        NOISE_STD**-2.0,
        1.0,
        ALPHA if n_components is None else 0.0,
        0.0 if n_components is None else ALPHA_OF_FINITE / n_components,
    )
    n_slots = n_components or SLOTS
    kinds = np.zeros((n_draws, 8), dtype=np.int64)
    tiny_chain(
        np.nan_to_num(X),
        ~np.isnan(X),
        ~np.isnan(X).any(axis=1),
        n_slots,
        n_slots if factors == "half_normal" else 0,
        intercept_std or 1e-9,  # so narrow a prior is none
        model,
        thin,
        np.random.default_rng(seed),
        kinds,
    )
    keys = [
        tuple(kind for kind in range(1, 8) for _ in range(number[kind]))
        for number in kinds.tolist()
    ]
    assert_matches(keys, tiny_posterior(factors, n_components, intercept_std, missing))


def check_method(factors, n_components, intercept_std, missing, *, n_draws, thin, seed):
    alpha = ALPHA if n_components is None else ALPHA_OF_FINITE
    method = make_method(
        factors, n_components, alpha=alpha, noise_std=NOISE_STD, intercept_std=intercept_std
    )
    context = context_of(TINY_WITH_HOLES if missing else TINY, seed)
    state = method.init(context)
    keys = []
    with single_threaded_blas():
        for _ in range(n_draws):
            for _ in range(thin):
                method.sweep(context, state)
            keys.append(key_of(state.assignments))
    assert_matches(keys, tiny_posterior(factors, n_components, intercept_std, missing))


CASES = list(itertools.product(FACTORS, (None, 2), (None, 0.8), (False, True)))
SHORT = [case for case in CASES if (case[2] is None) != case[3]]
posterior_cases = pytest.mark.parametrize(
    ("factors", "n_components", "intercept_std", "missing"), CASES
)


@pytest.mark.parametrize(("factors", "n_components", "intercept_std", "missing"), SHORT)
def test_kernels_visit_classes_as_often_as_the_posterior_says(
    factors, n_components, intercept_std, missing
):
    check_kernels(factors, n_components, intercept_std, missing, n_draws=4000, thin=20, seed=5)


@pytest.mark.parametrize(("factors", "n_components", "intercept_std", "missing"), SHORT[::2])
def test_the_method_visits_classes_as_often_as_the_posterior_says(
    factors, n_components, intercept_std, missing
):
    check_method(factors, n_components, intercept_std, missing, n_draws=200, thin=5, seed=5)


@pytest.mark.long
@posterior_cases
def test_long_chains_of_the_kernels(factors, n_components, intercept_std, missing):
    check_kernels(factors, n_components, intercept_std, missing, n_draws=12000, thin=40, seed=6)


@pytest.mark.long
@posterior_cases
def test_long_chains_of_the_method(factors, n_components, intercept_std, missing):
    check_method(factors, n_components, intercept_std, missing, n_draws=2500, thin=16, seed=7)


def poisson_probabilities(rate, most=40):
    return dict(enumerate(stats.poisson.pmf(np.arange(most), rate).tolist()))


@pytest.mark.parametrize("factors", FACTORS)
def test_without_information_the_process_itself_is_sampled(factors):
    n_samples, alpha = 5, 1.5
    kinds = np.zeros((2500, 1 << n_samples), dtype=np.int64)
    everything = np.ones((n_samples, 1), dtype=bool)
    tiny_chain(
        np.zeros((n_samples, 1)),
        everything,
        everything[:, 0],
        20,
        20 if factors == "half_normal" else 0,
        1e-9,
        row_model(factors, n_samples, 1e-14, 1.0, alpha),
        25,
        np.random.default_rng(2),
        kinds,
    )
    n_used = kinds[:, 1:].sum(axis=1)
    rate = alpha * harmonic_number(n_samples)
    assert abs(n_used.mean() - rate) < 4 * np.sqrt(rate / n_used.size)
    assert_matches(n_used.tolist(), poisson_probabilities(rate))
    for n in range(n_samples):
        has_row = (np.arange(1 << n_samples) >> n) & 1
        assert_matches((kinds @ has_row).tolist(), poisson_probabilities(alpha))


def test_without_information_the_method_has_the_expected_number_of_features():
    n_samples, alpha, n_sweeps = 6, 1.5, 1000
    method = make_method(alpha=alpha, noise_std=1e7)
    context = context_of(np.zeros((n_samples, 2)), 8)
    state = method.init(context)
    n_used = np.empty(n_sweeps)
    with single_threaded_blas():
        for i in range(n_sweeps):
            method.sweep(context, state)
            n_used[i] = method.n_components_in_use(state)
    assert abs(n_used.mean() - alpha * harmonic_number(n_samples)) < 4 * batch_error(n_used)


# ---- Geweke's joint test

PRIORS = {"noise_precision": (6.0, 4.0), "factor_precision": (6.0, 4.0), "alpha": (4.0, 4.0)}
ROWS, COLUMNS = 3, 2
INTERCEPT_STD = 0.7


def batch_error(values, n_batches=25):
    """Standard error of the mean of a chain."""
    means = [batch.mean(axis=0) for batch in np.array_split(values, n_batches)]
    return np.std(means, axis=0, ddof=1) / np.sqrt(n_batches)


def joint_quantities(Z, A, b, values, X):
    """Functions of everything; of the factors only those in use count."""
    used = Z.any(axis=0)
    Z, A = Z[:, used].astype(np.float64), A[used]
    fit = Z @ A
    return np.array(
        [
            np.log(values.noise_precision),
            np.log(values.noise_precision) ** 2,
            np.log(values.factor_precision),
            np.log(values.factor_precision) ** 2,
            np.log(values.alpha),
            values.alpha,
            Z.shape[1],
            Z.sum(),
            (Z.sum(axis=0) == 1).sum(),
            np.tanh(A).sum(),
            np.tanh(A**2).sum(),
            np.tanh(b).sum(),
            np.tanh(b**2).sum(),
            np.tanh(X).sum(),
            np.tanh(fit).sum(),
            np.tanh(X * (fit + b)).sum(),
        ]
    )


def draw_everything(method, rng):
    """Z, A, b, hyperparameters and X from the model."""
    values = method.hyperparameters.values()
    for name, (shape, rate) in PRIORS.items():
        setattr(values, name, rng.gamma(shape) / rate)
    Z = method.prior.draw(values.alpha, ROWS, rng)
    A = draw_prior((Z.shape[1], COLUMNS), values.factor_precision, method.factors, rng)
    b = INTERCEPT_STD * rng.standard_normal(COLUMNS)
    return Z, A, b, values, draw_data(Z, A, b, values, rng)


def draw_data(Z, A, b, values, rng):
    return Z @ A + b + values.noise_std * rng.standard_normal((ROWS, COLUMNS))


def geweke_scores(factors, n_components, n_forward, n_sweeps, seed, missing=()):
    """How many standard errors the chain's means are from those of independent draws."""
    hyper = Hyperparameters(
        **{name: GammaPosterior.starting_at(1.0, prior, 0.0) for name, prior in PRIORS.items()}
    )
    method = make_method(factors, n_components, hyperparameters=hyper, intercept_std=INTERCEPT_STD)
    rng = np.random.default_rng(seed)
    forward = np.array([joint_quantities(*draw_everything(method, rng)) for _ in range(n_forward)])
    chain = np.empty((n_sweeps, forward.shape[1]))
    Z, A, b, values, X = draw_everything(method, rng)
    state = method.init(Context(Observations.from_array(X), rng))
    state.assignments, state.components, state.intercept, state.values = Z, A, b, values
    with single_threaded_blas():
        for i in range(n_sweeps):
            observed = X.copy()
            for entry in missing:
                observed[entry] = np.nan
            context = Context(Observations.from_array(observed), rng)
            layout = context.observations.layout.arrange
            state.components, state.intercept = layout(state.components), layout(state.intercept)
            method.sweep(context, state)
            # Back to the user's order, for the next pattern or the next data.
            back = context.observations.layout.restore
            state.components, state.intercept = back(state.components), back(state.intercept)
            now = (state.assignments, state.components, state.intercept, state.values)
            X = draw_data(*now, rng)
            chain[i] = joint_quantities(*now, X)
    error = np.hypot(batch_error(chain), forward.std(axis=0) / np.sqrt(n_forward))
    return (chain.mean(axis=0) - forward.mean(axis=0)) / error


GEWEKE = list(itertools.product(FACTORS, (None, 3)))
HOLES = ((0, 1), (2, 0))


@pytest.mark.parametrize(("factors", "n_components"), GEWEKE)
def test_joint_distribution_is_kept(factors, n_components):
    scores = geweke_scores(
        factors, n_components, 1500, 800, 4, HOLES[: 1 + (factors == "gaussian")]
    )
    assert np.abs(scores).max() < 4.0, scores.round(1)


@pytest.mark.long
@pytest.mark.parametrize("missing", [(), HOLES])
@pytest.mark.parametrize(("factors", "n_components"), GEWEKE)
def test_joint_distribution_is_kept_in_long_chains(factors, n_components, missing):
    scores = geweke_scores(factors, n_components, 60000, 25000, 9, missing)
    assert np.abs(scores).max() < 4.0, scores.round(1)


# ---- what the sampler is evaluated by


def learned(X):
    start = GammaPosterior.starting_at
    return Hyperparameters(
        start(4.0, (1.0, 0.1), X.size / 2), start(1.0, (2.0, 2.0), 5.0), start(1.0, (1.0, 1.0), 3.0)
    )


def small_state(factors="half_normal", n_components=None, n_sweeps=3, n_jobs=1):
    rng = np.random.default_rng(21)
    X = random_data(rng, 30, 6, missing="scattered") + 5.0
    summary = summarize(X)
    observations = Observations.from_summary(X, summary, centre=summary.means)
    method = make_method(factors, n_components, hyperparameters=learned(X), intercept_std=3.0)
    context = Context(observations, np.random.default_rng(4), Threads(n_jobs))
    with context.executor:
        state = method.init(context)
        for _ in range(n_sweeps):
            method.step(context, state)
    return X, method, context, state


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("n_components", [None, 6])
def test_joint_probability_is_that_of_the_model(factors, n_components):
    X, method, context, state = small_state(factors, n_components)
    sample, values = method.sample(context, state), state.values
    Z, A = sample.assignments, sample.components
    residual = (X - sample.intercept - Z @ A)[~np.isnan(X)]
    likelihood = stats.norm.logpdf(residual, scale=values.noise_std)
    if n_components is None:
        expected = LeftOrderedClasses().log_probability(Z, values.alpha)
    else:
        share = values.alpha / n_components
        m = state.assignments.sum(axis=0)
        # P(Z) row by row: each with the odds that the rows before leave.
        expected = sum(
            np.log(bit * (before + share) + (1 - bit) * (n + 1 - before)) - np.log(n + 1 + share)
            for column in state.assignments.T.astype(int)
            for n, (bit, before) in enumerate(zip(column, np.cumsum(column) - column, strict=True))
        )
        assert m.size == n_components
    if factors == "half_normal":
        expected += stats.halfnorm.logpdf(A, scale=values.factor_std).sum()
    else:
        expected += stats.norm.logpdf(A, scale=values.factor_std).sum()
    centre = context.observations.summary.means
    unit = np.sqrt(np.nanmean((X - centre) ** 2))  # in which the density of A is
    expected += A.size * np.log(unit)
    expected += stats.norm.logpdf(sample.intercept - centre, scale=3.0).sum()
    for name in PRIORS:
        belief = getattr(method.hyperparameters, name)
        prior = stats.gamma(belief.prior_shape, scale=1 / belief.prior_rate)
        expected += prior.logpdf(getattr(values, name))
    report = method.report(context, state)
    np.testing.assert_allclose(report.evidence, expected + likelihood.sum(), rtol=1e-9)
    np.testing.assert_allclose(report.train_log_likelihood, likelihood.mean(), rtol=1e-9)
    assert report.n_components == Z.shape[1]
    assert state.chain.samples[-1].log_joint == report.evidence


def test_known_hyperparameters_stay():
    X, method, _, _ = small_state(n_sweeps=0)
    known = replace(method, hyperparameters=replace(learned(X), alpha=Known(1.25)))
    context = context_of(X, 0)
    state = known.init(context)
    for _ in range(2):
        known.sweep(context, state)
    assert state.values.alpha == 1.25
    assert state.values.noise_precision != known.hyperparameters.noise_precision.mean


# ---- behaviour


def assert_consistent(context, state):
    """Statistics belong to Z; every feature of the process is in use."""
    observations = context.observations
    direct = Statistics.from_codes(observations, state.assignments)
    np.testing.assert_array_equal(state.statistics.counts, direct.counts)
    np.testing.assert_array_equal(state.statistics.cross, direct.cross)
    assert state.components.shape == (state.assignments.shape[1], observations.n_features)
    assert np.isfinite(state.components).all() and np.isfinite(state.squared_error)


def same(one, other):
    for name in ("assignments", "components", "intercept"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.values == other.values


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("n_components", [None, 5])
def test_same_seed_same_answer_whatever_the_number_of_threads(factors, n_components):
    states = [small_state(factors, n_components, n_jobs=n_jobs)[3] for n_jobs in (1, 1, 3)]
    same(states[0], states[1])
    same(states[0], states[2])


def planted(n_samples=300, n_features=30, n_components=4, seed=1):
    rng = np.random.default_rng(seed)
    A = 2.0 * (rng.random((n_components, n_features)) < 0.4)
    Z = (rng.random((n_samples, n_components)) < 0.35).astype(np.uint8)
    return Z @ A + 0.3 * rng.standard_normal((n_samples, n_features)), Z, A


@pytest.mark.parametrize("n_components", [None, 5])
def test_told_to_stop_it_leaves_a_consistent_state(n_components, monkeypatch):
    monkeypatch.setattr("ibp.methods.uncollapsed_gibbs.rows.PIECE_ROWS", 16)
    X, _, _ = planted()
    method = make_method(n_components=n_components)
    for n_checks in (0, 1, 5):
        context = context_of(X, 0)
        state = method.init(context)
        before = state.assignments.copy()
        report = method.step(replace(context, should_stop=stop_after(n_checks)), state)
        assert_consistent(context, state)
        assert np.isfinite(report.evidence)
        if n_checks == 0:
            np.testing.assert_array_equal(state.assignments, before)
        if n_components is not None:
            np.testing.assert_array_equal(
                state.assignments[16 * n_checks :], before[16 * n_checks :]
            )
        method.step(context, state)
        assert_consistent(context, state)


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("n_components", [None, 6])
@pytest.mark.parametrize("missing", [False, True])
def test_planted_features_are_kept_from_a_noisy_start(factors, n_components, missing):
    X, Z, A = planted()
    if missing:
        X[::3, :8] = np.nan
    flips = np.random.default_rng(2).random(Z.shape) < 0.1
    start = CodesAndFactors(np.abs(Z - flips.astype(float)), A)
    method = make_method(factors, n_components, noise_std=0.3, start=start)
    context = context_of(X, 3)
    state = method.init(context)
    for _ in range(5):
        method.step(context, state)
    # A row may have been left with a wrong feature and one of its own that makes up for it.
    assert (state.assignments[:, :4] == Z).mean() > 0.98
    assert np.abs(state.components[:4] - context.observations.layout.arrange(A)).mean() < 0.1


@pytest.mark.parametrize("factors", FACTORS)
def test_the_best_of_twenty_random_starts_finds_the_features(factors):
    X, Z, _ = planted()
    noise = GammaPosterior.starting_at(1.0, (1.0, 0.1), 100.0)
    hyper = Hyperparameters(noise, Known(0.5), Known(1.0))
    method = make_method(factors, 4, hyperparameters=hyper)
    contexts = [context_of(X, seed) for seed in range(20)]
    states = [method.init(context) for context in contexts]
    with single_threaded_blas():
        for context, state in zip(contexts, states, strict=True):
            for _ in range(100):
                method.sweep(context, state)
    best = max(states, key=partial(method.log_joint, contexts[0]))
    assert abs(best.values.noise_std - 0.3) < 0.02
    for z in Z.T:
        assert (z == best.assignments.T).mean(axis=1).max() > 0.98


def test_a_sweep_in_which_more_are_born_than_there_was_room_for():
    X, _, _ = planted(n_samples=120)
    method = make_method("gaussian", alpha=20.0, noise_std=0.05)
    start = CodesAndFactors(np.zeros((120, 0)))
    context = context_of(X, 0)
    state = replace(method, start=start).init(context)
    assert state.assignments.shape == (120, 0)
    method.sweep(context, state)
    assert method.n_components_in_use(state) > 12
    assert_consistent(context, state)


def test_starts():
    X, Z, A = planted()
    rng = np.random.default_rng(0)
    context = Context(Observations.from_array(X, centre=np.full(30, 0.5)), rng)
    codes = np.column_stack([Z * 0.9, np.full(300, 0.2)])  # the last is empty once thresholded
    given = CodesAndFactors(codes, np.vstack([-A, np.ones(30)]), np.full(30, 0.75))
    method = make_method(start=given, intercept_std=2.0)
    state = method.init(context)
    np.testing.assert_array_equal(state.assignments, Z)
    assert state.components.shape == A.shape and (state.components > 0).all()
    np.testing.assert_allclose(method.sample(context, state).intercept, 0.75)

    finite = replace(method, prior=FinitePrior(7), factors="gaussian").init(context)
    assert finite.assignments.shape == (300, 7)
    np.testing.assert_array_equal(finite.components[:4], -A)

    drawn = replace(method, start=CodesAndFactors(codes), intercept_std=None)
    context = Context(Observations.from_array(X), rng)
    assert np.abs(drawn.init(context).components - A).mean() < 0.2
    with pytest.raises(ValueError, match="more than n_components=3"):
        replace(method, prior=FinitePrior(3)).init(context)


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("n_components", [None, 5])
def test_sparse_data_give_the_same_chain_as_dense(factors, n_components):
    rng = np.random.default_rng(6)
    X = rng.random((40, 8)) * (rng.random((40, 8)) < 0.3)
    X[3, 2] = X[17, 5] = np.nan
    method = make_method(factors, n_components, noise_std=0.3)
    chains = []
    for values in (X, sparse.csr_array(X)):
        context = context_of(values, 1)
        state = method.init(context)
        for _ in range(3):
            method.step(context, state)
        chains.append(state)
    np.testing.assert_array_equal(chains[0].assignments, chains[1].assignments)
    np.testing.assert_allclose(chains[0].components, chains[1].components, atol=1e-9)


def test_rows_and_columns_that_are_not_observed():
    X, _, _ = planted(n_samples=40, n_features=6)
    X[5] = np.nan
    X[:, 2] = np.nan
    for factors, n_components in GEWEKE:
        method = make_method(factors, n_components, intercept_std=1.0)
        context = context_of(X, 1)
        state = method.init(context)
        for _ in range(3):
            assert np.isfinite(method.step(context, state).evidence)
        assert_consistent(context, state)


def test_single_precision_is_sampled_alike():
    X, _, A = planted()
    X32 = (X + 1000.0).astype(np.float32)
    start = CodesAndFactors(np.zeros((300, 4)) + 1.0, A)
    method = make_method(n_components=4, noise_std=0.3, start=start, intercept_std=5.0)
    states = []
    for values in (X32, X32.astype(np.float64)):
        observations = Observations.from_array(values, centre=values.mean(axis=0))
        context = Context(observations, np.random.default_rng(0))
        state = method.init(context)
        for _ in range(3):
            method.sweep(context, state)
        states.append(state)
    assert (states[0].assignments == states[1].assignments).mean() > 0.99


def test_priors_of_assignments():
    rng = np.random.default_rng(0)
    finite = FinitePrior(4)
    draws = [finite.draw(2.0, 3, rng) for _ in range(4000)]
    # E[z] = (alpha / K) / (1 + alpha / K)
    assert abs(np.mean(draws) - 1 / 3) < 0.015
    matrices = [np.array(bits, dtype=np.uint8).reshape(2, 2) for bits in np.ndindex(2, 2, 2, 2)]
    total = sum(np.exp(FinitePrior(2).log_probability(Z, 0.7)) for Z in matrices)
    np.testing.assert_allclose(total, 1.0)
    Z = sample_assignments(2.0, 8, rng)
    assert UnboundedPrior().log_probability(Z, 2.0) == pytest.approx(unbounded_log_prior(2.0)(Z))


@pytest.mark.parametrize("factors", FACTORS)
def test_prior_density_of_factors(factors):
    A = draw_prior((3, 4), 0.6, factors, np.random.default_rng(0))
    law = stats.halfnorm if factors == "half_normal" else stats.norm
    expected = law.logpdf(A, scale=0.6**-0.5).sum()
    np.testing.assert_allclose(log_prior_density(A, 0.6, factors), expected)


# ---- the order of the features must not depend on their factors


def own_features_posterior(x, noise_std, alpha, prior, n_components=None):
    """P(J) for one row and one column by convolving half-normal densities on a grid."""
    step = 0.002
    grid = np.arange(0.0, 40.0, step)
    weight = 2.0 * np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi) * step
    weight[0] *= 0.5
    density = np.zeros(grid.size)
    density[0] = 1.0
    transform = np.fft.rfft(weight, 2 * grid.size)
    likelihood = np.exp(-0.5 * ((x - grid) / noise_std) ** 2)
    posterior = []
    for j in range(16 if n_components is None else n_components + 1):
        posterior.append(prior(j) * float(density @ likelihood))
        density = np.fft.irfft(np.fft.rfft(density, 2 * grid.size) * transform)[: grid.size]
    return np.array(posterior) / sum(posterior)


def check_own_features(n_components, alpha, n_sweeps, seed):
    if n_components is None:
        prior = stats.poisson(alpha).pmf
    else:
        share = alpha / n_components
        prior = stats.binom(n_components, share / (1.0 + share)).pmf
    exact = own_features_posterior(3.0, 0.3, alpha, prior, n_components)
    method = make_method("half_normal", n_components, alpha=alpha, noise_std=0.3)
    context = context_of(np.array([[3.0]]), seed)
    visited = np.empty(n_sweeps, dtype=np.int64)
    with single_threaded_blas():
        state = method.init(context)
        for i in range(n_sweeps):
            method.sweep(context, state)
            visited[i] = method.n_components_in_use(state)
    for j in np.flatnonzero(exact > 0.005):
        batches = (visited == j).reshape(50, -1).mean(axis=1)
        error = batches.std(ddof=1) / np.sqrt(50)
        assert abs(batches.mean() - exact[j]) < 3.5 * max(error, 1e-4)


def test_one_row_has_as_many_features_as_it_should():
    check_own_features(None, 1.5, 20_000, seed=0)


@pytest.mark.long
@pytest.mark.parametrize(("n_components", "alpha"), [(None, 1.5), (6, 6.0)])
def test_one_row_has_as_many_features_as_it_should_in_long_chains(n_components, alpha):
    check_own_features(n_components, alpha, 300_000, seed=1)


def test_alpha_is_drawn_with_the_counts_that_it_should():
    class Belief:
        def draw(self, shape_gain, rate_gain, rng):
            return shape_gain, rate_gain

    counts = np.array([3, 0, 1])
    gains = UnboundedPrior().draw_alpha(Belief(), counts, 4, 1.0, np.random.default_rng(0))
    assert gains == (2, pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4))


def test_which_sample_is_best_does_not_depend_on_the_unit():
    X, _, _ = planted(60, 10)
    best = []
    for unit in (2.0**-10, 1.0, 2.0**10):
        model = ibp.UncollapsedGibbs(max_iter=30, thin=1, random_state=0).fit(unit * X)
        best.append((int(np.argmax(model.samples_.log_joint)), model.n_components_))
    assert best[0] == best[1] == best[2]
