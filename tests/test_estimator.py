from __future__ import annotations

import itertools
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ibp import MEIBP, FiniteVIBP
from ibp.errors import EndingWarning
from ibp.estimators.observing import RestartKeeper, similarity
from problems import plain, predictive, unmoved

OPTIMIZERS = ("local_search", "exact", "double_greedy", "randomized_double_greedy")


def make_data(n_samples=60, n_features=8, n_components=3, *, missing=0.0, noise=0.15, seed=0):
    """Nonnegative data with clear features."""
    rng = np.random.default_rng(seed)
    assignments = rng.random((n_samples, n_components)) < 0.4
    factors = rng.uniform(0.3, 2.0, size=(n_components, n_features))
    data = assignments.astype(float) @ factors
    data = np.abs(data + rng.normal(0.0, noise, size=data.shape))
    hidden = rng.random(data.shape) < missing
    hidden[0] = False  # every column keeps a value
    data[hidden] = np.nan
    return data


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def holed():
    return make_data(missing=0.2, seed=1)


@pytest.fixture(params=[plain, unmoved], ids=["plain", "default"])
def make(request):
    """The paper's model, row by row from a random start, and the defaults but for moves."""
    return request.param


@pytest.fixture(scope="module", params=[plain, MEIBP], ids=["plain", "default"])
def model(request, data):
    return request.param(6, noise_std=0.3, random_state=0).fit(data)


@pytest.fixture(scope="module")
def empty_model(holed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(4, noise_std=100.0, random_state=0).fit(holed)


def gaussian(x, mean, std):
    return -0.5 * np.log(2 * np.pi) - np.log(std) - 0.5 * ((x - mean) / std) ** 2


def row_objective(model, x, z):
    """What the best z of a new row maximises; z may hold many candidates."""
    z = np.asarray(z, dtype=float)
    seen = ~np.isnan(x)
    x = x - model.intercept_
    mean = model.components_[:, seen]
    variance = model.components_std_[:, seen] ** 2
    precision = np.broadcast_to(model.noise_std_, x.shape)[seen] ** -2.0
    m, n = model.feature_counts_, model.n_samples_fit_
    linear = (mean * x[seen] - variance / 2) @ precision + np.log(m / (n + 1 - m))
    quadratic = mean * precision @ mean.T
    return z @ linear - 0.5 * np.einsum("...k,kj,...j->...", z, quadratic, z)


def expected_data(model, codes):
    return model.intercept_ + codes.astype(float) @ model.components_


def never_falls(evidence):
    return (np.diff(evidence) >= -1e-9 * np.abs(evidence[1:])).all()


# scikit-learn's own checks


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        MEIBP(max_iter=5),
        MEIBP(max_iter=5, prior="lof", init="random", noise="shared"),
        MEIBP(max_iter=5, fit_intercept=False, block_size=3, n_jobs=1),
        plain(5, max_iter=5),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# What a fitted model holds


def test_parameters_of_the_issue():
    assert MEIBP().get_params() == {
        "n_components": None,
        "codes": "binary",
        "fit_intercept": True,
        "alpha": 3.0,
        "noise": "per_column",
        "noise_std": None,
        "factor_std": None,
        "learn_hyperparameters": True,
        "hyperpriors": None,
        "prior": "shifted",
        "optimizer": "exact",
        "node_budget": 1000,
        "row_start": "current",
        "init": "auto",
        "block_size": "auto",
        "shuffle": False,
        "moves": True,
        "max_iter": 1000,
        "tol": 1e-3,
        "n_init": 1,
        "time_limit": None,
        "checkpoint": None,
        "checkpoint_seconds": 60.0,
        "resume": False,
        "callbacks": None,
        "random_state": None,
        "n_jobs": -1,
        "verbose": 0,
    }


def test_the_papers_settings():
    changed = {
        name: value
        for name, value in MEIBP.paper(7).get_params().items()
        if value != MEIBP().get_params()[name]
    }
    assert changed == {
        "n_components": 7,
        "fit_intercept": False,
        "noise": "shared",
        "learn_hyperparameters": False,
        "optimizer": "local_search",
        "row_start": "empty",
        "init": "random",
        "block_size": 1,
        "moves": False,
        "max_iter": 200,
        "tol": 1e-4,
    }
    other = MEIBP.paper(7, block_size=3, alpha=2.0, max_iter=5)
    assert (other.block_size, other.alpha, other.max_iter) == (3, 2.0, 5)
    with pytest.raises(TypeError):
        MEIBP.paper(7, blocksize=3)
    with pytest.raises(TypeError):
        MEIBP.paper()


def test_only_n_components_is_positional():
    assert plain(7).n_components == 7
    with pytest.raises(TypeError):
        plain(7, 3.0)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_fitted_attributes(make, learn, missing):
    data = make_data(missing=missing)
    model = make(6, noise_std=0.3, learn_hyperparameters=learn, random_state=0).fit(data)
    k = model.n_components_
    assert type(k) is int
    assert 1 <= k <= 6
    for name in ("components_", "components_std_", "factor_location_", "factor_scale_"):
        array = getattr(model, name)
        assert array.shape == (k, 8)
        assert array.dtype == np.float64
        assert np.isfinite(array).all()
    assert (model.components_ > 0).all()
    assert (model.components_std_ > 0).all()
    assert (model.factor_scale_ > 0).all()
    assert model.intercept_.shape == (8,)
    assert model.intercept_.dtype == np.float64
    assert model.intercept_.any() == model.fit_intercept
    assert model.assignments_.shape == (60, k)
    assert model.assignments_.dtype == np.uint8
    assert set(np.unique(model.assignments_)) <= {0, 1}
    assert model.feature_counts_.shape == (k,)
    assert model.feature_counts_.dtype == np.int64
    np.testing.assert_array_equal(model.feature_counts_, model.assignments_.sum(axis=0))
    assert (model.feature_counts_ > 0).all()
    for name in ("alpha_", "evidence_"):
        assert type(getattr(model, name)) is float
    for name in ("noise_std_", "factor_std_"):
        value = getattr(model, name)
        if model.noise == "shared":
            assert type(value) is float
        else:
            assert value.shape == (8,)
            assert value.dtype == np.float64
        assert np.all(value > 0)
    assert type(model.n_iter_) is int
    assert type(model.converged_) is bool
    assert model.n_samples_fit_ == 60
    assert model.n_features_in_ == 8
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("learn", [False, True])
def test_evidence_is_the_sum_of_its_parts(make, holed, prior, learn):
    model = make(5, prior=prior, learn_hyperparameters=learn, noise_std=0.3, random_state=0)
    model.fit(holed)
    assert list(model.evidence_parts_) == [
        "likelihood",
        "assignment_prior",
        "factor_prior",
        "factor_entropy",
        "intercept",
        "hyperparameters",
    ]
    assert model.evidence_ == model.history_["evidence"][-1]
    assert model.evidence_ == pytest.approx(sum(model.evidence_parts_.values()), rel=1e-14)
    assert (model.evidence_parts_["hyperparameters"] == 0.0) == (not learn)


def test_evidence_is_that_of_the_last_sweep_in_wide_data():
    # Matrix products of this size are shared among threads if they are allowed to be.
    data = make_data(40, 3000, 30, seed=2)
    model = plain(30, noise_std=0.3, max_iter=1, tol=0, random_state=0).fit(data)
    assert model.evidence_ == model.history_["evidence"][-1]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("learn", [False, True])
def test_history(make, holed, learn, moves):
    # A spectral start of such data needs no second sweep.
    model = make(6, learn_hyperparameters=learn, noise_std=0.3, init="random", random_state=0)
    history = model.set_params(moves=moves, max_iter=500).fit(holed).history_
    assert type(history) is dict
    kinds = {
        "evidence": "f",
        "n_components": "i",
        "n_changed": "i",
        "train_log_likelihood": "f",
        "proven": "f",
        "seconds": "f",
    }
    if moves:
        kinds |= {"move": "U", "move_gain": "f"}
        np.testing.assert_array_equal(history["move_gain"] > 0, history["move"] != "")
    assert {name: values.dtype.kind for name, values in history.items()} == kinds
    assert all(values.shape == (model.n_iter_,) for values in history.values())
    assert model.n_iter_ >= 2
    assert history["n_components"][-1] == model.n_components_
    assert moves or (np.diff(history["n_components"]) <= 0).all()
    assert history["n_components"].max() <= 6
    assert (history["n_changed"] >= 0).all()
    assert (np.diff(history["seconds"]) >= 0).all()
    assert history["seconds"][0] > 0
    assert ((history["proven"] >= 0) & (history["proven"] <= 1)).all()
    expected = gaussian(holed, expected_data(model, model.assignments_), model.noise_std_)
    assert history["train_log_likelihood"][-1] == pytest.approx(np.nanmean(expected), rel=1e-10)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_exact_rows_are_proven_in_the_end(make, missing):
    data = make_data(missing=missing)
    settings = {"noise_std": 0.3, "init": "random", "tol": 0, "random_state": 0}
    exact = make(6, optimizer="exact", **settings).fit(data)
    assert exact.converged_
    assert exact.history_["proven"][-1] == 1.0
    greedy = make(6, optimizer="double_greedy", block_size=1, **settings).fit(data)
    assert (greedy.history_["proven"] == 0.0).all()


def test_a_node_budget_leaves_rows_unproven():
    data = make_data(80, 30, 18, noise=1.0, seed=3)
    settings = {"optimizer": "exact", "tol": 0, "max_iter": 12, "random_state": 0}
    small = plain(18, node_budget=1, **settings).fit(data)
    large = plain(18, node_budget=10**6, **settings).fit(data)
    assert small.history_["proven"][-1] < 1.0
    assert large.history_["proven"][-1] == 1.0


def test_history_excludes_the_start(data):
    start = plain(5, max_iter=0, tol=0, random_state=0).fit(data)
    after = plain(5, max_iter=1, tol=0, random_state=0).fit(data)
    assert after.history_["evidence"].shape == (1,)
    assert after.history_["evidence"][0] > start.evidence_


def test_likelihood_part_is_that_of_the_data_as_given():
    # Negative values and an offset: nothing is shifted behind the user's back.
    data = make_data(seed=3) - 0.4
    with pytest.warns(UserWarning, match="negative"):
        model = plain(5, noise_std=0.3, random_state=0).fit(data)
    codes = model.assignments_.astype(float)
    at_mean = gaussian(data, codes @ model.components_, 0.3).sum()
    from_variance = -0.5 / 0.3**2 * (codes @ model.components_std_**2).sum()
    assert model.evidence_parts_["likelihood"] == pytest.approx(at_mean + from_variance, rel=1e-10)


# Defaults and bounds


@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_n_components_is_an_upper_bound(data, n_components):
    model = plain(n_components, noise_std=0.05, random_state=0, max_iter=5, tol=0).fit(data)
    assert 1 <= model.n_components_ <= n_components


@pytest.mark.parametrize("n_components", [1, 2, 5])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_number_of_features_is_found(n_components, missing):
    rng = np.random.default_rng(n_components)
    codes = (rng.random((200, n_components)) < 0.4).astype(np.uint8)
    factors = np.kron(np.eye(n_components), np.ones(4)) * 2.0
    data = codes @ factors + rng.normal(0, 0.2, size=(200, 4 * n_components)) - 3.0
    hidden = rng.random(data.shape) < missing
    model = MEIBP(random_state=0).fit(np.where(hidden, np.nan, data))
    assert model.n_components_ == n_components
    found = {column.tobytes() for column in np.ascontiguousarray(model.assignments_.T)}
    assert found == {column.tobytes() for column in np.ascontiguousarray(codes.T)}
    np.testing.assert_allclose(model.intercept_, -3.0, atol=0.1)


@pytest.mark.parametrize("init", ["spectral", "random"])
def test_number_of_features_is_bounded(init):
    data = np.random.default_rng(0).gamma(0.3, size=(90, 70))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert MEIBP(init=init, max_iter=2, random_state=0).fit(data).n_components_ <= 50
        assert MEIBP(init=init, max_iter=2, random_state=0).fit(data[:3]).n_components_ <= 3


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_default_standard_deviations(missing):
    data = make_data(missing=missing, seed=4)
    model = plain(5, random_state=0).fit(data)
    assert model.noise_std_ == pytest.approx(0.75 * np.nanstd(data), rel=1e-14)
    assert model.factor_std_ == pytest.approx(0.75 * np.nanstd(data), rel=1e-14)
    assert model.alpha_ == 3.0
    given = plain(5, noise_std=0.2, factor_std=1.7, alpha=0.5, random_state=0).fit(data)
    assert given.noise_std_ == pytest.approx(0.2, rel=1e-14)
    assert given.factor_std_ == pytest.approx(1.7, rel=1e-14)
    assert given.alpha_ == 0.5


def test_empty_features_are_dropped_and_the_others_keep_their_order():
    rng = np.random.default_rng(0)
    factors = np.kron(np.eye(3), np.ones(4)) * [[1.0], [2.0], [3.0]]
    codes = (rng.random((80, 3)) < 0.5).astype(np.uint8)
    data = np.abs(codes @ factors + rng.normal(0, 0.1, size=(80, 12)))
    order = [2, 0, 1]
    start = {
        "Z": np.insert(codes[:, order], 1, 0, axis=1),
        "mu": np.insert(factors[order], 1, 9.0, axis=0),
        "sigma": np.full((4, 12), 0.1),
    }
    model = plain(init=start, noise_std=0.1, factor_std=2.0).fit(data)
    np.testing.assert_array_equal(model.assignments_, codes[:, order])
    np.testing.assert_allclose(model.components_, factors[order], atol=0.1)


def test_fit_does_not_touch_its_inputs(make):
    data = make_data(missing=0.1)
    codes = (np.random.default_rng(0).random((60, 3)) < 0.5).astype(np.uint8)
    start = {"Z": codes, "mu": np.ones((3, 8)), "sigma": np.ones((3, 8))}
    copies = {name: array.copy() for name, array in start.items()}
    data_copy = data.copy()
    model = make(init=start, noise_std=0.3).fit(data)
    model.transform(data), model.impute(data), model.confidence(data)
    np.testing.assert_array_equal(data, data_copy)
    for name, array in copies.items():
        np.testing.assert_array_equal(start[name], array)
    returned = model.fit_transform(data)
    returned[:] = 9
    assert model.assignments_.max() == 1


# Transform, and what follows from it


def test_fit_transform_returns_the_assignments(make, holed):
    model = make(5, noise_std=0.3, random_state=0)
    codes = model.fit_transform(holed)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, model.assignments_)


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("noise_std", [0.3, 1.5])
def test_exact_transform_is_the_best_of_all(make, missing, noise_std):
    train = make_data(50, 7, 5, missing=0.1, seed=1)
    new = make_data(40, 7, 5, missing=missing, noise=0.5, seed=2)
    model = make(7, optimizer="exact", noise_std=noise_std, factor_std=1.0, random_state=3)
    model.fit(train)
    assert model.n_components_ >= 2
    every = np.array(list(itertools.product([0, 1], repeat=model.n_components_)))
    codes = model.transform(new)
    assert codes.dtype == np.uint8
    for x, z in zip(new, codes, strict=True):
        values = row_objective(model, x, every)
        assert row_objective(model, x, z) == pytest.approx(values.max(), rel=1e-10, abs=1e-9)
        second, first = np.sort(values)[-2:]
        if first - second > 1e-6:
            np.testing.assert_array_equal(z, every[np.argmax(values)])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("row_start", ["current", "empty"])
