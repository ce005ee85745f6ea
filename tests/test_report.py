"""What a report page says: numbers against plain NumPy, and what is shown of large data."""

from __future__ import annotations

import base64
import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import logit

import ibp
from ibp import MEIBP
from ibp.agreement import CAME_BACK
from ibp.cli.summary import summarize_fit
from ibp.data import as_source
from ibp.errors import EndingWarning, counted
from ibp.registry import CARDS, DEFAULT_METHOD
from ibp.report import reading, wording
from ibp.report.codes import WeightCounts, about_codes
from ibp.report.content import gather
from ibp.report.encoding import clean_name, plain_number, script_json
from ibp.report.notes import Notes
from ibp.report.page import render_report
from ibp.report.sampling import (
    MOST_COLUMNS,
    MOST_NUMBERS,
    choose,
    leading_columns,
    sample_rows,
    top_columns,
    worst_first,
)
from ibp.report.trust import Limit, limit_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:No feature survived"),
]


def make_data(n=60, d=9, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    A = np.kron(np.eye(3), np.ones(d // 3)) * 2.0
    Z = rng.random((n, 3)) < 0.4
    X = Z @ A + 1.0 + rng.normal(0.0, 0.3, size=(n, d))
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


def make_weighted(n=60, d=16, seed=0):
    """Four features, of two of which rows have more or less."""
    rng = np.random.default_rng(seed)
    A = np.kron(np.eye(4), np.ones(d // 4)) * 2.0
    Z = rng.random((n, 4)) < 0.5
    weights = np.where(np.arange(4) < 2, rng.gamma(4.0, 0.25, (n, 4)), 1.0)
    return (Z * weights) @ A + 1.0 + rng.normal(0.0, 0.2, (n, d))


def fit_weighted(X, **settings):
    settings = {"n_components": 4, "max_iter": 20, "random_state": 0, "n_jobs": 1} | settings
    return MEIBP(codes="weighted", moves=False, **settings).fit(X)


@pytest.fixture(scope="module")
def weighted():
    """A fit with features of both kinds, and small weights."""
    X = make_weighted()
    model = fit_weighted(X)
    n_varying = (model.weight_std_ >= 0.05).sum()
    assert 0 < n_varying < model.n_components_ and (model.codes_[model.codes_ > 0] < 0.5).any()
    return model, X


@pytest.fixture(scope="module")
def fitted():
    X = make_data(missing=0.1)
    return MEIBP(4, random_state=0, n_init=3, n_jobs=1).fit(X), X


def numbers_of(content):
    """What was measured, but for weights that a model does not have."""
    return [(name, value) for name, value in vars(content.measured).items() if value is not None]


def unpacked(packed, *shape):
    return np.frombuffer(base64.b64decode(packed), dtype="<f4").reshape(shape)


def test_strengths_and_bars_are_in_units_of_the_noise_and_numbers_in_those_of_the_columns():
    X, _, _ = ibp.datasets.make_block_images(120, noise_std=0.3, random_state=0)
    X[:, 2] *= 1000.0
    model = ibp.MEIBP(random_state=0).fit(X)
    features = gather(model, X).payload()["features"]
    in_noise = model.components_ / model.noise_std_
    np.testing.assert_allclose(features["strength"], np.sqrt((in_noise**2).mean(1)), rtol=1e-2)
    longest = np.argmax(in_noise, axis=1)
    for k, column in enumerate(longest):
        assert features["top_lengths"][k][0] == pytest.approx(in_noise[k, column], rel=1e-2)
        assert features["top_values"][k][0] == pytest.approx(model.components_[k, column], rel=1e-2)
    X[:, 2] /= 1000.0
    shared = ibp.MEIBP(noise="shared", moves=False, random_state=0).fit(X)
    assert not gather(shared, X).measured.own_noise  # by which the page says the unit


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_terminal_and_page_agree_on_what_is_explained(fit_intercept):
    X, _, _ = ibp.datasets.make_block_images(150, noise_std=0.3, random_state=0)
    nearly = np.where(np.arange(150) % 2, 7.0, np.nextafter(7.0, 8.0))
    X = np.column_stack([X - X.min(), np.full(150, 1000.0), nearly])
    model = ibp.MEIBP(fit_intercept=fit_intercept, moves=False, random_state=0).fit(X)
    summary = summarize_fit(model, None, X, None, None, 0.0)
    page = gather(model, X).measured
    assert summary.variance_explained == pytest.approx(page.variance_explained, abs=1e-9)


def test_columns_that_say_the_same_are_named():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    X = np.column_stack([X, 2.54 * X[:, 0]])
    model = ibp.MEIBP(random_state=0).fit(X)
    exact = gather(model, X, column_names=["inches", "b", "c", "d", "cm"]).facts().nearly_exact
    assert set(exact) == {"inches", "cm"}
    named = [advice.title for advice in wording.advice(facts(nearly_exact=exact))]
    assert any("explained to the last digit" in title for title in named)
    shared = MEIBP(2, noise="shared", moves=False, random_state=0).fit(X)
    assert gather(shared, X).nearly_exact == ()


def test_errors_are_those_of_numpy(fitted):
    model, X = fitted
    measured = gather(model, X).measured
    residual = X - model.inverse_transform(model._training_codes())
    np.testing.assert_allclose(measured.row_errors, np.sqrt(np.nanmean(residual**2, axis=1)))
    np.testing.assert_allclose(measured.column_errors, np.sqrt(np.nanmean(residual**2, axis=0)))
    np.testing.assert_allclose(measured.column_spreads, np.nanstd(X, axis=0))
    left, spread = np.nanmean(residual**2, axis=0), np.nanvar(X, axis=0)
    weight = (~np.isnan(X)).sum(axis=0) / (spread if np.ndim(model.noise_std_) else 1.0)
    assert measured.variance_explained == pytest.approx(1 - weight @ left / (weight @ spread))
    assert measured.n_missing == np.isnan(X).sum() > 0


def test_rows_are_compared_in_units_of_the_columns_noise(fitted):
    model, X = fitted
    content = gather(model, X)
    residual = (X - model.inverse_transform(model.transform(X))) / model.noise_std_
    misfit = np.sqrt(np.nanmean(residual**2, axis=1))
    np.testing.assert_allclose(content.row_errors, misfit)
    assert content.shown.worst[0] == np.nanargmax(misfit)
    shared = MEIBP(4, noise="shared", random_state=0, n_jobs=1).fit(X)
    content = gather(shared, X)
    assert content.column_noise is None and content.loudest_columns() == []
    np.testing.assert_array_equal(content.row_errors, content.measured.row_errors)


def test_other_units_name_the_same_rows_and_columns(fitted):
    model, X = fitted
    unit = 2.0 ** np.array([0, 20, -20, 3, 0, 1, -7, 12, 5])
    content = gather(model, X)
    scaled = gather(MEIBP(4, random_state=0, n_init=3, n_jobs=1).fit(X * unit), X * unit)
    np.testing.assert_array_equal(content.shown.worst, scaled.shown.worst)
    np.testing.assert_array_equal(content.column_noise.unexplained, scaled.column_noise.unexplained)
    loudest = scaled.column_noise.loudest
    assert loudest[0] == 1 and scaled.column_noise.quietest[0] == 2  # in the data's own units
    assert len(set(loudest) | set(scaled.column_noise.quietest)) == 9 + 1 - 9 % 2


def test_columns_that_tell_little_are_not_listed():
    X = np.hstack([make_data(100), np.zeros((100, 3))])
    X[:, 10] = 5.0  # constant, as column 9 is
    X[3, 11] = 1.0  # a tag that one row has
    content = gather(MEIBP(random_state=0, n_jobs=1).fit(X), X)
    noise = content.column_noise
    assert noise.constant.tolist() == [9, 10]
    assert np.flatnonzero(noise.hardly_varies).tolist() == [11]
    for listed in (noise.unexplained, noise.loudest, noise.quietest):
        assert set(listed) <= set(range(9))
    errors, spreads = content.measured.column_errors[:9], content.measured.column_spreads[:9]
    assert noise.unexplained[0] == np.argmax(errors / spreads)
    assert noise.loudest[0] == np.argmax(noise.noise[:9])
    picture = unpacked(gather(content.model, X, image_shape=(3, 4)).payload()["noise"], 12)
    np.testing.assert_array_equal(np.isnan(picture), ~noise.takes_part)
    assert content.payload()["noise"] is None


def test_features_on_together_are_counted(fitted):
    model, X = fitted
    measured = gather(model, X).measured
    Z = model._training_codes().astype(int)
    np.testing.assert_array_equal(measured.on_counts, Z.sum(axis=0))
    np.testing.assert_array_equal(measured.together, Z.T @ Z)
    np.testing.assert_array_equal(measured.row_features, Z.sum(axis=1))
    np.testing.assert_allclose(measured.correlation, np.corrcoef(Z.T), atol=1e-12)


def test_a_feature_that_never_changes_is_correlated_with_nothing():
    X = make_data()
    model = MEIBP(4, random_state=0, n_jobs=1).fit(X)
    always = X[model._training_codes()[:, 0] == 1]
    correlation = gather(model, always).measured.correlation
    assert np.isfinite(correlation).all() and (correlation[0] == 0).all()


def test_real_codes_are_correlated_as_they_are():
    X = make_data() + 2.0
    model = ibp.BNMF(3, random_state=0, max_iter=50, n_jobs=1).fit(X)
    content = gather(model, X)
    codes = model._training_codes()
    np.testing.assert_allclose(content.measured.correlation, np.corrcoef(codes.T), atol=1e-8)
    np.testing.assert_array_equal(content.measured.on_counts, (codes > 0).sum(axis=0))
    assert content.code_kind == "real" and content.certainty is None


def test_a_row_has_what_it_has_any_weight_of(weighted):
    model, X = weighted
    content = gather(model, X)
    measured, codes = content.measured, model.codes_
    assert content.code_kind == "weighted" and content.payload()["codes"] == "weighted"
    np.testing.assert_array_equal(measured.on_counts, model.feature_counts_)
    np.testing.assert_array_equal(measured.row_features, model.assignments_.sum(axis=1))
    np.testing.assert_allclose(measured.correlation, np.corrcoef(codes.T), atol=1e-8)
    np.testing.assert_allclose(measured.largest_codes, codes.max(axis=0))
    assert content.facts().features_per_row == pytest.approx(model.assignments_.sum() / len(X))
    summary = summarize_fit(model, None, X, None, None, 0.0)
    assert summary.features_per_row == pytest.approx(content.facts().features_per_row)


def test_a_model_with_weights_knows_how_sure_it_is(weighted):
    model, X = weighted
    content = gather(model, X)
    right = np.where(model.assignments_, model.probabilities(X), 1.0 - model.probabilities(X))
    assert content.certainty.mean_probability == pytest.approx(right.mean())
    assert content.proven is None  # its search proves nothing


def test_weights_are_counted_for_each_feature(weighted, monkeypatch):
    model, X = weighted
    described = gather(model, X).payload()["features"]
    assert described["weight_std"] == pytest.approx(model.weight_std_, rel=1e-5)
    for k, about in enumerate(described["weights"]):
        used = model.codes_[model.codes_[:, k] > 0, k]
        edges = np.arange(len(about["counts"]) + 1) * about["width"]
        np.testing.assert_array_equal(about["counts"], np.histogram(used, edges)[0])
        assert about["varies"] == (model.weight_std_[k] >= 0.05)
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 50)
    assert gather(model, X).payload()["features"]["weights"] == described["weights"]


def test_histograms_of_weights_grow_with_the_weights():
    rng = np.random.default_rng(0)
    weights = np.sort(rng.gamma(0.3, 30.0, 1000))  # the largest come last
    weights[::3] = 0.0
    counts = WeightCounts(1)
    for block in np.array_split(weights, 7):
        counts.add(block[:, None])
    found, width = counts.histogram(0)
    edges = np.arange(found.size + 1) * width
    np.testing.assert_array_equal(found, np.histogram(weights[weights > 0], edges)[0])
    assert 8 <= found.size <= 16 and found[-1] > 0 and found.sum() == (weights > 0).sum()
    nothing, _ = WeightCounts(1).histogram(0)
    assert nothing.sum() == 0


def test_codes_without_weights_have_no_charts_of_them(fitted):
    content = gather(*fitted)
    features = content.payload()["features"]
    assert features["weights"] is None and features["weight_std"] is None
    assert about_codes(content.model) == {"codes": "binary", "weight_std": None}


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        (0.0, "yes or no"),
        (0.049, "yes or no"),
        (0.05, "varies by about 5 %"),
        (0.3, "varies by about 30 %"),
        (1.0, "varies by about 100 %"),
    ],
)
def test_spreads_of_weights_are_put_in_words(spread, words):
    assert wording.weights(spread) == words


def test_how_many_features_have_weights_is_put_in_words():
    said = {(k, n): wording.with_weights(k, n) for k, n in ((1, 0), (1, 1), (4, 0), (4, 3), (4, 4))}
    assert list(said.values()) == [
        "without weights",
        "with weights",
        "none of them with weights",
        "3 of them with weights",
        "all of them with weights",
    ]


def test_blocks_of_rows_make_no_difference(fitted, monkeypatch):
    model, X = fitted
    whole = gather(model, X).measured
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 7 * X.shape[1])
    for name, value in numbers_of(gather(model, X)):
        np.testing.assert_allclose(value, getattr(whole, name), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_sparse_data_give_what_dense_ones_do(missing):
    rng = np.random.default_rng(1)
    X = make_data(missing=missing)
    X[rng.random(X.shape) < 0.5] = 0.0
    model = MEIBP(4, random_state=0, n_jobs=1).fit(X)
    dense, thin = gather(model, X), gather(model, sparse.csr_matrix(X))
    for name, value in numbers_of(dense):
        np.testing.assert_allclose(getattr(thin.measured, name), value, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(thin.row_values, dense.row_values)
    np.testing.assert_array_equal(thin.row_codes, dense.row_codes)


def test_sparse_data_are_never_made_dense(monkeypatch):
    X = sparse.random_array((3000, 400), density=0.02, rng=np.random.default_rng(0), format="csr")
    model = MEIBP(2, random_state=0, n_jobs=1, max_iter=2).fit(X)
    largest = 0
    original = sparse.csr_array.toarray

    def toarray(self, *arguments, **settings):
        nonlocal largest
        largest = max(largest, self.shape[0] * self.shape[1])
        return original(self, *arguments, **settings)

    monkeypatch.setattr(sparse.csr_array, "toarray", toarray)
    content = gather(model, X, max_rows=50)
    assert content.row_values.shape == (50, 400) and largest == 50 * 400


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, list, np.ma.masked_invalid])
def test_frames_lists_and_masked_arrays_are_read_too(fitted, frame):
    model, X = fitted
    made = frame(X.tolist()) if frame is list else frame(X)
    content = gather(model, made)
    np.testing.assert_allclose(content.measured.row_squares, gather(model, X).measured.row_squares)


def test_sources_of_rows_are_read_too(fitted):
    model, X = fitted
    found = gather(model, as_source(X)).measured
    np.testing.assert_array_equal(found.row_errors, gather(model, X).measured.row_errors)


def test_names_come_from_the_frame_and_need_not_be_there_later():
    X = make_data()
    frame = pd.DataFrame(X, columns=list("abcdefghi"), index=[f"r{i}" for i in range(len(X))])
    model = MEIBP(4, random_state=0, n_jobs=1).fit(frame)
    content = gather(model, frame)
    assert content.column_name(2) == "c" and content.row_name(3) == "r3"
    bare = gather(model, X)  # without a warning about names
    assert bare.column_name(2) == "c" and bare.row_name(3) == "row 4"
    given = gather(model, X, row_names=np.arange(60).astype(str), column_names=list("ABCDEFGHI"))
    assert given.column_name(2) == "C" and given.row_name(3) == "3"
    with pytest.raises(ValueError, match="2 row names for 60 rows"):
        gather(model, X, row_names=["a", "b"])


def test_certainty_is_the_probability_of_being_right(fitted):
    model, X = fitted
    certainty = gather(model, X).certainty
    on, probability = model.assignments_ == 1, model.probabilities(X)
    probability = np.where(on, probability, 1.0 - probability)
    nats = logit(np.clip(probability, 1e-6, 1.0 - 1e-6))
    assert certainty.toss_ups == pytest.approx((nats < 1).mean())
    assert certainty.shares.sum() == pytest.approx(1.0)
    assert certainty.shares[1:3].sum() == pytest.approx(((nats >= 1) & (nats < 5)).mean())
    np.testing.assert_allclose(certainty.feature_probability, probability.mean(axis=0))
    expected = [probability[on[:, k], k].mean() for k in range(model.n_components_)]
    np.testing.assert_allclose(certainty.feature_on_probability, expected)


def test_restarts_leave_out_the_one_that_was_kept(fitted):
    model, X = fitted
    restarts = gather(model, X).restarts
    assert restarts.similarity.shape == (2, model.n_components_)
    others = np.delete(model.restart_similarity_, model.restart_kept_, axis=0)
    np.testing.assert_allclose(restarts.agreement, others.mean(axis=0))
    np.testing.assert_array_equal(restarts.times_back, (others >= CAME_BACK).sum(axis=0))
    assert gather(MEIBP(random_state=0, n_jobs=1).fit(X), X).restarts.agreement is None


@pytest.mark.parametrize("label", sorted(ibp.METHODS))
def test_what_the_page_adds_up_is_the_inverse_transform(label):
    X = make_data(30)
    X -= X.min()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ibp.METHODS[label](3, max_iter=6, random_state=0, n_jobs=1).fit(X)
    content = gather(model, X, max_rows=12)
    payload = content.payload()
    rows, columns = payload["rows"]["numbers"], payload["column_numbers"]
    k = model.n_components_
    codes = unpacked(payload["rows"]["codes"], len(rows), k)
    components = unpacked(payload["components"], k, len(columns))
    sums = unpacked(payload["intercept"], len(columns)) + codes @ components
    expected = model.inverse_transform(model._training_codes()[rows])[:, columns]
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-5)
    values = unpacked(payload["rows"]["values"], len(rows), len(columns))
    np.testing.assert_allclose(values, X[np.ix_(rows, columns)], rtol=1e-6)


