"""Predictions that know their doubt, against the sum over all codes."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import softmax

import ibp
from ibp import MEIBP
from ibp.data import Observations
from ibp.evaluate import HeldOut, training_codes_of
from ibp.methods.meibp.assign import MOST_CODES, FrozenModel, list_piece
from ibp.methods.predictions import MixturePrediction
from ibp.model.predictive import PredictiveTerms, log_density_of_row, predict_row
from ibp.parallel import Threads
from ibp.report.reading import DataReader

# Of a probability: what lies beyond the margin of a list.
BEYOND = 1e-3


def random_model(rng, n_components, n_features, noise_std, **settings):
    return FrozenModel(
        mean=np.abs(rng.normal(size=(n_components, n_features))),
        variance=rng.uniform(0.0, 0.1, size=(n_components, n_features)),
        offset=rng.normal(size=n_features),
        counts=rng.integers(1, 50, size=n_components),
        n_samples=50,
        noise_std=noise_std,
        optimizer=settings.pop("optimizer", "exact"),
        thorough=True,
        node_budget=settings.pop("node_budget", 100_000),
    )


def random_rows(rng, model, n_rows, missing):
    X = rng.integers(0, 2, size=(n_rows, model.counts.size)) @ model.mean + model.offset
    X += rng.normal(size=X.shape) * model.noise_std
    X[rng.random(X.shape) < missing] = np.nan
    return X


def posterior(model, x):
    """All codes of a row, and their probabilities: the row objective, exponentiated."""
    seen = ~np.isnan(x)
    precision = np.broadcast_to(model.noise_std, x.shape)[seen] ** -2.0
    every = np.array(list(product([0, 1], repeat=model.counts.size)), dtype=float)
    residual = (x - model.offset - every @ model.mean)[:, seen]
    spread = (every @ model.variance)[:, seen]
    log_odds = np.log(model.counts / (model.n_samples + 1.0 - model.counts))
    return every, softmax(every @ log_odds - 0.5 * (residual**2 + spread) @ precision)


def terms_of(model):
    noise = np.broadcast_to(model.noise_std, model.offset.shape)
    return PredictiveTerms(model.mean.T, model.variance.T, model.offset, noise**2)


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0, "per column"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("n_components", [1, 7, 10])
def test_probabilities_and_predictions_are_sums_over_all_codes(noise, missing, n_components):
    rng = np.random.default_rng(n_components)
    noise_std = rng.uniform(0.2, 2.0, size=8) if noise == "per column" else noise
    model = random_model(rng, n_components, 8, noise_std)
    X = random_rows(rng, model, 30, missing)
    X[0] = np.nan
    observations = Observations.from_array(X)
    executor = Threads()
    prediction = MixturePrediction(model, observations, executor)
    probability = model.probabilities(observations, executor)
    sums, counts = prediction.row_log_likelihood(observations.source)
    np.testing.assert_array_equal(counts, (~np.isnan(X)).sum(axis=1))
    mean, std = np.full(X.shape, np.nan), np.full(X.shape, np.nan)
    for rows, filled in prediction.missing_entries():
        mean[rows][filled.row, filled.column] = filled.mean
        std[rows][filled.row, filled.column] = filled.std
    for n, x in enumerate(X):
        codes, weight = posterior(model, x)
        np.testing.assert_allclose(probability[n], weight @ codes, atol=BEYOND)
        expected, variance = predict_row(codes, weight, terms_of(model))
        gone = np.isnan(x)
        np.testing.assert_array_equal(np.isnan(mean[n]), ~gone)
        np.testing.assert_allclose(mean[n, gone], expected[gone], atol=5 * BEYOND)
        np.testing.assert_allclose(std[n, gone] ** 2, variance[gone], atol=5 * BEYOND)
        densities = log_density_of_row(x, codes, weight, terms_of(model))
        assert sums[n] == pytest.approx(np.nansum(densities), abs=8 * 5 * BEYOND)


def test_moments_and_density_of_a_mixture_by_integration():
    rng = np.random.default_rng(0)
    codes, weight = np.array([[0, 1], [1, 1], [1, 0]]), np.array([0.2, 0.5, 0.3])
    terms = PredictiveTerms(
        rng.normal(size=(4, 2)), rng.random((4, 2)), rng.normal(size=4), 0.1 + rng.random(4)
    )
    grid = np.linspace(-30.0, 30.0, 200_001)
    density = np.exp([log_density_of_row(np.full(4, x), codes, weight, terms) for x in grid[::100]])
    step = grid[100] - grid[0]
    np.testing.assert_allclose(density.sum(axis=0) * step, 1.0, rtol=1e-8)
    mean, variance = predict_row(codes, weight, terms)
    np.testing.assert_allclose((grid[::100] @ density) * step, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose((grid[::100] ** 2 @ density) * step - mean**2, variance, rtol=1e-7)


@pytest.mark.parametrize("optimizer", ["exact", "local_search", "double_greedy"])
def test_lists_begin_with_a_code_no_worse_than_the_one_found(optimizer):
    rng = np.random.default_rng(2)
    model = random_model(rng, 25, 12, 0.4, optimizer=optimizer, node_budget=50)
    X = random_rows(rng, model, 60, 0.2)
    observations = Observations.from_array(X)
    found, _ = model.assign(observations, Threads())
    lists = list_piece(model.task(observations), slice(0, 60))
    assert (np.diff(lists.start) < MOST_CODES).any()
    assert lists.start[0] == 0 and lists.start[-1] == len(lists.codes) == len(lists.weight)
    for n, code in enumerate(found):
        own = slice(lists.start[n], lists.start[n + 1])
        weight = lists.weight[own]
        assert weight.sum() == pytest.approx(1.0) and weight[0] == weight.max()
        if weight.size == MOST_CODES:  # too many codes: they are moved
            continue
        # The code found is in the list, or something better is.
        x = X[n][None]
        seen = ~np.isnan(X[n])
        log_odds = np.log(model.counts / (model.n_samples + 1.0 - model.counts))

        def value(z, x=x, seen=seen, log_odds=log_odds):
            residual = (x - model.offset - z @ model.mean)[0, seen]
            spread = (z @ model.variance)[seen]
            return z @ log_odds - 0.5 * (residual**2 + spread).sum() / model.noise_std**2

        assert value(lists.codes[own][0]) >= value(code) - 1e-9


@pytest.fixture(scope="module")
def planted():
    """Bits in doubt: factors that overlap, and noise as large as they are."""
    rng = np.random.default_rng(0)
    A = np.abs(rng.normal(size=(6, 20))) * (rng.random((6, 20)) < 0.5)
    Z = (rng.random((400, 6)) < 0.4).astype(np.uint8)
    return Z @ A + rng.normal(size=(400, 20)) * 0.7 + 1.0, Z, A


@pytest.fixture(scope="module")
def model(planted):
    return MEIBP(6, random_state=0, n_jobs=1, n_init=3).fit(planted[0])


def test_names(planted, model):
    X = planted[0].copy()
    X[::2, 3] = np.nan
    probability = model.probabilities(X)
    assert probability.shape == (400, model.n_components_)
    assert probability.min() >= 0.0 and probability.max() <= 1.0 + 1e-12
    assert ((probability > 0.05) & (probability < 0.95)).any()
    filled, std = model.impute(X, return_std=True)
    np.testing.assert_array_equal(filled, model.impute(X))
    np.testing.assert_array_equal(std > 0, np.isnan(X))
    assert (std[::2, 3] > np.broadcast_to(model.noise_std_, 20)[3]).all()
    frame, spread = model.impute(pd.DataFrame(X), return_std=True)
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(spread, std)
    stored = sparse.csr_array(X)
    filled_stored, std_stored = model.impute(stored, return_std=True)
    np.testing.assert_allclose(filled_stored.toarray(), filled, rtol=1e-9)
    np.testing.assert_allclose(std_stored.toarray(), std, rtol=1e-9)
    assert std_stored.nnz == 200
    np.testing.assert_allclose(
        model.score_samples(stored), model.score_samples(X), rtol=1e-9, atol=1e-9
    )


def test_answers_do_not_depend_on_threads_or_other_rows(planted, model):
    X = planted[0].copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    two = ibp.MEIBP(n_jobs=2).set_params(**(model.get_params() | {"n_jobs": 2}))
    two.__dict__.update({k: v for k, v in model.__dict__.items() if k.endswith("_")})
    for name in ("probabilities", "score_samples", "impute"):
        one_answer = getattr(model, name)(X)
        np.testing.assert_array_equal(getattr(two, name)(X), one_answer)
        np.testing.assert_allclose(
            getattr(model, name)(X[300:]), one_answer[300:], rtol=1e-9, atol=1e-9
        )


def test_a_model_without_features_has_its_noise_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    model = MEIBP(1, random_state=0, time_limit=0.0, tol=0).fit(X)
    model.components_ = np.zeros((0, 4))
    model.components_std_ = np.zeros((0, 4))
    model.feature_counts_ = np.zeros(0, dtype=np.int64)
    X[0, 0] = np.nan
    assert model.probabilities(X).shape == (40, 0)
    filled, std = model.impute(X, return_std=True)
    assert filled[0, 0] == model.intercept_[0]
    assert std[0, 0] == pytest.approx(np.broadcast_to(model.noise_std_, 4)[0], rel=1e-4)


@pytest.mark.parametrize("label", sorted(ibp.METHODS))
def test_every_method_says_how_sure_its_imputation_is(label, planted):
    X = planted[0][:60] - planted[0].min()
    X[:5, 2] = np.nan
    settings = {} if label in ("meibp", "meibp-default", "bs-ibp") else {"max_iter": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        fitted = ibp.fit(X, label, n_components=3, random_state=0, **settings)
    filled, std = fitted.impute(X, return_std=True)
    assert (std[:5, 2] >= 0.999 * np.broadcast_to(fitted.noise_std_, 20)[2]).all() or hasattr(
        fitted, "samples_"
    )
    assert np.isfinite(filled).all() and (std[5:] == 0).all()
    has_bits = label != "bnmf"
    assert hasattr(fitted, "probabilities") == has_bits
    if has_bits:
        assert fitted.probabilities(X).shape == (60, fitted.n_components_)


def test_own_score_of_hidden_entries_goes_by_the_codes_of_the_fit(planted):
    held_out = HeldOut.of(planted[0], 0, rows="random")
    fitted = MEIBP(6, random_state=0, n_jobs=1).fit(held_out.training)
    new_rows = fitted.score_heldout(held_out.training, planted[0])
    assert held_out.own_score(fitted) == pytest.approx(new_rows, abs=0.01)
    explanation = fitted._explain_training()
    assert held_out.own_score(fitted) > held_out.score(explanation, explanation.noise_std)


# Training rows


@pytest.mark.parametrize("label", sorted(ibp.METHODS))
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_the_rows_of_a_fit_are_known_again(label, kind, planted):
    X = planted[0][:60] - planted[0].min()
    if not label.endswith("aibp") and label != "bs-ibp":
        X[:5, 2] = np.nan
    elif kind == "sparse":
        return
    X = {"dense": X, "float32": X.astype(np.float32), "sparse": sparse.csr_array(X)}[kind]
    settings = {} if label in ("meibp", "meibp-default", "bs-ibp") else {"max_iter": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        fitted = ibp.fit(X, label, n_components=3, random_state=0, **settings)

    def own(X):
        return training_codes_of(fitted, X.shape[0], [(slice(0, X.shape[0]), X)])

    np.testing.assert_array_equal(own(X), fitted._training_codes())
    assert own(X[::-1]) is None and own(X[:-1]) is None
    assert own(X * X.dtype.type(1.001)) is None


def test_rows_of_a_fit_keep_their_codes_on_pages(planted, model):
    reader = DataReader(model, planted[0])
    np.testing.assert_array_equal(reader.codes(np.array([3, 5]), None), model.assignments_[[3, 5]])
    other = DataReader(model, planted[0][:100])
    assert other.training_codes is None
    matrix = other.matrix(slice(0, 7))
    np.testing.assert_array_equal(other.codes(slice(0, 7), matrix), model.transform(planted[0][:7]))


def test_transform_ends_as_high_as_the_fit():
    rng = np.random.default_rng(3)
    A = np.abs(rng.normal(size=(30, 40)))  # features that overlap: searches end unproven
    Z = rng.random((300, 30)) < 0.4
    X = Z @ A + rng.normal(size=(300, 40)) * 1.5
    fitted = MEIBP(30, random_state=0, n_jobs=1, init="random", node_budget=100).fit(X)
    frozen = fitted._frozen()

    def value(codes):
        z = codes.astype(float)
        log_odds = np.log(frozen.counts / (301.0 - frozen.counts))
        squares = (X - frozen.offset - z @ frozen.mean) ** 2 + z @ frozen.variance
        noise = np.broadcast_to(frozen.noise_std, 40)
        return z @ log_odds - 0.5 * squares @ noise**-2.0

    gain = value(fitted.transform(X)) - value(fitted.assignments_)
    assert gain.mean() >= 0.0
    assert (gain < -1e-6).mean() < 0.05


# Calibration, on data that the model describes


def within_binomial(share, expected, n, slack=0.02):
    return abs(share - expected) <= 4.0 * np.sqrt(expected * (1.0 - expected) / n) + slack


def test_bits_are_right_as_often_as_they_are_said_to_be(planted, model):
    X, Z, A = planted
    assert model.n_components_ == 6
    similarity = model.components_ @ A.T
    similarity /= np.linalg.norm(model.components_, axis=1)[:, None] * np.linalg.norm(A, axis=1)
    true = Z[:, similarity.argmax(axis=1)]
    assert len(set(similarity.argmax(axis=1))) == 6
    p = model.probabilities(X)
    sure, right = np.maximum(p, 1.0 - p), (p > 0.5) == true
    asked = (sure > 0.85) & (sure < 0.95)
    assert asked.sum() > 100
    assert within_binomial(right[asked].mean(), sure[asked].mean(), asked.sum())
    assert right[sure > 0.999].mean() > 0.99


def test_intervals_of_hidden_entries_cover_what_they_should(planted):
    X = planted[0]
    hidden = np.random.default_rng(2).random(X.shape) < 0.1
    seen = np.where(hidden, np.nan, X)
    fitted = MEIBP(6, random_state=0, n_jobs=1, n_init=3).fit(seen)
    filled, std = fitted.impute(seen, return_std=True)
    away = np.abs(filled - X)[hidden] / std[hidden]
    assert within_binomial((away < 1.645).mean(), 0.9, hidden.sum())
    assert (filled - X)[hidden].std() < 0.9 * X[hidden].std()
