"""Noise of each column: its equations, its guard against collapse, and units that do not matter."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, sparse, stats
from sklearn.datasets import load_diabetes

import ibp
from ibp.data import ColumnUnits, Observations, summarize
from ibp.data.units import resolution
from ibp.evaluate import training_codes_of
from ibp.kernels import factors as factor_kernels
from ibp.kernels.records import FactorArrays, FactorSpace, InterceptArrays, PriorTerms, Sums
from ibp.model import (
    Bound,
    ColumnHyperparameters,
    ColumnNoise,
    Factors,
    GammaPosterior,
    Known,
    KnownColumns,
    LearnedIntercept,
    NoIntercept,
    Statistics,
    feature_evidence,
    update_factors,
)

MODES = {
    "default": {},
    "random": {"init": "random", "n_components": 6, "moves": False},
    "one row at a time": {"block_size": 1, "n_components": 6, "moves": False},
    "lof": {"prior": "lof", "n_components": 6, "moves": False},
}


def planted(n=150, d=12, k=3, seed=0, noise=(0.05, 0.5)):
    """Features of equal strength under noise that differs from column to column."""
    rng = np.random.default_rng(seed)
    codes = rng.random((n, k)) < 0.4
    factors = rng.uniform(0.5, 2.0, size=(k, d)) * (rng.random((k, d)) < 0.7)
    level = np.geomspace(*noise, d)
    return codes @ factors + level * rng.normal(size=(n, d)), codes, level


def with_gaps(X, share=0.1, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def fitted(X, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ibp.MEIBP(random_state=0, **settings).fit(X)


def small_bound(*, pooled=True, intercept=True, rounding=0.01, seed=0, gaps=True):
    """A bound at some state of a small problem, in units of the columns."""
    X, codes, _ = planted(30, 5, 3, seed)
    X = with_gaps(X, 0.15) if gaps else X
    summary = summarize(X)
    observations = Observations.from_summary(
        X, summary, centre=summary.means, units=ColumnUnits.of(as_rows(X), summary, summary.means)
    )
    rng = np.random.default_rng(seed)
    shape = (codes.shape[1], observations.n_features)
    factors = Factors.from_parameters(rng.uniform(0.0, 1.0, shape), rng.uniform(0.1, 0.3, shape))
    noise = ColumnNoise.starting_at(
        rng.uniform(2.0, 9.0, shape[1]),
        observations.column_counts,
        np.full(shape[1], rounding),
        None if pooled else (2.0, 0.5),
    )
    hyperparameters = ColumnHyperparameters(
        noise, GammaPosterior(1.0, 1e-3, 8.0, 5.0), GammaPosterior(1.0, 1.0, 4.0, 4.0)
    )
    offset = NoIntercept.of_width(shape[1])
    if intercept:
        offset = LearnedIntercept.at_centre(observations, 10.0, noise.mean)
    statistics = Statistics.from_codes(observations, codes)
    bound = Bound(observations, statistics, factors, hyperparameters, intercept=offset, codes=codes)
    return observations, codes, bound


def as_rows(X):
    return Observations.from_array(X).source


# ---------------------------------------------------------------- equations


def test_the_bound_is_that_of_the_residuals():
    observations, codes, bound = small_bound()
    X = observations.layout.arrange(observations.source.rows(slice(0, 30)))
    X = (X - observations.centre) / observations.unit
    error = (X - bound.offset.mean - codes @ bound.factors.mean) ** 2
    error += codes @ bound.factors.variance + bound.offset.variance
    assert_allclose(bound.expected_squared_error, np.nansum(error, axis=0))
    tau = bound.hyperparameters.noise_precision
    log_density = tau.mean_log - np.log(2 * np.pi) - tau.mean * (error + tau.rounding_variance)
    assert bound.evidence().likelihood == pytest.approx(0.5 * np.nansum(log_density))


@pytest.mark.parametrize("pooled", [True, False])
def test_updates_of_the_noise_are_where_the_bound_is_highest(pooled):
    bound = small_bound(pooled=pooled)[2]
    before = bound.evidence().total
    for _ in range(50):
        bound = replace(bound, hyperparameters=bound.updated_hyperparameters())
        after = bound.evidence().total
        assert after >= before - 1e-9 * abs(before)
        before = after
    noise = bound.hyperparameters.noise_precision
    names = ("shape", "rate") + (("prior_rate",) if pooled else ())
    for name in names:
        for factor in (0.98, 1.02):
            # The prior's level is one for all columns.
            places = [slice(None)] if name == "prior_rate" else range(noise.shape.size)
            for place in places:
                moved = getattr(noise, name).copy()
                moved[place] *= factor
                other = replace(
                    bound.hyperparameters, noise_precision=replace(noise, **{name: moved})
                )
                assert replace(bound, hyperparameters=other).evidence().total < before


def test_the_level_is_never_below_a_share_of_what_is_pooled():
    n = np.full(6, 1000)
    noise = ColumnNoise.starting_at(np.ones(6), n, np.zeros(6))
    error = n * np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    for _ in range(3):
        noise = noise.updated(n, error)
    share = noise.prior_shape / noise.shape
    assert (1.0 / noise.mean >= 0.999 * share * noise.level).all()


@pytest.mark.parametrize("codes", [[1, 1, 0], [1, 0, 0]])
def test_the_bound_is_below_the_evidence(codes):
    # ln p(X, Z) of one feature and no intercept, by quadrature over each column's factor and noise.
    codes = np.array(codes, dtype=np.uint8)[:, None]
    X = np.array([[1.2, 0.1], [0.8, -0.3], [0.1, 0.2]])
    observations = Observations.from_array(X)
    prior, factor_precision, alpha = (3.0, 1.0), 1.5, 2.0
    n = observations.column_counts
    noise = ColumnNoise.starting_at(np.ones(2), n, np.zeros(2), prior)
    hyperparameters = ColumnHyperparameters(noise, Known(factor_precision), Known(alpha))
    statistics = Statistics.from_codes(observations, codes)
    factors = Factors.from_parameters(np.full((1, 2), 0.5), np.full((1, 2), 0.5))
    bound = Bound(observations, statistics, factors, hyperparameters, codes=codes)
    for _ in range(40):
        update_factors(
            bound.factors, statistics, observations.layout.group_start, bound.hyperparameters
        )
        bound = replace(bound, hyperparameters=bound.updated_hyperparameters())

    factor, tau = np.linspace(0.0, 8.0, 401), np.linspace(1e-6, 40.0, 4001)[:, None]
    known = 2.0 * stats.norm.pdf(factor, 0.0, factor_precision**-0.5)
    known = known * stats.gamma.pdf(tau, prior[0], scale=1.0 / prior[1])
    log_evidence = bound.evidence().assignment_prior
    for column in range(2):
        density = known
        for x, z in zip(X[:, column], codes[:, 0], strict=True):
            density = density * stats.norm.pdf(x, z * factor, tau**-0.5)
        inner = integrate.simpson(density, x=factor, axis=1)
        log_evidence += np.log(integrate.simpson(inner, x=tau[:, 0]))
    gap = log_evidence - bound.evidence().total
    assert 0.0 < gap < 0.5
    rounded = replace(noise, rounding_variance=np.full(2, 0.1))
    lower = replace(bound, hyperparameters=replace(hyperparameters, noise_precision=rounded))
    assert lower.evidence().total < bound.evidence().total


@pytest.mark.parametrize("intercept", [True, False])
def test_removal_gains_let_intercept_and_noise_answer(intercept):
    _, codes, bound = small_bound(pooled=False, intercept=intercept)
    bound = settled(bound)
    gains = bound.removal_gains()
    for k in range(codes.shape[1]):
        keep = np.arange(codes.shape[1]) != k
        without = replace(
            bound,
            statistics=bound.statistics.select(keep),
            factors=bound.factors.select(keep),
            codes=codes[:, keep],
        )
        without = settled(without, with_rest=False)
        difference = without.evidence().total - bound.evidence().total
        # But for the intercept's own divergence, which is not counted.
        assert gains[k] == pytest.approx(difference, abs=0.02 * abs(difference) + 0.3 * intercept)


def settled(bound, with_rest=True):
    """Intercept and noise (and alpha and the factors' precision) at their optimum."""
    for _ in range(100):
        learned = bound.updated_hyperparameters()
        if not with_rest:
            learned = replace(bound.hyperparameters, noise_precision=learned.noise_precision)
        offset = bound.offset.updated(
            bound.observations, bound.statistics, bound.factors.mean, learned.noise_precision.mean
        )
        bound = replace(bound, hyperparameters=learned, intercept=offset)
    return bound


@pytest.mark.parametrize("known", [True, False])
def test_kernels_follow_the_equations(known):
    observations, _, bound = small_bound()
    hyperparameters = bound.hyperparameters
    if known:
        precision = np.random.default_rng(3).uniform(0.5, 4.0, observations.n_features)
        hyperparameters = replace(hyperparameters, factor_precision=KnownColumns(precision))
    expected = replace(bound.factors)
    expected = Factors(*(getattr(expected, name).copy() for name in vars(expected)))
    offset = bound.offset.mean.copy()
    response = bound.offset.response(hyperparameters.noise_precision.mean)
    start = observations.layout.group_start
    update_factors(expected, bound.statistics, start, hyperparameters, offset, response)
    factors = FactorArrays(*(getattr(bound.factors, n).copy() for n in FactorArrays._fields))
    statistics, width = bound.statistics, observations.n_features
    precision = np.full(width, hyperparameters.factor_precision.mean)
    intercept = InterceptArrays(bound.offset.mean.copy(), response)
    factor_kernels.update_factors(
        Sums(statistics.gram, statistics.totals, statistics.cross, statistics.counts),
        start,
        True,
        intercept,
        hyperparameters.noise_precision.mean,
        precision,
        factors,
        FactorSpace(np.empty(width), np.empty((width, 3))),
    )
    assert_allclose(factors.mean, expected.mean, rtol=1e-9)
    assert_allclose(factors.scale, expected.scale, rtol=1e-12)
    assert_allclose(intercept.mean, offset, rtol=1e-9, atol=1e-12)
    prior = PriorTerms(
        precision.max(),
        precision / precision.max(),
        float(np.mean(hyperparameters.factor_precision.mean_log)),
        hyperparameters.alpha.mean_log,
    )
    found = [factor_kernels.feature_evidence(k, factors, prior) for k in range(3)]
    assert_allclose(found, feature_evidence(expected, hyperparameters), rtol=1e-8)


# ---------------------------------------------------------------- resolution and units


def test_the_resolution_is_the_smallest_gap():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.integers(0, 2, 50),  # a tag
            rng.integers(0, 17, 50) / 16.0,
            np.where(np.arange(50) == 7, 3.0, 0.0),
            rng.integers(0, 2, 50) + 1e-9 * rng.normal(size=50),  # but for rounding
            np.full(50, 2.0),
        ]
    )
    X[3, :] = np.nan
    gaps = [1.0, 1 / 16, 3.0, 1.0, 0.0]
    assert_allclose(resolution(as_rows(X), summarize(X)), gaps, rtol=1e-6)
    stored = sparse.csr_array(X)
    assert_allclose(resolution(as_rows(stored), summarize(stored)), gaps, rtol=1e-6)


