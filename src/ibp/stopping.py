"""When a run has converged.

Both rules look at relative changes of a log-density, which would depend on the unit of X. They are
therefore applied to the density of X in units of its own root mean square, so that multiplying X by
a constant changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ibp.data import Observations
from ibp.methods.base import SweepRecord, relative_change

BLOCK = 5
# With Z at rest only the factors still move: then the bound itself decides, at this part of tol;
# and at this change even if tol is 0, since below it there is nothing but rounding.
REST_OF_TOL, LEAST_CHANGE = 0.1, 1e-9


def blocks_agree(train_log_likelihood: Sequence[float], tol: float) -> bool:
    """Whether the mean training likelihoods of the last two blocks of five sweeps agree to tol.

    This is the paper's rule. It is looked at whenever a block is full; ``tol=0`` switches it off.
    """
    n = len(train_log_likelihood)
    if tol <= 0 or n < 2 * BLOCK or n % BLOCK:
        return False
    new = sum(train_log_likelihood[n - BLOCK :]) / BLOCK
    old = sum(train_log_likelihood[n - 2 * BLOCK : n - BLOCK]) / BLOCK
    return relative_change(new, old) < tol


def at_rest(n_changed: Sequence[int], evidence: Sequence[float], tol: float) -> bool:
    """Whether the last sweep changed no bit, and the bound by less than a tenth of tol relative.

    A change below `LEAST_CHANGE` is none, whatever tol is, 0 included. ``evidence`` begins with
    that of the initial state.
    """
    if not n_changed or n_changed[-1]:
        return False
    change = relative_change(evidence[-1], evidence[-2])
    return change < max(REST_OF_TOL * tol, LEAST_CHANGE)


def converged(
    observations: Observations,
    climbs: bool,
    initial: SweepRecord,
    sweeps: Sequence[SweepRecord],
    tol: float,
) -> bool:
    """Whether one of the rules says that a run has converged.

    Only a method that climbs can be at rest: a sampler that changed nothing in one sweep may change
    something in the next.
    """
    unit = observations.log_unit
    last = [initial, *sweeps[-2:]]
    evidence = [record.evidence + observations.n_observed * unit for record in last]
    if climbs and at_rest([record.n_changed for record in last[1:]], evidence, tol):
        return True
    if len(sweeps) % BLOCK:
        return False
    return blocks_agree(
        [record.train_log_likelihood + unit for record in sweeps[-2 * BLOCK :]], tol
    )
