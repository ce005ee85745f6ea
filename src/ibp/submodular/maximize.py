"""Maximise one problem with an optimiser chosen by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibp.submodular import batch
from ibp.submodular.brute_force import MAX_ELEMENTS, brute_force
from ibp.submodular.exact import prepare
from ibp.submodular.local_search import lower_bound
from ibp.submodular.problem import Problem, Solution
from ibp.submodular.records import Search, Terms, space_for_preparation, space_for_search

OPTIMIZERS = {
    "local_search": batch.LOCAL_SEARCH,
    "exact": batch.EXACT,
    "double_greedy": batch.DOUBLE_GREEDY,
    "randomized_double_greedy": batch.RANDOMIZED_DOUBLE_GREEDY,
}
DOUBLE_GREEDIES = ("double_greedy", "randomized_double_greedy")
NO_LIMIT = np.iinfo(np.int64).max


def maximize(
    problem: Problem,
    optimizer: str = "local_search",
    *,
    start: npt.ArrayLike | None = None,
    epsilon: float = 0.0,
    complement: bool = True,
    exchange: bool = False,
    node_budget: int | None = None,
    random_state: np.random.Generator | int | None = None,
) -> Solution:
    """Maximise a quadratic submodular function with concave group terms.

    Parameters
    ----------
    problem : Problem
        What to maximise.
    optimizer : str, default="local_search"
        ``"local_search"``, ``"exact"``, ``"double_greedy"``, ``"randomized_double_greedy"``, or
        ``"brute_force"`` for up to 20 elements.
    start : array-like of shape (K,), optional
        Where the local search begins, by default the empty set. The local and the exact search
        never return less than its value; the others ignore it.
    epsilon : float, default=0
        The local search accepts a change that multiplies F - b by more than 1 + epsilon / K^2,
        b being a lower bound of F. With 0 any gain above rounding is taken.
    complement : bool, default=True
        Whether the local search compares its result with the complement and goes on from there
        if that is better. Its guarantee needs it.
    exchange : bool, default=False
        Whether the local search also exchanges a chosen for an unchosen element when no single
        change helps.
    node_budget : int, optional
        The exact search stops after this many nodes with the best set so far.
    random_state : Generator or int, optional
        Source of the randomised double greedy's draws.

    Returns
    -------
    Solution
        Set, value, number of O(1) updates, and whether the set is proven to be a maximiser.
    """
    n = problem.n_elements
    chosen = np.zeros(n, dtype=np.uint8)
    if start is not None:
        given = np.asarray(start)
        if given.shape != (n,):
            raise ValueError(f"start must have shape {(n,)}; it is {given.shape}")
        chosen[:] = given != 0
    if not epsilon >= 0:
        raise ValueError(f"epsilon must not be negative; it is {epsilon}")
    terms = Terms(problem.linear, problem.quadratic, problem.group, problem.group_values)
    if optimizer == "brute_force":
        if n > MAX_ELEMENTS:
            raise ValueError(f"brute force takes at most {MAX_ELEMENTS} elements; there are {n}")
        value, _ = brute_force(terms, chosen)
        return Solution(chosen.astype(bool), float(value), 2**n, True)
    if optimizer not in OPTIMIZERS:
        known = ", ".join([*OPTIMIZERS, "brute_force"])
        raise ValueError(f"unknown optimizer {optimizer!r}; choose one of {known}")

    uniforms = None
    if optimizer in DOUBLE_GREEDIES:
        randomized = optimizer == "randomized_double_greedy"
        uniforms = np.random.default_rng(random_state).random(n * randomized)
    prepared = space_for_preparation(n)
    if optimizer == "exact":
        prepare(problem.quadratic, prepared)
    search = Search(
        OPTIMIZERS[optimizer],
        NO_LIMIT if node_budget is None else int(node_budget),
        bool(complement),
        bool(exchange),
        float(epsilon),
        lower_bound(terms) if epsilon > 0 else 0.0,
    )
    value, n_updates, proven = batch.optimize(
        terms,
        prepared,
        chosen,
        search,
        uniforms,
        space_for_search(n, problem.group_values.shape[0]),
    )
    return Solution(chosen.astype(bool), float(value), int(n_updates), bool(proven))


def maximize_rows(
    linear: npt.ArrayLike,
    quadratic: npt.ArrayLike,
    optimizer: str = "local_search",
    *,
    complement: bool = True,
    exchange: bool = False,
    node_budget: int | None = None,
    random_state: np.random.Generator | int | None = None,
) -> list[Solution]:
    """Maximise many problems that share a quadratic form and have no groups.

    Parameters
    ----------
    linear : array-like of shape (n_problems, K)
        One linear term per problem.
    quadratic : array-like of shape (K, K)
        The quadratic form of all; the exact search factors it once.
    optimizer, complement, exchange, node_budget, random_state
        As in `maximize`; every search starts from the empty set.

    Returns
    -------
    list of Solution
        One per problem.
    """
    rows = np.atleast_2d(np.ascontiguousarray(linear, dtype=np.float64))
    form = Problem(np.zeros(rows.shape[1]), np.asarray(quadratic)).quadratic  # checks it
    if not np.isfinite(rows).all():
        raise ValueError("linear must be finite")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {optimizer!r}; choose one of {', '.join(OPTIMIZERS)}")
    chosen = np.zeros(rows.shape, dtype=np.uint8)
    uniforms = None
    if optimizer in DOUBLE_GREEDIES:
        n = rows.shape[1] * (optimizer == "randomized_double_greedy")
        uniforms = np.random.default_rng(random_state).random((len(rows), n))
    budget = NO_LIMIT if node_budget is None else int(node_budget)
    search = Search(OPTIMIZERS[optimizer], budget, bool(complement), bool(exchange))
    values, n_updates, proven = batch.optimize_rows(rows, form, chosen, search, uniforms)
    return [
        Solution(chosen[i].astype(bool), float(values[i]), int(n_updates[i]), bool(proven[i]))
        for i in range(len(rows))
    ]
