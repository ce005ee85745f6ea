"""Small problems in chunks of Dask's."""

from __future__ import annotations

import numpy as np
import pytest

da = pytest.importorskip("dask.array")

N, K, D, CHUNK = 480, 4, 12, 120


def planted(n=N, seed=0, noise=0.2):
    """Data with features, and their codes."""
    rng = np.random.default_rng(seed)
    codes = (rng.random((n, K)) < 0.4).astype(np.uint8)
    factors = rng.uniform(0.5, 2.0, (K, D)) * (rng.random((K, D)) < 0.6)
    return codes @ factors + rng.normal(0.0, noise, (n, D)) + 1.0, codes


def with_gaps(values, seed=1):
    """The same with a block and some single entries missing."""
    rng = np.random.default_rng(seed)
    holed = values.copy()
    holed[: len(values) // 2, :3] = np.nan
    holed[rng.random(values.shape) < 0.004] = np.nan
    return holed


def chunked(values, chunk=CHUNK):
    """A Dask array of so many rows a chunk."""
    return da.from_array(values, chunks=(chunk, -1))


def blurred(codes, seed=2):
    """Codes with one bit in five turned."""
    turned = np.random.default_rng(seed).random(codes.shape) < 0.2
    return np.where(turned, 1 - codes, codes).astype(np.uint8)