def test_transform_never_does_worse_than_simple_answers(make, optimizer, row_start):
    train = make_data(50, 7, 5, missing=0.1, seed=1)
    new = make_data(40, 7, 5, missing=0.3, noise=0.5, seed=2)
    model = make(6, noise_std=0.3, random_state=0, optimizer=optimizer, row_start=row_start)
    model.set_params(max_iter=10, tol=0).fit(train)
    k = model.n_components_
    codes = model.transform(new)
    np.testing.assert_array_equal(codes, model.transform(new))
    for x, z in zip(new, codes, strict=True):
        value = row_objective(model, x, z) + 1e-9
        if optimizer in ("local_search", "exact"):
            # No better singleton, no better neighbour.
            assert value >= row_objective(model, x, np.eye(k)).max()
            assert value >= row_objective(model, x, (z + np.eye(k)) % 2).max()
        elif optimizer == "double_greedy":
            # A third of the way from the lower of its two starts to the optimum.
            every = row_objective(model, x, np.array(list(itertools.product([0, 1], repeat=k))))
            lowest = min(0.0, row_objective(model, x, np.ones(k)))
            assert value - lowest >= (every.max() - lowest) / 3


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_do_not_influence_each_other(model, optimizer):
    new = make_data(15, missing=0.3, seed=9)
    other = clone(model).set_params(optimizer=optimizer).fit(make_data())
    together = other.transform(new)
    shuffled = np.random.default_rng(0).permutation(15)
    np.testing.assert_array_equal(other.transform(new[shuffled]), together[shuffled])
    alone = np.vstack([other.transform(row[None]) for row in new])
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_confidence_is_what_a_flip_loses(make, optimizer, missing):
    new = make_data(25, missing=missing, noise=0.4, seed=5)
    model = make(6, noise_std=0.3, random_state=0, optimizer=optimizer).fit(make_data())
    codes, confidence = model.transform(new), model.confidence(new)
    assert confidence.shape == codes.shape
    assert confidence.dtype == np.float64
    flips = np.eye(model.n_components_)
    for x, z, losses in zip(new, codes, confidence, strict=True):
        expected = row_objective(model, x, z) - row_objective(model, x, (z + flips) % 2)
        np.testing.assert_allclose(losses, expected, rtol=1e-9, atol=1e-9)
    if optimizer in ("local_search", "exact"):
        assert confidence.min() > -1e-9


def test_scores(model):
    new = make_data(30, missing=0.25, seed=6)
    new[4] = np.nan
    _, expected = predictive(model, new)
    samples = model.score_samples(new)
    assert samples.shape == (30,)
    assert samples.dtype == np.float64
    np.testing.assert_allclose(samples, np.nansum(expected, axis=1), rtol=1e-3, atol=1e-3)
    assert samples[4] == 0.0
    assert type(model.score(new)) is float
    assert model.score(new) == pytest.approx(np.nanmean(expected), rel=1e-3)
    assert model.score(new, y="ignored") == model.score(new)


