"""What kernels that go through rows are told of missing entries."""

from typing import NamedTuple

import numpy as np


class Gaps(NamedTuple):
    """Which form each row has, and what rows miss that share none.

    Attributes
    ----------
    form_of_row : ndarray of shape (n,), int64
        The row's form, -1 if it has to be made for this row alone.
    missing_start, missing : ndarrays, int64
        Row i misses the positions ``missing[missing_start[i]:missing_start[i + 1]]``, sorted; not
        filled in if all rows share a form.
    """

    form_of_row: np.ndarray
    missing_start: np.ndarray
    missing: np.ndarray
