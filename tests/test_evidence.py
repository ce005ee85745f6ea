import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import integrate, stats

import naive
from ibp.data import Observations, all_rows
from ibp.model import (
    Bound,
    Factors,
    Hyperparameters,
    Statistics,
    feature_evidence,
    squared_error,
    truncated_normal,
    update_factors,
)
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from problems import missing_kinds, priors, random_factors, random_state_parts, seeds


def bound_of(observations, Z, statistics, factors, hyperparameters, prior):
    return Bound(
        observations,
        statistics,
        factors,
        hyperparameters,
        EQUIVALENCE_CLASSES[prior],
        columns=Z.T,
    )


def bound(*state_and_prior):
    return bound_of(*state_and_prior).evidence()


@given(seed=seeds, missing=missing_kinds, prior=priors)
@settings(max_examples=40)
def test_agrees_with_the_equations_entry_by_entry(seed, missing, prior):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, missing)
    parts = bound(observations, Z, statistics, factors, hyper, prior)
    entropies = truncated_normal.entropy(factors.location, factors.scale)
    expected = naive.evidence(
        all_rows(observations.source)[:, observations.layout.column_order],
        Z,
        factors.mean,
        factors.second_moment,
        entropies,
        noise_std=hyper.noise_std,
        factor_std=hyper.factor_std,
        alpha=hyper.alpha.mean,
        prior=prior,
    )
    found = (
        parts.likelihood,
        parts.assignment_prior,
        parts.factor_prior,
        parts.factor_entropy,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
    assert parts.hyperparameters == 0.0
    assert parts.total == pytest.approx(sum(expected), rel=1e-10)


@given(seed=seeds, missing=missing_kinds, prior=priors)
def test_an_inactive_feature_contributes_exactly_nothing(seed, missing, prior):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, missing)
    rng = np.random.default_rng(seed)
    wider = np.insert(Z, 1, 0, axis=1)
    extra = random_factors(rng, 1, observations.n_features)
    more = Factors(
        *(
            np.insert(getattr(factors, name), 1, getattr(extra, name)[0], axis=0)
            for name in ("location", "scale", "mean", "variance")
        )
    )
    small = bound(observations, Z, statistics, factors, hyper, prior)
    large = bound(
        observations, wider, Statistics.from_codes(observations, wider), more, hyper, prior
    )
    # The sums of X may be rounded differently when Z has one more column; nothing else may be.
    assert large.likelihood == pytest.approx(small.likelihood, rel=1e-13)
    assert {**vars(large), "likelihood": 0} == {**vars(small), "likelihood": 0}


def test_a_feature_at_its_prior_has_no_evidence_of_its_own():
    # E ln p(a) + H(q) vanish together: what is left of eta is ln alpha (Sec. 3.4).
    hyper = Hyperparameters.known(noise_std=1.0, factor_std=0.6, alpha=2.0)
    factors = Factors.from_parameters(np.zeros((1, 9)), 0.6)
    assert feature_evidence(factors, hyper)[0] == pytest.approx(math.log(2.0), abs=1e-12)


@given(seed=seeds, missing=missing_kinds, prior=priors)
def test_each_factor_update_raises_the_bound(seed, missing, prior):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, missing)
    before = bound(observations, Z, statistics, factors, hyper, prior).total
    for _ in range(3):
        update_factors(factors, statistics, observations.layout.group_start, hyper)
        after = bound(observations, Z, statistics, factors, hyper, prior).total
        assert after >= before - 1e-9 * abs(before)
        before = after


def test_the_factor_update_is_where_the_bound_is_highest():
    observations, Z, statistics, factors, hyper = random_state_parts(3, "scattered", k=1)
    update_factors(factors, statistics, observations.layout.group_start, hyper)
    best = bound(observations, Z, statistics, factors, hyper, "shifted").total
    rng = np.random.default_rng(0)
    for _ in range(50):
        location = factors.location + rng.normal(size=factors.location.shape) * 0.05
        scale = factors.scale * np.exp(rng.normal(size=factors.scale.shape) * 0.05)
        other = Factors.from_parameters(location, scale)
        assert bound(observations, Z, statistics, other, hyper, "shifted").total < best


