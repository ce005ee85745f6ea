"""The spectral start finds planted features in whole, missing, sparse and degenerate data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linear_sum_assignment

from ibp.blas import single_threaded_blas
from ibp.datasets import make_binary_factors, make_block_images
from ibp.parallel import Threads
from ibp.starts.centred_matrix import DenseMatrix
from ibp.starts.low_rank_filling import fill_missing
from ibp.starts.spectral import SpectralCodes, spectral_codes
from ibp.starts.uniqueness import directions_above_noise, noise_of_columns


def find(values, n_components=None, *, seed=0, n_jobs=1, max_components=60, **options):
    with single_threaded_blas():
        return spectral_codes(
            values,
            n_components,
            max_components=max_components,
            rng=np.random.default_rng(seed),
            executor=Threads(n_jobs),
            **options,
        )


def bits_right(codes: SpectralCodes, truth) -> float:
    """Share of equal bits when columns are matched; a feature turned round counts as wrong."""
    equal = (codes.assignments[:, :, None] == truth[:, None, :]).mean(axis=0)
    return float(equal[linear_sum_assignment(-equal)].sum() / truth.shape[1])


def hide(values, pattern, seed=0):
    rng = np.random.default_rng(seed)
    n, d = values.shape
    hidden = rng.random((n, d)) < (0.0 if pattern == "block" else pattern)
    if pattern == "block":
        hidden[n // 2 :, rng.permutation(d)[: d // 5]] = True
    return np.where(hidden, np.nan, values)


def planted_sparse(n=3000, d=1500, k=8):
    """Sparse counts: each feature owns 40 columns, 5% of the rows have it and half their counts."""
    rng = np.random.default_rng(0)
    truth = (rng.random((n, k)) < 0.05).astype(np.uint8)
    owner = np.full(d, k)
    owner[rng.permutation(d)[: 40 * k]] = np.repeat(np.arange(k), 40)
    active = np.hstack([truth, np.zeros((n, 1), np.uint8)])[:, owner]
    dense = (active & (rng.random((n, d)) < 0.5)) | (rng.random((n, d)) < 0.002)
    return dense * rng.uniform(0.5, 1.5, (n, d)), truth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finds_the_features_and_their_number(seed, dtype):
    draw = make_binary_factors(500, 500, 20, random_state=seed)
    codes = find((draw.data + 5.0).astype(dtype), seed=seed)
    assert codes.assignments.dtype == np.uint8
    assert codes.n_above_edge == codes.assignments.shape[1] == 20
    assert bits_right(codes, draw.assignments) > 0.999
    assert codes.separation.min() > 0.9
    assert codes.noise_std == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("probability", [0.05, 0.21, 0.3, 0.5, 0.8])
def test_any_share_of_rows_may_have_a_feature(probability):
    draw = make_binary_factors(1000, 400, 15, probability=probability, random_state=1)
    assert bits_right(find(draw.data, 15), draw.assignments) > 0.999


def test_rare_features_in_strong_noise():
    draw = make_binary_factors(5000, 100, 5, probability=0.02, random_state=0)
    codes = find(draw.data, 5)
    assert bits_right(codes, draw.assignments) > 0.99
    assert codes.assignments.mean() < 0.03


def test_few_rows_for_many_features():
    draw = make_binary_factors(1000, 1000, 50, random_state=0)
    assert bits_right(find(draw.data.astype(np.float32)), draw.assignments) > 0.999


@pytest.mark.parametrize("pattern", ["block", 0.3, 0.5])
@pytest.mark.parametrize("shape", [(500, 500, 20), (2000, 300, 10), (300, 1000, 10)])
def test_missing_entries(pattern, shape):
    draw = make_binary_factors(*shape, random_state=2)
    codes = find(hide(draw.data + 5.0, pattern), max_components=40)
    assert codes.n_above_edge == shape[2]
    assert bits_right(codes, draw.assignments) > 0.99
    assert codes.noise_std == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("pattern", [None, "block"])
def test_four_block_images_at_every_noise_level(pattern):
    for seed, noise_std in enumerate(np.linspace(0.1, 1.0, 10)):
        draw = make_block_images(noise_std=noise_std, random_state=seed)
        codes = find(draw.data if pattern is None else hide(draw.data, pattern))
        assert codes.assignments.shape[1] == 4
        assert bits_right(codes, draw.assignments) > 0.8
        assert codes.noise_std == pytest.approx(noise_std, rel=0.02)


@pytest.mark.parametrize("shape", [(500, 500), (2000, 36), (50, 400)])
def test_noise_has_no_features(shape):
    values = np.random.default_rng(0).normal(size=shape)
    for data in (values, hide(values, 0.3)):
        codes = find(data)
        assert codes.assignments.shape == (shape[0], 0)
        assert codes.separation.shape == (0,)
        assert codes.noise_std == pytest.approx(1.0, abs=0.02)


def test_large_in_both_directions():
    draw = make_binary_factors(2100, 2200, 10, random_state=0)
    whole = draw.data.astype(np.float32)
    for data in (whole, hide(whole, "block").astype(np.float32)):
        codes = find(data, max_components=20, n_jobs=2)
        assert codes.n_above_edge == 10
        assert bits_right(codes, draw.assignments) > 0.999


def test_sparse_and_dense_agree():
    dense, truth = planted_sparse()
    codes = find(scipy.sparse.csr_array(dense))
    assert codes.n_above_edge == truth.shape[1]
    assert bits_right(codes, truth) > 0.99
    assert bits_right(find(dense, truth.shape[1]), codes.assignments) > 0.995


def test_missing_in_sparse():
    dense, truth = planted_sparse()
    values = scipy.sparse.csr_array(dense)
    values.data[::20] = np.nan
    codes = find(values)
    assert bits_right(codes, truth) > 0.99
    assert np.isnan(values.data[::20]).all()


@pytest.mark.parametrize("kind", ["dense", "wide", "missing", "sparse"])
def test_threads_do_not_change_the_answer_and_the_seed_decides_it(kind):
    shape = (300, 5000) if kind == "wide" else (5000, 60)
    draw = make_binary_factors(*shape, 6, random_state=0)
    values = draw.data.astype(np.float32)
    if kind == "missing":
        values = hide(values, 0.2).astype(np.float32)
    if kind == "sparse":
        values = scipy.sparse.csr_array(np.where(values > 1.0, values, 0.0))
    one, two, again = (find(values, 6, n_jobs=n_jobs) for n_jobs in (1, 2, 2))
    for other in (two, again):
        np.testing.assert_array_equal(one.assignments, other.assignments)
        np.testing.assert_array_equal(one.separation, other.separation)
        assert one.noise_std == other.noise_std


@pytest.mark.parametrize("exponent", [300, -300])
@pytest.mark.parametrize("kind", ["dense", "missing", "sparse", "large"])
def test_the_unit_of_the_data_does_not_matter(kind, exponent):
    shape = (2100, 2050) if kind == "large" else (500, 100)
    values = make_binary_factors(*shape, 6, random_state=0).data
    if kind == "missing":
        values = hide(values, 0.3)
    if kind == "sparse":
        values = scipy.sparse.csr_array(np.where(values > 1.0, values, 0.0))
    one, other = find(values, max_components=10), find(values * 2.0**exponent, max_components=10)
    assert one.n_above_edge == other.n_above_edge == 6
    np.testing.assert_array_equal(one.assignments, other.assignments)
    np.testing.assert_array_equal(one.separation, other.separation)
    assert other.noise_std == one.noise_std * 2.0**exponent


@pytest.mark.parametrize("unit", [1.0, 2.0**300])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_data_stay_as_they_are(kind, unit):
    dense = hide(make_binary_factors(200, 30, 3, random_state=0).data, 0.1) * unit
    values = scipy.sparse.csr_array(dense) if kind == "sparse" else dense
    numbers = values.data if kind == "sparse" else values
    before = numbers.copy()
    numbers.flags.writeable = False
    find(values, 3)
    np.testing.assert_array_equal(numbers, before)


def test_factors_are_mostly_positive_and_the_strongest_comes_first():
    draw = make_binary_factors(2000, 50, 6, probability=0.7, random_state=0)
    codes = find(draw.data - 100.0, 6)
    design = np.column_stack([np.ones(2000), codes.assignments])
    factors = np.linalg.lstsq(design, draw.data, rcond=None)[0][1:]
    assert (factors.sum(axis=1) > 0).all()
    assert bits_right(codes, draw.assignments) > 0.95
    images = make_block_images(random_state=0)
    assert (find(images.data * 2.0).assignments[:, 0] == images.assignments[:, 1]).mean() > 0.95


def test_stopping_early_still_gives_codes():
    draw = make_binary_factors(200, 100, 5, random_state=0)
    for values in (draw.data, hide(draw.data, 0.3), scipy.sparse.csr_array(draw.data)):
        codes = find(values, 5, should_stop=lambda: True)
        assert codes.assignments.shape[0] == 200


def degenerate():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(30, 6))
    empty_column = noise.copy()
    empty_column[:, 2] = np.nan
    empty_row = noise.copy()
    empty_row[4] = np.nan
    bits = rng.integers(0, 2, size=(40, 1)).astype(float)
    yield "one column", noise[:, :1]
    yield "one row", noise[:1]
    yield "two rows", noise[:2]
    yield "three rows", noise[:3, :2]
    yield "no columns", noise[:, :0]
    yield "constant", np.full((20, 5), 3.7)
    yield "constant in single precision", np.full((5000, 5), 3.7, dtype=np.float32)
    yield "zeros", np.zeros((20, 5))
    yield "rank one", bits @ np.ones((1, 8))
    yield "equal columns", np.repeat(noise[:, :2], 4, axis=1)
    yield "constant column", np.column_stack([noise, np.ones(30)])
    yield "an empty column", empty_column
    yield "an empty row", empty_row
    yield "nothing observed", np.full((10, 4), np.nan)
    yield "hardly anything observed", np.where(rng.random((30, 6)) < 0.9, np.nan, noise)
    yield "an outlier", np.vstack([noise, np.full((1, 6), 1e6)])
    yield "large", noise.astype(np.float32) * np.float32(1e30)
    yield "small", noise.astype(np.float32) * np.float32(1e-30)
    yield "huge", noise * 1e99
    yield "tiny", noise * 1e-99
    yield "one huge entry", np.where(noise == noise.max(), 1e100, noise)
    yield "one huge column", noise + np.array([1e100, 0.0, 0.0, 0.0, 0.0, 0.0])
    yield "huge and missing", np.where(rng.random((30, 6)) < 0.3, np.nan, noise * 1e99)
    yield "sparse and huge", scipy.sparse.csr_array(noise * 1e99)
    yield "sparse and tiny", scipy.sparse.csr_array(noise * 1e-99)
    yield "sparse zeros", scipy.sparse.csr_array((20, 7))
    yield "sparse and one entry", scipy.sparse.csr_array(([1.0], ([3], [2])), shape=(20, 7))
    yield "sparse and one missing", scipy.sparse.csr_array(([np.nan], ([3], [2])), shape=(20, 7))
    yield "sparse and one row", scipy.sparse.csr_array(noise[:1])
    yield "sparse constant", scipy.sparse.csr_array(np.full((20, 3), 2.5))


DEGENERATE = dict(degenerate())


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("n_components", [None, 1, 50])
def test_degenerate_data(name, n_components):
    values = DEGENERATE[name]
    codes = find(values, n_components)
    k = codes.assignments.shape[1]
    assert codes.assignments.shape == (values.shape[0], k)
    assert codes.separation.shape == (k,)
    assert k <= 50
    assert np.isfinite(codes.separation).all() and np.isfinite(codes.noise_std)
    counts = codes.assignments.sum(axis=0)
    assert ((counts > 0) & (counts < values.shape[0])).all()
    signs = 2.0 * codes.assignments - 1.0
    overlap = np.abs(signs.T @ signs) - values.shape[0] * np.eye(k)
    assert (overlap < values.shape[0]).all()


def test_noiseless_features_are_exact():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, size=(200, 4)).astype(np.uint8)
    codes = find(truth @ rng.random((4, 30)))
    assert codes.n_above_edge == 4
    assert bits_right(codes, truth) == 1.0
    assert codes.separation.min() > 0.99


@pytest.mark.parametrize("pattern", [0.0, 0.05, 0.3, "block"])
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_directions_are_counted_if_every_column_has_its_own_noise(pattern, spread):
    rng = np.random.default_rng(1)
    factors = rng.gamma(1.0, size=(6, 60)) * (rng.random((6, 60)) < 0.4)
    noise = 0.4 * np.exp(rng.uniform(-0.5, 0.5, size=60) * np.log(spread))
    X = (rng.random((1000, 6)) < 0.3) @ factors + noise * rng.normal(size=(1000, 60))
    X = hide((X - X.mean(axis=0)) / X.std(axis=0), pattern)
    with single_threaded_blas():
        found = directions_above_noise(X, 40, rng, Threads(1), lambda: False)
    assert found == 6


def test_noise_of_columns_is_about_what_the_others_tell():
    rng = np.random.default_rng(0)
    noise = np.linspace(0.2, 0.6, 40)
    X = (rng.random((3000, 3)) < 0.5) @ rng.uniform(1.0, 3.0, size=(3, 40))
    X += noise * rng.normal(size=X.shape)
    for values in (X, hide(X, 0.2)):
        with single_threaded_blas():
            matrix = DenseMatrix(values, Threads(1))
            if matrix.has_missing:
                fill_missing(matrix, 10, rng, lambda: False)
            found = noise_of_columns(matrix, rng)
        # A little more: the columns that tell of it have noise themselves.
        assert ((found > 0.95 * noise) & (found < 1.3 * noise)).all()
