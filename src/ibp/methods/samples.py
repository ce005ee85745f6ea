"""What a sampler keeps of its chain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
# What a sample has one number of.
NUMBERS = ("alpha", "noise_std", "factor_std", "log_joint")


@dataclass(frozen=True)
class Sample:
    """One state of a chain, columns in the user's order.

    Attributes
    ----------
    assignments : ndarray of shape (N, K), uint8
        Z, without empty columns.
    components, components_std : ndarrays of shape (K, D)
        The factors as sampled, with no spread, or their mean and spread where a sampler has
        integrated them out.
    intercept : ndarray of shape (D,)
        The offset of each column, sampled or expected likewise.
    alpha, noise_std, factor_std : float
        Hyperparameters.
    log_joint : float
        The log of the joint probability, up to nothing: see the sampler.
    """

    assignments: npt.NDArray[np.uint8]
    components: FloatArray
    components_std: FloatArray
    intercept: FloatArray
    alpha: float
    noise_std: float
    factor_std: float
    log_joint: float


@dataclass
class Chain:
    """The samples that are kept: every so many sweeps after the burn-in."""

    n_sweeps: int = 0  # sweeps so far
    kept_sweeps: list[int] = field(default_factory=list)  # their numbers, from 1
    samples: list[Sample] = field(default_factory=list)  # where these sweeps led, in order

    def record(self, sample: Callable[[], Sample], burn_in: int | float, thin: int) -> None:
        """Count a sweep, and keep what it led to if it is due.

        Every ``thin``-th sweep is kept, but none of the first ``burn_in`` or, if that is below one,
        of the first such part of those made so far.
        """
        self.n_sweeps += 1
        n_burned = burned_sweeps(burn_in, self.n_sweeps)
        if self.n_sweeps > n_burned and self.n_sweeps % thin == 0:
            self.kept_sweeps.append(self.n_sweeps)
            self.samples.append(sample())
        n_outdated = bisect_right(self.kept_sweeps, n_burned)
        del self.kept_sweeps[:n_outdated], self.samples[:n_outdated]


def burned_sweeps(burn_in: int | float, n_sweeps: int) -> int:
    """How many of the first sweeps do not count."""
    return int(burn_in * n_sweeps) if burn_in < 1 else int(burn_in)


@dataclass(frozen=True)
class PosteriorSamples(Sequence[Sample]):
    """Kept samples as plain arrays, side by side along K, because each has a K of its own.

    Attributes
    ----------
    n_components : ndarray of shape (S,)
        K of each sample; the features of sample s follow those of sample s - 1.
    assignments : ndarray of shape (N, sum of K), uint8
        Z of all samples.
    feature_counts : ndarray of shape (sum of K,)
        How many rows have each feature.
    components, components_std : ndarrays of shape (sum of K, D)
        Factors of all samples.
    intercept : ndarray of shape (S, D)
        Offsets.
    alpha, noise_std, factor_std, log_joint : ndarrays of shape (S,)
        One number per sample.
    """

    n_components: npt.NDArray[np.int64]
    assignments: npt.NDArray[np.uint8]
    feature_counts: npt.NDArray[np.int64]
    components: FloatArray
    components_std: FloatArray
    intercept: FloatArray
    alpha: FloatArray
    noise_std: FloatArray
    factor_std: FloatArray
    log_joint: FloatArray

    @classmethod
    def of(cls, kept: Sequence[Sample]) -> PosteriorSamples:
        """Join one or more samples."""
        assignments = np.concatenate([sample.assignments for sample in kept], axis=1)
        return cls(
            np.array([sample.assignments.shape[1] for sample in kept], dtype=np.int64),
            assignments,
            np.count_nonzero(assignments, axis=0).astype(np.int64),
            np.concatenate([sample.components for sample in kept]),
            np.concatenate([sample.components_std for sample in kept]),
            np.stack([sample.intercept for sample in kept]),
            **{name: np.array([getattr(sample, name) for sample in kept]) for name in NUMBERS},
        )

    @property
    def best(self) -> Sample:
        """The sample of highest joint probability."""
        return self[int(np.argmax(self.log_joint))]

    def __len__(self) -> int:
        return int(self.n_components.size)

    def __getitem__(self, index: int) -> Sample:  # type: ignore[override]
        s = range(len(self))[index]
        first = int(self.n_components[:s].sum())
        own = slice(first, first + int(self.n_components[s]))
        return Sample(
            self.assignments[:, own],
            self.components[own],
            self.components_std[own],
            self.intercept[s],
            **{name: float(getattr(self, name)[s]) for name in NUMBERS},
        )

    def __iter__(self) -> Iterator[Sample]:
        return (self[s] for s in range(len(self)))
