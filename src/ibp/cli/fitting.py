"""Fitting with progress: the method of a label with its settings, held-out entries, callbacks."""

from __future__ import annotations

import time
import warnings
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibp.cli.data import PAGE_ENDINGS, places_named
from ibp.cli.problems import notes_of
from ibp.cli.progress import Reporter, Sweep
from ibp.cli.startup import end_of_loading
from ibp.cli.words import duration, listed, number
from ibp.errors import FitInterrupted, InputError, InvalidValueError, UnequalScalesWarning
from ibp.registry import METHODS

if TYPE_CHECKING:
    from ibp.checkpoints import Position
    from ibp.evaluate import HeldOut
    from ibp.files.table import Table
    from ibp.loop import Progress

# Settings that have an option of their own.
OPTION_OF = {
    "codes": "--codes",
    "n_components": "--components",
    "n_init": "--restarts",
    "random_state": "--seed",
    "max_iter": "--max-sweeps",
    "time_limit": "--time-limit",
    "checkpoint": "--checkpoint",
    "resume": "--resume",
    "n_jobs": "--jobs",
    "verbose": "--quiet",
}
NOT_SET_HERE = ("callbacks",)
# Of the time of a fit that scoring held-out entries may take.
SCORING_SHARE = 0.1
# With more bits than this, a sweep with weights would keep people waiting.
MOST_CODES_TO_WEIGH = 2_000_000


def make_estimator(
    method: str, components: int | None, *, no_moves: bool = False, **settings: Any
) -> Any:
    """The estimator of a label; settings that are None are left to it."""
    from ibp.validation import sklearn_checks

    given = {name: value for name, value in settings.items() if value is not None}
    try:
        plain = METHODS[method](components)
    except InvalidValueError as error:
        error.cure = "Give it with -k"
        raise
    known = set(plain.get_params()) - set(NOT_SET_HERE)
    if no_moves:
        if "moves" not in known:
            raise InputError(f"{method} makes no moves", "Leave out --no-moves")
        given["moves"] = False
    if "codes" in given and "codes" not in known:
        raise InputError(f"{method} has codes of one kind only", "Leave out --codes")
    for name in given:
        if name not in known:
            raise InputError(
                f"{method} has no setting {name!r}; it has "
                f"{listed(sorted(known - set(OPTION_OF)), longest=40)}."
            )
    with sklearn_checks():
        plain.set_params(**given)._validate_params()
    return plain


def check_settings(settings: dict[str, Any]) -> None:
    """Refuse settings that have an option of their own."""
    for name in settings:
        if name in OPTION_OF:
            raise InputError(f"Use {OPTION_OF[name]} instead of --set {name}.")


def check_model_name(path: Path) -> None:
    """Refuse the name of a table or a page for a model, which is neither."""
    from ibp.files.read import READERS
    from ibp.files.wording import ending

    if ending(path) in (*READERS, *PAGE_ENDINGS):
        raise InputError(
            "is to be a model, which is no such file",
            "Name it .ibp; ibp transform writes which rows have which features, --report a page",
            file=path,
        )


def note_shift(reporter: Reporter, method: str, estimator: Any, table: Table) -> None:
    """Say what nonnegative factors without an intercept expect of the data."""
    import numpy as np

    from ibp.files.table import pieces

    if not estimator.nonnegative or estimator.fit_intercept:
        return
    lowest = np.inf
    for _, stored in pieces(table.values):
        lowest = float(np.fmin(lowest, np.fmin.reduce(stored, axis=None, initial=np.inf)))
        if stored.ndim == 1:  # what a sparse matrix does not store is 0
            lowest = min(lowest, 0.0)
    if lowest != 0 and np.isfinite(lowest):
        reporter.note(
            f"{method} expects data whose smallest value is 0, the paper's X - min(X), and here it "
            f"is {number(lowest)}; the data were left as they are."
        )


def hide(table: Table, fraction: float, seed: int) -> HeldOut:
    """Hide a share of the columns in a random half of the rows, in order to predict it."""
    import numpy as np

    from ibp.data.source import is_source
    from ibp.evaluate import HeldOut

    if is_source(table.values):
        raise InputError(
            "is read block by block, and --held-out hides entries of data in memory only",
            "leave it out, or give --load",
            file=table.source,
        )
    if not isinstance(table.values, np.ndarray):
        raise InputError(
            "is sparse, and --held-out hides entries of dense data only",
            "leave it out",
            file=table.source,
        )
    try:
        return HeldOut.of(table.values, seed, fraction=fraction, rows="random")
    except InvalidValueError:
        raise InputError(
            f"has nothing to hide where --held-out {fraction:g} would",
            "try another share or another --seed",
            file=table.source,
        ) from None


