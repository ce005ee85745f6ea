import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import naive
from ibp.model import ibp_prior
from problems import seeds


@pytest.mark.parametrize("n_samples", [1, 2, 3])
@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_mass_of_classes_with_k_features_is_poisson(n_samples, prior, alpha):
    rate = alpha * ibp_prior.harmonic_number(n_samples)
    columns = [c for c in itertools.product((0, 1), repeat=n_samples) if any(c)]
    for k in range(5):
        # Shifted classes are ordered tuples of nonempty columns, left-ordered ones multisets.
        if prior == "shifted":
            classes = itertools.product(columns, repeat=k)
        else:
            classes = itertools.combinations_with_replacement(columns, k)
        mass = 0.0
        for chosen in classes:
            Z = np.array(chosen, dtype=np.uint8).reshape(k, n_samples).T
            mass += math.exp(ibp_prior.EQUIVALENCE_CLASSES[prior].log_probability(Z, alpha))
        assert mass == pytest.approx(stats.poisson(rate).pmf(k), rel=1e-10)


@given(seed=seeds, prior=st.sampled_from(["shifted", "lof"]))
def test_agrees_with_the_formula(seed, prior):
    rng = np.random.default_rng(seed)
    Z = (rng.random((rng.integers(1, 7), rng.integers(0, 6))) < 0.4).astype(np.uint8)
    classes = ibp_prior.EQUIVALENCE_CLASSES[prior]
    value = classes.log_probability(Z, 1.7)
    assert value == pytest.approx(naive.log_prior(Z, 1.7, prior), rel=1e-12)
    counts, columns = Z.sum(axis=0).astype(np.int64), Z.T  # the columns themselves name them too
    again = classes.log_prior(counts, Z.shape[0], alpha=1.7, columns=columns)
    assert again == pytest.approx(value, rel=1e-14)


def test_empty_columns_contribute_exactly_nothing():
    counts = np.array([3, 1, 2])
    with_empty = np.array([3, 0, 1, 2, 0, 0])
    log_prior = ibp_prior.ShiftedClasses().log_prior
    assert log_prior(counts, 4, alpha=2.0) == log_prior(with_empty, 4, alpha=2.0)


def test_left_ordered_form_needs_to_know_equal_columns():
    with pytest.raises(ValueError, match="columns are equal"):
        ibp_prior.LeftOrderedClasses().log_prior(np.array([1]), 2, alpha=1.0)


def test_harmonic_number():
    assert ibp_prior.harmonic_number(0) == 0.0
    assert ibp_prior.harmonic_number(5) == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5)


def test_draws_follow_the_process():
    alpha, n_samples, n_draws = 2.0, 6, 4000
    rng = np.random.default_rng(0)
    draws = [ibp_prior.sample_assignments(alpha, n_samples, rng) for _ in range(n_draws)]
    n_features = np.array([Z.shape[1] for Z in draws])
    rate = alpha * ibp_prior.harmonic_number(n_samples)
    assert n_features.mean() == pytest.approx(rate, abs=4 * np.sqrt(rate / n_draws))
    assert n_features.var() == pytest.approx(rate, rel=0.1)
    row_sums = np.array([Z.sum(axis=1) for Z in draws])
    # Every row has Poisson(alpha) features, whatever its place.
    np.testing.assert_allclose(row_sums.mean(axis=0), alpha, atol=4 * np.sqrt(alpha / n_draws))
    assert all(Z.any(axis=0).all() for Z in draws if Z.shape[1])


def test_draws_match_the_left_ordered_probabilities():
    alpha, n_draws = 1.0, 20_000
    rng = np.random.default_rng(1)
    seen: dict[tuple, int] = {}
    for _ in range(n_draws):
        Z = ibp_prior.sample_assignments(alpha, 2, rng)
        key = tuple(sorted(tuple(c) for c in Z.T.tolist()))
        seen[key] = seen.get(key, 0) + 1
    for key in [(), ((1, 1),), ((0, 1),), ((0, 1), (1, 0)), ((1, 1), (1, 1))]:
        Z = np.array(key, dtype=np.uint8).reshape(len(key), 2).T
        expected = n_draws * math.exp(naive.log_prior(Z, alpha, "lof"))
        assert abs(seen.get(key, 0) - expected) < 4.5 * np.sqrt(expected)


def test_sampling_rejects_nonsense():
    with pytest.raises(ValueError, match="alpha"):
        ibp_prior.sample_assignments(0.0, 3)
    with pytest.raises(ValueError, match="n_samples"):
        ibp_prior.sample_assignments(1.0, -1)
    assert ibp_prior.sample_assignments(1.0, 0, 0).shape == (0, 0)
