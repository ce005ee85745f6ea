"""What the compiled optimisers take: a problem, its preparation, how to search, work space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ibp.compiled import inlined


class Terms(NamedTuple):
    """F as compiled code reads it; `ibp.submodular.Problem` says what each term means.

    Attributes
    ----------
    linear : ndarray of shape (K,)
        w.
    quadratic : ndarray of shape (K, K)
        W.
    group : ndarray of shape (K,), int64
        The group of each element, -1 for none.
    group_values : ndarray of shape (G, C + 1)
        h_g(t) for t chosen elements of group g.
    """

    linear: np.ndarray
    quadratic: np.ndarray
    group: np.ndarray
    group_values: np.ndarray


class Marginals(NamedTuple):
    """The marginal gains of a set without its groups (K), and how many of each group it has (G)."""

    gains: np.ndarray
    group_count: np.ndarray


class Preparation(NamedTuple):
    """A quadratic form made ready for the exact search; several are stacked along a first axis.

    Attributes
    ----------
    shift : ndarray of shape (1,)
        What is added to the diagonal.
    order : ndarray of shape (K,), int64
        The order of decisions.
    ordered : ndarray of shape (K, K)
        W in that order.
    factor : ndarray of shape (K, K)
        R', of which the rows lie side by side, with R'R = W + shift I.
    later : ndarray of shape (2, K)
        For each k the sums of the positive and of the negative W_kj over the elements decided
        after it.
    """

    shift: np.ndarray
    order: np.ndarray
    ordered: np.ndarray
    factor: np.ndarray
    later: np.ndarray


class Search(NamedTuple):
    """How the local and the exact search go about it.

    Attributes
    ----------
    optimizer : int
        One of the numbers in `ibp.submodular.batch`.
    node_budget : int
        The exact search stops after this many nodes.
    complement, exchange : bool
        Whether, at a local optimum, the complement and the exchanges of two elements are tried.
    epsilon : float
        The local search accepts what multiplies F - b by more than 1 + epsilon / K^2.
    floor : float
        b, a lower bound of F; it is not read if epsilon is 0.
    """

    optimizer: int
    node_budget: int
    complement: bool
    exchange: bool
    epsilon: float = 0.0
    floor: float = 0.0


class Space(NamedTuple):
    """Work space of the optimisers.

    Attributes
    ----------
    gains, group_count : ndarrays of shapes (2, K) and (2, G)
        Marginals of up to two sets.
    numbers, flags, rows : ndarrays
        Of the exact search.
    """

    gains: np.ndarray
    group_count: np.ndarray
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
