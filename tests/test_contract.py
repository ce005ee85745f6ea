"""What all estimators have in common, whatever fits them."""

from __future__ import annotations

import io
import time
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import ibp
from ibp import (
    BNMF,
    INMF,
    MEIBP,
    METHODS,
    AcceleratedGibbs,
    BeamSearchIBP,
    FiniteVIBP,
    InfiniteVIBP,
    UncollapsedGibbs,
)
from ibp.registry import CARDS

K = 4
# Settings for a quick fit, where 30 sweeps are not the right number or another kind is wanted.
QUICK = {
    "meibp": {},
    "aibp": {"max_iter": 12, "thin": 2},
    "t-aibp": {"max_iter": 12, "thin": 2, "burn_in": 4},
    "ugibbs": {"max_iter": 12, "thin": 2},
    "t-ugibbs": {"max_iter": 12, "thin": 2, "factors": "gaussian"},
    "bs-ibp": {"beam_width": 3, "max_iter": 2},
    "inmf": {"max_iter": 60},
    "meibp-weighted": {"codes": "weighted", "max_iter": 30},
}
SAME_CLASS_AGAIN = {"meibp-default", "meibp+aibp"}  # with other settings of the paper
CARD = {label: card for card in CARDS.values() for label in card.labels}
UNBOUNDED = {label for label in CARD if CARD[label].labels[label].n_components == "unbounded"}
ESTIMATORS = {
    label: card.estimator(
        n_components=None if label in UNBOUNDED else K, **QUICK.get(label, {"max_iter": 30})
    )
    for label, card in CARD.items()
    if label not in SAME_CLASS_AGAIN
}
NAMES = sorted(ESTIMATORS)
DENSE_ONLY = {name for name in NAMES if not CARD[name].accepts_sparse}
BINARY = {name for name in NAMES if CARD[name].codes != "real"}
SOFT = {name for name in NAMES if CARD[name].codes == "probability"}
SAMPLERS = {name for name in NAMES if CARD[name].samples}
# The same for scikit-learn's checks, which are many; those of MEIBP are in test_estimator.py.
CHECKED = {
    "AcceleratedGibbs": {"n_components": None, "max_iter": 4},
    "UncollapsedGibbs": {"max_iter": 4},
    "BeamSearchIBP": {"beam_width": 2},
    "INMF": {"n_components": 2, "max_iter": 10},
}

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:No feature survived"),
    pytest.mark.filterwarnings("ignore:burn_in=.* left none"),
]


