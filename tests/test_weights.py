"""Weighted codes: the model's equations, held to numerical integration and to sums in loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, sparse
from scipy.special import log_ndtr

import naive
from ibp.data import Observations, all_rows
from ibp.kernels.column_hashes import column_hashes
from ibp.model import (
    Bound,
    Hyperparameters,
    Statistics,
    first_intercept,
    truncated_normal,
    update_factors,
)
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from ibp.model.weights import Weights, best_weight, log_mass, row_objective, weight_divergence
from problems import (
    in_units,
    missing_kinds,
    priors,
    random_assignments,
    random_column_hyperparameters,
    random_data,
    random_factors,
    random_hyperparameters,
    seeds,
)

SPREADS = (1e-6, 1e-3, 0.05, 0.3, 1.0, 5.0)
PRECISIONS = (1e-3, 1.0, 40.0, 1e4, 1e6)
# r as a multiple of P, which is where the weight would be without a prior.
PLACES = (-3.0, -0.2, 0.0, 0.4, 1.0, 2.5)


def optimum(r, own, s):
    """Location and scale of the best q(w)."""
    scale = (1.0 / s**2 + own) ** -0.5
    return (1.0 / s**2 + r) * scale**2, scale


def by_integration(r, own, s):
    """Ln of the integral of p(w) exp(r w - P w^2 / 2), mean and variance of w, and the divergence.

    The integrand is followed about its peak, in the scale in which it falls.
    """
    location, scale = optimum(r, own, s)
    peak = max(location, 0.0)
    width = min(scale, scale**2 / abs(location)) if location < 0 else scale
    constant = -0.5 * math.log(2 * math.pi * s**2) - float(log_ndtr(1 / s))

    def log_prior(w):
        return constant - 0.5 * ((w - 1) / s) ** 2

    def log_integrand(w):
        return log_prior(w) + r * w - 0.5 * own * w * w

    highest = log_integrand(peak)
    left = max(peak - 14 * scale, 0.0)
    right = peak + (45 * width if location < 0 else 14 * scale)

    def integral(of):
        parts = [(left, peak), (peak, right)] if peak > left else [(left, right)]
        return sum(
            integrate.quad(
                lambda w: of(w) * math.exp(log_integrand(w) - highest), *part, epsabs=0, limit=200
            )[0]
            for part in parts
        )

    mass = integral(lambda w: 1.0)
    away = integral(lambda w: w - peak) / mass
    variance = integral(lambda w: (w - peak - away) ** 2) / mass
    log_evidence = highest + math.log(mass)
    likelihood = integral(lambda w: r * w - 0.5 * own * w * w) / mass
    return log_evidence, peak + away, variance, likelihood - log_evidence, likelihood


@pytest.mark.parametrize("s", SPREADS)
@pytest.mark.parametrize("own", PRECISIONS)
def test_the_best_weight_is_what_integration_gives(s, own):
    for place in PLACES:
        r = place * own
        found = best_weight(r, own, s, -1.3)
        log_evidence, mean, variance, divergence, likelihood = by_integration(r, own, s)
        size = 1.0 + abs(log_evidence) + abs(likelihood)
        assert found.gain == pytest.approx(log_evidence - 1.3, rel=1e-9, abs=1e-9)
        assert found.mean == pytest.approx(mean, rel=1e-8)
        assert found.variance == pytest.approx(variance, rel=1e-6)
        assert found.divergence == pytest.approx(divergence, abs=1e-9 * size)
        assert found.divergence >= -1e-12 * size


@pytest.mark.parametrize("s", SPREADS)
@pytest.mark.parametrize("own", PRECISIONS)
def test_the_divergence_is_that_of_the_optimum(s, own):
    r = own * np.array(PLACES)
    location, scale = optimum(r, own, s)
    found = best_weight(r, own, s, 0.0)
    direct = weight_divergence(location, np.full_like(location, scale), np.array(s))
    size = 1.0 + np.abs(found.gain) + (location / scale) ** 2 + s**-2.0
    assert (np.abs(found.divergence - direct) < 1e-11 * size).all()


@pytest.mark.parametrize("s", [0.05, 0.5, 3.0])
@pytest.mark.parametrize(("location", "scale"), [(1.0, 0.1), (-0.4, 0.6), (2.0, 1.5), (0.0, 0.02)])
def test_the_divergence_is_an_integral(s, location, scale):
    def log_density(w, centre, spread):
        mass = float(log_ndtr(centre / spread))
        return (
            -0.5 * ((w - centre) / spread) ** 2 - math.log(spread * math.sqrt(2 * math.pi)) - mass
        )

    def integrand(w):
        own = log_density(w, location, scale)
        return math.exp(own) * (own - log_density(w, 1.0, s))

    peak = max(location, 0.0)
    low = max(peak - 14 * scale, 0.0)
    expected = integrate.quad(integrand, low, peak + 14 * scale, points=[peak], limit=400)[0]
    found = weight_divergence(np.array(location), np.array(scale), np.array(s))
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-9)


@given(r=st.floats(-1e6, 1e6), own=st.floats(0.0, 1e6), odds=st.floats(-20, 20), s=st.just(0.0))
def test_without_a_spread_it_is_the_binary_model_exactly(r, own, odds, s):
    found = best_weight(r, own, s, odds)
    assert found.gain == odds + (2.0 * r - own) / 2.0
    assert (found.mean, found.variance, found.divergence) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("own", PRECISIONS)
def test_a_tiny_spread_is_next_to_the_binary_model(own):
    for place in PLACES:
        binary, tiny = (best_weight(place * own, own, s, 0.7) for s in (0.0, 1e-6))
        size = max(abs(float(binary.gain)), abs(place * own), own)
        moved = 0.5e-12 * ((place * own - own) ** 2 - own)  # the first term in s^2
        assert tiny.gain == pytest.approx(binary.gain + moved, abs=1e-9 * size)
        assert tiny.gain == pytest.approx(binary.gain, abs=3e-6 * size)
        assert tiny.mean == pytest.approx(1.0, abs=1e-5)
        assert tiny.variance == pytest.approx(0.0, abs=1e-11)


def test_arrays_of_spreads_may_have_zeros_among_them():
    r, own, s = np.array([3.0, -2.0, 0.5]), np.array([2.0, 5.0, 1.0]), np.array([0.0, 0.4, 0.0])
    together = best_weight(r, own, s, np.array([0.1, 0.2, 0.3]))
    for i in range(3):
        alone = best_weight(r[i], own[i], s[i], 0.1 * (i + 1))
        for part, whole in zip(alone, together, strict=True):
            assert whole[i] == pytest.approx(part, rel=1e-14, abs=1e-15)
    assert (log_mass(s) <= 0).all()
    assert log_mass(0.0) == 0.0


@given(seed=seeds)
@settings(max_examples=40)
def test_the_gain_is_a_difference_of_the_row_objective(seed):
    rng = np.random.default_rng(seed)
    k, d = 4, 6
    A = np.abs(rng.normal(size=(k, d)))
    quadratic, doubt = A @ A.T, rng.uniform(0, 1, k)
    linear, odds = 3 * rng.normal(size=k), rng.normal(size=k)
    std = rng.choice([0.0, 0.3, 1.0], size=k)
    mean = rng.uniform(0.1, 2, k) * (rng.random(k) < 0.6)
    variance, divergence = (np.where(mean > 0, rng.uniform(0, 0.5, k), 0.0) for _ in range(2))
    for j in range(k):
        without = [part.copy() for part in (mean, variance, divergence)]
        for part in without:
            part[j] = 0.0
        rest = linear[j] - quadratic[j] @ without[0]
        best = best_weight(rest, quadratic[j, j] + doubt[j], std[j], odds[j])
        with_it = [part.copy() for part in without]
        for part, value in zip(with_it, best[1:], strict=True):
            part[j] = value
        common = (linear, quadratic, doubt, odds)
        difference = row_objective(*with_it, *common) - row_objective(*without, *common)
        assert best.gain == pytest.approx(difference, rel=1e-9, abs=1e-9)


# The bound


def random_weights(rng, Z, dtype=np.float64):
    """q(W) of some locations and scales, no optimum of anything, and these."""
    n, k = Z.shape
    location, scale = rng.normal(1.0, 0.7, (n, k)), rng.uniform(0.05, 0.8, (n, k))
    std = rng.uniform(0.1, 1.5, k)
    moments = truncated_normal.moments(location, scale)
    divergence = weight_divergence(location, scale, std)
    return Weights(
        *(np.where(Z, part, 0.0).astype(dtype) for part in (moments[0], moments[2], divergence)),
        std,
    )


def naive_bound(X, weights, factors, intercept, hyper, prior):
    """The bound of known hyperparameters, an entry at a time, in double precision."""
    mean, variance, divergence = (
        np.asarray(part, dtype=np.float64)
        for part in (weights.mean, weights.variance, weights.divergence)
    )
    n, d = X.shape
    noise, factor = (np.broadcast_to(std, d) for std in (hyper.noise_std, hyper.factor_std))
    likelihood = 0.0
    for i in range(n):
        for j in range(d):
            if np.isnan(X[i, j]):
                continue
            a, doubt = factors.mean[:, j], factors.variance[:, j]
            error = X[i, j] - intercept.mean[j] - mean[i] @ a
            spread = mean[i] ** 2 @ doubt + variance[i] @ (a**2 + doubt)
            square = error**2 + spread + intercept.variance[j]
            likelihood -= 0.5 * math.log(2 * math.pi * noise[j] ** 2) + square / (2 * noise[j] ** 2)
    Z = (mean > 0).astype(np.uint8)
    active = Z.any(axis=0)
    second = factors.second_moment[active]
    factor_prior = (0.5 * np.log(2 / (np.pi * factor**2)) - second / (2 * factor**2)).sum()
    entropy = truncated_normal.entropy(factors.location[active], factors.scale[active]).sum()
    offset = -intercept.divergence()
    prior = naive.log_prior(Z, hyper.alpha.mean, prior)
    return likelihood + prior + factor_prior + entropy + offset - divergence.sum()


def known_state(rng, X, *, by_column=False, intercept=True, k=3, dtype=np.float64):
    """A weighted state of known hyperparameters, in pieces, and X as the model sees it."""
    centre = np.nanmean(all_dense(X), axis=0) if intercept else None
    observations = in_units(X, centre) if by_column else Observations.from_array(X, centre=centre)
    hyper = random_hyperparameters(rng, False)
    if by_column:
        hyper = random_column_hyperparameters(rng, observations, False)
    b = first_intercept(observations, 3.0 if intercept else None, hyper.noise_precision.mean)
    Z = random_assignments(rng, X.shape[0], k)
    factors = random_factors(rng, k, observations.n_features)
    seen = all_dense(X)[:, observations.layout.column_order].astype(np.float64)
    seen = (seen - observations.centre) / observations.unit
    return observations, hyper, b, random_weights(rng, Z, dtype), factors, seen


def all_dense(X):
    return X.toarray() if sparse.issparse(X) else X


def total_bound(observations, hyper, intercept, weights, factors, prior="shifted"):
    statistics = Statistics.from_codes(observations, weights.mean, variance=weights.variance)
    return (
        Bound(
            observations,
            statistics,
            factors,
            hyper,
            EQUIVALENCE_CLASSES[prior],
            intercept,
            weights.mean,
            column_hashes((weights.mean > 0).astype(np.uint8)),
            divergences=weights.divergences(),
        )
        .evidence()
        .total
    )


@given(
    seed=seeds, missing=missing_kinds, prior=priors, by_column=st.booleans(), offset=st.booleans()
)
@settings(max_examples=60)
def test_the_bound_is_a_sum_over_entries(seed, missing, prior, by_column, offset):
    rng = np.random.default_rng(seed)
    X = random_data(rng, 12, 5, missing=missing)
    X[:2] = rng.normal(size=(2, 5))  # every column has two different entries
    *state, seen = known_state(rng, X, by_column=by_column, intercept=offset)
    _, hyper, intercept, weights, factors = state
    expected = naive_bound(seen, weights, factors, intercept, hyper, prior)
    assert total_bound(*state, prior) == pytest.approx(expected, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("missing", ["none", "scattered"])
@pytest.mark.parametrize("kind", ["sparse", "single", "sparse single"])
def test_the_bound_is_that_sum_for_sparse_data_and_in_single_precision(kind, missing, by_column):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = random_data(rng, 15, 6, missing=missing)
        X[rng.random(X.shape) < 0.3] = 0.0
        X[:2] = rng.normal(size=(2, 6))
        dtype = np.float32 if "single" in kind else np.float64
        X = X.astype(dtype)
        data = sparse.csr_array(X) if "sparse" in kind else X
        *state, seen = known_state(rng, data, by_column=by_column, dtype=dtype)
        _, hyper, intercept, weights, factors = state
        expected = naive_bound(seen, weights, factors, intercept, hyper, "shifted")
        rough = 1e-5 if dtype == np.float32 else 1e-9
        assert total_bound(*state) == pytest.approx(expected, rel=rough)


@given(seed=seeds, missing=missing_kinds, by_column=st.booleans())
@settings(max_examples=20)
def test_removal_gains_are_differences_of_the_bound(seed, missing, by_column):
    rng = np.random.default_rng(seed)
    X = random_data(rng, 12, 5, missing=missing)
    X[:2] = rng.normal(size=(2, 5))
    observations, hyper, intercept, weights, factors, _ = known_state(
        rng, X, by_column=by_column, intercept=False
    )
    statistics = Statistics.from_codes(observations, weights.mean, variance=weights.variance)
    whole = Bound(
        observations,
        statistics,
        factors,
        hyper,
        intercept=intercept,
        codes=weights.mean,
        divergences=weights.divergences(),
    )
    full, gains = whole.evidence().total, whole.removal_gains()
    for k in range(3):
        keep = np.arange(3) != k
        less = weights.select(keep)
        without = total_bound(observations, hyper, intercept, less, factors.select(keep))
        assert gains[k] == pytest.approx(without - full, rel=1e-8, abs=1e-7)


@given(seed=seeds, missing=missing_kinds, by_column=st.booleans(), offset=st.booleans())
@settings(max_examples=30)
def test_with_weights_of_one_the_bound_is_that_of_the_binary_model(
    seed, missing, by_column, offset
):
    rng = np.random.default_rng(seed)
    X = random_data(rng, 12, 5, missing=missing)
    X[:2] = rng.normal(size=(2, 5))
    observations, hyper, intercept, some, factors, _ = known_state(
        rng, X, by_column=by_column, intercept=offset
    )
    Z = (some.mean > 0).astype(np.uint8)
    binary = Bound(
        observations, Statistics.from_codes(observations, Z), factors, hyper, intercept=intercept
    )
    weighted = total_bound(observations, hyper, intercept, Weights.ones(Z, np.float64), factors)
    assert weighted == pytest.approx(binary.evidence().total, rel=1e-13)


def grid(low, high, n):
    """Nodes and weights of a Gauss-Legendre rule."""
    x, w = np.polynomial.legendre.leggauss(n)
    return low + 0.5 * (high - low) * (x + 1), 0.5 * (high - low) * w


def log_evidence(X, hyper, std):
    """Ln p(X, [Z]) of one feature that two rows have, weights and factors integrated out.

    Columns are independent given the weights, and their factors have closed integrals.
    """
    tau, tau_a = hyper.noise_precision.mean, hyper.factor_precision.mean
    w, rule = grid(max(1.0 - 9 * std, 0.0), 1.0 + 9 * std, 120)
    log_p = -0.5 * ((w - 1) / std) ** 2 - 0.5 * math.log(2 * math.pi * std**2)
    log_p = log_p - float(log_ndtr(1 / std)) + np.log(rule)
    first, second = np.meshgrid(w, w, indexing="ij")
    total = log_p[:, None] + log_p[None, :]
    for x in X.T:
        precision = tau * (first**2 + second**2) + tau_a
        linear = tau * (first * x[0] + second * x[1])
        total = total + (
            math.log(tau / (2 * math.pi))
            + 0.5 * math.log(2 * tau_a / math.pi)
            + 0.5 * np.log(2 * math.pi / precision)
            - 0.5 * tau * (x @ x)
            + 0.5 * linear**2 / precision
            + log_ndtr(linear / np.sqrt(precision))
        )
    highest = total.max()
    integral = highest + math.log(np.exp(total - highest).sum())
    return integral + naive.log_prior(np.ones((2, 1), np.uint8), hyper.alpha.mean, "shifted")


def climbed(observations, hyper, std, rounds=25):
    """The best state of one feature that all rows have, and the bounds on the way there."""
    n, d = observations.n_samples, observations.n_features
    X = all_rows(observations.source)[:, observations.layout.column_order]
    rng = np.random.default_rng(0)
    factors = random_factors(rng, 1, d)
    weights = random_weights(rng, np.ones((n, 1), dtype=np.uint8))
    weights.std[:] = std
    tau = hyper.noise_precision.mean
    intercept = first_intercept(observations, None, tau)
    bounds = []
    for _ in range(rounds):
        own = tau * (factors.mean[0] ** 2 + factors.variance[0]).sum()
        best = best_weight(tau * X @ factors.mean[0], own, std, 0.0)
        weights.mean[:, 0], weights.variance[:, 0] = best.mean, best.variance
        weights.divergence[:, 0] = best.divergence
        statistics = Statistics.from_codes(observations, weights.mean, variance=weights.variance)
        update_factors(factors, statistics, observations.layout.group_start, hyper)
        bounds.append(total_bound(observations, hyper, intercept, weights, factors))
    return bounds


@pytest.mark.parametrize("std", [0.05, 0.4, 1.5])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_bound_is_below_the_evidence_and_not_far(std, d):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = np.outer(rng.uniform(0.5, 1.5, 2), np.abs(rng.normal(size=d))) + 0.3 * rng.normal(
            size=(2, d)
        )
        hyper = Hyperparameters.known(noise_std=0.4, factor_std=1.0, alpha=1.5)
        truth = log_evidence(X, hyper, std)
        bounds = climbed(Observations.from_array(X), hyper, std)
        assert np.all(np.diff(bounds) > -1e-9 * np.abs(bounds[-1]))
        assert max(bounds) <= truth + 1e-8
        assert bounds[-1] > truth - (0.1 if std < 0.1 else 2.0)


def test_without_a_spread_the_bound_of_one_feature_meets_the_evidence():
    X = np.random.default_rng(0).normal(size=(2, 2)) + 1.0
    hyper = Hyperparameters.known(noise_std=0.4, factor_std=1.0, alpha=1.5)
    assert climbed(Observations.from_array(X), hyper, 0.0)[-1] == pytest.approx(
        log_evidence(X, hyper, 1e-4), abs=1e-3
    )


def test_statistics_have_the_variances_on_their_diagonals():
    rng = np.random.default_rng(0)
    X = random_data(rng, 20, 6, missing="scattered")
    observations = Observations.from_array(X)
    weights = random_weights(rng, random_assignments(rng, 20, 3))
    statistics = Statistics.from_codes(observations, weights.mean, variance=weights.variance)
    seen = ~np.isnan(X[:, observations.layout.column_order])
    group = observations.layout.group_of_position
    for d in range(6):
        c, v = weights.mean[seen[:, d]], weights.variance[seen[:, d]]
        np.testing.assert_allclose(statistics.gram[group[d]], c.T @ c + np.diag(v.sum(axis=0)))
        np.testing.assert_allclose(statistics.doubt[group[d]], v.sum(axis=0))
        np.testing.assert_allclose(statistics.totals[group[d]], c.sum(axis=0))
    np.testing.assert_array_equal(statistics.counts, (weights.mean > 0).sum(axis=0))


def test_some_of_the_weights():
    rng = np.random.default_rng(1)
    weights = random_weights(rng, random_assignments(rng, 7, 4))
    keep = np.array([True, False, True, False])
    some = weights.select(keep)
    for name in ("mean", "variance", "divergence"):
        np.testing.assert_array_equal(getattr(some, name), getattr(weights, name)[:, keep])
    np.testing.assert_array_equal(some.std, weights.std[keep])
    np.testing.assert_allclose(some.divergences(), weights.divergences()[keep])
