"""MEIBP: maximisation-expectation for the Indian Buffet Process, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ibp.blas import single_threaded_blas
from ibp.estimators.base import BinaryFeatureModel
from ibp.model.hyperparameters import GammaPosterior, Hyperparameters
from ibp.model.observations import Observations
from ibp.model.summary import summarize
from ibp.parallel import Workers
from ibp.random_state import spawn_generators
from ibp.validation import (
    check_columns_observed,
    check_matrix,
    check_range,
    level_of_user,
    warn_about_data,
)

# The paper fixes both standard deviations at three quarters of the data's.
DEFAULT_STD_FRACTION = 0.75
# Spread of the intercept's prior, in standard deviations of the data.
INTERCEPT_STDS = 10.0
SMALLEST_STD, LARGEST_STD = 1e-100, 1e100
HYPERPRIORS = ("noise_precision", "factor_precision", "alpha")


class MEIBP(BinaryFeatureModel):
    """Binary latent features with nonnegative factors, by maximisation-expectation.

    Explains a data matrix as X = ZA + E: Z says which rows have which features, A >= 0 what each
    feature looks like, E is Gaussian noise. Z has an Indian Buffet Process prior, so the number of
    features is learned. The method is that of Reed and Ghahramani (2013) [1]_: every row of Z is
    found by maximising a submodular function, A keeps a posterior distribution, and a lower bound
    of the evidence rises with every step.

    Parameters
    ----------
    n_components : int, default=None
        Upper bound on the number of features. Features that no row uses, or that cost more
        evidence than they explain, are dropped. None finds a number that suits the data.
    fit_intercept : bool, default=True
        Whether each column has a signed offset, learned with the factors. Without it the model is
        the paper's, and the data should have their minimum at 0.
    alpha : float, default=3.0
        Concentration of the prior: about alpha ln N features are expected.
    noise_std : float, default=None
        Standard deviation of the noise; None means 0.75 times that of all observed entries, with
        an intercept about the means of their columns.
    factor_std : float, default=None
        Scale of the half-normal prior of the factors; None likewise.
    learn_hyperparameters : bool, default=True
        Whether alpha, noise_std and factor_std are learned, starting from the values given.
    hyperpriors : dict, default=None
        Gamma priors (shape, rate) of what is learned, under any of the keys
        ``"noise_precision"``, ``"factor_precision"`` and ``"alpha"``. By default
        (1, 0.001 var X) for both precisions and (1, 1) for alpha.
    prior : {"shifted", "lof"}, default="shifted"
        Which binary matrices the prior counts as one: those equal up to the place of empty columns,
        or up to the order of all columns (left-ordered form).
    optimizer : {"local_search", "exact", "double_greedy", "randomized_double_greedy"}, \