def test_the_worst_rows_are_shown_and_the_worst_comes_first(fitted):
    model, X = fitted
    X = X.copy()
    X[17] += 50.0
    X[5] = np.nan  # nothing is known of it, so it is not bad
    content = gather(model, X, max_rows=10)
    assert content.worst_rows()[0]["row"] == 17
    assert {17} <= set(content.shown.rows.tolist())
    assert 5 not in content.shown.worst
    assert content.facts().worst_row == "row 18"
    assert any(item.title == "Look at row 18" for item in wording.advice(content.facts()))


def test_worst_first_leaves_out_what_has_no_error():
    np.testing.assert_array_equal(worst_first(np.array([1.0, np.nan, 3.0, 2.0])), [2, 3, 0])


@pytest.mark.parametrize(("k", "d"), [(1, 5000), (20, 2000), (500, 2000), (3000, 2000), (0, 9)])
def test_a_page_of_large_data_stays_small(k, d):
    components = np.random.default_rng(0).random((k, d))
    shown = choose(
        components,
        np.random.default_rng(1).random(1000),
        image_shape=None,
        max_rows=300,
        random_state=0,
    )
    n, s = shown.rows.size, shown.columns.size
    assert 1 <= s <= MOST_COLUMNS and 1 <= n <= 300
    assert max(k * s, n * s, n * k) <= MOST_NUMBERS
    assert np.unique(shown.rows).size == n and np.unique(shown.columns).size == s
    assert set(shown.worst) <= set(shown.rows)


