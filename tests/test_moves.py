"""Moves: none lowers the bound, none in vain leaves a trace, and what was planted is found."""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import norm, truncnorm
from sklearn.datasets import load_digits

import naive
from ibp import MEIBP
from ibp.datasets import make_block_images
from ibp.kernels.column_hashes import column_hashes
from ibp.methods.context import Context
from ibp.methods.meibp.moves.base import Proposal, attempt, rounding
from ibp.methods.meibp.moves.birth import Birth
from ibp.methods.meibp.moves.changes import NewFactors, with_new_features
from ibp.methods.meibp.moves.exchange import Exchange
from ibp.methods.meibp.moves.growth import Growth
from ibp.methods.meibp.moves.merge import Merge
from ibp.methods.meibp.moves.new_features import FeaturePrior, climb
from ibp.methods.meibp.moves.reheating import (
    IN_VAIN,
    IN_VAIN_IF_PROVEN,
    Reheating,
    plan_walk,
    walk_is_over,
    walk_on,
)
from ibp.methods.meibp.moves.removal import Removal
from ibp.methods.meibp.moves.residuals import residual_unit, residuals
from ibp.methods.meibp.moves.schedule import MOVES, moves_left
from ibp.methods.meibp.moves.split import Split
from ibp.methods.meibp.moves.turn import Turn
from ibp.methods.meibp.moves.union import Union
from ibp.methods.meibp.state import MEIBPState
from ibp.model import Statistics
from ibp.parallel import Threads
from problems import assert_not_lower, direct_bound, make, missing_kinds, priors, seeds, stop_after
from resuming import assert_resumes

pytestmark = pytest.mark.filterwarnings("ignore:X has negative entries")

NOISE_STD = 0.2
N_SAMPLES = 150


def planted(noise_std=NOISE_STD, n_samples=N_SAMPLES, seed=0):
    """Block images, whose four features can be told in every row."""
    return make_block_images(n_samples, noise_std=noise_std, random_state=seed)


def prepared(X, codes, **settings_of_model):
    """A method, a context and a state with given codes, as a fit would have them."""
    model = MEIBP(init={"Z": codes}, n_jobs=1, **settings_of_model)
    executor = Threads(1)
    observations = model._observe_training_data(X, executor)
    method = model._method(observations)
    context = Context(observations, np.random.default_rng(0), executor)
    return method, context, method.init(context)


def come_to_rest(method, context, state):
    """Sweep on, as a fit does after a move."""
    for _ in range(30):
        if method.improve(context, state) == 0:
            break


def columns(codes):
    """The features as a set of columns."""
    return sorted(column.tobytes() for column in np.ascontiguousarray(codes.T, dtype=np.uint8))


def same_arrays(one, other):
    """Whether two states, written down, are the same bit for bit."""
    return one.keys() == other.keys() and all(
        array.dtype == other[name].dtype
        and array.shape == other[name].shape
        and array.tobytes() == other[name].tobytes()
        for name, array in one.items()
    )


def junk(n_samples=N_SAMPLES, n_features=1, seed=5):
    """Features that have nothing to do with the data."""
    return (np.random.default_rng(seed).random((n_samples, n_features)) < 0.3).astype(np.uint8)


def halves(column):
    """A feature as two, each of which has half of its rows."""
    rows = np.flatnonzero(column)
    both = np.zeros((column.size, 2), dtype=np.uint8)
    both[rows[::2], 0] = both[rows[1::2], 1] = 1
    return both


def as_three(Z):
    """The first two features as three: either, not the first alone, not the second alone."""
    first, second = Z[:, :1].astype(bool), Z[:, 1:2].astype(bool)
    return np.hstack([first | second, ~first | second, first | ~second, Z[:, 2:]]).astype(np.uint8)


# When features grow by reheatings


def test_growth_is_for_fits_with_features_room_and_doubt_before_a_short_walk(monkeypatch):
    X, Z, _ = planted()
    method, context, state = prepared(X, Z[:, :2])
    state.n_proven = 0

    def proposed(least_features=2, long_walk=np.inf, n_rows=0, method=method, **changes):
        move = Growth(n_rows, least_features, long_walk)
        return len(list(move.proposals(method, context, replace(state, **changes))))

    assert proposed() == 1
    assert proposed(n_reheatings=1) == 0
    assert proposed(n_proven=N_SAMPLES) == 0
    assert proposed(method=replace(method, limit=2)) == 0
    assert proposed(least_features=3) == 0
    # This is small data, of which a sample would be walked with for long; not if they were many.
    assert proposed(long_walk=20) == 0
    assert proposed(long_walk=20, n_rows=10**7) == 1
    monkeypatch.setattr("ibp.methods.meibp.moves.growth.MOST_WORK", 1.0)
    assert proposed() == 0


# The bound and every move, in every mode


