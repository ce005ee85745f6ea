from __future__ import annotations

import builtins
import io
import warnings
from itertools import pairwise
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from scipy import sparse
from sklearn.exceptions import NotFittedError

import ibp
from ibp import MEIBP, plots
from ibp.comparison import ComparedFit, Comparison, compare
from ibp.plots.reconstruction_plot import Decomposition, Term, draw_strip
from test_contract import BINARY, NAMES, SAMPLERS, estimator
from test_import import LOADED, run_python
from test_report import fit_weighted, make_weighted

SHAPE = (3, 4)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """No figure and no setting outlives a test."""
    before = matplotlib.rcParams.copy()
    yield
    assert dict(matplotlib.rcParams) == dict(before)
    pyplot.close("all")


@pytest.fixture(autouse=True)
def no_figures_of_other_tests():
    """Examples of the documentation leave theirs open, in whatever order tests are run."""
    pyplot.close("all")


@pytest.fixture
def ax():
    """An Axes that pyplot knows nothing of, beside another one."""
    figure = Figure(figsize=(9, 4))
    left, right = figure.subplots(1, 2)
    yield left
    assert pyplot.get_fignums() == []
    assert not right.has_data() and not right.texts
    figure.draw_without_rendering()


def make_data(n=30, seed=0):
    rng = np.random.default_rng(seed)
    A = np.kron(np.eye(3), np.ones(4)) * [[1.0], [2.0], [3.0]]
    return (rng.random((n, 3)) < [0.2, 0.4, 0.6]) @ A + rng.normal(1.0, 0.1, (n, 12))


@pytest.fixture(scope="module")
def models():
    """Every estimator, fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: estimator(name).fit(make_data()) for name in NAMES}


@pytest.fixture(scope="module")
def model():
    return MEIBP(random_state=0).fit(make_data())


@pytest.fixture(scope="module")
def empty():
    """A model that found nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MEIBP(2, noise_std=50.0, learn_hyperparameters=False).fit(make_data())
    assert model.n_components_ == 0
    return model


def pictures(ax):
    return [np.ma.filled(image.get_array(), np.nan) for image in ax.images]


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def stairs(ax):
    return {
        patch.get_label(): patch.get_data() for patch in ax.patches if isinstance(patch, StepPatch)
    }


# Features


def test_features_are_the_components_most_frequent_first(model, ax):
    assert plots.features(model, image_shape=SHAPE, ax=ax) is ax
    order = np.argsort(-model.feature_counts_, kind="stable")
    assert np.array_equal(pictures(ax), model.components_[order].reshape(-1, *SHAPE))
    part = model.feature_counts_[order] / 30
    assert texts(ax) == [f"{k} · {p:.0%}" for k, p in zip(order, part, strict=True)]
    # Apart from each other, all within the view, one scale from zero.
    boxes = sorted(image.get_extent() for image in ax.images)
    assert len({image.get_clim() for image in ax.images}) == 1
    assert ax.images[0].get_clim()[0] == 0.0
    for left, right, bottom, top in boxes:
        assert ax.get_xlim()[0] <= left < right <= ax.get_xlim()[1]
        assert ax.get_ylim()[0] >= bottom > top >= ax.get_ylim()[1]


def test_features_by_size_and_as_they_are(model, ax):
    plots.features(model, image_shape=SHAPE, order="size", ax=ax)
    sizes = [np.square(picture).mean() for picture in pictures(ax)]
    assert sizes == sorted(sizes, reverse=True)
    figure_of_its_own = plots.features(model, image_shape=SHAPE, order=None).figure
    assert pyplot.get_fignums() == [figure_of_its_own.number]
    assert np.array_equal(
        pictures(figure_of_its_own.axes[0]), model.components_.reshape(-1, *SHAPE)
    )
    pyplot.close("all")


def test_features_say_how_many_they_leave_out(model, ax):
    plots.features(model, image_shape=SHAPE, max_features=2, ax=ax)
    assert len(ax.images) == 2
    assert ax.get_xlabel() == f"2 of {model.n_components_} features"


