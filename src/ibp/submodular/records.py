"""What the compiled optimisers take: a problem, its preparation, how to search, work space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ibp.compiled import inlined


class Terms(NamedTuple):
    """F as compiled code reads it; `ibp.submodular.Problem` says what each term means."""

    linear: np.ndarray  # (K,), w
    quadratic: np.ndarray  # (K, K), W
    group: np.ndarray  # (K,), the group of each element, -1 for none
    group_values: np.ndarray  # (G, C + 1), h_g(t) for t chosen elements of group g


class Marginals(NamedTuple):
    """The marginal gains of a set without its groups (K), and how many of each group it has (G)."""

    gains: np.ndarray
    group_count: np.ndarray


class Preparation(NamedTuple):
    """A quadratic form made ready for the exact search; several are stacked along a first axis."""

    shift: np.ndarray  # (1,), what is added to the diagonal
    order: np.ndarray  # (K,), the order of decisions
    ordered: np.ndarray  # (K, K), W in that order
    # (K, K) each: R' and R with their rows side by side, R'R = W + shift I.
    factor: np.ndarray
    transposed: np.ndarray
    # (2, K), sums of the positive and of the negative W_kj over the elements decided after k.
    later: np.ndarray


class Search(NamedTuple):
    """How the local and the exact search go about it."""

    optimizer: int  # one of the numbers in `ibp.submodular.batch`
    node_budget: int  # the exact search stops after this many nodes
    # Whether, at a local optimum, the complement and the exchanges of two elements are tried.
    complement: bool
    exchange: bool
    # The local search accepts what multiplies F - floor by more than 1 + epsilon / K^2. The floor
    # is a lower bound of F, which is not read if epsilon is 0.
    epsilon: float = 0.0
    floor: float = 0.0


class Space(NamedTuple):
    """Work space of the optimisers."""

    # Marginals of up to two sets, (2, K) and (2, G).
    gains: np.ndarray
    group_count: np.ndarray
    # Of the exact search.
    numbers: np.ndarray
    flags: np.ndarray
    rows: np.ndarray


@inlined
def space_for_preparation(n):
    """Arrays for `ibp.submodular.exact.prepare` to fill."""
    return Preparation(
        np.zeros(1),
        np.zeros(n, dtype=np.int64),
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros((2, n)),
    )


@inlined
def preparation_of(form, stacked):
    """One of several preparations."""
    return Preparation(
        stacked.shift[form],
        stacked.order[form],
        stacked.ordered[form],
        stacked.factor[form],
        stacked.transposed[form],
        stacked.later[form],
    )


@inlined
def space_for_search(n, n_groups):
    """Work space for n elements in at most so many groups."""
    return Space(
        np.empty((2, n)),
        np.zeros((2, n_groups), dtype=np.int64),
        np.empty((2 * n + 5, n + 1)),
        np.empty((3, n), dtype=np.uint8),
        np.empty((1, n + 1), dtype=np.int64),
    )
