"""The second search of rows: a fit makes it before it ends, and `transform` finds nothing more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ibp.data import Observations
from ibp.kernels.column_hashes import column_hashes
from ibp.methods.context import Context
from ibp.methods.meibp import method as meibp
from ibp.methods.meibp.assign import FrozenModel, place
from ibp.methods.meibp.blocks import improve_block
from ibp.methods.meibp.method import MEIBPMethod
from ibp.methods.meibp.moves.schedule import Tried
from ibp.methods.meibp.row_search import FEW_CODES, SECOND_CODES, best_codes, objective
from ibp.model import Statistics
from ibp.model.ibp_prior import tangent_log_odds
from problems import (
    assert_not_lower,
    direct_bound,
    make,
    missing_kinds,
    priors,
    random_data,
    seeds,
    stop_after,
    unmoved,
)

# With which the exact search proves next to nothing.
SMALL_BUDGET = 16


def hard_data(kind="dense"):
    """Rows that have many features, all alike, so that many codes are nearly as good."""
    rng = np.random.default_rng(1)
    A = rng.uniform(0.2, 1.5, size=(30, 30)) * (rng.random((30, 30)) < 0.8)
    X = (rng.random((300, 30)) < 0.5) @ A + 0.2 * rng.normal(size=(300, 30))
    if "missing" in kind:
        X[150:, :6] = np.nan
        X[rng.random(X.shape) < 0.03] = np.nan
    if "single" in kind:
        X = X.astype(np.float32)
    return sparse.csr_array(X) if "sparse" in kind else X


KINDS = ["dense", "missing", "single", "sparse", "sparse, missing"]


def fitted(X, **changes):
    known = {"init": "random", "node_budget": SMALL_BUDGET, "random_state": 0, "n_jobs": 1}
    return unmoved(30, **(known | changes)).fit(X)


def row_values(model, X, codes, log_odds):
    """The objective of rows with all else as it is, by its terms."""
    seen, codes = ~np.isnan(X), codes.astype(float)
    residual = X - model.intercept_ - codes @ model.components_
    spread = codes @ model.components_std_**2
    precision = np.broadcast_to(model.noise_std_, X.shape[1]) ** -2.0
    return (codes * log_odds).sum(axis=1) - 0.5 * np.where(seen, residual**2 + spread, 0.0) @ (
        precision
    )


def found_by_transform(model, X):
    """The rows that `transform` has a better code for, counts as they are or without the row."""
    new, old = model.transform(X), model.assignments_
    if sparse.issparse(X):
        X = X.toarray()
    counts, n = model.feature_counts_, len(X)
    frozen = np.log(counts) - np.log(n + 1.0 - counts)
    others = counts - old.astype(np.int64)
    with np.errstate(divide="ignore"):
        exact = np.maximum(np.log(others) - np.log(n - others), -1e3)
    better = [
        row_values(model, X, new, odds) > row_values(model, X, old, odds) + 1e-6
        for odds in (frozen, exact)
    ]
    return better[0] & better[1]


# What a fit ends with


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *((kind, {}) for kind in KINDS),
        ("missing", {"prior": "lof"}),
        ("dense", {"noise": "shared"}),
        ("dense", {"block_size": 1, "shuffle": True}),
    ],
)
def test_transform_finds_next_to_no_better_codes_than_the_fit(monkeypatch, kind, changes):
    X = hard_data(kind)
    model = fitted(X, **changes)
    with monkeypatch.context() as patch:
        patch.setattr(MEIBPMethod, "look_again", lambda *arguments: False)
        before = fitted(X, **changes)
    assert model.ending_ == before.ending_ == "converged"
    found = found_by_transform(model, X).sum()
    assert found <= meibp.FOUND_AGAIN * X.shape[0]
    assert found < found_by_transform(before, X).sum()
    # It is the same fit up to there, and goes on upwards.
    evidence = model.history_["evidence"]
    np.testing.assert_array_equal(evidence[: before.n_iter_], before.history_["evidence"])
    assert (np.diff(evidence) >= -1e-9 * np.abs(evidence[1:])).all()
    assert model.evidence_ > before.evidence_


@pytest.mark.parametrize("kind", KINDS)
def test_codes_are_worth_what_the_objective_says(kind):
    X = hard_data(kind)
    model = fitted(X)
    task = model._frozen().task(model._observe(X))
    part = slice(130, 170)  # with each way to miss something
    rows = place(task._replace(search_again=False), part)
    known = task.known_codes
    Y = (X.toarray() if sparse.issparse(X) else X)[part]
    nothing = row_values(model, Y, np.zeros((len(Y), known.codes.shape[1])), task.log_odds)
    exactly = np.stack(
        [
            row_values(model, Y, np.tile(z, (len(Y), 1)), task.log_odds) - nothing
            for z in known.codes
        ],
        axis=1,
    )
    close = {"rtol": 1e-3 if "single" in kind else 1e-9, "atol": 1e-3}
    for number in (0, len(known.codes) // 2):
        found = objective(task, rows, np.tile(known.codes[number], (len(Y), 1)))
        np.testing.assert_allclose(found, exactly[:, number], **close)
    best = exactly[np.arange(len(Y)), best_codes(task, rows, known)]
    highest, shares_form = exactly.max(axis=1), rows.gaps.form_of_row >= 0
    np.testing.assert_allclose(best[shares_form], highest[shares_form], **close)
    assert (best >= 0.95 * highest - 1e-3).all()  # not all codes are asked about what a row misses


def test_a_fit_with_all_rows_proven_ends_as_it_did(monkeypatch):
    X = random_data(np.random.default_rng(0), 100, 12)
    model = unmoved(6, init="random", random_state=0).fit(X)
    assert model.history_["proven"][-1] == 1.0
    monkeypatch.setattr(MEIBPMethod, "look_again", lambda *arguments: False)
    before = unmoved(6, init="random", random_state=0).fit(X)
    np.testing.assert_array_equal(model.history_["evidence"], before.history_["evidence"])


@pytest.mark.parametrize("changes", [{"optimizer": "local_search"}, {"row_start": "empty"}])
def test_only_rows_of_the_exact_search_from_where_they_are_are_searched_again(changes):
    method, context, state = make(0, **({"optimizer": "exact"} | changes))
    assert state.n_proven == 0
    assert not method.look_again(context, state)
    assert not state.searches_again


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_no_bit(monkeypatch, kind, prior):
    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 16)
    monkeypatch.setattr("ibp.data.observations.SPARSE_PIECE_ROWS", 16)
    n_sweeps = []
    search_again = MEIBPMethod.search_again

    def counted(*arguments):
        n_sweeps[-1] += 1
        return search_again(*arguments)

    monkeypatch.setattr(MEIBPMethod, "search_again", counted)
    X = hard_data(kind)[70:230]  # of either half, where entries are missing
    answers = []
    for n_jobs in (1, 2, 3):
        n_sweeps.append(0)
        model = fitted(X, prior=prior, n_jobs=n_jobs)
        answers.append([model.assignments_.tobytes(), model.history_["evidence"].tobytes()])
    assert answers[0] == answers[1] == answers[2]
    assert n_sweeps[0] == n_sweeps[1] == n_sweeps[2] >= 2


# A sweep that searches rows a second time


@given(
    seed=seeds,
    missing=missing_kinds,
    prior=priors,
    learned=st.booleans(),
    intercept=st.booleans(),
    by_column=st.booleans(),
    codes=st.integers(1, 40),
)
@settings(max_examples=60)
def test_no_second_search_lowers_the_bound(
    seed, missing, prior, learned, intercept, by_column, codes
):
    method, context, state = make(
        seed,
        missing,
        learned,
        k=8,
        prior=prior,
        optimizer="exact",
        node_budget=SMALL_BUDGET,
        intercept=intercept,
        by_column=by_column,
    )
    bound = direct_bound(method, context, state)
    for _ in range(3):
        state.searches_again, state.second_codes = True, codes
        if state.n_components == 0:
            return
        method.search_again(context, state)
        after = direct_bound(method, context, state)
        assert_not_lower(after, bound)
        bound = after
        fresh = Statistics.from_codes(context.observations, state.assignments)
        np.testing.assert_allclose(state.statistics.cross, fresh.cross, rtol=1e-8, atol=1e-8)
        np.testing.assert_array_equal(state.statistics.counts, fresh.counts)
        np.testing.assert_array_equal(state.column_hash, column_hashes(state.assignments))


@pytest.mark.parametrize("missing", ["none", "block", "scattered"])
def test_the_gain_of_a_block_is_that_of_its_rows(missing):
    method, context, state = make(
        3, missing, n=60, d=12, k=20, optimizer="exact", node_budget=SMALL_BUDGET
    )
    state.full_budget, owns_a_feature = True, np.zeros(60, dtype=bool)
    log_odds = tangent_log_odds(state.statistics.counts, 60)

    def improved(codes):
        state.searches_again, state.second_codes = codes > 0, codes
        forms = state.row_forms(context)
        arguments = (forms, slice(0, 60), owns_a_feature, log_odds)
        return list(improve_block(method, context, state, *arguments))

    def value(pieces):
        """The likelihood and the tangent at the codes that were found, by their own formulas."""
        codes = state.assignments.copy()
        for piece in pieces:
            codes[piece.changed] = piece.new
        X = context.observations.rows(slice(0, 60))
        gaps = np.zeros_like(X, dtype=bool)
        row, position = context.observations.missing_entries(slice(0, 60))
        gaps[row, context.observations.layout.column_order[position]] = True
        mean, variance = (
            context.observations.layout.restore(part)
            for part in (state.factors.mean, state.factors.variance)
        )
        squares = (X - codes @ mean) ** 2 + codes @ variance
        precision = state.hyperparameters.noise_precision.mean
        return (codes @ log_odds).sum() - 0.5 * precision * squares[~gaps].sum()

    once, twice = improved(0), improved(SECOND_CODES)
    present = value([])
    for pieces in (once, twice):
        assert sum(piece.gain for piece in pieces) == pytest.approx(value(pieces) - present)
    assert value(twice) > value(once)


@pytest.mark.parametrize("missing", ["none", "scattered"])
def test_the_gain_of_a_placed_row_is_what_its_code_is_worth(missing):
    rng = np.random.default_rng(5)
    mean = np.abs(rng.normal(size=(14, 10)))
    model = FrozenModel(
        mean=mean,
        variance=rng.uniform(0.0, 0.1, size=mean.shape),
        offset=np.zeros(10),
        counts=rng.integers(5, 45, size=14),
        n_samples=50,
        noise_std=0.3,
        optimizer="exact",
        thorough=True,
        node_budget=SMALL_BUDGET,
    )
    X = rng.integers(0, 2, size=(40, 14)) @ mean + 0.3 * rng.normal(size=(40, 10))
    if missing == "scattered":
        X[rng.random(X.shape) < 0.2] = np.nan
    task = model.task(Observations.from_array(X))
    outcome = place(task, slice(0, 40)).outcome
    once = place(task._replace(search_again=False), slice(0, 40)).outcome

    def value(codes):
        seen = ~np.isnan(X)
        squares = np.where(seen, (X - codes @ mean) ** 2 + codes @ model.variance, 0.0)
        return codes @ task.log_odds - 0.5 * squares.sum(axis=1) / 0.3**2

    nothing = value(np.zeros((40, 14)))
    np.testing.assert_allclose(outcome.gain, value(outcome.chosen) - nothing, rtol=1e-9)
    np.testing.assert_allclose(once.gain, value(once.chosen) - nothing, rtol=1e-9)
    assert (outcome.gain >= once.gain).all()
    assert (outcome.gain > once.gain + 1e-6).any()


def test_few_codes_come_first_and_then_those_of_transform():
    method, context, state = make(1, n=200, k=8, optimizer="exact", node_budget=SMALL_BUDGET)
    state.n_proven = 100
    assert method.look_again(context, state)
    assert state.second_codes == FEW_CODES
    state.n_found_again = 5
    assert method.look_again(context, state)
    assert state.second_codes == FEW_CODES
    state.n_found_again = 4
    assert method.look_again(context, state)
    assert state.second_codes == SECOND_CODES
    assert not method.look_again(context, state)
    state.n_proven = 200
    state.n_found_again = 5
    assert not method.look_again(context, state)


def test_told_to_stop_a_second_search_leaves_a_consistent_state(monkeypatch):
    monkeypatch.setattr(meibp, "SECOND_BLOCK", 10)
    method, context, state = make(1, n=60, k=8, optimizer="exact", node_budget=SMALL_BUDGET)
    bound = direct_bound(method, context, state)
    assert method.look_again(context, state)
    stopped = Context(context.observations, context.rng, should_stop=stop_after(3))
    method.step(stopped, state)
    assert not state.searches_again
    assert_not_lower(direct_bound(method, context, state), bound)


def test_what_a_run_takes_over_is_searched_again(monkeypatch):
    monkeypatch.setattr(meibp, "MOST_SECOND_SEARCHES", 100)  # from a random state it takes many
    method, context, state = make(
        1, n=60, d=12, k=20, optimizer="exact", node_budget=SMALL_BUDGET, block_size=20, moves=True
    )
    state.second_codes = SECOND_CODES
    bound = direct_bound(method, context, state)
    monkeypatch.setattr(meibp, "take_over", lambda *arguments: Tried("union", 1.0))
    assert method.unite(context, state, state).n_components == state.n_components
    assert state.second_codes == SECOND_CODES
    assert state.n_found_again <= meibp.FOUND_AGAIN * 60
    assert_not_lower(direct_bound(method, context, state), bound)


def test_second_searches_are_few_and_none_is_too_long(monkeypatch):
    method, context, state = make(1, n=60, k=8, optimizer="exact", node_budget=SMALL_BUDGET)
    for number in range(meibp.MOST_SECOND_SEARCHES + 1):
        state.n_proven, state.n_found_again = 0, 60
        assert method.look_again(context, state) == (number < meibp.MOST_SECOND_SEARCHES)
    monkeypatch.setattr(meibp, "MOST_SECOND_WORK", 10.0)
    state.n_second_searches = 0
    assert not method.look_again(context, state)
