"""The order in which columns stand inside the library: those with one pattern of gaps together.

Columns that take no part in a fit have no place in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Order and groups of the columns.

    Attributes
    ----------
    column_order : ndarray of shape (D,)
        Position j holds column ``column_order[j]`` of the user's; D of them take part.
    group_start : ndarray of shape (G + 1,)
        Column group g occupies the positions ``group_start[g]`` to ``group_start[g + 1]``.
    n_columns : int
        Columns of the user's, with those that take no part.
    """

    column_order: IntArray
    group_start: IntArray
    n_columns: int

    @classmethod
    def of_groups(
        cls, column_group: IntArray, taking_part: npt.NDArray[np.bool_] | None = None
    ) -> Self:
        """Columns with one group's number side by side; of all columns or of those taking part."""
        order = np.argsort(column_group, kind="stable").astype(np.int64)
        if taking_part is not None:
            order = order[taking_part[order]]
        group = column_group[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1)) if group.size else np.zeros(1)
        return cls(order, np.append(starts, group.size).astype(np.int64), int(column_group.size))

    @property
    def n_features(self) -> int:
        """D, the number of columns that take part."""
        return int(self.column_order.size)

    @property
    def n_groups(self) -> int:
        """G, the number of column groups."""
        return int(self.group_start.size) - 1

    @cached_property
    def group_of_position(self) -> IntArray:
        """The group of each position."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.group_start))

    @cached_property
    def position_of_column(self) -> IntArray:
        """Where each of the user's columns stands; -1 for those that take no part."""
        place = np.full(self.n_columns, -1, dtype=np.int64)
        place[self.column_order] = np.arange(self.n_features)
        return place

    def arrange(self, by_column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Bring an array (..., D) from the user's column order into layout order."""
        return np.ascontiguousarray(by_column[..., self.column_order])

    def restore(self, by_position: npt.NDArray[Any], fill: Any = 0.0) -> npt.NDArray[Any]:
        """Bring an array (..., D) from layout order back into the user's column order.

        Columns that take no part have ``fill`` there: a number, or one for each of the user's.
        """
        shape = (*by_position.shape[:-1], self.n_columns)
        by_column = np.empty(shape, dtype=by_position.dtype)
        if self.n_features < self.n_columns:
            by_column[...] = fill
        by_column[..., self.column_order] = by_position
        return by_column
