"""Beam search: exact when unbounded, and its quick scores against the direct ones."""

from collections import Counter
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.special import betaln, gammaln

from ibp import BeamSearchIBP
from ibp.data import Observations, all_rows, summarize
from ibp.datasets import make_block_images
from ibp.loop import run
from ibp.methods.beam_search.beam import BeamPass, Limits
from ibp.methods.beam_search.method import BeamSearchMethod, Evaluator
from ibp.methods.beam_search.naive import dense_log_joint
from ibp.methods.context import Context
from ibp.model import Hyperparameters
from ibp.starts.codes_and_factors import CodesAndFactors
from problems import random_data, random_hyperparameters, stop_after

CASES = [("none", None), ("none", 2.0), ("block", None), ("scattered", 2.0)]


def problem(seed, n, d, missing="none", intercept=False, learned=False):
    rng = np.random.default_rng(seed)
    X = random_data(rng, n, d, missing=missing)
    summary = summarize(X)
    centre = summary.means if intercept else None
    observations = Observations.from_summary(X, summary, centre=centre)
    return observations, random_hyperparameters(rng, learned, 2, d, observations.n_observed)


@cache
def classes(n, most):
    """One member of every left-ordered class of up to ``most`` columns, and ln prod of K_h!."""
    histories = [h for h in product([0, 1], repeat=n) if any(h)]
    members, log_sizes = [], []
    for k in range(most + 1):
        for columns in combinations_with_replacement(histories, k):
            Z = np.zeros((n, most), dtype=np.uint8)
            Z[:, :k] = np.array(columns, dtype=np.uint8).reshape(k, n).T
            members.append(Z)
            log_sizes.append(sum(gammaln(m + 1) for m in Counter(columns).values()))
    return np.array(members), np.array(log_sizes)


def class_scores(observations, hyper, intercept_std, most):
    """Scores of all classes of up to ``most`` columns, from the definitions."""
    n = observations.n_samples
    Z, log_sizes = classes(n, most)
    values = hyper.values()
    counts = Z.sum(axis=1).astype(float)
    used = counts > 0
    per_feature = np.log(values.alpha) + betaln(n - counts + 1, np.maximum(counts, 1))
    total = (used * per_feature).sum(axis=1) - log_sizes
    total -= values.alpha * sum(1.0 / i for i in range(1, n + 1))
    wide = Z.astype(float)
    C = wide @ wide.transpose(0, 2, 1) / values.factor_precision + (intercept_std or 0.0) ** 2
    C += np.eye(n) / values.noise_precision
    X = all_rows(observations.source) - observations.layout.restore(observations.centre)
    for x in X.T:
        seen = ~np.isnan(x)
        part = C[:, seen][:, :, seen]
        total -= 0.5 * np.linalg.slogdet(2 * np.pi * part)[1]
        total -= 0.5 * (x[seen] * np.linalg.solve(part, x[seen][:, None])[:, :, 0]).sum(axis=1)
    return total


def most_probable(observations, hyper, intercept_std, most):
    """The best class of up to ``most`` columns and its score."""
    scores = class_scores(observations, hyper, intercept_std, most)
    Z = classes(observations.n_samples, most)[0][scores.argmax()]
    return Z[:, Z.any(axis=0)], scores.max()


def score(observations, Z, hyper, intercept_std):
    return evaluator(observations, intercept_std).evaluate(Z, hyper).score


def evaluator(observations, intercept_std):
    return Evaluator(Context(observations), intercept_std)


def fitted(observations, hyper, seed=0, **settings):
    method = BeamSearchMethod(hyper, **settings)
    context = Context(observations, np.random.default_rng(seed))
    state = method.init(context)
    return state, method.step(context, state)


def passed(observations, hyper, intercept_std, limits, rows=None, known_score=-np.inf):
    """A pass that has placed some rows in random order."""
    order = np.random.default_rng(0).permutation(observations.n_samples)
    search = BeamPass(observations, order, hyper.values(), intercept_std, limits, known_score)
    for _ in range(observations.n_samples if rows is None else rows):
        search.place_next()
    return search