def test_real_valued_codes_have_statistics_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 4))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[0] = 1.0
    observations = Observations.from_array(X)
    codes = rng.random((9, 3)) * (rng.random((9, 3)) < 0.7)
    statistics = Statistics.from_codes(observations, codes)
    factors = random_factors(rng, 3, 4)
    seen = ~np.isnan(X[:, observations.layout.column_order])
    filled = np.where(seen, X[:, observations.layout.column_order], 0.0)
    direct = np.where(seen, filled - codes @ factors.mean, 0.0)
    variance = np.where(seen, codes**2 @ factors.variance, 0.0)
    error = (direct**2).sum()
    assert squared_error(observations, statistics, factors.mean) == pytest.approx(error)
    np.testing.assert_array_equal(statistics.counts, (codes != 0).sum(axis=0))
    hyper = Hyperparameters.known(noise_std=0.5, factor_std=1.0, alpha=1.0)
    whole = Bound(observations, statistics, factors, hyper)
    assert whole.squared_error == pytest.approx(error)
    assert whole.expected_squared_error == pytest.approx(error + variance.sum())
    update_factors(factors, statistics, observations.layout.group_start, hyper)
    own = np.array([[(codes[seen[:, d], k] ** 2).sum() for d in range(4)] for k in range(3)])
    np.testing.assert_allclose(factors.scale, (own / 0.5**2 + 1.0) ** -0.5)


@given(seed=seeds, missing=missing_kinds, prior=priors)
def test_removal_gains_are_differences_of_the_bound(seed, missing, prior):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, missing, learned=True)
    gains = bound_of(observations, Z, statistics, factors, hyper, prior).removal_gains()
    full = bound(observations, Z, statistics, factors, hyper, prior).total
    for k in range(3):
        keep = np.arange(3) != k
        without = bound(
            observations, Z[:, keep], statistics.select(keep), factors.select(keep), hyper, prior
        ).total
        assert gains[k] == pytest.approx(without - full, rel=1e-8, abs=1e-8)


@given(seed=seeds, missing=missing_kinds)
def test_what_is_lost_without_two_features_is_a_difference_of_likelihoods(seed, missing):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, missing)

    def likelihood(*features):
        keep = ~np.isin(np.arange(3), features)
        parts = Z[:, keep], statistics.select(keep), factors.select(keep)
        return bound(observations, *parts, hyper, "shifted").likelihood

    lost = bound_of(observations, Z, statistics, factors, hyper, "shifted").lost_together(
        np.arange(3)
    )
    for i, j in ((0, 1), (0, 2), (1, 2)):
        expected = likelihood(i) + likelihood(j) - likelihood() - likelihood(i, j)
        assert lost[i, j] == pytest.approx(expected, rel=1e-6, abs=1e-7)


@given(seed=seeds, missing=missing_kinds)
def test_features_go_together_as_long_as_each_gains(seed, missing):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, missing)
    whole = bound_of(observations, Z, statistics, factors, hyper, "shifted")
    lost = whole.lost_together(np.arange(3))
    assert whole.superfluous(np.array([1.0, 2.0, -1.0]) * 1e9).tolist() == [1, 0]
    gains = np.array([lost[0, 1] + 1.0, 0.5 * lost[0, 1], -1.0])  # the second not after the first
    assert whole.superfluous(gains).tolist() == [0]


@given(seed=seeds, missing=missing_kinds)
def test_training_likelihood_is_that_of_the_entries(seed, missing):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, missing)
    if observations.n_observed == 0:
        return
    prediction = Z @ observations.layout.restore(factors.mean)
    densities = stats.norm(prediction, hyper.noise_std).logpdf(all_rows(observations.source))
    found = Bound(observations, statistics, factors, hyper).train_log_likelihood()
    assert found == pytest.approx(np.nanmean(densities), rel=1e-9)