def make_data(n=40, d=9, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    A = np.kron(np.eye(3), np.ones(d // 3)) * 2.0
    Z = rng.random((n, 3)) < 0.4
    X = Z @ A + 3.0 + rng.normal(0.0, 0.2, size=(n, d))
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


def estimator(name, **settings):
    return clone(ESTIMATORS[name]).set_params(**({"random_state": 0, "n_jobs": 1} | settings))


@pytest.fixture(scope="module")
def fitted():
    """Each estimator fitted once to data with missing entries."""
    X = make_data(missing=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return X, {name: estimator(name).fit(X) for name in NAMES}


@parametrize_with_checks(
    [
        card.estimator(**({"n_components": 3, "max_iter": 5} | CHECKED.get(card.name, {})))
        for card in CARDS.values()
        if card.name != "MEIBP"
    ],
)
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


@pytest.mark.parametrize("name", NAMES)
def test_attributes_have_the_shapes_that_they_should(fitted, name):
    X, models = fitted
    model = models[name]
    n, d = X.shape
    k = model.n_components_
    assert model.components_.shape == (k, d)
    assert model.intercept_.shape == (d,)
    assert np.shape(model.noise_std_) == ((d,) if name.startswith("meibp") else ())
    assert np.all(model.noise_std_ > 0)
    assert np.isfinite(model.evidence_)
    assert model.n_iter_ == len(model.history_["evidence"]) > 0
    assert all(len(values) == model.n_iter_ for values in model.history_.values())
    assert model.n_features_in_ == d and model.n_samples_fit_ == n
    codes = model.transform(X)
    assert codes.shape == (n, k)
    assert model.get_feature_names_out().shape == (k,)
    if name in BINARY:
        assert model.assignments_.shape == (n, k)
        assert model.assignments_.dtype == np.uint8
        assert np.isin(model.assignments_, (0, 1)).all()
        np.testing.assert_array_equal(model.feature_counts_, model.assignments_.sum(axis=0))
        assert model.confidence(X).shape == (n, k)
        drawn, bits = model.sample(5, random_state=0)
        assert drawn.shape == (5, d) and bits.shape == (5, k)
    else:
        assert not hasattr(model, "assignments_")
        assert (model.codes_ >= 0).all()
    if name in SOFT:
        assert ((codes >= 0) & (codes <= 1)).all()
        np.testing.assert_array_equal(model.assignments_, model.codes_ > 0.5)
    whether = name in BINARY - SOFT and not model.real_codes
    assert codes.dtype == (np.uint8 if whether else np.float64)


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_imputation(fitted, name):
    X, models = fitted
    model = models[name]
    filled = model.impute(X)
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(filled[observed], X[observed])
    assert np.isfinite(filled).all()
    complete = make_data()
    assert np.isfinite(model.score_heldout(X, complete))
    errors = model.score_samples(X)
    assert model.score(X) == pytest.approx(errors.sum() / observed.sum())
    frame = pd.DataFrame(X, columns=list("abcdefghi"))
    with pytest.warns(UserWarning, match="feature names"):
        assert list(model.impute(frame).columns) == list(frame.columns)


@pytest.mark.parametrize("name", NAMES)
def test_a_good_fit_predicts_held_out_entries(name):
    X = make_data(60, 12, seed=3)
    hidden = np.random.default_rng(1).random(X.shape) < 0.1
    offset = 0.0 if ESTIMATORS[name].fit_intercept else X.min()
    seen = np.where(hidden, np.nan, X - offset)
    model = estimator(name)
    if name in SAMPLERS:
        model.set_params(max_iter=150)
    model.set_params(n_init=3).fit(seen)
    error = (model.impute(seen) - (X - offset))[hidden]
    assert np.sqrt((error**2).mean()) < 0.6 * X[hidden].std()


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_answer_whatever_the_number_of_threads(name):
    X = make_data(missing=0.1)
    one, other = estimator(name).fit(X), estimator(name, n_jobs=2).fit(X)
    np.testing.assert_array_equal(one.components_, other.components_)
    assert one.evidence_ == other.evidence_
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(fitted, name, tmp_path):
    X, models = fitted
    model = models[name]
    model.save(tmp_path / "model.ibp")
    loaded = ibp.load(tmp_path / "model.ibp")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.impute(X), model.impute(X))
    assert loaded.score(X) == model.score(X)
    np.testing.assert_array_equal(loaded._training_codes(), model._training_codes())
    assert loaded.history_.keys() == model.history_.keys()
    model.save(tmp_path / "small.ibp", assignments=False)
    small = ibp.load(tmp_path / "small.ibp")
    np.testing.assert_array_equal(small.transform(X), model.transform(X))
    assert small.score(X) == model.score(X)
    assert not hasattr(small, "assignments_") and not hasattr(small, "codes_")
    small.save(tmp_path / "again.ibp")
    assert ibp.load(tmp_path / "again.ibp").score(X) == model.score(X)
    with pytest.raises(ValueError, match="saved without"):
        MEIBP(init=small).fit(X)


@pytest.mark.parametrize("name", NAMES)
def test_sparse_input_or_a_sentence_about_it(name):
    X = make_data()
    X -= X.min()
    X[X < 1.5] = 0.0
    if name in DENSE_ONLY:
        with pytest.raises(TypeError, match=r"does not take sparse X.*MEIBP.*X\.toarray"):
            estimator(name).fit(sparse.csr_array(X))
        return
    dense, compressed = estimator(name).fit(X), estimator(name).fit(sparse.csr_array(X))
    assert dense.n_components_ == compressed.n_components_
    np.testing.assert_allclose(dense.components_, compressed.components_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        dense.transform(X), compressed.transform(sparse.csr_array(X)), atol=1e-6
    )


@pytest.mark.parametrize("name", NAMES)
def test_callbacks_time_limit_and_progress(name, capsys):
    X = make_data()
    seen = []
    estimator(name, callbacks=lambda progress: seen.append(progress) or True).fit(X)
    assert len(seen) == 1 and np.isfinite(seen[0].evidence)
    started = time.perf_counter()
    hurried = estimator(name, time_limit=0.0)
    expected = pytest.warns(ConvergenceWarning, match="increase time_limit or tol")
    with expected if hurried.tol > 0 else nullcontext():
        model = hurried.fit(X)
    assert time.perf_counter() - started < 20
    assert model.n_iter_ == 0 and not model.converged_
    assert model.transform(X).shape == (40, model.n_components_)
    capsys.readouterr()
    estimator(name, verbose=1, max_iter=1).fit(X)
    assert "sweep    1" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_the_model_so_far_is_that_of_a_fit_which_ends_there(name):
    X = make_data(missing=0.1)
    so_far = []

    def look(progress):
        if progress.iteration == 2:
            so_far.append(progress.fitted_model())

    estimator(name, callbacks=look).fit(X)
    ended = estimator(name, callbacks=lambda progress: progress.iteration == 2).fit(X)
    if ended.n_iter_ < 2:
        pytest.skip("this fit takes one sweep only")
    (model,) = so_far
    assert model.n_iter_ == 2 and model.ending_ == ended.ending_ == "callback"
    assert set(vars(ended)) == set(vars(model))
    for attribute in sorted(vars(ended)):
        mine, expected = getattr(model, attribute), getattr(ended, attribute)
        if isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(mine, expected, err_msg=attribute)
    np.testing.assert_array_equal(model.transform(X), ended.transform(X))
    assert model.score(X) == ended.score(X)


@pytest.mark.parametrize("giver", NAMES)
@pytest.mark.parametrize("taker", NAMES)
def test_any_method_starts_from_any_fitted_model(fitted, giver, taker):
    X, models = fitted
    limits = {} if taker in UNBOUNDED else {"n_components": 60}
    model = estimator(taker, init=models[giver], max_iter=2, **limits).fit(X)
    assert np.isfinite(model.evidence_)
    assert clone(model).init is models[giver]


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"meibp"}))
def test_a_start_from_arrays(name):
    X = make_data()
    Z = np.random.default_rng(0).integers(0, 2, size=(40, 3))
    A = np.ones((3, 9))
    estimator(name, init={"Z": Z}, max_iter=1).fit(X)
    estimator(name, init={"Z": Z, "A": A}, max_iter=1).fit(X)
    for wrong, message in [
        ({"A": A}, "must have the key 'Z'"),
        ({"Z": Z[:-1]}, "40 rows"),
        ({"Z": Z, "A": A[:2]}, r"init\['A'\] has shape"),
        ({"Z": -Z}, "not negative"),
        ({"Z": Z, "mu": A}, "'mu'"),
    ]:
        with pytest.raises(ValueError, match=message):
            estimator(name, init=wrong).fit(X)
    with pytest.raises(NotFittedError, match="init"):
        estimator(name, init=MEIBP()).fit(X)


