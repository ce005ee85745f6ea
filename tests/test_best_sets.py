"""The list of the best sets, against all sets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibp.submodular import Problem, maximize
from ibp.submodular.best_sets import ListLimits, list_best_sets, space_for_best_sets
from ibp.submodular.exact import prepare
from ibp.submodular.records import Terms, space_for_preparation, space_for_search

seeds = st.integers(min_value=0, max_value=2**32 - 1)


def random_problem(rng, n, signed):
    """A row of data made of some of n factors, with noise: several sets are about as good."""
    factors = rng.normal(size=(n, int(rng.integers(1, n + 4))))
    if not signed:
        factors = np.abs(factors)
    if rng.random() < 0.3:
        factors[-1] = factors[0]  # sets of one value
    factors *= rng.choice([0.5, 2.0, 8.0])
    row = (rng.random(n) < 0.5) @ factors + rng.normal(size=factors.shape[1])
    group, group_values = np.full(n, -1), np.empty((0, 1))
    return Terms(factors @ row + rng.normal(size=n), factors @ factors.T, group, group_values)


def values_of(terms, sets):
    linear, quadratic = terms.linear, terms.quadratic
    return sets @ linear - 0.5 * np.einsum("sk,kj,sj->s", sets, quadratic, sets)


def maximum(terms, optimizer="local_search", **settings):
    """Of factors without a sign."""
    return maximize(Problem(terms.linear, terms.quadratic), optimizer, **settings)


def best_sets(terms, start, *, capacity=64, margin=12.0, budgets=(0, 1 << 40)):
    """Sets with their values, best first, and whether the list is proven."""
    n = terms.linear.size
    prepared = space_for_preparation(n)
    prepare(terms.quadratic, prepared)
    found = space_for_best_sets(n, capacity)
    start = np.asarray(start, dtype=np.uint8)
    value = float(values_of(terms, start[None].astype(float))[0])
    n_found, best, proven = list_best_sets(
        terms,
        prepared,
        start,
        value,
        found,
        ListLimits(margin, *budgets, stop_when_full=False),
        space_for_search(n, 0),
    )
    values, sets = found.value[:n_found], found.chosen[:n_found]
    assert best == pytest.approx(values.max(), rel=1e-9, abs=1e-9)
    order = np.argsort(-values, kind="stable")
    order = order[values[order] >= best - margin]  # as the kernel of rows does
    return sets[order], values[order], proven


@given(
    seed=seeds,
    n=st.integers(1, 9),
    signed=st.booleans(),
    margin=st.sampled_from([0.5, 12.0]),
    look_around=st.sampled_from([0, 1, 100]),
)
@settings(max_examples=150, deadline=None)
def test_with_enough_nodes_the_list_is_complete(seed, n, signed, margin, look_around):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n, signed)
    every = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
    values = values_of(problem, every)
    within = np.sort(values[values > values.max() - margin])[::-1]
    unsure = np.abs(values - (values.max() - margin)) < 1e-6
    start = rng.random(n) < 0.5
    sets, found, proven = best_sets(
        problem, start, capacity=1 << n, margin=margin, budgets=(look_around, 1 << 40)
    )
    assert proven
    assert abs(found.size - within.size) <= unsure.sum()
    shared = min(found.size, within.size)
    np.testing.assert_allclose(found[:shared], within[:shared], rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(values_of(problem, sets.astype(float)), found, rtol=1e-9, atol=1e-7)
    assert len({tuple(one) for one in sets.tolist()}) == len(sets)


@given(seed=seeds, n=st.integers(2, 9), capacity=st.integers(1, 6), look_around=st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_a_full_list_holds_the_best(seed, n, capacity, look_around):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n, signed=False)
    every = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
    highest = np.sort(values_of(problem, every))[::-1]
    start = rng.random(n) < 0.5
    _, found, proven = best_sets(
        problem, start, capacity=capacity, margin=1e9, budgets=(look_around, 1 << 40)
    )
    assert proven
    assert found.size == min(capacity, 1 << n)
    np.testing.assert_allclose(found, highest[: found.size], rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("budgets", [(0, 0), (0, 20), (3, 0), (3, 50)])
def test_it_is_never_worse_than_its_start(budgets):
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem = random_problem(rng, 25, signed=False)
        start = maximum(problem, exchange=True).chosen
        value = values_of(problem, start[None].astype(float))[0]
        sets, found, _ = best_sets(problem, start, budgets=budgets)
        assert found[0] >= value - 1e-9 * max(abs(value), 1.0)
        again, _, _ = best_sets(problem, start, budgets=budgets)
        np.testing.assert_array_equal(sets, again)
        if budgets == (0, 0):
            np.testing.assert_array_equal(sets, [start])


def test_looking_around_leaves_local_optima():
    rng = np.random.default_rng(1)
    n_better = 0
    for _ in range(30):
        problem = random_problem(rng, 30, signed=False)
        start = maximum(problem).chosen
        optimum = maximum(problem, "exact").value
        _, found, _ = best_sets(problem, start, margin=np.inf, budgets=(64, 0))
        value = values_of(problem, start[None].astype(float))[0]
        assert found[0] <= optimum + 1e-9 * max(abs(optimum), 1.0)
        n_better += found[0] > value + 1e-6
    assert n_better > 0