def test_score_heldout(model):
    true = make_data(30, missing=0.1, seed=6)
    seen = true.copy()
    seen[np.random.default_rng(0).random(seen.shape) < 0.3] = np.nan
    seen[2, 3], true[2, 3] = 1.0, np.nan  # seen, but not to be scored
    _, expected = predictive(model, seen, true)
    expected[~np.isnan(seen)] = np.nan
    assert model.score_heldout(seen, true) == pytest.approx(np.nanmean(expected), rel=1e-3)


def test_scores_need_something_to_score(model, data):
    with pytest.raises(ValueError, match="no observed entry"):
        model.score(np.full((3, 8), np.nan))
    with pytest.raises(ValueError, match="missing in X_seen and present in X_true"):
        model.score_heldout(data, data)
    with pytest.raises(ValueError, match="one shape"):
        model.score_heldout(data[:5], data[:6])


def test_inverse_transform(model):
    codes = (np.random.default_rng(0).random((20, model.n_components_)) < 0.5).astype(np.uint8)
    expected = expected_data(model, codes)
    np.testing.assert_allclose(model.inverse_transform(codes), expected, rtol=1e-14)
    frame = pd.DataFrame(codes, columns=model.get_feature_names_out())
    np.testing.assert_allclose(model.inverse_transform(frame), expected, rtol=1e-14)
    np.testing.assert_allclose(model.inverse_transform(codes.tolist()), expected, rtol=1e-14)
    with pytest.raises(ValueError, match=f"columns.*{model.n_components_} features"):
        model.inverse_transform(np.ones((4, model.n_components_ + 1)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_impute_fills_only_what_is_missing(model, dtype):
    new = make_data(30, missing=0.25, seed=6).astype(dtype)
    new[4] = np.nan
    before = new.copy()
    filled = model.impute(new)
    assert filled is not new
    assert filled.dtype == dtype
    observed = ~np.isnan(new)
    assert filled[observed].tobytes() == new[observed].tobytes()
    expected, _ = predictive(model, new.astype(np.float64))
    np.testing.assert_allclose(filled[~observed], expected[~observed], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(new, before)


def test_impute_keeps_signed_zeros_and_complete_rows(model, data):
    np.testing.assert_array_equal(model.impute(data), data)
    new = np.full((1, 8), -0.0)
    assert np.signbit(model.impute(new)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_impute_returns_pandas_frames(make, dtype):
    new = make_data(30, missing=0.25, seed=6).astype(dtype)
    names = [f"größe {i}" for i in range(8)]
    frame = pd.DataFrame(new, columns=names, index=[f"row {i}" for i in range(30)])
    model = make(5, noise_std=0.3, random_state=0).fit(frame)
    filled = model.impute(frame)
    assert isinstance(filled, pd.DataFrame)
    assert filled.columns.tolist() == names
    assert filled.index.equals(frame.index)
    assert set(filled.dtypes) == {np.dtype(dtype)}
    plain = make(5, noise_std=0.3, random_state=0).fit(new)
    np.testing.assert_array_equal(filled.to_numpy(), plain.impute(new))
    assert frame.isna().to_numpy().sum() == np.isnan(new).sum()


@pytest.mark.parametrize("missing_as", [None, np.nan])
def test_impute_returns_polars_frames(make, missing_as):
    new = make_data(30, missing=0.25, seed=6)
    names = [f"größe {i}" for i in range(8)]
    frame = pl.DataFrame(new, schema=names)
    if missing_as is None:
        frame = frame.fill_nan(None)
    model = make(5, noise_std=0.3, random_state=0).fit(frame)
    filled = model.impute(frame)
    assert isinstance(filled, pl.DataFrame)
    assert filled.columns == names
    plain = make(5, noise_std=0.3, random_state=0).fit(new)
    np.testing.assert_array_equal(filled.to_numpy(), plain.impute(new))


def test_unfitted_models_say_so(data):
    for method in ("transform", "confidence", "impute", "score", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(MEIBP(), method)(data)
    for call in (
        lambda m: m.sample(2),
        lambda m: m.inverse_transform(np.ones((2, 2))),
        lambda m: m.score_heldout(data, data),
        lambda m: m.get_feature_names_out(),
    ):
        with pytest.raises(NotFittedError):
            call(MEIBP())


# Sampling


def test_sample_shapes_and_seeds(model):
    draws, codes = model.sample(7, random_state=3)
    assert draws.shape == (7, 8)
    assert draws.dtype == np.float64
    assert codes.shape == (7, model.n_components_)
    assert codes.dtype == np.uint8
    again = model.sample(7, random_state=3)
    np.testing.assert_array_equal(draws, again[0])
    np.testing.assert_array_equal(codes, again[1])
    assert not np.array_equal(draws, model.sample(7, random_state=4)[0])
    # By default the estimator's own seed.
    np.testing.assert_array_equal(model.sample(2)[0], model.sample(2, random_state=0)[0])
    assert model.sample()[0].shape == (1, 8)
    for n_samples in (0, -1):
        with pytest.raises(ValueError, match="n_samples"):
            model.sample(n_samples)


def test_sample_statistics(make):
    model = make(5, noise_std=0.5, random_state=0).fit(make_data(40, noise=0.3, seed=8))
    assert model.n_components_ >= 2
    n = 40_000
    draws, codes = model.sample(n, random_state=1)
    probability = model.feature_counts_ / 41
    spread = np.sqrt(probability * (1 - probability) / n)
    assert (np.abs(codes.mean(axis=0) - probability) < 5 * spread).all()
    pairs = np.corrcoef(codes.T)[np.triu_indices(model.n_components_, 1)]
    assert (np.abs(pairs) < 5 / np.sqrt(n)).all()
    # One draw of the factors serves all rows: least squares gives it back.
    centred = draws - model.intercept_
    factors, *_ = np.linalg.lstsq(codes.astype(float), centred, rcond=None)
    residual = centred - codes @ factors
    noise_std = np.broadcast_to(model.noise_std_, 8)
    np.testing.assert_allclose(residual.std(axis=0), noise_std, rtol=0.02)
    assert (np.abs(residual.mean(axis=0)) < 5 * noise_std / np.sqrt(n)).all()
    assert (factors > -0.1).all()
    standardised = (factors - model.components_) / model.components_std_
    assert np.abs(standardised).max() < 6
    assert 0.5 < standardised.std() < 1.6


def test_sampled_factors_follow_their_posterior():
    model = plain(3, noise_std=1.0, random_state=0).fit(make_data(12, 6, seed=8))
    model.noise_std_ = 1e-9  # to see the factors themselves
    draws = []
    for seed in range(400):
        values, codes = model.sample(40, random_state=seed)
        single = np.flatnonzero(codes.sum(axis=1) == 1)
        picked = {int(np.argmax(codes[i])): values[i] for i in single}
        draws.append(
            [picked.get(k, np.full(6, np.nan)) for k in range(model.n_components_)],
        )
    draws = np.array(draws)
    n = (~np.isnan(draws)).sum(axis=0)
    assert n.min() > 100
    assert np.nanmin(draws) > -1e-6
    error = np.abs(np.nanmean(draws, axis=0) - model.components_)
    assert (error < 5 * model.components_std_ / np.sqrt(n)).all()
    np.testing.assert_allclose(np.nanstd(draws, axis=0), model.components_std_, rtol=0.3)


# Scale, seeds, restarts, threads


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize(
    "factor", [4.0, 0.125, 2.0**-60, 2.0**60], ids=["4", "1/8", "2^-60", "2^60"]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_scaling_by_a_power_of_two(make, learn, factor, seed):
    data = make_data(80, missing=0.1, noise=0.5, seed=7)
    settings = {"n_components": 8, "learn_hyperparameters": learn, "random_state": seed}
    one = make(**settings).fit(data)
    other = make(**settings).fit(data * factor)
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    assert one.n_iter_ == other.n_iter_
    np.testing.assert_allclose(other.components_, one.components_ * factor, rtol=1e-9)
    np.testing.assert_allclose(other.components_std_, one.components_std_ * factor, rtol=1e-9)
    assert other.noise_std_ == pytest.approx(one.noise_std_ * factor, rel=1e-10)
    assert other.factor_std_ == pytest.approx(one.factor_std_ * factor, rel=1e-10)
    assert other.alpha_ == pytest.approx(one.alpha_, rel=1e-12)
    n_observed = (~np.isnan(data)).sum()
    assert other.evidence_ == pytest.approx(one.evidence_ - n_observed * np.log(factor), rel=1e-9)
    np.testing.assert_array_equal(one.transform(data), other.transform(data * factor))
    np.testing.assert_allclose(
        one.confidence(data), other.confidence(data * factor), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scaling_by_ten(make, learn, seed):
    data = make_data(80, missing=0.1, noise=0.5, seed=7)
    settings = {"n_components": 8, "learn_hyperparameters": learn, "random_state": seed}
    one = make(**settings).fit(data)
    other = make(**settings).fit(data * 10.0)
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    np.testing.assert_allclose(other.components_, one.components_ * 10.0, rtol=1e-4)
    assert other.noise_std_ == pytest.approx(one.noise_std_ * 10.0, rel=1e-5)


@pytest.mark.parametrize("factor", [0.25, 1024.0, 2.0**-20])
def test_stopping_does_not_depend_on_the_unit(factor):
    # The log-likelihood shifts with the unit, and with it what a relative change of it is.
    data = make_data(300, 20, 8, noise=0.8, seed=2)
    one = plain(14, random_state=0).fit(data)
    other = plain(14, random_state=0).fit(data * factor)
    assert one.n_iter_ >= 10
    np.testing.assert_array_equal(one.assignments_, other.assignments_)


@pytest.mark.parametrize("exponent, rtol", [(-60, 1e-4), (-20, 1e-12), (20, 1e-12), (60, 1e-4)])
def test_single_precision_of_any_scale(make, exponent, rtol):
    data = make_data(missing=0.1).astype(np.float32)
    scaled = np.ldexp(data, exponent)
    one = make(5, random_state=0, tol=0).fit(data)
    other = make(5, random_state=0, tol=0).fit(scaled)
    # Where squares leave single precision, double precision takes over.
    assert other.noise_std_ == pytest.approx(np.ldexp(one.noise_std_, exponent), rel=rtol)
    np.testing.assert_array_equal(one.assignments_, other.assignments_)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_same_seed_same_answer(make, holed, optimizer):
    settings = {
        "n_components": 6,
        "noise_std": 0.3,
        "optimizer": optimizer,
        "shuffle": True,
        "random_state": 5,
    }
    one, other = make(**settings).fit(holed), make(**settings).fit(holed)
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    np.testing.assert_array_equal(one.history_["evidence"], other.history_["evidence"])


def test_kinds_of_random_state(make, holed):
    def fit(random_state):
        return make(6, noise_std=0.3, random_state=random_state, max_iter=3, tol=0).fit(holed)

    by_number, by_state = fit(5), fit(np.random.RandomState(5))
    np.testing.assert_array_equal(by_number.components_, by_state.components_)
    one, other = fit(np.random.default_rng(5)), fit(np.random.default_rng(5))
    np.testing.assert_array_equal(one.components_, other.components_)
    if make is plain:  # else the data decide
        assert fit(1).evidence_ != fit(2).evidence_
        assert fit(None).evidence_ != fit(None).evidence_


def test_n_init_keeps_the_best_of_separate_fits(make):
    data = make_data(60, 8, 5, noise=0.6, seed=4)
    settings = {"n_components": 8, "noise_std": 0.4, "init": "random"}
    together = make(**settings, n_init=5, random_state=np.random.default_rng(1)).fit(data)
    shared = np.random.default_rng(1)
    alone = [make(**settings, random_state=shared).fit(data) for _ in range(5)]
    evidence = [model.evidence_ for model in alone]
    assert len(set(evidence)) > 1
    best = alone[int(np.argmax(evidence))]
    assert together.evidence_ == max(evidence)
    np.testing.assert_array_equal(together.components_, best.components_)
    np.testing.assert_array_equal(together.assignments_, best.assignments_)
    assert together.n_iter_ == best.n_iter_
    np.testing.assert_array_equal(together.history_["evidence"], best.history_["evidence"])


def test_first_start_is_that_of_a_single_one(make, data):
    seen = []
    make(5, n_init=2, random_state=3, callbacks=seen.append, max_iter=2, tol=0).fit(data)
    single = make(5, random_state=3, max_iter=2, tol=0).fit(data)
    first = [progress.evidence for progress in seen if progress.restart == 1]
    assert first == single.history_["evidence"].tolist()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_threads_change_no_bit(make, optimizer):
    rng = np.random.default_rng(0)
    new = make_data(2300, 8, missing=0.3, noise=0.4, seed=11)
    new[rng.integers(2300, size=20)] = np.nan
    assert len(np.unique(np.isnan(new), axis=0)) > 100
    model = make(6, noise_std=0.3, optimizer=optimizer, random_state=0).fit(make_data())
    assert model.n_components_ >= 2
    answers = []
    for n_jobs in (None, 1, 2, 3, -1):
        model.set_params(n_jobs=n_jobs)
        answers.append(
            [
                array.tobytes()
                for array in (
                    model.transform(new),
                    model.confidence(new),
                    model.score_samples(new),
                    np.float64(model.score(new)),
                    model.impute(new),
                )
            ]
        )
    assert all(answer == answers[0] for answer in answers)


# Starts


def a_start(n_samples=60, n_features=8, n_components=3, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "Z": (rng.random((n_samples, n_components)) < 0.5).astype(np.uint8),
        "mu": rng.random((n_components, n_features)),
        "sigma": rng.uniform(0.1, 0.2, size=(n_components, n_features)),
    }


def test_start_from_arrays(make, data):
    start = a_start()
    model = make(init=start, max_iter=0, tol=0, noise_std=0.3).fit(data)
    np.testing.assert_array_equal(model.assignments_, start["Z"])
    assert not np.array_equal(model.factor_location_, start["mu"])  # updated once
    full = make(init=start, noise_std=0.3).fit(data)
    again = make(init=start, noise_std=0.3, random_state=99).fit(data)
    np.testing.assert_array_equal(full.components_, again.components_)
    assert full.history_["evidence"][0] > model.evidence_


@pytest.mark.parametrize("kind", [bool, int, float, list])
def test_kinds_of_starting_assignments(make, data, kind):
    start = a_start()
    expected = make(init=start, noise_std=0.3).fit(data)
    if kind is list:
        other = {name: array.tolist() for name, array in start.items()}
    else:
        other = start | {"Z": start["Z"].astype(kind)}
    np.testing.assert_array_equal(
        make(init=other, noise_std=0.3).fit(data).components_, expected.components_
    )


def test_start_respects_columns_under_missing_patterns(holed):
    # Inside, columns of one pattern are side by side; the start is in the user's order.
    start = a_start()
    model = plain(init=start, max_iter=0, tol=0, noise_std=1e6, factor_std=2.0).fit(holed)
    # So much noise leaves the prior: location 0, scale 2, whatever the column.
    np.testing.assert_allclose(model.factor_scale_, 2.0, rtol=1e-6)
    sharp = plain(init=start, max_iter=0, tol=0, noise_std=1e-3, factor_std=2.0).fit(holed)
    permuted = np.random.default_rng(0).permutation(8)
    moved = start | {name: start[name][:, permuted] for name in ("mu", "sigma")}
    other = plain(init=moved, max_iter=0, tol=0, noise_std=1e-3, factor_std=2.0)
    other.fit(holed[:, permuted])
    np.testing.assert_allclose(other.components_, sharp.components_[:, permuted], rtol=1e-9)


def test_columns_may_come_in_any_order(make, holed):
    start = a_start(seed=3)
    permuted = np.random.default_rng(1).permutation(8)
    moved = start | {name: start[name][:, permuted] for name in ("mu", "sigma")}
    one = make(init=start, noise_std=0.3).fit(holed)
    other = make(init=moved, noise_std=0.3).fit(holed[:, permuted])
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    np.testing.assert_allclose(other.components_, one.components_[:, permuted], rtol=1e-6)


def test_start_from_a_fitted_model(data):
    first = plain(5, noise_std=0.3, max_iter=2, tol=0, random_state=0).fit(data)
    second = plain(5, noise_std=0.3, init=first).fit(data)
    assert second.evidence_ >= first.evidence_ - 1e-9 * abs(first.evidence_)
    straight = plain(5, noise_std=0.3, random_state=0).fit(data)
    assert second.evidence_ == pytest.approx(straight.evidence_, rel=1e-6)
    before = first.assignments_.copy()
    plain(5, noise_std=0.1, init=first).fit(data)
    np.testing.assert_array_equal(first.assignments_, before)


@pytest.mark.filterwarnings("ignore:No convergence")
@pytest.mark.parametrize("block_size", [1, "auto"])
def test_all_restarts_from_another_methods_codes_begin_there(data, block_size):
    # Without anything random all of them are the same, unless one changed where the next begins.
    first = FiniteVIBP(3, max_iter=2, random_state=0).fit(data)
    model = unmoved(init=first, n_init=3, max_iter=1, block_size=block_size).fit(data)
    assert (model.assignments_ != first.assignments_).any()
    assert (model.restart_evidence_ == model.restart_evidence_[0]).all()


def test_a_converged_model_stays(data):
    first = plain(5, noise_std=0.3, random_state=0, tol=0).fit(data)
    assert first.converged_
    second = plain(5, noise_std=0.3, init=first).fit(data)
    np.testing.assert_array_equal(first.assignments_, second.assignments_)
    np.testing.assert_allclose(first.components_, second.components_, rtol=1e-3)
    assert second.n_iter_ <= 2


def test_start_from_a_model_without_features(holed, empty_model):
    for learn in (False, True):
        with pytest.warns(UserWarning, match="No feature survived"):
            model = plain(init=empty_model, learn_hyperparameters=learn).fit(holed)
        assert model.n_components_ == 0


@pytest.mark.parametrize(
    "change, message",
    [
        ({"Z": np.ones((59, 3))}, r"init\['Z'\].*\(59, 3\).*60 rows"),
        ({"Z": np.ones(60)}, r"init\['Z'\].*\(60,\)"),
        ({"Z": np.full((60, 3), 2)}, r"init\['Z'\].*zeros and ones"),
        ({"Z": np.full((60, 3), 0.5)}, r"init\['Z'\].*zeros and ones"),
        ({"Z": np.full((60, 3), np.nan)}, r"init\['Z'\].*finite"),
        ({"Z": np.full((60, 3), -1)}, r"init\['Z'\].*not negative"),
        ({"mu": np.ones((3, 7))}, r"init\['mu'\].*\(3, 7\).*\(3, 8\)"),
        ({"mu": np.ones((2, 8))}, r"init\['mu'\].*\(2, 8\).*\(3, 8\)"),
        ({"mu": np.full((3, 8), np.inf)}, r"init\['mu'\].*finite"),
        ({"sigma": np.ones((8, 3))}, r"init\['sigma'\].*\(8, 3\).*\(3, 8\)"),
        ({"sigma": np.full((3, 8), np.nan)}, r"init\['sigma'\].*finite"),
        ({"sigma": np.full((3, 8), -1.0)}, r"init\['sigma'\].*positive"),
        ({"sigma": np.zeros((3, 8))}, r"init\['sigma'\].*positive"),
        ({"nu": np.ones((3, 8))}, r"'Z' alone, or 'Z', 'mu' and 'sigma'.*'nu'"),
    ],
)
def test_wrong_starts(data, change, message):
    with pytest.raises(ValueError, match=message):
        plain(init=a_start() | change).fit(data)


@pytest.mark.parametrize("key", ["Z", "mu", "sigma"])
def test_incomplete_start(data, key):
    start = a_start()
    del start[key]
    with pytest.raises(ValueError, match="'Z' alone, or 'Z', 'mu' and 'sigma'; it has"):
        plain(init=start).fit(data)


def test_start_with_too_many_features(data):
    with pytest.raises(ValueError, match=r"3 features.*n_components=2"):
        plain(2, init=a_start()).fit(data)
    plain(3, init=a_start()).fit(data)


def test_wrong_models_as_start(data, model):
    with pytest.raises(NotFittedError, match="init"):
        plain(init=MEIBP()).fit(data)
    with pytest.raises(ValueError, match="60.*50 rows"):
        plain(init=model).fit(data[:50])
    with pytest.raises(ValueError, match="init has 8 columns; X has 5"):
        plain(init=model).fit(data[:, :5])
    with pytest.raises(ValueError, match="init"):
        plain(init=StandardScaler().fit(data)).fit(data)
    with pytest.raises(ValueError, match="init"):
        MEIBP(init="nmf").fit(data)


# Small, thin and empty data


def test_row_with_nothing_observed(make):
    data = make_data(missing=0.2)
    data[7] = np.nan
    model = make(5, noise_std=0.3, optimizer="exact", random_state=0).fit(data)
    assert np.isfinite(model.components_).all()
    assert never_falls(model.history_["evidence"])
    # Nothing but the prior decides: a feature is taken if most rows have it.
    expected = model.feature_counts_ > (61 - model.feature_counts_)
    np.testing.assert_array_equal(model.transform(data)[7], expected)
    filled, _ = predictive(model, data[[7]])
    np.testing.assert_allclose(model.impute(data)[7], filled[0], rtol=1e-3)
    assert model.score_samples(data)[7] == 0.0


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("learn", [False, True])
def test_one_row(prior, learn):
    data = np.array([[0.5, 3.0, 2.0, np.nextafter(0, 1), 4.0]])
    model = plain(1, prior=prior, learn_hyperparameters=learn, noise_std=0.1, random_state=0)
    model.fit(data)
    assert model.n_components_ == 1
    assert model.transform(data).shape == (1, 1)
    assert np.isfinite(model.score(data))


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.filterwarnings("ignore:No feature survived")
def test_one_column(make, prior, learn):
    data = make_data(40, 1)
    model = make(4, prior=prior, learn_hyperparameters=learn, noise_std=0.2, random_state=0)
    model.fit(data)
    assert model.components_.shape[1] == 1
    assert model.transform(data).shape == (40, model.n_components_)
    assert never_falls(model.history_["evidence"])


def test_one_entry():
    model = plain(1, noise_std=0.1, factor_std=1.0, random_state=0).fit([[2.0]])
    # A single active feature has the exact posterior: 2 / (1 + 0.01).
    np.testing.assert_allclose(model.components_, [[2.0 / 1.01]], rtol=1e-12)
    with pytest.raises(ValueError, match="constant"):
        MEIBP().fit([[2.0]])


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.filterwarnings("ignore:No feature survived")
def test_more_features_than_rows(make, prior):
    data = make_data(6, 5)
    model = make(30, prior=prior, noise_std=0.05, random_state=0).fit(data)
    assert (make is plain) <= model.n_components_ <= 30
    assert never_falls(model.history_["evidence"])


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("learn", [False, True])
def test_no_feature_survives(holed, prior, learn):
    model = plain(4, noise_std=100.0, prior=prior, random_state=0)
    if learn:
        pinned = {"noise_precision": (1e9, 1e13)}
        model.set_params(learn_hyperparameters=True, hyperpriors=pinned)
    with pytest.warns(UserWarning, match=r"No feature survived.*noise_std"):
        model.fit(holed)
    assert model.n_components_ == 0
    assert model.components_.shape == (0, 8)
    assert model.assignments_.shape == (60, 0)
    assert model.transform(holed).shape == (60, 0)
    assert model.transform(holed).dtype == np.uint8
    assert model.confidence(holed).shape == (60, 0)
    expected = gaussian(holed, 0.0, model.noise_std_)
    assert model.score(holed) == pytest.approx(np.nanmean(expected), rel=1e-12)
    np.testing.assert_allclose(model.score_samples(holed), np.nansum(expected, axis=1))
    np.testing.assert_array_equal(model.impute(holed), np.nan_to_num(holed))
    np.testing.assert_array_equal(model.inverse_transform(np.ones((3, 0))), np.zeros((3, 8)))
    draws, codes = model.sample(50, random_state=0)
    assert codes.shape == (50, 0)
    assert draws.std() == pytest.approx(100.0, rel=0.2)
    assert model.get_feature_names_out().shape == (0,)
    assert model.score_heldout(holed, np.nan_to_num(holed)) < 0
    assert model.evidence_ == pytest.approx(sum(model.evidence_parts_.values()), rel=1e-12)
    assert pickle.loads(pickle.dumps(model)).n_components_ == 0


# Kinds of input


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda x: x.tolist(),
        lambda x: x.astype(">f8"),
        lambda x: x.astype(object),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        pd.DataFrame,
        pl.DataFrame,
    ],
    ids=["fortran", "lists", "big-endian", "objects", "strided", "pandas", "polars"],
)
def test_kinds_of_containers(make, holed, convert):
    settings = {"n_components": 5, "noise_std": 0.3, "random_state": 0}
    expected = make(**settings).fit(holed)
    model = make(**settings).fit(convert(holed))
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.transform(convert(holed)), expected.transform(holed))


def test_read_only_arrays(make, holed):
    settings = {"n_components": 5, "noise_std": 0.3, "random_state": 0}
    expected = make(**settings).fit(holed)
    locked = holed.copy()
    locked.flags.writeable = False
    start = a_start()
    for array in start.values():
        array.flags.writeable = False
    model = make(**settings).fit(locked)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.transform(locked), expected.transform(holed))
    make(init=start, noise_std=0.3).fit(locked)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16])
def test_other_number_types(make, dtype):
    rng = np.random.default_rng(0)
    data = np.repeat(rng.integers(0, 2, size=(40, 3)), 2, axis=1).astype(dtype)
    settings = {"n_components": 4, "noise_std": 0.3, "random_state": 0}
    model = make(**settings).fit(data)
    expected = make(**settings).fit(data.astype(np.float64))
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.transform(data), expected.transform(data))


