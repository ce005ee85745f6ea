"""Rows of weighted codes: the kernels are held to the model's equations and to all sets of bits."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from ibp.data import Observations
from ibp.kernels.weight_spread import (
    MOST_STD,
    best_spread,
    rests_of_rows,
    set_weights,
    terms_of_feature,
)
from ibp.kernels.weighted_rows import (
    Effort,
    WeightedLists,
    WeightedOutcome,
    WeightPrior,
    improve_weighted_rows,
)
from ibp.methods.row_forms import gaps_of
from ibp.methods.weighted.forms import WeightedRowForms
from ibp.model.weights import best_weight, log_mass, row_objective
from ibp.submodular import Problem, maximize
from problems import seeds

THOROUGH = Effort(60, 1e-3, True)
TO_THE_END = Effort(500, 0.0, True)
ONCE = Effort(20, 0.03, False)


class Rows:
    """Rows with what is known of factors, noise and prior, in the user's column order."""

    def __init__(self, seed, n=25, d=10, k=4, *, spreads=(0.0, 0.1, 0.3, 0.7), noise=None):
        rng = self.rng = np.random.default_rng(seed)
        noise = noise or rng.choice([0.1, 0.3, 1.0])
        self.A = np.abs(rng.normal(size=(k, d)))
        self.variance = rng.uniform(0.0, 0.1 * noise**2, (k, d))
        self.tau = noise**-2.0 * rng.uniform(0.7, 1.4, d)
        self.offset = rng.normal(size=d)
        self.std = rng.choice(spreads, size=k)
        self.log_odds = rng.normal(-0.6, 0.5, k)
        has = rng.random((n, k)) < 0.35
        self.codes = has * np.maximum(rng.normal(1.0, self.std, (n, k)), 0.0)
        self.X = self.offset + self.codes @ self.A + noise * rng.normal(size=(n, d))

    @property
    def prior(self):
        return WeightPrior(self.log_odds, self.std, log_mass(self.std))

    def forms(self):
        """What the kernels take: products, forms, columns and gaps."""
        observations = Observations.from_array(self.X)
        arrange = observations.layout.arrange
        forms = WeightedRowForms(
            observations,
            arrange(self.A),
            arrange(self.tau),
            variance=arrange(self.variance),
            offset=arrange(self.offset),
        )
        forms.make_all()
        everything = slice(0, self.X.shape[0])
        products = np.asarray(observations.rows(everything) @ forms.components.T)
        return products, (
            forms.weighted,
            forms.weighted_columns,
            gaps_of(observations, everything),
        )

    def terms(self, row):
        """Linear and quadratic part and doubt of a row, from the columns that it has."""
        seen = ~np.isnan(self.X[row])
        a, tau = self.A[:, seen], self.tau[seen]
        x = (self.X[row] - self.offset)[seen]
        return (a * tau) @ x, (a * tau) @ a.T, self.variance[:, seen] @ tau

    def start(self):
        """Codes that have nothing to do with the rows."""
        n, k = self.codes.shape
        has = self.rng.random((n, k)) < 0.5
        guess = best_weight(self.rng.normal(2.0, 3.0, (n, k)), 4.0, self.std, 0.0)
        return tuple(np.where(has, part, 0.0) for part in guess[1:])

    def search(self, effort, start=None, *, losses=False, lists=None):
        """The outcome of a search, from nothing unless there is a start."""
        n, k = self.codes.shape
        start = start or tuple(np.zeros((n, k)) for _ in range(3))
        outcome = WeightedOutcome(
            *(part.copy() for part in start), np.zeros(n), np.empty((n if losses else 0, k))
        )
        products, common = self.forms()
        improve_weighted_rows(products, self.prior, *common, effort, outcome, lists)
        return outcome

    def values(self, mean, variance, divergence):
        """The objective of every row."""
        return np.array(
            [
                row_objective(mean[i], variance[i], divergence[i], *self.terms(i), self.log_odds)
                for i in range(mean.shape[0])
            ]
        )

    def best_of_all(self):
        """The best objective of every row, all sets of bits being tried, and the bits."""
        n, k = self.codes.shape
        every = np.array(list(product((0, 1), repeat=k)), dtype=bool)
        linear, quadratic, doubt = (
            np.stack(part) for part in zip(*(self.terms(i) for i in range(n)), strict=True)
        )
        parts = np.zeros((3, n, every.shape[0], k))
        parts[0] = every
        mean = parts[0]
        for _ in range(200):
            before = mean.copy()
            for j in range(k):
                rest = linear[:, None, j] - np.einsum("nzk,nk->nz", mean, quadratic[:, j])
                rest += quadratic[:, None, j, j] * mean[:, :, j]
                own = (quadratic[:, j, j] + doubt[:, j])[:, None]
                found = best_weight(rest, own, self.std[j], 0.0)
                parts[:, :, :, j] = np.where(every[:, j], np.stack(found[1:]), 0.0)
            if np.abs(mean - before).max() < 1e-7:
                break
        own = np.einsum("nkk->nk", quadratic) + doubt
        value = np.einsum("nzk,nk->nz", mean, linear)
        value -= 0.5 * np.einsum("nzk,nkj,nzj->nz", mean, quadratic, mean)
        value -= 0.5 * np.einsum("nzk,nk->nz", parts[1], own)
        value -= 0.5 * np.einsum("nzk,nk->nz", mean**2, doubt)
        value += (every * (self.log_odds - parts[2])).sum(axis=2)
        return value.max(axis=1), every[value.argmax(axis=1)]


