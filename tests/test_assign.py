"""New rows of a fitted model get the best of all codes, whatever the signs of the factors."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ibp.data import Observations
from ibp.methods.meibp.assign import MOST_KNOWN_CODES, FrozenModel, some_codes
from ibp.parallel import Threads


def objective(model, x, z):
    """The row objective, term by term (Eq. 17 with frozen factors)."""
    seen = ~np.isnan(x)
    residual = (x - model.offset - z @ model.mean)[seen]
    spread = (z @ model.variance)[seen]
    log_odds = np.log(model.counts / (model.n_samples + 1.0 - model.counts))
    precision = np.broadcast_to(model.noise_std, x.shape)[seen] ** -2.0
    return z @ log_odds - 0.5 * (residual**2 + spread) @ precision


def random_model(rng, n_components, n_features, signed, noise_std):
    mean = rng.normal(size=(n_components, n_features))
    return FrozenModel(
        mean=mean if signed else np.abs(mean),
        variance=rng.uniform(0.0, 0.1, size=mean.shape),
        offset=rng.normal(size=n_features),
        counts=rng.integers(1, 50, size=n_components),
        n_samples=50,
        noise_std=noise_std,
        optimizer="exact",
        thorough=True,
        node_budget=100_000,
    )


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("n_features", [3, 8])
def test_the_exact_search_equals_brute_force(signed, n_features, missing):
    rng = np.random.default_rng(n_features)
    for noise_std in (0.3, 1.0, 3.0):
        model = random_model(rng, 7, n_features, signed, noise_std)
        X = rng.integers(0, 2, size=(60, 7)) @ model.mean + model.offset
        X += rng.normal(scale=noise_std, size=X.shape)
        X[rng.random(X.shape) < missing] = np.nan
        X[np.isnan(X).all(axis=1), 0] = 0.0
        observations = Observations.from_array(X)
        found, losses = model.assign(observations, Threads(), with_losses=True)
        every = np.array(list(product([0, 1], repeat=7)))
        for x, z, loss in zip(X, found, losses, strict=True):
            values = np.array([objective(model, x, other) for other in every])
            value = objective(model, x, z)
            assert value == pytest.approx(values.max(), abs=1e-8)
            for k in range(7):
                flipped = z.copy()
                flipped[k] = 1 - z[k]
                assert value - objective(model, x, flipped) == pytest.approx(loss[k], abs=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_hard_rows_begin_at_known_codes(missing):
    # Many more features than columns and little noise: the budget proves nothing.
    rng = np.random.default_rng(0)
    model = replace(random_model(rng, 40, 8, False, 0.02), node_budget=50)
    codes = (rng.random((100, 40)) < 0.3).astype(np.uint8)
    X = codes @ model.mean + model.offset + 0.02 * rng.normal(size=(100, 8))
    X[rng.random(X.shape) < missing] = np.nan
    observations = Observations.from_array(X)

    def worse(frozen):
        found = frozen.assign(observations, Threads())[0]
        pairs = zip(X, found, codes, strict=True)
        return sum(objective(model, x, z) < objective(model, x, own) - 1e-6 for x, z, own in pairs)

    assert worse(model) > 3
    assert worse(replace(model, known_codes=some_codes(codes))) == 0
    # Codes that are of no use do no harm.
    other = (rng.random((50, 40)) < 0.5).astype(np.uint8)
    found = [
        frozen.assign(observations, Threads())[0]
        for frozen in (model, replace(model, known_codes=other))
    ]
    for x, without, beside in zip(X, *found, strict=True):
        assert objective(model, x, beside) >= objective(model, x, without) - 1e-6


def test_known_codes_do_no_harm_where_one_column_is_known_exactly():
    # What a row has without that column is next to nothing beside what it has with it.
    rng = np.random.default_rng(0)
    noise_std = np.r_[1e-8, np.ones(7)]
    model = replace(random_model(rng, 40, 8, False, 1.0), node_budget=50, noise_std=noise_std)
    codes = (rng.random((60, 40)) < 0.3).astype(np.uint8)
    X = codes @ model.mean + model.offset + 0.02 * rng.normal(size=(60, 8))
    X[::2, 0] = np.nan
    X[rng.random(X.shape) < 0.1] = np.nan
    observations = Observations.from_array(X)
    found = [
        frozen.assign(observations, Threads())[0]
        for frozen in (model, replace(model, known_codes=some_codes(codes)))
    ]
    for x, without, beside in zip(X, *found, strict=True):
        if np.isnan(x[0]):
            assert objective(model, x, beside) >= objective(model, x, without) - 1e-6


def test_known_codes_are_some_of_many():
    rows = np.random.default_rng(0).integers(0, 2, size=(5000, 3)).astype(np.uint8)
    assert len(some_codes(rows)) == 8
    many = np.random.default_rng(0).integers(0, 2, size=(5000, 30)).astype(np.uint8)
    assert 500 < len(some_codes(many)) <= MOST_KNOWN_CODES
    assert some_codes(many[:0]).shape == (0, 30)
