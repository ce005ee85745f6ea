"""Rows in blocks: never lower, whatever happens in a block; the same with any number of threads."""

import sys
import tracemalloc
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ibp.data import Observations, all_rows, summarize
from ibp.methods.context import Context
from ibp.methods.meibp import automatic_start  # noqa: F401, whose pieces are made small
from ibp.methods.meibp import blocks as meibp_blocks
from ibp.methods.meibp import method as meibp
from ibp.methods.meibp.blocks import improve_block, update_block, visit_one_by_one
from ibp.methods.meibp.method import MEIBPMethod
from ibp.methods.meibp.start import GivenStart
from ibp.model import Hyperparameters, Statistics
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES, ShiftedClasses, tangent_log_odds
from ibp.model.row_objective import likelihood_terms
from ibp.parallel import ranges
from ibp.submodular import OPTIMIZERS, Problem, maximize
from ibp.submodular.problem import NO_GROUP
from problems import (
    assert_not_lower,
    direct_bound,
    in_units,
    make,
    missing_kinds,
    priors,
    random_assignments,
    random_column_hyperparameters,
    random_data,
    random_hyperparameters,
    seeds,
    stop_after,
    unmoved,
)

optimizers = st.sampled_from(sorted(OPTIMIZERS))


def rough_state(
    seed,
    missing="none",
    *,
    n=40,
    d=5,
    k=6,
    intercept=False,
    dtype=np.float64,
    by_column=False,
    **settings,
):
    """A state with singletons, equal columns and features that are about to die."""
    rng = np.random.default_rng(seed)
    X = random_data(rng, n, d, missing=missing).astype(dtype)
    if intercept:
        X += rng.normal(size=d).astype(dtype) * 5
        settings["intercept_std"] = float(10 * np.nanstd(X))
    Z = random_assignments(rng, n, k)
    location = np.abs(rng.normal(size=(k, d))) * rng.choice([0.01, 0.3, 2.0], size=(k, 1))
    scale = rng.uniform(0.05, 0.5, size=(k, d))
    settings["prior"] = EQUIVALENCE_CLASSES[settings.pop("prior", "shifted")]
    summary = summarize(X)
    centre = summary.means if intercept else None
    if by_column:
        observations = in_units(X, centre)
        settings["intercept_std"] = 10.0 if intercept else None
        hyper = random_column_hyperparameters(rng, observations, False, k)
    else:
        observations = Observations.from_summary(X, summary, centre=centre)
        hyper = random_hyperparameters(rng, False, k, d)
    method = MEIBPMethod(GivenStart(Z, location, scale), hyper, **settings)
    context = Context(observations, rng)
    state = method.init(context)
    state.n_sweeps = int(rng.integers(0, 8))  # with which the exact search's budget grows
    return method, context, state


def blocks_of(context, size):
    return ranges(context.observations.n_samples, size)


# The bound


@given(
    seed=seeds,
    missing=missing_kinds,
    prior=priors,
    name=optimizers,
    size=st.integers(5, 45),
    intercept=st.booleans(),
    shuffled=st.booleans(),
    by_column=st.booleans(),
)
@settings(max_examples=100)
def test_no_block_lowers_the_bound(
    seed, missing, prior, name, size, intercept, shuffled, by_column
):
    method, context, state = rough_state(
        seed, missing, prior=prior, optimizer=name, intercept=intercept, by_column=by_column
    )
    order = np.random.default_rng(seed).permutation(context.observations.n_samples)
    bound = direct_bound(method, context, state)
    for _ in range(2):
        for block in blocks_of(context, size):
            if state.n_components == 0:
                return
            before = state.assignments.copy()
            changed, proven = update_block(
                method,
                context,
                state,
                state.row_forms(context),
                order[block] if shuffled else block,
            )
            assert changed == (before != state.assignments).sum()
            assert 0 <= proven <= block.stop - block.start
            untouched = np.setdiff1d(np.arange(40), order[block] if shuffled else np.r_[block])
            np.testing.assert_array_equal(before[untouched], state.assignments[untouched])
            fresh = Statistics.from_codes(context.observations, state.assignments)
            np.testing.assert_array_equal(state.statistics.gram, fresh.gram)
            np.testing.assert_array_equal(state.statistics.totals, fresh.totals)
            np.testing.assert_array_equal(state.statistics.counts, fresh.counts)
            np.testing.assert_allclose(state.statistics.cross, fresh.cross, atol=1e-9)
            # With q(A) as it was, then with q(A) refreshed.
            after = direct_bound(method, context, state)
            assert_not_lower(after, bound)
            state.drop_empty()
            state.refresh(context)
            bound = direct_bound(method, context, state)
            assert_not_lower(bound, after)