@pytest.mark.parametrize("name", NAMES)
def test_a_start_without_features(name):
    X = make_data(missing=0.1)
    empty = MEIBP.paper(2, noise_std=1e3, random_state=0).fit(X)
    assert empty.n_components_ == 0
    if name in ("f-vibp", "i-vibp", "bnmf"):
        with pytest.raises(ValueError, match="init has no features"):
            estimator(name, init=empty).fit(X)
    else:
        assert np.isfinite(estimator(name, init=empty, max_iter=2).fit(X).score(X))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["narrow", "wide", "empty row", "single precision", "offset"])
def test_unusual_data(name, kind):
    X = {
        "narrow": lambda: np.random.default_rng(0).random((20, 1)),
        "wide": lambda: np.random.default_rng(0).random((6, 300)),
        "empty row": lambda: np.vstack([make_data(), np.full((1, 9), np.nan)]),
        "single precision": lambda: make_data().astype(np.float32),
        "offset": lambda: (make_data() + 1e4).astype(np.float32),
    }[kind]()
    model = estimator(name, max_iter=3).fit(X)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.components_).all()


def test_climbing_methods_climb_in_single_precision_far_from_zero():
    X = (make_data(200) + 1e3).astype(np.float32)
    for name in ("f-vibp", "i-vibp", "bnmf"):
        model = estimator(name, tol=0, max_iter=30).fit(X)
        evidence = model.history_["evidence"]
        assert np.diff(evidence).min() > -1e-5 * np.abs(evidence).max()
        residual = X - model.inverse_transform(model._training_codes())
        assert model.noise_std_ == pytest.approx(residual.std(), rel=0.3)