def test_features_of_signed_factors_diverge_about_zero(models, ax):
    signed = models["t-aibp"]
    assert (signed.components_ < 0).any()
    plots.features(signed, image_shape=SHAPE, ax=ax)
    low, high = ax.images[0].get_clim()
    assert low == -high
    assert to_hex(ax.images[0].cmap(0.5)) == to_hex(matplotlib.colormaps["RdBu_r"](0.5))


def test_features_as_ranked_names(ax):
    names = [f"${k}$" for k in range(12)]  # not to be read as mathematics
    model = MEIBP(random_state=0).fit(pd.DataFrame(make_data(), columns=names))
    plots.features(model, n_names=4, ax=ax)
    order = np.argsort(-model.feature_counts_, kind="stable")
    patterns = model.components_ / model.noise_std_  # so that units do not decide
    largest = patterns.max()
    written = [text for text in texts(ax) if "·" not in text]
    for place, (k, bars) in enumerate(zip(order, ax.containers, strict=True)):
        columns = np.argsort(-patterns[k], kind="stable")[:4]
        assert written[4 * place : 4 * place + 4] == [names[j] for j in columns]
        widths = np.array([bar.get_width() for bar in bars])
        scale = ax.containers[0][0].get_width() * largest / patterns[order[0]].max()
        assert np.allclose(widths, patterns[k, columns] / largest * scale)
    assert not any(text.get_parse_math() for text in ax.texts if text.get_text() in names)


def test_names_that_are_given_win_over_a_noted_shape(ax):
    model = MEIBP(random_state=0).fit(make_data())
    model.notes_ = {"image_shape": [3, 4]}
    plots.features(model, ax=ax)
    assert len(ax.images) == model.n_components_
    ax.clear()
    plots.features(model, feature_names=[f"name {j}" for j in range(12)], ax=ax)
    assert len(ax.images) == 0
    assert "name 11" in texts(ax)


@pytest.mark.parametrize("noted", [["a"], "x", 5, [5, 5], [10**400, 1]])
def test_a_noted_shape_that_makes_no_sense_is_left_aside(noted, ax):
    model = MEIBP(random_state=0).fit(make_data())
    model.notes_ = {"image_shape": noted}
    plots.features(model, ax=ax)
    assert len(ax.images) == 0 and "column 0" in texts(ax)


@pytest.mark.parametrize("picture", [plots.features, plots.reconstruction])
def test_names_that_no_font_has_can_be_drawn(picture, ax):
    X = make_data()
    model = MEIBP(random_state=0).fit(X)
    names = ["\ud800", "nul\x00", "a\nb", "x" * 10_000, *"cdefghij"]
    given = () if picture is plots.features else (X, 0)
    picture(model, *given, feature_names=names, ax=ax)
    ax.get_figure().savefig(io.BytesIO())
    assert all(len(text) < 30 for text in texts(ax))


@pytest.mark.parametrize("shape", [(12, 1), (1, 12)])
def test_long_pictures_are_squeezed(model, shape, ax):
    plots.features(model, image_shape=shape, ax=ax)
    left, right, bottom, top = ax.images[0].get_extent()
    assert abs(bottom - top) / (right - left) == pytest.approx(4.0 if shape[1] == 1 else 0.25)


def test_pictures_of_a_row_are_not_wider_than_a_page():
    part = Term("feature", np.ones(12))
    row = Decomposition(np.ones(12), np.ones(12), np.zeros(12), [part] * 8)
    axes = draw_strip(row, SHAPE, None)
    assert len(axes.images) == 10
    assert axes.get_figure().get_figwidth() < 8


def test_bars_of_signed_factors_point_both_ways(models, ax):
    signed = models["t-aibp"]
    plots.features(signed, n_names=12, order=None, ax=ax)
    for k, bars in enumerate(ax.containers):
        columns = np.argsort(-np.abs(signed.components_[k]), kind="stable")
        widths = [bar.get_width() for bar in bars]
        assert np.array_equal(np.sign(widths), np.sign(signed.components_[k, columns]))


def test_long_names_are_shortened(model, ax):
    plots.features(model, feature_names=["x" * 500 + "\n"] * 12, ax=ax)
    names = [text for text in texts(ax) if "x" in text]
    assert all(len(name) < 60 and name.endswith("…") for name in names)