@pytest.mark.parametrize("optimizer", ["local_search", "exact"])
def test_single_precision(make, holed, optimizer):
    single = holed.astype(np.float32)
    settings = {"n_components": 5, "noise_std": 0.3, "random_state": 0, "optimizer": optimizer}
    model = make(**settings).fit(single)  # and not a warning
    expected = make(**settings).fit(single.astype(np.float64))
    np.testing.assert_array_equal(model.assignments_, expected.assignments_)
    # Products with X are made in X's own precision; what follows from them is not.
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-5, atol=1e-6)
    assert model.components_.dtype == np.float64
    n_observed = (~np.isnan(single)).sum()
    assert abs(model.evidence_ - expected.evidence_) < 1e-5 * n_observed
    assert model.score(single) == pytest.approx(expected.score(single.astype(float)), rel=1e-5)


def test_default_scale_of_single_precision(holed):
    single = holed.astype(np.float32)
    model = plain(5, random_state=0, max_iter=0, tol=0).fit(single)
    expected = 0.75 * np.nanstd(single.astype(np.float64))
    assert model.noise_std_ == pytest.approx(expected, rel=1e-6)


def test_nullable_and_object_columns(make, holed):
    names = list("abcdefgh")
    settings = {"n_components": 5, "noise_std": 0.3, "random_state": 0}
    plain = pd.DataFrame(holed, columns=names)
    plain["h"] = plain["h"].round()
    expected = make(**settings).fit(plain)
    nullable = plain.astype({"a": "Float64", "b": "Float64", "h": "Int64"})
    objects = plain.astype(object).where(plain.notna(), None)
    some_objects = plain.copy()
    some_objects["c"] = objects["c"]
    for frame in (nullable, objects, some_objects):
        model = make(**settings).fit(frame)
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.feature_names_in_.tolist() == names
        filled = model.impute(frame)
        assert filled.notna().to_numpy().all()
        np.testing.assert_array_equal(
            filled.to_numpy(dtype=float), expected.impute(plain).to_numpy()
        )


