"""How sure the assignments are, and whether the number of features is the fit's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from ibp.estimators.fitting import WORTH_ANOTHER
from ibp.registry import card_of
from ibp.report.codes import is_on
from ibp.report.reading import DataReader, FloatArray
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
    """Ask a model how sure it is of who has what; None where there is nothing to ask."""
    model = reader.model
    if not hasattr(model, "probabilities") or model.n_components_ == 0:
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
class Limit:
    """The limit of a fit that has as many features as it may."""

    n_components: int
    gain: float | None  # what one more feature would still have gained, in nats, if it is known
    can_be_left_out: bool  # whether the method finds a number without one

    @property
    def binds(self) -> bool:
        """Whether more features may be better: unless it is known that the next gains little."""
        return self.gain is None or self.gain > WORTH_ANOTHER


def limit_of(model: Any, label: str | None = None) -> Limit | None:
    """The limit that a fitted model is at; None if it has fewer features, or there is no limit.

    ``label`` is that of the method on the command line, some of which need a number.
    """
    if model.n_components is None or model.n_components_ < model.n_components:
        return None
    gain = getattr(model, "limit_gain_", None)
    preset = card_of(model).labels.get(label or "")
    return Limit(
        int(model.n_components),
        float(gain) if gain is not None and np.isfinite(gain) else None,
        None in model._parameter_constraints["n_components"]
        and (preset is None or preset.n_components != "needed"),
    )
