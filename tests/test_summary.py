"""One pass over the data, against NumPy."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ibp import MEIBP
from ibp.data import Observations, summarize
from ibp.data.summary import COMPLETE, OWN_PATTERN
from ibp.model import Statistics
from ibp.parallel import Threads
from problems import missing_kinds, random_data, seeds

MOMENTS = ("counts", "means", "squares", "lowest", "highest", "variances")


def stored(X, rng, zeros=0.5):
    """A dense matrix with zeros, and the same as CSR, some of the zeros stored."""
    X = np.where(rng.random(X.shape) < zeros, 0.0, X)
    entries = (X != 0) | (rng.random(X.shape) < 0.1)  # NaN is not zero
    row, column = np.nonzero(entries)
    return X, sparse.csr_array(sparse.coo_array((X[row, column], (row, column)), shape=X.shape))


def check_moments(summary, X, rtol):
    X = np.asarray(X, dtype=np.float64)
    with warnings.catch_warnings():  # of columns without a value
        warnings.simplefilter("ignore", RuntimeWarning)
        lowest, highest = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
        means, variances = np.nanmean(X, axis=0), np.nanvar(X, axis=0)
    counts = (~np.isnan(X)).sum(axis=0)
    seen = counts > 0
    np.testing.assert_array_equal(summary.counts, counts)
    np.testing.assert_array_equal(summary.lowest, lowest)
    np.testing.assert_array_equal(summary.highest, highest)
    size = np.nanmax(np.abs(X)) if seen.any() else 1.0
    np.testing.assert_allclose(summary.means[seen], means[seen], rtol=1e-7, atol=rtol * size)
    np.testing.assert_allclose(
        summary.variances[seen], variances[seen], rtol=rtol, atol=(rtol * size) ** 2
    )
    np.testing.assert_allclose(
        summary.squares[seen],
        (counts * variances)[seen],
        rtol=rtol,
        atol=counts.max() * (rtol * size) ** 2,
    )
    assert summary.n_observed == counts.sum()
    if seen.any():
        assert summary.largest == size
        assert summary.std == pytest.approx(np.nanstd(X), rel=max(rtol, 1e-9), abs=rtol * size)
    else:
        assert np.isnan(summary.largest)


@given(
    seed=seeds,
    missing=missing_kinds,
    offset=st.sampled_from([0.0, -3.0, 1e4]),
    single=st.booleans(),
    rows_at_once=st.sampled_from([1, 7, 256]),
)
@settings(max_examples=80)
def test_moments_of_dense_data(seed, missing, offset, single, rows_at_once):
    rng = np.random.default_rng(seed)
    X = random_data(rng, rng.integers(1, 60), rng.integers(1, 9), missing=missing) + offset
    X = X.astype(np.float32 if single else np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibp.data.summary.ROWS_AT_ONCE", rows_at_once)
        summary = summarize(X)
        check_moments(summary, X, 1e-5 if single else 1e-11)
        again = summarize(X, Threads(3))
    for name in vars(summary):
        np.testing.assert_array_equal(getattr(summary, name), getattr(again, name))


@given(
    seed=seeds,
    missing=missing_kinds,
    single=st.booleans(),
    at_once=st.sampled_from([3, 1 << 19]),
    zeros=st.sampled_from([0.1, 0.9]),
)
@settings(max_examples=80)
def test_moments_and_patterns_of_sparse_data(seed, missing, single, at_once, zeros):
    rng = np.random.default_rng(seed)
    X = random_data(rng, rng.integers(1, 60), rng.integers(1, 9), missing=missing)
    X, S = stored(X.astype(np.float32 if single else np.float64), rng, zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibp.data.summary.STORED_AT_ONCE", at_once)
        summary = summarize(S)
    check_moments(summary, X, 1e-5 if single else 1e-11)
    dense = summarize(X)
    # Numbers are given in the order of appearance, whatever the format.
    np.testing.assert_array_equal(summary.row_pattern, dense.row_pattern)
    np.testing.assert_array_equal(summary.column_group, dense.column_group)
    assert summary.n_patterns == dense.n_patterns


@pytest.mark.parametrize("dtype, sd, rtol", [(np.float64, 1.0, 1e-6), (np.float32, 1e3, 1e-3)])
def test_variances_far_from_zero(dtype, sd, rtol):
    rng = np.random.default_rng(0)
    X = (1e7 * (1 + np.arange(5)) + sd * rng.normal(size=(1000, 5))).astype(dtype)
    summary = summarize(X)
    np.testing.assert_allclose(summary.variances, X.astype(float).var(axis=0), rtol=rtol)
    np.testing.assert_allclose(summary.means, X.astype(float).mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("exponent", [-100, -60, 60, 100])
@pytest.mark.parametrize("missing", ["none", "scattered"])
def test_single_precision_of_any_scale(exponent, missing):
    # Squares of such numbers are beyond single precision.
    X = random_data(np.random.default_rng(0), 300, 6, missing=missing).astype(np.float32)
    one, other = summarize(X), summarize(np.ldexp(X, exponent))
    np.testing.assert_allclose(other.squares, np.ldexp(one.squares, 2 * exponent), rtol=1e-5)
    assert other.std == pytest.approx(np.ldexp(one.std, exponent), rel=1e-5)


def test_infinities_and_huge_numbers_do_not_warn():
    # They are reported with their place, by `check_range`.
    for value in (np.inf, -np.inf, 1e200):
        for missing in (False, True):
            X = np.ones((600, 3))
            X[400, 1] = value
            if missing:
                X[300, 2] = np.nan
            assert summarize(X).largest == abs(value)
            assert summarize(sparse.csr_array(X)).largest == abs(value)


def test_constant_columns_have_no_variance():
    X = np.full((777, 3), 1 / 3)
    X[:, 1] = 0.1
    X[5, 0] = np.nan
    summary = summarize(X)
    assert summary.variances.tolist() == [0.0, 0.0, 0.0]
    assert summary.std > 0.0
    assert summarize(np.full((777, 3), 0.1)).std == 0.0
    assert summarize(sparse.csr_array((5, 3))).std == 0.0


# More patterns than are numbered


@given(seed=seeds, most=st.integers(1, 6), as_sparse=st.booleans())
@settings(max_examples=60)
def test_patterns_beyond_the_cap(seed, most, as_sparse):
    rng = np.random.default_rng(seed)
    X = random_data(rng, 40, 6, missing="scattered")
    X[rng.random(40) < 0.3] = 1.0
    X[rng.random(40) < 0.3, 2] = np.nan
    values = sparse.csr_array(X) if as_sparse else X
    free = summarize(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibp.data.summary.MOST_PATTERNS", most)
        capped = summarize(values)
    assert capped.n_patterns <= most
    assert set(np.unique(capped.row_pattern)) <= {OWN_PATTERN, *range(capped.n_patterns)}
    complete = ~np.isnan(X).any(axis=1)
    np.testing.assert_array_equal(capped.row_pattern == COMPLETE, complete)
    numbered = capped.row_pattern != OWN_PATTERN
    np.testing.assert_array_equal(capped.row_pattern[numbered], free.row_pattern[numbered])
    assert numbered.all() == (free.n_patterns <= most)
    np.testing.assert_array_equal(capped.column_group, free.column_group)
    Z = (rng.random((40, 3)) < 0.5).astype(np.uint8)
    one = Statistics.from_codes(Observations.from_summary(values, free), Z)
    other = Statistics.from_codes(Observations.from_summary(values, capped), Z)
    np.testing.assert_array_equal(one.gram, other.gram)
    np.testing.assert_array_equal(one.totals, other.totals)
    np.testing.assert_allclose(one.cross, other.cross, rtol=1e-12)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("block_size", [1, 7, "auto"])
def test_fits_do_not_depend_on_the_cap(monkeypatch, block_size, as_sparse):
    rng = np.random.default_rng(0)
    Z = rng.random((80, 3)) < 0.4
    X = Z @ rng.uniform(1, 3, size=(3, 7)) + 0.3 * rng.normal(size=(80, 7))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:20, 2] = np.nan
    if as_sparse:
        X = stored(X, rng, zeros=0.1)[1]
    settings = {"block_size": block_size, "init": "random", "n_components": 5, "noise_std": 0.5}
    settings["learn_hyperparameters"] = False
    models = []
    for most in (1 << 16, 3):
        monkeypatch.setattr("ibp.data.summary.MOST_PATTERNS", most)
        models.append(MEIBP(**settings, moves=False, max_iter=8, tol=0, random_state=0).fit(X))
    one, other = models
    assert one.n_components_ > 1
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    np.testing.assert_allclose(one.history_["evidence"], other.history_["evidence"], rtol=1e-10)
    np.testing.assert_allclose(one.components_, other.components_, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(one.transform(X), other.transform(X))
    np.testing.assert_allclose(one.confidence(X), other.confidence(X), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("at_most", [2, 64])
@pytest.mark.parametrize("block_size", [1, 7])
def test_fits_do_not_depend_on_the_number_of_forms(monkeypatch, block_size, at_most):
    # Common patterns have quadratic forms of their own, others are made on the spot.
    rng = np.random.default_rng(1)
    Z = rng.random((90, 3)) < 0.4
    X = Z @ rng.uniform(1, 3, size=(3, 7)) + 0.3 * rng.normal(size=(90, 7))
    for i in range(6):
        X[15 * i : 15 * i + 10, i] = np.nan
    settings = {"block_size": block_size, "init": "random", "n_components": 5, "noise_std": 0.5}
    models = []
    for rows_for_a_form, most_forms in ((1, 64), (8, at_most), (10**9, 64)):
        monkeypatch.setattr("ibp.data.observations.ROWS_FOR_A_FORM", rows_for_a_form)
        monkeypatch.setattr("ibp.data.observations.MOST_FORMS", most_forms)
        models.append(MEIBP(**settings, moves=False, max_iter=8, tol=0, random_state=0).fit(X))
    assert models[0].n_components_ > 1
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].assignments_, other.assignments_)
        np.testing.assert_allclose(
            models[0].history_["evidence"], other.history_["evidence"], rtol=1e-10
        )