def test_nullable_booleans():
    frame = pd.DataFrame(
        {"yes": pd.array([True, False, None] * 10, dtype="boolean"), "x": np.arange(30.0) / 10}
    )
    model = plain(3, random_state=0).fit(frame)
    assert model.impute(frame)["yes"].notna().all()


def test_polars_with_nulls(make, holed):
    frame = pl.DataFrame(holed, schema=list("abcdefgh")).fill_nan(None)
    model = make(5, noise_std=0.3, random_state=0).fit(frame)
    expected = make(5, noise_std=0.3, random_state=0).fit(holed)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.feature_names_in_.tolist() == list("abcdefgh")


# Errors that name the place and the remedy


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("method", ["fit", "fit_transform", "transform", "impute", "score"])
def test_infinity(make, dtype, value, method):
    data = make_data(missing=0.1).astype(dtype)
    model = make(3, random_state=0, max_iter=1, tol=0).fit(data)
    data[11, 2] = value
    data[12, 1] = value
    with pytest.raises(ValueError, match=r"infinity in row 11, column 2\b.*NaN"):
        getattr(model, method)(data)


@pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame])
def test_infinity_in_a_frame_names_the_column(make_frame):
    frame = make_frame({"weight": [1.0, 2.0, 3.0], "length": [1.0, 5.0, np.inf]})
    with pytest.raises(ValueError, match=r"infinity in row 2, column 1 \('length'\)"):
        MEIBP().fit(frame)


