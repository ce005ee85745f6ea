"""What the rows of one q(A) have in common: quadratic forms, constants and their preparations.

Rows that miss the same columns share a form. Form 0 is that of complete rows; other patterns that
enough rows have get a form of their own when a block first needs it; rows of rarer patterns have
theirs made on the spot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.data.summary import COMPLETE
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.submodular.certificate import needed_margin
from ibp.submodular.exact import prepare

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Patterns are worth a form of their own from these many rows; at most so many forms are kept.
ROWS_FOR_A_FORM = 8
MOST_FORMS = 64


@dataclass(frozen=True)
class SharedPatterns:
    """The patterns of missing entries that have a form, fixed for a data matrix.

    Attributes
    ----------
    form_of_pattern : ndarray
        Number of each pattern's form, -1 if it has none.
    missing : list of ndarray
        The layout positions that each form misses; none for form 0.
    """

    form_of_pattern: IntArray
    missing: list[IntArray]

    @classmethod
    def of(cls, observations: Observations) -> SharedPatterns:
        """The most common patterns."""
        n_patterns = observations.summary.n_patterns
        form_of_pattern = np.full(n_patterns, -1, dtype=np.int64)
        form_of_pattern[COMPLETE] = 0
        missing = [np.empty(0, dtype=np.int64)]
        if n_patterns > 1:
            pattern = observations.row_pattern
            n_rows = np.bincount(pattern[pattern >= 0], minlength=n_patterns)
            n_rows[COMPLETE] = 0
            common = np.argsort(-n_rows, kind="stable")[: MOST_FORMS - 1]
            for number in common[n_rows[common] >= ROWS_FOR_A_FORM]:
                form_of_pattern[number] = len(missing)
                row = int(np.argmax(pattern == number))
                missing.append(observations.missing_entries(slice(row, row + 1))[1])
        return cls(form_of_pattern, missing)

    def forms_of(self, pattern: npt.NDArray[np.int32]) -> IntArray:
        """The forms of rows by their patterns, -1 for a row's own."""
        return np.where(pattern >= 0, self.form_of_pattern[pattern], -1)


class RowForms:
    """The forms of one q(A), given by its moments, and of an intercept ``offset`` from the centre.

    Attributes
    ----------
    components : ndarray of shape (K, D)
        E[A] in the user's column order and X's precision, to multiply X by.
    quadratic, constant : ndarrays of shapes (F, K, K), (F, K)
        W of the row objective, and what X E[A]' loses to intercept and variances.
    by_column : tuple of two ndarrays of shape (D, K)
        E[A] and the constant's terms by layout position, for rows without a shared form.
    """

    def __init__(
        self,
        observations: Observations,
        patterns: SharedPatterns,
        mean: FloatArray,
        variance: FloatArray,
        offset: FloatArray,
        noise_precision: float,
    ) -> None:
        k = mean.shape[0]
        n_forms = len(patterns.missing)
        self.observations = observations
        self.patterns = patterns
        self.noise_precision = noise_precision
        self.components = observations.from_layout(mean).astype(observations.dtype)
        self.mean = mean
        self.constant_terms = mean * (observations.left_in + offset) + 0.5 * variance
        self.quadratic = np.empty((n_forms, k, k))
        self.constant = np.empty((n_forms, k))
        self.made = np.zeros(n_forms, dtype=bool)
        self.by_column = (np.empty((0, k)), np.empty((0, k)))
        self.make(0)

    def make(self, form: int) -> None:
        """Fill in a form."""
        self.quadratic[form], self.constant[form] = self.without(self.patterns.missing[form])
        self.made[form] = True

    def without(self, missing: IntArray) -> tuple[FloatArray, FloatArray]:
        """W and the constant of rows that miss some positions."""
        n_features = self.mean.shape[1]
        take_away = 0 < 2 * missing.size <= n_features and self._enough_left(missing)
        columns: Any = missing
        if not take_away:
            columns = np.setdiff1d(np.arange(n_features), missing) if missing.size else slice(None)
        part = self.mean[:, columns]
        quadratic = self.noise_precision * (part @ part.T)
        constant = self.constant_terms[:, columns].sum(axis=1)
        if take_away:
            return self.quadratic[0] - quadratic, self.constant[0] - constant
        return quadratic, constant

    def _enough_left(self, missing: IntArray) -> bool:
        """Whether W of complete rows keeps its digits without some positions."""
        whole = np.diagonal(self.quadratic[0])
        lost = self.noise_precision * (self.mean[:, missing] ** 2).sum(axis=1)
        return bool((whole - lost >= LEAST_LEFT * whole).all())

    def for_rows(self, rows: Any) -> IntArray:
        """The forms of some rows, made if they were not yet; -1 for a row's own."""
        forms = self.patterns.forms_of(self.observations.row_pattern[rows])
        self.make_all(np.unique(forms))
        return forms

    def make_all(self, forms: IntArray) -> None:
        """Make those of the given forms that are still to be made; -1 stands for rows' own."""
        for form in forms:
            if form >= 0 and not self.made[form]:
                self.make(int(form))
        if (forms < 0).any() and not self.by_column[0].size:
            self.by_column = (
                np.ascontiguousarray(self.mean.T),
                np.ascontiguousarray(self.constant_terms.T),
            )


