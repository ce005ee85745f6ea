"""A row as a sum: offset and features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.plots.checks import row_of, values_of

FloatArray = npt.NDArray[np.float64]

NEGLIGIBLE = 0.005  # codes below this are not drawn on their own


@dataclass(frozen=True)
class Term:
    """What a feature, or several, add to a row."""

    label: str
    values: FloatArray
    several: bool = False


@dataclass(frozen=True)
class Decomposition:
    """A row as observed and as rebuilt, which is the offset plus all terms."""

    observed: FloatArray
    rebuilt: FloatArray
    offset: FloatArray
    terms: list[Term]

    @property
    def signed(self) -> bool:
        """Whether features take away as well as add."""
        return any((term.values < 0).any() for term in self.terms)


def decompose(model: Any, X: Any, row: int, most: int) -> Decomposition:
    """Split what the model makes of a row; the smallest of many features are one term."""
    one_row = row_of(X, row)
    codes = np.asarray(model.transform(one_row), dtype=np.float64)
    parts = codes[0][:, None] * model.components_
    by_size = np.argsort(-np.square(parts).sum(axis=1), kind="stable")
    ranked = [int(k) for k in by_size if codes[0, k] > NEGLIGIBLE]
    alone = ranked if len(ranked) <= most else ranked[: most - 1]
    terms = [Term(_label(k, codes[0, k]), parts[k]) for k in alone]
    n_others = len(ranked) - len(alone)
    if n_others:
        others = np.setdiff1d(np.arange(codes.shape[1]), alone)
        terms.append(Term(f"{n_others} others", parts[others].sum(axis=0), several=True))
    rebuilt = model.inverse_transform(codes)[0]
    return Decomposition(values_of(one_row), rebuilt, model.intercept_, terms)


def _label(k: int, code: float) -> str:
    """Number of a feature, and how much of it where that is not all."""
    return f"feature {k}" if abs(code - 1.0) < NEGLIGIBLE else f"{code:.2f} of {k}"
