"""Hashes of Z's columns, to find equal ones without reading them."""

import numpy as np

from ibp.compiled import inlined, kernel
from ibp.kernels.mixing import mixed


@inlined
def row_key(n, half):
    """64 well-mixed bits that stand for row n; two halves make 128."""
    return mixed(2 * n + half)


@kernel
def column_hashes(assignments):
    """A 128-bit hash per column, the exclusive or of its rows' keys, shape (K, 2).

    Equal columns have equal hashes and a flipped bit changes one in O(1), so columns that are equal
    outside a row are found without reading them. Different columns collide with probability 2^-128.
    """
    n_rows, n_components = assignments.shape
    hashes = np.zeros((n_components, 2), dtype=np.uint64)
    for n in range(n_rows):
        low = row_key(n, 0)
        high = row_key(n, 1)
        for k in range(n_components):
            if assignments[n, k]:
                hashes[k, 0] ^= low
                hashes[k, 1] ^= high
    return hashes


@kernel
def flip_hashes(rows, old, new, column_hash):
    """Bring the hashes up to date with rows that changed; ``rows`` are their numbers."""
    for i in range(rows.shape[0]):
        for k in range(old.shape[1]):
            if old[i, k] != new[i, k]:
                column_hash[k, 0] ^= row_key(rows[i], 0)
                column_hash[k, 1] ^= row_key(rows[i], 1)
