"""Methods side by side on one data set: the held-out score against time, the paper's protocol.

A block of entries, a fraction of the columns in half of the rows, is hidden from every fit. On the
way, with the clock stopped, each fit predicts them from its own codes of these rows (a sampler from
all samples that it has kept so far), and is scored by the mean of ln N(x; prediction, noise_std^2)
at one noise level for all, the paper's 0.75 standard deviations of the data, and at its own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_array

from ibp.clock import present_clock
from ibp.comparison_file import ComparisonFile
from ibp.data import all_rows, as_source
from ibp.data.source import is_source
from ibp.errors import FitInterrupted, InvalidValueError
from ibp.evaluate import HeldOut
from ibp.loop import Progress
from ibp.registry import COMPARED, DEFAULT_METHOD, METHODS
from ibp.validation import sklearn_checks

# The paper's noise level, in standard deviations of the data.
STD_FRACTION = 0.75
# Every sweep is scored at first, later those that lie this factor apart.
SWEEPS_SCORED, SWEEP_RATIO = 10, 1.15
# So much of the data, for so many sweeps, sees to it that a method's kernels are compiled.
WARM_UP_ROWS, WARM_UP_SWEEPS = 64, 2
# A lead of fewer nats per entry than this is none.
CLOSE = 0.005
# A sparse matrix with more entries than this is not made dense.
MOST_ENTRIES = 1 << 27


@dataclass
class ComparedFit:
    """One fit, and how well it predicted on its way.

    Attributes
    ----------
    label : str
        The method.
    seed : int
        Of its random numbers.
    ending : str
        What ended it: ``"converged"``, ``"max_iter"``, ``"time_limit"`` or ``"interrupted"``.
    n_iter, n_components : int
        Sweeps, and features at the end.
    sweeps, seconds : list
        When it was scored; seconds since it began, those of scoring not counted.
    log_likelihood, own_log_likelihood : list of float
        Mean per held-out entry, at the common noise level and at that of the fit.
    notes : list of str
        What it warned of.
    """

    label: str
    seed: int
    ending: str = ""
    n_iter: int = 0
    n_components: int = 0
    sweeps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)
    own_log_likelihood: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MethodScore:
    """All fits of a method in a line: means over the restarts, of what each ended with.

    Attributes
    ----------
    label : str
        The method.
    log_likelihood, spread : float
        Mean per held-out entry at the common noise level, and its standard deviation.
    own_log_likelihood : float
        The same at the noise level of the fits.
    seconds : float
        Until the end.
    n_components : list of int
        Features, of each fit.
    endings : list of str
        How each fit ended.
    """

    label: str
    log_likelihood: float
    spread: float
    own_log_likelihood: float
    seconds: float
    n_components: list[int]
    endings: list[str]


def tied(first: MethodScore, second: MethodScore) -> bool:
    """Whether the difference between two scores is none that would matter."""
    lead = abs(first.log_likelihood - second.log_likelihood)
    return lead <= max(first.spread, second.spread, CLOSE)


def places(ranking: Sequence[MethodScore]) -> list[int]:
    """The places of methods, the best first, counted from 1; those that tie share one.

    A method ties with the first of a place if their scores differ by no more than the scores of
    either do between restarts, or by next to nothing.
    """
    found: list[int] = []
    first: MethodScore | None = None
    for number, row in enumerate(ranking, start=1):
        if first is None or not tied(first, row):
            first = row
            found.append(number)
        else:
            found.append(found[-1])
    return found


@dataclass
class Comparison:
    """What became of all fits.

    Attributes
    ----------
    n_samples, n_features, n_hidden : int
        The size of the data, and how many observed entries were held out.
    n_components : int or None
        The number of features that methods were given which cannot find it.
    fraction : float
        Of the columns, held out in half of the rows.
    data_std, noise_std : float
        Standard deviation of what fits saw, and the noise level at which all are scored.
    fits : list of ComparedFit
        In the order in which they were made.
    skipped : dict of str
        Why a method could not be fitted.
    interrupted : bool
        Whether the user broke it off.
    """

    n_samples: int
    n_features: int
    n_hidden: int
    n_components: int | None
    fraction: float
    data_std: float
    noise_std: float
    fits: list[ComparedFit] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def ranking(self) -> list[MethodScore]:
        """The methods, best first, by the mean of their final scores."""
        rows = []
        scored = [fit for fit in self.fits if fit.log_likelihood]
        for label in dict.fromkeys(fit.label for fit in scored):
            fits = [fit for fit in scored if fit.label == label]
            final = [fit.log_likelihood[-1] for fit in fits]
            rows.append(
                MethodScore(
                    label=label,
                    log_likelihood=float(np.mean(final)),
                    spread=float(np.std(final)),
                    own_log_likelihood=float(np.mean([fit.own_log_likelihood[-1] for fit in fits])),
                    seconds=float(np.mean([fit.seconds[-1] for fit in fits])),
                    n_components=[fit.n_components for fit in fits],
                    endings=[fit.ending for fit in fits],
                )
            )
        return sorted(rows, key=lambda row: -row.log_likelihood)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Comparison:
        """The comparison that `to_dict` was made of."""
        fits = [ComparedFit(**fit) for fit in values["fits"]]
        return cls(**(values | {"fits": fits}))


@dataclass(frozen=True)
class ComparisonProgress:
    """What is told after each sweep of each fit.

    Attributes
    ----------
    label, seed
        Which fit.
    done, total : int
        Fits that are done, and all that are planned.
    sweep, n_components : int
        Of this fit.
    seconds, time_limit : float
        Of this fit, scoring not counted.
    log_likelihood : float or None
        Mean per held-out entry; None if this sweep was not scored.
    """

    label: str
    seed: int
    done: int
    total: int
    sweep: int
    n_components: int
    seconds: float
    time_limit: float
    log_likelihood: float | None


class Recorder:
    """Scores a fit on its way, and knows how long that took: a callback of estimators."""

    def __init__(
        self,
        record: ComparedFit,
        score: Callable[[Any], tuple[float, float]],
        told: Callable[[Progress, float, float | None], object] | None = None,
        *,
        on_the_clock: bool = True,
    ) -> None:
        self.record = record
        self.score = score
        self.told = told
        self.clock = present_clock()
        self.started = self.clock()
        self.own_seconds = 0.0
        self.on_the_clock = on_the_clock
        self.next_sweep = 1

    @property
    def uncounted_seconds(self) -> float:
        """What the fit's time limit does not count."""
        return 0.0 if self.on_the_clock else self.own_seconds

    def __call__(self, progress: Progress) -> object:
        """Score a sweep if it is due; True, which ends the fit, if whoever is told says so."""
        due = progress.iteration >= self.next_sweep
        if due:
            self.enter(progress.iteration, progress.fitted_model)
        if self.told is not None:
            score = self.record.log_likelihood[-1] if due else None
            seconds = self.clock() - self.started - self.own_seconds
            return self.told(progress, seconds, score)
        return None

    def enter(self, sweep: int, fitted_model: Callable[[], Any]) -> None:
        """Score what a fit that ended now would know."""
        now = self.clock()
        common, own = self.score(fitted_model())
        self.record.sweeps.append(sweep)
        self.record.seconds.append(now - self.started - self.own_seconds)
        self.record.log_likelihood.append(common)
        self.record.own_log_likelihood.append(own)
        self.next_sweep = sweep + 1
        if sweep >= SWEEPS_SCORED:
            self.next_sweep = int(np.ceil(SWEEP_RATIO * sweep))
        self.own_seconds += self.clock() - now


