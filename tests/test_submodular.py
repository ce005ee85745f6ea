"""The maximisers of quadratic submodular functions, against enumeration and by hand."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from ibp.submodular import OPTIMIZERS, Problem, Solution, batch, maximize, maximize_rows
from ibp.submodular.brute_force import brute_force
from ibp.submodular.certificate import certified, needed_margin
from ibp.submodular.exact import prepare
from ibp.submodular.local_search import lower_bound
from ibp.submodular.marginals import (
    flip,
    gain_of_adding,
    gain_of_removing,
    start_marginals,
    value_from_marginals,
)
from ibp.submodular.maximize import DOUBLE_GREEDIES
from ibp.submodular.records import Marginals, Search, Terms, space_for_preparation

EVERY_OPTIMIZER = [*OPTIMIZERS, "brute_force"]
EVERY_LOCAL_SEARCH = list(itertools.product((False, True), repeat=2))  # complement, exchange
EPSILONS = (0.0, 0.5)

seeds = st.integers(min_value=0, max_value=2**32 - 1)

# ---------------------------------------------------------------- random problems of every kind


def factors_full_rank(rng, n):
    return np.abs(rng.normal(size=(n, n + int(rng.integers(0, 5)))))


def factors_singular(rng, n):
    return np.abs(rng.normal(size=(n, int(rng.integers(1, max(n, 2))))))


def factors_with_duplicates(rng, n):
    few = int(rng.integers(1, n + 1))
    return np.abs(rng.normal(size=(few, n)))[rng.integers(0, few, size=n)]


def factors_zero(rng, n):
    return np.zeros((n, 1))


def factors_in_blocks(rng, n):
    block = rng.integers(0, 3, size=n)
    dimension = np.repeat(np.arange(3), 2)
    return np.abs(rng.normal(size=(n, 6))) * (block[:, None] == dimension)


def factors_badly_scaled(rng, n):
    rows = np.abs(rng.normal(size=(n, int(rng.integers(1, n + 2)))))
    return rows * 10.0 ** rng.uniform(-3, 3, size=(n, 1))


def factors_of_integers(rng, n):
    return rng.integers(0, 3, size=(n, int(rng.integers(1, n + 2)))).astype(float)


FACTORS = {
    "full rank": factors_full_rank,
    "singular": factors_singular,
    "duplicates": factors_with_duplicates,
    "zero": factors_zero,
    "blocks": factors_in_blocks,
    "badly scaled": factors_badly_scaled,
    "integers": factors_of_integers,
}


def linear_near_the_boundary(rng, factors, quadratic):
    # Data made of about half of the elements: many marginals are close to zero at the optimum.
    n, dimension = factors.shape
    chosen = rng.random(n) < 0.5
    noise = rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=dimension)
    return factors @ (chosen @ factors + noise)


def linear_at_the_boundary(rng, factors, quadratic):
    # The marginal of every element, given some set, is a thousandth of what it is made of.
    chosen = rng.random(len(factors)) < 0.5
    size = 1e-3 * (np.diag(quadratic) + 0.1)
    others = quadratic @ chosen - np.diag(quadratic) * chosen
    return 0.5 * np.diag(quadratic) + others + size * rng.normal(size=len(factors))


def linear_far_from_the_boundary(rng, factors, quadratic):
    return 10.0 ** rng.uniform(0, 3) * rng.normal(size=len(factors)) * (quadratic.sum() + 1.0)


def linear_with_ties(rng, factors, quadratic):
    return rng.integers(-2, 9, size=len(factors)) / 2.0


LINEAR = {
    "near": linear_near_the_boundary,
    "at": linear_at_the_boundary,
    "far": linear_far_from_the_boundary,
    "ties": linear_with_ties,
}


def shifted_prior_values(rng, size):
    return -gammaln(1 + rng.integers(0, 30) + np.arange(size + 1))


def left_ordered_values(rng, size):
    t = np.arange(size + 1)
    return -gammaln(1 + t) - gammaln(1 + size - t)


def concave_values(rng, size):
    steps = np.sort(rng.normal(size=size))[::-1] * 10.0 ** rng.uniform(-2, 2)
    return rng.normal() + np.concatenate([[0.0], np.cumsum(steps)])


def concave_values_with_ties(rng, size):
    steps = np.sort(rng.integers(-3, 4, size=size))[::-1]
    return np.concatenate([[0.0], np.cumsum(steps)])


GROUPS = {
    # kind: (value functions to draw from, largest number of groups, share of grouped elements)
    "none": ([], 0, 0.0),
    "shifted prior": ([shifted_prior_values], 1, 1.0),
    "left-ordered form": ([left_ordered_values], 4, 1.0),
    "mixture": ([shifted_prior_values, left_ordered_values], 3, 0.7),
    "concave": ([concave_values], 3, 0.8),
    "concave with ties": ([concave_values_with_ties], 3, 0.8),
}


def random_groups(rng, n, kind):
    functions, most, share = GROUPS[kind]
    n_groups = int(rng.integers(1, most + 1)) if most else 0
    group = np.full(n, -1)
    if n_groups:
        group[:] = np.where(rng.random(n) < share, rng.integers(0, n_groups, size=n), -1)
    # What lies beyond the size of a group is never to be read.
    values = np.full((n_groups, n + 1), np.nan)
    for g in range(n_groups):
        size = int((group == g).sum())
        function = functions[rng.integers(len(functions))]
        values[g, : size + 1] = function(rng, size)
    return group, values


def random_problem(rng, n=None, factors=None, linear=None, groups=None):
    n = int(rng.integers(1, 11)) if n is None else n
    factors = factors or rng.choice(list(FACTORS))
    linear = linear or rng.choice(list(LINEAR))
    groups = groups or rng.choice(list(GROUPS))
    rows = FACTORS[factors](rng, n)
    if factors not in ("integers", "zero"):
        rows = rows * 10.0 ** rng.choice([-3.0, -1.0, 0.0, 0.0, 0.0, 1.0, 3.0])
    quadratic = rows @ rows.T
    weights = LINEAR[linear](rng, rows, quadratic)
    group, values = random_groups(rng, n, groups)
    if linear != "ties" and groups != "none" and rng.random() < 0.5:
        # Cancel the slope of the groups, so that they matter for the choice.
        for k in np.flatnonzero(group >= 0):
            size = (group == group[k]).sum()
            t = int(rng.integers(0, size))
            weights[k] -= values[group[k], t + 1] - values[group[k], t]
    return Problem(weights, (quadratic + quadratic.T) / 2, group, values)


def random_problems(seed, count, **kinds):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield random_problem(rng, **kinds)


def problems_of_every_kind(seed, repeats, **kinds):
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        for factors, linear, groups in itertools.product(FACTORS, LINEAR, GROUPS):
            yield random_problem(rng, factors=factors, linear=linear, groups=groups, **kinds)


def half_normal_problem(rng, n, dimension):
    # What an assignment of features to one row of data is, without a prior.
    rows = np.abs(rng.normal(size=(n, dimension)))
    x = (rng.random(n) < 0.5) @ rows + rng.normal(size=dimension)
    return Problem(rows @ x, rows @ rows.T)


# ---------------------------------------------------------------- helpers


def terms(problem):
    return Terms(problem.linear, problem.quadratic, problem.group, problem.group_values)


def extremes(problem):
    return brute_force(terms(problem), np.zeros(problem.n_elements, dtype=np.uint8))


def magnitude(problem):
    # The largest number that an evaluation of F can meet; its rounding is that of F.
    total = np.abs(problem.linear).sum() + problem.quadratic.sum()
    for values, size in zip(problem.group_values, problem.group_sizes(), strict=True):
        total += np.abs(values[: size + 1]).max()
    return float(total)


def rounding(problem):
    # Every optimiser leaves gains alone that are below a rounding error per element.
    return 2e-15 * (problem.n_elements + 5) * magnitude(problem)


def random_set(rng, problem):
    return rng.random(problem.n_elements) < rng.choice([0.0, 0.2, 0.5, 0.8, 1.0])


def every_set(n):
    return (np.array(bits, dtype=bool) for bits in itertools.product((0, 1), repeat=n))


def flipped(chosen, *elements):
    other = chosen.copy()
    other[list(elements)] ^= True
    return other


def assert_value_is_that_of_the_set(problem, solution):
    expected = problem.value(solution.chosen)
    allowed = 1e-9 * abs(expected) + rounding(problem)
    assert abs(solution.value - expected) <= allowed


# ---------------------------------------------------------------- the function itself


def test_value_is_the_definition():
    problem = Problem(
        [1.0, 2.0, 4.0],
        [[1.0, 0.5, 0.0], [0.5, 2.0, 1.0], [0.0, 1.0, 3.0]],
        [0, -1, 0],
        [[10.0, 20.0, 25.0]],
    )
    assert problem.value([0, 0, 0]) == 10.0
    assert problem.value([1, 0, 0]) == 1.0 - 0.5 + 20.0
    assert problem.value([0, 1, 0]) == 2.0 - 1.0 + 10.0
    assert problem.value([1, 0, 1]) == 5.0 - 2.0 + 25.0
    assert problem.value([True, True, True]) == 7.0 - 0.5 * (1 + 2 + 3 + 2 * (0.5 + 1)) + 25.0


@settings(max_examples=1000)
@given(seed=seeds)
def test_returns_diminish(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n=int(rng.integers(2, 9)))
    e = int(rng.integers(problem.n_elements))
    larger = random_set(rng, problem)
    larger[e] = False
    smaller = larger & (rng.random(problem.n_elements) < 0.5)
    to_smaller = problem.value(flipped(smaller, e)) - problem.value(smaller)
    to_larger = problem.value(flipped(larger, e)) - problem.value(larger)
    assert to_smaller >= to_larger - rounding(problem)


def test_generator_makes_the_problems_it_names():
    rng = np.random.default_rng(0)
    rank = {}
    for kind in FACTORS:
        problem = random_problem(rng, n=8, factors=kind)
        rank[kind] = np.linalg.matrix_rank(problem.quadratic)
    assert rank["full rank"] == 8
    assert rank["singular"] < 8
    assert rank["zero"] == 0
    scaled = random_problem(rng, n=10, factors="badly scaled")
    diagonal = np.diag(scaled.quadratic)
    assert diagonal.max() > 1e4 * diagonal.min()
    sizes = {random_problem(rng).n_elements for _ in range(300)}
    assert sizes == set(range(1, 11))
    group = random_problem(rng, n=10, groups="mixture").group
    assert (group == -1).any() and (group >= 0).any()


# ---------------------------------------------------------------- brute force and the exact search


def test_brute_force_is_the_best_and_the_worst_of_all_sets():
    for problem in problems_of_every_kind(1, 1, n=5):
        values = [problem.value(chosen) for chosen in every_set(problem.n_elements)]
        highest, lowest = extremes(problem)
        assert abs(highest - max(values)) <= rounding(problem)
        assert abs(lowest - min(values)) <= rounding(problem)
        solution = maximize(problem, "brute_force")
        assert solution.value == highest
        assert solution.proven
        assert problem.value(solution.chosen) >= max(values) - rounding(problem)
    for problem in random_problems(2, 100, n=6):
        values = [problem.value(chosen) for chosen in every_set(6)]
        assert abs(maximize(problem, "brute_force").value - max(values)) <= rounding(problem)


def test_brute_force_does_not_gather_rounding_errors():
    rng = np.random.default_rng(3)
    problem = random_problem(rng, n=16, factors="badly scaled", groups="mixture")
    solution = maximize(problem, "brute_force")
    assert_value_is_that_of_the_set(problem, solution)
    z = rng.random((2000, 16)) < 0.5
    best = max(problem.value(row) for row in z)
    assert solution.value >= best - rounding(problem)


def assert_exact_is_exact(problem, start=None):
    solution = maximize(problem, "exact", start=start)
    highest, _ = extremes(problem)
    assert solution.proven
    assert abs(solution.value - highest) <= rounding(problem) + 1e-9 * abs(highest)
    assert highest - problem.value(solution.chosen) <= rounding(problem)
    assert_value_is_that_of_the_set(problem, solution)


def test_exact_is_exact_on_every_kind_of_problem():
    for problem in problems_of_every_kind(4, 20):  # 20 * 7 * 4 * 6 = 3360
        assert_exact_is_exact(problem)


def test_exact_is_exact_from_any_start():
    rng = np.random.default_rng(5)
    for problem in problems_of_every_kind(6, 2):
        assert_exact_is_exact(problem, start=random_set(rng, problem))


def test_exact_is_exact_where_there_are_more_elements():
    for problem in random_problems(7, 40, n=15):
        assert_exact_is_exact(problem)


@pytest.mark.long
def test_exact_is_exact_on_many_problems():
    for problem in problems_of_every_kind(8, 400):
        assert_exact_is_exact(problem)
    for problem in random_problems(9, 300, n=18):
        assert_exact_is_exact(problem)


@pytest.mark.parametrize("n", [30, 60])
def test_exact_finds_a_planted_set(n):
    # Without noise no set can beat the one that the data were made of.
    rng = np.random.default_rng(n)
    for _ in range(5):
        rows = np.abs(rng.normal(size=(n, 2 * n)))
        planted = rng.random(n) < 0.5
        x = planted @ rows
        solution = maximize(Problem(rows @ x, rows @ rows.T), "exact")
        assert solution.proven
        assert (solution.chosen == planted).all()
        np.testing.assert_allclose(solution.value, 0.5 * x @ x, rtol=1e-12)


def test_exact_beats_the_local_search_where_that_is_not_optimal():
    better = 0
    rng = np.random.default_rng(10)
    for _ in range(100):
        problem = half_normal_problem(rng, 12, 50)
        local = maximize(problem, "local_search")
        exact = maximize(problem, "exact")
        assert exact.value >= local.value
        better += exact.value > local.value + rounding(problem)
    assert better > 5


def test_factor_of_the_exact_search_is_a_factor():
    for problem in random_problems(11, 300):
        n = problem.n_elements
        prepared = space_for_preparation(n)
        prepare(problem.quadratic, prepared)
        (shift,), order, ordered, factor, transposed, later = prepared
        np.testing.assert_array_equal(transposed, factor.T)
        assert sorted(order) == list(range(n))
        np.testing.assert_array_equal(ordered, problem.quadratic[np.ix_(order, order)])
        scale = problem.quadratic.max() + shift
        np.testing.assert_allclose(
            factor @ factor.T, ordered + shift * np.eye(n), rtol=0, atol=1e-13 * scale
        )
        np.testing.assert_array_equal(factor, np.tril(factor))
        decided_later = np.tril(ordered, -1)
        expected = [decided_later.clip(min=0).sum(1), decided_later.clip(max=0).sum(1)]
        np.testing.assert_allclose(later, expected, rtol=1e-12, atol=1e-14 * scale)


def test_exact_with_a_budget_is_between_the_local_search_and_the_optimum():
    rng = np.random.default_rng(12)
    cut_off = 0
    for problem in problems_of_every_kind(13, 1):
        start = random_set(rng, problem)
        local = maximize(problem, "local_search", start=start)
        full = maximize(problem, "exact", start=start)
        n_nodes = full.n_updates - local.n_updates
        assert n_nodes >= 1
        previous = local.value
        budgets = {1, 2, 3, 5, 8, n_nodes // 2, n_nodes - 1, n_nodes, n_nodes + 1}
        for budget in sorted(budgets - {0}):
            solution = maximize(problem, "exact", start=start, node_budget=budget)
            assert solution.value >= previous
            assert problem.value(solution.chosen) >= local.value - rounding(problem)
            assert_value_is_that_of_the_set(problem, solution)
            assert solution.proven == (budget >= n_nodes)
            assert solution.n_updates - local.n_updates == min(budget, n_nodes)
            cut_off += not solution.proven
            previous = solution.value
        assert previous == full.value
    assert cut_off > 500


def test_a_budget_can_be_too_small_for_the_optimum():
    # Without this the test above could not tell a budget from none.
    rng = np.random.default_rng(14)
    worse = 0
    for _ in range(50):
        problem = half_normal_problem(rng, 14, 50)
        short = maximize(problem, "exact", node_budget=5)
        full = maximize(problem, "exact")
        assert not short.proven and full.proven
        worse += short.value < full.value - rounding(problem)
    assert worse > 5


def test_order_of_the_elements_does_not_change_the_optimum():
    rng = np.random.default_rng(15)
    for problem in problems_of_every_kind(16, 3):
        order = rng.permutation(problem.n_elements)
        permuted = Problem(
            problem.linear[order],
            problem.quadratic[np.ix_(order, order)],
            problem.group[order],
            problem.group_values,
        )
        value = maximize(problem, "exact").value
        assert abs(maximize(permuted, "exact").value - value) <= (
            rounding(problem) + 1e-9 * abs(value)
        )


# ---------------------------------------------------------------- what holds for every optimiser


@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER)
def test_reported_value_is_that_of_the_set(optimizer):
    rng = np.random.default_rng(17)
    for problem in problems_of_every_kind(18, 2):
        solution = maximize(
            problem,
            optimizer,
            start=random_set(rng, problem),
            epsilon=float(rng.choice(EPSILONS)),
            complement=bool(rng.integers(2)),
            random_state=int(rng.integers(2**32)),
        )
        assert isinstance(solution, Solution)
        assert solution.chosen.dtype == bool
        assert solution.chosen.shape == (problem.n_elements,)
        assert_value_is_that_of_the_set(problem, solution)
        assert solution.proven == (optimizer in ("exact", "brute_force"))


@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER)
def test_reported_value_is_that_of_a_large_set(optimizer):
    n = 16 if optimizer == "brute_force" else 40
    for problem in random_problems(19, 10, n=n, factors="full rank", linear="near", groups="none"):
        solution = maximize(problem, optimizer, exchange=True, random_state=0)
        np.testing.assert_allclose(solution.value, problem.value(solution.chosen), rtol=1e-12)


@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER)
def test_nothing_to_choose_from(optimizer):
    solution = maximize(Problem(np.empty(0), np.empty((0, 0))), optimizer, random_state=0)
    assert solution.chosen.shape == (0,)
    assert solution.value == 0.0
    # A group without elements still has its value at nought.
    problem = Problem(np.empty(0), np.empty((0, 0)), [], [[2.5], [-1.0]])
    for exchange in (False, True):
        assert maximize(problem, optimizer, exchange=exchange, random_state=0).value == 1.5
    assert maximize(problem, optimizer, start=[], epsilon=0.5, random_state=0).value == 1.5


@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER)
def test_elements_that_do_not_interact_are_chosen_by_sign(optimizer):
    rng = np.random.default_rng(20)
    for n in (1, 2, 10, 18):
        linear = rng.normal(size=n)
        diagonal = np.abs(rng.normal(size=n))
        for quadratic in (np.zeros((n, n)), np.diag(diagonal)):
            gain = linear - 0.5 * np.diag(quadratic)
            solution = maximize(Problem(linear, quadratic), optimizer, random_state=0)
            assert (solution.chosen == (gain > 0)).all()


@pytest.mark.parametrize("optimizer", ["local_search", "exact", "brute_force"])
def test_equal_elements_of_one_group_are_chosen_by_number(optimizer):
    rng = np.random.default_rng(21)
    for n in (1, 4, 9):
        for function in (shifted_prior_values, left_ordered_values, concave_values):
            values = function(rng, n)
            weight = float(rng.normal())
            problem = Problem(np.full(n, weight), np.zeros((n, n)), np.zeros(n, int), [values])
            total = weight * np.arange(n + 1) + values
            solution = maximize(problem, optimizer)
            assert solution.chosen.sum() == np.argmax(total)
            assert abs(solution.value - total.max()) <= rounding(problem)


@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER)
def test_a_power_of_two_times_the_function_changes_no_choice(optimizer):
    # Such a factor is free of rounding, so that even the order of the search is the same.
    for problem in random_problems(22, 150):
        for factor in (2.0**-20, 2.0**20):
            scaled = Problem(
                factor * problem.linear,
                factor * problem.quadratic,
                problem.group,
                factor * problem.group_values,
            )
            one = maximize(problem, optimizer, epsilon=0.25, random_state=1)
            other = maximize(scaled, optimizer, epsilon=0.25, random_state=1)
            assert (one.chosen == other.chosen).all()
            assert abs(other.value - factor * one.value) <= 1e-12 * factor * magnitude(problem)


@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER)
def test_inputs_are_left_as_they_are(optimizer):
    rng = np.random.default_rng(23)
    problem = random_problem(rng, n=8, factors="full rank", linear="near", groups="mixture")
    before = [array.copy() for array in terms(problem)]
    start = np.ones(8, dtype=np.uint8)
    maximize(problem, optimizer, start=start, random_state=0)
    assert (start == 1).all()
    for array, copy in zip(terms(problem), before, strict=True):
        np.testing.assert_array_equal(array, copy)


# ---------------------------------------------------------------- guarantees


def assert_guarantee(problem, value, share):
    highest, lowest = extremes(problem)
    assert value - lowest >= share * (highest - lowest) - rounding(problem)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("exchange", [False, True])
def test_local_search_reaches_a_third(epsilon, exchange):
    rng = np.random.default_rng(24)
    for problem in problems_of_every_kind(25, 2):
        share = 1 / 3 - epsilon / problem.n_elements
        starts = [None, np.ones(problem.n_elements), *(random_set(rng, problem) for _ in range(3))]
        for start in starts:
            solution = maximize(problem, start=start, epsilon=epsilon, exchange=exchange)
            assert_guarantee(problem, solution.value, share)


def test_double_greedy_reaches_a_third():
    for problem in problems_of_every_kind(26, 4):
        assert_guarantee(problem, maximize(problem, "double_greedy").value, 1 / 3)


def double_greedy_step(problem, lower, upper, k):
    add = problem.value(flipped(lower, k)) - problem.value(lower)
    drop = problem.value(flipped(upper, k)) - problem.value(upper)
    return add, drop


def double_greedy_outcomes(problem, lower, upper, k=0):
    # Every value that the randomised rule can end with, and its probability.
    if k == problem.n_elements:
        return [(1.0, problem.value(lower))]
    add, drop = (max(gain, 0.0) for gain in double_greedy_step(problem, lower, upper, k))
    keep = add / (add + drop) if add + drop > 0 else 1.0
    outcomes = []
    if keep > 0:
        rest = double_greedy_outcomes(problem, flipped(lower, k), upper, k + 1)
        outcomes += [(keep * p, value) for p, value in rest]
    if keep < 1:
        rest = double_greedy_outcomes(problem, lower, flipped(upper, k), k + 1)
        outcomes += [((1 - keep) * p, value) for p, value in rest]
    return outcomes


def expectation(problem):
    # Mean and standard deviation of the value of the randomised double greedy.
    n = problem.n_elements
    outcomes = double_greedy_outcomes(problem, np.zeros(n, dtype=bool), np.ones(n, dtype=bool))
    p, values = np.array(outcomes).T
    mean = p @ values
    return mean, np.sqrt(p @ (values - mean) ** 2)


def double_greedy_by_hand(problem, uniforms=None):
    # Also returns how far the closest decision was from the other one.
    lower = np.zeros(problem.n_elements, dtype=bool)
    upper = ~lower
    closest = np.inf
    for k in range(problem.n_elements):
        add, drop = double_greedy_step(problem, lower, upper, k)
        if uniforms is not None:
            add, drop = max(add, 0.0), max(drop, 0.0)
            closest = min(closest, abs(uniforms[k] * (add + drop) - add))
            keep = add + drop <= 0 or uniforms[k] < add / (add + drop)
        else:
            closest = min(closest, abs(add - drop))
            keep = add >= drop
        if keep:
            lower = flipped(lower, k)
        else:
            upper = flipped(upper, k)
    return lower, closest


def test_double_greedy_decides_as_by_hand():
    compared = {None: 0, 0: 0}
    for problem in problems_of_every_kind(27, 2):
        for seed in compared:
            optimizer = "double_greedy" if seed is None else "randomized_double_greedy"
            uniforms = None
            if seed is not None:
                uniforms = np.random.default_rng(seed).random(problem.n_elements)
            expected, closest = double_greedy_by_hand(problem, uniforms)
            if closest > 10 * rounding(problem):
                solution = maximize(problem, optimizer, random_state=seed)
                assert (solution.chosen == expected).all()
                compared[seed] += 1
    assert min(compared.values()) > 100


def test_expectation_of_the_randomized_double_greedy_is_at_least_a_half():
    for problem in problems_of_every_kind(28, 1, n=5):
        assert_guarantee(problem, expectation(problem)[0], 1 / 2)


def assert_mean_is_the_expectation(problem, n_seeds):
    values = np.array(
        [
            maximize(problem, "randomized_double_greedy", random_state=seed).value
            for seed in range(n_seeds)
        ]
    )
    mean, deviation = expectation(problem)
    allowed = 5 * deviation / np.sqrt(n_seeds) + rounding(problem)
    assert abs(values.mean() - mean) <= allowed
    highest, lowest = extremes(problem)
    assert values.mean() - lowest >= 0.5 * (highest - lowest) - allowed
    return deviation > 1e-3 * (highest - lowest)


def test_randomized_double_greedy_reaches_a_half_in_the_mean():
    random = 0
    for problem in random_problems(29, 40, n=6):
        random += assert_mean_is_the_expectation(problem, 1000)
    assert random > 10


@pytest.mark.long
def test_randomized_double_greedy_reaches_a_half_in_the_mean_on_many_problems():
    for problem in random_problems(30, 300, n=8):
        assert_mean_is_the_expectation(problem, 5000)


def test_randomized_double_greedy_repeats_with_its_seed():
    problem = half_normal_problem(np.random.default_rng(31), 40, 20)
    draws = [
        maximize(problem, "randomized_double_greedy", random_state=seed).chosen
        for seed in (0, 0, 1)
    ]
    assert (draws[0] == draws[1]).all()
    assert (draws[0] != draws[2]).any()
    generator = np.random.default_rng(0)
    first = maximize(problem, "randomized_double_greedy", random_state=generator)
    second = maximize(problem, "randomized_double_greedy", random_state=generator)
    assert (first.chosen == draws[0]).all()
    assert (second.chosen != draws[0]).any()


# ---------------------------------------------------------------- local search


@pytest.mark.parametrize(("complement", "exchange"), EVERY_LOCAL_SEARCH)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_local_search_never_ends_below_its_start(complement, exchange, epsilon):
    rng = np.random.default_rng(32)
    for problem in problems_of_every_kind(33, 1):
        for _ in range(3):
            start = random_set(rng, problem)
            solution = maximize(
                problem, start=start, epsilon=epsilon, complement=complement, exchange=exchange
            )
            assert problem.value(solution.chosen) >= problem.value(start) - rounding(problem)


@pytest.mark.parametrize(("complement", "exchange"), EVERY_LOCAL_SEARCH)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_result_of_the_local_search_is_a_local_optimum(complement, exchange, epsilon):
    rng = np.random.default_rng(34)
    for problem in problems_of_every_kind(35, 2):
        n = problem.n_elements
        chosen = maximize(
            problem,
            start=random_set(rng, problem),
            epsilon=epsilon,
            complement=complement,
            exchange=exchange,
        ).chosen
        value = problem.value(chosen)
        least = epsilon / n**2 * (value - lower_bound(terms(problem)))
        allowed = value + least + rounding(problem)
        for k in range(n):
            assert problem.value(flipped(chosen, k)) <= allowed
        if exchange:
            for i, j in itertools.product(np.flatnonzero(chosen), np.flatnonzero(~chosen)):
                assert problem.value(flipped(chosen, i, j)) <= allowed
        if complement:
            assert problem.value(~chosen) <= value + rounding(problem)


@pytest.mark.parametrize("exchange", [False, True])
def test_local_search_stays_at_an_optimum(exchange):
    for problem in random_problems(36, 300):
        best = maximize(problem, "brute_force")
        solution = maximize(problem, start=best.chosen, exchange=exchange)
        assert (solution.chosen == best.chosen).all()


def test_exchanges_help():
    rng = np.random.default_rng(37)
    gain = []
    for _ in range(100):
        problem = half_normal_problem(rng, 12, 50)
        start = rng.random(12) < 0.5
        without = maximize(problem, start=start, exchange=False)
        with_exchange = maximize(problem, start=start, exchange=True)
        gain.append(with_exchange.value - without.value)
    assert np.mean(gain) > 0
    assert np.mean(np.array(gain) > 1e-6) > 0.1


# One element that keeps two others out although they are worth more together.
BLOCKING = Problem([8.0, 5.0, 5.0], [[8.0, 4.0, 4.0], [4.0, 4.0, 0.0], [4.0, 0.0, 4.0]])


def test_complement_leads_out_of_a_poor_local_optimum():
    stuck = maximize(BLOCKING, complement=False)
    assert stuck.chosen.tolist() == [True, False, False]
    assert stuck.value == 4.0
    # No exchange of two elements leads from it either.
    assert maximize(BLOCKING, complement=False, exchange=True).value == 4.0
    free = maximize(BLOCKING, complement=True)
    assert free.chosen.tolist() == [False, True, True]
    assert free.value == 6.0 == maximize(BLOCKING, "brute_force").value
    assert free.n_updates > stuck.n_updates


def blocking_problem(rng, n, grouped):
    # The same at random: the first element alone is a local optimum of value 1, and all others
    # together are worth a little more.
    gain = rng.dirichlet(np.full(n - 1, 20.0))
    gain *= rng.uniform(1.01, 1.3)
    rows = np.eye(n)
    rows[1:] *= rng.uniform(1, 2, size=(n - 1, 1))
    rows[0, 1:] = gain * rng.uniform(1.1, 2) / np.diag(rows)[1:]
    quadratic = rows @ rows.T
    linear = np.concatenate([[1.0], gain]) + 0.5 * np.diag(quadratic)
    if not grouped:
        return Problem(linear, quadratic)
    # The count of the others changes sign of neither gain nor loss.
    values = np.concatenate([[0.0], np.cumsum(np.sort(rng.uniform(0, 1e-3, n - 1))[::-1])])
    return Problem(linear, quadratic, np.arange(n) > 0, [np.zeros(n), values])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("exchange", [False, True])
def test_result_is_no_worse_than_its_complement(grouped, exchange):
    rng = np.random.default_rng(47)
    for n in range(4, 11):
        for _ in range(10):
            problem = blocking_problem(rng, n, grouped)
            stuck = maximize(problem, complement=False, exchange=exchange)
            assert stuck.chosen.tolist() == [True] + [False] * (n - 1)
            assert stuck.value == pytest.approx(1.0, abs=1e-12)
            free = maximize(problem, exchange=exchange)
            assert free.chosen.tolist() == [False] + [True] * (n - 1)
            assert_value_is_that_of_the_set(problem, free)
            assert free.value > 1.005


def test_an_exchange_leads_out_of_a_local_optimum():
    # Two equal directions: only one of the elements is worth having, the second more so.
    problem = Problem([3.0, 4.0], [[4.0, 4.0], [4.0, 4.0]])
    start = [True, False]
    assert maximize(problem, start=start, complement=False).value == 1.0
    exchanged = maximize(problem, start=start, complement=False, exchange=True)
    assert exchanged.chosen.tolist() == [False, True]
    assert exchanged.value == 2.0


def test_epsilon_refuses_small_gains():
    # After the first element F is 8 above its floor of 0, so that another gain has to exceed
    # 8 * epsilon / 4.
    problem = Problem([8.0, 0.5], np.zeros((2, 2)))
    for epsilon, expected in ((0.0, 8.5), (0.2, 8.5), (0.249, 8.5), (0.251, 8.0), (0.5, 8.0)):
        assert maximize(problem, epsilon=epsilon).value == expected
    # The same where an element is to leave, or to be exchanged.
    problem = Problem([8.0, -0.5], np.zeros((2, 2)))
    for epsilon, expected in ((0.0, 8.0), (0.2, 8.0), (0.5, 7.5)):
        assert maximize(problem, start=[1, 1], epsilon=epsilon, complement=False).value == expected


def test_epsilon_saves_work_and_costs_value():
    rng = np.random.default_rng(38)
    values, updates = [], []
    for _ in range(20):
        problem = half_normal_problem(rng, 40, 20)
        solutions = [maximize(problem, epsilon=epsilon) for epsilon in (0.0, 20.0)]
        values.append([s.value for s in solutions])
        updates.append([s.n_updates for s in solutions])
    assert np.mean(updates, axis=0)[1] < np.mean(updates, axis=0)[0]
    assert np.mean(values, axis=0)[1] <= np.mean(values, axis=0)[0]


def test_lower_bound_is_below_every_value():
    for problem in problems_of_every_kind(39, 5):
        _, lowest = extremes(problem)
        assert lower_bound(terms(problem)) <= lowest + rounding(problem)


def test_lower_bound_is_sharp_where_elements_do_not_interact():
    rng = np.random.default_rng(40)
    for n in (1, 5, 10):
        linear = rng.normal(size=n)
        problem = Problem(linear, np.diag(np.abs(rng.normal(size=n))))
        _, lowest = extremes(problem)
        assert lower_bound(terms(problem)) == pytest.approx(lowest, rel=1e-12)


# Equal elements, each in a group of its own, of which one is worth having: an exchange gains
# exactly nothing, and what rounding makes of it can be larger than the rounding of the quadratic
# part alone. Compiled code cannot be interrupted, so that this runs in a process of its own; the
# first call is for compilation, which is not to be timed.
EXCHANGES_OF_EQUALS = """
    import os, threading
    import numpy as np
    from scipy.special import gammaln
    from ibp.submodular import Problem, maximize

    def search(weight, step, values, n):
        quadratic = np.full((n, n), weight)
        groups = np.tile(values, (n, 1))
        problem = Problem(np.full(n, step + 0.75 * weight), quadratic, np.arange(n), groups)
        for complement in (False, True):
            chosen = maximize(problem, exchange=True, complement=complement).chosen
            assert chosen.sum() == 1 or n > 2

    def searches():
        rng = np.random.default_rng(0)
        for _ in range(200):
            weight, step, offset = rng.uniform(0, 1e-3), rng.uniform(0, 2), rng.uniform(-20, 20)
            search(weight, step, [offset, offset - step], 2)
            shift = rng.integers(1, 1000)
            values = -gammaln(1.0 + shift + np.arange(2))
            search(weight, values[0] - values[1], values, 4)
        print("ended", flush=True)

    search(1.0, 0.0, [0.0, 0.0], 2)
    thread = threading.Thread(target=searches, daemon=True)
    thread.start()
    thread.join(timeout=5)
    os._exit(0)
