"""The models that benchmarks compare with are what they are said to be."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.decomposition import FactorAnalysis

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def peers():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import peers
    finally:
        sys.path.remove(str(BENCHMARKS))
    yield peers
    del sys.modules["peers"]


@pytest.fixture(scope="module")
def data():
    """400 rows of 9 columns with 3 factors; each column has its own mean and noise."""
    rng = np.random.default_rng(0)
    loadings, noise = rng.normal(size=(3, 9)), rng.uniform(0.3, 1.0, size=9)
    return rng.normal(size=(400, 3)) @ loadings + noise * rng.normal(size=(400, 9)) + np.arange(9)


def with_missing(data, kind):
    """A block of it missing, or single entries."""
    seen = data.copy()
    if kind == "block":
        seen[200:, 6:] = np.nan
    else:
        seen[np.random.default_rng(1).random(data.shape) < 0.2] = np.nan
    return seen


def test_factor_analysis_agrees_with_scikit_learn(peers, data):
    reference = FactorAnalysis(3, tol=1e-10, max_iter=5000, svd_method="lapack").fit(data)
    model, history = peers.fit_factors(data, 3, tol=1e-9, max_iter=3000)
    assert_allclose(history[-1] / len(data), reference.score(data), atol=1e-4)
    assert_allclose(model.noise, reference.noise_variance_, rtol=0.02)
    assert_allclose(model.mean, reference.mean_, atol=1e-3)


def test_principal_components_are_the_maximum(peers, data):
    model, history = peers.fit_factors(data, 3, shared_noise=True, tol=1e-10, max_iter=3000)
    values, vectors = np.linalg.eigh(np.cov(data.T, bias=True))
    noise = values[:-3].mean()
    covariance = vectors[:, -3:] * (values[-3:] - noise) @ vectors[:, -3:].T + noise * np.eye(9)
    best = multivariate_normal(data.mean(axis=0), covariance).logpdf(data).sum()
    assert_allclose(model.noise, noise, rtol=1e-3)
    assert_allclose(history[-1], best, atol=0.1)
    assert history[-1] < best + 1e-6


@pytest.mark.parametrize("kind", ["block", "scattered"])
@pytest.mark.parametrize("shared_noise", [False, True])
def test_missing_entries_are_integrated_out(peers, data, kind, shared_noise):
    seen = with_missing(data, kind)
    model, history = peers.fit_factors(seen, 3, shared_noise=shared_noise)
    assert (np.diff(history) > -1e-6).all()  # EM never falls
    prediction = model.predict(seen)
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    log_likelihood = 0.0
    for row, mean, std in zip(seen, prediction.mean, prediction.std, strict=True):
        there = ~np.isnan(row)
        own = covariance[np.ix_(there, there)]
        log_likelihood += multivariate_normal(model.mean[there], own).logpdf(row[there])
        weights = np.linalg.solve(own, covariance[np.ix_(there, ~there)]).T
        expected = model.mean[~there] + weights @ (row - model.mean)[there]
        left = covariance[np.ix_(~there, ~there)] - weights @ covariance[np.ix_(there, ~there)]
        assert_allclose(mean[~there], expected, atol=1e-8)
        assert_allclose(std[~there] ** 2, np.diag(left), atol=1e-8)
    assert_allclose(log_likelihood, history[-1], rtol=1e-9)


@pytest.mark.parametrize("kind", ["block", "scattered"])
def test_peers_are_better_than_the_mean(peers, data, kind):
    seen = with_missing(data, kind)
    hidden = np.isnan(seen)
    predictions = {
        "mean": peers.column_mean(seen),
        "neighbors": peers.nearest_neighbors(seen),
        "nonnegative": peers.nonnegative_factors(seen, 4),
        "analysis": peers.factor_analysis(seen, 3),
        "components": peers.principal_components(seen, 3),
    }
    error = {
        name: np.sqrt(np.mean((own.mean - data)[hidden] ** 2)) for name, own in predictions.items()
    }
    assert max(error[name] for name in error if name != "mean") < 0.9 * error["mean"]
    scaled = ((predictions["analysis"].mean - data) / predictions["analysis"].std)[hidden]
    assert_allclose(np.mean(scaled**2), 1.0, atol=0.2)


def test_a_constant_column_has_some_noise(peers, data):
    seen = np.column_stack([data, np.zeros(len(data))])
    seen[::2, -1] = np.nan
    predictions = [
        predict(seen, 3) for predict in (peers.factor_analysis, peers.nonnegative_factors)
    ]
    for prediction in [*predictions, peers.column_mean(seen)]:
        assert_allclose(prediction.mean[:, -1], 0.0, atol=0.01)
        assert prediction.std[:, -1].min() > 1e-3