default="exact"
        How a row is optimised. ``"exact"`` proves its optimum, within `node_budget`.
    node_budget : int, default=1000
        Nodes that the exact search may visit for a row before it settles for the best found.
    row_start : {"current", "empty"}, default="current"
        ``"current"``: a search starts from the row as it is and never ends lower; it also tries
        exchanges of features and the complement. Once Z has taken shape, each sweep tries the
        removal of each feature.
        ``"empty"``: the search of the paper's authors, from nothing and without any of these; it
        can lower the evidence now and then.
    init : "spectral", "random", dict or fitted model, default="spectral"
        The start. ``"spectral"``: principal and independent components of a sample of the rows,
        each cut in two; where that does not look like binary features it competes with a random
        start by evidence. ``"random"``: every row has every feature with probability 1/3.
        A dict ``{"Z": N x K, "mu": K x D, "sigma": K x D}``, the last two being the locations and
        scales of the factors' truncated Gaussians, with ``"intercept"`` (D numbers) if there is
        one. Or another model fitted to the same rows, whose noise_std_ and factor_std_ are then
        where learning starts unless others are given.
    block_size : int or "auto", default="auto"
        How many rows are optimised between two refreshes of the factors. Rows of a block are
        optimised in parallel. 1 is the paper's schedule: the best ascent per sweep and the slowest
        sweep. ``"auto"`` takes small blocks at first and large ones once few rows change.
    shuffle : bool, default=False
        Whether each sweep visits the rows in a new random order.
    max_iter : int, default=200
        Most sweeps.
    tol : float, default=1e-3
        The fit ends when the mean training log-likelihood of five sweeps differs from that of the
        five before by less than this fraction; 0 switches the rule off. It also ends when a sweep
        changes nothing.
    n_init : int, default=1
        Number of starts; the one of highest evidence is kept.
    time_limit : float, default=None
        Seconds after which the fit ends with the model so far.
    callbacks : callable or list of callables, default=None
        Each is called after every sweep with an `ibp.loop.Progress`; one that returns True ends
        the fit.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starts.
    n_jobs : int, default=-1
        Threads; -1 for all cores. Results do not depend on it.
    verbose : int, default=0
        1 prints a line per sweep, and what is being compiled on a machine's first fit.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Expected factors, E[A].
    components_std_ : ndarray of shape (n_components_, n_features)
        Their posterior standard deviations.
    factor_location_, factor_scale_ : ndarray of shape (n_components_, n_features)
        Parameters of the truncated Gaussians q(A).
    intercept_ : ndarray of shape (n_features,)
        The offset of each column, E[b]; zeros without `fit_intercept`.
    assignments_ : ndarray of shape (n_samples, n_components_), uint8
        Z: the features of the training rows. Not there if the model was saved without.
    n_components_ : int
        Number of features found.
    feature_counts_ : ndarray of shape (n_components_,)
        How many training rows have each feature.
    alpha_, noise_std_, factor_std_ : float
        Hyperparameters, learned or as given.
    evidence_ : float
        The evidence lower bound.
    evidence_parts_ : dict
        Its parts: likelihood, assignment_prior, factor_prior, factor_entropy, intercept,
        hyperparameters.
    history_ : dict of ndarrays
        One entry per sweep: evidence, n_components, n_changed (entries of Z),
        train_log_likelihood (mean per observed entry at E[A]), proven (the fraction of rows whose
        optimum, against the factors and counts that their block started with, was proven) and
        seconds (since the fit began).
    n_iter_ : int
        Number of sweeps.
    converged_ : bool
        Whether a stopping rule ended the fit.
    n_samples_fit_ : int
        Number of training rows.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    .. [1] C. Reed and Z. Ghahramani, "Scaling the Indian Buffet Process via Submodular
       Maximization", ICML 2013.

    Examples
    --------
    >>> from ibp import MEIBP
    >>> from ibp.datasets import make_block_images
    >>> X, Z, A = make_block_images(200, noise_std=0.1, random_state=0)
    >>> model = MEIBP(n_components=4, learn_hyperparameters=True, n_init=5, random_state=0)
    >>> model.fit_transform(X.clip(min=0)).shape
    (200, 4)
    >>> bool(abs(model.components_.max() - 1.0) < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "noise_std": [Interval(Real, 0, None, closed="neither"), None],
        "factor_std": [Interval(Real, 0, None, closed="neither"), None],
        "learn_hyperparameters": ["boolean"],
        "hyperpriors": [dict, None],
        "prior": [StrOptions({"shifted", "lof"})],
        "optimizer": [
            StrOptions({"local_search", "exact", "double_greedy", "randomized_double_greedy"})
        ],
        "node_budget": [Interval(Integral, 1, None, closed="left")],
        "row_start": [StrOptions({"current", "empty"})],
        "init": [StrOptions({"spectral", "random"}), dict, HasMethods(["fit", "transform"])],
        "block_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "shuffle": ["boolean"],
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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        fit_intercept: bool = True,
        alpha: float = 3.0,
        noise_std: float | None = None,
        factor_std: float | None = None,
        learn_hyperparameters: bool = True,
        hyperpriors: dict[str, tuple[float, float]] | None = None,
        prior: Literal["shifted", "lof"] = "shifted",
        optimizer: str = "exact",
        node_budget: int = 1000,
        row_start: Literal["current", "empty"] = "current",
        init: Any = "spectral",
        block_size: int | Literal["auto"] = "auto",
        shuffle: bool = False,
        max_iter: int = 200,
        tol: float = 1e-3,
        n_init: int = 1,
        time_limit: float | None = None,
        callbacks: Any = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.noise_std = noise_std
        self.factor_std = factor_std
        self.learn_hyperparameters = learn_hyperparameters
        self.hyperpriors = hyperpriors
        self.prior = prior
        self.optimizer = optimizer
        self.node_budget = node_budget
        self.row_start = row_start
        self.init = init
        self.block_size = block_size
        self.shuffle = shuffle
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.time_limit = time_limit
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(cls, n_components: int, **changes: Any) -> MEIBP:
        """The algorithm and the settings of the paper and its authors' code.

        A random start, fixed hyperparameters (alpha = 3, both standard deviations 0.75 times that
        of the data), no intercept, local search from the empty set, one row at a time. The paper
        also shifts the data to a zero minimum: pass ``X - np.nanmin(X)``.

        Parameters
        ----------
        n_components : int
            Features to start with.
        **changes
            Other parameters, in place of the paper's.

        Returns
        -------
        MEIBP
            Not fitted yet.
        """
        settings: dict[str, Any] = {
            "fit_intercept": False,
            "alpha": 3.0,
            "learn_hyperparameters": False,
            "optimizer": "local_search",
            "row_start": "empty",
            "init": "random",
            "block_size": 1,
            "tol": 1e-4,
        }
        return cls(n_components, **(settings | changes))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters; a model given as ``init`` is data, not a part with its own.

        Parameters
        ----------
        deep : bool, default=True
            Makes no difference.

        Returns
        -------
        dict
            Parameter names and values.
        """
        return super().get_params(deep=False)

    def set_params(self, **params: Any) -> MEIBP:
        """Set parameters; those of a model given as ``init`` are not ours to set.

        Parameters
        ----------
        **params
            Parameter names and values.

        Returns
        -------
        MEIBP
            This estimator.
        """
        for name in params:
            if "__" in name:
                raise ValueError(f"Invalid parameter {name!r}: MEIBP has no nested parameters.")
        return super().set_params(**params)

    def __sklearn_clone__(self) -> MEIBP:
        # The start goes along as it is: a model that is cloned would be no longer fitted.
        bare = copy(self)
        bare.init = "spectral"
        clone = BaseEstimator.__sklearn_clone__(bare)
        clone.init = self.init
        return clone

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, **unsupported: Any) -> MEIBP:
        """Find the features of X and their number.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing. Entries that a sparse matrix does not store are zeros.
        y : None
            Ignored.
        **unsupported
            Nothing: a ``sample_weight`` that is not None is refused.

        Returns
        -------
        MEIBP
            The fitted model.
        """
        self._fit(X, unsupported)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None, **unsupported: Any) -> npt.NDArray[np.uint8]:
        """Fit, and return the features of the training rows: ``assignments_``.

        That is what the fit found for all rows together; `transform` places each row anew with
        the others frozen, and may differ in a few bits.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing. Entries that a sparse matrix does not store are zeros.
        y : None
            Ignored.
        **unsupported
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components_), uint8
            1 where a row has a feature.
        """
        self._fit(X, unsupported)
        return self.assignments_.copy()

    def _fit(self, X: Any, unsupported: dict[str, Any]) -> None:
        """Validate and run."""
        if unsupported.get("sample_weight", 0) is None:
            del unsupported["sample_weight"]
        if unsupported:
            raise TypeError(
                f"{type(self).__name__}.fit does not support {', '.join(sorted(unsupported))}. "
                "For integer sample weights repeat the rows."
            )
        matrix = check_matrix(self, X, reset=True)
        summary = summarize(matrix, Workers(effective_n_jobs(self.n_jobs)))
        check_range(summary, matrix, X, fitting=True)
        check_columns_observed(summary, X)
        warn_about_data(summary, matrix, X, fit_intercept=self.fit_intercept)
        centre = summary.means if self.fit_intercept else None
        self._run(Observations.from_summary(matrix, summary, centre=centre))

    def _assign(
        self, observations: Observations, *, with_losses: bool = False
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
        """Assignments of new rows and, if asked for, what each of their bits is worth."""
        from ibp.methods.assign import FrozenModel  # compiled code: loaded when it is needed

        frozen = FrozenModel(
            mean=self.components_,
            variance=self.components_std_**2,
            offset=self.intercept_,
            counts=self.feature_counts_,
            n_samples=self.n_samples_fit_,
            noise_std=self.noise_std_,
            optimizer=self.optimizer,
            thorough=self.row_start == "current",
            node_budget=self.node_budget,
        )
        workers = Workers(effective_n_jobs(self.n_jobs))
        return frozen.assign(observations, workers, with_losses=with_losses)

    def _run(self, observations: Observations) -> None:
        """Put method and loop together, and keep what they found."""
        from ibp.compiled import compilation_reported  # compiled code: loaded when it is needed
        from ibp.loop import run
        from ibp.methods.meibp import MEIBPMethod

        summary = observations.summary
        start, n_components = self._start(observations)
        # What an intercept explains is no measure of noise and factors.
        scale = summary.std_within_columns if self.fit_intercept else summary.std
        hyperparameters = self._hyperparameters(observations, n_components, scale)
        intercept_std = INTERCEPT_STDS * (summary.std or hyperparameters.noise_std)
        method = MEIBPMethod(
            start,
            hyperparameters,
            intercept_std=intercept_std if self.fit_intercept else None,
            prior=self.prior,
            optimizer=self.optimizer,
            row_start=self.row_start,
            block_size=self.block_size if self.block_size == "auto" else int(self.block_size),
            shuffle=bool(self.shuffle),
            node_budget=int(self.node_budget),
            n_jobs=effective_n_jobs(self.n_jobs),
        )
        with compilation_reported(_print_compilation) if self.verbose else nullcontext():
            result = run(
                method,
                observations,
                spawn_generators(self.random_state, self.n_init),
                max_iter=self.max_iter,
                tol=self.tol,
                time_limit=self.time_limit,
                callbacks=self._callbacks(),
            )
        self._keep(method, result)
        self._warn_about_fit(result)

    def _keep(self, method: Any, result: Any) -> None:
        state = result.state
        from_layout = state.observations.from_layout
        self.intercept_ = from_layout(state.observations.centre + state.intercept.mean)
        self.components_ = from_layout(state.factors.mean)
        self.components_std_ = from_layout(np.sqrt(state.factors.variance))
        self.factor_location_ = from_layout(state.factors.location)
        self.factor_scale_ = from_layout(state.factors.scale)
        self.assignments_ = state.assignments
        self.feature_counts_ = state.statistics.counts
        self.n_components_ = state.n_components
        self.n_samples_fit_ = state.observations.n_samples
        self.alpha_ = float(state.hyperparameters.alpha.mean)
        self.noise_std_ = state.hyperparameters.noise_std
        self.factor_std_ = state.hyperparameters.factor_std
        with single_threaded_blas():
            evidence = method.evidence(state)
        self.evidence_ = float(evidence.total)
        self.evidence_parts_ = {name: float(value) for name, value in vars(evidence).items()}
        self.history_ = result.history.as_arrays()
        self.n_iter_ = len(result.history.evidence)
        self.converged_ = result.ending == "converged"

    def _warn_about_fit(self, result: Any) -> None:
        def warn(message: str, category: type[Warning] = UserWarning) -> None:
            warnings.warn(message, category, stacklevel=level_of_user())

        if result.interrupted:
            warn(f"Interrupted: this is the model after {self.n_iter_} sweeps.")
        if result.ending == "max_iter" and self.tol > 0:
            warn(
                f"No convergence within {self.max_iter} sweeps; increase max_iter or tol.",
                ConvergenceWarning,
            )
        if self.n_components_ == 0 and result.ending in ("converged", "max_iter"):
            remedy = "" if self.learn_hyperparameters else "set learn_hyperparameters=True, "
            warn(
                "No feature survived: the data look like noise at this noise_std. Lower noise_std, "
                f"{remedy}or try other starts with n_init."
            )

    def _hyperparameters(
        self, observations: Observations, n_components: int, scale: float
    ) -> Hyperparameters:
        stds = {}
        for name in ("noise_std", "factor_std"):
            given = getattr(self, name)
            if given is None and self.learn_hyperparameters:
                given = getattr(self.init, f"{name}_", None)
            if given is None and not scale > 0:
                where = " in each column" if self.fit_intercept else ""
                raise ValueError(
                    f"X is constant{where} (n_samples = {observations.n_samples}), so there is no "
                    f"scale to estimate {name} from. Give {name} explicitly or check the data."
                )
            stds[name] = DEFAULT_STD_FRACTION * scale if given is None else float(given)
            if not SMALLEST_STD < stds[name] < LARGEST_STD:
                raise ValueError(
                    f"{name} is {stds[name]:g}, whose square leaves the range of double precision. "
                    "Multiply X by a constant that brings it nearer to 1."
                )
        known = Hyperparameters.known(**stds, alpha=float(self.alpha))
        given = self._given_hyperpriors()
        if not self.learn_hyperparameters:
            return known
        rate = 1e-3 * scale**2
        priors = dict(zip(HYPERPRIORS, [(1.0, rate), (1.0, rate), (1.0, 1.0)], strict=True)) | given
        for name, (_, rate) in priors.items():
            if not rate > 0:
                raise ValueError(
                    f"X is constant, so the default hyperprior of {name} has no scale. Give "
                    f"hyperpriors={{{name!r}: (shape, rate)}} or check the data."
                )
        return Hyperparameters(
            GammaPosterior.starting_at(
                known.noise_precision.mean, priors["noise_precision"], observations.n_observed / 2
            ),
            GammaPosterior.starting_at(
                known.factor_precision.mean,
                priors["factor_precision"],
                n_components * observations.n_features / 2,
            ),
            GammaPosterior.starting_at(known.alpha.mean, priors["alpha"], n_components),
        )

    def _given_hyperpriors(self) -> dict[str, tuple[float, float]]:
        priors = {}
        for name, pair in (self.hyperpriors or {}).items():
            if name not in HYPERPRIORS:
                raise ValueError(
                    f"hyperpriors has the key {name!r}; it can have {', '.join(HYPERPRIORS)}."
                )
            try:
                shape, rate = (float(value) for value in pair)
                valid = 0 < shape < np.inf and 0 < rate < np.inf
            except (TypeError, ValueError):
                valid = False
            if not valid:
                raise ValueError(
                    f"hyperpriors[{name!r}] is {pair!r}; it must be a pair (shape, rate) of "
                    "positive numbers."
                )
            priors[name] = (shape, rate)
        return priors

    def _callbacks(self) -> list[Any]:
        given = self.callbacks
        callbacks = [] if given is None else [given] if callable(given) else list(given)
        for callback in callbacks:
            if not callable(callback):
                raise ValueError(f"callbacks holds {callback!r}, which cannot be called.")
        return [_print_progress, *callbacks] if self.verbose else callbacks

    def _start(self, observations: Observations) -> tuple[Any, int]:
        """The start, and the number of features to expect."""
        from ibp.starts.automatic import AutomaticStart, SampledRandomStart
        from ibp.starts.random import RandomStart

        if isinstance(self.init, str):
            if self.init == "random" and self.n_components is not None:
                return RandomStart(int(self.n_components)), int(self.n_components)
            kind = AutomaticStart if self.init == "spectral" else SampledRandomStart
            sampled = kind(self.n_components)
            return sampled, sampled.most_components(observations.n_samples)
        if isinstance(self.init, dict):
            start = self._start_from_dict(self.init, observations)
        else:
            check_is_fitted(
                self.init,
                msg="The model given as init is not fitted yet. (In a parameter grid scikit-learn "
                "makes unfitted copies: give a dict with its 'Z', 'mu' and 'sigma' there.)",
            )
            if not hasattr(self.init, "factor_location_"):
                raise ValueError(
                    f"init is a {type(self.init).__name__}, which has no binary features to start "
                    "from. Give 'spectral', 'random', a dict with 'Z', 'mu' and 'sigma', or a "
                    "fitted MEIBP."
                )
            if not hasattr(self.init, "assignments_"):
                raise ValueError(
                    "The model given as init has no assignments_: it was saved without them."
                )
            given = {
                "Z": self.init.assignments_,
                "mu": self.init.factor_location_,
                "sigma": self.init.factor_scale_,
            }
            if self.fit_intercept and getattr(self.init, "fit_intercept", False):
                given["intercept"] = self.init.intercept_
            start = self._start_from_dict(given, observations)
        if self.n_components is not None and start.n_components > self.n_components:
            raise ValueError(
                f"init has {start.n_components} features, more than "
                f"n_components={self.n_components} allows."
            )
        return start, start.n_components

    def _start_from_dict(self, init: dict[str, Any], observations: Observations) -> Any:
        from ibp.starts.given import GivenStart

        needed = {"Z", "mu", "sigma"}
        allowed = needed | ({"intercept"} if self.fit_intercept else set())
        if not needed <= set(init) <= allowed:
            also = " and may have 'intercept'" if self.fit_intercept else ""
            raise ValueError(
                f"init must have the keys 'Z', 'mu' and 'sigma'{also}; it has "
                f"{', '.join(repr(k) for k in init)}."
            )
        given = init["Z"]
        assignments = np.asarray(given.toarray() if hasattr(given, "toarray") else given)
        if assignments.ndim != 2 or assignments.shape[0] != observations.n_samples:
            raise ValueError(
                f"init['Z'] has shape {assignments.shape}; X has {observations.n_samples} rows, "
                f"so it must be ({observations.n_samples}, K)."
            )
        if not np.isin(assignments, (0, 1)).all():
            raise ValueError("init['Z'] must hold zeros and ones only.")
        shape = (assignments.shape[1], observations.n_features)
        location, scale = (np.asarray(init[key], dtype=np.float64) for key in ("mu", "sigma"))
        for key, array in (("mu", location), ("sigma", scale)):
            if array.shape != shape:
                raise ValueError(f"init[{key!r}] has shape {array.shape}; it must be {shape}.")
            if not np.isfinite(array).all():
                raise ValueError(f"init[{key!r}] must be finite.")
        if not (scale > 0).all():
            raise ValueError("init['sigma'] must be positive.")
        intercept = None
        if "intercept" in init:
            intercept = np.asarray(init["intercept"], dtype=np.float64)
            if intercept.shape != shape[1:] or not np.isfinite(intercept).all():
                raise ValueError(f"init['intercept'] must be {shape[1]} finite numbers.")
        return GivenStart(assignments.astype(np.uint8), location, scale, intercept)


def _print_compilation(name: str) -> None:
    print(f"compiling {name}, once on this machine ...", flush=True)


def _print_progress(progress: Any) -> None:
    print(
        f"sweep {progress.iteration:4d}  evidence {progress.evidence:16.2f}  "
        f"features {progress.n_components:3d}  changed {progress.n_changed:8d}  "
        f"{progress.seconds:8.2f} s",
        flush=True,
    )