@pytest.mark.parametrize("name", sorted(SOFT | {"meibp", "aibp"}))
def test_a_dominant_column_that_is_missing_leaves_the_others_their_digits(name):
    X = make_data(60)
    model = estimator(name, learn_hyperparameters=False, noise_std=0.3).fit(X)
    row = X[:1].copy()
    row[0, 4] = np.nan
    expected = model.transform(row)
    model.components_[:, 4] *= 1e9  # what is missing must not matter, whatever it is
    if name == "inmf":
        model.components_covariance_[4] *= 1e18
    np.testing.assert_allclose(model.transform(row), expected, atol=1e-4)


@pytest.mark.parametrize("name", sorted(SOFT))
def test_sureness_is_the_same_for_bits_that_are_on_and_off(name):
    X = make_data(60)
    X -= X.min()
    model = estimator(name, learn_hyperparameters=False, noise_std=0.05).fit(X)
    sure = model.confidence(X)
    assert (sure >= 0).all() and sure.max() == 36.0
    assert np.median(sure[model.transform(X) > 0.5]) <= 36.0


def test_a_given_intercept_is_kept():
    rng = np.random.default_rng(0)
    Z = (rng.random((200, 3)) < 0.5) * 1.0
    A, b = rng.normal(size=(3, 6)) * 3, rng.normal(size=6) * 5
    X = Z @ A + b + 0.1 * rng.standard_normal((200, 6))
    known = {"noise_std": 0.1, "factor_std": 3.0, "learn_hyperparameters": False}
    for cls in (FiniteVIBP, InfiniteVIBP, AcceleratedGibbs, UncollapsedGibbs):
        more = {"factors": "gaussian"} if cls is UncollapsedGibbs else {}
        start = {"Z": Z, "intercept": b}
        model = cls(3, init=start, max_iter=3, random_state=0, **known, **more).fit(X)
        np.testing.assert_array_equal(model.assignments_, Z)
        np.testing.assert_allclose(model.intercept_, b, atol=0.2)


def test_real_codes_of_any_scale_are_cut_to_bits():
    X = make_data()
    X -= X.min()
    for rate in (0.02, 1.0, 50.0):
        giver = BNMF(3, code_rate=rate, random_state=0).fit(X)
        taker = BeamSearchIBP(3, init=giver, max_iter=0).fit(X)
        assert taker.n_components_ == giver.n_components_ > 0


def test_beam_search_heeds_its_limits():
    X = np.random.default_rng(0).random((150, 150))
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    started = time.perf_counter()
    BeamSearchIBP(6, time_limit=2, max_iter=1, beam_width=3).fit(X)
    assert time.perf_counter() - started < 30  # of which most is compilation, if any
    X = make_data(60)
    model = BeamSearchIBP(
        5, order="random", beam_width=2, max_iter=8, learn_hyperparameters=True, random_state=0
    ).fit(X)
    assert model.n_iter_ == 8 or model.converged_


def test_estimators_ask_for_what_they_have():
    ones = np.ones((10, 3))
    BNMF(2, noise_std=0.1, learn_hyperparameters=False, max_iter=3).fit(ones)
    with pytest.raises(ValueError, match="it can have noise_precision"):
        BNMF(2, hyperpriors={"alpha": (1.0, 1.0)}).fit(make_data())
    with pytest.raises(ValueError, match="damping"):
        INMF(power=0.5, damping=0.1).fit(make_data())
    with pytest.raises(ValueError, match=r"init\['Z'\] must be an array of numbers"):
        FiniteVIBP(init={"Z": "no"}).fit(make_data())
    with pytest.raises(ValueError, match="meibp\\+aibp"):
        ibp.fit(make_data(), method="meibp+aibp")
    with pytest.raises(ValueError, match="There is no method"):
        ibp.fit(make_data(), method=["meibp"])