class SearchForms(RowForms):
    """Forms of rows that are searched for their best bits.

    Attributes
    ----------
    needed : ndarray of shape (F, K)
        The margins that prove an optimum.
    prepared : tuple of ndarrays
        For the exact search, stacked by form.
    """

    def __init__(
        self,
        observations: Observations,
        patterns: SharedPatterns,
        mean: FloatArray,
        variance: FloatArray,
        offset: FloatArray,
        noise_precision: float,
    ) -> None:
        n_forms, k = len(patterns.missing), mean.shape[0]
        self.needed = np.empty((n_forms, k))
        self.prepared = space_for_forms(n_forms, k)
        super().__init__(observations, patterns, mean, variance, offset, noise_precision)

    def make(self, form: int) -> None:
        """Fill in a form, and what its search needs."""
        super().make(form)
        self.needed[form] = needed_margin(self.quadratic[form])
        prepare(self.quadratic[form], tuple(array[form] for array in self.prepared))

    def one_each(self, rows: IntArray) -> tuple[IntArray, FloatArray, FloatArray, Any]:
        """Forms, W, constants and preparations for a few rows; here none is left without a form."""
        forms = self.for_rows(rows)
        own = np.flatnonzero(forms < 0)
        if own.size == 0:
            return forms, self.quadratic, self.constant, self.prepared
        k = self.mean.shape[0]
        n_shared = len(self.patterns.missing)
        forms[own] = n_shared + np.arange(own.size)
        quadratic = np.concatenate([self.quadratic, np.empty((own.size, k, k))])
        constant = np.concatenate([self.constant, np.empty((own.size, k))])
        prepared = tuple(
            np.concatenate([shared, space])
            for shared, space in zip(self.prepared, space_for_forms(own.size, k), strict=True)
        )
        row, position = self.observations.missing_entries(rows[own])
        for i in range(own.size):
            form = n_shared + i
            quadratic[form], constant[form] = self.without(position[row == i])
            prepare(quadratic[form], tuple(array[form] for array in prepared))
        return forms, quadratic, constant, prepared


def space_for_forms(n_forms: int, k: int) -> tuple[npt.NDArray[Any], ...]:
    """Room for the exact search's preparations of several forms."""
    return (
        np.empty((n_forms, 1)),
        np.empty((n_forms, k), dtype=np.int64),
        np.empty((n_forms, k, k)),
        np.empty((n_forms, k, k)),
        np.empty((n_forms, 2, k)),
    )


def own_missing(
    observations: Observations, rows: Any, forms: IntArray
) -> tuple[IntArray, IntArray]:
    """Starts and positions of what each row misses, if any row has no shared form."""
    if (forms >= 0).all():
        return np.zeros(forms.size + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
    row, position = observations.missing_entries(rows)
    return np.searchsorted(row, np.arange(forms.size + 1)).astype(np.int64), position