def as_given(X):
    return X


def with_missing_block(X):
    X = X.copy()
    X[: X.shape[0] // 2, 30:] = np.nan
    return X


def with_missing_entries(X):
    X = X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    return X


def mostly_zeros(X):
    return csr_array(np.where(X > 0.5, X, 0.0))


MODES = {
    "dense": (as_given, {}),
    "csr": (mostly_zeros, {}),
    "csr with shared noise": (mostly_zeros, {"noise": "shared"}),
    "float32": (lambda X: X.astype(np.float32), {}),
    "missing block": (with_missing_block, {}),
    "missing entries": (with_missing_entries, {}),
    "missing entries and shared noise": (with_missing_entries, {"noise": "shared"}),
    "shared noise": (as_given, {"noise": "shared"}),
    "left-ordered form": (as_given, {"prior": "lof"}),
    "known noise": (
        as_given,
        {"learn_hyperparameters": False, "noise_std": NOISE_STD, "factor_std": 1.0},
    ),
    "known shared noise": (
        as_given,
        {
            "learn_hyperparameters": False,
            "noise": "shared",
            "noise_std": NOISE_STD,
            "factor_std": 1.0,
        },
    ),
    "no intercept": (as_given, {"fit_intercept": False}),
    "row by row": (as_given, {"block_size": 1}),
    "row by row with missing entries": (with_missing_entries, {"block_size": 1}),
    "shuffled local search": (as_given, {"shuffle": True, "optimizer": "local_search"}),
}


def situation(name, Z):
    """A move, codes for which it is of use, and the limit if it needs one."""
    together = (Z[:, :1] | Z[:, 1:2]).astype(np.uint8)
    return {
        "birth": (Birth(), Z[:, :3], None),
        "exchange": (Exchange(), np.hstack([Z[:, :3], junk()]), 4),
        "removal": (Removal(), np.hstack([Z, junk()]), None),
        "merge": (Merge(), np.hstack([halves(Z[:, 0]), Z[:, 1:]]), None),
        "split": (Split(), np.hstack([together, Z[:, 2:]]), None),
        "growth": (Growth(least_features=2, long_walk=np.inf), Z[:, :2], None),
        "reheating": (Reheating(), Z[:, :2], None),
        "turn": (Turn(), as_three(Z), None),
        "union": (Union(Z[:, 2:]), Z[:, :3], None),
    }[name]


SITUATIONS = (
    "growth",
    "birth",
    "exchange",
    "removal",
    "merge",
    "split",
    "reheating",
    "turn",
    "union",
)


def test_a_situation_for_every_move_of_the_schedule():
    assert {move.name for move in MOVES} | {Union.name} == set(SITUATIONS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_bound_rises_by_the_gain_of_a_move(name, mode):
    if name == "turn" and mode == "no intercept":
        pytest.skip("what is turned round goes into the intercept")
    X, Z, _ = planted()
    change, settings_of_mode = MODES[mode]
    move, codes, limit = situation(name, Z)
    method, context, state = prepared(change(X), codes, n_components=limit, **settings_of_mode)
    before, arrays = direct_bound(method, context, state), deepcopy(state.to_arrays())
    changed, gain = attempt(method, context, state, move)
    assert gain > 1.0  # else nothing is tested
    after = direct_bound(method, context, changed)
    # Sums of rows in single precision have fewer, and not the same on every processor.
    digits = 3e-6 if mode == "float32" else 1e-9
    assert after - before == pytest.approx(gain, abs=digits * abs(before))
    # The state that was given is as it was, though another has come of it.
    assert same_arrays(state.to_arrays(), arrays)
    # And the other is whole: its sums and names of columns are those of its codes.
    fresh = Statistics.from_codes(context.observations, changed.assignments)
    np.testing.assert_array_equal(changed.statistics.counts, fresh.counts)
    np.testing.assert_array_equal(changed.statistics.gram, fresh.gram)
    np.testing.assert_allclose(changed.statistics.cross, fresh.cross, atol=100.0 * digits)
    np.testing.assert_array_equal(changed.column_hash, column_hashes(changed.assignments))
    assert (fresh.counts > 0).all()
    assert limit is None or changed.n_components <= limit


def naive_bound(X, state, prior):
    """The bound entry by entry, for known hyperparameters and without an intercept."""
    q, known = state.factors, state.hyperparameters
    low = -q.location / q.scale
    density = truncnorm(low, np.inf, loc=q.location, scale=q.scale)
    mass = norm.sf(low)
    entropies = np.log(q.scale * mass) + 0.5 * (
        np.log(2 * np.pi * np.e) + low * norm.pdf(low) / mass
    )
    return sum(
        naive.evidence(
            X,
            state.assignments,
            density.mean(),
            density.var() + density.mean() ** 2,
            entropies,
            noise_std=known.noise_std,
            factor_std=known.factor_std,
            alpha=known.alpha.mean,
            prior=prior,
        )
    )


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("name", ["birth", "removal", "merge"])
def test_the_gain_of_a_move_is_that_of_the_paper_s_equations(name, prior):
    X, Z, _ = planted()
    X = X[:, :18]  # the first two images alone, to be quick
    _, settings_of_mode = MODES["known shared noise"]
    move, codes, _ = {
        "birth": (Birth(), Z[:, :1], None),
        "removal": (Removal(), np.hstack([Z[:, :2], junk()]), None),
        "merge": (Merge(), np.hstack([halves(Z[:, 0]), Z[:, 1:2]]), None),
    }[name]
    method, context, state = prepared(
        X, codes, fit_intercept=False, prior=prior, **settings_of_mode
    )
    changed, gain = attempt(method, context, state, move)
    risen = naive_bound(X, changed, prior) - naive_bound(X, state, prior)
    assert gain == pytest.approx(risen, rel=1e-6)
    come_to_rest(method, context, changed)
    assert columns(changed.assignments) == columns(Z[:, :2])


@pytest.mark.parametrize("mode", MODES)
def test_the_evidence_never_falls_over_a_fit(mode):
    X, Z, _ = planted()
    change, settings_of_mode = MODES[mode]
    start = {"Z": Z[:, :2]}
    model = MEIBP(init=start, random_state=0, n_jobs=1, **settings_of_mode).fit(change(X))
    evidence, moves, gains = (model.history_[name] for name in ("evidence", "move", "move_gain"))
    assert (np.diff(evidence) >= -rounding(np.abs(evidence).max())).all()
    assert model.evidence_ == pytest.approx(evidence[-1], rel=1e-10)
    assert model.converged_
    # Names and gains belong together, and no more is ascribed to moves than has been gained.
    assert set(moves) <= {""} | {move.name for move in MOVES}
    assert ((moves != "") == (gains > 0.0)).all()
    assert (gains[moves == ""] == 0.0).all()
    assert (gains[1:] <= np.diff(evidence) + rounding(np.abs(evidence).max())).all()
    assert gains.sum() <= evidence[-1] - model.baseline_evidence_
    assert (moves != "").any()


@given(
    seed=seeds,
    missing=missing_kinds,
    prior=priors,
    learned=st.booleans(),
    intercept=st.booleans(),
    by_column=st.booleans(),
    block=st.one_of(st.integers(1, 30), st.just("auto")),
    limit=st.sampled_from([None, 5, 7]),
)
@settings(max_examples=10)
def test_no_step_with_moves_lowers_the_bound(
    seed, missing, prior, learned, intercept, by_column, block, limit
):
    method, context, state = make(
        seed,
        missing,
        learned,
        prior=prior,
        intercept=intercept,
        by_column=by_column,
        block_size=block,
        moves=True,
        limit=limit,
        optimizer="exact",
        n=30,
    )
    bound = method.report(context, state, 0).evidence
    for _ in range(6):
        record = method.step(context, state)
        assert record.evidence == pytest.approx(direct_bound(method, context, state), rel=1e-9)
        assert_not_lower(record.evidence, bound + record.values["move_gain"])
        assert limit is None or state.n_components <= limit
        bound = record.evidence


# Moves in vain


class Counted:
    """A move that counts its proposals."""

    def __init__(self, move):
        self.move, self.name, self.n_proposals = move, move.name, 0

    def proposals(self, method, context, state):
        for proposal in self.move.proposals(method, context, state):
            self.n_proposals += 1
            yield proposal


@pytest.mark.parametrize("mode", ["dense", "missing entries", "known shared noise", "row by row"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_move_in_vain_leaves_the_state_bit_for_bit(name, mode, monkeypatch):
    # Whatever is planted has been found, and yet all moves have something to propose.
    monkeypatch.setattr("ibp.methods.meibp.moves.merge.ALIKE", -2.0)
    monkeypatch.setattr("ibp.methods.meibp.moves.removal.MOST_LOST", np.inf)
    monkeypatch.setattr("ibp.methods.meibp.moves.turn.LEAST_COSINE", -2.0)
    monkeypatch.setattr("ibp.methods.meibp.moves.turn.LEAST_SHARE", 0.1)
    monkeypatch.setattr("ibp.methods.meibp.moves.growth.is_proven", lambda state: False)
    X, Z, _ = planted()
    change, settings_of_mode = MODES[mode]
    limit = 4 if name == "exchange" else None
    method, context, state = prepared(change(X), Z, n_components=limit, **settings_of_mode)
    come_to_rest(method, context, state)
    assert columns(state.assignments) == columns(Z)
    move = Counted(Union(junk(n_features=3)) if name == "union" else situation(name, Z)[0])
    arrays = deepcopy(state.to_arrays())
    outcome, gain = attempt(method, context, state, move)
    assert move.n_proposals > 0
    if gain > 0.0:  # not a feature less or more, at most the noise a little more exact
        assert columns(outcome.assignments) == columns(Z)
        assert gain < 1.0
    else:
        assert outcome is state
        assert gain == 0.0
    assert same_arrays(state.to_arrays(), arrays)


# The walk of reheatings

WALK = {"n_planned", "n_reheatings", "n_in_vain", "walk_pays", "walker", "walker_evidence"}
N_STEPS = 25


@pytest.fixture(scope="module")
def shades():
    """Rows that no few yes/no features explain: a method, a context and a state at rest."""
    X = load_digits().data[:80] / 16.0
    method, context, state = prepared(X, junk(80, 6))
    come_to_rest(method, context, state)
    state.n_planned, state.n_proven = N_STEPS, 0
    return method, context, state


def beginning_of(walk):
    """The same place to begin from, with the same draws, for every test."""
    method, context, state = walk
    return method, replace(context, rng=np.random.default_rng(1)), state.copy()


def without_walk(state):
    """All that a state knows but of its walk, written down."""
    arrays = state.to_arrays()
    return {name: arrays[name] for name in arrays if name.split(".")[0] not in WALK}


def test_a_walk_puts_up_with_falls_and_the_state_keeps_the_best(shades):
    method, context, state = beginning_of(shades)
    first = highest = method.evidence(context, state).total
    n_below = 0
    while not walk_is_over(state):
        before = deepcopy(without_walk(state))
        n_done = state.n_reheatings
        changed, gain = walk_on(method, context, state)
        assert changed.n_reheatings == n_done + 1
        if gain > 0.0:
            assert changed.walker is None
            highest += gain
        else:
            assert changed is state
            assert same_arrays(without_walk(state), before)
        assert method.evidence(context, changed).total == pytest.approx(highest, rel=1e-9)
        state = changed
        if state.walker is not None:
            n_below += 1
            assert state.walker_evidence <= highest
            assert state.walker_evidence == method.evidence(context, state.walker).total
    assert n_below > 0
    assert highest > first
    assert state.n_reheatings == N_STEPS
    assert state.walker is None


def test_a_walk_goes_on_from_where_it_was_written_down(shades):
    method, context, state = beginning_of(shades)
    state.next_move = [move.name for move in MOVES].index("reheating")
    state.n_changed = 0
    while state.walker is None:
        method.step(context, state)
    assert_resumes(method, context, state)


class Scripted:
    """A walk whose steps end with given bounds, told by where they began."""

    def __init__(self, monkeypatch, falls):
        self.falls, self.began_at, self.bounds = iter(falls), [], {}
        self.made = []  # kept, so that no other state has the number of one
        monkeypatch.setattr(f"{REHEATING}.reheated", self.reheated)
        monkeypatch.setattr(f"{REHEATING}.settle", lambda method, context, proposal: None)
        monkeypatch.setattr(f"{REHEATING}.gain_of_features", lambda *_: 1000.0)

    def evidence(self, context, state):
        return SimpleNamespace(total=self.bounds.get(id(state), 0.0))

    def reheated(self, method, context, state, number):
        self.began_at.append(state)
        changed = state.copy()
        self.made.append(changed)
        self.bounds[id(changed)] = -next(self.falls)
        return changed


REHEATING = "ibp.methods.meibp.moves.reheating"


def scripted_walk(shades, monkeypatch, falls, uniform, n_planned=100):
    """What came of a walk of scripted steps that all draw the same number."""
    _, context, state = beginning_of(shades)
    walk = Scripted(monkeypatch, falls)
    state.n_planned = n_planned
    context = replace(context, rng=SimpleNamespace(random=lambda: uniform))
    outcomes = [state]
    for _ in falls:
        outcomes.append(walk_on(walk, context, outcomes[-1]).state)
    return walk.began_at, outcomes


def test_a_step_begins_where_the_last_one_led_if_that_was_put_up_with(shades, monkeypatch):
    # At a temperature of ten, half of the draws put up with a fall of 6.9 and no more.
    falls = [6.0, 6.5, 20.0, 12.0, -5.0, 0.0]
    began, outcomes = scripted_walk(shades, monkeypatch, falls, uniform=0.5)
    state = outcomes[0]
    assert began[0] is state
    assert began[1] is not state  # a fall of 6
    assert began[2] is not began[1]  # of another half
    assert began[3] is began[2]  # not of 13.5 more
    assert began[4] is not began[3]  # but of 5.5
    assert outcomes[4] is state  # which is the best all the while
    assert outcomes[5] is not state  # and is no more
    assert began[5] is outcomes[5]


def test_no_step_leads_too_far_below_the_best(shades, monkeypatch):
    # With such a draw a fall of a hundred is put up with.
    began, _ = scripted_walk(shades, monkeypatch, [15.0, 25.0, 0.5], uniform=1.0 - 1e-5)
    assert began[1] is not began[0]
    assert began[2] is began[1]


def test_a_walk_cools_down(shades, monkeypatch):
    falls = [6.0] + [40.0] * 9 + [10.0, 9.0, 9.0]
    began, _ = scripted_walk(shades, monkeypatch, falls, uniform=0.5, n_planned=20)
    assert began[1] is not began[0]
    assert began[11] is began[1]  # by then four more are too many
    assert began[12] is not began[1]  # but not three


def test_without_temperature_a_walk_puts_up_with_nothing(shades, monkeypatch):
    monkeypatch.setattr(f"{REHEATING}.TEMPERATURE", 0.0)
    method, context, state = beginning_of(shades)
    while not walk_is_over(state):
        state, _ = walk_on(method, context, state)
        assert state.walker is None


@pytest.mark.parametrize(("proven", "n_steps"), [(0, IN_VAIN), (N_SAMPLES, IN_VAIN_IF_PROVEN)])
def test_a_walk_in_vain_ends_soon_and_is_not_followed_by_another_round(proven, n_steps):
    X, Z, _ = planted()
    method, context, state = prepared(X, Z)
    come_to_rest(method, context, state)
    state.next_move = [move.name for move in MOVES].index("reheating")
    state.n_planned, state.n_proven, state.n_changed = 3 * IN_VAIN, proven, 0
    for _ in range(n_steps):
        assert MOVES[state.next_move].name == "reheating"
        method.step(context, state)
    assert state.n_reheatings == n_steps
    assert state.walker is None
    names = [move.name for move in MOVES]
    assert not moves_left(method, state) or state.next_move > names.index("reheating")


def test_a_walk_that_led_further_is_followed_by_another_round(shades):
    method, context, state = beginning_of(shades)
    state.next_move = [move.name for move in MOVES].index("reheating")
    state.n_planned, state.n_changed = 2, 0
    while MOVES[state.next_move].name == "reheating":
        method.step(context, state)
    assert state.walk_pays
    assert state.next_move == 0


def test_walks_are_shorter_where_sweeps_take_longer_or_all_rows_are_proven(shades):
    lengths = []
    for repeats, proven in ((1, False), (100, False), (20_000, False), (20_000, True)):
        state = shades[2].copy()
        state.assignments = np.repeat(state.assignments, repeats, axis=0)
        state.n_planned, state.n_proven = -1, proven * state.assignments.shape[0]
        plan_walk(state)
        lengths.append(state.n_planned)
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[2] > lengths[3]


def test_a_move_that_makes_things_worse_is_never_taken():
    class Spoiling:
        name = "spoiling"

        def proposals(self, method, context, state):
            for k in range(state.n_components):
                spoiled = state.copy()
                spoiled.keep(np.arange(state.n_components) != k)
                yield Proposal(spoiled)

    X, Z, _ = planted()
    method, context, state = prepared(X, Z)
    arrays = deepcopy(state.to_arrays())
    outcome, gain = attempt(method, context, state, Spoiling())
    assert outcome is state
    assert gain == 0.0
    assert same_arrays(state.to_arrays(), arrays)


# New features


def candidates_of(seed, missing, learned, by_column):
    method, context, state = make(seed, missing, learned, by_column=by_column, n=40, d=8)
    left, prior = residuals(context, state), FeaturePrior.of(state)
    rng = np.random.default_rng(seed)
    above = left.values @ np.maximum(rng.normal(size=(left.values.shape[1], 6)), 0.0) > 0.0
    return method, context, state, left, prior, above


@given(
    seed=seeds,
    missing=missing_kinds,
    learned=st.booleans(),
    by_column=st.booleans(),
    rounds=st.integers(0, 3),
)
@settings(max_examples=40)
def test_the_gain_of_a_candidate_is_that_of_the_bound(seed, missing, learned, by_column, rounds):
    method, context, state, left, prior, codes = candidates_of(seed, missing, learned, by_column)
    found = climb(left, prior, codes, rounds)
    before = direct_bound(method, context, state)
    unit = residual_unit(state)
    size = abs(method.evidence(context, state).likelihood)
    for s in np.flatnonzero(np.isfinite(found.gain)):
        factors = NewFactors(found.location[[s]] * unit, found.scale[[s]] * unit)
        with_it = with_new_features(context, state, found.codes[:, [s]], factors)
        after = direct_bound(method, context, with_it)
        assert found.gain[s] == pytest.approx(after - before, rel=1e-4, abs=1e-6 * size + 1e-3)


@given(seed=seeds, missing=missing_kinds, learned=st.booleans(), by_column=st.booleans())
@settings(max_examples=40)
def test_a_candidate_climbs_from_round_to_round(seed, missing, learned, by_column):
    # Z's prior is convex in a feature's count, so the log-odds of the count that there was, which
    # are its slope to the next one, never promise more than the prior keeps.
    _, _, _, left, prior, codes = candidates_of(seed, missing, learned, by_column)
    gain = climb(left, prior, codes, 0).gain
    for rounds in range(1, 5):
        after = climb(left, prior, codes, rounds).gain
        kept = np.isfinite(after) & np.isfinite(gain)
        assert (after[kept] >= gain[kept] - 1e-4 * np.abs(gain[kept]) - 1e-2).all()
        gain = after


def test_a_climb_gets_somewhere():
    X, Z, _ = planted()
    _, context, state = prepared(X, Z[:, :3])
    left, prior = residuals(context, state), FeaturePrior.of(state)
    wrong = np.random.default_rng(0).random((N_SAMPLES, 1)) < 0.3
    first, last = (climb(left, prior, Z[:, 3:].astype(bool) ^ wrong, n) for n in (0, 4))
    assert last.gain[0] > first.gain[0] + 10.0
    np.testing.assert_array_equal(last.codes, Z[:, 3:])


@pytest.mark.parametrize("mode", ["dense", "no intercept", "missing entries"])
def test_features_of_a_sample_of_the_rows_are_placed_in_all(mode, monkeypatch):
    monkeypatch.setattr("ibp.methods.meibp.moves.residuals.MOST_ENTRIES", 1)
    monkeypatch.setattr("ibp.methods.meibp.moves.residuals.SAMPLED_ENTRIES", 1)
    monkeypatch.setattr("ibp.methods.meibp.moves.residuals.LEAST_ROWS", 80)
    X, Z, _ = planted(n_samples=400)
    change, settings_of_mode = MODES[mode]
    method, context, state = prepared(change(X), Z[:, :3], **settings_of_mode)
    assert residuals(context, state).share == 0.2
    born = next(iter(Birth().proposals(method, context, state))).state.assignments[:, 3:]
    varies = born.min(axis=0) < born.max(axis=0)
    correlations = np.corrcoef(born[:, varies].T, Z[:, 3])[-1, :-1]
    assert correlations.max() > 0.6  # before any row has been looked at again
    changed, _ = attempt(method, context, state, Birth())
    come_to_rest(method, context, changed)
    assert columns(changed.assignments) == columns(Z)


# What was planted


@pytest.mark.parametrize("missing_feature", range(4))
def test_a_birth_brings_back_what_is_missing(missing_feature):
    X, Z, _ = planted()
    method, context, state = prepared(X, np.delete(Z, missing_feature, axis=1))
    changed, _ = attempt(method, context, state, Birth())
    come_to_rest(method, context, changed)
    assert columns(changed.assignments) == columns(Z)


def damaged(Z):
    """Codes of starts that a sweep over the rows alone does not mend."""
    return {
        "in halves": np.hstack([halves(Z[:, 0]), Z[:, 1:]]),
        "two in one": np.hstack([Z[:, :1] | Z[:, 1:2], Z[:, 2:]]),
        "as three": as_three(Z),
        "both of two": np.hstack([Z[:, :1] & Z[:, 1:2], Z[:, 2:]]),
        "twice": np.hstack([Z, Z[:, :1]]),
        "three times": np.hstack([Z, Z[:, :1], Z[:, :1]]),
        "one missing": Z[:, 1:],
        "two missing and junk": np.hstack([Z[:, 2:], junk(n_features=3)]),
        "all of them": np.ones((Z.shape[0], 1), dtype=np.uint8),
    }


@pytest.mark.parametrize("noise", ["per_column", "shared"])
@pytest.mark.parametrize("damage", damaged(np.zeros((N_SAMPLES, 4), dtype=np.uint8)))
def test_a_fit_mends(damage, noise):
    X, Z, _ = planted()
    model = MEIBP(init={"Z": damaged(Z)[damage]}, noise=noise, random_state=0, n_jobs=1).fit(X)
    assert columns(model.assignments_) == columns(Z)


def test_a_merge_mends_halves_and_twins():
    X, Z, _ = planted()
    for codes in (damaged(Z)["in halves"], damaged(Z)["twice"]):
        method, context, state = prepared(X, codes)
        changed, _ = attempt(method, context, state, Merge())
        assert columns(changed.assignments) == columns(Z)


def test_an_exchange_puts_what_is_missing_in_the_place_of_junk():
    X, Z, _ = planted()
    for limit in (3, 4):  # at three, one of the four has to stay out
        codes = np.hstack([Z[:, : limit - 1], junk()])
        method, context, state = prepared(X, codes, n_components=limit)
        changed, _ = attempt(method, context, state, Exchange())
        assert changed.n_components == limit
        assert set(columns(changed.assignments)) <= set(columns(Z))
        assert columns(state.assignments) == columns(codes)


def test_an_exchange_waits_until_the_limit_is_reached():
    X, Z, _ = planted()
    for limit in (None, 4):
        method, context, state = prepared(X, Z[:, :3], n_components=limit)
        assert not list(Exchange().proposals(method, context, state))


def test_a_union_has_the_features_of_both():
    X, Z, _ = planted()
    method, context, state = prepared(X, Z[:, :3])
    _, _, other = prepared(X, Z[:, 2:])
    arrays = deepcopy(other.to_arrays())
    record = method.unite(context, state, other)
    assert columns(state.assignments) == columns(Z)
    assert record.values["move"] == "union"
    assert record.evidence == pytest.approx(direct_bound(method, context, state), rel=1e-10)
    assert same_arrays(other.to_arrays(), arrays)
    come_to_rest(method, context, state)
    assert method.unite(context, state, other) is None  # there is nothing left to take over


def test_a_union_keeps_to_the_limit():
    X, Z, _ = planted()
    method, context, state = prepared(X, Z[:, :2], n_components=3)
    _, _, other = prepared(X, Z[:, 1:])
    method.unite(context, state, other)
    assert state.n_components == 3
    assert set(columns(state.assignments)) <= set(columns(Z))


# Numbers of features


@pytest.mark.filterwarnings("ignore:n_components:UserWarning")  # that is what it is about
def test_a_limit_is_never_exceeded_and_what_is_beyond_it_is_known():
    X, _, _ = planted()
    for limit in (1, 3, 4, 9):
        model = MEIBP(limit, random_state=0, n_jobs=1).fit(X)
        assert model.n_components_ == min(limit, 4)
        assert model.history_["n_components"].max() <= limit
        assert model.history_["n_components"].min() > 0
        if limit < 4:
            assert model.limit_gain_ > 100.0
        elif limit == 4:
            assert 0.0 <= model.limit_gain_ < 1.0
        else:
            assert model.limit_gain_ is None


@pytest.mark.filterwarnings("ignore:n_components:UserWarning")  # that is what it is about
def test_the_gain_beyond_a_limit_is_what_one_more_feature_gains():
    X, _, _ = planted()
    at_three, at_four = (MEIBP(k, random_state=0, n_jobs=1).fit(X) for k in (3, 4))
    gained = at_four.evidence_ - at_three.evidence_
    assert at_three.limit_gain_ == pytest.approx(gained, rel=1e-2)


def test_a_start_at_the_limit_is_kept_to():
    X, Z, _ = planted()
    seen = []
    model = MEIBP(
        4,
        init={"Z": np.hstack([Z[:, :1], junk(n_features=3)])},
        callbacks=lambda progress: seen.append(progress.state.n_components),
        random_state=0,
        n_jobs=1,
    ).fit(X)
    assert max(seen) <= 4
    assert columns(model.assignments_) == columns(Z)


@pytest.mark.parametrize("mode", MODES)
def test_the_baseline_is_the_evidence_without_features(mode):
    X, _, _ = planted()
    change, settings_of_mode = MODES[mode]
    data = change(X)
    nothing = {"Z": np.zeros((N_SAMPLES, 0))}
    with pytest.warns(UserWarning, match="No feature survived"):
        bare = MEIBP(init=nothing, moves=False, n_jobs=1, **settings_of_mode).fit(data)
    model = MEIBP(random_state=0, n_jobs=1, **settings_of_mode).fit(data)
    assert model.baseline_evidence_ == pytest.approx(bare.evidence_, rel=1e-7)
    assert bare.baseline_evidence_ == pytest.approx(bare.evidence_, rel=1e-7)
    assert model.evidence_ > model.baseline_evidence_ + 100.0


# Runs as a whole


def hard_start():
    """Data and codes that take a fit several moves."""
    X, Z, _ = planted(0.4)
    return X, np.hstack([halves(Z[:, 0]), (Z[:, 1:2] | Z[:, 2:3]), junk(n_features=4)])


def test_threads_change_nothing():
    X, bad = hard_start()
    for data in (with_missing_entries(X),):
        one, two, again = (
            MEIBP(init={"Z": bad}, random_state=0, n_jobs=n_jobs).fit(data) for n_jobs in (1, 2, 2)
        )
        assert (one.history_["move"] != "").any()
        for other in (two, again):
            np.testing.assert_array_equal(one.assignments_, other.assignments_)
            np.testing.assert_array_equal(one.components_, other.components_)
            assert one.evidence_ == other.evidence_
            assert one.history_.keys() == other.history_.keys()
            for name in one.history_.keys() - {"seconds"}:
                np.testing.assert_array_equal(one.history_[name], other.history_[name])


@pytest.mark.parametrize("limit", [None, 7])
def test_a_run_goes_on_from_a_sweep_that_it_was_written_down_after(limit):
    X, bad = hard_start()
    method, context, state = prepared(X, bad, n_components=limit)

    written, records = [], []
    while not records or records[-1].unfinished or records[-1].n_changed:
        written.append((state.to_arrays(), deepcopy(context.rng)))
        records.append(method.step(context, state))
        assert len(records) < 100
    assert sum(record.values["move"] != "" for record in records) > 1
    written.append((state.to_arrays(), context.rng))
    last = len(records)
    # Two sweeps lead to a state that another goes on from; one goes to the end, for whatever is
    # kept beside the arrays.
    for number in range(0, last, 2):
        end = last if number == 12 else min(number + 2, last)
        arrays, rng = written[number]
        other, context = MEIBPState.from_arrays(arrays), replace(context, rng=rng)
        assert [method.step(context, other) for _ in range(number, end)] == records[number:end]
        assert same_arrays(other.to_arrays(), written[end][0])
        assert rng.bit_generator.state == written[end][1].bit_generator.state


def test_without_moves_there_are_none():
    X, bad = hard_start()
    model = MEIBP(init={"Z": bad}, moves=False, random_state=0, n_jobs=1).fit(X)
    assert not {"move", "move_gain"} & model.history_.keys()
    with_moves = MEIBP(init={"Z": bad}, random_state=0, n_jobs=1).fit(X)
    assert with_moves.evidence_ > model.evidence_ + 10.0


@pytest.mark.parametrize("mode", ["dense", "missing entries"])
def test_stopping_in_the_middle_of_a_move_leaves_a_whole_state(mode):
    X, Z, _ = planted()
    change, settings_of_mode = MODES[mode]
    method, context, start = prepared(change(X), Z[:, :3], **settings_of_mode)
    evidence = direct_bound(method, context, start)
    ends = set()
    for n_checks in (10**6, 0, 4, 12, 24, 48):
        state, rng = start.copy(), deepcopy(context.rng)
        stop, bound = stop_after(n_checks), evidence
        for _ in range(2):
            record = method.step(replace(context, rng=rng, should_stop=stop), state)
            assert record.evidence == pytest.approx(direct_bound(method, context, state), rel=1e-9)
            assert_not_lower(record.evidence, bound)
            bound = record.evidence
        ends.add(columns(state.assignments) == columns(Z))
        # It goes on from there as if nothing had been.
        for _ in range(20):
            record = method.step(replace(context, rng=rng), state)
            assert_not_lower(record.evidence, bound)
            bound = record.evidence
            if not record.unfinished:
                break
        assert columns(state.assignments) == columns(Z)
    assert ends == {False, True}  # some stops came before a birth and some after


def assert_usable(model, X):
    assert np.isfinite(model.evidence_)
    assert model.evidence_ == pytest.approx(model.history_["evidence"][-1], rel=1e-10)
    assert model.transform(X).shape == (X.shape[0], model.n_components_)
    assert model.assignments_.shape[1] == model.components_.shape[0] == model.n_components_
    assert (model.feature_counts_ == model.assignments_.sum(axis=0)).all()


@pytest.mark.filterwarnings("ignore:No convergence within 1e")
def test_a_time_limit_in_the_middle_of_moves_leaves_a_usable_model(monkeypatch):
    X, bad = hard_start()
    endings = []
    for n_checks in (30, 60, 100, 150, 250):
        stop = stop_after(n_checks)
        monkeypatch.setattr("ibp.loop.Stopwatch.expired", lambda self, stop=stop: stop())
        model = MEIBP(init={"Z": bad}, time_limit=1e9, random_state=0, n_jobs=1).fit(X)
        endings.append(model.ending_)
        assert_usable(model, X)
    assert endings.count("time_limit") > 2


def test_a_callback_that_ends_the_fit_after_a_move_leaves_a_usable_model():
    X, bad = hard_start()
    model = MEIBP(
        init={"Z": bad},
        callbacks=lambda progress: progress.values["move"] != "",
        random_state=0,
        n_jobs=1,
    ).fit(X)
    assert model.ending_ == "callback"
    assert (model.history_["move"][:-1] == "").all()
    assert model.history_["move"][-1] != ""
    assert_usable(model, X)


def test_restarts_are_judged_and_united():
    X, Z, _ = planted()
    model = MEIBP(n_init=3, random_state=0, n_jobs=1).fit(X)
    assert model.restart_evidence_.shape == model.restart_n_components_.shape == (3,)
    assert_not_lower(model.evidence_, model.restart_evidence_.max())
    assert model.evidence_ == pytest.approx(model.history_["evidence"][-1], rel=1e-10)
    assert columns(model.assignments_) == columns(Z)