def with_gaps(rows):
    """Some rows are complete, some miss the same columns, and some what no other misses."""
    n, d = rows.X.shape
    third = n // 3
    rows.X[third : 2 * third, : d // 3] = np.nan
    rest = rows.X[2 * third :]
    rest[rows.rng.random(rest.shape) < 0.35] = np.nan
    return rows


# The search of a row


@given(seed=seeds, gaps=st.booleans(), thorough=st.booleans())
@settings(max_examples=40)
def test_the_gain_is_what_the_objective_rises_by_and_never_negative(seed, gaps, thorough):
    rows = Rows(seed)
    if gaps:
        with_gaps(rows)
    start = rows.start()
    outcome = rows.search(Effort(20, 0.03, thorough), start)
    before, after = rows.values(*start), rows.values(*outcome[:3])
    size = 1.0 + np.abs(before) + np.abs(after)
    assert (np.abs(outcome.gain - (after - before)) < 1e-10 * size).all()
    assert (outcome.gain >= 0).all()
    lacks = outcome.mean == 0
    assert not outcome.variance[lacks].any()
    assert not outcome.divergence[lacks].any()
    assert (outcome.mean >= 0).all()
    assert (outcome.divergence >= 0).all()


@given(seed=seeds, gaps=st.booleans())
@settings(max_examples=30)
def test_every_feature_is_at_its_best_given_the_others(seed, gaps):
    rows = Rows(seed, k=5)
    if gaps:
        with_gaps(rows)
    outcome = rows.search(TO_THE_END, losses=True)
    for i in range(rows.X.shape[0]):
        linear, quadratic, doubt = rows.terms(i)
        mean = outcome.mean[i]
        rest = linear - quadratic @ mean + np.diagonal(quadratic) * mean
        best = best_weight(rest, np.diagonal(quadratic) + doubt, rows.std, rows.log_odds)
        has = mean > 0
        size = 1.0 + np.abs(linear).max()
        assert (best.gain[has] > -1e-9 * size).all()
        assert (best.gain[~has] < 1e-9 * size).all()
        np.testing.assert_allclose(mean[has], best.mean[has], rtol=1e-7)
        np.testing.assert_allclose(outcome.variance[i, has], best.variance[has], rtol=1e-6)
        assert (np.abs(outcome.divergence[i] - best.divergence)[has] < 1e-9 * size).all()
        expected = np.where(has, best.gain, -best.gain)
        np.testing.assert_allclose(outcome.losses[i], expected, rtol=1e-7, atol=1e-9 * size)


@pytest.mark.parametrize(("k", "least"), [(2, 0.99), (4, 0.97), (6, 0.95)])
def test_a_thorough_search_finds_the_best_bits_of_nearly_all_rows(k, least):
    # Of 1000 such rows each: 0.999, 0.998 and 0.991; one pass without exchanges 0.89, 0.65, 0.56.
    found, total = 0, 0
    for seed in range(6):
        rows = Rows(seed, d=2 * k, k=k)
        best, _ = rows.best_of_all()
        reached = rows.search(THOROUGH).gain
        assert (reached < best + 1e-6).all()
        found += (reached > best - 0.01).sum()
        total += best.size
    assert found >= least * total


@given(seed=seeds, gaps=st.booleans())
@settings(max_examples=20)
def test_a_thorough_search_never_ends_lower(seed, gaps):
    rows = Rows(seed, k=6, d=8)
    if gaps:
        with_gaps(rows)
    start = rows.start()
    once, thorough = (rows.search(Effort(20, 0.03, more), start).gain for more in (False, True))
    assert (thorough >= once - 1e-9 * (1.0 + np.abs(once))).all()


@given(seed=seeds)
@settings(max_examples=20)
def test_what_rows_miss_plays_no_part(seed):
    rows = with_gaps(Rows(seed, n=36))
    _, (_, columns, gaps) = rows.forms()
    assert columns is not None
    assert {-1, 0} < set(gaps.form_of_row.tolist())
    outcome = rows.search(TO_THE_END)
    for i in range(0, 36, 5):
        seen = ~np.isnan(rows.X[i])
        alone = Rows(seed, n=1)
        alone.X = rows.X[i : i + 1, seen]
        alone.A, alone.variance = rows.A[:, seen], rows.variance[:, seen]
        alone.tau, alone.offset = rows.tau[seen], rows.offset[seen]
        expected = alone.search(TO_THE_END)
        assert outcome.gain[i] == pytest.approx(expected.gain[0], rel=1e-8, abs=1e-7)
        np.testing.assert_allclose(outcome.mean[i], expected.mean[0], atol=1e-5)


def test_a_row_that_misses_everything_goes_by_the_prior():
    rows = Rows(0, n=12)
    rows.X[5] = np.nan
    rows.log_odds = np.array([-1.0, 0.5, -0.3, 2.0])
    outcome = rows.search(TO_THE_END)
    np.testing.assert_array_equal(outcome.mean[5] > 0, [False, True, False, True])
    prior = best_weight(0.0, 0.0, rows.std, 0.0)
    np.testing.assert_allclose(outcome.mean[5, [1, 3]], prior.mean[[1, 3]], rtol=1e-12)
    np.testing.assert_allclose(outcome.divergence[5], 0.0, atol=1e-12)


@given(seed=seeds, gaps=st.booleans())
@settings(max_examples=20)
def test_without_spreads_rows_that_are_proven_best_stay(seed, gaps):
    rows = Rows(seed, n=20, k=5, spreads=(0.0,))
    if gaps:
        with_gaps(rows)
    mean, proven = np.zeros((20, 5)), np.zeros(20, dtype=bool)
    for i in range(20):
        linear, quadratic, doubt = rows.terms(i)
        solution = maximize(
            Problem(linear + rows.log_odds - 0.5 * doubt, quadratic), "exact", exchange=True
        )
        mean[i], proven[i] = solution.chosen, solution.proven
    start = (mean, np.zeros_like(mean), np.zeros_like(mean))
    assert proven.any()
    for effort in (ONCE, THOROUGH):
        outcome = rows.search(effort, start)
        np.testing.assert_array_equal(outcome.mean[proven], mean[proven])
        assert not outcome.gain[proven].any()
        assert not outcome.variance.any()
        assert not outcome.divergence.any()


def test_a_fresh_search_takes_over_what_it_finds_wherever_it_began():
    rows = Rows(3, k=4)
    n, k = rows.codes.shape
    impossible = (np.full((n, k), 0.5), np.zeros((n, k)), np.zeros((n, k)))
    outcome = rows.search(Effort(60, 1e-3, True, True), impossible)
    best, bits = rows.best_of_all()
    reached = rows.values(*outcome[:3])
    assert (reached > best - 0.01).mean() > 0.9
    same = reached > best - 0.01
    np.testing.assert_array_equal(outcome.mean[same] > 0, bits[same])


def test_a_row_without_anything_to_gain_is_not_touched():
    rows = Rows(4)
    outcome = rows.search(TO_THE_END)
    again = rows.search(THOROUGH, outcome[:3])
    assert not again.gain.any()
    for new, old in zip(again[:3], outcome[:3], strict=True):
        np.testing.assert_array_equal(new, old)


# Codes that a row may have


@given(seed=seeds, gaps=st.booleans())
@settings(max_examples=20)
def test_listed_codes_are_the_best_and_those_a_feature_away(seed, gaps):
    rows = Rows(seed, n=12, k=4, noise=1.0)
    if gaps:
        with_gaps(rows)
    lists = WeightedLists(
        np.empty((12, 5, 4)), np.empty((12, 5, 4)), np.empty((12, 5)), np.zeros(12, np.int64), 12.0
    )
    outcome = rows.search(Effort(60, 1e-3, True, True), lists=lists, losses=True)
    values = rows.values(*outcome[:3])
    for i in range(12):
        bits = lists.mean[i, : lists.length[i]] > 0
        np.testing.assert_array_equal(lists.mean[i, 0], outcome.mean[i])
        assert lists.log_weight[i, 0] == pytest.approx(values[i], rel=1e-9, abs=1e-9)
        away = (bits[1:] != bits[0]).sum(axis=1)
        np.testing.assert_array_equal(away, 1)
        assert len({tuple(row) for row in bits}) == lists.length[i]
        within = (outcome.losses[i] < 12.0).sum()
        assert lists.length[i] == 1 + within
        flipped = np.nonzero(bits[1:] != bits[0])[1]
        losses = outcome.losses[i, flipped]
        assert (np.diff(losses) >= 0).all()
        # Weights that answer gain something, and never lose.
        drop = lists.log_weight[i, 0] - lists.log_weight[i, 1 : lists.length[i]]
        assert (drop <= losses + 1e-8).all()


def test_without_spreads_listed_codes_have_the_objective_of_the_binary_model():
    rows = Rows(5, n=12, k=4, spreads=(0.0,), noise=1.0)
    lists = WeightedLists(
        np.empty((12, 5, 4)), np.empty((12, 5, 4)), np.empty((12, 5)), np.zeros(12, np.int64), 12.0
    )
    rows.search(Effort(60, 1e-3, True, True), lists=lists)
    for i in range(12):
        linear, quadratic, doubt = rows.terms(i)
        problem = Problem(linear + rows.log_odds - 0.5 * doubt, quadratic)
        for place in range(lists.length[i]):
            value = problem.value(lists.mean[i, place].astype(np.uint8))
            assert lists.log_weight[i, place] == pytest.approx(value, rel=1e-10, abs=1e-10)


# Spreads


def weights_of_a_feature(seed, n, s, own):
    """r and P of rows whose weights have a spread."""
    rng = np.random.default_rng(seed)
    w = rng.normal(1.0, s, 4 * n)
    w = w[w >= 0][:n]
    own = own * rng.uniform(0.5, 2.0, n)
    return own * w + np.sqrt(own) * rng.normal(size=n), own


def summed(s, linear, own):
    return float(best_weight(linear, own, s, 0.0).gain.sum())


@pytest.mark.parametrize("s", [0.0, 0.05, 0.3, 0.8, 3.0])
@pytest.mark.parametrize("own", [0.5, 30.0, 1e4])
@pytest.mark.parametrize("n", [3, 40, 1500])
def test_the_best_spread_is_where_the_summed_gains_are_highest(n, own, s):
    linear, precision = weights_of_a_feature(7, n, s, own)
    grid = np.concatenate([[0.0], np.geomspace(0.02, MOST_STD, 120)])
    values = np.array([summed(t, linear, precision) for t in grid])
    at = values.argmax()
    highest = values[at]
    if at > 0:
        around = np.log(grid[max(at - 1, 1)]), np.log(grid[min(at + 1, 120)])
        refined = minimize_scalar(
            lambda t: -summed(np.exp(t), linear, precision), bounds=around, method="bounded"
        )
        highest = max(highest, -refined.fun)
    for present in (0.0, 0.2, 1.0):
        found, gain = best_spread(linear, precision, present)
        value, before = summed(found, linear, precision), summed(present, linear, precision)
        assert gain == pytest.approx(value - before, rel=1e-6, abs=1e-7 * n)
        assert gain >= 0
        assert value > highest - 1e-4 * n - 3e-3
    if n == 1500 and own == 1e4 and s > 0:
        assert found == pytest.approx(min(s, MOST_STD), rel=0.15)


def test_weights_that_are_all_one_have_no_spread():
    own = np.linspace(1.0, 50.0, 30)
    for present in (0.0, 0.01, 0.5):
        assert best_spread(own.copy(), own, present)[0] == 0.0


@given(
    seed=seeds,
    s=st.floats(0.0, 3.0),
    present=st.one_of(st.just(0.0), st.floats(1e-3, 9.0)),
    own=st.floats(1e-3, 1e6),
)
@settings(max_examples=60)
def test_no_spread_is_worse_than_the_present_one(seed, s, present, own):
    linear, precision = weights_of_a_feature(seed, 25, s, own)
    found, gain = best_spread(linear, precision, present)
    assert gain >= 0
    before, after = (summed(t, linear, precision) for t in (present, found))
    assert after >= before - 1e-8 * (1.0 + abs(before))


@given(seed=seeds, gaps=st.booleans())
@settings(max_examples=20)
def test_rests_terms_and_weights_of_a_feature(seed, gaps):
    rows = Rows(seed, n=36, k=4)
    if gaps:
        with_gaps(rows)
    products, common = rows.forms()
    mean, variance, divergence = rows.start()
    rest = np.empty_like(mean)
    rests_of_rows(products, *common, mean, rest)

    def rests():
        return np.array([rows.terms(i)[0] - rows.terms(i)[1] @ mean[i] for i in range(36)])

    size = np.abs(rests()).max()
    np.testing.assert_allclose(rest, rests(), atol=1e-11 * size)
    for k, s in ((1, 0.4), (2, 0.0), (3, 2.0)):
        which = np.flatnonzero(mean[:, k] > 0)
        linear, own = np.empty(which.size), np.empty(which.size)
        terms_of_feature(k, which, *common, mean, rest, linear, own)
        for place, i in enumerate(which):
            _, quadratic, doubt = rows.terms(i)
            direct = rests()[i, k] + quadratic[k, k] * mean[i, k]
            assert linear[place] == pytest.approx(direct, abs=1e-10 * size)
            assert own[place] == pytest.approx(quadratic[k, k] + doubt[k], rel=1e-9)
        others = np.delete(np.arange(36), which)
        untouched = mean[others].copy()
        set_weights(k, s, which, (linear, own), *common, (mean, variance, divergence), rest)
        best = best_weight(linear, own, s, 0.0)
        np.testing.assert_allclose(mean[which, k], best.mean, rtol=1e-9)
        np.testing.assert_allclose(variance[which, k], best.variance, rtol=1e-8)
        scale = 1.0 + np.abs(best.gain)
        assert (np.abs(divergence[which, k] - best.divergence) < 1e-10 * scale).all()
        np.testing.assert_array_equal(mean[others], untouched)
        np.testing.assert_allclose(rest, rests(), atol=1e-10 * size)


def test_weights_of_a_feature_far_from_what_the_prior_expects():
    own = np.full(6, 50.0)
    linear = own * np.array([-4.0, -1.0, 0.0, 0.02, 3.0, 40.0])
    for s in (0.02, 0.3, 5.0):
        arrays = tuple(np.ones((6, 1)) for _ in range(3))
        rows = Rows(0, n=6, d=3, k=1)
        _, common = rows.forms()
        rest = np.zeros((6, 1))
        set_weights(0, s, np.arange(6), (linear, own), *common, arrays, rest)
        best = best_weight(linear, own, s, 0.0)
        np.testing.assert_allclose(arrays[0][:, 0], best.mean, rtol=1e-9)
        np.testing.assert_allclose(arrays[1][:, 0], best.variance, rtol=1e-8)
        np.testing.assert_allclose(arrays[2][:, 0], best.divergence, rtol=1e-7, atol=1e-9)