@given(
    seed=seeds,
    missing=missing_kinds,
    prior=priors,
    name=optimizers,
    block=st.one_of(st.integers(2, 45), st.just("auto")),
    shuffle=st.booleans(),
    intercept=st.booleans(),
    by_column=st.booleans(),
)
@settings(max_examples=60)
def test_no_sweep_in_blocks_lowers_the_bound(
    seed, missing, prior, name, block, shuffle, intercept, by_column
):
    method, context, state = rough_state(
        seed,
        missing,
        prior=prior,
        optimizer=name,
        block_size=block,
        shuffle=shuffle,
        intercept=intercept,
        by_column=by_column,
    )
    bound = direct_bound(method, context, state)
    for _ in range(6):
        report = method.step(context, state)
        assert report.evidence == pytest.approx(direct_bound(method, context, state), rel=1e-10)
        assert_not_lower(report.evidence, bound)
        bound = report.evidence


def blocks_that_fall(prior, seeds):
    """Among many blocks: how many lower the bound, kill a feature, and how many there were.

    The data say little and the prior wants many features: rows that drop a feature together, each
    thinking that the others keep it, lose what its existence is worth.
    """
    fell = died = n_blocks = 0
    hyper = Hyperparameters.known(noise_std=50.0, factor_std=1.0, alpha=1e4)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        Z = np.zeros((30, 6), dtype=np.uint8)
        for k in range(6):
            Z[rng.choice(30, 2 + seed % 4, replace=False), k] = 1
        start = GivenStart(Z, np.zeros((6, 5)), np.ones((6, 5)))
        method = MEIBPMethod(start, hyper, prior=EQUIVALENCE_CLASSES[prior], optimizer="exact")
        context = Context(Observations.from_array(random_data(rng, 30, 5)), rng)
        state = method.init(context)
        for block in blocks_of(context, 30):
            before = direct_bound(method, context, state)
            update_block(method, context, state, state.row_forms(context), block)
            after = direct_bound(method, context, state)
            fell += after < before - 1e-9 * abs(before)
            died += (state.statistics.counts == 0).any()
            n_blocks += 1
    return fell, died, n_blocks


@pytest.mark.parametrize("prior", ["shifted", "lof"])
def test_the_check_of_a_block_is_needed(monkeypatch, prior):
    refused = []
    accept = meibp_blocks.accept

    def watched(*arguments):
        answer = accept(*arguments)
        refused.append(not answer)
        return answer

    monkeypatch.setattr(meibp_blocks, "accept", watched)
    fell, died, n_blocks = blocks_that_fall(prior, range(80))
    assert fell == 0
    assert died > 10
    assert 10 < sum(refused) < n_blocks

    def blindly(settings, state, changed, old, new, gain, log_odds):
        return accept(settings, state, changed, old, new, 1e12, log_odds)

    monkeypatch.setattr(meibp_blocks, "accept", blindly)
    assert blocks_that_fall(prior, range(80))[0] == sum(refused)


@given(seed=seeds, missing=missing_kinds, prior=priors, push=st.sampled_from([-8.0, 8.0, 100.0]))
@settings(max_examples=60)
def test_a_block_that_would_fall_is_done_row_by_row(seed, missing, prior, push):
    # Rows optimised against log-odds that are no tangent: the sum of their gains is misleading.
    method, context, state = rough_state(seed, missing, prior=prior, optimizer="exact")
    reference, other_context = deepcopy(state), deepcopy(context)
    before = direct_bound(method, context, state)
    with pytest.MonkeyPatch.context() as patch:
        answers = []
        accept = meibp_blocks.accept

        def watched(*arguments):
            answers.append(accept(*arguments))
            return answers[-1]

        patch.setattr(meibp_blocks, "accept", watched)
        patch.setattr(meibp_blocks, "tangent_log_odds", lambda m, n: tangent_log_odds(m, n) + push)
        update_block(method, context, state, state.row_forms(context), slice(0, 40))
    assert_not_lower(direct_bound(method, context, state), before)
    if answers == [False]:
        visit_one_by_one(
            method, other_context, reference, reference.row_forms(other_context), np.arange(40)
        )
        np.testing.assert_array_equal(state.assignments, reference.assignments)
        np.testing.assert_array_equal(state.column_hash, reference.column_hash)
        np.testing.assert_array_equal(state.statistics.counts, reference.statistics.counts)
        np.testing.assert_array_equal(state.statistics.gram, reference.statistics.gram)


