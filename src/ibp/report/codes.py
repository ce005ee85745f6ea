"""What the codes of a model are: yes or no, probabilities, weights, or amounts of any size."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ibp.registry import card_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Weights that spread less about 1 are, in words, none.
LEAST_SPREAD = 0.05
# Weights are worth a try if they gain so many nats, and this part of what features gain.
LEAST_GAIN, LEAST_PART = 100.0, 0.02
# Of the weights of a feature that most rows have about as much of.
FIRST_RANGE, FINE_BINS, MOST_BINS = 2.0, 64, 16


def code_kind(model: Any) -> Literal["binary", "probability", "weighted", "real"]:
    """What a code is: of "weighted" ones 0 says that a row lacks a feature, of "real" ones none."""
    if not model.real_codes:
        return card_of(model).codes
    return "weighted" if hasattr(model, "weight_std_") else "real"


def is_on(model: Any, codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether a code says that its feature is there."""
    return np.asarray(codes > (0.0 if model.real_codes else 0.5))


def features_per_row(model: Any, codes: npt.NDArray[Any]) -> float | None:
    """How many features a row has on average; None where it has some of nearly all."""
    if code_kind(model) == "real":
        return None
    return float(is_on(model, codes).sum(axis=1).mean())


def weight_spreads(model: Any) -> FloatArray | None:
    """How far the weights of each feature spread about 1; None if codes are not weighted."""
    return np.asarray(model.weight_std_) if code_kind(model) == "weighted" else None


def about_codes(model: Any) -> dict[str, Any]:
    """What the codes of a model are, for machines."""
    spreads = weight_spreads(model)
    return {
        "codes": code_kind(model),
        "weight_std": None if spreads is None else spreads.tolist(),
    }


def worthwhile_gain(model: Any, gain: float | None) -> float | None:
    """What weights would gain, if it is much beside what the features gain; else None."""
    if gain is None or code_kind(model) != "binary" or model.baseline_evidence_ is None:
        return None
    features = model.evidence_ - model.baseline_evidence_
    return gain if gain > max(LEAST_GAIN, LEAST_PART * features) else None


def vary(spreads: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether rows have more or less of a feature, and do not only have or lack it."""
    return np.asarray(spreads) >= LEAST_SPREAD


class WeightCounts:
    """Histograms of weights that come block by block, one for each of K features.

    Bins start at 0. When a weight is beyond the last one, neighbours become one bin, so that their
    number stays the same and all rows count whatever the order in which they come.
    """

    def __init__(self, n_components: int) -> None:
        self._counts = np.zeros((n_components, FINE_BINS), dtype=np.int64)
        self._range = np.full(n_components, FIRST_RANGE)

    def add(self, codes: FloatArray) -> None:
        """Count some rows; a row lacks what it has nothing of."""
        for k, weights in enumerate(codes.T):
            weights = weights[weights > 0]
            while weights.max(initial=0.0) >= self._range[k]:
                pairs = self._counts[k].reshape(-1, 2).sum(axis=1)
                self._counts[k] = np.concatenate([pairs, np.zeros_like(pairs)])
                self._range[k] *= 2.0
            bins = (weights * (FINE_BINS / self._range[k])).astype(np.int64)
            self._counts[k] += np.bincount(bins, minlength=FINE_BINS)

    def histogram(self, feature: int) -> tuple[IntArray, float]:
        """Counts up to the last bin that has any, few enough to be drawn, and how wide bins are."""
        counts, width = self._counts[feature], self._range[feature] / FINE_BINS
        used = int(np.max(np.flatnonzero(counts), initial=0)) + 1
        group = -(-used // MOST_BINS)
        padded = np.pad(counts[:used], (0, -used % group))
        return padded.reshape(-1, group).sum(axis=1), width * group


def share_proven(model: Any) -> float | None:
    """Share of the rows whose code the fit proved to be the best; None if it did not try."""
    shares = model.history_.get("proven", ())
    searched = model.get_params().get("optimizer") == "exact"
    searched = searched and code_kind(model) == "binary"  # weights have a search of their own
    return float(shares[-1]) if searched and len(shares) else None