def test_large_pictures_lose_pixels_and_not_their_form():
    components = np.arange(2 * 300 * 200, dtype=float).reshape(2, -1)
    shown = choose(components, np.ones(3), image_shape=(300, 200), max_rows=5, random_state=0)
    assert shown.stride == 2 and shown.image_shape == (150, 100)
    pixels = np.arange(300 * 200).reshape(300, 200)[::2, ::2]
    np.testing.assert_array_equal(shown.columns, pixels.ravel())


def test_certainty_is_asked_of_some_rows_if_there_are_many(fitted, monkeypatch):
    model, X = fitted
    monkeypatch.setattr("ibp.report.trust.MOST_ROWS", 20)
    certainty = gather(model, X).certainty
    assert certainty.n_rows == 20
    again = gather(model, X).certainty
    assert certainty.mean_probability == again.mean_probability  # the same rows
    rows = sample_rows(60, 20, 0)
    assert np.unique(rows).size == 20 and (np.diff(rows) > 0).all()


def test_every_feature_keeps_its_strongest_columns():
    components = np.array([[9.0, 8.0, 1.0, 0.0], [0.0, 0.1, 0.3, 0.2]])
    np.testing.assert_array_equal(leading_columns(components)[:2], [0, 2])
    np.testing.assert_array_equal(top_columns(-components, 2), [[0, 1], [2, 3]])


