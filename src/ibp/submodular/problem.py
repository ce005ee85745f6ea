"""The set function that every optimiser of this package maximises.

    F(z) = w'z - z'Wz / 2 + sum over groups g of h_g(number chosen in g),    z in {0, 1}^K

with W >= 0 elementwise and positive semidefinite, disjoint groups and every h_g concave. The
first condition and concavity make F submodular; the second makes the quadratic part a binary
least-squares problem, which is what the exact optimiser needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
NO_GROUP = -1


@dataclass(frozen=True)
class Problem:
    """A quadratic submodular function with concave group terms.

    Parameters
    ----------
    linear : ndarray of shape (K,)
        w, the weight of each element.
    quadratic : ndarray of shape (K, K)
        W, symmetric, nonnegative and positive semidefinite.
    group : ndarray of shape (K,), optional
        The group that each element belongs to; -1 where it belongs to none.
    group_values : ndarray of shape (G, C + 1), optional
        ``group_values[g, t]`` is h_g(t), the value of choosing t elements of group g. Row g is
        read up to the size of the group.
    """

    linear: FloatArray
    quadratic: FloatArray
    group: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    group_values: FloatArray = field(default_factory=lambda: np.empty((0, 1)))

    def __post_init__(self) -> None:
        for name in ("linear", "quadratic", "group_values"):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, array)
        n = self.linear.shape[0]
        group = np.asarray(self.group, dtype=np.int64)
        if group.size == 0:
            group = np.full(n, NO_GROUP, dtype=np.int64)
        object.__setattr__(self, "group", np.ascontiguousarray(group))
        self._check()

    def _check(self) -> None:
        if self.linear.ndim != 1:
            raise ValueError(f"linear must be a vector; its shape is {self.linear.shape}")
        n = self.linear.shape[0]
        if self.quadratic.shape != (n, n):
            raise ValueError(
                f"quadratic must have shape {(n, n)} to match linear; it is {self.quadratic.shape}"
            )
        if not (np.isfinite(self.linear).all() and np.isfinite(self.quadratic).all()):
            raise ValueError("linear and quadratic must be finite")
        if self.group.shape != (n,):
            raise ValueError(f"group must have shape {(n,)}; it is {self.group.shape}")
        scale = max(float(np.abs(self.quadratic).max(initial=0.0)), 1e-300)
        if np.abs(self.quadratic - self.quadratic.T).max(initial=0.0) > 1e-10 * scale:
            raise ValueError("quadratic must be symmetric")
        if (self.quadratic < 0).any():
            raise ValueError("quadratic has a negative entry: the function is not submodular")
        if n and float(np.linalg.eigvalsh(self.quadratic)[0]) < -1e-10 * scale * n:
            raise ValueError("quadratic must be positive semidefinite")
        if self.group_values.ndim != 2:
            raise ValueError(
                f"group_values must be a matrix; its shape is {self.group_values.shape}"
            )
        if self.group.size and (
            self.group.min() < NO_GROUP or self.group.max() >= self.group_values.shape[0]
        ):
            raise ValueError(
                "group holds an index that is neither -1 nor a row of group_values, "
                f"which has {self.group_values.shape[0]} rows"
            )
        for g, size in enumerate(self.group_sizes()):
            if size + 1 > self.group_values.shape[1]:
                raise ValueError(f"group {g} has {size} elements but values for fewer counts")
            values = self.group_values[g, : size + 1]
            if not np.isfinite(values).all():
                raise ValueError(f"the values of group {g} must be finite")
            slack = 1e-10 * max(float(np.abs(values).max()), 1.0)
            if (np.diff(values, 2) > slack).any():
                raise ValueError(f"the values of group {g} are not concave")

    @property
    def n_elements(self) -> int:
        """K, the size of the ground set."""
        return int(self.linear.shape[0])

    def group_sizes(self) -> npt.NDArray[np.int64]:
        """Number of elements of each group."""
        return np.bincount(
            self.group[self.group >= 0], minlength=self.group_values.shape[0]
        ).astype(np.int64)

    def value(self, chosen: npt.ArrayLike) -> float:
        """F at a set, straight from the definition."""
        z = np.asarray(chosen, dtype=np.float64)
        counts = np.bincount(
            self.group[self.group >= 0],
            weights=z[self.group >= 0],
            minlength=self.group_values.shape[0],
        ).astype(int)
        total = float(self.linear @ z - 0.5 * z @ self.quadratic @ z)
        return total + float(sum(self.group_values[g, t] for g, t in enumerate(counts)))


@dataclass(frozen=True)
class Solution:
    """What an optimiser returns.

    Attributes
    ----------
    chosen : ndarray of shape (K,), bool
        The set found.
    value : float
        F at that set.
    n_updates : int
        How many O(1) evaluations of a marginal gain (or, for the exact search, of a node) it took.
    proven : bool
        Whether the set is known to be a maximiser.
    """

    chosen: npt.NDArray[np.bool_]
    value: float
    n_updates: int
    proven: bool