def columns_of(Z):
    """Z up to the order of its columns."""
    return sorted(tuple(column) for column in Z.T)


@pytest.mark.parametrize("missing,intercept_std", CASES)
@pytest.mark.parametrize("n,d,most", [(3, 1, 5), (3, 2, 5), (4, 2, 4)])
def test_unbounded_beam_finds_the_most_probable_class(n, d, most, missing, intercept_std):
    for seed in range(3):
        observations, hyper = problem(seed, n, d, missing, intercept_std is not None)
        order = ("given", "marginal", "random")[seed]
        state, report = fitted(
            observations, hyper, beam_width=None, intercept_std=intercept_std, order=order
        )
        best, expected = most_probable(observations, hyper, intercept_std, most)
        if state.n_components <= most:
            assert report.evidence == pytest.approx(expected, rel=1e-10)
            assert columns_of(state.assignments) == columns_of(best)
        else:
            assert report.evidence >= expected
        assert report.finished


@pytest.mark.parametrize("missing,intercept_std", CASES)
def test_unbounded_pass_meets_every_class_that_is_good_enough(missing, intercept_std):
    """Each once, with its own score, whatever the order of the rows."""
    for seed in range(3):
        observations, hyper = problem(seed, 4, 2, missing, intercept_std is not None)
        expected = np.sort(class_scores(observations, hyper, intercept_std, 4))[::-1]
        floor = expected[0] - 4.0
        search = passed(observations, hyper, intercept_std, Limits(None, 4), known_score=floor)
        n = np.count_nonzero(expected > floor)
        assert search.n_hypotheses >= n > 1
        np.testing.assert_allclose(np.sort(search.beam.scores)[::-1][:n], expected[:n], rtol=1e-9)
        assert (search.beam.scores[n:] < floor + 1e-6).all()


@pytest.mark.parametrize("alpha", [0.3, 3.0, 8.0])
def test_unbounded_beam_with_many_features(alpha):
    """Large alpha: equal columns and several new features in a row."""
    rng = np.random.default_rng(1)
    observations = Observations.from_array(rng.normal(size=(3, 2)) * 2)
    hyper = Hyperparameters.known(noise_std=0.7, factor_std=0.5, alpha=alpha)
    state, report = fitted(observations, hyper, beam_width=None)
    _, best = most_probable(observations, hyper, None, 6)
    assert report.evidence >= best - 1e-9
    if state.n_components <= 6:
        assert report.evidence == pytest.approx(best, rel=1e-10)


@pytest.mark.parametrize("missing,intercept_std", CASES)
@pytest.mark.parametrize("enumerated", [0, 10])
def test_scores_and_factors_of_all_hypotheses(missing, intercept_std, enumerated):
    for seed in range(3):
        observations, hyper = problem(seed, 14, 5, missing, intercept_std is not None)
        search = passed(observations, hyper, intercept_std, Limits(7, None, enumerated), 10)
        assert search.n_hypotheses == 7
        rows = search.rows.between(0, 10)
        prefix = observations.take(search.rows.order[:10])
        seen = set()
        for slot in range(7):
            Z = search.assignments(slot)
            assert Z.any(axis=0).all()
            seen.add(tuple(columns_of(Z)))
            parts = (*rows, observations.layout.group_start, Z, hyper.values(), intercept_std)
            assert search.beam.scores[slot] == pytest.approx(dense_log_joint(*parts), rel=1e-10)
            fit = evaluator(prefix, intercept_std).evaluate(Z, hyper)
            assert search.beam.scores[slot] == pytest.approx(fit.score, rel=1e-10)
            k = search.beam.n_active[slot]
            mean = observations.layout.restore(search.beam.mean[slot, :k])
            np.testing.assert_allclose(mean, prefix.layout.restore(fit.posterior.mean), atol=1e-9)
            begin = observations.layout.group_start
            for g in range(observations.layout.n_groups):
                A = search.beam.mean[slot, :k, begin[g] : begin[g + 1]]
                gram = search.beam.gram[slot, g, :k, :k]
                np.testing.assert_allclose(gram, A @ A.T, atol=1e-9)
        assert len(seen) == 7  # no class twice


