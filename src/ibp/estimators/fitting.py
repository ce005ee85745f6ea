"""What every ``fit`` does: validate, put method and loop together, keep what they found.

An estimator says which method its settings stand for (`_method`) and what to keep of the final
state (`_keep_state`); the rest is here.
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from copy import copy
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from ibp.blas import single_threaded_blas
from ibp.data import ColumnUnits, Observations, RowSource, Summary, summarize
from ibp.errors import (
    EndingWarning,
    FitInterrupted,
    InvalidTypeError,
    InvalidValueError,
    counted,
)
from ibp.estimators.observing import (
    CallbackSupportMixin,
    MoveTeller,
    RestartKeeper,
    TaskTree,
    similarity,
)
from ibp.loop import Observer, Run, run
from ibp.parallel import Executor, Threads
from ibp.random_state import spawn_generators
from ibp.registry import card_of
from ibp.validation import (
    check_columns_observed,
    check_matrix,
    check_range,
    level_of_user,
    warn_about_data,
)

# What one more feature must gain, in nats, for a limit to be in its way.
WORTH_ANOTHER = 10.0


class NotConvergedWarning(EndingWarning, ConvergenceWarning):
    """A fit that ended before it had converged."""


class IterativeEstimator(CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """An estimator that the one loop fits."""

    # Whether sums of factors are never negative.
    nonnegative: ClassVar[bool] = True
    # A parameter of most estimators; the others have none.
    fit_intercept: bool = False
    # Parameters of all.
    n_components: Any  # int, or None where a method finds the number
    noise_std: float | None
    learn_hyperparameters: bool
    hyperpriors: dict[str, tuple[float, float]] | None
    init: Any
    max_iter: int
    tol: float
    n_init: int
    time_limit: float | None
    callbacks: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise_std": [Interval(Real, 0, None, closed="neither"), None],
        "learn_hyperparameters": ["boolean"],
        "hyperpriors": [dict, None],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "time_limit": [Interval(Real, 0, None, closed="left"), None],
        "callbacks": [callable, list, tuple, None],
        "random_state": ["random_state", np.random.Generator],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
        "verbose": ["verbose"],
    }

    @property
    def real_codes(self) -> bool:
        """Whether rows have features to some degree."""
        return card_of(self).codes == "real"

    @abstractmethod
    def _method(self, observations: Observations) -> Any:
        """Make the method that the settings stand for."""

    @abstractmethod
    def _keep_state(self, method: Any, context: Any, state: Any) -> None:
        """Turn the final state into attributes, with the columns in the user's order."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters, whatever ``deep`` says: a model given as ``init`` is data."""
        return super().get_params(deep=False)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a model given as ``init`` are not ours to set."""
        for name in params:
            if "__" in name:
                raise InvalidValueError(
                    f"Invalid parameter {name!r}: {type(self).__name__} has no nested parameters."
                )
        return super().set_params(**params)

    def __sklearn_clone__(self) -> Self:
        # The start goes along as it is: a model that is cloned would be no longer fitted.
        bare = copy(self)
        bare.init = "random"
        clone = BaseEstimator.__sklearn_clone__(bare)
        clone.init = self.init
        return clone

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, **unsupported: Any) -> Self:
        """Find the features of X and, where the method can, their number.

        Parameters
        ----------
        X : array-like, sparse matrix or row source of shape (n_samples, n_features)
            Data; NaN where missing. Entries that a sparse matrix does not store are zeros. A row
            source has ``shape``, ``dtype`` and ``rows(slice or numbers)``, which gives some rows;
            it and an array that is mapped from a file are read a block of rows at a time. The rows
            of a Dask array or data frame `ibp.MEIBP` leaves with the workers of the active client,
            or with threads if there is none.
        y : None
            Ignored.
        **unsupported
            Nothing: a ``sample_weight`` that is not None is refused.

        Returns
        -------
        estimator
            The fitted model.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C was pressed; the sweep in hand is finished first. What was found by then is
            kept: the attributes are there, and ``ending_`` is ``"interrupted"``.
        """
        self._fit_or_interrupt(X, unsupported)
        return self

    def _fit_or_interrupt(self, X: Any, unsupported: dict[str, Any]) -> None:
        """Fit, and pass on Ctrl-C once what there is has been kept."""
        if self._fit(X, unsupported):
            raise FitInterrupted(self)

    @abstractmethod
    def _training_codes(self) -> Any:
        """Return the codes of the training rows."""

    def _fit(self, X: Any, unsupported: dict[str, Any]) -> bool:
        """Validate the data and run; return whether the user broke it off."""
        if unsupported.get("sample_weight", 0) is None:
            del unsupported["sample_weight"]
        if unsupported:
            raise InvalidTypeError(
                f"{type(self).__name__}.fit does not support {', '.join(sorted(unsupported))}",
                "For integer sample weights repeat the rows",
            )
        with self._executor() as executor:
            result = self._run(X, self._observe_training_data(X, executor), executor)
        return bool(result.interrupted)

    def _executor(self) -> Threads:
        """What runs pieces of work in a fit, or in a prediction."""
        return Threads(effective_n_jobs(self.n_jobs))

    def _observe_training_data(self, X: Any, executor: Executor) -> Observations:
        source, summary, X = self._look_at(X, executor)
        check_range(summary, source, X, fitting=True)
        check_columns_observed(summary, X)
        centre = summary.means if self.fit_intercept else None
        units = self._units(source, summary, centre)
        warn_about_data(
            summary,
            source,
            X,
            offset_free=self.nonnegative and not self.fit_intercept,
            one_unit=units is None,
        )
        return Observations.from_summary(source, summary, centre=centre, units=units)

    def _look_at(self, X: Any, executor: Executor) -> tuple[RowSource, Summary, Any]:
        """The rows of training data, what one pass over them tells, and what has their names."""
        source = check_matrix(self, X, reset=True)
        return source, summarize(source, executor), X

    def _units(self, source: RowSource, summary: Summary, centre: Any) -> ColumnUnits | None:
        """The units of the columns, if they have any of their own."""
        return None

    def _run(
        self, X: Any, observations: Observations, executor: Executor, method: Any = None
    ) -> Run[Any]:
        """Put method and loop together and keep what they find, which is returned, too.

        A method that is given runs once; that of the settings runs from as many starts as these
        say.
        """
        # Loads the compiler, which is not needed before.
        from ibp.compiled import compilation_noticed, compilation_reported

        started = time.perf_counter()
        n_init = self.n_init if method is None else 1
        method = method or self._method(observations)
        time_limit = self.time_limit
        if time_limit is not None:  # a start from another method has taken its part
            time_limit = max(0.0, time_limit - (time.perf_counter() - started))
        broken_off = getattr(method.start, "interrupted", False)
        if broken_off:
            time_limit = 0.0
        self.n_samples_fit_ = observations.n_samples
        restarts = RestartKeeper(partial(self._fitted_from, method))
        tasks = TaskTree(self, X) if hasattr(self, "_skl_callbacks") else None
        callbacks = self._callbacks()
        observers: list[Observer] = [MoveTeller(callbacks)]
        if n_init > 1:
            observers.append(restarts)
        with compilation_reported(_print_compilation) if self.verbose else compilation_noticed():
            result = run(
                method,
                observations,
                spawn_generators(self.random_state, n_init),
                executor=executor,
                max_iter=self.max_iter,
                tol=self._loop_tol,
                time_limit=time_limit,
                callbacks=callbacks,
                observers=[*observers, tasks] if tasks else observers,
                fitted_from=partial(self._fitted_from, method),
            )
        result.interrupted |= broken_off
        self._keep_run(method, result)
        if n_init > 1:
            self._keep_restarts(restarts, result)
        if tasks:
            tasks.fit_ended(self)
        self._warn_about_fit(result)
        return result

    def _keep_run(self, method: Any, result: Run[Any]) -> None:
        """Make attributes of a run, as if it were the only one."""
        self.history_ = result.history.as_arrays()
        self.n_iter_ = len(result.history.sweeps)
        self.converged_ = result.ending == "converged"
        self.ending_ = "interrupted" if result.interrupted else result.ending
        with single_threaded_blas():
            self._keep_state(method, result.context, result.state)
        self.n_components_ = int(self.components_.shape[0])
        self.restart_kept_ = 0
        self.restart_evidence_ = np.array([result.evidence])
        self.restart_n_components_ = np.array([self.n_components_])
        self.restart_similarity_ = np.ones((1, self.n_components_))
        self.notes_: dict[str, Any] = {}

    def _keep_restarts(self, keeper: RestartKeeper, result: Run[Any]) -> None:
        """Make attributes of what is known of the restarts."""
        self.restart_kept_, restarts = keeper.known(result, self._training_codes())
        self.restart_evidence_ = np.array([restart.evidence for restart in restarts])
        self.restart_n_components_ = np.array([restart.codes.shape[1] for restart in restarts])
        # Where patterns may be negative, an intercept can take over a feature with its sign turned.
        flips = self.fit_intercept and not self.nonnegative
        self.restart_similarity_ = similarity(self.restart_kept_, restarts, flips)

    def _fitted_from(self, method: Any, result: Run[Any]) -> Self:
        """Make a fitted estimator that does not change with the state later."""
        fitted = copy(self)
        fitted._keep_run(method, result)
        for name, value in vars(fitted).items():
            if name.endswith("_") and isinstance(value, np.ndarray):
                setattr(fitted, name, value.copy())
        return fitted

    @property
    def _loop_tol(self) -> float:
        """The tolerance for the loop's own rules of convergence."""
        return float(self.tol)

    def _callbacks(self) -> list[Any]:
        given = self.callbacks
        callbacks = [] if given is None else [given] if callable(given) else list(given)
        for callback in callbacks:
            if not callable(callback):
                raise InvalidValueError(
                    f"callbacks holds {callback!r}, which cannot be called",
                    "Callbacks that follow scikit-learn's protocol are given to set_callbacks "
                    "instead",
                )
        return [_print_progress, *callbacks] if self.verbose else callbacks

    def _warn_about_fit(self, result: Any) -> None:
        if result.interrupted:  # which an exception tells
            return
        if self.tol > 0 and result.ending in ("max_iter", "time_limit"):
            within = counted(self.n_iter_, "sweep")
            if result.ending == "time_limit":
                within = f"{self.time_limit:g} s, which were enough for {within}"
            self._warn(
                f"No convergence within {within}; increase {result.ending} or tol.",
                NotConvergedWarning,
            )
        if self.n_components_ == 0 and result.ending in ("converged", "max_iter"):
            remedy = "" if self.learn_hyperparameters else "set learn_hyperparameters=True, "
            if np.ndim(self.noise_std_):
                remedy += 'give all columns one level with noise="shared", '
            self._warn(
                "No feature survived: the data look like noise at this noise_std. Lower noise_std, "
                f"{remedy}or try other starts with n_init."
            )

    def _warn(self, message: str, category: type[Warning] = EndingWarning) -> None:
        warnings.warn(message, category, stacklevel=level_of_user())


def keep_parameters(estimator: Any, given: dict[str, Any]) -> None:
    """Make attributes of a constructor's arguments, as they are: its ``locals()``."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


def init_constraint(*names: str) -> list[Any]:
    """Say what ``init`` may be: one of some names, arrays, or a fitted model."""
    return [StrOptions(set(names)), dict, HasMethods(["fit", "transform"])]


def _print_compilation(name: str) -> None:
    print(f"compiling {name}, once on this machine ...", flush=True)


def _print_progress(progress: Any) -> None:
    move = progress.values.get("move")
    moved = f"  {move} gained {progress.values['move_gain']:.2f}" if move else ""
    print(
        f"sweep {progress.iteration:4d}  evidence {progress.evidence:16.2f}  "
        f"features {progress.n_components:3d}  changed {progress.n_changed:8d}  "
        f"{progress.seconds:8.2f} s{moved}",
        flush=True,
    )