# Assignments


def test_assignments_as_they_are(model, ax):
    assert plots.assignments(model, order=None, ax=ax) is ax
    assert np.array_equal(pictures(ax)[0], model.assignments_)


def test_assignments_by_count(model, ax):
    plots.assignments(model, ax=ax)
    drawn = pictures(ax)[0]
    counts = drawn.sum(axis=0)
    assert (np.diff(counts) <= 0).all()
    assert sorted(map(tuple, drawn), reverse=True) == list(map(tuple, drawn))
    labels = [int(label.get_text()) for label in ax.get_xticklabels()]
    assert np.array_equal(model.feature_counts_[labels], counts)


def test_assignments_in_left_ordered_form(ax):
    Z = np.random.default_rng(0).random((20, 13)) < 0.3
    plots.assignments(Z, order="left", ax=ax)
    drawn = pictures(ax)[0]
    numbers = [int("".join(map(str, column)), 2) for column in drawn.astype(int).T]
    assert numbers == sorted(numbers, reverse=True)
    assert np.array_equal(drawn.sum(axis=1), Z.sum(axis=1))  # rows stay where they are


def test_numbers_of_many_features_are_left_out(ax):
    Z = np.random.default_rng(0).random((20, 41)) < 0.3
    plots.assignments(Z[:, :40], order=None, ax=ax)
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(k) for k in range(40)]
    ax.clear()
    plots.assignments(Z, order=None, ax=ax)
    assert not ax.get_xticklabels()


def test_many_rows_are_averaged_and_that_is_said(ax):
    Z = np.random.default_rng(0).random((1003, 5))
    plots.assignments(Z, order=None, max_rows=100, ax=ax)
    drawn = pictures(ax)[0]
    assert drawn.shape == (92, 5)
    assert np.allclose(drawn[3], Z[33:44].mean(axis=0))
    assert np.allclose(drawn[-1], Z[1001:].mean(axis=0))
    assert "mean of 11 rows" in ax.get_ylabel()
    ax.clear()
    plots.assignments(Z, ax=ax)
    assert pictures(ax)[0].shape[0] <= ax.get_window_extent().height
    assert "mean of" in ax.get_ylabel()


def test_assignments_of_soft_models_are_probabilities(models, ax):
    plots.assignments(models["f-vibp"], order=None, ax=ax)
    assert np.array_equal(pictures(ax)[0], models["f-vibp"].codes_)
    assert ax.images[0].get_clim() == (0.0, 1.0)


def test_assignments_with_weights_are_the_darker_the_more_there_is(ax):
    model = fit_weighted(make_weighted())
    plots.assignments(model, order=None, ax=ax)
    assert np.array_equal(pictures(ax)[0], model.codes_)
    low, high = ax.images[0].get_clim()
    assert low == 0.0 and 1.0 < high < model.codes_.max()  # which one large weight does not set
    for codes in (model, model.codes_):
        ax.clear()
        plots.assignments(codes, ax=ax)
        on = pictures(ax)[0] > 0  # whatever the weight is
        assert (np.diff(on.sum(axis=0)) <= 0).all()
        assert sorted(map(tuple, on), reverse=True) == list(map(tuple, on))
    labels = [int(label.get_text()) for label in ax.get_xticklabels()]
    assert np.array_equal(model.feature_counts_[labels], on.sum(axis=0))


def test_assignments_may_be_sparse(ax):
    Z = np.eye(3)
    plots.assignments(sparse.csr_array(Z), order=None, ax=ax)
    assert np.array_equal(pictures(ax)[0], Z)


# Evidence


def test_evidence_and_number_of_features(model, ax):
    assert plots.evidence(model, ax=ax) is ax
    x, y = ax.lines[0].get_data()
    assert np.array_equal(x, np.arange(1, model.n_iter_ + 1))
    assert np.array_equal(y, model.history_["evidence"])
    (twin,) = set(ax.figure.axes[2:])
    assert np.array_equal(twin.lines[0].get_ydata(), model.history_["n_components"])
    assert ax.get_ylabel() == "evidence (nats)"