def test_such_blocks_exist(monkeypatch):
    answers = []
    accept = meibp_blocks.accept

    def watched(*arguments):
        answers.append(accept(*arguments))
        return answers[-1]

    monkeypatch.setattr(meibp_blocks, "accept", watched)
    monkeypatch.setattr(meibp_blocks, "tangent_log_odds", lambda m, n: tangent_log_odds(m, n) + 8.0)
    for seed in range(100):
        method, context, state = rough_state(seed)
        update_block(method, context, state, state.row_forms(context), slice(0, 40))
    assert answers.count(False) >= 5


@given(st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_the_tangent_is_below_the_count_term(n_samples, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, n_samples + 1, size=1)
    others = rng.integers(1, n_samples + 1, size=1)

    def prior(m):
        return ShiftedClasses().log_prior(m, n_samples, alpha=1.0)

    slope = tangent_log_odds(counts, n_samples)
    assert prior(others) >= prior(counts) + float(slope @ (others - counts)) - 1e-9


def test_rows_with_a_feature_of_their_own_are_not_for_the_tangent(monkeypatch):
    visited = []
    one_by_one = meibp_blocks.visit_one_by_one

    def watched(settings, context, state, forms, rows):
        visited.append(rows)
        return one_by_one(settings, context, state, forms, rows)

    monkeypatch.setattr(meibp_blocks, "visit_one_by_one", watched)
    n_seen = 0
    for seed in range(30):
        method, context, state = rough_state(seed)
        single = np.flatnonzero(state.statistics.counts == 1)
        owners = np.flatnonzero(state.assignments[:, single].any(axis=1))
        visited.clear()
        update_block(method, context, state, state.row_forms(context), slice(0, 40))
        if owners.size:
            n_seen += 1
            # They alone, unless the whole block was done again.
            assert visited[-1].tolist() in (owners.tolist(), list(range(40)))
    assert n_seen > 5


# The rows


def tangent_problem(context, state, row, log_odds):
    """The problem of a row in a block, from the model's equations."""
    o = context.observations
    values = o.source.rows(slice(row, row + 1))[0].astype(np.float64)
    x = values[o.layout.column_order] - o.centre - state.intercept.mean
    linear, quadratic = likelihood_terms(
        x, state.factors, state.hyperparameters.noise_precision.mean
    )
    k = linear.size
    return Problem(linear + log_odds, quadratic, np.full(k, NO_GROUP), np.zeros((0, k + 1)))


@given(
    seed=seeds,
    missing=missing_kinds,
    intercept=st.booleans(),
    searched=st.booleans(),
    rows_for_a_form=st.sampled_from([1, 8, 1000]),
)
@settings(max_examples=60)
def test_exact_rows_of_a_block_are_the_best_under_the_tangent(
    seed, missing, intercept, searched, rows_for_a_form
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibp.data.observations.ROWS_FOR_A_FORM", rows_for_a_form)
        method, context, state = rough_state(
            seed, missing, intercept=intercept, optimizer="exact", node_budget=10**6
        )
        # Without a search, what is said to be proven has nothing but its certificate.
        state.n_sweeps = 100 if searched else 0
        log_odds = tangent_log_odds(state.statistics.counts, 40)
        owned = np.zeros(40, dtype=bool)
        rows = np.arange(40)
        pieces = list(
            improve_block(
                method, context, state, state.row_forms(context), slice(0, 40), owned, log_odds
            )
        )
    new = state.assignments.copy()
    for piece in pieces:
        np.testing.assert_array_equal(piece.old, state.assignments[piece.changed])
        new[piece.changed] = piece.new
    gain, n_best = 0.0, 0
    for row in rows:
        problem = tangent_problem(context, state, row, log_odds)
        best = maximize(problem, "brute_force").value
        found = problem.value(new[row])
        scale = 1e-8 * max(1.0, abs(best), np.abs(problem.linear).sum())
        n_best += found >= best - scale
        gain += found - problem.value(state.assignments[row])
        if searched:
            assert found >= best - scale
    n_proven = sum(piece.n_proven for piece in pieces)
    assert n_proven <= n_best
    if searched:
        assert n_proven == 40
    total = sum(piece.gain for piece in pieces)
    assert total == pytest.approx(gain, rel=1e-7, abs=1e-6)
    assert total >= -1e-9


@given(seed=seeds, missing=missing_kinds, intercept=st.booleans(), size=st.sampled_from([3, 1000]))
@settings(max_examples=40)
def test_pieces_of_a_block_do_not_matter(seed, missing, intercept, size):
    method, context, state = rough_state(seed, missing, intercept=intercept, optimizer="exact")
    other = deepcopy(state)
    update_block(method, context, state, state.row_forms(context), slice(0, 40))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibp.data.observations.PIECE_ROWS", size)
        patch.setattr(meibp_blocks, "ROWS_ONE_BY_ONE", size)
        update_block(method, context, other, other.row_forms(context), slice(0, 40))
    np.testing.assert_array_equal(state.assignments, other.assignments)
    np.testing.assert_allclose(state.statistics.cross, other.statistics.cross, atol=1e-10)


# Threads


def digest(model, X):
    arrays = [
        model.components_,
        model.components_std_,
        model.intercept_,
        model.assignments_,
        model.history_["evidence"],
        model.history_["proven"],
        model.history_["train_log_likelihood"],
        np.hstack([model.evidence_, model.noise_std_, model.factor_std_, model.alpha_]),
        model.transform(X),
        model.confidence(X),
        model.score_samples(X),
    ]
    return [array.tobytes() for array in arrays]


def kinds_of_data():
    rng = np.random.default_rng(0)
    Z = rng.random((160, 5)) < 0.4
    A = rng.uniform(0.5, 2.0, size=(5, 30)) * (rng.random((5, 30)) < 0.4)
    X = Z @ A + 0.3 * rng.normal(size=(160, 30)) + 1.0
    holed = X.copy()
    holed[80:, :6] = np.nan
    holed[rng.random(X.shape) < 0.02] = np.nan
    few = np.where(np.abs(X - 1.0) < 0.5, 0.0, X)
    return {
        "dense": X,
        "single": X.astype(np.float32),
        "missing": holed,
        "single, missing": holed.astype(np.float32),
        "sparse": sparse.csr_array(few),
        "sparse, missing": sparse.csr_array(np.where(np.isnan(holed), np.nan, few)),
    }


@pytest.mark.parametrize(
    "changes",
    [{}, {"init": "random", "block_size": 64}, {"noise": "shared", "block_size": 64}],
)
@pytest.mark.parametrize("kind", kinds_of_data())
def test_threads_change_no_bit(monkeypatch, kind, changes):
    # Small pieces, so that there is something to share.
    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 16)
    monkeypatch.setattr("ibp.data.observations.SPARSE_PIECE_ROWS", 16)
    monkeypatch.setattr("ibp.data.summary.ROWS_AT_ONCE", 16)
    monkeypatch.setattr("ibp.methods.meibp.state.SMALLEST_PIECE", 4)
    patched = [
        monkeypatch.setattr(module, "CHUNK", 64)
        for name, module in sys.modules.items()
        if name.startswith("ibp.starts") and hasattr(module, "CHUNK")
    ]
    assert patched
    X = kinds_of_data()[kind]
    answers = []
    for n_jobs in (1, 2, 3, 2):
        model = unmoved(8, n_jobs=n_jobs, max_iter=6, tol=0, random_state=0, **changes).fit(X)
        answers.append(digest(model, X))
    assert model.n_components_ > 1
    assert answers[1:] == answers[:1] * 3


@pytest.mark.parametrize("optimizer", ["local_search", "randomized_double_greedy"])
@pytest.mark.parametrize("prior", ["shifted", "lof"])
def test_threads_change_no_bit_of_shuffled_blocks(monkeypatch, optimizer, prior):
    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 16)
    X = kinds_of_data()["missing"]
    settings = {"init": "random", "block_size": 50, "shuffle": True, "max_iter": 6, "tol": 0}
    answers = []
    for n_jobs in (1, 2, 3):
        model = unmoved(
            8, n_jobs=n_jobs, optimizer=optimizer, prior=prior, random_state=0, **settings
        ).fit(X)
        answers.append(digest(model, X))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("kind", ["dense", "missing", "sparse"])
