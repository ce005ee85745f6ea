"""The one evaluation protocol: how well assignments and factors predict entries.

An entry's score is ln N(x; z E[A], noise_std^2). Fits, scores, experiments and benchmarks all use
these functions, so that their numbers can be compared.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibp.blas import reconstruct
from ibp.model.observations import BLOCK_ROWS

FloatArray = npt.NDArray[np.float64]


def row_log_likelihood(
    values: npt.NDArray[np.floating],
    assignments: npt.NDArray[np.generic],
    components: FloatArray,
    noise_std: float,
    hidden_from: npt.NDArray[np.floating] | None = None,
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Sum of the log-likelihoods of each row's entries, and how many there are.

    Counted are the entries present in ``values`` and, if ``hidden_from`` is given, missing there.
    """
    n_rows = values.shape[0]
    sums = np.zeros(n_rows)
    counts = np.zeros(n_rows, dtype=np.int64)
    constant = -0.5 * np.log(2.0 * np.pi) - np.log(noise_std)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        counted = ~np.isnan(values[rows])
        if hidden_from is not None:
            counted &= np.isnan(hidden_from[rows])
        prediction = reconstruct(assignments[rows], components)
        residual = np.where(counted, values[rows] - prediction, 0.0) / noise_std
        counts[rows] = counted.sum(axis=1)
        sums[rows] = counts[rows] * constant - 0.5 * np.einsum("nd,nd->n", residual, residual)
    return sums, counts


def held_out_block(
    n_samples: int,
    n_features: int,
    random_state: np.random.Generator | int | None = None,
    *,
    fraction: float = 0.2,
) -> npt.NDArray[np.bool_]:
    """The paper's held-out entries: a fraction of the dimensions in the last half of the rows.

    Returns
    -------
    ndarray of shape (n_samples, n_features), bool
        True where an entry is to be hidden from the fit.
    """
    rng = np.random.default_rng(random_state)
    hidden = np.zeros((n_samples, n_features), dtype=bool)
    columns = rng.permutation(n_features)[: round(fraction * n_features)]
    hidden[n_samples // 2 :, columns] = True
    return hidden