def test_evidence_over_seconds_with_burn_in(models, ax):
    chain = models["aibp"]
    plots.evidence(chain, over="seconds", ax=ax)
    seconds = chain.history_["seconds"]
    assert np.array_equal(ax.lines[0].get_xdata(), seconds)
    (ground,) = ax.patches
    assert ground.get_x() + ground.get_width() == pytest.approx(seconds[5])  # half of 12
    assert ax.get_ylabel() == "log joint probability"


def test_evidence_without_a_sweep(ax):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MEIBP(2, max_iter=0).fit(make_data())
    plots.evidence(model, ax=ax)
    assert "without a single sweep" in texts(ax)[0]


# Reconstruction


def test_pictures_of_a_row_add_up(model, ax):
    X = make_data()
    row = int(np.argmax(model.assignments_.sum(axis=1)))
    assert plots.reconstruction(model, X, row, image_shape=SHAPE, ax=ax) is ax
    observed, rebuilt, *parts = pictures(ax)
    assert np.array_equal(observed.ravel(), X[row])
    expected = model.inverse_transform(model.transform(X[[row]]))[0]
    assert np.allclose(rebuilt.ravel(), expected)
    assert np.allclose(np.sum(parts, axis=0).ravel(), expected)
    labels = [text for text in texts(ax) if len(text) > 1]
    on = {f"feature {k}" for k in np.flatnonzero(model.transform(X[[row]])[0])}
    assert labels[:3] == ["observed", "rebuilt", "offset"] and set(labels[3:]) == on
    signs = [text for text in texts(ax) if len(text) == 1]
    assert signs == ["≈", "=", *["+"] * len(on)]
    # One step of colour is one step of value in all.
    spans = [np.ptp(image.get_clim()) for image in ax.images[:2] + ax.images[3:]]
    assert np.allclose(spans, spans[0])


def test_features_times_their_weights_add_up(ax):
    X = make_weighted()
    model = fit_weighted(X)
    varying = (model.codes_ > 0) & (np.abs(model.codes_ - 1.0) > 0.05)
    row = int(np.argmax(varying.sum(axis=1)))
    plots.reconstruction(model, X, row, image_shape=(4, 4), ax=ax)
    _, rebuilt, offset, *parts = pictures(ax)
    codes = model.transform(X[[row]])
    assert np.allclose(rebuilt.ravel(), model.inverse_transform(codes)[0])
    assert np.allclose(offset + np.sum(parts, axis=0), rebuilt)
    labels = texts(ax)
    for k in np.flatnonzero(varying[row]):
        assert f"{codes[0, k]:.2f} of {k}" in labels
        assert any(np.allclose(part.ravel(), codes[0, k] * model.components_[k]) for part in parts)


def test_many_features_are_summed_up(models, ax):
    real = models["bnmf"]
    X = make_data()
    n_on = int((real.transform(X[[0]])[0] > 0.005).sum())
    assert n_on > 2
    plots.reconstruction(real, X, 0, image_shape=SHAPE, max_features=2, ax=ax)
    _, rebuilt, *parts = pictures(ax)
    assert len(parts) == 2
    assert f"{n_on - 1} others" in texts(ax)
    assert np.allclose(np.sum(parts, axis=0), rebuilt)


def test_missing_pixels_stay_missing(model, ax):
    X = make_data()
    X[4, :5] = np.nan
    plots.reconstruction(model, X, 4, image_shape=SHAPE, ax=ax)
    assert np.array_equal(pictures(ax)[0].ravel(), X[4], equal_nan=True)
    ax.clear()
    plots.reconstruction(model, X, 4, ax=ax)
    assert np.array_equal(ax.lines[0].get_ydata(), X[4], equal_nan=True)


