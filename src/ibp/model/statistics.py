"""Sufficient statistics of the codes: all that the factors and the bound need to know of X and Z.

Z'Z, Z'X and the counts m, with Z'Z once per column group because a row counts only where it is
observed. Codes may be real numbers: only ``counts`` looks at which of them are not zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ibp.model.observations import BLOCK_ROWS, Observations

FloatArray = npt.NDArray[np.float64]
PAIRS_AT_ONCE = 1 << 21  # numbers, 16 MB of them


@dataclass
class Statistics:
    """Sums over the rows.

    Attributes
    ----------
    gram : ndarray of shape (G, K, K)
        Z'Z over the rows that observe each column group.
    cross : ndarray of shape (K, D)
        Z'X over the observed entries, columns in layout order.
    counts : ndarray of shape (K,)
        m, how many rows have each feature.
    """

    gram: FloatArray
    cross: FloatArray
    counts: npt.NDArray[np.int64]

    @classmethod
    def from_codes(cls, observations: Observations, codes: npt.NDArray[np.generic]) -> Statistics:
        """One pass over X."""
        n_groups = observations.group_start.size - 1
        k = codes.shape[1]
        gram = np.zeros((n_groups, k, k))
        cross = np.zeros((k, observations.n_features))
        complete = observations.complete
        # Products of pairs of codes take K^2 numbers a row.
        n_rows = BLOCK_ROWS if complete else max(8, min(BLOCK_ROWS, PAIRS_AT_ONCE // max(k * k, 1)))
        for rows, block in observations.blocks(n_rows):
            z = codes[rows].astype(np.float64)
            cross += z.T @ block
            if complete:
                gram[0] += z.T @ z
            else:
                seen = observations.observed_groups(rows).astype(np.float64)
                pairs = (z[:, :, None] * z[:, None, :]).reshape(z.shape[0], k * k)
                gram += (seen.T @ pairs).reshape(n_groups, k, k)
        counts = np.count_nonzero(codes, axis=0).astype(np.int64)
        return cls(gram, cross, counts)

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.counts.size)

    def select(self, keep: npt.NDArray[np.bool_]) -> Statistics:
        """The statistics of some of the features."""
        return Statistics(
            np.ascontiguousarray(self.gram[:, keep][:, :, keep]),
            np.ascontiguousarray(self.cross[keep]),
            self.counts[keep],
        )
