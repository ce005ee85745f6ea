"""BNMF: its objective, its updates, missing entries, sparse input, threads, new rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls
from scipy.stats import expon, invgamma, norm

from ibp import BNMF, loop
from ibp.data import Observations
from ibp.methods.bnmf import BNMFMethod, FrozenBNMF, code_statistics
from ibp.methods.context import Context
from ibp.model import GammaPosterior, Known
from ibp.parallel import Threads
from ibp.starts.codes_and_factors import CodesAndFactors
from problems import assert_not_lower, missing_kinds, seeds, stop_after

MISSING = ["none", "block", "scattered", "heavy"]


def data(seed, n=40, d=9, k=3, missing="none", noise=0.1):
    """Nonnegative codes and factors, a third of them zero, with a little noise; minimum 0."""
    rng = np.random.default_rng(seed)
    B = rng.exponential(size=(n, k)) * (rng.random((n, k)) < 0.67)
    A = rng.exponential(size=(k, d)) * (rng.random((k, d)) < 0.67)
    X = B @ A + noise * rng.normal(size=(n, d))
    X -= X.min()
    if missing == "block":
        X[n // 2 :, : d // 3] = np.nan
    elif missing == "scattered":
        X[rng.random(X.shape) < 0.2] = np.nan
    elif missing == "heavy":
        X[rng.random(X.shape) < 0.6] = np.nan
        X[rng.integers(n)] = np.nan
    return X


def learned(shape=1.5, rate=0.02, mean=10.0):
    return GammaPosterior.starting_at(mean, (shape, rate), 10.0)


def context_of(X, seed=0, **options):
    return Context(Observations.from_array(X), np.random.default_rng(seed), **options)


def components(context, state):
    """A in the user's column order."""
    return context.observations.layout.restore(state.factors)


def fitted(X, method, n_steps, seed=0, n_jobs=1):
    context = context_of(X, seed, executor=Threads(n_jobs))
    state = method.init(context)
    reports = [method.step(context, state) for _ in range(n_steps)]
    return state, reports


def settled(X, method):
    """A state that sweeps no longer change; strong priors and noise make this quick."""
    context = context_of(X)
    state = method.init(context)
    for _ in range(4000):
        before = state.codes.copy()
        report = method.step(context, state)
        if np.abs(state.codes - before).max() < 1e-10 * before.max():
            assert report.n_changed == 0
            return state, components(context, state)
    raise AssertionError("not settled")