def test_pairs_stand_beside_their_like():
    X = make_data(200)
    model = MEIBP(4, random_state=0, n_jobs=1).fit(X)
    content = gather(model, X)
    pairs = content.payload()["pairs"]
    order = pairs["features"]
    assert sorted(order) == list(range(model.n_components_))
    k = len(order)
    expected = content.measured.correlation[np.ix_(order, order)]
    np.testing.assert_allclose(unpacked(pairs["correlation"], k, k), expected, atol=1e-6)


def test_a_picture_must_have_as_many_pixels_as_there_are_columns(fitted):
    model, X = fitted
    with pytest.raises(ValueError, match="12 pixels, but the data have 9 columns"):
        gather(model, X, image_shape=(3, 4))
    assert gather(model, X, image_shape=(3, 3)).column_name(4) == "pixel (2, 2)"


def test_data_that_do_not_fit_the_model_are_refused(fitted):
    model, X = fitted
    with pytest.raises(ValueError, match="features"):
        gather(model, X[:, :4])
    with pytest.raises(ValueError, match="max_rows"):
        gather(model, X, max_rows=0)


def test_notes_of_any_kind_do_no_harm():
    class Model:
        pass

    Model.notes_ = {
        "data": 7,
        "image_shape": [0, "x"],
        "held_out": {"score": "high"},
        "versions": [],
        "fitted_at": None,
        "seconds": float("nan"),
    }
    notes = Notes.of(Model)
    assert notes.data is notes.image_shape is notes.held_out is notes.seconds is None
    assert "numpy" in notes.versions


