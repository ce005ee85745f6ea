"""Observers of a fit: of its restarts, for callbacks that hear of moves, for scikit-learn's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ibp.agreement import CompactCodes, match_codes
from ibp.loop import Observer, Progress, Run

try:  # scikit-learn 1.9 and later; experimental there
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's own, and supports nothing."""


class RestartKeeper(Observer):
    """Keeps the evidence and the codes of the training rows of each restart.

    They tell whether the features of one restart are those of another.
    """

    def __init__(self, fitted_from: Any) -> None:
        self.fitted_from = fitted_from
        self.evidence: list[float] = []
        self.codes: list[CompactCodes] = []

    def restart_ended(self, run: Run[Any]) -> None:
        """Keep what is needed of a restart, if it was not cut short or is the best."""
        cut_short = run.ending not in ("converged", "max_iter")
        if cut_short and self.evidence and not run.evidence > max(self.evidence):
            return  # that its features differ would say nothing
        self.evidence.append(float(run.evidence))
        self.codes.append(CompactCodes(self.fitted_from(run)._training_codes()))

    @property
    def kept(self) -> int:
        """The number of the restart of highest evidence, the first of equals, as in the loop."""
        return int(np.argmax(self.evidence))

    @property
    def n_components(self) -> list[int]:
        """The number of features of each restart."""
        return [codes.shape[1] for codes in self.codes]

    def similarity(self, codes: Any, flips: bool) -> Any:
        """Return each feature's similarity to its match in each restart, 1 for the restart kept.

        ``codes`` are those of the model that is kept.
        """
        rows = np.ones((len(self.evidence), codes.shape[1]))
        mine = CompactCodes(codes)
        for restart, others in enumerate(self.codes):
            if restart != self.kept:
                rows[restart] = match_codes(mine, others, flips=flips)[1]
        return rows


class MoveTeller(Observer):
    """Tells callbacks what is about to be tried, if they have a method ``trying`` to hear it."""

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self.heard = [callback.trying for callback in callbacks if hasattr(callback, "trying")]

    def trying(self, what: str) -> None:
        """Pass it on."""
        for hear in self.heard:
            hear(what)


class TaskTree(Observer):
    """Tells scikit-learn's callbacks of a fit as a tree of tasks: fit, restarts, sweeps."""

    def __init__(self, estimator: Any, X: Any) -> None:
        self.told = {"estimator": estimator, "X": X}
        self.max_iter = estimator.max_iter
        self.root = estimator._init_callback_context(max_subtasks=estimator.n_init)
        self.root.call_on_fit_task_begin(**self.told)
        self.restart: Any = None
        self.sweep: Any = None

    def restart_begins(self) -> None:
        """Begin a task of at most ``max_iter`` sweeps."""
        self.restart = self.root.subcontext("restart", max_subtasks=self.max_iter)
        self.restart.call_on_fit_task_begin(**self.told)

    def sweep_begins(self) -> None:
        """Begin a task that has no further parts."""
        self.sweep = self.restart.subcontext("sweep")
        self.sweep.call_on_fit_task_begin(**self.told)

    def sweep_ended(self, progress: Progress) -> bool:
        """End the task of the sweep, and return whether a callback wants the fit to end."""
        return bool(
            self.sweep.call_on_fit_task_end(
                **self.told, reconstruction_attributes=lambda: _attributes(progress.fitted_model())
            )
        )

    def restart_ended(self, run: Run[Any]) -> None:
        """End the task of the restart."""
        self.restart.call_on_fit_task_end(**self.told)

    def fit_ended(self, estimator: Any) -> None:
        """End the task of the fit, when the estimator has its attributes."""
        self.root.call_on_fit_task_end(
            **self.told, reconstruction_attributes=lambda: _attributes(estimator)
        )


def _attributes(fitted: Any) -> dict[str, Any]:
    """Return what fitting has added to an estimator."""
    return {
        name: value
        for name, value in vars(fitted).items()
        if name.endswith("_") and not name.startswith("_")
    }
