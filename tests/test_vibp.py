"""Mean-field inference: bound, updates and kernels against slow and independent computations."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, digamma, expit, logsumexp

from ibp.blas import single_threaded_blas
from ibp.data import Observations, all_rows, summarize
from ibp.kernels.mean_field_rows import pass_over_row
from ibp.loop import run
from ibp.methods.context import Context
from ibp.methods.mean_field.method import FiniteVIBPMethod, InfiniteVIBPMethod, entropies
from ibp.methods.mean_field.sticks import FiniteSticks, InfiniteSticks
from ibp.methods.soft_rows import FrozenMeanField
from ibp.model import (
    GammaPosterior,
    Hyperparameters,
    LearnedIntercept,
    Statistics,
    factor_posterior,
)
from ibp.model.beta_sticks import BetaSticks, complement_bounds
from ibp.parallel import Threads
from ibp.starts.codes_and_factors import CodesAndFactors
from problems import (
    assert_not_lower,
    missing_kinds,
    random_data,
    random_hyperparameters,
    seeds,
    stop_after,
)

KINDS = {"finite": FiniteVIBPMethod, "infinite": InfiniteVIBPMethod}
kinds = pytest.mark.parametrize("kind", KINDS)
any_kind = st.sampled_from(sorted(KINDS))


def make(
    seed,
    kind="finite",
    missing="none",
    learned=False,
    intercept=False,
    as_sparse=False,
    n=20,
    d=5,
    k=3,
    steps=0,
    n_jobs=1,
):
    """A method, its context and a state of random data, after some sweeps."""
    rng = np.random.default_rng(seed)
    X = random_data(rng, n, d, missing=missing)
    if as_sparse:
        X[np.abs(X) < 0.5] = 0.0
        X = sparse.csr_array(X)
    centre = summarize(X).means if intercept else None
    observations = Observations.from_array(X, centre=centre)
    hyperparameters = random_hyperparameters(rng, learned, k, d, observations.n_observed)
    method = KINDS[kind](k, hyperparameters, intercept_std=3.0 if intercept else None)
    context = Context(observations, np.random.default_rng(seed + 1), Threads(n_jobs))
    state = method.init(context)
    for _ in range(steps):
        method.step(context, state)
    return method, context, state


def dense(observations):
    """X about its centre in layout order, NaN where missing."""
    X = all_rows(observations.source)
    X = X.toarray() if sparse.issparse(X) else X
    return observations.layout.arrange(np.asarray(X, dtype=np.float64)) - observations.centre


def naive_assignment_bound(kind, sticks, nu):
    """E ln p(Z | sticks), or its multinomial bound, bit by bit."""
    a, b = sticks.first, sticks.second
    total = 0.0
    for n, k in np.ndindex(nu.shape):
        if kind == "finite":
            present, absent = digamma(a[k]), digamma(b[k])
            total += nu[n, k] * present + (1 - nu[n, k]) * absent - digamma(a[k] + b[k])
            continue
        present = sum(digamma(a[m]) - digamma(a[m] + b[m]) for m in range(k + 1))
        t = [
            digamma(b[y])
            + sum(digamma(a[m]) for m in range(y))
            - sum(digamma(a[m] + b[m]) for m in range(y + 1))
            for y in range(k + 1)
        ]
        q = np.exp(np.array(t) - logsumexp(t))
        absent = sum(q[y] * (t[y] - np.log(q[y])) for y in range(k + 1))
        total += nu[n, k] * present + (1 - nu[n, k]) * absent
    return total


def naive_bound(kind, observations, state):
    """The bound from its definition, entry by entry."""
    X, nu, hyper = dense(observations), state.probabilities, state.hyperparameters
    mean, variance = state.factors.mean, state.factors.variance
    offset, offset_variance = state.intercept.mean, state.intercept.variance
    noise, precision, alpha = hyper.noise_precision, hyper.factor_precision, hyper.alpha
    total = 0.0
    for n, d in np.argwhere(~np.isnan(X)):
        error = (X[n, d] - offset[d] - nu[n] @ mean[:, d]) ** 2 + offset_variance[d]
        for k in range(nu.shape[1]):
            error += nu[n, k] * variance[k, d] + nu[n, k] * (1 - nu[n, k]) * mean[k, d] ** 2
        total += 0.5 * (noise.mean_log - np.log(2 * np.pi)) - 0.5 * noise.mean * error
    for k, d in np.ndindex(mean.shape):
        total += 0.5 * (precision.mean_log - np.log(2 * np.pi))
        total -= 0.5 * precision.mean * (mean[k, d] ** 2 + variance[k, d])
        total += stats.norm(scale=np.sqrt(variance[k, d])).entropy()
    for p in nu.ravel():
        total += stats.bernoulli(p).entropy() if 0 < p < 1 else 0.0
    share = 1 / nu.shape[1] if kind == "finite" else 1.0
    for a, b in zip(state.sticks.first, state.sticks.second, strict=True):
        mean_log = digamma(a) - digamma(a + b)
        total += np.log(share) + alpha.mean_log + (share * alpha.mean - 1) * mean_log
        total += stats.beta(a, b).entropy()
    total += naive_assignment_bound(kind, state.sticks, nu)
    if isinstance(state.intercept, LearnedIntercept):
        prior = state.intercept.prior_std
        for m, v in zip(offset, offset_variance, strict=True):
            total -= np.log(prior) - 0.5 * np.log(v) + (v + m**2) / (2 * prior**2) - 0.5
    return total - hyper.divergence()


@given(seeds, any_kind, missing_kinds, st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_bound_equals_its_definition(seed, kind, missing, learned, intercept, as_sparse):
    _, context, state = make(seed, kind, missing, learned, intercept, as_sparse, n=8, steps=2)
    expected = naive_bound(kind, context.observations, state)
    found = state.evidence(context.observations).total
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-7)


@given(seeds, any_kind, missing_kinds, st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_update_lowers_the_bound(seed, kind, missing, learned, intercept, as_sparse):
    _, context, state = make(seed, kind, missing, learned, intercept, as_sparse)
    observations = context.observations
    before = state.evidence(observations).total
    for _ in range(6):
        for update in (
            lambda: state.update_rows(context),
            lambda: state.update_intercept(observations),
            lambda: state.update_factors(observations.layout),
            state.update_sticks,
            lambda: state.update_hyperparameters(observations),
        ):
            update()
            after = state.evidence(observations).total
            assert_not_lower(after, before)
            before = after


@kinds
def test_sweeps_climb_beyond_a_recount(kind):
    method, context, state = make(3, kind, "scattered", learned=True, intercept=True, n=60)
    values = [method.report(context, state).evidence]
    values += [method.step(context, state).evidence for _ in range(40)]
    for before, after in itertools.pairwise(values):
        assert_not_lower(after, before)


def log_prior_finite(Z, alpha):
    n, k = Z.shape
    m = Z.sum(axis=0)
    return k * np.log(alpha / k) + betaln(m + alpha / k, n - m + 1).sum()


def log_prior_infinite(Z, alpha):
    return log_prior_of_counts(tuple(Z.sum(axis=0)), Z.shape[0], alpha)


@cache
def legendre_nodes(n_nodes):
    return np.polynomial.legendre.leggauss(n_nodes)


@cache
def log_prior_of_counts(m, n, alpha):
    """Sticks integrated by Gauss-Legendre in u = v^alpha, which is uniform; K is 1 or 2."""
    u, weight = legendre_nodes(200)
    v, weight = (0.5 * (u + 1)) ** (1 / alpha), 0.5 * weight
    first = v ** m[0] * (1 - v) ** (n - m[0])
    if len(m) == 1:
        return np.log(weight @ first)
    both = np.outer(v, v)
    second = both ** m[1] * (1 - both) ** (n - m[1])
    return np.log((weight * first) @ second @ weight)


@pytest.mark.parametrize("log_prior", [log_prior_finite, log_prior_infinite])
def test_the_tests_own_priors_add_up_to_one(log_prior):
    matrices = np.array(list(itertools.product([0.0, 1.0], repeat=6))).reshape(-1, 3, 2)
    assert logsumexp([log_prior(Z, 1.3) for Z in matrices]) == pytest.approx(0.0, abs=1e-6)


def log_evidence(kind, observations, hyperparameters, k, intercept_std):
    """ln p(X), all Z enumerated, factors and sticks integrated out."""
    n = observations.n_samples
    noise, precision = (
        hyperparameters.noise_precision.mean,
        hyperparameters.factor_precision.mean,
    )
    prior_precision = np.full(k, precision)
    if intercept_std is not None:
        prior_precision = np.append(prior_precision, intercept_std**-2.0)
    log_prior = log_prior_finite if kind == "finite" else log_prior_infinite
    terms = []
    for bits in itertools.product([0.0, 1.0], repeat=n * k):
        Z = np.array(bits).reshape(n, k)
        codes = Z if intercept_std is None else np.column_stack([Z, np.ones(n)])
        statistics = Statistics.from_codes(observations, codes)
        posterior = factor_posterior(observations, statistics, noise, prior_precision)
        terms.append(log_prior(Z, hyperparameters.alpha.mean) + posterior.log_likelihood)
    return logsumexp(terms)


@kinds
@pytest.mark.parametrize(
    ("missing", "intercept", "k"),
    [("none", False, 2), ("scattered", False, 2), ("none", True, 1), ("block", True, 2)],
)
def test_bound_is_below_the_true_evidence(kind, missing, intercept, k):
    for seed in range(3):
        method, context, state = make(seed, kind, missing, intercept=intercept, n=3, d=2, k=k)
        truth = log_evidence(
            kind, context.observations, state.hyperparameters, k, method.intercept_std
        )
        for _ in range(30):
            assert method.step(context, state).evidence <= truth + 1e-6
        assert np.isfinite(truth)


@kinds
def test_the_bound_is_close_if_the_data_say_nothing(kind):
    """All that is lost then is that q does not couple Z and its sticks."""
    X = np.full((3, 2), np.nan)
    X[0, 0] = 0.0
    hyperparameters = Hyperparameters.known(noise_std=1e3, factor_std=1e-3, alpha=2.0)
    observations = Observations.from_array(X)
    method = KINDS[kind](1, hyperparameters)
    context = Context(observations, np.random.default_rng(0))
    state = method.init(context)
    for _ in range(100):
        report = method.step(context, state)
    truth = log_evidence(kind, observations, hyperparameters, 1, None)
    assert truth - 1.0 < report.evidence <= truth + 1e-9


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_multinomial_bound_is_below_the_expectation(seed):
    rng = np.random.default_rng(seed)
    sticks = BetaSticks(rng.uniform(0.3, 5, size=4), rng.uniform(0.3, 5, size=4))
    v = rng.beta(sticks.first, sticks.second, size=(20_000, 4))
    samples = np.log1p(-np.clip(np.cumprod(v, axis=1), None, 1 - 1e-16))
    error = 5 * samples.std(axis=0) / np.sqrt(len(samples)) + 1e-9
    bounds = complement_bounds(sticks)
    assert (bounds <= samples.mean(axis=0) + error).all()
    assert bounds[0] == pytest.approx(sticks.mean_log_complement[0])


# Blocks of q as vectors, positive numbers by their logarithms: how to read them from a state, how
# to write them into it, and the update, with how often it takes to converge.
BLOCKS = {
    "factors": (
        lambda s: np.concatenate([s.factors.mean.ravel(), np.log(s.factors.variance.ravel())]),
        lambda s, x: vars(s.factors).update(
            mean=x[: x.size // 2].reshape(s.factors.mean.shape),
            variance=np.exp(x[x.size // 2 :]).reshape(s.factors.mean.shape),
        ),
        lambda s, observations: s.update_factors(observations.layout),
        300,
    ),
    "intercept": (
        lambda s: np.concatenate([s.intercept.mean, np.log(s.intercept.variance)]),
        lambda s, x: setattr(
            s,
            "intercept",
            replace(s.intercept, mean=x[: x.size // 2], variance=np.exp(x[x.size // 2 :])),
        ),
        lambda s, observations: s.update_intercept(observations),
        1,
    ),
    "sticks": (
        lambda s: np.log(np.concatenate([s.sticks.first, s.sticks.second])),
        lambda s, x: setattr(s, "sticks", type(s.sticks)(*np.split(np.exp(x), 2))),
        lambda s, observations: s.update_sticks(),
        300,
    ),
    "hyperparameters": (
        lambda s: np.log(
            np.array([[q.shape, q.rate] for q in vars(s.hyperparameters).values()]).ravel()
        ),
        lambda s, x: setattr(
            s,
            "hyperparameters",
            Hyperparameters(
                *(
                    replace(q, shape=shape, rate=rate)
                    for q, (shape, rate) in zip(
                        vars(s.hyperparameters).values(), np.exp(x).reshape(3, 2), strict=True
                    )
                )
            ),
        ),
        lambda s, observations: s.update_hyperparameters(observations),
        1,
    ),
}


@kinds
@pytest.mark.parametrize("block", BLOCKS)
def test_updates_find_what_a_numerical_optimiser_finds(kind, block):
    read, write, update, repeats = BLOCKS[block]
    _, context, state = make(
        5, kind, "scattered", learned=True, intercept=block == "intercept", n=12, d=3, steps=2
    )
    observations = context.observations
    start = read(state)
    for _ in range(repeats):
        update(state, observations)
    found, value = read(state), state.evidence(observations).total
    work = replace(state, factors=replace(state.factors))

    def loss(x):
        write(work, x)
        return -work.evidence(observations).total

    rng = np.random.default_rng(0)
    best = minimize(
        loss, start + 0.1 * rng.normal(size=start.size), options={"gtol": 1e-7, "maxiter": 2000}
    )
    assert -best.fun == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(found, best.x, rtol=2e-3, atol=2e-3)


@kinds
@pytest.mark.parametrize("intercept", [False, True])
def test_each_probability_is_what_a_numerical_optimiser_finds(kind, intercept):
    _, context, state = make(11, kind, "scattered", intercept=intercept, n=6, d=3, steps=1)
    observations = context.observations
    for _ in range(300):
        state.update_rows(context)

    def loss(logit, n, k):
        nu = state.probabilities.copy()
        nu[n, k] = expit(logit)
        statistics = Statistics.from_codes(observations, nu)
        moved = replace(state, probabilities=nu, statistics=statistics, row_entropy=entropies(nu))
        return -moved.evidence(observations).total

    for n, k in np.ndindex(state.probabilities.shape):
        best = minimize_scalar(loss, args=(n, k), bounds=(-30, 30), method="bounded")
        assert expit(best.x) == pytest.approx(state.probabilities[n, k], abs=1e-4)


@pytest.mark.parametrize("sticks", [FiniteSticks, InfiniteSticks])
def test_log_odds_are_the_slope_of_the_bound(sticks):
    some = sticks(np.array([3.0, 0.2, 5.0]), np.array([1.0, 2.0, 0.4]))
    usage = np.array([2.0, 1.0, 4.0])
    slope = [
        some.assignment_bound(usage + step, 9) - some.assignment_bound(usage, 9)
        for step in np.eye(3)
    ]
    np.testing.assert_allclose(some.log_odds(), slope)


def naive_logit(observations, state, nu, n, k):
    """Of nu_nk by the equation, over the entries that are observed."""
    x = dense(observations)[n] - state.intercept.mean
    mean, variance = state.factors.mean, state.factors.variance
    seen = ~np.isnan(x)
    others = np.arange(nu.shape[1]) != k
    residual = x - nu[n, others] @ mean[others]
    gain = mean[k] * residual - 0.5 * (mean[k] ** 2 + variance[k])
    tau = state.hyperparameters.noise_precision.mean
    return state.sticks.log_odds()[k] + tau * gain[seen].sum()


@given(seeds, any_kind, missing_kinds, st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_rows_equal_a_plain_loop(seed, kind, missing, intercept, as_sparse):
    _, context, state = make(seed, kind, missing, False, intercept, as_sparse, n=12, steps=1)
    observations = context.observations
    nu = state.probabilities.copy()
    before = nu.copy()
    for n, k in np.ndindex(nu.shape):
        nu[n, k] = expit(naive_logit(observations, state, nu, n, k))
    n_changed = state.update_rows(context)
    np.testing.assert_allclose(state.probabilities, nu, rtol=1e-7, atol=1e-10)
    assert n_changed == ((nu > 0.5) != (before > 0.5)).sum()
    fresh = Statistics.from_codes(observations, state.probabilities)
    for name in ("gram", "totals", "cross"):
        now, anew = getattr(state.statistics, name), getattr(fresh, name)
        np.testing.assert_allclose(now, anew, rtol=1e-9, atol=1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.nan_to_num(nu * np.log(nu)) + np.nan_to_num((1 - nu) * np.log1p(-nu))
    np.testing.assert_allclose(state.row_entropy, -parts.sum(axis=1), rtol=1e-6, atol=1e-9)


def test_entropy_of_many_features():
    """More bits than one running product holds."""
    linear = np.random.default_rng(0).normal(size=3000) * 0.1
    nu = np.full(3000, 0.5)
    entropy, largest = pass_over_row(linear, np.zeros((3000, 3000)), nu)
    np.testing.assert_allclose(nu, expit(linear))
    assert entropy == pytest.approx(stats.bernoulli(expit(linear)).entropy().sum())
    assert largest == pytest.approx(np.abs(expit(linear) - 0.5).max())


@kinds
@pytest.mark.parametrize("missing", ["none", "scattered"])
def test_sparse_equals_dense(kind, missing):
    _, stored, thin = make(2, kind, missing, intercept=True, as_sparse=True, steps=5)
    observations = Observations.from_array(
        all_rows(stored.observations.source).toarray(),
        centre=stored.observations.layout.restore(stored.observations.centre),
    )
    method = KINDS[kind](3, thin.hyperparameters, intercept_std=3.0)
    context = Context(observations, np.random.default_rng(3))
    thick = method.init(context)
    for _ in range(5):
        method.step(context, thick)
    np.testing.assert_allclose(thin.probabilities, thick.probabilities, atol=1e-8)
    np.testing.assert_allclose(thin.factors.mean, thick.factors.mean, atol=1e-8)
    expected = thick.evidence(observations).total
    assert thin.evidence(stored.observations).total == pytest.approx(expected, rel=1e-10)


@kinds
@pytest.mark.parametrize("missing", ["none", "scattered"])
def test_neither_threads_nor_repetition_change_the_answer(kind, missing):
    with single_threaded_blas():
        (_, context, one), (_, _, again), (_, _, three) = (
            make(4, kind, missing, True, True, n=900, n_jobs=n_jobs, steps=3)
            for n_jobs in (1, 1, 3)
        )
    for other in (again, three):
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
        np.testing.assert_array_equal(one.factors.mean, other.factors.mean)
        assert one.evidence(context.observations) == other.evidence(context.observations)
    assert not np.array_equal(one.probabilities, make(5, kind, n=900)[2].probabilities)


def test_single_precision_is_close_to_double():
    X = random_data(np.random.default_rng(0), 50, 6, missing="scattered")
    hyperparameters = Hyperparameters.known(noise_std=0.5, factor_std=1.0, alpha=1.0)
    states = []
    for dtype in (np.float32, np.float64):
        observations = Observations.from_array(X.astype(np.float32).astype(dtype))
        method = FiniteVIBPMethod(3, hyperparameters)
        context = Context(observations, np.random.default_rng(0))
        state = method.init(context)
        assert state.row_forms(observations).components.dtype == dtype
        for _ in range(5):
            method.step(context, state)
        states.append(state)
    np.testing.assert_allclose(states[0].factors.mean, states[1].factors.mean, atol=1e-3)


@kinds
def test_told_to_stop_it_leaves_a_consistent_state(kind):
    method, context, state = make(6, kind, "block", True, True, n=900)
    before, old = method.report(context, state).evidence, state.probabilities.copy()
    report = method.step(replace(context, should_stop=stop_after(2)), state)
    moved = (state.probabilities != old).any(axis=1)
    assert moved[:512].all() and not moved[512:].any()
    assert_not_lower(report.evidence, before)
    fresh = Statistics.from_codes(context.observations, state.probabilities)
    anew = replace(state, statistics=fresh, row_entropy=entropies(state.probabilities))
    assert report.evidence == pytest.approx(anew.evidence(context.observations).total, rel=1e-9)


@kinds
def test_train_log_likelihood(kind):
    method, context, state = make(7, kind, "scattered", True, True, steps=3)
    X = dense(context.observations)
    expected = state.intercept.mean + state.probabilities @ state.factors.mean
    entries = stats.norm(expected, state.hyperparameters.noise_std).logpdf(X)
    report = method.report(context, state)
    assert report.train_log_likelihood == pytest.approx(np.nanmean(entries))
    assert report.evidence == state.evidence(context.observations).total
    assert report.n_components == 3


@kinds
def test_given_start(kind):
    rng = np.random.default_rng(0)
    X = random_data(rng, 30, 5, missing="block") + 2.0
    observations = Observations.from_array(X, centre=summarize(X).means)
    hyperparameters = Hyperparameters.known(noise_std=0.5, factor_std=1.0, alpha=1.0)
    codes = rng.integers(0, 2, size=(30, 4)).astype(float)
    codes[0, 0] = 1.7
    factors, offset = rng.normal(size=(4, 5)), rng.normal(size=5)
    start = CodesAndFactors(codes, factors.copy(), offset)
    method = KINDS[kind](2, hyperparameters, start, intercept_std=3.0)
    context = Context(observations, rng)
    state = method.init(context)
    np.testing.assert_array_equal(state.probabilities, np.clip(codes, 0.01, 0.99))
    np.testing.assert_array_equal(observations.layout.restore(state.factors.mean), factors)
    np.testing.assert_allclose(state.offset(observations), offset)
    bound = state.evidence(observations).total
    assert bound == pytest.approx(naive_bound(kind, observations, state), rel=1e-9)
    follows = replace(method, start=CodesAndFactors(codes)).init(context)
    assert follows.evidence(observations).total > bound
    method.step(context, state)
    np.testing.assert_array_equal(start.factors, factors)


def frozen(observations, state):
    """What is kept of a fit to place new rows."""
    return FrozenMeanField(
        observations.layout.restore(state.factors.mean),
        state.sticks.log_odds(),
        state.hyperparameters.noise_precision.mean,
        observations.layout.restore(state.factors.variance),
        state.offset(observations),
    )


@kinds
@pytest.mark.parametrize("missing", ["none", "block", "scattered", "heavy"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_new_rows(kind, missing, as_sparse):
    _, context, state = make(8, kind, missing, intercept=True, as_sparse=as_sparse, steps=10)
    observations = context.observations
    model = frozen(observations, state)
    nu = model.assign(observations, Threads())
    for n, k in np.ndindex(nu.shape):
        logit = naive_logit(observations, state, nu, n, k)
        assert nu[n, k] == pytest.approx(expit(logit), abs=1e-5)
    some = Observations.from_array(observations.source.rows(np.arange(3, 5)))
    alone = model.assign(some, Threads())
    np.testing.assert_allclose(alone, nu[3:5], atol=1e-9)
    empty = np.isnan(dense(observations)).all(axis=1)
    prior = np.tile(expit(state.sticks.log_odds()), (empty.sum(), 1))
    np.testing.assert_allclose(nu[empty], prior)
    unmoved = model.assign(observations, Threads(), should_stop=lambda: True)
    np.testing.assert_allclose(unmoved[0], expit(state.sticks.log_odds()))


def test_new_rows_do_not_depend_on_threads():
    _, context, state = make(9, missing="scattered", n=900, steps=2)
    model = frozen(context.observations, state)
    answers = [model.assign(context.observations, Threads(n_jobs)) for n_jobs in (1, 3)]
    np.testing.assert_array_equal(*answers)


def planted(rng, n=400, k=4, d=24, noise=0.3):
    Z = rng.random((n, k)) < 0.4
    A = np.kron(np.eye(k), np.ones(d // k)) * rng.choice([-1.0, 1.0], size=(k, d)) * 2
    return Z, A, Z @ A + noise * rng.normal(size=(n, d))


@kinds
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_finds_planted_features(kind, offset):
    rng = np.random.default_rng(0)
    Z, _, X = planted(rng)
    X = X + offset
    X[rng.random(X.shape) < 0.05] = np.nan
    summary = summarize(X)
    observations = Observations.from_summary(X, summary, centre=summary.means if offset else None)
    start = GammaPosterior.starting_at
    hyperparameters = Hyperparameters(
        start(1.0, (1.0, 1e-2), observations.n_observed / 2),
        start(1.0, (1.0, 1e-2), 2 * X.shape[1]),
        start(2.0, (1.0, 1.0), 4),
    )
    method = KINDS[kind](4, hyperparameters, intercept_std=20.0 if offset else None)
    generators = [np.random.default_rng(seed) for seed in range(8)]
    best = run(method, observations, generators, executor=Threads(), max_iter=200, tol=1e-6)
    found = best.state.probabilities > 0.5
    for k in range(4):
        agreement = (found == Z[:, [k]]).mean(axis=0)
        # A feature may be found as its opposite if there is an intercept.
        assert max(agreement.max(), 1 - agreement.min() if offset else 0) > 0.99
    assert best.state.hyperparameters.noise_std == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("sticks", [FiniteSticks, InfiniteSticks])
def test_sticks_follow_the_usage(sticks):
    usage = np.array([6000.0, 3000.0, 300.0])
    fitted = sticks.of_prior(3, 2.0)
    for _ in range(50):
        fitted = fitted.updated(usage, 10_000, 2.0)
    np.testing.assert_allclose(fitted.log_odds(), np.log(usage / (10_000 - usage)), atol=0.02)
