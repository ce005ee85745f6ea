"""A fit of a study: timed with one thread, scored on the way with the clock stopped."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ibp.clock import present_clock
from ibp.comparison import STD_FRACTION, ComparedFit, fit_scored, warm_up
from ibp.evaluate import HeldOut
from ibp.loop import Progress
from ibp.reproduce.protocols import estimator, fixed_stds, is_unbounded, offset_of
from ibp.reproduce.running import CUT, SPAN
from ibp.reproduce.study import Cell, Outcome
from ibp.reproduce.tables import Row, number, settings_text

# The part of the time that a method may take to find a start for another one.
FIRST_PART = 0.5
# Sweeps of a fit of few rows that leave next to nothing to be compiled: that would be on the clock.
WARM_UP_SWEEPS = 100
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

    @property
    def told_k(self) -> int | None:
        """K as it stands in rows: none where the method takes none."""
        return None if is_unbounded(self.label) else self.n_components

    def estimator(self, task: Task, **changes: Any) -> Any:
        """The estimator, not fitted yet, at the task's noise level if the protocol fixes one."""
        changes = fixed_stds(self.protocol, task.noise_std) | dict(self.changes) | changes
        return estimator(
            self.protocol, self.label, self.n_components, random_state=self.seed, **changes
        ).set_params(time_limit=self.time_limit)

    def data(self, task: Task, model: Any) -> HeldOut:
        """The data as the protocol has them for an estimator."""
        if not self.shift:
            return task.held_out
        return task.shifted(offset_of(self.protocol, model, task.held_out.training))


def run_fit(fit: Fit, task: Task, *, own: bool = True) -> Outcome:
    """Fit and score; the row of the run and those of its curve."""
    model = fit.estimator(task, **({"tol": 0.0} if fit.span else {}))
    held_out = fit.data(task, model)
    _warm_up_once(fit, model, held_out)
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
        model,
        held_out,
        task.noise_std,
        ComparedFit(fit.label, fit.seed),
        told=told,
        on_the_clock=False,
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
            **task.about, K=fit.told_k, condition=fit.condition, **fit.remarks
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


def _warm_up_once(fit: Fit, model: Any, held_out: HeldOut) -> None:
    """Have what is timed compiled."""
    key = (fit.protocol, fit.label, held_out.data.dtype.str, fit.condition)
    if key not in _warm:
        other = clone(model).set_params(time_limit=None)
        if not isinstance(other.get_params().get("init", ""), str):
            other.set_params(init="random")  # a given start has codes of all rows
        warm_up(other, held_out, WARM_UP_SWEEPS)
        _warm.add(key)


def fit_unscored(fit: Fit, task: Task, **changes: Any) -> tuple[Any, float]:
    """Fit what comes before the fit that is scored: the model, and its seconds."""
    model = fit.estimator(task, **changes)
    held_out = fit.data(task, model)
    _warm_up_once(fit, model, held_out)
    training = held_out.training
    clock = present_clock()
    started = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(training)
    return model, clock() - started


def fit_after(label: str, fit: Fit, task: Task, changes: Mapping[str, Any]) -> Outcome:
    """A fit from the codes that another method, with these changes of its settings, ended with."""
    limit = FIRST_PART * fit.time_limit
    first = replace(fit, label=label, time_limit=limit, span=False, changes=changes)
    model, seconds = fit_unscored(first, task)
    start = {"Z": model.assignments_.astype(np.float64)}
    left = max(0.0, fit.time_limit - seconds)
    outcome = run_fit(replace(fit, time_limit=left, changes={"init": start}), task)
    return begun_earlier(outcome, seconds, model.n_iter_, fit.time_limit)


def begun_earlier(outcome: Outcome, seconds: float, sweeps: int, time_limit: float) -> Outcome:
    """The same, where other fits took some of the time and so many sweeps before."""

    def later(row: Row) -> Row:
        return {
            **row,
            "seconds": number(row, "seconds") + seconds,
            "iterations": number(row, "iterations") + sweeps,
        }

    return Outcome(
        [{**later(row), "time_limit": time_limit} for row in outcome.runs],
        [later(row) for row in outcome.points],
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
    k = "unbounded" if fit.told_k is None else f"K={fit.told_k}"
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


def fit_of(cell: Cell, **more: Any) -> Fit:
    """What a cell that `fit_cell` made asks for."""
    asked = ("protocol", "label", "n_components", "seed", "time_limit", "span", "condition")
    return Fit(**{name: cell.parameters[name] for name in asked}, **more)
