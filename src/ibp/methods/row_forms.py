"""What the rows of one q(A) have in common: quadratic forms, constants and their preparations.

Rows that miss the same columns share a form. Form 0 is that of complete rows; other patterns that
enough rows have get a form of their own when a block first needs it; rows of rarer patterns have
theirs made on the spot. `ibp.kernels.row_forms` says what a form is, and makes all but form 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.kernels.records import Searches
from ibp.kernels.row_forms import Columns, Form, Forms, Gaps, own_form
from ibp.submodular.certificate import needed_margin
from ibp.submodular.exact import prepare
from ibp.submodular.records import Preparation

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class RowForms:
    """The forms of one q(A), all in layout order.

    Parameters
    ----------
    observations : Observations
        The data.
    mean : ndarray of shape (K, D)
        E[A].
    noise_precision : float or ndarray of shape (D,)
        E[tau_X].
    variance : ndarray of shape (K, D) or None
        Variances of A, if the constant is to hold them.
    offset : ndarray of shape (D,) or None
        Mean of the intercept, from the centre.
    covariance : ndarray of shape (D, K, K) or None
        Covariances of A within each column, if the quadratic form is to hold them.

    Attributes
    ----------
    components : ndarray of shape (K, D)
        E[A] times the share that each column's noise precision has in the largest, in the user's
        units and column order and X's precision, to multiply X by.
    forms : Forms
        The quadratic forms and the constants, and the largest noise precision.
    columns : Columns or None
        What single columns contribute; None if nothing is missing.
    """

    def __init__(
        self,
        observations: Observations,
        mean: FloatArray,
        noise_precision: float | FloatArray,
        *,
        variance: FloatArray | None = None,
        offset: FloatArray | None = None,
        covariance: FloatArray | None = None,
    ) -> None:
        k, d = mean.shape
        self.observations = observations
        self.patterns = observations.shared_patterns
        self.covariance = covariance
        n_forms = self.patterns.n_forms
        # The one place where the noise goes into the forms of rows. Its largest precision is left
        # out of what X is multiplied by: it may be beyond single precision.
        weight = np.full(d, noise_precision, dtype=np.float64)
        scale = float(weight.max(initial=0.0)) or 1.0
        components = observations.per_unit(mean * (weight / scale))
        self.components = components.astype(observations.dtype, copy=False)
        terms = mean * (observations.remaining_centre + (0.0 if offset is None else offset))
        if variance is not None:
            terms += 0.5 * variance
        self.forms = Forms(scale, np.empty((n_forms, k, k)), np.empty((n_forms, k)))
        root = np.sqrt(weight) * mean
        self.forms.quadratic[0] = root @ root.T
        if covariance is not None:
            self.forms.quadratic[0] += np.einsum("d,dkj->kj", weight, covariance)
        self.forms.constant[0] = terms @ weight
        self.columns: Columns | None = None
        if not observations.complete:
            by_column = (np.ascontiguousarray(part.T) for part in (mean, weight * terms))
            self.columns = Columns(weight, *by_column)
        self.made = np.zeros(n_forms, dtype=bool)
        self.finish(0)

    def finish(self, form: int) -> None:
        """Do what there is to do for a form that has been filled in."""
        self.made[form] = True

    def fill_in(self, missing: IntArray, quadratic: FloatArray, constant: FloatArray) -> None:
        """Make the form of rows that miss some positions."""
        complete = Form(self.forms.quadratic[0], self.forms.constant[0])
        own_form(missing, self.columns, self.covariance, complete, Form(quadratic, constant))

    def for_rows(self, rows: Any) -> IntArray:
        """The forms of some rows, made if they were not yet; -1 for a row's own."""
        pattern = self.observations.row_pattern[rows]
        if self.observations.complete:
            return np.zeros(pattern.size, dtype=np.int64)
        form_of_row = self.patterns.forms_of(pattern)
        self.make(np.unique(form_of_row))
        return form_of_row

    def make_all(self) -> None:
        """Make all that rows may need, before pieces of work share it."""
        self.make(np.arange(self.made.size))

    def make(self, forms: IntArray) -> None:
        """Make those of the given forms that are still to be made; -1 stands for rows' own."""
        for form in forms[forms >= 0]:
            if not self.made[form]:
                missing = self.patterns.missing[form]
                self.fill_in(missing, self.forms.quadratic[form], self.forms.constant[form])
                self.finish(int(form))


class SearchForms(RowForms):
    """Forms of rows that are searched for their best bits.

    Attributes
    ----------
    searches : Searches
        Margins and preparations, stacked by form.
    """

    def __init__(
        self,
        observations: Observations,
        mean: FloatArray,
        noise_precision: float | FloatArray,
        *,
        variance: FloatArray,
        offset: FloatArray,
    ) -> None:
        n_forms, k = observations.shared_patterns.n_forms, mean.shape[0]
        self.searches = Searches(np.empty((n_forms, k)), space_for_preparations(n_forms, k))
        super().__init__(observations, mean, noise_precision, variance=variance, offset=offset)

    def finish(self, form: int) -> None:
        """Prepare the search."""
        quadratic = self.forms.quadratic[form]
        self.searches.needed[form] = needed_margin(quadratic)
        prepare(quadratic, Preparation(*(array[form] for array in self.searches.prepared)))
        super().finish(form)

    def one_each(self, rows: IntArray) -> tuple[IntArray, Forms, Preparation]:
        """Which forms a few rows have, the forms and preparations; none is left without a form."""
        form_of_row = self.for_rows(rows)
        own = np.flatnonzero(form_of_row < 0)
        forms, prepared = self.forms, self.searches.prepared
        if own.size == 0:
            return form_of_row, forms, prepared
        k, n_shared = self.components.shape[0], self.patterns.n_forms
        form_of_row[own] = n_shared + np.arange(own.size)
        more = Form(np.empty((own.size, k, k)), np.empty((own.size, k)))
        more_prepared = space_for_preparations(own.size, k)
        row, position = self.observations.missing_entries(rows[own])
        for i in range(own.size):
            self.fill_in(position[row == i], more.quadratic[i], more.constant[i])
            prepare(more.quadratic[i], Preparation(*(array[i] for array in more_prepared)))
        return (
            form_of_row,
            Forms(
                forms.scale,
                np.concatenate([forms.quadratic, more.quadratic]),
                np.concatenate([forms.constant, more.constant]),
            ),
            Preparation(
                *(np.concatenate(both) for both in zip(prepared, more_prepared, strict=True))
            ),
        )


def space_for_preparations(n_forms: int, k: int) -> Preparation:
    """Room for the exact search's preparations of several forms."""
    return Preparation(
        np.empty((n_forms, 1)),
        np.empty((n_forms, k), dtype=np.int64),
        np.empty((n_forms, k, k)),
        np.empty((n_forms, k, k)),
        np.empty((n_forms, k, k)),
        np.empty((n_forms, 2, k)),
    )


def gaps_of(observations: Observations, rows: Any) -> Gaps:
    """The shared forms of some rows, and what those miss that have none."""
    pattern = observations.row_pattern[rows]
    nothing, start = np.empty(0, dtype=np.int64), np.zeros(pattern.size + 1, dtype=np.int64)
    if observations.complete:
        return Gaps(start[1:], start, nothing)
    form_of_row = observations.shared_patterns.forms_of(pattern)
    if (form_of_row >= 0).all():
        return Gaps(form_of_row, start, nothing)
    row, position = observations.missing_entries(rows)
    start = np.searchsorted(row, np.arange(form_of_row.size + 1)).astype(np.int64)
    return Gaps(form_of_row, start, position)