def test_values_too_large_to_square():
    data = make_data()
    data[3, 4] = 1e200
    with pytest.raises(ValueError, match=r"row 3, column 4.*Divide"):
        MEIBP().fit(data)


@pytest.mark.parametrize(
    "bad, message",
    [
        (np.arange(5.0), "1D.*[Rr]eshape"),
        (np.float64(3.0), "2D"),
        (np.ones((2, 3, 4)), "dim 3"),
        (np.empty((0, 4)), "0 sample"),
        (np.empty((4, 0)), "0 feature"),
        ([], "2D"),
        ([[]], "0 feature"),
        ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    ],
    ids=["1-D", "scalar", "3-D", "no rows", "no columns", "empty list", "empty row", "ragged"],
)
def test_wrong_shapes(bad, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        MEIBP().fit(bad)


def test_wrong_shapes_in_transform(model, data):
    with pytest.raises(ValueError, match=r"5 features.*MEIBP.*expecting 8"):
        model.transform(data[:, :5])
    with pytest.raises(ValueError, match="1D"):
        model.transform(data[0])
    with pytest.raises(ValueError, match="0 sample"):
        model.transform(data[:0])


def test_wrong_names_in_transform(make, holed):
    frame = pd.DataFrame(holed, columns=list("abcdefgh"))
    model = make(3, random_state=0).fit(frame)
    with pytest.raises(ValueError, match=r"(?s)feature names.*unseen.*zz"):
        model.transform(frame.rename(columns={"c": "zz"}))
    with pytest.raises(ValueError, match=r"(?s)feature names.*order"):
        model.transform(frame[list("hgfedcba")])


@pytest.mark.parametrize(
    "bad, place",
    [
        ([[1.0, 2.0], [3.0, "many"]], r"'many' in row 1, column 1"),
        (np.array([["1", "2"], ["x", "4"]]), r"'x' in row 1, column 0"),
        (np.array([[1.0, "a"], [2.0, 3.0]], dtype=object), r"'a' in row 0, column 1"),
        (pd.DataFrame({"n": [1.0, 2.0], "who": ["Ann", "Bo"]}), r"'Ann' in row 0.*\('who'\)"),
        (
            pd.DataFrame({"n": [1.0, 2.0], "who": pd.Categorical(["Ann", "Bo"])}),
            r"'Ann' in row 0.*\('who'\)",
        ),
        (pl.DataFrame({"n": [1.0, 2.0], "who": ["Ann", "Bo"]}), r"'Ann' in row 0.*\('who'\)"),
    ],
    ids=["list", "strings", "objects", "pandas", "category", "polars"],
)
def test_text_names_the_place(bad, place):
    with pytest.raises(ValueError, match=f"text {place}.*number"):
        MEIBP().fit(bad)


def test_complex_numbers():
    with pytest.raises(ValueError, match=r"[Cc]omplex.*np\.abs"):
        MEIBP().fit(make_data() * 1j)


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_column_without_observations(method):
    data = make_data()
    data[:, [2, 5]] = np.nan
    with pytest.raises(ValueError, match=r"no observed value in column 2, column 5.*Remove"):
        getattr(plain(3), method)(data)
    frame = pd.DataFrame(data, columns=list("abcdefgh"))
    with pytest.raises(ValueError, match=r"column 2 \('c'\), column 5 \('f'\)"):
        getattr(plain(3), method)(frame)
    with pytest.raises(ValueError, match="and 3 more"):
        plain(3).fit(np.full((5, 8), np.nan))


def test_such_a_column_is_fine_in_transform(model):
    new = make_data(5)
    new[:, 2] = np.nan
    assert model.impute(new).shape == (5, 8)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3, 123.456, 1e-5])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_constant_data(value, missing):
    data = np.full((50, 7), value)
    data[1:][np.random.default_rng(0).random((49, 7)) < missing] = np.nan
    with pytest.raises(ValueError, match=r"constant.*noise_std"):
        plain(3).fit(data)
    with pytest.raises(ValueError, match=r"constant.*factor_std"):
        plain(3, noise_std=0.1).fit(data)
    # With both given there is nothing to estimate.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No feature survived")
        plain(3, noise_std=0.1, factor_std=1.0, random_state=0).fit(data)
    with pytest.raises(ValueError, match=r"constant.*hyperprior"):
        plain(3, noise_std=0.1, factor_std=1.0, learn_hyperparameters=True).fit(data)


@pytest.mark.parametrize("init", ["spectral", "random"])
@pytest.mark.parametrize("value", [0.0, 1 / 3])
def test_constant_data_with_an_intercept(value, init):
    fixed = {"learn_hyperparameters": False, "noise_std": 0.1, "factor_std": 1.0}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No feature survived")
        model = MEIBP(3, **fixed, init=init, random_state=0).fit(np.full((50, 7), value))
    np.testing.assert_allclose(expected_data(model, model.assignments_), value, atol=1e-2)


@pytest.mark.parametrize(
    "name, values",
    [
        ("fit_intercept", ["yes", None, 2]),
        ("n_components", [0, -1, 2.5, "many"]),
        ("alpha", [0, -1.0, np.nan, np.inf, None, "big"]),
        ("noise_std", [0, -0.1, np.nan, np.inf, "small"]),
        ("factor_std", [0, -0.1, np.nan, np.inf, "small"]),
        ("learn_hyperparameters", ["yes", None, 2]),
        ("hyperpriors", ["strong", (1.0, 1.0)]),
        ("prior", ["IBP", None]),
        ("optimizer", ["simplex", None]),
        ("node_budget", [0, 1.5, None]),
        ("row_start", ["warm", None]),
        ("init", ["nmf", None, 3]),
        ("block_size", [0, -2, 1.5, None, "large"]),
        ("shuffle", ["yes", None]),
        ("max_iter", [-1, 2.5, None]),
        ("tol", [-1e-4, np.nan, None]),
        ("n_init", [0, 1.5, None]),
        ("time_limit", [-1.0, np.nan, "1 s"]),
        ("callbacks", ["print", 3]),
        ("random_state", ["seed", -1, 1.5]),
        ("n_jobs", ["all", 1.5, 0]),
        ("verbose", ["yes", -1]),
    ],
)
def test_nonsense_parameters(data, name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"'{name}' parameter of MEIBP"):
            plain(**{name: value}).fit(data)


def test_callbacks_that_cannot_be_called(data):
    with pytest.raises(ValueError, match="callbacks.*'print'"):
        plain(callbacks=["print"]).fit(data)


@pytest.mark.parametrize("name", ["noise_std", "factor_std"])
@pytest.mark.parametrize("value", [1e-200, 1e200])
def test_parameters_beyond_double_precision(data, name, value):
    # Their squares are 0 or infinite.
    with pytest.raises(ValueError, match=name):
        plain(3, **{name: value}).fit(data)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"noise": (1.0, 1.0)}, "'noise'.*noise_precision, factor_precision, alpha"),
        ({"alpha": (0.0, 1.0)}, "'alpha'.*positive"),
        ({"alpha": (1.0, -1.0)}, "'alpha'.*positive"),
        ({"noise_precision": (np.nan, 1.0)}, "'noise_precision'.*positive"),
        ({"factor_precision": (1.0, np.inf)}, "'factor_precision'.*positive"),
        ({"alpha": 1.0}, "'alpha'.*shape, rate"),
        ({"alpha": (1.0,)}, "'alpha'.*shape, rate"),
        ({"alpha": (1.0, 2.0, 3.0)}, "'alpha'.*shape, rate"),
        ({"alpha": ("a", "b")}, "'alpha'.*shape, rate"),
        ({"alpha": None}, "'alpha'.*shape, rate"),
    ],
)
def test_nonsense_hyperpriors(data, given, message):
    with pytest.raises(ValueError, match=message):
        plain(3, learn_hyperparameters=True, hyperpriors=given).fit(data)


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_sample_weight_is_refused(data, method):
    with pytest.raises(TypeError, match=r"not support sample_weight.*repeat"):
        getattr(MEIBP(), method)(data, sample_weight=np.ones(60))