def log_joint(X, Z, hyper, prior):
    """ln p(X, [Z]): the factors integrated out numerically, dimension by dimension."""
    tau, tau_a = hyper.noise_precision.mean, hyper.factor_precision.mean
    total = naive.log_prior(Z, hyper.alpha.mean, prior)
    k = Z.shape[1]
    for x in X.T:
        seen = ~np.isnan(x)
        z, x = Z[seen].astype(float), x[seen]
        precision = tau * z.T @ z + tau_a * np.eye(k)
        mode = np.linalg.solve(precision, tau * z.T @ x)
        # Gaussian integral over all of space, times its mass in the positive orthant.
        log_all = (
            0.5 * x.size * math.log(tau / (2 * math.pi))
            + 0.5 * k * math.log(2 * tau_a / math.pi)
            + 0.5 * k * math.log(2 * math.pi)
            - 0.5 * np.linalg.slogdet(precision)[1]
            - 0.5 * tau * x @ x
            + 0.5 * mode @ precision @ mode
        )
        covariance = np.linalg.inv(precision)
        if k == 1:
            mass = stats.norm.cdf(mode[0] / math.sqrt(covariance[0, 0]))
        elif k == 2:
            mass = orthant_of_two(mode, covariance)
        else:
            mass = stats.multivariate_normal(
                np.zeros(k), covariance, abseps=1e-9, releps=1e-9, maxpts=2_000_000
            ).cdf(mode)
        total += log_all + math.log(mass)
    return total


def orthant_of_two(mode, covariance):
    s0, s1 = np.sqrt(np.diag(covariance))
    r = covariance[0, 1] / (s0 * s1)

    def inner(u):
        conditional = (mode[1] / s1 + r * u) / math.sqrt(1 - r * r)
        return stats.norm.pdf(u) * stats.norm.cdf(conditional)

    return integrate.quad(inner, -mode[0] / s0, 12.0, epsabs=1e-13)[0]


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bound_is_below_the_evidence_and_meets_it_for_one_feature(k, prior):
    for seed in range(4):
        observations, Z, statistics, factors, hyper = random_state_parts(
            seed, "scattered" if seed % 2 else "none", n=4, d=2, k=k
        )
        truth = log_joint(all_rows(observations.source), Z, hyper, prior)
        slack = 1e-5 if k == 3 else 1e-9  # the three-dimensional orthant is known to less
        assert bound(observations, Z, statistics, factors, hyper, prior).total <= truth + slack
        for _ in range(200):
            update_factors(factors, statistics, observations.layout.group_start, hyper)
        highest = bound(observations, Z, statistics, factors, hyper, prior).total
        assert highest <= truth + slack
        if k == 1:
            assert highest == pytest.approx(truth, rel=1e-10)
        else:
            assert highest > truth - 5.0


@given(seed=seeds)
@settings(max_examples=20)
def test_row_and_column_order_do_not_matter(seed):
    observations, Z, statistics, factors, hyper = random_state_parts(seed, "scattered")
    rng = np.random.default_rng(seed)
    rows, columns, features = (rng.permutation(n) for n in (8, 5, 3))
    first = bound(observations, Z, statistics, factors, hyper, "shifted")
    X = all_rows(observations.source)[rows][:, columns]
    shuffled = Observations.from_array(X)
    Z2 = Z[rows][:, features]

    def reorder(a):
        return shuffled.layout.arrange(observations.layout.restore(a)[features][:, columns])

    factors2 = Factors(*(reorder(a) for a in vars(factors).values()))
    second = bound(shuffled, Z2, Statistics.from_codes(shuffled, Z2), factors2, hyper, "shifted")
    np.testing.assert_allclose(list(vars(first).values()), list(vars(second).values()), rtol=1e-10)
