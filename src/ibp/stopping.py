"""When a run has converged.

Both rules look at relative changes of a log-density, which would depend on the unit of X: dividing
X by c adds ln c per entry. They are therefore applied to the density of X in units of its own root
mean square, so that multiplying X by a constant changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ibp.data import Observations

BLOCK = 5
# With Z at rest only the factors still move: then the bound itself decides, at this part of tol,
# and at the least at this change.
REST_OF_TOL, LEAST_CHANGE = 0.1, 1e-9


def relative_change(new: float, old: float) -> float:
    """|new - old| in units of the larger magnitude; 0 if both are 0."""
    scale = max(abs(new), abs(old))
    return abs(new - old) / scale if scale > 0 else 0.0


def blocks_agree(train_log_likelihood: Sequence[float], tol: float) -> bool:
    """The paper's rule: the mean training likelihood of two blocks of five sweeps agrees to tol.

    Looked at whenever a block is full; ``tol=0`` switches the rule off.
    """
    n = len(train_log_likelihood)
    if tol <= 0 or n < 2 * BLOCK or n % BLOCK:
        return False
    new = sum(train_log_likelihood[n - BLOCK :]) / BLOCK
    old = sum(train_log_likelihood[n - 2 * BLOCK : n - BLOCK]) / BLOCK
    return relative_change(new, old) < tol


def at_rest(n_changed: Sequence[int], evidence: Sequence[float], tol: float) -> bool:
    """Whether the last sweep changed no bit, and the bound by less than a tenth of tol relative.

    ``evidence`` begins with that of the initial state.
    """
    if not n_changed or n_changed[-1]:
        return False
    change = relative_change(evidence[-1], evidence[-2])
    return change < max(REST_OF_TOL * tol, LEAST_CHANGE)


def log_unit(observations: Observations) -> float:
    """ln of the root mean square of the observed entries."""
    mean_square = observations.sum_of_squares / max(observations.n_observed, 1)
    return 0.5 * float(np.log(mean_square)) if mean_square > 0 else 0.0


def converged(
    observations: Observations,
    climbs: bool,
    n_changed: Sequence[int],
    evidence: Sequence[float],
    train_log_likelihood: Sequence[float],
    tol: float,
) -> bool:
    """Whether either rule says so; ``evidence`` begins with that of the initial state.

    Only a method that climbs can be at rest: a sampler that changed nothing may do so next time.
    """
    unit = log_unit(observations)
    last = [value + observations.n_observed * unit for value in evidence[-2:]]
    if climbs and at_rest(n_changed, last, tol):
        return True
    if len(train_log_likelihood) % BLOCK:
        return False
    return blocks_agree([value + unit for value in train_log_likelihood[-2 * BLOCK :]], tol)
