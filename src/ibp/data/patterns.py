"""The patterns of missing entries that enough rows have, fixed for a data matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

# Patterns are worth a form of their own from these many rows; at most so many forms are kept.
ROWS_FOR_A_FORM = 8
MOST_FORMS = 64


@dataclass(frozen=True)
class SharedPatterns:
    """Which rows share what is computed for a pattern: a form, in what follows.

    Attributes
    ----------
    form_of_pattern : ndarray
        Number of each pattern's form, -1 if it has none.
    missing : list of ndarray
        The layout positions that each form misses; none for form 0.
    """

    form_of_pattern: IntArray
    missing: list[IntArray]

    @property
    def n_forms(self) -> int:
        """How many forms there are, that of complete rows included."""
        return len(self.missing)

    def forms_of(self, pattern: npt.NDArray[np.int32]) -> IntArray:
        """The forms of rows by their patterns, -1 for a row that shares none."""
        return np.where(pattern >= 0, self.form_of_pattern[pattern], -1)