def test_errors_in_a_thread_are_raised(monkeypatch, kind):
    class Expected(Exception):
        pass

    def fail(*arguments):
        raise Expected

    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 16)
    monkeypatch.setattr("ibp.methods.meibp.row_search.improve_rows", fail)
    with pytest.raises(Expected):
        unmoved(5, init="random", n_jobs=2, random_state=0).fit(kinds_of_data()[kind])


# Single precision


def rounding_of_single(context, state):
    """Rows are chosen by products that are rounded to single precision."""
    products = np.abs(context.observations.centre).max() ** 2 * context.observations.n_observed
    size = context.observations.sum_of_squares + products
    return 1e-6 * state.hyperparameters.noise_precision.mean * size


@given(seed=seeds, missing=missing_kinds, prior=priors, intercept=st.booleans())
@settings(max_examples=60)
def test_sweeps_in_single_precision_do_not_lower_the_bound(seed, missing, prior, intercept):
    method, context, state = rough_state(
        seed,
        missing,
        prior=prior,
        intercept=intercept,
        dtype=np.float32,
        optimizer="exact",
        block_size=15,
    )
    bound = direct_bound(method, context, state)
    for _ in range(5):
        after = method.step(context, state).evidence
        assert after >= bound - 1e-9 * abs(bound) - rounding_of_single(context, state)
        bound = after