def test_columns_of_a_row_are_stacked(model, ax):
    X = make_data()
    row = int(np.argmax(model.assignments_.sum(axis=1)))
    plots.reconstruction(model, X, row, ax=ax)
    drawn = stairs(ax)
    codes = model.transform(X[[row]])[0]
    level = model.intercept_
    for label in [label for label in drawn if label.startswith("feature")]:
        k = int(label.split()[1])
        assert codes[k] == 1
        assert np.allclose(drawn[label].baseline, level)
        level = drawn[label].values
        assert np.allclose(level - drawn[label].baseline, model.components_[k])
    assert np.allclose(level, model.inverse_transform(codes[None])[0])
    assert np.allclose(drawn["rebuilt"].values, level)
    assert np.array_equal(ax.lines[0].get_ydata(), X[row])


def test_columns_of_signed_features_are_lines(models, ax):
    signed = models["t-aibp"]
    X = make_data()
    row = int(np.argmax(signed.transform(X).sum(axis=1)))
    plots.reconstruction(signed, X, row, ax=ax)
    drawn = stairs(ax)
    parts = [data.values for label, data in drawn.items() if label not in ("offset", "rebuilt")]
    total = np.sum(parts, axis=0) + signed.intercept_
    assert len(parts) > 1
    assert np.allclose(drawn["rebuilt"].values, total)
    assert all(data.baseline is None for data in drawn.values())


@pytest.mark.parametrize(
    "container",
    [
        pd.DataFrame,
        pl.DataFrame,
        sparse.csr_array,
        sparse.coo_array,
        np.ndarray.tolist,
        np.ma.asarray,
    ],
)
def test_rows_of_any_container(container, ax):
    X = make_data()
    X[X < 1.2] = 0.0
    names = [f"c{j}" for j in range(12)]
    given = container(X)
    if container is pl.DataFrame:
        given = pl.DataFrame(X, schema=names)
    elif container is pd.DataFrame:
        given = pd.DataFrame(X, columns=names, index=[f"r{i}" for i in range(len(X))])
    model = MEIBP(random_state=0).fit(given)
    plots.reconstruction(model, given, -1, ax=ax)
    assert np.array_equal(ax.lines[0].get_ydata(), X[-1])
    if hasattr(given, "columns"):
        assert [label.get_text() for label in ax.get_xticklabels()] == names


# All estimators


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_has_every_picture(models, name):
    model, X = models[name], make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = [
            plots.features(model, image_shape=SHAPE),
            plots.features(model),
            plots.assignments(model),
            plots.evidence(model),
            plots.reconstruction(model, X, 1, image_shape=SHAPE),
            plots.reconstruction(model, X, 1),
        ]
        for axes in drawn:
            axes.figure.canvas.draw()
    _, rebuilt, *parts = pictures(drawn[4])
    codes = model.transform(X[[1]])
    assert np.allclose(rebuilt.ravel(), model.inverse_transform(codes)[0])
    assert np.allclose(np.sum(parts, axis=0), rebuilt, atol=0.02 * np.abs(X).max())
    labelled = any("%" in text for text in texts(drawn[0]))
    assert labelled == (name in BINARY and model.n_components_ > 0)
    assert ("probability" in drawn[3].get_ylabel()) == (name in SAMPLERS | {"bnmf"})


def test_a_model_without_features(empty):
    assert "no features" in texts(plots.features(empty, image_shape=SHAPE))[0]
    assert "no features" in texts(plots.assignments(empty))[0]
    plots.evidence(empty)
    axes = plots.reconstruction(empty, make_data(), 0, image_shape=SHAPE)
    assert np.allclose(pictures(axes)[1], pictures(axes)[2])  # the offset is all there is
    plots.reconstruction(empty, make_data(), 0)


def test_a_model_with_one_feature(ax):
    model = MEIBP(1, moves=False, random_state=0).fit(make_data())
    assert model.n_components_ == 1
    plots.features(model, image_shape=SHAPE, ax=ax)
    assert np.array_equal(pictures(ax)[0].ravel(), model.components_[0])
    plots.features(model)
    plots.assignments(model)
    pyplot.close("all")


def test_models_from_files(model, tmp_path, ax):
    model.save(tmp_path / "model.ibp", assignments=False)
    loaded = ibp.load(tmp_path / "model.ibp")
    plots.features(loaded, image_shape=SHAPE, ax=ax)
    assert np.array_equal(
        pictures(ax)[0].ravel(), loaded.components_[loaded.feature_counts_.argmax()]
    )
    with pytest.raises(ValueError, match="saved without its assignments; give model.transform"):
        plots.assignments(loaded, ax=ax)


