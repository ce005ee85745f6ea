"""When a run has converged."""

from __future__ import annotations

from collections.abc import Sequence

BLOCK = 5
AT_REST = 1e-9


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


def at_rest(n_changed: Sequence[int], evidence: Sequence[float], initial_evidence: float) -> bool:
    """Whether the last sweep changed no bit, and the bound by less than 1e-9 relative."""
    if not n_changed or n_changed[-1]:
        return False
    previous = evidence[-2] if len(evidence) > 1 else initial_evidence
    return relative_change(evidence[-1], previous) < AT_REST
