"""The offset b: its bound against loops and integrals, its update, and what users see of it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import naive
from ibp import MEIBP
from ibp.data import Observations, all_rows
from ibp.datasets import make_block_images
from ibp.model import (
    Bound,
    Factors,
    GammaPosterior,
    LearnedIntercept,
    NoIntercept,
    Statistics,
    truncated_normal,
    update_factors,
)
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from problems import (
    missing_kinds,
    plain,
    predictive,
    priors,
    random_assignments,
    random_data,
    random_factors,
    random_hyperparameters,
    seeds,
)


def random_state(seed, missing="scattered", *, learned=False, n=8, d=5, k=3):
    """Observations about their means with a random q(b) of every column."""
    rng = np.random.default_rng(seed)
    X = random_data(rng, n, d, missing=missing) + rng.normal(size=d) * 5.0
    observations = Observations.from_array(X, centre=rng.normal(size=d) * 5.0)
    Z = random_assignments(rng, n, k)
    intercept = LearnedIntercept(rng.normal(size=d), rng.uniform(0.01, 2.0, size=d), 3.0)
    return (
        observations,
        Z,
        Statistics.from_codes(observations, Z),
        random_factors(rng, k, d),
        random_hyperparameters(rng, learned, k, d, observations.n_observed),
        intercept,
    )


def bound_of(observations, Z, statistics, factors, hyper, intercept, prior="shifted"):
    return Bound(
        observations,
        statistics,
        factors,
        hyper,
        EQUIVALENCE_CLASSES[prior],
        intercept,
        columns=Z.T,
    )


def bound(*state_and_prior):
    return bound_of(*state_and_prior).evidence()


# The bound


@given(seed=seeds, missing=missing_kinds, prior=priors)
@settings(max_examples=40)
def test_agrees_with_the_equations_entry_by_entry(seed, missing, prior):
    state = random_state(seed, missing)
    observations, Z, _, factors, hyper, intercept = state
    parts = bound(*state, prior)
    expected = naive.evidence(
        all_rows(observations.source)[:, observations.layout.column_order],
        Z,
        factors.mean,
        factors.second_moment,
        truncated_normal.entropy(factors.location, factors.scale),
        noise_std=hyper.noise_std,
        factor_std=hyper.factor_std,
        alpha=hyper.alpha.mean,
        prior=prior,
        offset=observations.centre + intercept.mean,
        offset_variance=intercept.variance,
    )
    divergence = sum(
        naive.gaussian_divergence(centre + mean, np.sqrt(variance), centre, 3.0)
        for centre, mean, variance in zip(
            observations.centre, intercept.mean, intercept.variance, strict=True
        )
    )
    found = (
        parts.likelihood,
        parts.assignment_prior,
        parts.factor_prior,
        parts.factor_entropy,
        parts.intercept,
    )
    np.testing.assert_allclose(found, (*expected, -divergence), rtol=1e-9, atol=1e-8)
    assert parts.total == pytest.approx(sum(expected) - divergence, rel=1e-9)


@given(seed=seeds, missing=missing_kinds)
def test_training_likelihood_is_that_of_the_entries(seed, missing):
    observations, Z, statistics, factors, hyper, intercept = random_state(seed, missing)
    if observations.n_observed == 0:
        return
    from_layout = observations.layout.restore
    prediction = from_layout(observations.centre + intercept.mean) + Z @ from_layout(factors.mean)
    densities = stats.norm(prediction, hyper.noise_std).logpdf(all_rows(observations.source))
    found = bound_of(observations, Z, statistics, factors, hyper, intercept).train_log_likelihood()
    assert found == pytest.approx(np.nanmean(densities), rel=1e-9)


@given(seed=seeds, missing=missing_kinds, prior=priors)
def test_removal_gains_are_differences_of_the_bound(seed, missing, prior):
    state = random_state(seed, missing, learned=True)
    observations, Z, statistics, factors, hyper, intercept = state
    gains = bound_of(*state, prior).removal_gains()
    full = bound(*state, prior).total
    for k in range(3):
        keep = np.arange(3) != k
        without = bound(
            observations,
            Z[:, keep],
            statistics.select(keep),
            factors.select(keep),
            hyper,
            intercept,
            prior,
        ).total
        assert gains[k] == pytest.approx(without - full, rel=1e-8, abs=1e-8)


@given(seed=seeds, missing=missing_kinds)
@settings(max_examples=40)
def test_with_the_factors_known_the_bound_is_the_evidence(seed, missing):
    # Factors without any spread: the only unknown is b, whose posterior is Gaussian indeed.
    observations, Z, statistics, factors, hyper, intercept = random_state(seed, missing)
    known = Factors(factors.location, factors.scale, factors.mean, np.zeros_like(factors.mean))
    tau = hyper.noise_precision.mean
    intercept = intercept.updated(observations, statistics, known.mean, tau)
    parts = bound(observations, Z, statistics, known, hyper, intercept)
    expected = 0.0
    X = all_rows(observations.source)[:, observations.layout.column_order]
    for d in range(observations.n_features):
        seen = ~np.isnan(X[:, d])
        if not seen.any():
            continue
        residual = X[seen, d] - observations.centre[d] - Z[seen] @ known.mean[:, d]
        covariance = np.eye(seen.sum()) / tau + intercept.prior_std**2
        expected += stats.multivariate_normal(np.zeros(seen.sum()), covariance).logpdf(residual)
    assert parts.likelihood + parts.intercept == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("missing", ["none", "scattered"])
def test_the_bound_is_below_the_evidence(missing):
    # One feature: b is integrated out by hand, the factor numerically.
    for seed in range(8):
        state = random_state(seed, missing, n=5, d=2, k=1)
        observations, Z, statistics, factors, hyper, intercept = state
        tau, tau_a = hyper.noise_precision.mean, hyper.factor_precision.mean
        truth = naive.log_prior(Z, hyper.alpha.mean, "shifted")
        X = all_rows(observations.source)[:, observations.layout.column_order]
        for d in range(2):
            seen = ~np.isnan(X[:, d])
            z, x = Z[seen, 0], X[seen, d] - observations.centre[d]
            density = stats.multivariate_normal(
                np.zeros(x.size), np.eye(x.size) / tau + intercept.prior_std**2
            )
            grid = np.linspace(0.0, 40.0, 40_001)
            logs = density.logpdf(x - grid[:, None] * z) - 0.5 * tau_a * grid**2
            peak = logs.max()
            integral = integrate.simpson(np.exp(logs - peak), x=grid)
            truth += peak + np.log(integral) + 0.5 * np.log(2 * tau_a / np.pi)
        assert bound(*state).total <= truth + 1e-9
        before = -np.inf
        for _ in range(300):
            intercept = intercept.updated(observations, statistics, factors.mean, tau)
            update_factors(
                factors,
                statistics,
                observations.layout.group_start,
                hyper,
                intercept.mean,
                intercept.response(tau),
            )
            highest = bound(observations, Z, statistics, factors, hyper, intercept).total
            assert highest >= before - 1e-9 * abs(before)
            before = highest
        assert truth - 2.0 < highest <= truth + 1e-9


# Its update


@given(seed=seeds, missing=missing_kinds, learned=st.booleans())
@settings(max_examples=40)
def test_the_update_is_where_the_bound_is_highest(seed, missing, learned):
    state = random_state(seed, missing, learned=learned)
    observations, Z, statistics, factors, hyper, intercept = state
    tau = hyper.noise_precision.mean
    best = intercept.updated(observations, statistics, factors.mean, tau)
    n_observed = (
        ~np.isnan(all_rows(observations.source)[:, observations.layout.column_order])
    ).sum(axis=0)
    np.testing.assert_allclose(best.variance, 1.0 / (n_observed * tau + 3.0**-2))

    def value(mean, variance):
        other = LearnedIntercept(mean, variance, 3.0)
        return bound(observations, Z, statistics, factors, hyper, other).total

    highest = value(best.mean, best.variance)
    assert highest >= bound(*state).total
    rng = np.random.default_rng(seed)
    spread = np.sqrt(best.variance)
    for step in (1e-2, 0.3):
        for _ in range(3):
            direction = rng.normal(size=5) * step
            assert value(best.mean + direction * spread, best.variance) < highest
            assert value(best.mean, best.variance * np.exp(direction)) < highest
    for d in range(5):  # and the slope is zero there
        direction = np.eye(5)[d] * 1e-3
        up, down = (value(best.mean + s * direction * spread, best.variance) for s in (1, -1))
        assert abs(up - down) < 1e-6 * max(1.0, abs(highest) * 1e-3)
        up, down = (value(best.mean, best.variance * np.exp(s * direction)) for s in (1, -1))
        assert abs(up - down) < 1e-6 * max(1.0, abs(highest) * 1e-3)


@given(seed=seeds, missing=missing_kinds)
def test_the_noise_pays_for_the_uncertainty_of_b(seed, missing):
    state = random_state(seed, missing, learned=True)
    observations, *_, intercept = state
    whole = bound_of(*state)
    learned = whole.updated_hyperparameters().noise_precision
    certain = replace(intercept, variance=np.zeros(5))
    without = replace(whole, intercept=certain).updated_hyperparameters().noise_precision
    n_observed = (
        ~np.isnan(all_rows(observations.source)[:, observations.layout.column_order])
    ).sum(axis=0)
    assert isinstance(learned, GammaPosterior)
    assert learned.shape == without.shape
    gain = 0.5 * (n_observed * intercept.variance).sum()
    assert learned.rate - without.rate == pytest.approx(gain, rel=1e-9, abs=1e-9)


def test_no_intercept_is_nothing():
    observations, Z, statistics, factors, hyper, _ = random_state(0)
    none = NoIntercept.of_width(5)
    assert none.divergence() == 0.0
    assert none.updated(observations, statistics, factors.mean, 2.0) is none
    with_none = bound(observations, Z, statistics, factors, hyper, none)
    without = Bound(observations, statistics, factors, hyper).evidence()
    assert with_none == without
    assert with_none.intercept == 0.0


# What users see


def planted(seed=0, n=150, d=12, k=3, noise=0.15):
    rng = np.random.default_rng(seed)
    Z = (rng.random((n, k)) < 0.4).astype(np.uint8)
    A = rng.uniform(0.5, 2.0, size=(k, d)) * (rng.random((k, d)) < 0.6)
    return Z, A, Z @ A + rng.normal(0.0, noise, size=(n, d))


def units_of(X, centre, noise):
    """The units of the columns with noise of each, by their definition; else ones."""
    if noise == "shared":
        return np.ones(X.shape[1])
    squares = np.nanmean((X - centre) ** 2, axis=0)
    gap = np.nanmin(np.diff(np.sort(X, axis=0), axis=0), axis=0)
    return np.sqrt(squares + gap**2 / 12)


def parts_of_the_bound(model, X, unit, **intercept):
    """The parts of a fitted model's bound without the intercept's, by the equations.

    They are those of the data in units of the columns, but for a likelihood in the data's own.
    """
    mean, std = model.components_ / unit, model.components_std_ / unit
    likelihood, *others = naive.evidence(
        X / unit,
        model.assignments_,
        mean,
        mean**2 + std**2,
        truncated_normal.entropy(model.factor_location_ / unit, model.factor_scale_ / unit),
        noise_std=model.noise_std_ / unit,
        factor_std=model.factor_std_ / unit,
        alpha=3.0,
        prior="shifted",
        **intercept,
    )
    return likelihood - (~np.isnan(X)).sum(axis=0) @ np.log(unit), *others


@pytest.mark.parametrize("noise", ["per_column", "shared"])
def test_without_an_intercept_the_model_is_the_papers(noise):
    _, _, X = planted()
    X = X - X.min()
    settings = {"fit_intercept": False, "learn_hyperparameters": False, "noise": noise}
    model = MEIBP(5, **settings, random_state=0).fit(X)
    assert model.intercept_.tolist() == [0.0] * 12
    assert model.evidence_parts_["intercept"] == 0.0
    unit = units_of(X, 0.0, noise)
    if noise == "per_column":
        np.testing.assert_allclose(model.noise_std_, 0.75 * unit, rtol=1e-9)
        np.testing.assert_allclose(model.factor_std_, 0.75 * unit, rtol=1e-9)
    expected = parts_of_the_bound(model, X, unit)
    found = list(model.evidence_parts_.values())
    np.testing.assert_allclose(found, (*expected, 0.0, 0.0), rtol=1e-9)
    np.testing.assert_allclose(
        model.inverse_transform(model.assignments_), model.assignments_ @ model.components_
    )


@pytest.mark.parametrize("noise", ["per_column", "shared"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_fitted_bound_is_that_of_the_equations(missing, noise):
    _, _, X = planted()
    rng = np.random.default_rng(1)
    X[rng.random(X.shape) < missing] = np.nan
    X -= np.nanmean(X, axis=0) + 7.0  # so that the spread is the same within columns and over all
    noise_std, factor_std = 0.2, 1.0
    if noise == "per_column":
        noise_std, factor_std = np.geomspace(0.1, 0.4, 12), np.linspace(0.5, 2.0, 12)
    settings = {"learn_hyperparameters": False, "noise": noise, "random_state": 0}
    model = MEIBP(5, noise_std=noise_std, factor_std=factor_std, **settings).fit(X)
    np.testing.assert_allclose(model.noise_std_, noise_std, rtol=1e-12)
    np.testing.assert_allclose(model.factor_std_, factor_std, rtol=1e-12)
    means = np.nanmean(X, axis=0)
    unit = units_of(X, means, noise)
    prior_std = 10.0 * (np.full(12, np.nanstd(X)) if noise == "shared" else unit)
    n_observed = (~np.isnan(X)).sum(axis=0)
    variance = 1.0 / (n_observed / np.square(noise_std) + prior_std**-2)
    expected = parts_of_the_bound(
        model, X, unit, offset=model.intercept_ / unit, offset_variance=variance / unit**2
    )
    divergence = sum(
        naive.gaussian_divergence(b, np.sqrt(v), centre, width)
        for b, v, centre, width in zip(model.intercept_, variance, means, prior_std, strict=True)
    )
    found = list(model.evidence_parts_.values())
    np.testing.assert_allclose(found, (*expected, -divergence, 0.0), rtol=1e-7)


STARTS = {
    "spectral": {"n_components": None},
    "random": {"n_components": 6, "init": "random", "moves": False},
    "row by row": {
        "n_components": 6,
        "init": "random",
        "block_size": 1,
        "fit_intercept": True,
        "moves": False,
    },
}


@cache
def without_offset(start, missing, noise):
    """The data and a fit to them, which those to data with offsets are held to."""
    _, _, X = planted()
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    X.flags.writeable = False
    return X, MEIBP(**STARTS[start], noise=noise, random_state=0).fit(X)


def offsets(size):
    """Of the columns."""
    return np.random.default_rng(2).normal(size=12) * size


def assert_same_but_for_the_offset(one, other, offset, rtol=1e-6):
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    Z = one.assignments_
    np.testing.assert_allclose(
        other.inverse_transform(Z) - offset, one.inverse_transform(Z), rtol=rtol, atol=rtol
    )
    assert other.noise_std_ == pytest.approx(one.noise_std_, rel=rtol)
    assert other.factor_std_ == pytest.approx(one.factor_std_, rel=10 * rtol)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("size", [1.0, -30.0, 1e4])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_one_offset_for_all_columns_changes_nothing_else(start, size, missing):
    X, one = without_offset(start, missing, "shared")
    other = MEIBP(**STARTS[start], noise="shared", random_state=0).fit(X + size)
    assert one.n_components_ >= 3
    assert_same_but_for_the_offset(one, other, size)
    np.testing.assert_allclose(one.components_, other.components_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(one.components_std_, other.components_std_, rtol=1e-5)
    np.testing.assert_allclose(other.intercept_ - size, one.intercept_, rtol=1e-6, atol=1e-6)
    assert other.evidence_ == pytest.approx(one.evidence_, rel=1e-6)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_offsets_of_the_columns_change_nothing_else(start, size, missing):
    X, one = without_offset(start, missing, "per_column")
    offset = offsets(size)
    other = MEIBP(**STARTS[start], noise="per_column", random_state=0).fit(X + offset)
    assert one.n_components_ >= 3
    assert_same_but_for_the_offset(one, other, offset, rtol=1e-8)
    np.testing.assert_allclose(one.components_, other.components_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(one.components_std_, other.components_std_, rtol=1e-6)
    np.testing.assert_allclose(other.intercept_ - offset, one.intercept_, rtol=1e-8, atol=1e-8)
    assert other.evidence_ == pytest.approx(one.evidence_, rel=1e-8)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_with_shared_noise_they_change_little_else(start, size):
    X, one = without_offset(start, 0.1, "shared")
    offset = offsets(size)
    other = MEIBP(**STARTS[start], noise="shared", random_state=0).fit(X + offset)
    # The prior of b is as wide as ten standard deviations of all entries, offsets among them; the
    # wider it is the less it pulls at b. (Features of a poor start may share what one could
    # explain, and then only their sum is told by the data.)
    assert_same_but_for_the_offset(one, other, offset, rtol=2e-4)
    if start == "spectral":
        np.testing.assert_allclose(one.components_, other.components_, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(other.intercept_ - offset, one.intercept_, atol=2e-4)
    same = [name for name in one.evidence_parts_ if name not in ("intercept", "hyperparameters")]
    evidence_of = [sum(model.evidence_parts_[name] for name in same) for model in (one, other)]
    assert evidence_of[1] == pytest.approx(evidence_of[0], rel=2e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_are_found_beside_large_offsets(dtype):
    Z, A, X = planted(noise=0.2)
    offset = 1e4 * X.std() * np.random.default_rng(0).uniform(-1, 1, size=12)
    model = MEIBP(random_state=0).fit((X + offset).astype(dtype))
    assert model.n_components_ == 3
    found = [column.tobytes() for column in np.ascontiguousarray(model.assignments_.T)]
    order = [found.index(column.tobytes()) for column in np.ascontiguousarray(Z.T)]
    np.testing.assert_allclose(model.components_[order], A, atol=0.15)
    np.testing.assert_allclose(model.intercept_, offset, rtol=1e-3, atol=0.1)
    np.testing.assert_allclose(model.noise_std_, 0.2, rtol=4 / np.sqrt(2 * 150))
    assert np.sqrt(np.mean(model.noise_std_**2)) == pytest.approx(0.2, rel=0.1)


def test_the_zero_minimum_shift_does_not_matter():
    # Findings, 4: with it and without an intercept the features are not found.
    images = make_block_images(300, noise_std=0.3, random_state=0)
    model = MEIBP(random_state=0).fit(images.data - images.data.min())
    found = {column.tobytes() for column in np.ascontiguousarray(model.assignments_.T)}
    truth = {column.tobytes() for column in np.ascontiguousarray(images.assignments.T)}
    assert found == truth


@pytest.fixture(scope="module")
def model():
    return MEIBP(5, random_state=0).fit(planted(seed=3)[2] - 5.0)


def test_methods_use_it(model):
    new = planted(seed=4)[2] - 5.0
    new[np.random.default_rng(0).random(new.shape) < 0.1] = np.nan
    new[3] = np.nan
    Z = model.transform(new)
    expected = model.intercept_ + Z @ model.components_
    np.testing.assert_allclose(model.inverse_transform(Z), expected, rtol=1e-12)
    means, densities = predictive(model, new)
    np.testing.assert_allclose(
        model.impute(new), np.where(np.isnan(new), means, new), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(
        model.score_samples(new), np.nansum(densities, axis=1), rtol=1e-3, atol=1e-3
    )
    assert model.score(new) == pytest.approx(np.nanmean(densities), rel=1e-3)
    assert np.abs(model.intercept_ + 5.0).max() < 0.5
    draws, codes = model.sample(40_000, random_state=0)
    off = codes.sum(axis=1) == 0
    assert off.sum() > 200
    spread = model.noise_std_ / np.sqrt(off.sum())
    assert (np.abs(draws[off].mean(axis=0) - model.intercept_) < 6 * spread).all()


def test_transform_is_that_of_the_model_without_on_data_less_it(model):
    new = planted(seed=4)[2] - 5.0
    shifted = MEIBP(5, fit_intercept=False)
    vars(shifted).update({k: v for k, v in vars(model).items() if k.endswith("_")})
    shifted.intercept_ = np.zeros(12)
    np.testing.assert_array_equal(shifted.transform(new - model.intercept_), model.transform(new))
    np.testing.assert_allclose(
        shifted.confidence(new - model.intercept_), model.confidence(new), rtol=1e-8, atol=1e-8
    )


def test_data_without_features_have_an_intercept():
    X = np.random.default_rng(0).normal(size=(80, 6)) + np.arange(6)
    with pytest.warns(UserWarning, match="No feature survived"):
        model = MEIBP(random_state=0).fit(X)
    assert model.n_components_ == 0
    np.testing.assert_allclose(model.intercept_, X.mean(axis=0), atol=1e-3)
    nothing = model.inverse_transform(np.ones((2, 0)))
    np.testing.assert_array_equal(nothing, [model.intercept_] * 2)
    spread = np.sqrt(model.noise_std_**2 - model.resolution_**2 / 12)  # rounding counts once
    assert model.score(X) == pytest.approx(
        stats.norm(model.intercept_, spread).logpdf(X).mean(), rel=1e-10
    )


# Starting with one


def test_a_given_intercept_is_where_the_fit_starts():
    Z, A, X = planted()
    start = {"Z": Z, "mu": A, "sigma": np.full(A.shape, 0.1)}
    offset = np.linspace(-5, 5, 12)
    fixed = {"learn_hyperparameters": False, "noise_std": 0.15, "factor_std": 1.0, "tol": 0}
    good = MEIBP(init=start | {"intercept": offset}, max_iter=0, **fixed).fit(X + offset)
    bad = MEIBP(init=start | {"intercept": offset * 0}, max_iter=0, **fixed).fit(X + offset)
    assert good.evidence_ > bad.evidence_
    model = MEIBP(init=start | {"intercept": offset}, **fixed).fit(X + offset)
    np.testing.assert_allclose(model.intercept_, offset, atol=0.1)
    again = MEIBP(init=model, max_iter=0, **fixed).fit(X + offset)
    np.testing.assert_allclose(again.intercept_, model.intercept_, rtol=1e-6, atol=1e-8)
    assert again.evidence_ == pytest.approx(model.evidence_, rel=1e-9)


@pytest.mark.parametrize(
    "value", [np.zeros(11), np.zeros((12, 1)), np.full(12, np.nan), 0.0, np.full(12, np.inf)]
)
def test_wrong_intercepts_in_a_start(value):
    Z, A, X = planted()
    start = {"Z": Z, "mu": A, "sigma": np.full(A.shape, 0.1), "intercept": value}
    wrong = r"init\['intercept'\] (must be finite|has shape .*must be \(12,\))"
    with pytest.raises(ValueError, match=wrong):
        MEIBP(init=start).fit(X)
    with pytest.raises(ValueError, match="or 'Z', 'mu' and 'sigma'; it has.*'intercept'"):
        plain(init=start).fit(X - X.min())