# Warnings


def test_negative_entries_warn_with_the_remedy(data):
    shifted = data.copy()
    shifted[5, 3] = -0.1
    with pytest.warns(UserWarning, match=r"negative.*row 5, column 3.*X - np\.nanmin\(X\)"):
        plain(3, random_state=0).fit(shifted)
    frame = pd.DataFrame(shifted, columns=list("abcdefgh"))
    with pytest.warns(UserWarning, match=r"column 3 \('d'\)"):
        plain(3, random_state=0).fit(frame)


def test_negative_entries_are_fine_with_an_intercept(data):
    model = MEIBP(3, random_state=0).fit(data - 5.0)
    assert (model.intercept_ < -3.0).all()


def test_columns_of_very_different_variance_warn(data):
    scale = np.ones(8)
    scale[6] = 1000.0
    with pytest.warns(UserWarning, match=r"X has columns whose spreads.*column 6.*divide each"):
        plain(3, random_state=0).fit(data * scale)
    scale[6] = 10.0
    plain(3, random_state=0).fit(data * scale)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3, 123.456])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constant_columns_do_not_warn(value, dtype):
    data = make_data(missing=0.1).astype(dtype)
    data[:, 3] = value
    # Only up to rounding is the variance of such a column 0.
    plain(3, noise_std=0.5, factor_std=0.5, random_state=0).fit(data)


def test_warnings_point_at_the_caller(data):
    scale = np.ones(8)
    scale[6] = 1000.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain(3, random_state=0, max_iter=1).fit(data * scale - 0.1)
        plain(3, random_state=0, noise_std=1e4).fit(data)
    assert len(caught) == 4
    assert {warning.filename for warning in caught} == {__file__}


def test_no_convergence_warns(data):
    with pytest.warns(ConvergenceWarning, match="No convergence within 1 sweeps?.*max_iter"):
        model = plain(5, max_iter=1, random_state=0).fit(data)
    assert not model.converged_
    assert model.n_iter_ == 1
    assert plain(5, random_state=0).fit(data).converged_


# Learning hyperparameters


def test_learned_hyperparameters_satisfy_their_updates():
    data = make_data(100, missing=0.1, noise=0.3, seed=2)
    model = plain(5, learn_hyperparameters=True, tol=0, random_state=0).fit(data)
    assert model.converged_
    k = model.n_components_
    harmonic = (1 / np.arange(1, 101)).sum()
    assert model.alpha_ == pytest.approx((1 + k) / (1 + harmonic), rel=1e-12)
    rate = 1e-3 * np.nanvar(data)
    codes = model.assignments_.astype(float)
    observed = ~np.isnan(data)
    error = np.nansum((data - codes @ model.components_) ** 2)
    error += ((codes @ model.components_std_**2) * observed).sum()
    precision = (1 + observed.sum() / 2) / (rate + error / 2)
    assert model.noise_std_ == pytest.approx(precision**-0.5, rel=1e-4)
    second_moment = (model.components_**2 + model.components_std_**2).sum()
    precision = (1 + k * 8 / 2) / (rate + second_moment / 2)
    assert model.factor_std_ == pytest.approx(precision**-0.5, rel=1e-4)
    assert model.noise_std_ == pytest.approx(0.3, rel=0.2)


def test_hyperpriors_have_their_effect():
    data = make_data(100, noise=0.3, seed=2)
    settings = {"n_components": 5, "learn_hyperparameters": True, "random_state": 0}
    pinned = plain(
        **settings,
        hyperpriors={
            "noise_precision": (1e9, 1e9 * 0.5**2),
            "factor_precision": (1e9, 1e9 * 1.5**2),
            "alpha": (1e9, 1e9 / 2.0),
        },
    ).fit(data)
    assert pinned.noise_std_ == pytest.approx(0.5, rel=1e-4)
    assert pinned.factor_std_ == pytest.approx(1.5, rel=1e-4)
    assert pinned.alpha_ == pytest.approx(2.0, rel=1e-4)
    one = plain(**settings, hyperpriors={"alpha": (5.0, 2.0)}).fit(data)
    harmonic = (1 / np.arange(1, 101)).sum()
    expected = (5.0 + one.n_components_) / (2.0 + harmonic)
    assert one.alpha_ == pytest.approx(expected, rel=1e-12)


def test_given_values_are_where_learning_starts(data):
    model = plain(
        4, learn_hyperparameters=True, noise_std=0.2, factor_std=1.7, alpha=2.5, max_iter=0, tol=0
    ).fit(data)
    assert model.noise_std_ == pytest.approx(0.2, rel=1e-12)
    assert model.factor_std_ == pytest.approx(1.7, rel=1e-12)
    assert model.alpha_ == pytest.approx(2.5, rel=1e-12)


# Moves, as a user sees them


def test_a_fit_at_its_limit_says_what_one_more_feature_would_gain(data):
    with pytest.warns(EndingWarning, match=r"n_components=1 is all .* would gain [\d,]+ nats"):
        model = MEIBP(1, random_state=0).fit(data)
    assert model.n_components_ == 1 and model.limit_gain_ > 10
    assert model.baseline_evidence_ < model.evidence_
    free = MEIBP(random_state=0).fit(data)
    assert free.n_components_ > 1 and free.limit_gain_ is None
    assert free.evidence_ >= model.evidence_ + model.limit_gain_ - 10
    assert free.baseline_evidence_ == pytest.approx(model.baseline_evidence_, rel=1e-3)


def test_callbacks_hear_what_is_tried(data):
    class Listener:
        def __init__(self):
            self.heard = []

        def trying(self, what):
            self.heard.append(what)

        def __call__(self, progress):
            self.heard.append(progress.values)

    listener = Listener()
    model = MEIBP(init="random", callbacks=[listener, lambda progress: None], random_state=0)
    history = model.fit(data).history_
    told = [heard for heard in listener.heard if isinstance(heard, dict)]
    assert told == [
        {"move": move, "move_gain": gain}
        for move, gain in zip(history["move"], history["move_gain"], strict=True)
    ]
    for i, heard in enumerate(listener.heard):
        if isinstance(heard, dict) and heard["move"]:
            assert listener.heard[i - 1] == heard["move"]


def test_verbose_tells_which_move_was_kept(data, capsys):
    model = MEIBP(init="random", verbose=1, random_state=0).fit(data)
    lines = capsys.readouterr().out.splitlines()[-model.n_iter_ :]
    for line, move, gain in zip(
        lines, model.history_["move"], model.history_["move_gain"], strict=True
    ):
        assert line.endswith(f"{move} gained {gain:.2f}") if move else "gained" not in line


def test_the_restart_that_is_kept_is_known_as_it_is_now():
    # It is not the one that ended highest, since it has taken over features of another.
    def run(restart, evidence, ending, codes):
        context = SimpleNamespace(restart=restart)
        model = SimpleNamespace(_training_codes=lambda: np.array(codes, dtype=np.uint8))
        return SimpleNamespace(context=context, evidence=evidence, ending=ending, model=model)

    one, two = [[1], [0], [0]], [[1, 0], [0, 1], [0, 0]]
    runs = [run(1, -9.0, "converged", one), run(2, -8.0, "max_iter", two)]
    keeper = RestartKeeper(lambda run: run.model)
    for ended in [*runs, run(3, -7.0, "time_limit", one)]:
        keeper.restart_ended(ended)
    runs[0].evidence = -6.0
    kept, known = keeper.known(runs[0], np.array(two, dtype=np.uint8))
    assert kept == 0
    assert [restart.evidence for restart in known] == [-6.0, -8.0]
    assert [restart.codes.shape for restart in known] == [(3, 2), (3, 2)]
    np.testing.assert_allclose(similarity(kept, known, flips=False), 1.0)


# Every way to fit