@pytest.mark.parametrize(
    "notes",
    [
        ["not", "a", "dictionary"],
        {"seconds": 10**400, "held_out": {"score": 10**400}},
        {"seconds": -1.0, "held_out": {"score": -1.0, "n_entries": -4, "fraction": 1e300}},
        {"seconds": 1e300, "fitted_at": "x" * 10**6, "versions": {"a": {"b": [1] * 10**5}}},
        {
            "fitted_at": "\ud800",
            "versions": {"\ud800": "\udc00"} | {str(i): "1" for i in range(99)},
        },
    ],
)
def test_notes_of_a_hostile_file_are_left_aside_or_cut_short(fitted, notes):
    model, X = fitted
    model = copy(model)
    model.notes_ = notes
    read = gather(model, X).notes
    assert read.seconds is None
    if read.held_out is not None:
        assert read.held_out.n_entries is None and read.held_out.fraction is None
    assert len(read.versions) <= 20
    shown = [read.fitted_at or "", *read.versions, *read.versions.values()]
    assert all(len(text.encode("utf-8")) <= 400 for text in shown)


@pytest.mark.parametrize("offset", [2.1, 1e6])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_spreads_survive_a_large_mean_and_are_nothing_of_constant_columns(
    monkeypatch, offset, kind
):
    X = np.column_stack([make_data(), np.full(60, 0.1), np.full(60, 3e6)])
    X[:, :9] += offset
    model = ibp.BNMF(2, random_state=0, max_iter=5, n_jobs=1).fit(X)
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 7 * X.shape[1])
    measured = gather(model, kind(X)).measured
    np.testing.assert_allclose(measured.column_spreads[:9], X[:, :9].std(axis=0), rtol=1e-7)
    assert (measured.column_spreads[9:] == 0).all()