class Naive:
    """The same method one number at a time, from X, B and A alone; NaN is missing."""

    def __init__(self, X, B, A, variance, code_rate, factor_rate, noise_prior):
        self.observed = ~np.isnan(X)
        self.X = np.where(self.observed, X, 0.0)
        self.B, self.A, self.variance = B.copy(), A.copy(), variance
        self.rates = code_rate, factor_rate
        self.noise_prior = noise_prior

    @staticmethod
    def improve(x, codes, factors, penalty, n_passes):
        """Codes of one row x, the parts of x and of the factors that are observed."""
        for _ in range(n_passes):
            for k in range(codes.size):
                rest = x - codes @ factors + codes[k] * factors[k]
                norm_squared = factors[k] @ factors[k]
                numerator = factors[k] @ rest - penalty
                codes[k] = max(0.0, numerator / norm_squared) if norm_squared > 0 else 0.0

    def error(self):
        return np.sum((self.X - self.B @ self.A)[self.observed] ** 2)

    def sweep(self, n_passes):
        for n, seen in enumerate(self.observed):
            penalty = self.variance * self.rates[0]
            self.improve(self.X[n, seen], self.B[n], self.A[:, seen], penalty, n_passes)
        if self.noise_prior:
            shape, rate = self.noise_prior
            n_observed = self.observed.sum()
            self.variance = (rate + self.error() / 2) / (n_observed / 2 + shape + 1)
        for d, seen in enumerate(self.observed.T):
            penalty = self.variance * self.rates[1]
            self.improve(self.X[seen, d], self.A[:, d], self.B[seen].T, penalty, n_passes)

    def log_joint(self):
        mean = (self.B @ self.A)[self.observed]
        total = norm.logpdf(self.X[self.observed], mean, np.sqrt(self.variance)).sum()
        total += expon.logpdf(self.B, scale=1 / self.rates[0]).sum()
        total += expon.logpdf(self.A, scale=1 / self.rates[1]).sum()
        if self.noise_prior:
            shape, rate = self.noise_prior
            total += invgamma.logpdf(self.variance, shape, scale=rate)
        return total


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("noise", [Known(30.0), learned()])
def test_agrees_with_a_plain_implementation_from_the_same_start(missing, noise):
    X = data(3, missing=missing)
    method = BNMFMethod(4, noise, code_rate=0.7, factor_rate=1.3, inner_sweeps=3)
    context = context_of(X, seed=1)
    state = method.init(context)
    prior = None if isinstance(noise, Known) else (noise.prior_shape, noise.prior_rate)
    start = state.codes, components(context, state), state.noise_variance
    naive = Naive(X, *start, 0.7, 1.3, prior)
    for _ in range(6):
        report = method.step(context, state)
        naive.sweep(3)
        np.testing.assert_allclose(state.codes, naive.B, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(components(context, state), naive.A, rtol=1e-10, atol=1e-10)
        assert state.noise_variance == pytest.approx(naive.variance, rel=1e-10)
        assert report.evidence == pytest.approx(naive.log_joint(), rel=1e-10)
        likelihood = norm.logpdf(
            X[naive.observed], (naive.B @ naive.A)[naive.observed], naive.variance**0.5
        )
        assert report.train_log_likelihood == pytest.approx(likelihood.mean(), rel=1e-9)


@settings(max_examples=60)
@given(
    seeds,
    missing_kinds,
    st.booleans(),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.integers(1, 4),
)
def test_no_update_lowers_the_joint_density(seed, missing, learns, code_rate, factor_rate, passes):
    rng = np.random.default_rng(seed)
    X = data(seed, n=12, d=6, missing=missing, noise=rng.choice([0.01, 1.0]))
    noise = learned(mean=float(rng.choice([1.0, 100.0]))) if learns else Known(rng.uniform(0.1, 50))
    method = BNMFMethod(4, noise, code_rate, factor_rate, passes)
    context = Context(Observations.from_array(X), rng)
    state = method.init(context)
    before = method.report(context, state).evidence
    for _ in range(4):
        for update in (
            lambda: method.update_codes(context, state, passes),
            lambda: method.update_noise(context.observations, state),
            lambda: method.update_factors(context, state, passes),
        ):
            update()
            after = method.report(context, state).evidence
            assert_not_lower(after, before)
            before = after
    assert (state.codes >= 0).all()
    assert (state.factors >= 0).all()


@pytest.mark.parametrize("missing", MISSING)
def test_is_stationary_at_convergence(missing):
    X = data(5, missing=missing, noise=1.0)
    method = BNMFMethod(3, learned(), code_rate=2.0, factor_rate=2.5, inner_sweeps=5)
    state, A = settled(X, method)
    assert state.in_use.any()
    observed = ~np.isnan(X)
    B, v = state.codes, state.noise_variance
    residual = np.where(observed, B @ A - np.nan_to_num(X), 0.0)
    for gradient, values in (
        (residual @ A.T / v + 2.0, B),
        (B.T @ residual / v + 2.5, A),
    ):
        assert gradient.min() > -1e-6
        assert np.abs(gradient[values > 0]).max() < 1e-6
    n, shape, rate = observed.sum(), 1.5, 0.02
    slope = -(n / 2 + shape + 1) / v + (rate + (residual**2).sum() / 2) / v**2
    assert abs(slope) * v < 1e-7 * n


@settings(max_examples=10)
@given(seeds, missing_kinds)
def test_sparse_input_gives_the_same_as_dense(seed, missing):
    X = data(seed, missing=missing)
    X[X < 0.5] = 0.0
    method = BNMFMethod(3, learned())
    dense, dense_reports = fitted(X, method, 5)
    stored, stored_reports = fitted(sparse.csr_array(X), method, 5)
    np.testing.assert_allclose(stored.codes, dense.codes, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stored.factors, dense.factors, rtol=1e-9, atol=1e-9)
    assert stored_reports[-1].evidence == pytest.approx(dense_reports[-1].evidence, rel=1e-9)


@pytest.mark.parametrize("missing", ["none", "scattered"])
def test_threads_change_nothing_and_a_seed_repeats(missing):
    X = data(7, n=900, d=300, missing=missing)
    one, _ = fitted(X, BNMFMethod(3, learned()), 3, seed=4)
    again, _ = fitted(X, BNMFMethod(3, learned()), 3, seed=4)
    four, _ = fitted(X, BNMFMethod(3, learned()), 3, seed=4, n_jobs=4)
    for other in (again, four):
        np.testing.assert_array_equal(other.codes, one.codes)
        np.testing.assert_array_equal(other.factors, one.factors)
        assert other.noise_variance == one.noise_variance
    different, _ = fitted(X, BNMFMethod(3, learned()), 3, seed=5)
    assert not np.array_equal(different.codes, one.codes)


def test_single_precision_is_close():
    X = data(8)
    method = BNMFMethod(3, learned())
    double, _ = fitted(X, method, 4)
    single, _ = fitted(X.astype(np.float32), method, 4)
    np.testing.assert_allclose(single.codes, double.codes, atol=1e-4 * double.codes.max())


@pytest.mark.parametrize("missing", MISSING)
def test_new_rows_get_the_codes_of_training_rows(missing):
    X = data(9, missing=missing, noise=1.0)
    method = BNMFMethod(3, learned(), code_rate=2.0, factor_rate=2.5, inner_sweeps=5)
    state, A = settled(X, method)
    frozen = FrozenBNMF(A, state.noise_variance, 2.0)
    codes = frozen.codes(Observations.from_array(X), Threads())
    np.testing.assert_allclose(codes, state.codes, atol=1e-6 * codes.max())
    some = frozen.codes(Observations.from_array(X[7:20]), Threads(2))
    np.testing.assert_allclose(some, codes[7:20], atol=1e-8 * codes.max())


def test_codes_of_new_rows_solve_the_penalised_problem():
    rng = np.random.default_rng(2)
    A, X = rng.exponential(size=(5, 12)), data(2, n=20, d=12, missing="scattered")
    X[0] = np.nan
    variance, rate = 0.3, 2.0
    codes = FrozenBNMF(A, variance, rate).codes(Observations.from_array(X), Threads())
    assert not codes[0].any()
    for x, b in zip(X[1:], codes[1:], strict=True):
        part = A[:, ~np.isnan(x)]
        # |x - b part|^2 / 2 + penalty sum(b) = |y - L'b|^2 / 2 + constant, if L L' = part part'.
        factor = np.linalg.cholesky(part @ part.T)
        target = np.linalg.solve(factor, part @ x[~np.isnan(x)] - variance * rate)
        np.testing.assert_allclose(b, nnls(factor.T, target)[0], atol=1e-6)


def test_new_rows_can_be_left_at_zero():
    X = data(2, n=600)
    frozen = FrozenBNMF(np.ones((2, 9)), 0.1, 1.0)
    codes = frozen.codes(Observations.from_array(X), Threads(), should_stop=stop_after(1))
    assert codes[:256].any(axis=1).all()
    assert not codes[256:].any()


@pytest.mark.parametrize("c", [1e-6, 1e5])
@pytest.mark.parametrize("learns", [False, True])
def test_the_unit_of_the_data_does_not_matter(c, learns):
    X = data(11, missing="scattered")
    shape, rate = 1.5, 0.02
    base = learned(shape, rate) if learns else Known(10.0)
    scaled = learned(shape, rate * c**2, 10.0 / c**2) if learns else Known(10.0 / c**2)
    state, reports = fitted(X, BNMFMethod(3, base, 0.8, 0.6), 8)
    other, other_reports = fitted(c * X, BNMFMethod(3, scaled, 0.8, 0.6 / c), 8)
    np.testing.assert_allclose(other.codes, state.codes, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.factors, c * state.factors, rtol=1e-6, atol=1e-8 * c)
    assert other.noise_variance == pytest.approx(c**2 * state.noise_variance, rel=1e-8)
    densities = np.count_nonzero(~np.isnan(X)) + state.factors.size + 2 * learns
    expected = reports[-1].evidence - densities * np.log(c)
    assert other_reports[-1].evidence == pytest.approx(expected, rel=1e-8)


def test_dead_features_stay_dead_and_are_not_counted():
    X = data(12, n=30)
    rng = np.random.default_rng(0)
    codes, factors = rng.exponential(size=(30, 4)), rng.exponential(size=(4, 9))
    codes[:, 1], factors[2] = 0.0, 0.0
    method = BNMFMethod(4, learned(), start=CodesAndFactors(codes, factors), inner_sweeps=2)
    context = Context(Observations.from_array(X), rng)
    state = method.init(context)
    assert method.report(context, state).n_components == 2
    for _ in range(5):
        report = method.step(context, state)
    assert np.isfinite(report.evidence)
    assert not state.codes[:, 2].any()
    assert not state.factors[2].any()
    assert state.in_use.tolist() == [True, True, False, True]


def test_a_strong_prior_switches_everything_off():
    X = data(13)
    state, reports = fitted(X, BNMFMethod(3, Known(1.0), 1e6, 1e6), 2)
    assert reports[-1].n_components == 0
    assert not state.codes.any()
    assert np.isfinite(reports[-1].evidence)


@pytest.mark.parametrize("seed", range(8))
def test_features_outside_of_what_a_row_or_column_observes_are_off(seed):
    """By subtraction their squared norms would be rounding errors, and codes their quotients."""
    rng = np.random.default_rng(seed)
    factors = rng.random((3, 60))
    factors[0, :20] *= 1e3
    factors[0, 20:] = 0.0
    codes = 0.5 + rng.exponential(size=(90, 3))
    codes[:50, 2] = 0.0
    codes[50:, 2] *= 1e3
    X = codes @ factors
    X[50:, :20] = np.nan  # where feature 0 shows, and where feature 2 is
    X[80:][rng.random((10, 60)) < 0.1] = np.nan
    start = CodesAndFactors(codes, factors)
    method = BNMFMethod(3, Known(1e12), 1e-6, 1e-6, inner_sweeps=1, start=start)
    context = Context(Observations.from_array(X), rng)
    state = method.init(context)
    for _ in range(3):
        method.step(context, state)
        np.testing.assert_array_equal(state.codes[50:, 0], 0.0)
        np.testing.assert_array_equal(components(context, state)[2, :20], 0.0)


def test_start_from_given_parts():
    X = data(14)
    rng = np.random.default_rng(1)
    codes, factors = rng.normal(size=(40, 3)), rng.normal(size=(3, 9))
    method = BNMFMethod(7, Known(10.0), start=CodesAndFactors(codes, factors))
    context = Context(Observations.from_array(X), rng)
    state = method.init(context)
    np.testing.assert_array_equal(state.codes, np.maximum(codes, 0))
    np.testing.assert_array_equal(components(context, state), np.maximum(factors, 0))


def test_factors_of_a_start_without_them_are_the_mode_given_its_codes():
    X = data(15, missing="scattered")
    codes = np.random.default_rng(1).exponential(size=(40, 3))
    method = BNMFMethod(3, Known(10.0), start=CodesAndFactors(codes))
    context = context_of(X)
    state = method.init(context)
    before = state.factors.copy()
    method.update_factors(context, state, 50, tolerance=0.0)
    np.testing.assert_allclose(state.factors, before, atol=1e-7)
    assert state.factors.any()


def test_random_start_has_the_mean_of_the_data():
    X = data(16, n=400, d=50)
    method = BNMFMethod(10, Known(1.0), 3.0, 0.2)
    state = method.init(context_of(X))
    assert (state.codes @ state.factors).mean() == pytest.approx(X.mean(), rel=0.1)
    assert 3.0 * state.codes.sum() == pytest.approx(0.2 * state.factors.sum(), rel=0.2)


@pytest.mark.parametrize("X", [np.zeros((5, 3)), -np.ones((5, 3))])
def test_data_that_have_nothing_positive_switch_everything_off(X):
    _, reports = fitted(X, BNMFMethod(2, learned()), 3)
    assert reports[-1].n_components == 0
    assert np.isfinite(reports[-1].evidence)


def test_refuses_centred_data():
    X = data(17)
    observations = Observations.from_array(X, centre=X.mean(axis=0))
    with pytest.raises(ValueError, match="no intercept"):
        BNMFMethod(2, Known(1.0)).init(Context(observations))


def test_told_to_stop_it_leaves_a_consistent_state():
    X = data(18, n=700, missing="scattered")
    method = BNMFMethod(3, learned())
    for n_checks in range(5):
        context = context_of(X)
        state = method.init(context)
        before = method.report(context, state).evidence
        report = method.step(replace(context, should_stop=stop_after(n_checks)), state)
        assert_not_lower(report.evidence, before)
        state.statistics = code_statistics(context.observations, state.codes, context.executor)
        assert method.report(context, state).evidence == pytest.approx(report.evidence, rel=1e-12)


def test_the_loop_runs_it_to_convergence():
    X = data(19, n=200, d=20)
    method = BNMFMethod(3, learned())
    generators = [np.random.default_rng(0), np.random.default_rng(1)]
    run = loop.run(
        method, Observations.from_array(X), generators, executor=Threads(), max_iter=500, tol=1e-4
    )
    assert run.ending == "converged"
    assert (np.diff(run.history.as_arrays()["evidence"]) >= -1e-9 * np.abs(run.evidence)).all()
    assert 0.05 < run.state.noise_std < 0.2


def test_the_loop_notices_that_codes_are_at_rest():
    X = data(5, noise=1.0)
    method = BNMFMethod(3, learned(), 2.0, 2.5)
    generators = [np.random.default_rng(0)]
    run = loop.run(
        method, Observations.from_array(X), generators, executor=Threads(), max_iter=3000, tol=0.0
    )
    assert run.ending == "converged"
    assert run.history.sweeps[0].n_changed > 0
    assert run.history.sweeps[-1].n_changed == 0


def test_the_rate_of_the_factors_can_be_given():
    X = data(3)
    loose, tight = (
        BNMF(3, factor_rate=rate, max_iter=5, tol=0, random_state=0).fit(X) for rate in (0.1, 5.0)
    )
    assert tight.components_.sum() < loose.components_.sum()
    with pytest.warns(UserWarning, match="No feature survived"):
        nothing = BNMF(3, factor_rate=1e9, max_iter=5, tol=0, random_state=0).fit(X)
    assert nothing.n_components_ == 0
    assert nothing.transform(X).shape == (len(X), 0)
    assert np.isfinite(nothing.score(X))