@pytest.mark.filterwarnings("ignore:n_components=8 is all")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("learn", [False, True])
def test_evidence_never_falls(make, optimizer, prior, learn):
    data = make_data(40, 9, 5, missing=0.15, noise=0.5, seed=1)
    ways = [(*way, False) for way in itertools.product((1, 7, 1000, "auto"), (False, True))]
    for block_size, shuffle, moves in [*ways, ("auto", False, True)]:
        model = make(
            8,
            moves=moves,
            optimizer=optimizer,
            prior=prior,
            learn_hyperparameters=learn,
            init="random",
            block_size=block_size,
            shuffle=shuffle,
            noise_std=0.3,
            factor_std=1.0,
            tol=0,
            max_iter=15,
            random_state=1,
        ).fit(data)
        assert model.n_iter_ >= 2
        assert never_falls(model.history_["evidence"])
        np.testing.assert_array_equal(model.feature_counts_, model.assignments_.sum(axis=0))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_evidence_never_falls_on_many_data_sets(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 80)), int(rng.integers(1, 15))
    data = rng.gamma(rng.uniform(0.3, 3.0), size=(n, d))
    data[rng.random(data.shape) < rng.uniform(0, 0.6)] = np.nan
    data[0] = 1.0 + rng.random(d)
    for optimizer, prior, learn, block_size in itertools.product(
        OPTIMIZERS, ("shifted", "lof"), (False, True), (1, 7, 1000)
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = plain(
                int(rng.integers(1, 12)),
                optimizer=optimizer,
                prior=prior,
                learn_hyperparameters=learn,
                block_size=block_size,
                noise_std=float(rng.uniform(0.1, 1.0)),
                tol=0,
                max_iter=40,
                random_state=seed,
            ).fit(data)
        assert never_falls(model.history_["evidence"])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("row_start", ["current", "empty"])
def test_clear_features_are_found(optimizer, row_start):
    rng = np.random.default_rng(0)
    factors = np.kron(np.eye(3), np.ones(4)) * [[1.0], [2.0], [3.0]]
    codes = (rng.random((150, 3)) < 0.5).astype(np.uint8)
    data = np.abs(codes @ factors + rng.normal(0, 0.1, size=(150, 12)))
    model = plain(
        6,
        optimizer=optimizer,
        row_start=row_start,
        noise_std=0.2,
        factor_std=2.0,
        n_init=5,
        random_state=0,
    ).fit(data)
    error = np.sqrt(np.mean((model.inverse_transform(model.assignments_) - data) ** 2))
    assert error < 0.25


def test_shuffle_changes_the_course(holed):
    settings = {"n_components": 6, "noise_std": 0.3, "random_state": 2, "max_iter": 3, "tol": 0}
    straight = plain(**settings).fit(holed)
    shuffled = plain(**settings, shuffle=True).fit(holed)
    assert straight.evidence_ != shuffled.evidence_


def test_block_size_beyond_the_rows_is_one_block(holed):
    settings = {"n_components": 6, "noise_std": 0.3, "random_state": 2}
    one = plain(**settings, block_size=60).fit(holed)
    other = plain(**settings, block_size=10**9).fit(holed)
    np.testing.assert_array_equal(one.components_, other.components_)
    assert (
        plain(**settings, block_size=1).fit(holed).history_["evidence"][0]
        != (one.history_["evidence"][0])
    )


# Life among other estimators


def test_pipeline_and_grid_search():
    data = make_data(60, missing=0.1)
    pipeline = make_pipeline(MinMaxScaler(), plain(noise_std=0.15, random_state=0))
    codes = pipeline.fit_transform(data)
    assert codes.dtype == np.uint8
    assert pipeline.get_feature_names_out().tolist() == [f"meibp{k}" for k in range(codes.shape[1])]
    np.testing.assert_array_equal(pipeline[-1].assignments_, codes)
    search = GridSearchCV(pipeline, {"meibp__n_components": [1, 3]}, cv=3, error_score="raise")
    search.fit(data)
    assert search.best_params_ == {"meibp__n_components": 3}
    scores = search.cv_results_["mean_test_score"]
    assert scores[1] > scores[0]


def test_standardised_data_warns_but_works(data):
    pipeline = make_pipeline(StandardScaler(), plain(4, random_state=0))
    with pytest.warns(UserWarning, match="negative"):
        pipeline.fit(data)
    assert pipeline.transform(data).shape[0] == 60
    make_pipeline(StandardScaler(), MEIBP(4, random_state=0)).fit(data)  # with an intercept, none


def test_clone_and_pickle(model, data):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "components_")
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.components_, model.components_)
    np.testing.assert_array_equal(back.transform(data), model.transform(data))
    assert back.history_.keys() == model.history_.keys()
    again = copy.fit(data)
    np.testing.assert_array_equal(again.components_, model.components_)


def test_feature_names_out(model):
    names = model.get_feature_names_out()
    assert names.tolist() == [f"meibp{k}" for k in range(model.n_components_)]


def test_set_output_pandas(make, holed):
    frame = pd.DataFrame(holed, columns=list("abcdefgh"), index=np.arange(60) + 100)
    model = make(4, noise_std=0.3, random_state=0).set_output(transform="pandas")
    fitted = model.fit_transform(frame)
    assert isinstance(fitted, pd.DataFrame)
    assert fitted.index.equals(frame.index)
    assert fitted.columns.tolist() == model.get_feature_names_out().tolist()
    assert set(fitted.dtypes) == {np.dtype(np.uint8)}
    np.testing.assert_array_equal(fitted.to_numpy(), model.assignments_)
    assert isinstance(model.assignments_, np.ndarray)
    placed = model.transform(frame)
    assert isinstance(placed, pd.DataFrame)
    # The rest of the interface is as without.
    plain = clone(model).set_output(transform="default").fit(frame)
    np.testing.assert_array_equal(placed.to_numpy(), plain.transform(frame))
    assert model.score(frame) == plain.score(frame)
    assert isinstance(model.confidence(frame), np.ndarray)
    pd.testing.assert_frame_equal(model.impute(frame), plain.impute(frame))


def test_set_output_polars(make, holed):
    frame = pl.DataFrame(holed, schema=list("abcdefgh"))
    model = make(4, noise_std=0.3, random_state=0).set_output(transform="polars")
    fitted = model.fit_transform(frame)
    assert isinstance(fitted, pl.DataFrame)
    assert fitted.columns == model.get_feature_names_out().tolist()
    assert set(fitted.dtypes) == {pl.UInt8}
    np.testing.assert_array_equal(fitted.to_numpy(), model.assignments_)
    assert isinstance(model.transform(frame), pl.DataFrame)


def test_set_output_without_features(holed, empty_model):
    model = pickle.loads(pickle.dumps(empty_model))
    assert model.set_output(transform="pandas").transform(holed).shape == (60, 0)


def test_refitting_forgets_the_first_fit(make, holed):
    frame = pd.DataFrame(holed, columns=list("abcdefgh"))
    model = make(4, noise_std=0.3, random_state=0).fit(frame)
    other = make_data(30, 5)
    model.fit(other)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 5
    assert model.n_samples_fit_ == 30
    assert model.transform(other).shape == (30, model.n_components_)


# A model as a starting point


def test_a_model_given_as_init_survives_cloning(make, data):
    first = make(4, max_iter=3, tol=0, random_state=0).fit(data)
    second = make(init=first, max_iter=2, tol=0).set_output(transform="pandas")
    copy = clone(second)
    assert copy.init is first
    assert copy.get_params() == second.get_params()
    assert list(copy.fit(data).transform(data).columns) == list(copy.get_feature_names_out())
    np.testing.assert_array_equal(copy.assignments_, second.fit(data).assignments_)


def test_learning_goes_on_where_the_given_model_stopped(data):
    settings = {"learn_hyperparameters": True, "tol": 0}
    first = plain(4, max_iter=10, random_state=0, **settings).fit(data)
    second = plain(init=first, max_iter=0, **settings).fit(data)
    assert second.noise_std_ == pytest.approx(first.noise_std_)
    assert second.factor_std_ == pytest.approx(first.factor_std_)
    given = plain(init=first, max_iter=0, noise_std=2.0, **settings).fit(data)
    assert given.noise_std_ == pytest.approx(2.0)


def test_no_sample_weight_is_no_sample_weight(data):
    model = plain(3, max_iter=2, tol=0, random_state=0).fit(data, sample_weight=None)
    assert model.n_iter_ == 2


@pytest.mark.parametrize("n", [2.5, "a", 0, None])
def test_sample_wants_a_positive_integer(data, n):
    model = plain(3, max_iter=2, tol=0, random_state=0).fit(data)
    with pytest.raises(ValueError, match="positive integer"):
        model.sample(n)


def test_values_too_small_to_be_squared(data):
    with pytest.raises(ValueError, match="too small to be squared"):
        MEIBP().fit(data * 1e-200)


def test_dates_are_refused():
    dates = pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"]), "b": [1.0, 2.0]})
    for X in (dates, dates[["a"]].to_numpy()):
        with pytest.raises(ValueError, match="dates or times"):
            MEIBP().fit(X)


def test_parameters_of_the_starting_model_are_left_alone(data):
    first = plain(3, max_iter=2, tol=0, random_state=0).fit(data)
    with pytest.raises(ValueError, match="init__noise_std"):
        plain(init=first).set_params(init__noise_std=3.0)
    assert first.noise_std is None


def test_misspelt_arguments_of_fit_are_refused(data):
    with pytest.raises(TypeError, match="sampel_weight"):
        MEIBP().fit(data, sampel_weight=None)


def test_new_rows_may_be_as_small_as_they_like(make, data):
    model = make(3, max_iter=2, tol=0, random_state=0).fit(data)
    tiny, zero = np.full((1, data.shape[1]), 1e-120), np.zeros((1, data.shape[1]))
    np.testing.assert_array_equal(model.transform(tiny), model.transform(zero))


def test_masked_entries_are_missing(make, data):
    mask = np.random.default_rng(0).random(data.shape) < 0.2
    settings = {"max_iter": 3, "tol": 0, "random_state": 0}
    masked = make(3, **settings).fit(np.ma.array(data, mask=mask))
    missing = make(3, **settings).fit(np.where(mask, np.nan, data))
    np.testing.assert_array_equal(masked.components_, missing.components_)
    with pytest.raises(ValueError, match="dates or times"):
        MEIBP().fit(np.ma.array(np.array([["2020-01-01"]], dtype="M8[D]")))
    with pytest.raises(ValueError, match="'a' in row 0"):
        MEIBP().fit(np.ma.array([["a"]]))
