"""What the rows of one q(A) have in common: quadratic forms, constants and their preparations.

Rows that miss the same columns share a form. Form 0 is that of complete rows; other patterns that
enough rows have get a form of their own when a block first needs it; rows of rarer patterns have
theirs made on the spot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.cancellation import LEAST_LEFT
from ibp.kernels.gaps import Gaps as RowGaps
from ibp.kernels.records import Forms, Gaps
from ibp.submodular.certificate import needed_margin
from ibp.submodular.exact import prepare
from ibp.submodular.records import Preparation

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
        mean: FloatArray,
        variance: FloatArray,
        offset: FloatArray,
        noise_precision: float,
    ) -> None:
        k = mean.shape[0]
        self.observations = observations
        self.patterns = observations.shared_patterns
        n_forms = self.patterns.n_forms
        self.noise_precision = noise_precision
        self.components = observations.layout.restore(mean).astype(observations.dtype)
        self.mean = mean
        self.constant_terms = mean * (observations.remaining_centre + offset) + 0.5 * variance
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
    prepared : Preparation
        For the exact search, stacked by form.
    """

    def __init__(
        self,
        observations: Observations,
        mean: FloatArray,
        variance: FloatArray,
        offset: FloatArray,
        noise_precision: float,
    ) -> None:
        n_forms, k = observations.shared_patterns.n_forms, mean.shape[0]
        self.needed = np.empty((n_forms, k))
        self.prepared = space_for_forms(n_forms, k)
        super().__init__(observations, mean, variance, offset, noise_precision)

    def make(self, form: int) -> None:
        """Fill in a form, and what its search needs."""
        super().make(form)
        self.needed[form] = needed_margin(self.quadratic[form])
        prepare(self.quadratic[form], Preparation(*(array[form] for array in self.prepared)))

    def record(self) -> Forms:
        """The forms for the kernels."""
        return Forms(
            self.noise_precision, self.quadratic, self.constant, self.needed, self.prepared
        )

    def gaps(self, rows: Any, form_of_row: IntArray) -> Gaps | None:
        """What rows miss whose form is their own; None if nothing is missing in any row of X."""
        if self.observations.complete:
            return None
        return Gaps(*own_missing(self.observations, rows, form_of_row), *self.by_column)

    def one_each(self, rows: IntArray) -> tuple[IntArray, FloatArray, FloatArray, Preparation]:
        """Forms, W, constants and preparations for a few rows; here none is left without a form."""
        forms = self.for_rows(rows)
        own = np.flatnonzero(forms < 0)
        if own.size == 0:
            return forms, self.quadratic, self.constant, self.prepared
        k = self.mean.shape[0]
        n_shared = self.patterns.n_forms
        forms[own] = n_shared + np.arange(own.size)
        quadratic = np.concatenate([self.quadratic, np.empty((own.size, k, k))])
        constant = np.concatenate([self.constant, np.empty((own.size, k))])
        both = zip(self.prepared, space_for_forms(own.size, k), strict=True)
        prepared = Preparation(*(np.concatenate([shared, space]) for shared, space in both))
        row, position = self.observations.missing_entries(rows[own])
        for i in range(own.size):
            form = n_shared + i
            quadratic[form], constant[form] = self.without(position[row == i])
            prepare(quadratic[form], Preparation(*(array[form] for array in prepared)))
        return forms, quadratic, constant, prepared


def space_for_forms(n_forms: int, k: int) -> Preparation:
    """Room for the exact search's preparations of several forms."""
    return Preparation(
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


def gaps_of(observations: Observations, rows: Any) -> RowGaps:
    """The shared forms of some rows, and what those miss that have none."""
    forms = observations.shared_patterns.forms_of(observations.row_pattern[rows])
    return RowGaps(forms, *own_missing(observations, rows, forms))