@pytest.mark.parametrize("missing,intercept_std", CASES)
def test_naive_scores_give_the_same_beam(missing, intercept_std):
    for seed in range(2):
        observations, hyper = problem(seed, 4, 3, missing, intercept_std is not None)
        limits = [Limits(4, 3, 10, scoring) for scoring in ("incremental", "naive")]
        quick, naive = (passed(observations, hyper, intercept_std, limit) for limit in limits)
        np.testing.assert_allclose(quick.beam.scores, naive.beam.scores, rtol=1e-10)
        np.testing.assert_array_equal(quick.completed(), naive.completed())


def test_naive_unbounded_method():
    observations, hyper = problem(3, 3, 2)
    results = [
        fitted(observations, hyper, beam_width=None, n_components=2, scoring=scoring)[1].evidence
        for scoring in ("incremental", "naive")
    ]
    assert results[0] == pytest.approx(results[1], rel=1e-12)


def test_no_drift_over_many_rows():
    rng = np.random.default_rng(0)
    Z = (rng.random((1500, 4)) < 0.4).astype(np.uint8)
    X = Z @ rng.normal(size=(4, 8)) + 0.1 * rng.normal(size=(1500, 8)) + 100.0
    observations = Observations.from_array(X, centre=X.mean(axis=0))
    hyper = Hyperparameters.known(noise_std=0.1, factor_std=1.0, alpha=1.0)
    search = passed(observations, hyper, 50.0, Limits(5))
    fit = evaluator(observations, 50.0).evaluate(search.completed(), hyper)
    assert search.beam.scores[0] == pytest.approx(fit.score, rel=1e-9)
    k = search.beam.n_active[0]
    np.testing.assert_allclose(search.beam.mean[0, :k], fit.posterior.mean, atol=1e-8)
    np.testing.assert_allclose(
        search.beam.gram[0, 0, :k, :k], fit.posterior.mean @ fit.posterior.mean.T, atol=1e-7
    )


@pytest.mark.parametrize("order", ["given", "marginal", "random"])
@pytest.mark.parametrize("enumerated", [0, 10])
def test_planted_features_are_found_in_place(order, enumerated):
    draw = make_block_images(60, noise_std=0.3, random_state=0)
    observations = Observations.from_array(draw.data)
    hyper = Hyperparameters.known(noise_std=0.3, factor_std=0.5, alpha=1.0)
    state, report = fitted(
        observations, hyper, beam_width=60, order=order, max_subset_enumeration=enumerated
    )
    assert columns_of(state.assignments) == columns_of(draw.assignments)
    assert report.n_components == 4
    assert report.n_changed == draw.assignments.sum()
    components = observations.layout.restore(state.fit.factor_mean)
    match = [columns_of(draw.assignments).index(tuple(z)) for z in state.assignments.T]
    images = draw.factors[np.lexsort(draw.assignments[::-1])]
    np.testing.assert_allclose(components, images[match], atol=0.35)
    deviation = state.fit.factor_std(observations)
    assert deviation.shape == components.shape and (deviation > 0).all()


def test_marginal_order_begins_with_the_least_likely_row():
    observations = Observations.from_array(np.array([[1.0, 0.0], [3.0, 1.0], [2.0, np.nan]]))
    method = BeamSearchMethod(Hyperparameters.known(noise_std=1.0, factor_std=1.0, alpha=1.0))
    context = Context(observations)
    np.testing.assert_array_equal(method.row_order(context, method.init(context)), [1, 2, 0])


@pytest.mark.parametrize("beam_width", [3, None])
def test_limit_of_features(beam_width):
    observations, hyper = problem(5, 4, 2)
    for limit in (0, 1, 2):
        state, _ = fitted(observations, hyper, beam_width=beam_width, n_components=limit)
        assert state.n_components <= limit
        if beam_width is None:
            _, best = most_probable(observations, hyper, None, limit)
            assert state.fit.score == pytest.approx(best, rel=1e-10)
    start = CodesAndFactors(np.eye(4))
    with pytest.raises(ValueError, match="n_components allows 3"):
        fitted(observations, hyper, n_components=3, start=start)