def zero_minimum_shift(model: Any, X: npt.NDArray[np.floating]) -> float:
    """What is added to the data for a method with nonnegative factors and no offset; else 0."""
    return -float(np.nanmin(X)) if model.nonnegative and not model.fit_intercept else 0.0


def fit_scored(
    model: Any,
    held_out: HeldOut,
    noise_std: float,
    record: ComparedFit,
    *,
    shift: float = 0.0,
    told: Callable[[Progress, float, float | None], object] | None = None,
    on_the_clock: bool = True,
) -> ComparedFit:
    """Fit an estimator to what is not hidden plus a shift, and fill in the record on its way.

    Scores are at the common ``noise_std`` and at the model's own. ``told`` is called after each
    sweep with its `Progress`, the seconds without scoring, and its score or None; if it returns
    True the fit ends. ``on_the_clock`` says whether the estimator's time limit counts scoring.
    """

    def score(fitted: Any) -> tuple[float, float]:
        explanation = fitted._explain_training()
        common = held_out.score(explanation, noise_std, shift)
        return common, held_out.score(explanation, explanation.noise_std, shift)

    X = held_out.training
    if shift:
        X = X + X.dtype.type(shift)
    recorder = Recorder(record, score, told, on_the_clock=on_the_clock)
    model.set_params(callbacks=recorder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(FitInterrupted):  # what there is by then is scored
            model.fit(X)
    if not record.sweeps or record.sweeps[-1] < model.n_iter_:
        recorder.enter(model.n_iter_, lambda: model)
    record.ending, record.n_iter = model.ending_, model.n_iter_
    record.n_components = int(model.n_components_)
    # That its time was up, the record says anyway; what would help it is not for us to set.
    if model.ending_ == "time_limit":
        caught = [note for note in caught if not issubclass(note.category, ConvergenceWarning)]
    record.notes = list(dict.fromkeys(str(warning.message) for warning in caught))
    return record


def compare(
    X: Any,
    methods: Sequence[str] = COMPARED,
    *,
    n_components: int | None = None,
    n_restarts: int = 1,
    time_limit: float = 60.0,
    fraction: float = 0.2,
    random_state: int = 0,
    n_jobs: int | None = -1,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    on_resumed: Callable[[Comparison, float], object] | None = None,
    on_progress: Callable[[ComparisonProgress], object] | None = None,
) -> Comparison:
    """Fit several methods to one data set and score their predictions of held-out entries.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data; NaN where missing. A sparse matrix is made dense, as hidden entries are not zeros.
    methods : sequence of str
        Labels of `ibp.METHODS`; or one of them.
    n_components : int, default=None
        The number of features, or its limit, for every method. None: those that cannot do without
        are given what ``"meibp-default"`` finds in what is not hidden.
    n_restarts : int, default=1
        Fits of each method, with different seeds.
    time_limit : float, default=60.0
        Seconds for all together. What is left is shared equally among the fits that are left;
        scoring, and compilation on a first run, take their part of it, but do not count in the
        seconds of a fit.
    fraction : float, default=0.2
        Of the columns, hidden in a random half of the rows.
    random_state : int, default=0
        Chooses what is hidden; the fits have this and the following seeds.
    n_jobs : int, default=-1
        Threads of each fit.
    checkpoint : path-like, default=None
        A file that keeps the fits that are done, whole or not at all, as each ends.
    resume : bool, default=False
        Whether to go on from that file, if it is there, instead of refusing to replace it; all but
        `n_jobs` must be as it was. The fit that was under way begins anew, and what had been done
        of it does not count in the time.
    on_resumed : callable, default=None
        Called with the comparison so far, if there is one to go on from, and the seconds that it
        took.
    on_progress : callable, default=None
        Called with a `ComparisonProgress` after each sweep.

    Returns
    -------
    Comparison
        All fits; if Ctrl-C ended it, those that there are. Before the first one Ctrl-C interrupts.

    Examples
    --------
    >>> import ibp
    >>> X = ibp.datasets.make_block_images(100, noise_std=0.3, random_state=0).data
    >>> result = ibp.comparison.compare(X, ["meibp-default", "bnmf"], n_components=4)
    >>> [row.label for row in result.ranking()]
    ['meibp-default', 'bnmf']
    """
    methods = [methods] if isinstance(methods, str) else methods
    known = f"choose among {', '.join(METHODS)}"
    for label in methods:
        if label not in METHODS:
            raise InvalidValueError(f"There is no method {label!r}", known)
    if len(methods) == 0:
        raise InvalidValueError("There is nothing to compare", known)
    with sklearn_checks():
        check_scalar(n_restarts, "n_restarts", Integral, min_val=1)
        check_scalar(time_limit, "time_limit", Real, min_val=0)
        check_scalar(random_state, "random_state", Integral, min_val=0)
    if np.isnan(time_limit):
        raise InvalidValueError("time_limit must be a number of seconds; it is nan.")
    n_restarts, random_state, time_limit = int(n_restarts), int(random_state), float(time_limit)
    if isinstance(n_components, np.integer):  # of which a file knows nothing
        n_components = int(n_components)
    data = _dense(X)
    held_out = HeldOut.of(data, random_state, fraction=fraction, rows="random")
    fraction = float(fraction)
    data_std = float(np.nanstd(held_out.training, dtype=np.float64))
    if not data_std > 0:
        raise InvalidValueError("is constant, so there is nothing to find", about="X")
    (n, d), noise_std = data.shape, STD_FRACTION * data_std
    result = Comparison(n, d, held_out.n_hidden, n_components, fraction, data_std, noise_std)
    planned = [(label, random_state + i) for label in methods for i in range(n_restarts)]
    settings = {
        "methods": [*methods],
        "n_components": n_components,
        "n_restarts": n_restarts,
        "time_limit": time_limit,
        "fraction": fraction,
        "random_state": random_state,
    }
    kept = ComparisonFile(checkpoint, settings, data)
    result = kept.begin(result, resume=resume)
    if result.fits and on_resumed is not None:
        on_resumed(result, kept.seconds_before)
    done_before = {(fit.label, fit.seed) for fit in result.fits}
    compiled: set[str] = set()

    def share(n_fits: int) -> float:
        """Seconds for the next of so many fits."""
        return max(0.0, time_limit - (time.perf_counter() - kept.started)) / n_fits

    def fit_one(record: ComparedFit, done: int) -> None:
        label, seed = record.label, record.seed
        known = n_components if label == DEFAULT_METHOD else result.n_components
        model = METHODS[label](known, random_state=seed, n_jobs=n_jobs)
        if label not in compiled:
            warm_up(clone(model), held_out)
            compiled.add(label)
        limit = share(len(planned) - done)

        def told(progress: Progress, seconds: float, score: float | None) -> None:
            if on_progress is not None:
                on_progress(
                    ComparisonProgress(
                        label=label,
                        seed=seed,
                        done=done,
                        total=len(planned),
                        sweep=progress.iteration,
                        n_components=progress.n_components,
                        seconds=seconds,
                        time_limit=limit,
                        log_likelihood=score,
                    )
                )

        fit_scored(
            model.set_params(time_limit=limit),
            held_out,
            result.noise_std,
            record,
            shift=zero_minimum_shift(model, held_out.training),
            told=told,
        )

    try:
        if result.n_components is None and set(methods) != {DEFAULT_METHOD}:
            limit = share(len(planned) + 1)
            result.n_components = _find_n_components(held_out, limit, random_state, n_jobs)
            kept.keep(result)
        for done, (label, seed) in enumerate(planned):
            if label in result.skipped or (label, seed) in done_before:
                continue
            record = ComparedFit(label, seed)
            try:
                fit_one(record, done)
            except ValueError as error:
                if record.sweeps:  # it took the data: something else went wrong
                    raise
                result.skipped[label] = str(error)
                kept.keep(result)
                continue
            result.fits.append(record)
            if record.ending == "interrupted":
                raise KeyboardInterrupt
            kept.keep(result)
        kept.keep(result, finished=True)
    except KeyboardInterrupt:
        if not result.fits:
            raise
        result.interrupted = True
    return result


def _dense(X: Any) -> npt.NDArray[np.floating]:
    """Validated, dense and in memory."""
    if is_source(X):
        X = all_rows(as_source(X))
    if sparse.issparse(X):
        n_samples, n_features = X.shape
        if n_samples * n_features > MOST_ENTRIES:
            raise InvalidValueError(
                f"has {n_samples} x {n_features} entries, too many to compare methods on, as that "
                "takes a dense matrix",
                "Compare them on some of the rows",
                about="X",
            )
        X = X.toarray()
    with sklearn_checks():
        return np.asarray(
            check_array(
                X,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                ensure_min_samples=2,
                ensure_min_features=2,
                input_name="X",
            )
        )


def _find_n_components(held_out: HeldOut, limit: float, seed: int, n_jobs: int | None) -> int:
    """How many features the default finds in what is not hidden; at least one."""
    model = METHODS[DEFAULT_METHOD](random_state=seed, n_jobs=n_jobs, time_limit=limit)
    return max(1, int(_fit_quietly(model, held_out.training).n_components_))


def warm_up(model: Any, held_out: HeldOut, sweeps: int = WARM_UP_SWEEPS) -> None:
    """Fit a few rows, so that what is timed later has been compiled."""
    hidden_rows = held_out.hidden.any(axis=1)
    sides = [np.flatnonzero(hidden_rows == side) for side in (False, True)]
    rows = [side[:: max(1, 2 * side.size // WARM_UP_ROWS)][: WARM_UP_ROWS // 2] for side in sides]
    X = held_out.training[np.concatenate(rows)]
    X = X[:, ~np.isnan(X).all(axis=0)]
    model.set_params(max_iter=sweeps)
    with suppress(ValueError):  # a few rows may be too little to fit, where all are not
        _fit_quietly(model, X + zero_minimum_shift(model, X))


def _fit_quietly(model: Any, X: npt.NDArray[np.floating]) -> Any:
    """Fit for our own sake: without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    return model
