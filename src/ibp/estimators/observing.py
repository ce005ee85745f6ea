"""Observers of a fit: of its restarts, for callbacks that hear of moves, for scikit-learn's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ibp.agreement import CompactCodes, match_codes
from ibp.checkpoints import Position
from ibp.loop import Observer, Progress
from ibp.methods.state import Arrays
from ibp.runs import Run

try:  # scikit-learn 1.9 and later; experimental there
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's own, and supports nothing."""


class Restart(NamedTuple):
    """What is kept of a restart."""

    number: int
    cut_short: bool
    evidence: float
    codes: CompactCodes  # of the training rows


class RestartKeeper(Observer):
    """Keeps the evidence and the codes of the training rows of each restart.

    They tell whether the features of one restart are those of another.
    """

    def __init__(self, fitted_from: Any) -> None:
        self.fitted_from = fitted_from
        self.ended: list[Restart] = []

    def restart_ended(self, run: Run[Any]) -> None:
        """Keep what is needed of a restart."""
        cut_short = run.ending not in ("converged", "max_iter")
        codes = CompactCodes(self.fitted_from(run)._training_codes())
        self.ended.append(Restart(run.context.restart, cut_short, float(run.evidence), codes))

    def to_arrays(self) -> Arrays:
        """Evidence and codes of the restarts so far."""
        arrays: Arrays = {
            "number": np.array([one.number for one in self.ended], dtype=np.int64),
            "evidence": np.array([one.evidence for one in self.ended], dtype=np.float64),
        }
        for i, one in enumerate(self.ended):
            arrays |= {f"{i}.{name}": array for name, array in one.codes.to_arrays().items()}
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """Know them again; a fit does not go on after a restart that was cut short."""
        known = zip(arrays["number"].tolist(), arrays["evidence"].tolist(), strict=True)
        self.ended = [
            Restart(
                number,
                False,
                evidence,
                CompactCodes.from_arrays(
                    {
                        name.partition(".")[2]: array
                        for name, array in arrays.items()
                        if name.startswith(f"{i}.")
                    }
                ),
            )
            for i, (number, evidence) in enumerate(known)
        ]

    def known(self, kept: Run[Any], codes: Any) -> tuple[int, list[Restart]]:
        """Return the restarts that tell something, and which of them the given run is.

        One that was cut short is not among them unless it was kept: that its features differ would
        say nothing. The one that was kept may have taken over features of others since it ended;
        ``codes`` are those that it has now.
        """
        number = kept.context.restart
        known = [one for one in self.ended if one.number == number or not one.cut_short]
        place = [one.number for one in known].index(number)
        now = known[place]._replace(evidence=float(kept.evidence), codes=CompactCodes(codes))
        known[place] = now
        return place, known


def similarity(kept: int, restarts: Sequence[Restart], flips: bool) -> Any:
    """Return each feature's similarity to its match in each restart, 1 for the restart kept."""
    mine = restarts[kept].codes
    rows = np.ones((len(restarts), mine.shape[1]))
    for number, other in enumerate(restarts):
        if number != kept:
            rows[number] = match_codes(mine, other.codes, flips=flips)[1]
    return rows


class CallbackTeller(Observer):
    """Tells callbacks more than of sweeps, if they have a method to hear it.

    That is ``trying``, of what is about to be tried, and ``resumed``, of the checkpoint's
    `ibp.checkpoints.Position` from which a fit goes on.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self.hear_move = [one.trying for one in callbacks if hasattr(one, "trying")]
        self.hear_resumed = [one.resumed for one in callbacks if hasattr(one, "resumed")]

    def trying(self, what: str) -> None:
        """Pass it on."""
        for hear in self.hear_move:
            hear(what)

    def resumed(self, position: Position) -> None:
        """Pass it on."""
        for hear in self.hear_resumed:
            hear(position)


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
