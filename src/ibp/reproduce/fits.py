"""A fit of a study: timed with one thread, scored on the way with the clock stopped."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from ibp.comparison import STD_FRACTION, ComparedFit, fit_scored, warm_up
from ibp.evaluate import HeldOut
from ibp.loop import Progress
from ibp.reproduce.protocols import estimator, offset_of
from ibp.reproduce.running import CUT, SPAN
from ibp.reproduce.study import Cell, Outcome
from ibp.reproduce.tables import number, settings_text

# A sweep that takes long is broken off when the limit has passed so many times, scoring included.
PATIENCE = 2.0
_warm: set[tuple[Any, ...]] = set()


@dataclass(frozen=True)
class Task:
    """Data with hidden entries, and the noise level at which all predictions of them are scored.

    Attributes
    ----------
    held_out : HeldOut
        The data.
    noise_std : float
        The paper's 0.75 standard deviations of what fits see.
    about : mapping
        What the data are, for the settings of a row.
    """

    held_out: HeldOut
    noise_std: float
    about: Mapping[str, Any]

    @classmethod
    def of(cls, held_out: HeldOut, **about: Any) -> Task:
        """Data, described by name and size."""
        seen = held_out.data[~held_out.hidden]
        n_samples, n_features = held_out.data.shape
        noise_std = STD_FRACTION * float(np.nanstd(seen, dtype=np.float64))
        return cls(held_out, noise_std, about | {"N": n_samples, "D": n_features})

    def shifted(self, offset: Any) -> HeldOut:
        """The data plus an offset."""
        data = self.held_out.data
        if np.ndim(offset) == 0 and offset == 0:
            return self.held_out
        return HeldOut(data + np.asarray(offset, dtype=data.dtype), self.held_out.hidden)


@dataclass(frozen=True)
class Fit:
    """What is to be fitted.

    Attributes
    ----------
    protocol, label : str
        One of the two, and a label of `ibp.METHODS`.
    n_components : int or None
        Features, or their limit.
    seed : int
        Of the start.
    time_limit : float
        Seconds, scoring not counted.
    span : bool
        Whether to run until then, whatever rules of convergence say.
    changes : mapping
        Of the settings.
    shift : bool
        Whether data get the offset of the protocol.
    condition : str or None
        What is unlike the protocol, for the settings of a row.
    remarks : mapping
        Further settings to be told in a row.
    """

    protocol: str
    label: str
    n_components: int | None
    seed: int
    time_limit: float
    span: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    shift: bool = True
    condition: str | None = None
    remarks: Mapping[str, Any] = field(default_factory=dict)


def run_fit(fit: Fit, task: Task, *, own: bool = True) -> Outcome:
    """Fit and score; the row of the run and those of its curve."""
    changes = dict(fit.changes) | ({"tol": 0.0} if fit.span else {})
    model = estimator(
        fit.protocol, fit.label, fit.n_components, random_state=fit.seed, **changes
    ).set_params(time_limit=PATIENCE * fit.time_limit)
    offset = offset_of(fit.protocol, model, task.held_out.training) if fit.shift else 0.0
    held_out = task.shifted(offset)
    key = (fit.protocol, fit.label, held_out.data.dtype.str, fit.condition)
    if key not in _warm:
        warm_up(clone(model).set_params(time_limit=None), held_out)
        _warm.add(key)
    points: list[dict[str, Any]] = []

    def told(progress: Progress, seconds: float, score: float | None) -> bool:
        if score is not None:
            points.append(
                {
                    "seconds": seconds,
                    "iterations": progress.iteration,
                    "n_components": progress.n_components,
                    "train_log_likelihood": progress.train_log_likelihood,
                    "test_log_likelihood": score,
                }
            )
        return seconds >= fit.time_limit

    record = fit_scored(
        model, held_out, task.noise_std, ComparedFit(fit.label, fit.seed), told=told
    )
    history = model.history_["train_log_likelihood"]
    train = float(history[-1]) if len(history) else None
    last = {
        "seconds": record.seconds[-1],
        "iterations": record.n_iter,
        "n_components": record.n_components,
        "train_log_likelihood": train,
        "test_log_likelihood": record.log_likelihood[-1],
    }
    if not points or points[-1]["iterations"] < record.n_iter:
        points.append(last)
    common = {
        "protocol": fit.protocol,
        "method": fit.label,
        "settings": settings_text(
            **task.about, K=fit.n_components, condition=fit.condition, **fit.remarks
        ),
        "seed": fit.seed,
    }
    run = {
        **common,
        **last,
        "own_log_likelihood": _own_score(held_out, model) if own else None,
        "ending": _ending(record.ending, fit),
        "time_limit": fit.time_limit,
        "noise_std": task.noise_std,
        "n_hidden": held_out.n_hidden,
    }
    return Outcome([run], [{**common, **point} for point in points])


def begun_earlier(outcome: Outcome, seconds: float, time_limit: float) -> Outcome:
    """The same, where other fits took some of the time before."""
    return Outcome(
        [
            {**row, "seconds": number(row, "seconds") + seconds, "time_limit": time_limit}
            for row in outcome.runs
        ],
        [{**row, "seconds": number(row, "seconds") + seconds} for row in outcome.points],
    )


def _own_score(held_out: HeldOut, model: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return held_out.own_score(model)


def _ending(ending: str, fit: Fit) -> str:
    """Who ended the fit: itself, its limit, or the end of the span."""
    if ending in ("callback", "time_limit"):
        return SPAN if fit.span else CUT
    return ending


def fit_cell(fit: Fit, **more: Any) -> Cell:
    """The cell of a fit, from one seed."""
    k = "unbounded" if fit.n_components is None else f"K={fit.n_components}"
    name = ", ".join(filter(None, (fit.protocol, fit.label, k, fit.condition)))
    parameters = {
        "protocol": fit.protocol,
        "label": fit.label,
        "n_components": fit.n_components,
        "time_limit": fit.time_limit,
        "span": fit.span,
        "condition": fit.condition,
        **more,
    }
    return Cell(name, parameters, seconds=fit.time_limit * (1.1 if fit.span else 0.6))