def test_a_value_that_few_rows_have_is_seen_in_many():
    X = np.zeros((20_000, 2))
    X[12_345, 0], X[::2, 1] = 4.0, 1.0
    assert_array_equal(resolution(as_rows(X), summarize(X)), [4.0, 1.0])


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_a_few_odd_values_do_not_tell_the_resolution(store):
    rng = np.random.default_rng(0)
    X = (rng.random((500, 3)) < [0.5, 0.1, 0.02]).astype(float)
    X[0] = X.mean(axis=0)  # as a row that was filled in
    X[:, 2] = np.where(np.arange(500) == 1, 3.0, 0.0)  # all that there is
    values = store(X)
    assert_allclose(resolution(as_rows(values), summarize(values)), [1.0, 1.0, 3.0])


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_values_that_are_rounded_further_stand_for_more(store):
    rng = np.random.default_rng(0)
    whole = rng.integers(1, 6, 1000).astype(float)
    fine = rng.random(1000) < 0.1
    X = np.column_stack(
        [
            np.where(fine, whole + np.round(rng.random(1000), 2), whole),
            np.round(5.0 * rng.random(1000), 2),  # no heaps
        ]
    )
    values = store(X)
    widths = resolution(as_rows(values), summarize(values))
    exactly_whole = np.mean(X[:, 0] == np.round(X[:, 0]))
    expected = np.sqrt(exactly_whole + (1.0 - exactly_whole) * 0.01**2)
    assert_allclose(widths, [expected, 0.01], rtol=1e-3)
    assert_array_equal(resolution(as_rows(store(4.0 * X)), summarize(4.0 * X)), 4.0 * widths)