def test_factors_of_inmf_are_drawn_nonnegative():
    X = make_data()
    model = INMF(4, max_iter=40).fit(X - X.min())
    assert (model._draw_factors(np.random.default_rng(0)) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_unit_of_the_data_does_not_matter(name):
    X = make_data()
    one, other = (estimator(name, max_iter=3).fit(c * X) for c in (1.0, 2.0**20))
    assert one.n_components_ == other.n_components_
    np.testing.assert_allclose(other.components_, one.components_ * 2.0**20, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("label", sorted(METHODS))
def test_every_label_fits(label):
    X = make_data()
    settings = {"max_iter": 3, "random_state": 0}
    model = ibp.fit(X - X.min(), method=label, n_components=K, **settings)
    assert model.transform(X - X.min()).shape[0] == 40
    assert label in repr(METHODS[label])
    if label not in ("meibp-default", "meibp-weighted", "bnmf"):
        assert not model.learn_hyperparameters
        assert model.alpha_ == 3.0
    if label in UNBOUNDED:
        assert model.n_components is None


def test_labels_that_need_a_number_or_are_unknown():
    for label in ("meibp", "t-aibp", "t-ugibbs"):
        with pytest.raises(ValueError, match="needs n_components"):
            METHODS[label]()
    with pytest.raises(ValueError, match=r"no method 'abc'.*meibp.*aibp"):
        ibp.fit(make_data(), method="abc")


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_samples_are_kept_and_averaged(name):
    X = make_data(missing=0.1)
    model = estimator(name, max_iter=12, burn_in=4, thin=2).fit(X)
    samples = model.samples_
    assert len(samples) == 4  # sweeps 6, 8, 10, 12
    best = max(samples, key=lambda sample: sample.log_joint)
    np.testing.assert_array_equal(model.assignments_, best.assignments)
    assert model.evidence_ == best.log_joint
    kept = model.history_["evidence"][[5, 7, 9, 11]]
    np.testing.assert_allclose([s.log_joint for s in samples], kept, rtol=1e-9)
    for name_of_trace in ("alpha", "noise_std", "factor_std", "n_components", "log_joint"):
        assert len(model.trace_[name_of_trace]) == 12
    predictions = []
    for sample in samples:
        single = clone(model).set_params(max_iter=0).fit(X)
        single.samples_ = type(samples).of([sample])
        predictions.append(single.impute(np.where(np.isnan(X), np.nan, X)))
    np.testing.assert_allclose(model.impute(X), np.mean(predictions, axis=0))
    half = estimator(name, max_iter=12, burn_in=0.5, thin=1).fit(X)
    assert len(half.samples_) == 6
    with pytest.warns(UserWarning, match="none of 3 sweeps to keep"):
        none = estimator(name, max_iter=3, burn_in=10).fit(X)
    assert len(none.samples_) == 1  # the last state, for want of others


@pytest.mark.parametrize("name", NAMES)
def test_damaged_model_files_are_refused(fitted, name, tmp_path):
    _, models = fitted
    path = tmp_path / "model.ibp"
    models[name].save(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    for key in sorted(set(arrays) - {"header"}):
        if key.startswith("history"):
            continue
        broken = arrays | {key: arrays[key].astype(np.float32)[..., :-1]}
        buffer = io.BytesIO()
        np.savez(buffer, **broken)
        path.write_bytes(buffer.getvalue())
        with pytest.raises(ibp.persistence.ModelFileError):
            ibp.load(path)


def test_an_interrupted_start_ends_the_fit(monkeypatch):
    complete_fit = MEIBP._fit

    def broken_off(self, X, unsupported):
        complete_fit(self, X, unsupported)
        return True

    monkeypatch.setattr(MEIBP, "_fit", broken_off)
    model = AcceleratedGibbs(3, init="meibp", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(make_data())
    assert model.n_iter_ == 0 and model.n_components_ > 0 and model.ending_ == "interrupted"
