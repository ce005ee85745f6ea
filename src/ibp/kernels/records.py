"""What the kernels take: arrays that belong together, under one name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ibp.submodular.records import Preparation, Space


class LayoutArrays(NamedTuple):
    """The order of the columns, and which rows miss the same ones.

    Attributes
    ----------
    column_order : ndarray of shape (D,)
        The user's column at each layout position.
    group_start : ndarray of shape (G + 1,)
        Where the groups of columns that are observed in the same rows start.
    row_pattern : ndarray of shape (N,)
        The pattern of missing entries of each row, -1 for one that no other row has.
    n_patterns : int
        How many patterns there are.
    """

    column_order: np.ndarray
    group_start: np.ndarray
    row_pattern: np.ndarray
    n_patterns: int


class DataArrays(NamedTuple):
    """Rows of X and what brings them into the units of the model, all but X in layout order.

    Attributes
    ----------
    values : ndarray of shape (n, columns of the user's)
        Some rows, NaN where missing.
    centre, unit : ndarray of shape (D,)
        What to subtract from a column, and what to divide it by then.
    column_sums, noise_precision : ndarray of shape (D,)
        Sums of what is left, and its noise.
    """

    values: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    column_sums: np.ndarray
    noise_precision: np.ndarray


class Schedule(NamedTuple):
    """Which rows to visit, and when to refresh q(A).

    Attributes
    ----------
    rows : ndarray of shape (N,), int64
        The order of a sweep, of which ``rows[first:last]`` are visited.
    first, last : int
        As above.
    block_size : int
        Rows between refreshes.
    dirty : bool
        Whether rows have changed since q(A) was refreshed.
    """

    rows: np.ndarray
    first: int
    last: int
    block_size: int
    dirty: bool


class Sums(NamedTuple):
    """Z'Z and Z'1 per group of columns, Z'X, and the counts m."""

    gram: np.ndarray
    totals: np.ndarray
    cross: np.ndarray
    counts: np.ndarray


class FactorArrays(NamedTuple):
    """q(A): its parameters and its moments, each K x D in layout order."""

    location: np.ndarray
    scale: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class InterceptArrays(NamedTuple):
    """The intercept's means, and how far they move per unit of the sum of residuals, each (D,)."""

    mean: np.ndarray
    response: np.ndarray


class FactorSpace(NamedTuple):
    """Work space of the update of q(A), (D,) and (D, K)."""

    residual: np.ndarray
    by_column: np.ndarray


class PriorTerms(NamedTuple):
    """What a feature's evidence takes from the hyperparameters.

    Attributes
    ----------
    precision : float
        E tau_A, the largest of all columns.
    share : ndarray of shape (D,)
        What part of it each column has.
    mean_log_precision : float
        E ln tau_A, in the mean over the columns.
    mean_log_alpha : float
        E ln alpha.
    """

    precision: float
    share: np.ndarray
    mean_log_precision: float
    mean_log_alpha: float


class RowContext(NamedTuple):
    """What the exact objective of a row reads beside the row itself.

    Attributes
    ----------
    n_samples : int
        N.
    counts : ndarray of shape (K,), int64
        m, with the row.
    column_hash : ndarray of shape (K, 2), uint64
        Of Z's columns, with the row.
    factors : FactorArrays
        q(A).
    prior : PriorTerms
        The terms of eta.
    """

    n_samples: int
    counts: np.ndarray
    column_hash: np.ndarray
    factors: FactorArrays
    prior: PriorTerms


class ExactSearch(NamedTuple):
    """How rows are searched against the exact objective.

    Attributes
    ----------
    optimizer, node_budget : int
        As in `ibp.submodular.records.Search`.
    left_ordered : bool
        Whether the classes are those of the left-ordered form.
    cold : bool
        Whether a search starts from the empty set, without complement or exchanges, and whatever
        it finds is accepted, as the authors do. Others start from the row as it is and never lower
        the bound.
    """

    optimizer: int
    node_budget: int
    left_ordered: bool
    cold: bool


class RowSpace(NamedTuple):
    """Work space for the search of a row against the exact objective; ``new`` is the row found."""

    new: np.ndarray
    linear: np.ndarray
    others: np.ndarray
    group: np.ndarray
    group_values: np.ndarray
    search: Space


class Searches(NamedTuple):
    """What the search of a form's rows needs, stacked like the forms themselves.

    Attributes
    ----------
    needed : ndarray of shape (F, K)
        The margins that prove an optimum.
    prepared : Preparation
        For the exact search.
    """

    needed: np.ndarray
    prepared: Preparation


class Outcome(NamedTuple):
    """What the search of n rows brought, to be filled in.

    Attributes
    ----------
    chosen : ndarray of shape (n, K), uint8
        The rows of Z, from which the searches start.
    failed_searches : ndarray of shape (n,), uint8
        How often the exact search of a row was in vain, one after the other; kept between calls.
    gain : ndarray of shape (n,)
        Of the row objective.
    proven : ndarray of shape (n,), bool
        Whether a row is known to be optimal.
    losses : ndarray of shape (n, K) or (0, K)
        What each row loses when a bit flips; an empty array is left empty.
    """

    chosen: np.ndarray
    failed_searches: np.ndarray
    gain: np.ndarray
    proven: np.ndarray
    losses: np.ndarray