def heaped(rng, n, n_heaps=5, fine=0.1):
    """Whole numbers, and some that are finer, between them."""
    values = rng.integers(1, n_heaps + 1, n).astype(float)
    finer = (rng.random(n) < fine) & (values < n_heaps)
    return np.where(finer, values + np.round(rng.uniform(0.01, 0.99, n), 2), values)


def not_rounded(rng):
    """Columns that have common values, but none that others were rounded to."""
    kind, fine = rng.random(2000), np.round(5.0 * rng.random(2000), 2)
    return {
        "much in between": heaped(rng, 2000, fine=0.6),
        "two of a kind": np.where(kind < 0.02, 1.0, np.where(kind < 0.04, 2.0, fine)),
        "rare heaps": np.where(kind < 0.04, np.round(5 * kind / 0.04), fine),
    }


@pytest.mark.parametrize("name", not_rounded(np.random.default_rng(0)))
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_common_values_alone_are_no_rounding(name, store):
    X = store(not_rounded(np.random.default_rng(0))[name][:, None])
    assert_allclose(resolution(as_rows(X), summarize(X)), 0.01, rtol=1e-6)


def zero_or_measured(rng, share=0.6, n=2000):
    """Nothing, or something that was measured."""
    return np.where(rng.random(n) < share, 0.0, rng.exponential(size=n))