@pytest.mark.parametrize("noise", ["per_column", "shared"])
@pytest.mark.parametrize("kind", ["single", "single, missing"])
@pytest.mark.parametrize("init", ["spectral", "random"])
def test_single_precision_is_close_to_double(kind, init, noise):
    X = kinds_of_data()[kind]
    settings = {"init": init, "noise": noise, "random_state": 0, "tol": 0}
    single = unmoved(6, **settings).fit(X)
    double = unmoved(6, **settings).fit(X.astype(np.float64))
    assert single.n_components_ >= 5
    np.testing.assert_array_equal(single.assignments_, double.assignments_)
    np.testing.assert_allclose(single.components_, double.components_, rtol=1e-3, atol=1e-4)
    assert single.evidence_ == pytest.approx(double.evidence_, rel=1e-5)
    # A fit ends when the bound moves little. At its top that leaves a level the more freedom the
    # fewer entries it has, and here a column has a thirtieth of them.
    rtol = 1e-5 if noise == "shared" else 1e-4
    np.testing.assert_allclose(single.noise_std_, double.noise_std_, rtol=rtol)
    assert single.components_.dtype == np.float64
    steps = np.diff(single.history_["evidence"])
    assert (steps >= -1e-6 * np.abs(single.evidence_)).all()


def test_sums_in_single_precision_do_not_drift():
    # A million equal numbers: adding them up in single precision would lose the last digits.
    rng = np.random.default_rng(0)
    X = (0.1 + 0.01 * rng.normal(size=(200_000, 3))).astype(np.float32)
    Z = (rng.random((200_000, 2)) < 0.7).astype(np.uint8)
    found = Statistics.from_codes(Observations.from_array(X), Z)
    np.testing.assert_allclose(found.cross, Z.T.astype(float) @ X.astype(float), rtol=1e-6)
    assert found.cross.dtype == np.float64


# The schedule


def rows_of_sweeps(monkeypatch, n_sweeps=3, **settings):
    """The blocks that each sweep visits."""
    sweeps = []
    original = meibp.update_block

    def watched(method, context, state, forms, rows):
        sweeps[-1].append(rows)
        return original(method, context, state, forms, rows)

    monkeypatch.setattr(meibp, "update_block", watched)
    method, context, state = make(1, "scattered", n=50, **settings)
    assert state.n_components > 1
    for _ in range(n_sweeps):
        sweeps.append([])
        method.step(context, state)
    return sweeps


def test_blocks_in_order(monkeypatch):
    for blocks in rows_of_sweeps(monkeypatch, block_size=20):
        assert blocks == [slice(0, 20), slice(20, 40), slice(40, 50)]