# Comparison


def compared(label, ends, seconds=(0.0, 1.0, 2.0), ending="converged"):
    return [
        ComparedFit(
            label,
            seed,
            ending,
            3,
            4,
            [1, 2, 3],
            list(seconds),
            [-50.0, -2.0, end],
            [-50.0, -2.0, end],
        )
        for seed, end in enumerate(ends)
    ]


def comparison_of(*fits):
    return Comparison(
        10, 10, 20, None, 0.2, 1.0, 0.75, fits=[fit for group in fits for fit in group]
    )


def test_comparison_draws_every_fit_and_the_median_strong(ax):
    result = comparison_of(
        compared("aibp", [-1.5, -1.1, -1.3]), compared("meibp", [-1.0, -0.9], ending="time_limit")
    )
    assert plots.comparison(result, ax=ax) is ax
    curves = [line for line in ax.lines if len(line.get_xdata()) == 3]
    assert sorted(line.get_ydata()[-1] for line in curves) == [-1.5, -1.3, -1.1, -1.0, -0.9]
    strong = {line.get_label(): line for line in curves if line.get_linewidth() == 2}
    assert strong["aibp"].get_ydata()[-1] == -1.3 and strong["meibp"].get_ydata()[-1] == -1.0
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["meibp", "aibp"]
    assert ax.get_xscale() == "log"
    assert all((line.get_xdata() > 0).all() for line in curves)
    low, high = ax.get_ylim()
    assert -3 < low < -1.5 and high > -0.9  # poor beginnings do not flatten the rest
    dots = {line.get_color(): line.get_markerfacecolor() for line in ax.lines if line not in curves}
    assert dots[strong["meibp"].get_color()] == "white"
    assert dots[strong["aibp"].get_color()] == strong["aibp"].get_color()


def test_methods_can_be_told_apart(ax):
    result = comparison_of(*[compared(label, [-1.0]) for label in ibp.METHODS])
    plots.comparison(result, ax=ax)
    looks = {
        (line.get_color(), line.get_linestyle()) for line in ax.lines if line.get_linewidth() == 2
    }
    assert len(looks) == len(ibp.METHODS)


def test_comparison_of_nothing(ax):
    plots.comparison(comparison_of(), ax=ax)
    assert texts(ax) == ["No method was scored."]


def fit_scored_at(seconds, scores):
    sweeps = list(range(1, len(seconds) + 1))
    return ComparedFit("meibp", 0, "converged", len(sweeps), 3, sweeps, seconds, scores, scores)


@pytest.mark.parametrize("last", [2.4, 8.0, 40.0, 2000.0])
def test_times_of_a_comparison_can_be_read(ax, last):
    plots.comparison(comparison_of([fit_scored_at([2.1, last], [-2.0, -1.0])]), ax=ax)
    figure = ax.get_figure()
    figure.draw_without_rendering()
    low, high = ax.get_xlim()
    ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    labels = [label for tick, label in ticks if low <= tick <= high]
    assert 2 <= len(labels) <= 6
    assert not any(label.get_text() for label in ax.get_xticklabels(minor=True))
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert ax.get_ylim()[0] < -1.8  # of a single fit the way is shown