@pytest.mark.parametrize("scale", [1e60, 1e-60])
def test_numbers_beyond_single_precision_are_kept(scale):
    X = make_data() * scale
    model = MEIBP(3, random_state=0, n_jobs=1).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = gather(model, X).payload()["rows"]["values"]
    assert values.startswith("double:")
    kept = np.frombuffer(base64.b64decode(values.removeprefix("double:")), dtype="<f8")
    np.testing.assert_array_equal(kept, X.ravel())


def test_of_very_many_sweeps_some_are_shown(fitted):
    model, X = fitted
    model = copy(model)
    climb = np.linspace(-123456789.0, -123456788.0, 30_001)
    model.history_ = {"evidence": climb, "n_components": np.full(30_001, 3), "seconds": climb}
    history = gather(model, X).payload()["history"]
    assert history["sweeps"][0] == 1 and history["sweeps"][-1] == 30_001
    assert len(history["sweeps"]) == len(history["evidence"]) == 2000
    assert len(set(history["evidence"])) > 900  # small steps of a large number can be told apart


def test_rows_that_share_a_name_have_their_number_too(fitted):
    model, X = fitted
    names = ["same", "same", *(f"row {i}" for i in range(58))]
    content = gather(model, X, row_names=names)
    assert content.row_name(1) == "same (row 2)" and content.row_name(2) == "row 0"


@pytest.mark.parametrize("shape", [("a", 3), (9,), (3, 3, 1), 9, (4.5, 2)])
def test_a_shape_is_two_whole_numbers(fitted, shape):
    model, X = fitted
    with pytest.raises(ValueError, match="image_shape must be two whole numbers"):
        gather(model, X, image_shape=shape)


def test_levels_of_columns_are_told_by_mean_and_range():
    assert wording.level(0.25) == wording.level(np.array([0.25])) == "0.25"
    assert wording.level(np.array([3.0, 4.0, 5.0])) == "4.08 (columns 3 to 5)"
    assert wording.level(np.full(3, 1e200)) == "1.00e+200"
    assert wording.level(np.zeros(0)) == "0"


def test_numbers_as_people_say_them():
    assert wording.number(1234.5) == "1,234"
    assert wording.number(0.99999) == "1"
    assert wording.number(2.0, padded=True) == "2.00"
    assert wording.number(float("nan")) == wording.percent(float("nan")) == wording.NOTHING
    assert wording.percent(0.004) == "under 1 %"
    assert wording.percent(0.9999) == "over 99 %"
    assert wording.percent(1.0) == "100 %"
    assert counted(1, "row") == "1 row" and counted(12000, "row") == "12,000 rows"
    spans = [wording.seconds(value) for value in (0.0, 1.0, 90.5, 3000.0, 9000.0)]
    assert spans == ["0.01 seconds", "1 second", "90.5 seconds", "50 minutes", "2.5 hours"]
    assert wording.listed([3]) == "feature 3"
    assert wording.listed(range(9)) == "features 0, 1, 2, 3, 4, 5 and 3 more"


def facts(**changes):
    known = wording.Facts(
        method="MEIBP",
        label=None,
        limit=None,
        n_rows=100,
        n_rows_fit=100,
        n_columns=9,
        missing=0.0,
        n_components=4,
        codes="binary",
        codes_setting="binary",
        n_weighted=0,
        own_noise=True,
        variance_explained=0.8,
        features_per_row=1.5,
        n_unused=0,
        ending="converged",
        settles=True,
        n_iter=12,
        seconds=1.0,
        n_restarts=5,
        fewest_and_most=(4, 4),
        evidence_spread=0.2,
        spread_of_gain=0.0001,
        returned=4,
        returned_in_part=[],
        not_returned=[],
        at_limit=None,
        mean_probability=0.99,
        toss_ups=0.01,
        unsure=[2],
        rare=[],
        worst_row="row 3",
        worst_ratio=1.5,
        has_held_out=True,
    )
    return replace(known, **changes)


