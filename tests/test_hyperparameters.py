from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy import integrate, stats

from ibp.data import all_rows
from ibp.model import Bound, Factors, GammaPosterior, Known, Statistics
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from problems import missing_kinds, priors, random_state_parts, seeds


def test_moments_and_divergence_by_integration():
    q = GammaPosterior(prior_shape=1.5, prior_rate=0.7, shape=4.0, rate=2.5)
    density, prior = stats.gamma(4.0, scale=1 / 2.5), stats.gamma(1.5, scale=1 / 0.7)

    def expectation(f):
        return integrate.quad(lambda t: density.pdf(t) * f(t), 0, 30)[0]

    assert q.mean == pytest.approx(expectation(lambda t: t))
    assert q.mean_log == pytest.approx(expectation(np.log))
    assert q.divergence() == pytest.approx(
        expectation(lambda t: density.logpdf(t) - prior.logpdf(t))
    )


def test_no_divergence_from_itself():
    assert GammaPosterior(2.0, 3.0, 2.0, 3.0).divergence() == pytest.approx(0.0, abs=1e-12)
    assert Known(2.0).divergence() == 0.0
    assert Known(2.0).updated(5.0, 7.0) == Known(2.0)


def test_a_start_has_the_mean_it_was_given():
    q = GammaPosterior.starting_at(0.3, (1.0, 2.0), shape_gain=50.0)
    assert q.mean == pytest.approx(0.3)
    assert q.shape == 51.0


@given(seed=seeds, missing=missing_kinds, prior=priors)
def test_the_update_is_where_the_bound_is_highest(seed, missing, prior):
    observations, Z, statistics, factors, start = random_state_parts(seed, missing, learned=True)
    classes = EQUIVALENCE_CLASSES[prior]
    begin = Bound(observations, statistics, factors, start, classes, columns=Z.T)

    def bound(hyperparameters):
        return replace(begin, hyperparameters=hyperparameters).evidence().total

    updated = begin.updated_hyperparameters()
    highest = bound(updated)
    assert highest >= bound(start) - 1e-9 * abs(highest)
    for name in ("noise_precision", "factor_precision", "alpha"):
        q = getattr(updated, name)
        for field, factor in (("shape", 1.02), ("shape", 0.98), ("rate", 1.02), ("rate", 0.98)):
            moved = type(q)(**{**vars(q), field: getattr(q, field) * factor})
            other = type(updated)(**{**vars(updated), name: moved})
            assert bound(other) < highest


def test_shapes_grow_as_the_supplement_says():
    observations, _, statistics, factors, start = random_state_parts(5, "scattered", learned=True)
    updated = Bound(observations, statistics, factors, start).updated_hyperparameters()
    n_observed = int((~np.isnan(all_rows(observations.source))).sum())
    assert updated.noise_precision.shape == 1.0 + n_observed / 2
    assert updated.factor_precision.shape == 1.0 + 3 * 5 / 2
    assert updated.alpha.shape == 1.0 + 3
    assert updated.alpha.rate == pytest.approx(1.0 + sum(1 / i for i in range(1, 9)))


def test_a_feature_nobody_has_does_not_count():
    observations, Z, statistics, factors, start = random_state_parts(5, "scattered", learned=True)
    expected = Bound(observations, statistics, factors, start).updated_hyperparameters()
    wider = np.insert(Z, 1, 0, axis=1)
    more = Factors(*(np.insert(a, 1, a[0], axis=0) for a in vars(factors).values()))
    wide = Statistics.from_codes(observations, wider)
    found = Bound(observations, wide, more, start).updated_hyperparameters()
    for name in ("noise_precision", "factor_precision", "alpha"):
        assert getattr(found, name).mean == pytest.approx(getattr(expected, name).mean, rel=1e-12)