def test_scores_that_are_no_numbers_leave_gaps(ax):
    nan = float("nan")
    broken = ComparedFit("bnmf", 0, "converged", 1, 3, [1], [0.2], [nan], [nan])
    plots.comparison(comparison_of([fit_scored_at([0.1, 0.4], [-1.0, nan]), broken]), ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["meibp"]
    assert np.isfinite(ax.get_ylim()).all()


def test_comparison_of_real_fits(ax):
    result = compare(
        make_data(), ["meibp-default", "bnmf"], n_components=3, time_limit=20, n_jobs=1
    )
    plots.comparison(result, ax=ax)
    curves = {line.get_label(): line for line in ax.lines if line.get_linewidth() == 2}
    for fit in result.fits:
        assert np.array_equal(curves[fit.label].get_ydata(), fit.log_likelihood)
        assert np.allclose(curves[fit.label].get_xdata(), np.maximum(fit.seconds, 1e-3))


# What is refused


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, X: plots.features(m, image_shape=(5, 5)),
         r"image_shape=\(5, 5\) makes 25 pixels, but the model was fitted to 12 columns\."),
        (lambda m, X: plots.features(m, image_shape=(-3, -4)), r"image_shape=\(-3, -4\)"),
        (lambda m, X: plots.reconstruction(m, X, 0, image_shape=12),
         "image_shape must be two whole numbers, rows and columns; it is 12"),
        (lambda m, X: plots.features(m, image_shape=(3, 4, 1)), "two whole numbers"),
        (lambda m, X: plots.features(m, image_shape=(3.0, 4.0)), "two whole numbers"),
        (lambda m, X: plots.features(m, feature_names=["a"]),
         "feature_names has 1 names, but the model was fitted to 12 columns"),
        (lambda m, X: plots.features(m, order="name"), "order must be one of 'count', 'size', N"),
        (lambda m, X: plots.features(m, max_features=0), "max_features must be a whole number of"),
        (lambda m, X: plots.features(m, n_names=1.5), "n_names must be a whole number of at"),
        (lambda m, X: plots.reconstruction(m, X, 30), "There is no row 30: X has 30 rows, counted"),
        (lambda m, X: plots.reconstruction(m, X, "r1"), "row must be the number of a row of X"),
        (lambda m, X: plots.reconstruction(m, X[0], 0), r"rows and columns; its shape is \(12,\)"),
        (lambda m, X: plots.reconstruction(m, X[:, :5], 0), "X has 5 features, but MEIBP is"),
        (lambda m, X: plots.evidence(m, over="hours"), "over must be one of 'sweeps', 'seconds'"),
        (lambda m, X: plots.assignments(X[0]), r"rows and columns; the shape of these is \(12,\)"),
        (lambda m, X: plots.assignments(-X), "must be finite and not negative"),
        (lambda m, X: plots.assignments(m, max_rows=0), "max_rows must be a whole number"),
    ],
)  # fmt: skip
def test_wrong_values_are_explained(model, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(model, make_data())
    assert pyplot.get_fignums() == []  # no empty figure is left


def test_models_must_be_fitted():
    for draw in (plots.features, plots.assignments, plots.evidence):
        with pytest.raises(NotFittedError, match="This MEIBP instance is not fitted yet"):
            draw(MEIBP())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plots.reconstruction(MEIBP(), make_data(), 0)
    with pytest.raises(TypeError, match="A fitted model of ibp is needed here.*this is MEIBP"):
        plots.features(MEIBP)
    with pytest.raises(TypeError, match="this is ndarray"):
        plots.evidence(np.eye(3))
    with pytest.raises(TypeError, match=r"A Comparison is needed here.*this is dict"):
        plots.comparison({})


def test_axes_must_be_axes(model):
    figure = Figure()
    with pytest.raises(TypeError, match="ax must be a Matplotlib Axes; it is a Figure"):
        plots.evidence(model, ax=figure)


def test_without_matplotlib_a_sentence_says_what_to_install(model, monkeypatch):
    original = builtins.__import__

    def refuse(name, *arguments, **others):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return original(name, *arguments, **others)

    monkeypatch.setattr(builtins, "__import__", refuse)
    empty = SimpleNamespace(fits=[], ranking=list)
    for draw in (
        lambda: plots.features(model, image_shape=SHAPE),
        lambda: plots.features(model),
        lambda: plots.assignments(model),
        lambda: plots.evidence(model),
        lambda: plots.reconstruction(model, make_data(), 0),
        lambda: plots.comparison(empty),
    ):
        with pytest.raises(ImportError, match=r'Plots need Matplotlib: pip install "ibp\[plot\]"'):
            draw()


def test_matplotlib_is_loaded_only_for_drawing():
    loaded = set(run_python(f"import ibp, ibp.plots; {LOADED}"))
    assert "ibp" in loaded and "matplotlib" not in loaded