def test_shuffled_blocks(monkeypatch):
    sweeps = rows_of_sweeps(monkeypatch, block_size=20, shuffle=True)
    orders = [np.concatenate(blocks) for blocks in sweeps]
    for order, blocks in zip(orders, sweeps, strict=True):
        assert [block.size for block in blocks] == [20, 20, 10]
        np.testing.assert_array_equal(np.sort(order), np.arange(50))
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[1], orders[2])


def test_automatic_blocks_grow_when_few_rows_change():
    rng = np.random.default_rng(0)
    Z = rng.random((3000, 4)) < 0.4
    X = Z @ rng.uniform(1, 3, size=(4, 12)) + 0.5 * rng.normal(size=(3000, 12))
    sizes, changed = [], []

    def look(progress):
        sizes.append(progress.state.block_size)
        changed.append(progress.n_changed / progress.state.assignments.size)

    unmoved(4, init="random", callbacks=look, tol=0, random_state=0).fit(X)
    assert sizes[0] == 3000 // meibp.BLOCKS_AT_FIRST
    for before, size, share in zip(sizes, sizes[1:], changed[1:], strict=False):
        assert size == (min(2 * before, meibp.LARGEST_BLOCK) if share < meibp.QUIET else before)
    assert sizes[-1] > sizes[0]
    fixed = []
    unmoved(
        4,
        init="random",
        block_size=100,
        callbacks=lambda progress: fixed.append(progress.state.block_size),
        random_state=0,
    ).fit(X)
    assert set(fixed) == {100}


@pytest.mark.parametrize("n_samples, expected", [(5, 32), (512, 32), (1600, 100), (10**6, 8192)])
def test_first_automatic_block(n_samples, expected):
    method, _, _ = make(0, block_size="auto")
    assert method.first_block_size(n_samples) == expected
    assert replace(method, block_size=7).first_block_size(n_samples) == 7


def test_stopping_between_blocks_leaves_a_consistent_state():
    method, context, state = make(4, "scattered", n=60, learned=True, block_size=10, intercept=True)
    bound = direct_bound(method, context, state)
    before = state.assignments.copy()
    report = method.step(replace(context, should_stop=stop_after(3)), state)
    assert report.evidence == pytest.approx(direct_bound(method, context, state), rel=1e-10)
    assert_not_lower(report.evidence, bound)
    if state.n_components == before.shape[1]:
        np.testing.assert_array_equal(state.assignments[30:], before[30:])
        assert (state.assignments[:30] != before[:30]).any()


# Copies


@pytest.mark.parametrize("missing", ["none", "block"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_complete_rows_are_never_copied(monkeypatch, missing, dtype):
    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 32)
    rng = np.random.default_rng(0)
    Z = rng.random((500, 3)) < 0.4
    X = (Z @ rng.uniform(1, 3, size=(3, 9)) + 0.3 * rng.normal(size=(500, 9))).astype(dtype)
    if missing == "block":
        X[250:, :3] = np.nan
    calls = []
    rows_of = Observations.rows

    def watched(self, rows):
        block = rows_of(self, rows)
        calls.append((np.shares_memory(all_rows(self.source), block), rows))
        assert block.dtype == dtype
        return block

    monkeypatch.setattr(Observations, "rows", watched)
    model = unmoved(4, init="random", max_iter=6, tol=0, random_state=0).fit(X)
    model.transform(X)
    assert len(calls) > 50
    n_views = 0
    for shared, rows in calls:
        if isinstance(rows, slice):
            complete = not np.isnan(X[rows]).any()
            assert shared == complete
            n_views += shared
            assert complete or rows.stop - rows.start <= 32  # a piece at a time is filled
        else:  # rows that own a feature, or that are done again
            assert rows.size <= meibp_blocks.ROWS_ONE_BY_ONE
    assert n_views > 50


@pytest.mark.parametrize("missing", [False, True])
def test_a_fit_needs_little_memory_beside_its_data(missing):
    rng = np.random.default_rng(0)
    Z = rng.random((20_000, 4)) < 0.4
    X = Z @ rng.uniform(1, 3, size=(4, 150)) + 0.5 * rng.normal(size=(20_000, 150))
    if missing:
        X[10_000:, :30] = np.nan
    settings = {"init": "random", "max_iter": 3, "tol": 0, "n_jobs": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unmoved(6, **settings).fit(X[:500])
        tracemalloc.start()
        model = unmoved(6, **settings).fit(X)
        model.transform(X)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert model.n_components_ > 1
    assert peak < X.nbytes / 2
