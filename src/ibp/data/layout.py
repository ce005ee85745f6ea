"""The order in which columns stand inside the library: those with one pattern of gaps together."""

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
        Position j holds column ``column_order[j]`` of the user's.
    group_start : ndarray of shape (G + 1,)
        Column group g occupies the positions ``group_start[g]`` to ``group_start[g + 1]``.
    """

    column_order: IntArray
    group_start: IntArray

    @classmethod
    def of_groups(cls, column_group: IntArray) -> Self:
        """Columns with one group's number side by side."""
        group_size = np.bincount(column_group, minlength=1)
        return cls(
            np.argsort(column_group, kind="stable").astype(np.int64),
            np.concatenate([[0], np.cumsum(group_size)]).astype(np.int64),
        )

    @property
    def n_features(self) -> int:
        """D."""
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
        """Where each of the user's columns stands."""
        place = np.empty_like(self.column_order)
        place[self.column_order] = np.arange(place.size)
        return place

    def arrange(self, by_column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Bring an array (..., D) from the user's column order into layout order."""
        return np.ascontiguousarray(by_column[..., self.column_order])

    def restore(self, by_position: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Bring an array (..., D) from layout order back into the user's column order."""
        by_column = np.empty_like(by_position)
        by_column[..., self.column_order] = by_position
        return by_column