DOUBTFUL = {"n_components": 10, "returned": 8}


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, "good", "ibp transform"),
        ({}, "good", "4 of 4 came back in most of the 4 other restarts. The 5 restarts have 4"),
        ({"n_restarts": 2}, "look", "came back in the other restart"),
        ({"n_restarts": 2}, "look", "One is little to go by"),
        ({"n_restarts": 3}, "good", "came back in both other restarts"),
        ({"n_restarts": 1, "returned": None}, "do", "--restarts 5"),
        ({"n_restarts": 1, "returned": None}, "do", "another start may find other features"),
        ({"has_held_out": False}, "do", "--held-out 0.1"),
        ({"ending": "max_iter"}, "do", "--max-sweeps"),
        ({"ending": "time_limit"}, "do", "--time-limit"),
        (DOUBTFUL | {"not_returned": [1, 3]}, "look", "Be careful with features 1 and 3"),
        (DOUBTFUL | {"returned_in_part": [1, 3]}, "look", "the others only in part"),
        (DOUBTFUL | {"not_returned": [3], "returned_in_part": [1]}, "look", "1 in part, feature 3"),
        ({"returned": 1, "not_returned": [0, 1, 2]}, "look", "1 of 4 came back"),
        ({"fewest_and_most": (3, 6), "evidence_spread": 812.3}, "look", "3 to 6 features and evid"),
        ({"spread_of_gain": 0.25, "evidence_spread": 812.3}, "look", "812 nats apart (25.0 % of"),
        ({"at_limit": Limit(4, 12.3, True)}, "do", "gain 12.3 nats of evidence: raise n_compone"),
        ({"at_limit": Limit(4, 12.3, True)}, "do", "--components 8"),
        ({"at_limit": Limit(4, None, True)}, "look", "not known: raise n_components, or leave it"),
        ({"at_limit": Limit(4, None, False)}, "look", "not known: raise n_components."),
        ({"at_limit": Limit(4, 0.0, True)}, "look", "one more that was tried gained nothing"),
        ({"toss_ups": 0.2}, "look", "20 % of all"),
        ({"rare": [2]}, "look", "Feature 2 is rare"),
        ({"variance_explained": 0.1}, "look", "10 % of the variance"),
        ({"worst_ratio": 9.0}, "look", "9 times"),
        ({"variance_explained": -0.2}, "look", "none of the variance"),
        ({"n_components": 0}, "do", 'noise="shared"'),
        ({"n_components": 0, "own_noise": False}, "do", "on one scale"),
        ({"ending": "time_limit", "n_iter": 0}, "do", "Let it run longer"),
        ({"method": "BNMF", "n_restarts": 1}, "do", "ibp fit DATA --method bnmf --restarts 5 -o"),
    ],
)
def test_advice_follows_from_the_facts(changes, kind, words):
    items = wording.advice(facts(**changes))
    said = [item for item in items if words in f"{item.title} {item.text} {item.command}"]
    assert len(said) == 1 and said[0].kind == kind


@pytest.mark.parametrize(
    "changes",
    [
        {"at_limit": Limit(4, 12.3, True)},
        {"at_limit": Limit(4, None, True)},
        {"at_limit": Limit(4, -1.0, True)},
        {"returned": 3, "not_returned": [1]},
        {"returned": 3, "returned_in_part": [1]},
        DOUBTFUL | {"not_returned": [1, 3]},
        DOUBTFUL | {"returned_in_part": [1, 3]},
        {"fewest_and_most": (4, 5)},
        {"spread_of_gain": 0.02},
        {"n_restarts": 1, "returned": None},
    ],
)
def test_nothing_is_called_good_that_hangs_on_the_start_or_the_limit(changes):
    assert any(item.kind == "good" for item in wording.advice(facts()))
    assert not any(item.kind == "good" for item in wording.advice(facts(**changes)))


def test_how_far_restarts_differ_is_put_in_words():
    assert wording.spread((1, 1), 0.0, None) == "1 feature each and the same evidence"
    assert wording.spread((3, 3), None, None) == "3 features each"
    assert wording.spread((0, 1), 3.21, None) == "0 to 1 feature and evidence up to 3.21 nats apart"
    share = wording.spread((2, 4), 1234.0, 0.00001)
    assert share.endswith("1,234 nats apart (under 0.1 % of what the features gain)")