@pytest.mark.parametrize("share", [0.1, 0.6, 0.95])
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_a_common_value_stands_for_what_as_many_others_take_up(share, store):
    x = zero_or_measured(np.random.default_rng(0), share)
    X = store(x[:, None])
    n_zeros, others = np.count_nonzero(x == 0.0), np.sort(x[x > 0.0])
    near = others[: int(min(n_zeros, np.ceil(0.5 * others.size)))]
    expected = np.sqrt(n_zeros / x.size) * np.ptp(near)
    assert_allclose(resolution(as_rows(X), summarize(X)), expected, rtol=0.02)
    both = np.where(np.random.default_rng(1).random(x.size) < 0.5, -x, x)[:, None]
    near = np.sort(np.abs(others))[: int(min(n_zeros, np.ceil(0.5 * others.size)))].max()
    found = resolution(as_rows(both), summarize(both))
    assert_allclose(found, np.sqrt(n_zeros / x.size) * near, rtol=0.1)


def test_far_away_values_are_not_what_a_common_one_stands_for():
    rng = np.random.default_rng(0)
    x = zero_or_measured(rng, 0.3)
    alone = resolution(as_rows(x[:, None]), summarize(x[:, None]))[0]
    x[rng.random(x.size) < 0.1] = -999.0
    assert 0.5 * alone < resolution(as_rows(x[:, None]), summarize(x[:, None]))[0] < 2.0 * alone


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_columns_of_nothing_or_something_do_not_collapse(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([zero_or_measured(rng, n=300), rng.normal(size=(300, 3))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be no feature
        model = ibp.MEIBP(random_state=0).fit(X)
    assert (model.noise_std_ > 0.15 * X.std(axis=0)).all()
    assert model.n_components_ < 6


def test_a_code_for_what_is_missing_is_not_as_wide_as_it_is_far():
    rng = np.random.default_rng(0)
    X = heaped(rng, 2000)[:, None]
    X[:200] = -999.0
    assert 0.5 < resolution(as_rows(X), summarize(X))[0] < 1.0


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_missing_entries_do_not_hide_heaps(store):
    X = np.full((4000, 1), np.nan)
    X[::10, 0] = heaped(np.random.default_rng(0), 400, n_heaps=9, fine=0.2)
    seen, X = X[::10], store(X)
    expected = resolution(as_rows(seen), summarize(seen))
    assert expected > 0.5
    assert_allclose(resolution(as_rows(X), summarize(X)), expected, rtol=0.02)


def test_a_column_of_rounded_and_fine_values_is_not_copied():
    # Of s4 of scikit-learn's diabetes data 86% are whole numbers, the others have two digits more.
    X = load_diabetes(scaled=False).data
    model = ibp.MEIBP(random_state=0).fit(X)
    assert (model.noise_std_ > 0.02 * X.std(axis=0)).all()
    assert model.noise_std_[7] > 0.2 * X[:, 7].std()


def test_units_are_those_of_what_was_rounded():
    X = np.random.default_rng(0).integers(0, 2, size=(400, 1)).astype(float)
    summary = summarize(X)
    units = ColumnUnits.of(as_rows(X), summary, summary.means)
    assert_allclose(units.unit**2, summary.variances + 1 / 12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gaps", [False, True])
def test_powers_of_two_change_no_bit(mode, gaps):
    X, _, _ = planted()
    X = with_gaps(X) if gaps else X
    scale = 2.0 ** np.random.default_rng(5).integers(-9, 10, X.shape[1])
    one, other = fitted(X, **MODES[mode]), fitted(X * scale, **MODES[mode])
    assert one.n_components_ > 0
    assert_array_equal(other.assignments_, one.assignments_)
    for name in ("components_", "components_std_", "intercept_", "noise_std_", "factor_std_"):
        assert_array_equal(getattr(other, name), getattr(one, name) * scale)
    assert other.n_iter_ == one.n_iter_
    shift = np.isfinite(X).sum(axis=0) @ np.log(scale)
    assert_allclose(other.history_["evidence"] + shift, one.history_["evidence"], rtol=1e-10)
    assert_array_equal(other.transform(X * scale), one.transform(X))
    assert_array_equal(other.impute(X * scale), one.impute(X) * scale)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gaps", [False, True])
def test_other_units_and_offsets_change_nothing_that_matters(mode, gaps):
    X, _, _ = planted()
    X = with_gaps(X) if gaps else X
    rng = np.random.default_rng(6)
    scale = np.exp(3.0 * rng.normal(size=X.shape[1]))
    one = fitted(X, **MODES[mode])
    other = fitted(X * scale + 5.0 * scale * rng.normal(size=X.shape[1]), **MODES[mode])
    shift = np.isfinite(X).sum(axis=0) @ np.log(scale)
    first = one.history_["evidence"][0]
    assert other.history_["evidence"][0] + shift == pytest.approx(first, rel=1e-9)
    assert_array_equal(other.assignments_, one.assignments_)
    assert_allclose(other.noise_std_, one.noise_std_ * scale, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gaps", [False, True])
def test_storage_changes_nothing_that_matters(mode, gaps):
    X, _, _ = planted()
    X = with_gaps(X) if gaps else X
    one = fitted(X, **MODES[mode])
    first = one.history_["evidence"][0]
    kinds = {
        "sparse": (sparse.csr_array(X), 1e-9),
        "single": (X.astype(np.float32), 1e-3),
        "Fortran": (np.asfortranarray(X), 1e-12),
    }
    for values, tolerance in kinds.values():
        other = fitted(values, **MODES[mode])
        assert other.history_["evidence"][0] == pytest.approx(first, rel=tolerance)
        assert_array_equal(other.assignments_, one.assignments_)


# ---------------------------------------------------------------- what it finds


def test_levels_over_a_factor_of_a_hundred_are_found():
    X, codes, level = planted(10_000, 24, 4, noise=(0.02, 2.0))
    model = fitted(X)
    assert model.n_components_ == 4
    assert same_features(model.assignments_, codes)
    assert_allclose(model.noise_std_, level, rtol=0.03)


def test_equal_levels_are_found_equal():
    X, codes, _ = planted(4000, 24, 4, noise=(0.4, 0.4))
    model = fitted(X)
    assert same_features(model.assignments_, codes)
    assert_allclose(model.noise_std_, model.noise_std_.mean(), rtol=4 / np.sqrt(2 * 4000))


def same_features(found, codes):
    agreement = np.corrcoef(found.T.astype(float), codes.T.astype(float))
    k = found.shape[1]
    return bool((agreement[:k, k:].max(axis=0) > 0.98).all())


def tags(n=1500, d=50, k=5, seed=0):
    """Planted 0/1 tags: with a feature come an eighth of them, most of the time."""
    rng = np.random.default_rng(seed)
    codes = rng.random((n, k)) < 0.2
    belongs = np.array([rng.permutation(d) < d // 8 for _ in range(k)])
    chance = 1.0 - 0.99 * np.prod(1.0 - 0.8 * (codes[:, :, None] & belongs[None]), axis=1)
    return (rng.random((n, d)) < chance).astype(float), codes


def n_copies(codes, X):
    """Features that go along with one column and with no other."""
    k = codes.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        together = np.abs(np.corrcoef(codes.T.astype(float), X.T)[:k, k:])
    ordered = np.sort(np.nan_to_num(together), axis=1)
    return int(((ordered[:, -1] > 0.95) & (ordered[:, -2] < 0.3)).sum())


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_tags_are_not_copied_column_by_column(store):
    X, codes = tags()
    model = fitted(store(X))
    assert 4 <= model.n_components_ <= 12
    assert n_copies(model.assignments_, X) == 0
    agreement = np.corrcoef(model.assignments_.T.astype(float), codes.T.astype(float))
    k = model.n_components_
    assert agreement[:k, k:].max(axis=0).mean() > 0.85
    # Where nothing guards against it, every column gets a feature of its own.
    bare = fitted(store(X + 1e-3 * np.random.default_rng(1).normal(size=X.shape)), max_iter=5)
    assert n_copies(bare.assignments_, X) > 5


def test_columns_that_do_not_vary_take_no_part():
    X, _, _ = planted()
    wide = np.insert(X, [3, 7], [5.0, 0.0], axis=1)
    one, other = fitted(X), fitted(wide)
    assert_array_equal(other.assignments_, one.assignments_)
    assert other.evidence_ == pytest.approx(one.evidence_, rel=1e-9)
    constant = [3, 8]
    assert_allclose(np.delete(other.noise_std_, constant), one.noise_std_, rtol=1e-6)
    assert_allclose(other.noise_std_[constant], np.sqrt(np.mean(one.noise_std_**2)))
    assert_array_equal(other.components_[:, constant], 0.0)
    assert_array_equal(other.intercept_[constant], [5.0, 0.0])
    hidden = wide.copy()
    hidden[0, constant] = np.nan
    assert_allclose(other.impute(hidden)[0, constant], [5.0, 0.0])
    assert_array_equal(other.transform(wide), one.transform(X))


def test_columns_that_do_not_vary_may_have_gaps():
    X, codes, _ = planted(120, 8, 3)
    wide = np.column_stack([X, np.ones(120)])
    wide[:60, -1] = np.nan
    model = fitted(wide)
    assert same_features(model.assignments_, codes)
    assert_allclose(model.impute(wide)[:, -1], 1.0)
    from_stored = fitted(sparse.csr_array(wide))
    assert_array_equal(from_stored.assignments_, model.assignments_)


def test_a_column_that_the_sample_of_a_start_has_nothing_of():
    X, codes, _ = planted(6000, 10, 3)
    X[2:, 0] = np.nan
    model = fitted(X)
    assert np.isfinite(model.evidence_) and np.isfinite(model.noise_std_).all()
    assert same_features(model.assignments_, codes)


def test_a_constant_column_without_an_intercept_is_explained():
    X, _, _ = planted(noise=(0.2, 0.2))
    wide = np.column_stack([np.abs(X), np.ones(len(X))])
    model = fitted(wide, fit_intercept=False)
    assert (np.diff(model.history_["evidence"]) >= -1e-9 * abs(model.evidence_)).all()
    assert model.noise_std_[-1] > 0.1
    assert model.probabilities(wide).shape == model.assignments_.shape


def test_a_value_of_another_order_leaves_every_row_a_code():
    X, _, _ = planted(200, 10, 4)
    model = fitted(X)
    for huge in (1e15, 1e20):
        odd = X.copy()
        odd[::7, 3] = huge
        sure = model.probabilities(odd)
        assert ((sure >= 0) & (sure <= 1)).all()
        clear = np.abs(sure - 0.5) > 0.4
        assert_array_equal((sure > 0.5)[clear], model.transform(odd)[clear].astype(bool))


def test_rounding_counts_once_in_predictions():
    rng = np.random.default_rng(0)
    codes = rng.random((2000, 3)) < 0.4
    X = np.round(codes @ rng.uniform(1.0, 6.0, (3, 12)) + 0.3 * rng.normal(size=(2000, 12)))
    seen = with_gaps(X)
    model = fitted(seen)
    filled, spread = model.impute(seen, return_std=True)
    hidden = np.isnan(seen)
    covered = (np.abs(filled - X) < 1.645 * spread)[hidden].mean()
    assert 0.85 < covered < 0.93
    shared = fitted(seen, noise="shared")
    assert model.score_heldout(seen, X) > shared.score_heldout(seen, X) - 0.03


def test_training_rows_are_known_again_beside_columns_that_do_not_vary():
    X, _, _ = planted()
    wide = np.insert(X, [3], 5.0, axis=1)
    model = fitted(wide)
    found = training_codes_of(model, len(wide), [(slice(0, len(wide)), wide)])
    assert_array_equal(found, model.assignments_)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["dense", "gaps", "single", "sparse", "tags"])
def test_the_evidence_never_falls(mode, kind):
    X = tags(200, 12, 3)[0] if kind == "tags" else planted()[0]
    X = with_gaps(X) if kind == "gaps" else X
    X = {"single": X.astype(np.float32), "sparse": sparse.csr_array(X)}.get(kind, X)
    model = fitted(X, tol=0, max_iter=12, **MODES[mode])
    evidence = model.history_["evidence"]
    tolerance = 1e-6 if kind == "single" else 1e-9
    assert (np.diff(evidence) >= -tolerance * np.abs(evidence[1:])).all()


# ---------------------------------------------------------------- settings


def test_a_given_level_is_kept_or_learned_from():
    X, _, level = planted()
    known = fitted(X, noise_std=level, factor_std=1.0, learn_hyperparameters=False)
    assert_allclose(known.noise_std_, level)
    assert_allclose(known.factor_std_, 1.0)
    one = fitted(X, noise_std=0.3, learn_hyperparameters=False)
    assert_allclose(one.noise_std_, 0.3)
    learned = fitted(X, noise_std=level)
    assert_allclose(learned.noise_std_, level, rtol=0.3)


def test_a_given_hyperprior_is_not_learned():
    X, _, _ = planted()
    strong = fitted(X, hyperpriors={"noise_precision": (1e6, 1e6)})
    assert_allclose(strong.noise_std_, X.std(axis=0), rtol=0.05)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"noise_std": [0.1, 0.2]}, "noise_std has the shape"),
        ({"factor_std": np.zeros(12)}, "factor_std must be positive"),
        ({"noise": "shared", "noise_std": np.ones(12)}, "several numbers"),
        ({"noise": "each"}, "noise"),
        ({"noise_std": ["a"] * 12}, "noise_std must be a number"),
    ],
)
def test_wrong_levels_are_refused(settings, words):
    X, _, _ = planted()
    with pytest.raises((ValueError, TypeError), match=words):
        ibp.MEIBP(**settings).fit(X)


def test_a_rival_starts_from_the_root_mean_square():
    X, _, _ = planted()
    first = fitted(X)
    rival = ibp.FiniteVIBP(init=first, max_iter=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rival.fit(X)
    assert rival.noise_std_ == pytest.approx(np.sqrt(np.mean(first.noise_std_**2)), rel=1e-6)
