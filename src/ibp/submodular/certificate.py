"""A proof of optimality in O(K), where the features are far enough apart.

Let z be a set, r = w - Wz the gradient there, and D a diagonal matrix with W - D positive
semidefinite. Another set z + e (e in {-1, 0, 1}) is worth

    F(z + e) - F(z) = r'e - e'We / 2 <= sum over e_k != 0 of (r_k e_k - D_kk / 2) ,

so z is optimal if no bit k has r_k e_k > D_kk / 2 in the direction in which it can flip. In terms
of the marginal gain of k that is: unchosen elements gain less than -(W_kk - D_kk) / 2, chosen ones
more than (W_kk - D_kk) / 2. D = c diag(W), with c the smallest eigenvalue of W scaled to a unit
diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.compiled import kernel

# Of the eigenvalue: an error of rounding must not make a proof.
ROUNDING = 1e-10


def needed_margin(quadratic: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """(W_kk - D_kk) / 2: how far each marginal gain must be from zero, on the right side."""
    diagonal = np.diagonal(quadratic)
    if diagonal.size == 0 or not (diagonal > 0).all():
        return np.full(diagonal.size, np.inf)
    root = np.sqrt(diagonal)
    smallest = float(np.linalg.eigvalsh(quadratic / np.outer(root, root))[0])
    return np.asarray(0.5 * diagonal * (1.0 - max(smallest - ROUNDING * diagonal.size, 0.0)))


@kernel
def certified(needed, chosen, gains):
    """Whether the marginals prove that ``chosen`` is optimal."""
    proven = True
    for k in range(chosen.shape[0]):
        proven = proven and (gains[k] if chosen[k] else -gains[k]) >= needed[k]
    return proven