"""


def test_exchanges_of_equal_elements_of_different_groups_end():
    child = [sys.executable, "-c", textwrap.dedent(EXCHANGES_OF_EQUALS)]
    done = subprocess.run(child, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "ended", done.stderr


# ---------------------------------------------------------------- marginals


@settings(max_examples=300)
@given(seed=seeds, flips=st.lists(st.integers(min_value=0, max_value=9), max_size=60))
def test_marginals_are_differences_of_values(seed, flips):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    n = problem.n_elements
    chosen = random_set(rng, problem).astype(np.uint8)
    # Work space arrives dirty.
    count = rng.integers(0, 99, size=problem.group_values.shape[0])
    marginals = Marginals(rng.normal(size=n), count)
    start_marginals(terms(problem), chosen, marginals)
    allowed = (1 + len(flips)) * rounding(problem)
    by_hand = chosen.astype(bool)
    for k in [None, *flips]:
        if k is not None:
            flip(k % n, terms(problem), chosen, marginals)
            by_hand = flipped(by_hand, k % n)
        assert (chosen == by_hand).all()
        value = problem.value(by_hand)
        found = value_from_marginals(terms(problem), chosen, marginals)
        assert abs(found - value) <= allowed
        for j in range(n):
            gain_of = gain_of_removing if chosen[j] else gain_of_adding
            gain = gain_of(j, terms(problem), marginals)
            assert abs(gain - (problem.value(flipped(by_hand, j)) - value)) <= allowed


def test_marginals_of_integers_are_exact():
    rng = np.random.default_rng(41)
    problem = random_problem(
        rng, n=9, factors="integers", linear="ties", groups="concave with ties"
    )
    chosen = np.zeros(9, dtype=np.uint8)
    n_groups = problem.group_values.shape[0]
    kept = Marginals(np.empty(9), np.empty(n_groups, dtype=np.int64))
    start_marginals(terms(problem), chosen, kept)
    for k in rng.integers(0, 9, size=500):
        flip(k, terms(problem), chosen, kept)
        fresh = Marginals(np.empty(9), np.empty(n_groups, dtype=np.int64))
        start_marginals(terms(problem), chosen, fresh)
        np.testing.assert_array_equal(kept.gains, fresh.gains)
        np.testing.assert_array_equal(kept.group_count, fresh.group_count)


# ---------------------------------------------------------------- many rows at once


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("complement", "exchange"), EVERY_LOCAL_SEARCH)
@pytest.mark.parametrize("budget", [7, np.iinfo(np.int64).max])
def test_rows_are_solved_as_single_problems(optimizer, complement, exchange, budget):
    rng = np.random.default_rng(42)
    n_rows = 25
    for factors in FACTORS:
        template = random_problem(rng, n=9, factors=factors, groups="none")
        rows = FACTORS[factors](rng, 9)
        linear = np.array(
            [
                LINEAR[kind](rng, rows, template.quadratic)
                for kind in rng.choice(list(LINEAR), size=n_rows)
            ]
        )
        start = (rng.random((n_rows, 9)) < 0.5).astype(np.uint8)
        uniforms = np.empty((n_rows, 0)) if optimizer == "double_greedy" else None
        if optimizer == "randomized_double_greedy":
            uniforms = np.array([np.random.default_rng(row).random(9) for row in range(n_rows)])
        chosen = start.copy()
        search = Search(OPTIMIZERS[optimizer], budget, complement, exchange)
        values, n_updates, proven = batch.optimize_rows(
            linear, template.quadratic, chosen, search, uniforms
        )
        for row in range(n_rows):
            single = maximize(
                Problem(linear[row], template.quadratic),
                optimizer,
                start=start[row],
                complement=complement,
                exchange=exchange,
                node_budget=budget,
                random_state=row,
            )
            assert (chosen[row] == single.chosen).all()
            assert values[row] == single.value
            assert n_updates[row] == single.n_updates
            assert proven[row] == single.proven


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_maximize_rows_gives_a_solution_per_row(optimizer):
    rng = np.random.default_rng(7)
    template = random_problem(rng, n=6, factors="full rank", groups="none")
    linear = np.vstack([rng.normal(2.0, 2.0, size=(5, 6)), np.full(6, -1.0)])
    solutions = maximize_rows(linear, template.quadratic, optimizer, random_state=3)
    uniforms = np.random.default_rng(3)  # row by row, as one array would be filled
    for row, solution in zip(linear, solutions, strict=True):
        single = maximize(Problem(row, template.quadratic), optimizer, random_state=uniforms)
        assert (solution.chosen == single.chosen).all() and solution.value == single.value
        assert (solution.n_updates, solution.proven) == (single.n_updates, single.proven)
    assert not solutions[-1].chosen.any()  # where nothing is worth its while


def test_rows_that_cannot_be_solved():
    with pytest.raises(ValueError, match="linear must be finite"):
        maximize_rows([[1.0, np.inf]], np.eye(2))
    with pytest.raises(ValueError, match="unknown optimizer 'greedy'; choose one of local_search"):
        maximize_rows([[1.0, 2.0]], np.eye(2), "greedy")


def test_no_rows_and_no_elements():
    for optimizer in OPTIMIZERS:
        for n_rows, n in ((0, 3), (2, 0), (0, 0)):
            values, n_updates, proven = batch.optimize_rows(
                np.zeros((n_rows, n)),
                np.eye(n),
                np.zeros((n_rows, n), dtype=np.uint8),
                Search(OPTIMIZERS[optimizer], 100, True, True),
                np.empty((n_rows, 0)) if optimizer in DOUBLE_GREEDIES else None,
            )
            assert values.shape == n_updates.shape == proven.shape == (n_rows,)
            assert (values == 0).all()


# ---------------------------------------------------------------- cost


@pytest.mark.parametrize("optimizer", ["double_greedy", "randomized_double_greedy"])
def test_double_greedy_evaluates_two_marginals_per_element(optimizer):
    for problem in random_problems(43, 50):
        solution = maximize(problem, optimizer, random_state=0)
        assert solution.n_updates == 2 * problem.n_elements


def test_local_search_counts_a_pass_per_change():
    # One pass for each element that is added, one that adds no more, one that removes nothing,
    # and one for the complement.
    rng = np.random.default_rng(44)
    for n in (1, 7, 30):
        problem = Problem(rng.normal(size=n), np.zeros((n, n)))
        n_chosen = (problem.linear > 0).sum()
        assert maximize(problem).n_updates == n * (n_chosen + 3)
        assert maximize(problem, complement=False).n_updates == n * (n_chosen + 2)
        # Removal goes back to adding after every element.
        full = maximize(problem, start=np.ones(n), complement=False)
        assert full.n_updates == n * 2 * (n - n_chosen + 1)


def local_search_updates(n, n_active, repeats=15):
    # The problems of figure 2 of the paper, with a given number of active features.
    rng = np.random.default_rng(45)
    updates = []
    for _ in range(repeats):
        rows = np.abs(rng.normal(size=(n, 1000)))
        active = rng.permutation(n)[:n_active]
        x = rows[active].sum(0) + rng.normal(size=1000)
        updates.append(maximize(Problem(rows @ x, rows @ rows.T)).n_updates)
    return np.mean(updates)


def test_updates_of_the_local_search_grow_with_elements_times_active_ones():
    sizes = (25, 50, 100)
    # With half of the elements active that is quadratic, far below the bound of K^3 log K.
    half = {n: local_search_updates(n, n // 2) for n in sizes}
    for n in sizes:
        assert 0.5 * n * n < half[n] < 0.75 * n * n
    # With a fixed number of active elements it is linear.
    few = {n: local_search_updates(n, 5) for n in sizes}
    assert few[50] / few[25] < 2.5
    assert few[100] / few[25] < 5


# ---------------------------------------------------------------- figure 1 of the paper


def share_of_optimal_rows(n, n_draws, n_rows=500, dimension=50):
    rng = np.random.default_rng(45)
    optimal, nearly = [], []
    group, no_values = np.full(n, -1), np.empty((0, 1))
    for _ in range(n_draws):
        rows = np.abs(rng.normal(size=(n, dimension)))
        z = rng.random((n_rows, n)) < 0.5
        x = z @ rows + rng.normal(size=(n_rows, dimension))
        linear, quadratic = x @ rows.T, rows @ rows.T
        search = Search(batch.LOCAL_SEARCH, 1, True, False)
        start = np.zeros((n_rows, n), dtype=np.uint8)
        values, _, _ = batch.optimize_rows(linear, quadratic, start, search, None)
        work = np.zeros(n, dtype=np.uint8)
        ends = [brute_force(Terms(w, quadratic, group, no_values), work) for w in linear]
        highest, lowest = np.array(ends).T
        optimal.append(np.mean(values >= highest - 1e-9 * np.abs(highest)))
        nearly.append(np.mean(values - lowest >= 0.95 * (highest - lowest)))
    return np.mean(optimal), np.mean(nearly)


def assert_shares_of_the_paper(sizes, n_draws, allowed):
    expected = {4: 0.98, 8: 0.88, 12: 0.73}
    shares = {n: share_of_optimal_rows(n, n_draws) for n in sizes}
    for n, (optimal, nearly) in shares.items():
        assert nearly >= 0.98
        if n in expected:
            assert abs(optimal - expected[n]) <= allowed
    optimal = [shares[n][0] for n in sizes]
    assert optimal == sorted(optimal, reverse=True)


def test_local_search_finds_the_optimum_as_often_as_in_the_paper():
    assert_shares_of_the_paper([4, 8, 12], n_draws=3, allowed=0.12)


@pytest.mark.long
def test_local_search_finds_the_optimum_as_often_as_in_the_paper_over_many_factors():
    assert_shares_of_the_paper([2, 4, 6, 8, 10, 12, 14], n_draws=20, allowed=0.12)


# ---------------------------------------------------------------- bad input

TWO = np.eye(2)
BAD_PROBLEMS = {
    "linear is a matrix": (([[1.0, 2.0]], TWO), "linear must be a vector"),
    "quadratic is too large": (([1.0, 2.0], np.eye(3)), r"quadratic must have shape \(2, 2\)"),
    "quadratic is a vector": (([1.0, 2.0], [1.0, 2.0]), r"quadratic must have shape \(2, 2\)"),
    "linear has a nan": (([1.0, np.nan], TWO), "finite"),
    "linear is infinite": (([1.0, np.inf], TWO), "finite"),
    "quadratic has a nan": (([1.0, 2.0], [[1.0, np.nan], [np.nan, 1.0]]), "finite"),
    "quadratic is negative": (([1.0, 2.0], [[1.0, -0.1], [-0.1, 1.0]]), "negative entry"),
    "quadratic is asymmetric": (([1.0, 2.0], [[1.0, 0.2], [0.1, 1.0]]), "symmetric"),
    "quadratic is indefinite": (([1.0, 2.0], [[0.0, 1.0], [1.0, 0.0]]), "semidefinite"),
    "quadratic is slightly indefinite": (
        ([1.0, 2.0], [[1.0, 1.001], [1.001, 1.0]]),
        "semidefinite",
    ),
    "group is too short": (([1.0, 2.0], TWO, [0], [[0.0, 0.0, 0.0]]), r"group must have shape"),
    "group is a matrix": (([1.0, 2.0], TWO, [[0], [0]], [[0.0, 0.0, 0.0]]), r"group must have"),
    "group is out of range": (([1.0, 2.0], TWO, [0, 1], [[0.0, 0.0, 0.0]]), "which has 1 rows"),
    "group has no values": (([1.0, 2.0], TWO, [0, 0]), "which has 0 rows"),
    "group is below -1": (([1.0, 2.0], TWO, [-2, 0], [[0.0, 0.0, 0.0]]), "neither -1 nor"),
    "too few group values": (([1.0, 2.0], TWO, [0, 0], [[0.0, 0.0]]), "group 0 has 2 elements"),
    "group values are infinite": (
        ([1.0, 2.0], TWO, [0, 0], [[-np.inf, 0.0, 0.0]]),
        "values of group 0 must be finite",
    ),
    "group values are convex": (
        ([1.0, 2.0], TWO, [1, 1], [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        "group 1 are not concave",
    ),
    "group values are slightly convex": (
        ([1.0, 2.0], TWO, [0, 0], [[0.0, 1.0, 2.0 + 1e-6]]),
        "group 0 are not concave",
    ),
}


@pytest.mark.parametrize(("given_", "message"), BAD_PROBLEMS.values(), ids=BAD_PROBLEMS)
def test_a_bad_problem_is_refused(given_, message):
    with pytest.raises(ValueError, match=message):
        Problem(*given_)


def test_group_values_that_are_not_a_table_are_refused():
    with pytest.raises(ValueError, match="group_values"):
        Problem([1.0, 2.0], TWO, [0, 0], [0.0, 0.0, 0.0])


def test_group_values_beyond_the_size_of_a_group_are_not_read():
    # Convex from three elements on, but there are two.
    problem = Problem([1.0, 2.0], TWO, [0, 0], [[0.0, 1.0, 1.5, 9.0]])
    for optimizer in EVERY_OPTIMIZER:
        assert maximize(problem, optimizer, random_state=0).value == 0.5 + 1.5 + 1.5


def test_rounding_is_no_reason_to_refuse_a_problem():
    rng = np.random.default_rng(46)
    for scale in (1e-8, 1.0, 1e8):
        rows = scale * np.abs(rng.normal(size=(200, 3)))
        quadratic = rows @ rows.T
        quadratic[0, 1] *= 1 + 1e-15
        Problem(np.ones(200), quadratic)
    values = -gammaln(1e6 + np.arange(201.0))
    Problem(np.ones(200), np.zeros((200, 200)), np.zeros(200, int), [values])


BAD_REQUESTS = {
    "start is too long": ({"start": np.zeros(3)}, r"start must have shape \(2,\)"),
    "start is a matrix": ({"start": np.zeros((1, 2))}, r"start must have shape \(2,\)"),
    "epsilon is negative": ({"epsilon": -0.1}, "epsilon must not be negative"),
}


@pytest.mark.parametrize(("options", "message"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER)
def test_a_bad_request_is_refused(options, message, optimizer):
    with pytest.raises(ValueError, match=message):
        maximize(Problem([1.0, 2.0], TWO), optimizer, **options)


def test_an_epsilon_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="epsilon"):
        maximize(Problem([1.0, 2.0], TWO), epsilon=float("nan"))


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match=r"unknown optimizer 'greedy'; choose one of .*exact"):
        maximize(Problem([1.0, 2.0], TWO), "greedy")


def test_brute_force_refuses_more_than_twenty_elements():
    with pytest.raises(ValueError, match="at most 20 elements; there are 21"):
        maximize(Problem(np.ones(21), np.eye(21)), "brute_force")


# ---------------------------------------------------------------- certificates


def nearly_singular(rng, n):
    # Some elements are all but copies, or all but sums, of others.
    rows = np.abs(rng.normal(size=(n, n + 3)))
    for k in rng.choice(n, size=int(rng.integers(0, n)), replace=False):
        combination = rng.integers(0, 2, size=n)
        combination[k] = 0
        if combination.any():
            tiny = 10.0 ** rng.uniform(-9, -2)
            rows[k] = combination @ rows + tiny * np.abs(rng.normal(size=n + 3))
    return rows


def well_separated(rng, n):
    rows = np.kron(np.eye(n), np.ones(4)) * rng.uniform(0.5, 2.0, size=(n, 1))
    return rows + 0.05 * np.abs(rng.normal(size=rows.shape))


def problem_of_rows(rng, rows, noise):
    x = (rng.random(len(rows)) < 0.5) @ rows + noise * rng.normal(size=rows.shape[1])
    return Problem(rows @ x + rng.normal(size=len(rows)), rows @ rows.T)


def marginal_gains(problem, chosen):
    counts = np.zeros(len(problem.group_values), dtype=np.int64)
    found = Marginals(np.empty(problem.n_elements), counts)
    start_marginals(terms(problem), chosen.astype(np.uint8), found)
    return found.gains


def is_certified(problem, chosen):
    needed = needed_margin(problem.quadratic)
    return bool(certified(needed, chosen.astype(np.uint8), marginal_gains(problem, chosen)))


def assert_certificates_hold(problem, sets):
    best = extremes(problem)[0]
    n_certified = 0
    for chosen in sets:
        if is_certified(problem, chosen):
            n_certified += 1
            assert problem.value(chosen) >= best - rounding(problem)
    return n_certified


def certifiable_problems(seed, count):
    rng = np.random.default_rng(seed)
    for i in range(count):
        n = int(rng.integers(1, 8))
        kind = i % 4
        if kind == 0:
            yield problem_of_rows(rng, nearly_singular(rng, n), rng.choice([0.0, 0.3]))
        elif kind == 1:
            yield problem_of_rows(rng, well_separated(rng, n), rng.choice([0.1, 1.0]))
        else:
            yield random_problem(rng, n, groups="none")


def test_what_is_certified_is_optimal():
    n_certified = 0
    for problem in certifiable_problems(0, 1500):
        n_certified += assert_certificates_hold(problem, every_set(problem.n_elements))
    assert n_certified > 300


@given(seed=seeds)
@settings(max_examples=200)
def test_what_is_certified_is_optimal_whatever_the_seed(seed):
    for problem in certifiable_problems(seed, 4):
        found = maximize(problem, "local_search").chosen
        assert_certificates_hold(problem, [found, ~found, np.zeros_like(found)])


@given(seed=seeds)
def test_at_the_edge_of_a_certificate(seed):
    # All marginals as close to zero as the certificate allows: one rounding error from no proof.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    rows = nearly_singular(rng, n) if seed % 2 else np.abs(rng.normal(size=(n, n + 2)))
    quadratic = rows @ rows.T
    chosen = rng.random(n) < 0.5
    needed = needed_margin(quadratic) * (1 + 1e-12)
    direction = np.where(chosen, 1.0, -1.0)
    diagonal = np.diag(quadratic)
    linear = quadratic @ chosen - diagonal * chosen + 0.5 * diagonal + direction * needed
    problem = Problem(linear, quadratic)
    if is_certified(problem, chosen):
        assert problem.value(chosen) >= extremes(problem)[0] - rounding(problem)


def test_optima_of_well_separated_problems_are_certified():
    rng = np.random.default_rng(0)
    for n in (1, 3, 8, 12):
        for _ in range(40):
            rows = well_separated(rng, n)
            truth = rng.random(n) < 0.5
            x = truth @ rows + 0.05 * rng.normal(size=rows.shape[1])
            problem = Problem(25.0 * rows @ x, 25.0 * rows @ rows.T)
            solution = maximize(problem, "exact")
            assert is_certified(problem, solution.chosen)
            for k in range(n):
                assert not is_certified(problem, flipped(solution.chosen, k))


def test_margins_leave_a_positive_semidefinite_matrix():
    for problem in certifiable_problems(1, 300):
        quadratic = problem.quadratic
        needed = needed_margin(quadratic)
        assert (needed >= 0).all()
        if np.isfinite(needed).all():
            kept = np.diag(quadratic) - 2.0 * needed
            assert (kept >= 0).all()
            scale = np.sqrt(np.diag(quadratic))
            smallest = np.linalg.eigvalsh((quadratic - np.diag(kept)) / np.outer(scale, scale))[0]
            assert smallest >= -1e-13 * len(scale)


def test_features_that_say_nothing_prove_nothing():
    quadratic = np.diag([1.0, 0.0, 2.0])
    assert np.isinf(needed_margin(quadratic)).all()
    assert needed_margin(np.empty((0, 0))).size == 0
    zero = Problem(np.array([1.0, -1.0, 1.0]), quadratic)
    assert not is_certified(zero, np.array([True, False, True]))