def test_a_model_knows_whether_it_is_at_its_limit(fitted):
    X = make_data()
    with pytest.warns(EndingWarning, match="n_components=2 is all that this fit may have"):
        model = MEIBP(2, random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 2
    assert limit_of(model) == Limit(2, model.limit_gain_, True)
    model.limit_gain_ = None
    assert limit_of(model) == Limit(2, None, True)
    assert not limit_of(model, "meibp").can_be_left_out  # on the command line it needs a number
    model.limit_gain_ = 31.5
    reached = gather(model, X).facts().at_limit
    assert reached == Limit(2, 31.5, True) and reached.binds
    model.limit_gain_ = 9.9  # not worth another feature, as the fit itself thinks
    assert not limit_of(model).binds
    model.limit_gain_ = np.nan
    assert limit_of(model).gain is None
    model.n_components = 3
    assert limit_of(model) is None
    model.n_components = None
    assert limit_of(model) is None
    given = ibp.BNMF(2, random_state=0, max_iter=5, n_jobs=1).fit(X - X.min())
    assert not limit_of(given).can_be_left_out


def test_the_page_and_its_head_say_how_far_restarts_differ(fitted):
    model, X = fitted
    model = copy(model)
    model.baseline_evidence_ = float(model.evidence_ - 1000.0)
    model.restart_evidence_ = model.evidence_ - np.array([5.0, 0.0, 0.0])
    model.restart_n_components_ = np.array([4, 3, 3])
    model.restart_kept_ = 1
    model.restart_similarity_ = np.array([[1.0, 0.6, 0.1], [1.0, 1.0, 1.0], [0.9, 0.9, 0.2]])
    content = gather(model, X)
    said = content.facts()
    assert said.fewest_and_most == (3, 4) and said.evidence_spread == pytest.approx(5.0)
    assert said.spread_of_gain == pytest.approx(0.005)
    assert said.returned == 1 and said.returned_in_part == [1] and said.not_returned == [2]
    page = render_report(content)
    for words in (
        "They have 3 to 4 features and evidence up to 5 nats apart (0.5 % of what the features",
        "Of 3 features, 1 came back in both other restarts, 1 only in part, and 1 not at all.",
        "<strong>1 of 3</strong><span>came back in both other restarts</span>",
        "Only 1 of 3 came back in both other restarts, 1 in part, feature 2 not. The 3 restarts",
    ):
        assert words in page
    assert '<li class="good">' not in page


@pytest.mark.parametrize("ending", ["max_iter", "time_limit"])
def test_what_would_never_settle_need_not_run_longer(ending):
    open_ended = facts(method="AcceleratedGibbs", ending=ending, settles=False)
    assert not any(item.title == "Let it run longer" for item in wording.advice(open_ended))
    said = wording.summary(open_ended, None)
    assert "would not have stopped by itself" in said and "settled" not in said


@pytest.mark.parametrize("name", sorted(CARDS))
def test_methods_of_the_advice_are_those_of_the_command_line(name):
    advised = [item.command for item in wording.advice(facts(method=name, n_components=0))]
    options = advised[0].split()
    label = options[options.index("--method") + 1] if "--method" in options else DEFAULT_METHOD
    assert type(ibp.METHODS[label](3)) is getattr(ibp, name)


def test_features_that_no_row_has_are_put_in_words():
    nobody = {"features_per_row": 0.0}
    assert "; no row has it." in wording.summary(facts(n_components=1, n_unused=1, **nobody), None)
    assert "; no row has any of them." in wording.summary(facts(n_unused=4, **nobody), None)
    worse = wording.summary(facts(variance_explained=-0.001), None)
    assert "explain none of the variance" in worse


def test_nothing_is_certain():
    assert wording.probability(1.0) == "over 99.9 %"
    assert wording.probability(0.5) == "50.0 %"


def test_no_feature_that_came_back_is_none():
    said = [one.text for one in wording.advice(facts(returned=0, not_returned=[0, 1, 2, 3]))]
    assert any(text.startswith("None of 4 came back in most of the 4 other") for text in said)


def test_the_summary_says_what_was_fitted():
    said = wording.summary(facts(missing=0.25, n_unused=1, n_rows_fit=50), "data.csv")
    assert "looked at data.csv: 100 rows and 9 columns, 25.0 % of its entries missing." in said
    assert "It was fitted to 50 rows." in said
    assert "which explain 80 % of the variance of a column, on average; a row has 1.5 of" in said
    shared = wording.summary(facts(own_noise=False), None)
    assert "found 4 features, which explain 80 % of the variance; a row has 1.5 of them" in shared
    assert "1 of them is in no row at all" in said
    assert "nothing changed any more, after 12 sweeps in 1 second." in said
    assert "best of 5 restarts" in said
    weighted = wording.summary(facts(codes="weighted", n_weighted=3), None)
    assert "and how much of each a row has" in weighted and "yes/no" not in weighted
    assert "It found 4 features, 3 of them with weights, which explain 80 %" in weighted


def test_a_page_with_something_to_do_does_not_say_that_all_is_done():
    items = wording.advice(facts(has_held_out=False))
    assert not any(item.title == "Use it" for item in items)


def test_names_are_made_fit_for_a_page():
    assert clean_name("a\nb\x00\u202ec") == "a b c"
    assert clean_name("\udcff").encode("utf-8") == b"?"
    assert len(clean_name("x" * 500)) == 120
    assert clean_name("  ") == "(no name)"
    family = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
    assert clean_name(family) == family


def test_json_cannot_end_its_script():
    text = script_json({"name": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert plain_number(float("nan")) is None and plain_number(3.0) == 3


def test_commands_fit_as_the_model_was_fitted():
    def command(**changes):
        (item,) = (a for a in wording.advice(facts(n_restarts=1, **changes)) if a.command)
        return item.command

    assert command() == "ibp fit DATA --restarts 5 -o model.ibp"
    assert "--method aibp --restarts" in command(method="AcceleratedGibbs", codes_setting=None)
    weighted = {"codes": "weighted", "codes_setting": "weighted"}
    assert command(**weighted) == "ibp fit DATA --codes weighted --restarts 5 -o model.ibp"
    assert "--method meibp --codes weighted --res" in command(label="meibp", **weighted)
    assert "--method meibp-weighted --restarts" in command(label="meibp-weighted", **weighted)
    assert "--method meibp-weighted --codes binary" in command(label="meibp-weighted")
    labelled = command(method="AcceleratedGibbs", label="t-aibp", limit=7, codes_setting=None)
    assert "--method t-aibp --components 7 --restarts" in labelled
    model = MEIBP(3, random_state=0, n_jobs=1).fit(make_data())
    for method, label in [("meibp", "meibp"), ("meibp-default", None), ("rm -rf", None), (3, None)]:
        model.notes_ = {"method": method}
        assert gather(model, make_data()).facts().label == label