class _Teller:
    """Tells of each sweep, and scores held-out entries where that has taken little time so far."""

    def __init__(self, reporter: Reporter, held_out: HeldOut | None, estimator: Any) -> None:
        self.reporter, self.held_out, self.estimator = reporter, held_out, estimator
        self.trying = reporter.trying
        self.scoring = 0.0
        self.before = 0.0  # seconds of a fit that was resumed, which no limit counts

    def resumed(self, position: Position) -> None:
        """Say from where the fit goes on."""
        self.before = position.seconds
        self.reporter.note(
            f"Going on from {self.estimator.checkpoint}: {position.told()} in "
            f"{duration(position.seconds)}."
        )

    def __call__(self, progress: Progress) -> None:
        score = None
        limit = self.estimator.time_limit
        if self.held_out is not None and self.scoring <= SCORING_SHARE * progress.seconds:
            started = time.perf_counter()
            score = self.held_out.own_score(progress.fitted_model())
            self.scoring += time.perf_counter() - started
        move = progress.values.get("move") or None
        self.reporter.sweep(
            Sweep(
                restart=progress.restart,
                restarts=self.estimator.n_init,
                sweep=progress.iteration,
                features=progress.n_components,
                evidence=float(progress.evidence),
                held_out=score,
                seconds=progress.seconds,
                time_limit=None if limit is None else limit + self.before,
                move=move,
                move_gain=None if move is None else float(progress.values["move_gain"]),
            )
        )


def fit_table(
    reporter: Reporter,
    estimator: Any,
    table: Table,
    *,
    method: str,
    held_out: HeldOut | None,
    image_shape: tuple[int, int] | None,
) -> tuple[Any, float]:
    """Fit with progress; the model with its notes, and the seconds that the fit took."""
    from ibp.compiled import compilation_reported
    from ibp.persistence import versions

    n_rows, n_columns = table.shape
    reporter.stage(f"Fitting {table.source}: {n_rows:,} x {n_columns:,}, {method}")
    teller = _Teller(reporter, held_out, estimator)
    estimator.set_params(callbacks=teller)
    end_of_loading()
    started = time.perf_counter()
    with places_named(table), compilation_reported(reporter.compiling):
        if image_shape is not None:  # pixels have one unit, though some hardly vary
            warnings.simplefilter("ignore", UnequalScalesWarning)
        training = table.values if held_out is None else held_out.training
        try:
            model = estimator.fit(training)
        except FitInterrupted as interruption:  # to be saved all the same
            model = interruption.model
        seconds = teller.before + time.perf_counter() - started
        model.set_params(callbacks=None)
        gain = _gain_of_weights(model, training)
    scores = {}
    if held_out is not None:  # before columns have names
        error, ratio = held_out.own_errors(model)
        scores = {"score": held_out.own_score(model), "error": error, "relative_error": ratio}
    if table.column_names is not None:
        import numpy as np

        model.feature_names_in_ = np.array(table.column_names, dtype=object)
    model.notes_ = {
        "data": table.source,
        "method": method,
        "versions": versions(),
        "fitted_at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }
    if image_shape is not None:
        model.notes_["image_shape"] = list(image_shape)
    if gain is not None:
        model.notes_["weights_gain"] = round(gain, 1)
    if held_out is not None:
        model.notes_["held_out"] = scores | {
            "n_entries": held_out.n_hidden,
            "fraction": float(held_out.hidden.any(axis=0).mean()),
        }
    return model, seconds


def _gain_of_weights(model: Any, training: Any) -> float | None:
    """What weights would gain in a few steps; None where that is not to be asked."""
    if getattr(model, "codes", None) != "binary" or not model.learn_hyperparameters:
        return None  # with fixed ones a fit is asked for that and no other
    if (
        not model.converged_
        or model.n_components_ == 0
        or model.assignments_.size > MOST_CODES_TO_WEIGH
    ):
        return None
    return float(model.weights_gain(training))


def save_model(
    reporter: Reporter, model: Any, path: Path, *, assignments: bool = True, force: bool
) -> None:
    """Save, unless a file has come into being where none was."""
    try:
        model.save(path, assignments=assignments, overwrite=force)
    except FileExistsError:
        problem = "has come into being meanwhile, and was left as it is"
        raise InputError(problem, file=path) from None
    except OSError as error:
        problem = "; ".join([f"cannot be written: {error.strerror or error}", *notes_of(error)])
        raise InputError(problem, file=path) from error
    reporter.wrote(path)
