"""How sure the assignments are, and which features came back in other restarts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from ibp.agreement import CAME_BACK, IN_PART
from ibp.report.measuring import is_on
from ibp.report.reading import DataReader, FloatArray, IntArray
from ibp.report.sampling import sample_rows

MOST_ROWS = 5000
# Below this many nats a bit is nearly a toss-up: at best 73 % sure.
TOSS_UP = 1.0
EDGES = np.array([TOSS_UP, 3.0, 5.0, 10.0])
# Lists of codes leave out what is less probable than about this.
LEAST_DOUBT = 1e-6


@dataclass(frozen=True)
class Certainty:
    """How sure bits are, from some of the rows."""

    n_rows: int
    shares: FloatArray  # of the bits below 1 nat, between the `EDGES`, and above the last
    mean_probability: float  # that a bit is right, whatever the others are
    feature_probability: FloatArray  # the same of each feature
    feature_on_probability: FloatArray  # and only in rows that have it; NaN if none has
    feature_toss_ups: FloatArray  # share of each feature's bits that are nearly a toss-up
    # Share of the bits for which a fresh search of each row settles otherwise than the fit itself;
    # None if these are not the rows that it was fitted to, or it did not keep what it found.
    differing: float | None

    @property
    def toss_ups(self) -> float:
        """Share of all bits that are nearly a toss-up."""
        return float(self.shares[0])


def certainty_of(reader: DataReader, random_state: int) -> Certainty | None:
    """Ask a binary model how sure it is; None where there is nothing to ask."""
    model = reader.model
    if model.real_codes or model.n_components_ == 0:
        return None
    rows = sample_rows(reader.n_rows, MOST_ROWS, random_state)
    matrix = reader.matrix(rows)
    on, differing = is_on(model, reader.codes(rows, matrix)), None
    on_probability = reader.probabilities(matrix)
    probability = np.where(on, on_probability, 1.0 - on_probability)
    nats = logit(np.clip(probability, LEAST_DOUBT, 1.0 - LEAST_DOUBT))
    bins = np.bincount(np.searchsorted(EDGES, nats.ravel(), side="right"), minlength=5)
    if reader.training_codes is not None:
        differing = float((is_on(model, reader.new_codes(matrix)) != on).mean())
    n_on = on.sum(axis=0)
    on_sums = np.where(on, probability, 0.0).sum(axis=0)
    return Certainty(
        nats.shape[0],
        bins / nats.size,
        float(probability.mean()),
        probability.mean(axis=0),
        np.where(n_on > 0, on_sums / np.maximum(n_on, 1), np.nan),
        (nats < TOSS_UP).mean(axis=0),
        differing,
    )


@dataclass(frozen=True)
class RestartAgreement:
    """What the restarts of a fit found, and how far they agree."""

    evidence: FloatArray  # of each restart
    n_components: IntArray
    kept: int  # the one that the model is
    # Cosine similarity of each feature with its match in every other restart, a row each.
    similarity: FloatArray

    @property
    def n_restarts(self) -> int:
        """How many there were, with the one that was kept."""
        return int(self.evidence.size)

    @property
    def others(self) -> IntArray:
        """Numbers of the restarts that were not kept."""
        return np.delete(np.arange(self.n_restarts), self.kept)

    @property
    def agreement(self) -> FloatArray | None:
        """Average similarity of each feature; None if the fit was not repeated."""
        return self.similarity.mean(axis=0) if self.n_restarts > 1 else None

    @property
    def came_back(self) -> IntArray:
        """In how many other restarts each feature came back."""
        return np.asarray((self.similarity >= CAME_BACK).sum(axis=0))

    @property
    def came_back_partly(self) -> IntArray:
        """In how many others something like it did."""
        partly = (self.similarity >= IN_PART) & (self.similarity < CAME_BACK)
        return np.asarray(partly.sum(axis=0))


def restarts_of(model: Any) -> RestartAgreement:
    """What a fitted model remembers of its restarts."""
    kept = int(model.restart_kept_)
    return RestartAgreement(
        np.asarray(model.restart_evidence_, dtype=np.float64),
        np.asarray(model.restart_n_components_, dtype=np.int64),
        kept,
        np.delete(np.asarray(model.restart_similarity_, dtype=np.float64), kept, axis=0),
    )
