"""MEIBP step by step: every update against the bound, every row against its own problem."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibp import MEIBP
from ibp.data import Observations, all_rows
from ibp.kernels import factors as factor_kernels
from ibp.kernels.column_hashes import column_hashes
from ibp.loop import run
from ibp.methods.context import Context
from ibp.methods.meibp.method import MEIBPMethod
from ibp.methods.meibp.random_start import RandomStart
from ibp.methods.meibp.start import GivenStart
from ibp.model import (
    Bound,
    GammaPosterior,
    Hyperparameters,
    LeftOrderedClasses,
    Statistics,
    factors,
)
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from ibp.model.row_objective import row_problem
from ibp.submodular import OPTIMIZERS, maximize
from problems import (
    assert_not_lower,
    direct_bound,
    make,
    missing_kinds,
    priors,
    random_data,
    random_hyperparameters,
    seeds,
    stop_after,
)

optimizers = st.sampled_from(sorted(OPTIMIZERS))


@given(
    seed=seeds,
    missing=missing_kinds,
    prior=priors,
    learned=st.booleans(),
    name=optimizers,
    intercept=st.booleans(),
    by_column=st.booleans(),
)
@settings(max_examples=60)
def test_no_update_of_any_kind_lowers_the_bound(
    seed, missing, prior, learned, name, intercept, by_column
):
    method, context, state = make(
        seed,
        missing,
        learned,
        prior=prior,
        optimizer=name,
        intercept=intercept,
        by_column=by_column,
    )
    bound = direct_bound(method, context, state)
    for _ in range(3):
        for row in range(context.observations.n_samples):
            update_one_row(method, context, state, row)
            after = direct_bound(method, context, state)
            assert_not_lower(after, bound)
            bound = after
            if state.n_components == 0:
                return
        method.remove_features(context, state)
        after = direct_bound(method, context, state)
        assert_not_lower(after, bound)
        bound = after
        method.learn(context, state)
        after = direct_bound(method, context, state)
        assert_not_lower(after, bound)
        state.refresh(context)
        bound = direct_bound(method, context, state)
        assert_not_lower(bound, after)


@given(
    seed=seeds,
    missing=missing_kinds,
    prior=priors,
    block=st.integers(1, 3),
    by_column=st.booleans(),
)
@settings(max_examples=60)
def test_no_part_of_a_sweep_in_sequence_lowers_the_bound(seed, missing, prior, block, by_column):
    # Here q(A) and the intercept are refreshed within the compiled sweep.
    method, context, state = make(
        seed, missing, prior=prior, block_size=block, intercept=True, by_column=by_column
    )
    n_samples = context.observations.n_samples
    rows = np.arange(n_samples)
    bound = direct_bound(method, context, state)
    position, dirty = 0, False
    while position < n_samples and state.n_components > 0:
        position, _, _, dirty = method.visit_rows(
            context, state, rows, position, position + 1, dirty
        )
        after = direct_bound(method, context, state)
        assert_not_lower(after, bound)
        bound = after


def update_one_row(method, context, state, row):
    """The compiled sweep for a single row, with its refresh of q(A)."""
    _, _, _, dirty = method.visit_rows(context, state, np.array([row]), 0, 1, False)
    if dirty:
        state.refresh(context)


@given(seed=seeds, missing=missing_kinds, prior=priors)
@settings(max_examples=60)
def test_an_exact_row_is_the_best_row_of_the_model(seed, missing, prior):
    method, context, state = make(seed, missing, prior=prior, optimizer="exact")
    state.full_budget = True  # with that of a first sweep, which is none, rows are only improved
    row = seed % context.observations.n_samples
    others = np.delete(state.assignments, row, axis=0)
    x = all_rows(context.observations.source)[row, context.observations.layout.column_order]
    problem = row_problem(x, others, state.factors, state.hyperparameters, method.prior)
    best = maximize(problem, "brute_force")
    k = state.n_components
    update_one_row(method, context, state, row)
    if state.n_components == k:  # else a feature has died and been dropped
        assert problem.value(state.assignments[row]) == pytest.approx(best.value, abs=1e-8)
    else:
        assert best.chosen.sum() == state.assignments[row].sum()


@given(seed=seeds, missing=missing_kinds, prior=priors, name=optimizers, block=st.integers(1, 30))
@settings(max_examples=60)
def test_statistics_stay_those_of_the_assignments(seed, missing, prior, name, block):
    method, context, state = make(seed, missing, prior=prior, optimizer=name, block_size=block)
    for _ in range(3):
        report = method.step(context, state)
    fresh = Statistics.from_codes(context.observations, state.assignments)
    np.testing.assert_array_equal(state.statistics.gram, fresh.gram)
    np.testing.assert_array_equal(state.statistics.totals, fresh.totals)
    np.testing.assert_array_equal(state.statistics.counts, fresh.counts)
    np.testing.assert_allclose(state.statistics.cross, fresh.cross, atol=1e-9)
    np.testing.assert_array_equal(state.column_hash, column_hashes(state.assignments))
    assert (state.statistics.counts > 0).all()
    assert report.evidence == pytest.approx(direct_bound(method, context, state), rel=1e-10)


@given(
    seed=seeds,
    missing=missing_kinds,
    prior=priors,
    learned=st.booleans(),
    name=optimizers,
    block=st.one_of(st.integers(1, 30), st.just("auto")),
    shuffle=st.booleans(),
    intercept=st.booleans(),
    by_column=st.booleans(),
)
@settings(max_examples=100)
def test_no_sweep_lowers_the_bound(
    seed, missing, prior, learned, name, block, shuffle, intercept, by_column
):
    method, context, state = make(
        seed,
        missing,
        learned,
        prior=prior,
        optimizer=name,
        block_size=block,
        shuffle=shuffle,
        intercept=intercept,
        by_column=by_column,
    )
    bound = method.report(context, state, 0).evidence
    for _ in range(6):
        after = method.step(context, state).evidence
        assert_not_lower(after, bound)
        bound = after


def test_the_authors_cold_search_can_lower_the_bound():
    # It is the reason for the switch; if it never did, nothing would tell the two apart.
    fell = 0
    for seed in range(30):
        method, context, state = make(seed, row_start="empty", n=40, d=8, k=8)
        bound = method.report(context, state, 0).evidence
        for _ in range(8):
            after = method.step(context, state).evidence
            fell += after < bound - 1e-6
            bound = after
    assert fell > 0


@given(seed=seeds, missing=missing_kinds)
@settings(max_examples=30)
def test_the_order_of_the_columns_does_not_matter(seed, missing):
    method, context, state = make(seed, missing)
    rng = np.random.default_rng(seed)
    X = all_rows(context.observations.source)
    order = rng.permutation(X.shape[1])
    other_observations = Observations.from_array(X[:, order])
    other_context = Context(other_observations, np.random.default_rng(seed + 1))
    other = method.init(other_context)
    other.factors = factors.Factors(
        *(
            other_observations.layout.arrange(context.observations.layout.restore(a)[:, order])
            for a in vars(state.factors).values()
        )
    )
    for _ in range(3):
        first, second = method.step(context, state), method.step(other_context, other)
        np.testing.assert_array_equal(state.assignments, other.assignments)
        assert first.evidence == pytest.approx(second.evidence, rel=1e-9)


def test_a_sweep_cut_into_pieces_is_the_same_sweep(monkeypatch):
    results = []
    for seconds in (0.0, 1e9):  # chunks of one row, and as large as they get
        monkeypatch.setattr("ibp.methods.chunks.SECONDS_BETWEEN_CHECKS", seconds)
        method, context, state = make(3, "scattered", n=60, block_size=7)
        reports = [method.step(context, state) for _ in range(3)]
        results.append((state.assignments, state.factors.mean, reports))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]


def test_stopping_in_the_middle_leaves_a_consistent_state(monkeypatch):
    monkeypatch.setattr("ibp.methods.chunks.SECONDS_BETWEEN_CHECKS", 0.0)
    method, context, state = make(4, "scattered", n=60, learned=True)
    bound = method.report(context, state, 0).evidence
    report = method.step(replace(context, should_stop=stop_after(5)), state)
    assert report.evidence == pytest.approx(direct_bound(method, context, state), rel=1e-10)
    assert_not_lower(report.evidence, bound)


def test_two_steps_are_one_step_twice():
    method, context, state = make(5, shuffle=True, optimizer="randomized_double_greedy")
    method.step(context, state)
    method.step(context, state)
    again, other_context, other = make(5, shuffle=True, optimizer="randomized_double_greedy")
    for _ in range(2):
        again.step(other_context, other)
    np.testing.assert_array_equal(state.assignments, other.assignments)
    np.testing.assert_array_equal(state.factors.mean, other.factors.mean)


def test_a_useless_feature_is_removed():
    rng = np.random.default_rng(0)
    A = np.array([[2.0, 2, 0, 0, 0, 0], [0, 0, 2, 2, 0, 0]])
    Z = (rng.random((80, 2)) < 0.5).astype(np.uint8)
    X = Z @ A + 0.05 * rng.normal(size=(80, 6))
    useless = (rng.random((80, 1)) < 0.5).astype(np.uint8)
    start = GivenStart(np.hstack([Z, useless]), np.zeros((3, 6)), np.full((3, 6), 0.1))
    hyper = random_hyperparameters(rng, False)
    method = MEIBPMethod(start, hyper)
    context = Context(Observations.from_array(X), rng)
    state = method.init(context)
    before = method.evidence(context, state).total
    n_cleared = method.remove_features(context, state)
    assert n_cleared == useless.sum()
    np.testing.assert_array_equal(state.assignments, Z)  # the order of origin is kept
    assert method.evidence(context, state).total > before


def test_several_superfluous_features_go_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    A = np.array([[2.0, 2, 0, 0, 0, 0], [0, 0, 2, 2, 0, 0]])
    Z = (rng.random((80, 2)) < 0.5).astype(np.uint8)
    X = Z @ A + 0.3 * rng.normal(size=(80, 6))
    useless = (rng.random((80, 3)) < 0.5).astype(np.uint8)
    start = {"Z": np.hstack([Z, useless]).astype(float)}
    monkeypatch.setattr(MEIBPMethod, "update_rows", lambda *arguments: (0, 0))
    leaving = []
    superfluous = Bound.superfluous

    def told(self, gains):
        leaving.append(superfluous(self, gains).tolist())
        return np.array(leaving[-1])

    monkeypatch.setattr(Bound, "superfluous", told)
    model = MEIBP(init=start, moves=False, random_state=0).fit(X)
    np.testing.assert_array_equal(model.assignments_, Z)
    assert len(leaving[0]) > 1


def test_a_removal_whose_gain_was_rounding_is_taken_back(monkeypatch):
    method, context, state = make(3, learned=True, missing="scattered", intercept=True)
    for _ in range(3):
        method.step(context, state)
    before, evidence = deepcopy(state), method.evidence(context, state).total
    assert state.n_components >= 2
    monkeypatch.setattr(Bound, "removal_gains", lambda self: np.full(state.n_components, 1e-12))
    assert method.remove_features(context, state) == 0
    np.testing.assert_array_equal(state.assignments, before.assignments)
    np.testing.assert_array_equal(state.statistics.gram, before.statistics.gram)
    np.testing.assert_array_equal(state.factors.mean, before.factors.mean)
    assert method.evidence(context, state).total == evidence
    method.step(context, state)  # and all goes on
    assert_not_lower(method.evidence(context, state).total, evidence)


@given(seed=seeds, missing=missing_kinds, intercept=st.booleans())
@settings(max_examples=60)
def test_factor_kernels_agree_with_the_model(seed, missing, intercept):
    _, context, state = make(seed, missing, intercept=intercept)
    reference = deepcopy(state.factors)
    noise_precision = state.hyperparameters.noise_precision.mean
    offset = state.intercept.updated(
        context.observations, state.statistics, state.factors.mean, noise_precision
    )
    factors.update_factors(
        reference,
        state.statistics,
        context.observations.layout.group_start,
        state.hyperparameters,
        offset.mean,
        offset.response(noise_precision),
    )
    state.refresh(context)
    np.testing.assert_allclose(state.intercept.mean, offset.mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        state.intercept.mean,
        state.intercept.updated(
            context.observations, state.statistics, state.factors.mean, noise_precision
        ).mean,
        rtol=1e-9,
        atol=1e-11,
    )
    for name in ("location", "scale", "mean", "variance"):
        np.testing.assert_allclose(
            getattr(state.factors, name), getattr(reference, name), rtol=1e-11, atol=1e-13
        )
    etas = factors.feature_evidence(state.factors, state.hyperparameters)
    for k in range(state.n_components):
        found = factor_kernels.feature_evidence(k, state.factor_arrays(), state.prior_terms())
        assert found == pytest.approx(etas[k], rel=1e-10, abs=1e-10)


def test_equal_columns_have_equal_hashes_and_no_others():
    rng = np.random.default_rng(0)
    Z = (rng.random((7, 500)) < 0.5).astype(np.uint8)  # 128 possible columns
    hashes = [h.tobytes() for h in column_hashes(Z)]
    columns = [c.tobytes() for c in np.ascontiguousarray(Z.T)]
    assert len(set(hashes)) == len(set(columns))
    assert len(set(zip(hashes, columns, strict=True))) == len(set(columns))


@pytest.mark.parametrize("prior", ["shifted", "lof"])
def test_recovers_planted_features(prior):
    rng = np.random.default_rng(2)
    A = np.kron(np.eye(4), np.ones(3)) * 2.0
    Z = (rng.random((120, 4)) < 0.4).astype(np.uint8)
    observations = Observations.from_array(Z @ A + 0.1 * rng.normal(size=(120, 12)))
    hyper = random_hyperparameters(rng, True, 8, 12, 1440)
    method = MEIBPMethod(RandomStart(8), hyper, prior=EQUIVALENCE_CLASSES[prior], optimizer="exact")
    result = run(method, observations, rng.spawn(3), max_iter=100, tol=0)
    assert result.state.n_components == 4
    found = {c.tobytes() for c in np.ascontiguousarray(result.state.assignments.T)}
    assert found == {c.tobytes() for c in np.ascontiguousarray(Z.T)}
    assert result.state.hyperparameters.noise_std == pytest.approx(0.1, rel=0.05)


# Ill-conditioned data


def hard_data(kind, rng):
    X = random_data(rng, 30, 5)
    if kind == "far from zero":
        return X + 1e6
    if kind == "one entry":
        X = np.zeros((20, 4))
        X[3, 2] = 5.0
        return X
    if kind == "integers":
        return rng.integers(0, 5, size=(30, 5)).astype(float)
    X[2, 3] = 1e12
    return X


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("fraction", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("kind", ["far from zero", "one entry", "integers", "outlier"])
def test_the_reported_bound_keeps_its_digits_on_ill_conditioned_data(kind, fraction, learned):
    rng = np.random.default_rng(0)
    X = hard_data(kind, rng)
    observations = Observations.from_array(X)
    std = fraction * X.std()
    hyper = Hyperparameters.known(noise_std=std, factor_std=0.75 * X.std(), alpha=3.0)
    if learned:
        start = GammaPosterior.starting_at
        prior = (1.0, 1e-3 * X.var())
        hyper = Hyperparameters(
            start(hyper.noise_precision.mean, prior, X.size / 2),
            start(hyper.factor_precision.mean, prior, 6 * X.shape[1] / 2),
            start(3.0, (1.0, 1.0), 6),
        )
    for name in ("local_search", "exact"):
        method = MEIBPMethod(RandomStart(6), hyper, optimizer=name)
        context = Context(observations, np.random.default_rng(1))
        state = method.init(context)
        bound = method.report(context, state, 0).evidence
        for _ in range(12):
            after = method.step(context, state).evidence
            # Rows are chosen by differences of numbers as large as tau |x|^2.
            rounding = 1e-14 * state.hyperparameters.noise_precision.mean * np.sum(X**2)
            assert after >= bound - 1e-9 * abs(bound) - rounding
            bound = after
        residual = ((X - state.assignments @ state.factors.mean) ** 2).sum()
        variance = (state.assignments.sum(axis=0) @ state.factors.variance).sum()
        tau = state.hyperparameters.noise_precision
        likelihood = 0.5 * X.size * (tau.mean_log - np.log(2 * np.pi)) - 0.5 * tau.mean * (
            residual + variance
        )
        assert method.evidence(context, state).likelihood == pytest.approx(likelihood, rel=1e-9)


def test_a_search_among_equals_ends():
    # Features without any say in the data, most of them copies of each other: exchanging one for
    # another gains nothing, and rounding must not make it look like something.
    X = np.zeros((24, 1))
    X[[2, 8, 12, 20]] = 1.0
    rng = np.random.default_rng(0)
    Z = np.tile((rng.random((24, 4)) < 0.5).astype(np.uint8), (1, 4))[:, :13]
    scale = 1.0158988308073065e-06
    start = GivenStart(Z, np.zeros((13, 1)), np.full((13, 1), scale))
    hyper = Hyperparameters.known(
        noise_std=574.0596804963417, factor_std=scale, alpha=1908.5446812292246
    )
    method = MEIBPMethod(start, hyper, prior=LeftOrderedClasses())
    context = Context(Observations.from_array(X), rng)
    state = method.init(context)
    bound = method.report(context, state, 0).evidence
    for _ in range(8):
        after = method.step(context, state).evidence
        assert_not_lower(after, bound)
        bound = after


def test_settling_stops_when_told_to():
    method, context, state = make(6, learned=True)
    calls = []

    def should_stop():
        calls.append(None)
        return True

    context = replace(context, should_stop=should_stop)
    method.settle(context, state, at_rest=True)
    assert len(calls) == 1
    assert method.remove_features(context, state) == 0


def test_statistics_are_summed_anew_now_and_then(monkeypatch):
    monkeypatch.setattr("ibp.methods.meibp.method.SWEEPS_BETWEEN_RECOUNTS", 2)
    method, context, state = make(7)
    state.statistics.cross += 1e-3  # as if by rounding
    for _ in range(2):
        method.step(context, state)
    fresh = Statistics.from_codes(context.observations, state.assignments)
    np.testing.assert_array_equal(state.statistics.cross, fresh.cross)
