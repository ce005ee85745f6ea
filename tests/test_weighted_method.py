"""Weighted codes: no sweep lowers the bound, threads change nothing, what was planted is found."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.special import log_ndtr
from scipy.stats import norm
from sklearn.base import clone

import ibp
from ibp import MEIBP
from ibp.data import Observations, summarize
from ibp.kernels.column_hashes import column_hashes
from ibp.kernels.weighted_rows import Effort
from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import attempt
from ibp.methods.weighted import rows as weighted_rows
from ibp.methods.weighted.dissolution import Dissolution, dissolved, sums_of_others
from ibp.methods.weighted.merge import merged
from ibp.methods.weighted.method import WeightedMethod
from ibp.methods.weighted.offset import Offset
from ibp.methods.weighted.rows import exact_log_odds, update_row, update_weighted_block
from ibp.methods.weighted.spread import learn_spreads, share_scales
from ibp.methods.weighted.start import FactorizationStart, KnownStart
from ibp.methods.weighted.state import WeightedState
from ibp.model import Bound, Factors, Hyperparameters, Known, Statistics, truncated_normal
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from ibp.model.weights import Weights, best_weight, weight_divergence
from ibp.parallel import Threads, ranges
from problems import (
    assert_not_lower,
    in_units,
    missing_kinds,
    priors,
    random_assignments,
    random_column_hyperparameters,
    random_data,
    random_hyperparameters,
    seeds,
)
from resuming import assert_resumes, assert_same_state

pytestmark = pytest.mark.filterwarnings("ignore:X has negative entries")

EFFORT = Effort(20, 0.03, True)


class Drawn:
    """A start that is one state."""

    def __init__(self, state):
        self.state = state

    def draw(self, method, context):
        return self.state.copy()


def random_weights(rng, Z, std, dtype):
    """q(W) of random truncated Gaussians, which are returned, too."""
    location, scale = rng.normal(1.0, 0.7, Z.shape), rng.uniform(0.05, 0.8, Z.shape)
    moments = truncated_normal.moments(location, scale)
    spread = np.where(std > 0, std, 1.0)
    parts = (
        np.where(std > 0, moments.mean, 1.0),
        np.where(std > 0, moments.variance, 0.0),
        np.where(std > 0, weight_divergence(location, scale, spread), 0.0),
    )
    return Weights(*(np.where(Z, part, 0.0).astype(dtype) for part in parts), std), location, scale


def rough(
    seed,
    missing="none",
    *,
    n=30,
    d=5,
    k=5,
    intercept=True,
    by_column=False,
    learned=False,
    kind="dense",
    prior="shifted",
    alpha=None,
    threads=1,
    **changes,
):
    """A state with singletons, equal columns, features about to die and weights of any kind."""
    rng = np.random.default_rng(seed)
    X = random_data(rng, n, d, missing=missing)
    X[:2] = rng.normal(size=(2, d))
    if intercept:
        X += rng.normal(size=d)
    if "sparse" in kind:
        X[rng.random(X.shape) < 0.3] = 0.0
    X = X.astype(np.float32 if "single" in kind else np.float64)
    centre = summarize(X).means if intercept else None
    data = sparse.csr_array(X) if "sparse" in kind else X
    if by_column:
        observations = in_units(data, centre)
        hyper = random_column_hyperparameters(rng, observations, learned, k)
    else:
        observations = Observations.from_array(data, centre=centre)
        hyper = random_hyperparameters(rng, learned, k, d, observations.n_observed)
    if alpha is not None:
        hyper = replace(hyper, alpha=Known(alpha))
    context = Context(observations, rng, Threads(threads))
    method = WeightedMethod(
        None,
        hyper,
        intercept_std=10.0 if intercept else None,
        prior=EQUIVALENCE_CLASSES[prior],
        **changes,
    )
    Z = random_assignments(rng, n, k)
    width = observations.n_features
    location = np.abs(rng.normal(size=(k, width))) * rng.choice([0.01, 0.3, 2.0], size=(k, 1))
    weights, *_ = random_weights(rng, Z, rng.choice([0.0, 0.3, 1.0], size=k), observations.dtype)
    state = WeightedState.of_weights(
        context,
        weights,
        Factors.from_parameters(location, rng.uniform(0.05, 0.5, (k, width))),
        method.initial_intercept(observations),
        hyper,
    )
    method = replace(method, start=Drawn(state))
    return method, context, method.init(context)


def direct_bound(method, context, state):
    """The bound from q(W) alone: statistics and equal columns computed anew."""
    weights = state.weights
    return (
        Bound(
            context.observations,
            Statistics.from_codes(context.observations, weights.mean, variance=weights.variance),
            state.factors,
            state.hyperparameters,
            method.prior,
            state.intercept,
            weights.mean,
            columns=(weights.mean > 0).astype(np.uint8).T,
            divergences=weights.divergences(),
        )
        .evidence()
        .total
    )


def assert_in_step(context, state, rough=1e-9):
    """Bits, hashes and sums are those of the weights."""
    weights = state.weights
    np.testing.assert_array_equal(state.assignments, (weights.mean > 0).astype(np.uint8))
    np.testing.assert_array_equal(state.column_hash, column_hashes(state.assignments))
    fresh = Statistics.from_codes(context.observations, weights.mean, variance=weights.variance)
    for name in ("gram", "totals", "cross", "doubt"):
        expected = getattr(fresh, name)
        size = 1.0 + np.abs(expected).max(initial=0.0)
        np.testing.assert_allclose(
            getattr(state.statistics, name), expected, atol=rough * size, err_msg=name
        )
    np.testing.assert_array_equal(state.statistics.counts, fresh.counts)
    lacks = state.assignments == 0
    assert not weights.variance[lacks].any()
    assert not weights.divergence[lacks].any()


kinds = st.sampled_from(["dense", "dense", "sparse"])
any_state = {
    "seed": seeds,
    "missing": missing_kinds,
    "prior": priors,
    "by_column": st.booleans(),
    "intercept": st.booleans(),
    "learned": st.booleans(),
    "kind": kinds,
}


# The bound


@given(**any_state, size=st.sampled_from([1, 7, 30]), shuffled=st.booleans())
@settings(max_examples=35)
def test_no_block_lowers_the_bound_and_sums_stay_in_step(seed, missing, size, shuffled, **parts):
    method, context, state = rough(seed, missing, **parts)
    order = np.random.default_rng(seed).permutation(30)
    bound = direct_bound(method, context, state)
    for block in ranges(30, size):
        if state.n_components == 0:
            return
        rows = order[block] if shuffled else block
        before = state.weights.mean.copy()
        forms = state.row_forms(context)
        update_weighted_block(method, context, state, forms, rows, EFFORT)
        untouched = np.setdiff1d(np.arange(30), np.arange(30)[rows])
        np.testing.assert_array_equal(before[untouched], state.weights.mean[untouched])
        assert_in_step(context, state)
        after = direct_bound(method, context, state)
        assert_not_lower(after, bound)
        state.drop_empty()
        state.refresh(context)
        bound = direct_bound(method, context, state)
        assert_not_lower(bound, after)


@given(**any_state, block=st.sampled_from([1, 7, "auto"]), shuffle=st.booleans())
@settings(max_examples=40)
def test_no_sweep_lowers_the_bound(seed, missing, block, shuffle, **parts):
    method, context, state = rough(seed, missing, block_size=block, shuffle=shuffle, **parts)
    bound = direct_bound(method, context, state)
    for _ in range(5):
        method.improve(context, state)
        assert_in_step(context, state)
        after = method.evidence(context, state).total
        assert after == pytest.approx(direct_bound(method, context, state), rel=1e-9)
        assert_not_lower(after, bound)
        bound = after


@given(
    seed=seeds,
    missing=missing_kinds,
    by_column=st.booleans(),
    intercept=st.booleans(),
    kind=st.sampled_from(["single", "sparse single"]),
)
@settings(max_examples=25)
def test_no_sweep_lowers_the_bound_in_single_precision(seed, missing, **parts):
    method, context, state = rough(seed, missing, learned=True, block_size=7, **parts)
    bound = method.evidence(context, state).total
    for _ in range(4):
        method.improve(context, state)
        assert_in_step(context, state, 1e-4)
        after = method.evidence(context, state).total
        assert after >= bound - 1e-5 * max(abs(bound), 1.0)
        bound = after


@given(**any_state)
@settings(max_examples=40)
def test_spreads_never_lower_the_bound(seed, missing, **parts):
    method, context, state = rough(seed, missing, **parts)
    before = direct_bound(method, context, state)
    bits = state.assignments.copy()
    learn_spreads(context, state)
    assert_in_step(context, state)
    np.testing.assert_array_equal(bits, state.assignments)
    assert_not_lower(direct_bound(method, context, state), before)
    assert ((state.weights.std == 0) | (state.weights.std >= 0.01)).all()


@given(**any_state)
@settings(max_examples=40)
def test_scales_never_lower_the_bound(seed, missing, **parts):
    method, context, state = rough(seed, missing, **parts)
    prediction = state.weights.mean @ state.factors.mean
    before = direct_bound(method, context, state)
    likelihood = method.evidence(context, state).likelihood
    share_scales(state)
    assert_in_step(context, state)
    assert_not_lower(direct_bound(method, context, state), before)
    np.testing.assert_allclose(state.weights.mean @ state.factors.mean, prediction, rtol=1e-9)
    after = method.evidence(context, state).likelihood
    assert after == pytest.approx(likelihood, rel=1e-9)


def test_scaled_weights_pay_the_divergence_of_what_they_are():
    rng = np.random.default_rng(0)
    n_scaled = 0
    for seed in range(20):
        _, context, state = rough(seed, k=3)
        Z = state.assignments
        std = np.array([0.2, 0.5, 1.1])
        weights, location, scale = random_weights(rng, Z, std, np.float64)
        state.weights = weights
        state.recount(context)
        before = weights.mean.copy()
        share_scales(state)
        c = (state.weights.mean.sum(axis=0) / before.sum(axis=0))[None]
        n_scaled += (np.abs(c - 1) > 1e-3).sum()
        direct = weight_divergence(c * location, c * scale, state.weights.std)
        np.testing.assert_allclose(
            state.weights.divergence, np.where(Z, direct, 0.0), rtol=1e-7, atol=1e-8
        )
    assert n_scaled > 20


def test_a_state_whose_weights_are_all_one_has_the_bound_of_the_binary_state():
    for seed in range(10):
        method, context, state = rough(seed, "scattered", by_column=bool(seed % 2), learned=True)
        state.weights = Weights.ones(state.assignments, np.float64)
        state.recount(context)
        binary = method.binary()
        reference = Bound(
            context.observations,
            Statistics.from_codes(context.observations, state.assignments),
            state.factors,
            state.hyperparameters,
            binary.prior,
            state.intercept,
            columns=state.column_hash,
        ).evidence()
        found = method.evidence(context, state)
        assert found.weights == 0.0
        assert found.total == pytest.approx(reference.total, rel=1e-13)


# Features that one row alone has, and such that die


def blocks_that_fall(seeds_to_try, prior, least_rows=2):
    """How many blocks lower the bound, and kill a feature.

    The data say little and the prior wants many features, as in `test_blocks`.
    """
    fell = died = 0
    hyper = Hyperparameters.known(noise_std=50.0, factor_std=1.0, alpha=1e4)
    for seed in seeds_to_try:
        method, context, state = rough(seed, n=30, k=6, d=5, intercept=False, prior=prior)
        rng = np.random.default_rng(seed)
        Z = np.zeros((30, 6), dtype=np.uint8)
        for k in range(6):
            Z[rng.choice(30, least_rows + seed % 3, replace=False), k] = 1
        weights, *_ = random_weights(rng, Z, rng.choice([0.0, 0.4], size=6), np.float64)
        factors = Factors.from_parameters(np.zeros((6, 5)), np.ones((6, 5)))
        state = WeightedState.of_weights(context, weights, factors, state.intercept, hyper)
        before = direct_bound(method, context, state)
        forms = state.row_forms(context)
        update_weighted_block(method, context, state, forms, slice(0, 30), EFFORT)
        assert_in_step(context, state)
        after = direct_bound(method, context, state)
        fell += after < before - 1e-9 * abs(before)
        died += (state.statistics.counts == 0).any()
    return fell, died


@pytest.mark.parametrize("prior", ["shifted", "lof"])
def test_the_check_of_a_block_is_needed(monkeypatch, prior):
    refused = []
    accept = weighted_rows.accept

    def watched(*arguments):
        refused.append(not accept(*deepcopy(arguments)))
        return accept(*arguments)

    monkeypatch.setattr(weighted_rows, "accept", watched)
    fell, died = blocks_that_fall(range(30), prior)
    assert fell == 0
    assert died > 0
    assert sum(refused) > 5

    def blindly(settings, state, changed, old, new, gain, log_odds):
        return accept(settings, state, changed, old, new, 1e12, log_odds)

    monkeypatch.setattr(weighted_rows, "accept", blindly)
    assert blocks_that_fall(range(30), prior)[0] > 5


@pytest.mark.parametrize("prior", ["shifted", "lof"])
def test_blocks_of_singletons_do_not_fall(prior):
    assert blocks_that_fall(range(30), prior, least_rows=1)[0] == 0


@given(seed=seeds, missing=missing_kinds, prior=priors, alpha=st.sampled_from([1e-3, 1.0, 1e4]))
@settings(max_examples=30)
def test_a_row_by_itself_never_lowers_the_bound(seed, missing, prior, alpha):
    method, context, state = rough(seed, missing, prior=prior, alpha=alpha, n=12)
    bound = direct_bound(method, context, state)
    forms = state.row_forms(context)
    forms.make_all()
    for row in range(12):
        update_row(method, context, state, forms, row, EFFORT)
        assert_in_step(context, state)
        after = direct_bound(method, context, state)
        assert_not_lower(after, bound)
        bound = after


def test_exact_log_odds_are_what_the_prior_gains_by_a_feature():
    for seed in range(20):
        method, context, state = rough(seed, n=10, k=4)
        state.weights = Weights.ones(state.assignments, np.float64)
        state.recount(context)
        row = seed % 10
        log_odds = exact_log_odds(state, row)
        for k in range(4):
            if state.assignments[row, k]:
                less = state.copy()
                less.assignments[row, k] = 0
                less.weights.mean[row, k] = 0.0
                less.recount(context)
                full, without = (
                    sum(
                        getattr(method.evidence(context, one), part)
                        for part in ("assignment_prior", "factor_prior", "factor_entropy")
                    )
                    for one in (state, less)
                )
                assert log_odds[k] == pytest.approx(full - without, rel=1e-9, abs=1e-9)


def test_features_that_die_are_dropped_with_their_weights():
    died = 0
    for seed in range(12):
        method, context, state = rough(seed, alpha=1e-3, block_size=7)
        n_before = state.n_components
        for _ in range(3):
            method.improve(context, state)
        died += n_before - state.n_components
        k = state.n_components
        assert state.weights.mean.shape == state.assignments.shape == (30, k)
        assert state.weights.std.shape == (k,)
        assert state.factors.mean.shape[0] == k
        assert (state.statistics.counts > 0).all()
    assert died > 5


@pytest.mark.filterwarnings("ignore:No feature survived")
def test_noise_alone_ends_without_features():
    X = np.random.default_rng(0).normal(size=(40, 6))
    model = MEIBP(codes="weighted", random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 0
    assert model.transform(X).shape == (40, 0)
    assert model.weight_std_.shape == (0,)
    assert np.isfinite(model.score_samples(X)).all()


# The state


def test_a_state_is_written_down_and_read_back():
    for seed in range(3):
        method, context, state = rough(seed, "scattered", by_column=True, learned=True)
        method.improve(context, state)
        read = WeightedState.from_arrays(state.to_arrays())
        assert isinstance(read.weights, Weights)
        assert_same_state(read, state)
        assert_resumes(method, context, state)


def test_features_are_added_with_weights_of_one():
    _, context, state = rough(0)
    old = state.weights
    added = random_assignments(np.random.default_rng(1), 30, 2)
    state.add_codes(context, added)
    assert_in_step(context, state)
    np.testing.assert_array_equal(state.weights.mean[:, :5], old.mean)
    np.testing.assert_array_equal(state.weights.mean[:, 5:], added)
    np.testing.assert_array_equal(state.weights.std, [*old.std, 0.0, 0.0])


# Threads and seeds


def kinds_of_data():
    X, *_ = planted(0.4, n=70, d=9, k=3)
    X -= X.min()
    gaps = X.copy()
    gaps[np.random.default_rng(4).random(X.shape) < 0.15] = np.nan
    gaps[40:60, :2] = np.nan
    thin = np.where(X > 0.5, X, 0.0)
    return {"dense": X, "missing": gaps, "single": X.astype("f4"), "sparse": sparse.csr_array(thin)}


def digest(model, X):
    return [
        array.tobytes()
        for array in (
            model.codes_,
            model.components_,
            model.weight_std_,
            np.array(model.evidence_),
            model.transform(X),
            model.confidence(X),
            model.score_samples(X),
        )
    ]


@pytest.mark.filterwarnings("ignore:Not converged")
@pytest.mark.parametrize("kind", ["dense", "missing", "single", "sparse"])
def test_threads_change_no_bit(monkeypatch, kind):
    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 16)
    monkeypatch.setattr("ibp.data.observations.SPARSE_PIECE_ROWS", 16)
    X = kinds_of_data()[kind]
    answers = []
    for n_jobs in (1, 2, 2):
        model = MEIBP(
            5, codes="weighted", n_jobs=n_jobs, max_iter=4, moves=False, tol=0, random_state=0
        ).fit(X)
        answers.append(digest(model, X))
    assert model.n_components_ > 0
    assert answers[0] == answers[1] == answers[2]


def test_pieces_of_a_block_change_next_to_nothing(monkeypatch):
    found = []
    for size in (256, 4):
        monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", size)
        method, context, state = rough(5, "scattered", block_size=30)
        method.improve(context, state)
        found.append(method.evidence(context, state).total)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


# Starts and moves


@pytest.mark.parametrize("missing", ["none", "block", "scattered", "heavy"])
@pytest.mark.parametrize("by_column", [False, True])
def test_a_factorization_leaves_a_state_whose_bound_is_one(missing, by_column):
    for seed in range(4):
        method, context, _ = rough(seed, missing, n=40, by_column=by_column, learned=True)
        state = FactorizationStart(4).draw(method, context)
        assert_in_step(context, state, 1e-6)
        assert_weights_are_possible(state)
        bound = direct_bound(method, context, state)
        for _ in range(3):
            method.improve(context, state)
            after = method.evidence(context, state).total
            assert_not_lower(after, bound)
            bound = after


def test_a_start_from_known_weights_leaves_a_state_whose_bound_is_one():
    for seed in range(4):
        method, context, _ = rough(seed, n=40, learned=True)
        codes = np.random.default_rng(seed).gamma(2.0, 0.5, (40, 3))
        codes[np.random.default_rng(seed).random((40, 3)) < 0.5] = 0.0
        state = KnownStart(codes).draw(method, context)
        assert_in_step(context, state, 1e-6)
        assert_weights_are_possible(state)
        bound = direct_bound(method, context, state)
        method.improve(context, state)
        assert_not_lower(method.evidence(context, state).total, bound)


def test_codes_that_are_right_already_are_searched_all_the_same():
    X, _, W = planted(0.4, n=80, k=3)
    for codes in (W, 1.02 * W):
        method, context = prepared(X)
        state = KnownStart(codes).draw(method, context)
        assert_weights_are_possible(state)
        bound = direct_bound(method, context, state)
        method.improve(context, state)
        assert_not_lower(method.evidence(context, state).total, bound)


@pytest.mark.parametrize("noise", ["shared", "per_column"])
@pytest.mark.parametrize("init", ["auto", "random", "spectral"])
def test_what_is_not_learned_stays_as_it_was_given(init, noise):
    X, *_ = planted(0.4, n=60, d=10, k=2)
    model = MEIBP(
        codes="weighted",
        noise=noise,
        noise_std=0.5,
        factor_std=1.5,
        alpha=2.0,
        learn_hyperparameters=False,
        init=init,
        moves=False,
        random_state=0,
        n_jobs=1,
    ).fit(X)
    np.testing.assert_allclose(model.noise_std_, 0.5, rtol=1e-12)
    np.testing.assert_allclose(model.factor_std_, 1.5, rtol=1e-12)
    assert model.alpha_ == 2.0


@pytest.mark.parametrize("noise", ["shared", "per_column"])
@pytest.mark.parametrize("gaps", [False, True])
def test_features_of_a_sample_are_searched_for_in_all_rows(monkeypatch, gaps, noise):
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.SAMPLE_ROWS", 40)
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.ROWS_PER_FEATURE", 1)
    X, _, W = planted(0.4, n=150, d=20, k=3)
    if gaps:
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
        X[100:, :4] = np.nan
    method, context = prepared(X, noise=noise, n_components=3)
    state = method.init(context)
    assert state.assignments.shape[0] == 150
    assert_in_step(context, state)
    assert_weights_are_possible(state)
    bound = direct_bound(method, context, state)
    method.improve(context, state)
    assert_not_lower(method.evidence(context, state).total, bound)
    assert matched(state.weights.mean, W)[1].min() > 0.9


def assert_weights_are_possible(state):
    """Weights whose prior is spread are not known for certain, and pay for what they are."""
    has = (state.assignments > 0) & (state.weights.std > 0)
    assert (state.weights.variance[has] > 0).all()
    assert (state.weights.divergence[has] > 0).all()


def test_a_binary_start_has_weights_of_one():
    X, Z, _ = planted(0.0, n=60)
    method, context = prepared(X)
    codes = KnownStart(Z.astype(float)).draw(method, context)
    np.testing.assert_array_equal(codes.weights.mean, Z)
    assert not codes.weights.std.any()
    assert not codes.weights.divergence.any()


def prepared(X, **changes):
    model = MEIBP(codes="weighted", n_jobs=1, **changes)
    executor = Threads(1)
    observations = model._observe_training_data(X, executor)
    method = model._method(observations)
    return method, Context(observations, np.random.default_rng(0), executor)


def same(one, other):
    return (
        all(array.tobytes() == other[name].tobytes() for name, array in one.items())
        and one.keys() == other.keys()
    )


@pytest.mark.parametrize("move", WeightedMethod.kinds_of_moves, ids=lambda move: move.name)
def test_a_move_raises_the_bound_or_leaves_no_trace(move):
    X, _, W = planted(0.4, n=80, k=3)
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    rng = np.random.default_rng(1)
    starts = {
        "one short": W[:, :2],
        "one twice": np.hstack([W, W[:, :1] * (rng.random((80, 1)) < 0.5)]),
        "junk": np.hstack([W, rng.gamma(2.0, 0.5, (80, 1)) * (rng.random((80, 1)) < 0.3)]),
    }
    for data in (X, gaps):
        for codes in starts.values():
            method, context = prepared(data)
            state = KnownStart(codes).draw(method, context)
            method.improve(context, state)
            limited = replace(method, limit=state.n_components) if move.name == "exchange" else None
            method = limited or method
            written, before = state.to_arrays(), method.evidence(context, state).total
            changed, gain = attempt(method, context, state, move)
            assert same(written, state.to_arrays())
            after = method.evidence(context, changed).total
            assert after - before == pytest.approx(gain, abs=1e-6)
            assert (changed is state) == (gain == 0.0)
            assert_in_step(context, changed, 1e-7)


# What was planted


def planted(std, *, n=120, d=30, k=4, noise=0.1, seed=0, share=0.4):
    """Data with features that can be told, their bits and their weights, which are std about 1."""
    rng = np.random.default_rng(seed)
    A = rng.gamma(2.0, 0.5, (k, d)) * (rng.random((k, d)) < 0.4)
    A[np.arange(k), np.arange(k)] = 1.0
    Z = (rng.random((n, k)) < share).astype(np.uint8)
    spread = np.full(k, std) if np.ndim(std) == 0 else np.asarray(std)
    draws = truncated_normal.sample(1.0, np.maximum(spread, 1e-12), rng.random((n, k)))
    W = Z * np.where(spread > 0, draws, 1.0)
    X = rng.normal(size=d) + W @ A + noise * rng.normal(size=(n, d))
    return X, Z, W


def matched(found, truth):
    """Which found column each planted one is, by correlation, and the correlations."""
    k = truth.shape[1]
    correlation = np.corrcoef(truth.T, found.T)[:k, k:]
    rows, columns = linear_sum_assignment(-correlation)
    assert rows.size == k
    return columns, correlation[rows, columns]


@pytest.mark.parametrize("seed", range(3))
def test_binary_features_are_found_as_binary(seed):
    X, Z, _ = planted(0.0, seed=seed)
    model = MEIBP(codes="weighted", random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 4
    columns, _ = matched(model.codes_, Z)
    np.testing.assert_array_equal(model.assignments_[:, columns], Z)
    assert np.median(model.weight_std_) < 0.05


@pytest.mark.parametrize("std", [0.3, 0.7])
@pytest.mark.parametrize("seed", range(2))
def test_weights_are_found(std, seed):
    X, Z, W = planted(std, seed=seed)
    model = MEIBP(codes="weighted", random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 4
    columns, correlation = matched(model.codes_, W)
    assert correlation.min() > 0.95
    assert (model.assignments_[:, columns] == Z).mean() > 0.97
    scale = model.codes_[:, columns].sum(axis=0) / W.sum(axis=0)
    np.testing.assert_allclose(model.weight_std_[columns] / scale, std, rtol=0.4)


def test_spreads_may_differ():
    X, _, W = planted([0.0, 0.0, 0.5, 0.5], n=150)
    model = MEIBP(codes="weighted", random_state=0, n_jobs=1).fit(X)
    columns, _ = matched(model.codes_, W)
    assert model.weight_std_[columns[:2]].max() < 0.1
    assert model.weight_std_[columns[2:]].min() > 0.25


def shades(Z, W):
    """Each planted feature as binary codes have it: rows with little of it and with much."""
    return np.hstack([Z * (W < 0.9), Z * (W >= 0.9) * (W < 1.2), Z * (W >= 1.2)])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("begin", ["shades", "nothing", "default"])
def test_the_number_of_features_does_not_hang_on_the_start(begin, seed):
    X, Z, W = planted(0.5, n=200, d=15, seed=seed)
    starts = {"shades": {"Z": shades(Z, W)}, "nothing": {"Z": Z[:, :0]}, "default": "auto"}
    model = MEIBP(codes="weighted", init=starts[begin], random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 4
    assert matched(model.codes_, W)[1].min() > 0.95


def test_a_merge_keeps_how_much_rows_have():
    X, Z, W = planted(0.5, n=150, k=3)
    method, context = prepared(X)
    little = Z[:, :1] * (W[:, :1] < 1.0)
    state = KnownStart(np.hstack([little, Z[:, :1] - little, Z[:, 1:]])).draw(method, context)
    changed = merged(context, state, [(0, 1)])
    new = changed.codes[:, -1]
    np.testing.assert_array_equal(new > 0, Z[:, 0] > 0)
    assert changed.weights.std[-1] > 0.1
    both = new > 0
    assert np.corrcoef(new[both], W[both, 0])[0, 1] > 0.95
    assert_in_step(context, changed, 1e-7)
    # What the bound pays for every weight is what its q costs: none is taken for known.
    assert (changed.weights.divergence[both, -1] > 0).all()
    assert (changed.weights.variance[both, -1] > 0).all()


def both_as_a_third(Z, W):
    """Codes of which the last stands for the first two, in half of the rows that have both."""
    both = (Z[:, 0] > 0) & (Z[:, 1] > 0) & (np.arange(len(Z)) % 2 == 0)
    codes = W.copy()
    codes[both, :2] = 0.0
    return np.hstack([codes, both[:, None] * W[:, :1]])


def test_a_feature_that_others_add_up_to_is_dissolved():
    X, Z, W = planted(0.3, n=200, k=3, noise=0.05)
    method, context = prepared(X)
    A = np.maximum(np.linalg.lstsq(np.hstack([W, np.ones((200, 1))]), X, rcond=None)[0], 0.0)[:3]
    codes, factors = both_as_a_third(Z, W), np.vstack([A, A[0] + A[1]])
    state = KnownStart(codes, factors, X.mean(axis=0) - W.mean(axis=0) @ A).draw(method, context)
    (nearest, *_) = sums_of_others(state)
    assert nearest.feature == 3 and nearest.left < 0.02
    assert (nearest.parts > 0.5).tolist() == [True, True, False, False]
    changed = dissolved(context, state, nearest)
    assert changed.n_components == 3
    has = state.assignments[:, 3] > 0
    assert changed.assignments[has, :2].all()
    assert_in_step(context, changed, 1e-7)
    changed, gain = attempt(method, context, state, Dissolution())
    assert gain > 10.0 and changed.n_components == 3
    assert sums_of_others(changed) == []  # none of the others is a sum


# The estimator


@pytest.fixture(scope="module")
def fitted():
    X, Z, W = planted(0.4, n=200, seed=5)
    train, new = X[:150], X[150:]
    return MEIBP(codes="weighted", random_state=0, n_jobs=1).fit(train), train, new, Z, W


def test_attributes_agree(fitted):
    model, *_ = fitted
    k = model.n_components_
    assert model.assignments_.dtype == np.uint8
    assert model.codes_.dtype == np.float64
    assert model.codes_.shape == (150, k)
    np.testing.assert_array_equal(model.assignments_, model.codes_ > 0)
    np.testing.assert_array_equal(model.feature_counts_, model.assignments_.sum(axis=0))
    assert model.weight_std_.shape == (k,)
    assert model.evidence_parts_["weights"] < 0
    assert sum(model.evidence_parts_.values()) == pytest.approx(model.evidence_, rel=1e-9)
    assert (np.diff(model.history_["evidence"]) > -1e-9 * abs(model.evidence_)).all()


def test_new_rows_are_placed_as_the_training_rows_were(fitted):
    model, train, *_ = fitted
    codes = model.transform(train)
    assert codes.dtype == np.float64
    assert ((codes > 0) == model.assignments_).mean() > 0.98
    both = (codes > 0) & (model.assignments_ > 0)
    assert np.abs(codes - model.codes_)[both].mean() < 0.02


def test_codes_give_back_the_rows(fitted):
    model, train, *_ = fitted
    back = model.inverse_transform(model.codes_)
    np.testing.assert_allclose(back, model.intercept_ + model.codes_ @ model.components_)
    assert np.std(train - back) == pytest.approx(0.1, rel=0.1)


def test_intervals_have_the_coverage_that_they_claim(fitted):
    model, _, new, *_ = fitted
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(4):
        gaps = np.where(rng.random(new.shape) < 0.25, np.nan, new)
        hidden = np.isnan(gaps)
        filled, std = model.impute(gaps, return_std=True)
        assert (std[hidden] > 0).all()
        np.testing.assert_array_equal(filled[~hidden], new[~hidden])
        covered.append(np.abs(filled - new)[hidden] < 1.6449 * std[hidden])
    assert 0.85 < np.concatenate(covered).mean() < 0.95
    assert np.sqrt(np.mean((filled - new)[hidden] ** 2)) < 0.2


def test_held_out_entries_are_scored_by_their_density(fitted):
    model, _, new, *_ = fitted
    gaps = np.where(np.random.default_rng(0).random(new.shape) < 0.25, np.nan, new)
    score = model.score_heldout(gaps, new)
    filled, std = model.impute(gaps, return_std=True)
    hidden = np.isnan(gaps)
    away, std = (new - filled)[hidden], std[hidden]
    gaussian = -0.5 * (away / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))
    assert score == pytest.approx(gaussian.mean(), abs=0.1)
    assert score > -0.5 - np.log(np.std(new) * np.sqrt(2 * np.pi)) + 1.0


def test_confidence_and_probabilities_agree_with_the_codes(fitted):
    model, _, new, *_ = fitted
    codes, margins, p = model.transform(new), model.confidence(new), model.probabilities(new)
    assert margins.shape == p.shape == codes.shape
    assert (margins > -1e-6).all()
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_array_equal(p > 0.5, codes > 0)
    signed = np.where(codes > 0, margins, -margins)
    np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(-signed)), atol=1e-12)


def test_predictions_are_mixtures_of_having_a_feature_and_not():
    X, *_ = planted(0.5, n=150, d=12, k=1, noise=0.5, seed=2)
    model = MEIBP(1, codes="weighted", noise="shared", random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 1
    assert model.weight_std_[0] > 0.1
    gaps = X[:40].copy()
    gaps[:, 6:] = np.nan
    gaps[np.random.default_rng(0).random(gaps.shape) < 0.3] = np.nan
    seen = ~np.isnan(gaps)
    a, doubt, tau = model.components_[0], model.components_std_[0] ** 2, model.noise_std_**-2.0
    linear = tau * np.where(seen, (gaps - model.intercept_) * a, 0.0).sum(axis=1)
    own = tau * seen @ (a**2 + doubt)
    m = model.feature_counts_[0]
    log_odds = np.log(m) - np.log(model.n_samples_fit_ + 1.0 - m)
    best = best_weight(linear, own, model.weight_std_[0], log_odds)
    p = 1.0 / (1.0 + np.exp(-best.gain))
    np.testing.assert_allclose(model.probabilities(gaps)[:, 0], p, atol=1e-9)
    assert ((p > 0.05) & (p < 0.95)).any()
    np.testing.assert_allclose(
        model.transform(gaps)[:, 0], np.where(p > 0.5, best.mean, 0.0), atol=1e-9
    )
    c, v, p = best.mean[:, None], best.variance[:, None], p[:, None]
    own_variance = v * a**2 + (c**2 + v) * doubt
    mean = model.intercept_ + p * c * a
    variance = model.noise_std_**2 + p * own_variance + p * (1 - p) * (c * a) ** 2
    filled, std = model.impute(gaps, return_std=True)
    np.testing.assert_allclose(filled[~seen], mean[~seen], atol=1e-4)
    np.testing.assert_allclose(std[~seen], np.sqrt(variance)[~seen], atol=1e-4)
    without = norm(model.intercept_, model.noise_std_).pdf(X[:40])
    spread = np.sqrt(model.noise_std_**2 + own_variance)
    having = norm(model.intercept_ + c * a, spread).pdf(X[:40])
    density = np.log(p * having + (1 - p) * without)[~seen].mean()
    assert model.score_heldout(gaps, X[:40]) == pytest.approx(density, abs=1e-4)


def test_a_fit_goes_on_from_a_fit(fitted):
    model, train, *_ = fitted
    again = MEIBP(codes="weighted", init=model, moves=False, n_jobs=1, random_state=0).fit(train)
    assert again.n_components_ == model.n_components_
    assert again.evidence_ > model.evidence_ - 1e-3 * abs(model.evidence_)


def test_a_fit_without_spread_can_start_from_a_binary_one():
    X, *_ = planted(0.0)
    binary = MEIBP(random_state=0, n_jobs=1, moves=False).fit(X)
    model = MEIBP(codes="weighted", init=binary, moves=False, n_jobs=1, random_state=0).fit(X)
    assert model.evidence_ > binary.evidence_ - 1e-3 * abs(binary.evidence_)


def test_drawn_weights_have_the_learned_spread(fitted):
    model, *_ = fitted
    X, codes = model.sample(4000, random_state=0)
    assert X.shape == (4000, 30)
    for k in range(model.n_components_):
        has = codes[codes[:, k] > 0, k]
        s = model.weight_std_[k]
        mass = np.exp(log_ndtr(1 / s))
        mean = 1 + s * np.exp(-0.5 / s**2) / np.sqrt(2 * np.pi) / mass
        assert has.mean() == pytest.approx(mean, abs=0.05)
        assert has.std() == pytest.approx(s, rel=0.25)


def test_a_binary_fit_tells_what_weights_would_gain():
    X, *_ = planted(0.6, n=150, k=3)
    binary = MEIBP(3, random_state=0, moves=False).fit(X)
    assert binary.weights_gain(X) > 100.0
    weighted = MEIBP(codes="weighted", random_state=0, moves=False).fit(X)
    assert weighted.weights_gain(X) == 0.0
    plain, *_ = planted(0.0, n=150, k=3)
    assert MEIBP(random_state=0).fit(plain).weights_gain(plain) < 10.0


def test_a_binary_fit_that_has_spent_features_on_shades_tells_so():
    X, Z, W = planted(0.5, n=150, d=15, k=3)
    binary = MEIBP(init={"Z": shades(Z, W)}, moves=False, random_state=0).fit(X)
    assert binary.n_components_ > 3
    assert binary.weights_gain(X) > 100.0


def test_a_model_fitted_again_with_binary_codes_has_no_weights(fitted, tmp_path):
    model, X = clone(fitted[0]), fitted[1]
    model.fit(X).set_params(codes="binary", moves=False).fit(X)
    assert not hasattr(model, "weights_") and model.codes_.dtype == np.uint8
    model.save(tmp_path / "model.ibp")
    np.testing.assert_array_equal(ibp.load(tmp_path / "model.ibp").codes_, model.codes_)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_given_codes_and_factors_may_share_their_scale_in_any_way(scale):
    X, _, W = planted(0.4, n=120, k=3)
    A = np.maximum(np.linalg.lstsq(W, X, rcond=None)[0], 0.0)
    one = MEIBP(codes="weighted", init={"Z": W, "A": A}, moves=False, random_state=0).fit(X)
    other = MEIBP(
        codes="weighted", init={"Z": scale * W, "A": A / scale}, moves=False, random_state=0
    ).fit(X)
    assert other.n_components_ == one.n_components_ == 3
    np.testing.assert_allclose(other.evidence_, one.evidence_, rtol=1e-6)


def test_the_intercept_takes_over_what_all_rows_have_of_a_feature():
    X, _, W = planted(0.4, n=150, k=3)
    method, context = prepared(X)
    codes = W + np.array([0.5, 0.0, 0.0])
    A = np.maximum(np.linalg.lstsq(np.hstack([W, np.ones((150, 1))]), X, rcond=None)[0], 0.0)[:3]
    low = X.mean(axis=0) - codes.mean(axis=0) @ A
    state = KnownStart(codes, A, low, np.full(3, 0.4)).draw(method, context)
    assert state.statistics.counts[0] == 150
    (first, *_) = [p.state for p in Offset().proposals(method, context, state)]
    assert first.statistics.counts[0] < 120
    for move in (Offset(), Offset(sweeps=3)):
        written = state.to_arrays()
        changed, gain = attempt(method, context, state, move)
        assert gain > 100.0 and changed.statistics.counts[0] < 120
        assert same(written, state.to_arrays())