@pytest.mark.parametrize("missing,intercept_std", CASES)
@pytest.mark.parametrize("checks", [0, 1, 12])
def test_stopped_search_leaves_a_usable_state(missing, intercept_std, checks):
    observations, hyper = problem(2, 30, 5, missing, intercept_std is not None)
    method = BeamSearchMethod(hyper, intercept_std, beam_width=3)
    context = Context(observations, should_stop=stop_after(checks))
    state = method.init(context)
    before = state.fit.score
    report = method.step(context, state)
    assert report.evidence >= before
    assert state.assignments.shape == (30, report.n_components)
    assert state.assignments.any(axis=0).all()
    assert report.evidence == score(observations, state.assignments, hyper, intercept_std)


def test_rows_left_over_get_known_features():
    draw = make_block_images(80, noise_std=0.2, random_state=1)
    observations = Observations.from_array(draw.data)
    hyper = Hyperparameters.known(noise_std=0.2, factor_std=0.5, alpha=1.0)
    search = passed(observations, hyper, None, Limits(10), 40)
    assert columns_of(search.completed()) == columns_of(draw.assignments)


def test_start_wins_unless_it_is_beaten():
    draw = make_block_images(60, noise_std=0.3, random_state=0)
    observations = Observations.from_array(draw.data)
    hyper = Hyperparameters.known(noise_std=0.3, factor_std=0.5, alpha=1.0)
    start = CodesAndFactors(np.pad(draw.assignments.astype(np.float64), ((0, 0), (0, 1))))
    state, report = fitted(observations, hyper, beam_width=1, n_components=4, start=start)
    assert report.evidence >= score(observations, draw.assignments, hyper, None)
    np.testing.assert_array_equal(state.assignments, draw.assignments)
    poor = CodesAndFactors(np.ones((60, 1)))
    state, report = fitted(observations, hyper, beam_width=10, start=poor)
    assert columns_of(state.assignments) == columns_of(draw.assignments)


def test_learned_hyperparameters():
    draw = make_block_images(150, noise_std=0.3, random_state=2)
    X = draw.data + 3.0
    observations = Observations.from_array(X, centre=X.mean(axis=0))
    hyper = random_hyperparameters(np.random.default_rng(0), True, 4, 36, observations.n_observed)
    method = BeamSearchMethod(hyper, intercept_std=5.0)
    result = run(method, observations, [np.random.default_rng(0)], max_iter=20, tol=1e-4)
    assert result.ending == "converged" and 1 < len(result.history.sweeps) <= 5
    assert np.all(np.diff(result.history.as_arrays()["evidence"]) >= 0)
    assert result.state.fit.hyperparameters.noise_std == pytest.approx(0.3, rel=0.1)
    assert result.state.n_components >= 4
    absolute = result.state.fit.intercept_mean + observations.centre
    assert absolute.shape == (36,)
    fit = evaluator(observations, 5.0)
    again = fit.evaluate(result.state.assignments, result.state.fit.hyperparameters)
    assert again.score == pytest.approx(result.evidence, rel=1e-12)


def test_same_seed_same_answer():
    observations, hyper = problem(4, 40, 6, "scattered")
    first, second, other = (
        fitted(observations, hyper, seed, order="random", beam_width=4)[0] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.assignments, second.assignments)
    assert first.fit.score == second.fit.score
    assert other.assignments.shape[0] == 40


def test_single_precision_and_rows_with_nothing():
    observations, hyper = problem(1, 12, 5, "heavy")
    small = Observations.from_array(all_rows(observations.source).astype(np.float32))
    double, single = (fitted(data, hyper)[0] for data in (observations, small))
    np.testing.assert_array_equal(double.assignments, single.assignments)


def test_without_an_intercept_there_is_none():
    X = make_block_images(40, noise_std=0.1, random_state=0).data
    model = BeamSearchIBP(fit_intercept=False, max_iter=1, random_state=0).fit(X)
    assert (model.intercept_ == 0.0).all()
    np.testing.assert_allclose(
        model.inverse_transform(model.assignments_), model.assignments_ @ model.components_
    )
    assert np.std(X - model.assignments_ @ model.components_) < 0.5 * np.std(X)
