"""MEIBP: maximisation-expectation for the Indian Buffet Process, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from contextlib import closing
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ibp.data import ColumnUnits, Observations, RowSource, Summary, summarize
from ibp.data.chunks import ChunkedSummary
from ibp.data.units import rounding_variance
from ibp.errors import FitInterrupted, InvalidValueError
from ibp.estimators.binary import HardAssignmentModel
from ibp.estimators.chunked import (
    ChunkedMatrix,
    check_settings,
    check_stream,
    is_dask,
    look_at_chunks,
)
from ibp.estimators.fitting import WORTH_ANOTHER, init_constraint, keep_parameters
from ibp.estimators.hyperparameters import (
    SMALLEST_STD,
    column_hyperparameters_of,
    hyperparameters_of,
    intercept_std_of,
)
from ibp.estimators.starting import (
    check_codes,
    check_limit,
    check_numbers,
    start_of_fitted,
    starting_point,
)
from ibp.model import truncated_normal
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from ibp.parallel import Executor
from ibp.persistence import SavedArray
from ibp.validation import check_matrix, check_range
from ibp.workers import ThreadWorkers, active_workers


class MEIBP(HardAssignmentModel):
    """Binary latent features with nonnegative factors, by maximisation-expectation.

    Explains a data matrix as X = ZA + E: Z says which rows have which features, A >= 0 what each
    feature looks like, E is Gaussian noise. Z has an Indian Buffet Process prior, so the number of
    features is learned. The method is that of Reed and Ghahramani (2013) [1]_: every row of Z is
    found by maximising a submodular function, A keeps a posterior distribution, and a lower bound
    of the evidence rises with every step. Between sweeps, moves add, remove, merge, split and
    exchange features where that raises the bound, so that their number is the data's and not that
    of the start.

    Parameters
    ----------
    n_components : int, default=None
        The most features that there may be; None for no limit. Features that no row uses, or that
        cost more evidence than they explain, are dropped. A fit that ends at its limit says so,
        with what one more feature would gain (see ``limit_gain_``).
    codes : {"binary", "weighted"}, default="binary"
        Whether a row has a feature or not, and no more; or also how much of it, a weight about 1
        whose spread is learned for each feature (see ``weight_std_``). With weighted codes rows are
        searched in another way, and `optimizer`, `node_budget` and `row_start` do not count.
    fit_intercept : bool, default=True
        Whether each column has a signed offset, learned with the factors. Without it the model is
        the paper's, and the data should have their minimum at 0.
    alpha : float, default=3.0
        Concentration of the prior: about alpha ln N features are expected.
    noise : {"per_column", "shared"}, default="per_column"
        Whether every column has a noise level of its own, which lets each be in whatever unit it
        is, or all have the same, as in the paper.
    noise_std : float or array-like of shape (n_features,), default=None
        Standard deviation of the noise, of all columns or of each; None means 0.75 times that of
        each column. With shared noise one number; None means 0.75 times that of all observed
        entries, with an intercept about the means of their columns.
    factor_std : float or array-like of shape (n_features,), default=None
        Scale of the half-normal prior of the factors; None likewise.
    learn_hyperparameters : bool, default=True
        Whether alpha, noise_std and factor_std are learned, starting from the values given.
    hyperpriors : dict, default=None
        Gamma priors (shape, rate) of what is learned, under any of the keys
        ``"noise_precision"``, ``"factor_precision"`` and ``"alpha"``. With noise of each column
        they are of precisions in units of the columns, the standard deviation of each being one;
        by default (1, 0.001) for the factors, and for the noise one that is learned from all
        columns (see `ibp.model.column_noise`). With shared noise, by default (1, 0.001 var X) for
        both precisions. For alpha (1, 1).
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
    init : "auto", "spectral", "random", dict or fitted model, default="auto"
        The start. ``"spectral"``: principal and independent components of a sample of the rows,
        each cut in two; where these do not look like binary features, a fit with moves starts from
        the few that do, and features are born, and one without lets them compete with a random
        start by evidence. ``"random"``: every row has every feature with probability 1/3; without
        `n_components`, ten features with moves, else at most 50, that have taken shape on a sample
        of the rows. ``"auto"``: spectral and random in turn over `n_init`, spectral first, so that
        restarts differ.
        A dict ``{"Z": N x K}`` of codes, from which all else follows, or ``{"Z": N x K, "mu": K x
        D, "sigma": K x D}``, the last two being the locations and scales of the factors' truncated
        Gaussians, with ``"intercept"`` (D numbers) if there is one. Or another model fitted to the
        same rows, whose noise_std_ and factor_std_ are then where learning starts unless others
        are given. With weighted codes a nonnegative factorisation competes with the spectral start,
        ``"random"`` is that factorisation alone, and a dict is ``{"Z": N x K}`` or ``{"Z": N x K,
        "A": K x D}``, of binary or of nonnegative codes such as NMF's, with ``"intercept"`` if
        there is one.
    block_size : int or "auto", default="auto"
        How many rows are optimised between two refreshes of the factors. Rows of a block are
        optimised in parallel. 1 is the paper's schedule: the best ascent per sweep and the slowest
        sweep. ``"auto"`` takes small blocks at first and large ones once few rows change. Rows of a
        block are optimised against the counts that it began with, so a fit can end with some rows,
        about one in a hundred, whose code one more visit would improve a little (by less than half
        a nat where we looked).
    shuffle : bool, default=False
        Whether each sweep visits the rows in a new random order.
    moves : bool, default=True
        Whether features are added, removed, merged, split and exchanged between sweeps, and the
        noise raised for a while to rearrange many at a time (with weighted codes, what all rows
        have of a feature left to the intercept instead). A move is kept only if it raises the
        evidence. False is the paper's algorithm: quicker, but features can only be dropped, so that
        their number hangs on the start.
    max_iter : int, default=1000
        Most steps. A step is a sweep, a move, or both; small data may take 200 of moves alone.
    tol : float, default=1e-3
        With moves: a round of moves begins anew as long as one of them gains this part of what all
        features together gain over having none, and at least 10 nats; the fit ends when all have
        been tried in vain. Without: the fit ends when the mean training log-likelihood of five
        sweeps differs from that of the five before by less than this fraction; 0 switches that rule
        off. It also ends when a sweep changes no bit and the evidence by less than a tenth of this
        fraction, or by less than 1e-9 of it, which is as good as nothing, even if this is 0.
    n_init : int, default=1
        Number of starts; the one of highest evidence is kept. With moves, it takes over what the
        others found where that raises its evidence.
    time_limit : float, default=None
        Seconds after which the fit ends with the model so far. Of a fit that is resumed, those
        since then.
    checkpoint : path-like, default=None
        A file in which the fit is written down as it goes, whole or not at all, so that it can go
        on if it is interrupted, killed, or ended by its time limit. If that is not possible for
        once, a warning says so, and the fit goes on. None for no such file.
    checkpoint_seconds : float, default=60.0
        Seconds from one checkpoint to the next; it comes after the sweep in which they have passed.
        There is one at the beginning, and one at the end, whatever ends the fit.
    resume : bool, default=False
        Whether the fit goes on from the checkpoint, if there is one, and begins anew if not; so it
        ends as it would have without the interruption, bit for bit, but for the seconds. Data and
        parameters must be the same, except `time_limit`, `callbacks`, `n_jobs`, `verbose` and, as
        long as no restart has ended, `max_iter`. If False, the checkpoint of a fit that has not
        ended is not replaced, but refused.
    callbacks : callable or list of callables, default=None
        Each is called after every sweep with an `ibp.loop.Progress`; one that returns True ends
        the fit. One that has a method ``trying(what)`` is also told of each move by its name,
        before it is tried; one with ``resumed(position)``, from where a fit goes on.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starts.
    n_jobs : int, default=-1
        Threads; -1 for all cores. Results do not depend on it.
    verbose : int, default=0
        1 prints a line per sweep, with the move that was kept and what it gained, and what is being
        compiled on a machine's first fit.

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
        Z: the features of the training rows. A Dask array, which stays with the workers, if X is
        Dask's. Not there if the model was saved without, or learned by `partial_fit`.
    codes_ : ndarray of shape (n_samples, n_components_)
        What the components are multiplied by for the training rows: `assignments_` or, with
        weighted codes, the expected weights where a row has a feature and 0 where it does not. Not
        there if the model was saved without.
    weight_std_ : ndarray of shape (n_components_,)
        How far the weights of each feature spread about 1: 0 for a feature that rows have or lack,
        and nothing between; 1 at the most. All zeros with binary codes.
    n_components_ : int
        Number of features found.
    feature_counts_ : ndarray of shape (n_components_,)
        How many training rows have each feature.
    alpha_ : float
        Concentration of the prior, learned or as given.
    noise_std_, factor_std_ : ndarray of shape (n_features,)
        Standard deviations of the noise and scales of the factors' prior in the units of the
        columns, learned or as given; numbers with shared noise. A column that does not vary takes
        no part in the fit, and has the root mean square of the others' here. Learned noise of a
        column holds what its values were rounded by twice, as they were recorded and as the bound
        counts it; predictions count it once.
    resolution_ : ndarray of shape (n_features,)
        How wide the intervals are that recorded values of each column stand for: the smallest gap
        between common values or, of values that were rounded further than others, from one to the
        next; the root mean square over the entries of a column. 0 where a column does not vary,
        and with shared noise, which does not ask.
    evidence_ : float
        The evidence lower bound.
    evidence_parts_ : dict
        Its parts: likelihood, assignment_prior, factor_prior, factor_entropy, intercept,
        hyperparameters and, with weighted codes, weights.
    baseline_evidence_ : float or None
        The same bound of a model without any feature: what is above it, the features gain. None in
        models saved by older versions.
    limit_gain_ : float or None
        What one more feature than `n_components` allows would gain, in nats, as far as one birth
        tells; several together may gain more. None if the fit is not at its limit, makes no moves,
        or ended before it had tried them all.
    history_ : dict of ndarrays
        One entry per step: evidence, n_components, n_changed (entries of Z),
        train_log_likelihood (mean per observed entry at E[A]), proven (the fraction of rows whose
        optimum, against the factors and counts that their block started with, was proven) and
        seconds (since the fit began; of one that was resumed, what it took before counts); with
        moves also move (the name of the one that was kept, or nothing) and move_gain (what it
        raised the evidence by).
    n_iter_ : int
        Number of steps, of each of which `history_` has an entry: a sweep, a move, or both.
    converged_ : bool
        Whether a stopping rule ended the fit.
    ending_ : str
        What ended it: ``"converged"``, ``"max_iter"``, ``"time_limit"``, ``"callback"`` or
        ``"interrupted"``. Of several starts that of the one kept, unless Ctrl-C ended the fit.
    restart_evidence_, restart_n_components_ : ndarray of shape (n_restarts,)
        What each of the starts that ran (see `n_init`) ended with. One that was cut short is not
        among them, unless it is the one kept.
    restart_kept_ : int
        Which of them this model is.
    restart_similarity_ : ndarray of shape (n_restarts, n_components_)
        How like each feature is to its match in each restart: the correlation of their codes over
        the training rows, 1 if the same rows have it; see `ibp.agreement.match_codes`.
    notes_ : dict
        Anything worth keeping with the model, in plain values that JSON can hold; saved with it.
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

    codes: Literal["binary", "weighted"]
    prior: Literal["shifted", "lof"]
    noise: Literal["per_column", "shared"]
    block_size: int | Literal["auto"]
    shuffle: bool
    moves: bool
    _past: Any  # the sums that `partial_fit` goes on from

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        HardAssignmentModel._parameter_constraints
        | {
            "codes": [StrOptions({"binary", "weighted"})],
            "noise": [StrOptions({"per_column", "shared"})],
            "noise_std": [Interval(Real, 0, None, closed="neither"), "array-like", None],
            "factor_std": [Interval(Real, 0, None, closed="neither"), "array-like", None],
            "prior": [StrOptions({"shifted", "lof"})],
            "optimizer": [
                StrOptions({"local_search", "exact", "double_greedy", "randomized_double_greedy"})
            ],
            "node_budget": [Interval(Integral, 1, None, closed="left")],
            "row_start": [StrOptions({"current", "empty"})],
            "init": init_constraint("auto", "spectral", "random"),
            "block_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
            "shuffle": ["boolean"],
            "moves": ["boolean"],
        }
    )
    saved_by_column: ClassVar[tuple[str, ...]] = ("noise_std_", "factor_std_", "resolution_")
    saved_values: ClassVar[dict[str, type]] = {"resolution_": float}
    saved_optional_values: ClassVar[dict[str, type]] = {
        "baseline_evidence_": float,
        "limit_gain_": float,
    }
    saved_arrays: ClassVar[dict[str, SavedArray]] = {
        "factor_location_": SavedArray(np.float64, "KD"),
        "factor_scale_": SavedArray(np.float64, "KD", negative=False),
        "weight_std_": SavedArray(np.float64, "K", negative=False),
    }
    saved_rows: ClassVar[dict[str, SavedArray]] = {
        "weights_": SavedArray(np.float64, "NK", negative=False)
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        codes: Literal["binary", "weighted"] = "binary",
        fit_intercept: bool = True,
        alpha: float = 3.0,
        noise: Literal["per_column", "shared"] = "per_column",
        noise_std: Any = None,
        factor_std: Any = None,
        learn_hyperparameters: bool = True,
        hyperpriors: dict[str, tuple[float, float]] | None = None,
        prior: Literal["shifted", "lof"] = "shifted",
        optimizer: str = "exact",
        node_budget: int = 1000,
        row_start: Literal["current", "empty"] = "current",
        init: Any = "auto",
        block_size: int | Literal["auto"] = "auto",
        shuffle: bool = False,
        moves: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-3,
        n_init: int = 1,
        time_limit: float | None = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 60.0,
        resume: bool = False,
        callbacks: Any = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    @classmethod
    def paper(cls, n_components: int, **changes: Any) -> MEIBP:
        """The algorithm and the settings of the paper and its authors' code.

        A random start, fixed hyperparameters (alpha = 3, both standard deviations 0.75 times that
        of the data), one noise level for all columns, no intercept, local search from the empty
        set, one row at a time. The paper also shifts the data to a zero minimum: pass
        ``X - np.nanmin(X)``.

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
            "noise": "shared",
            "learn_hyperparameters": False,
            "optimizer": "local_search",
            "row_start": "empty",
            "init": "random",
            "block_size": 1,
            "moves": False,
            "max_iter": 200,
            "tol": 1e-4,
        }
        return cls(n_components, **(settings | changes))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None, **unsupported: Any) -> npt.NDArray[Any]:
        """Fit, and return the features of the training rows: ``codes_``.

        That is what the fit found for all rows together; `transform` places each row anew with
        the others frozen. A fit that has converged searches as well as `transform` does, so that
        both agree but for rows whose optimum that changes, and a few that are not proven. (With
        weighted codes no row is, and one in a hundred may differ, for the better or the worse.)

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
        ndarray of shape (n_samples, n_components_)
            1 (uint8) where a row has a feature; with weighted codes, how much of it.
        """
        self._fit_or_interrupt(X, unsupported)
        return self.codes_.copy()

    def partial_fit(self, X: Any, y: Any = None, *, forgetting: float = 1.0) -> Self:
        """Learn from a further batch of rows, which need not be kept.

        The first batch is fitted as by `fit`, and sets the units of the columns: it should be
        large enough to show how they vary. A model that `fit` has fitted goes on, too, but one that
        was read from a file does not: files have no sums. Of rows that have been seen, sums are
        kept; their codes stay as they were, while those of the batch are optimised together with
        the factors, the hyperparameters and, with moves, births and removals of features. Every
        step raises the evidence bound of all rows that were seen, if none are forgotten. `fit` on
        the same rows at once may end higher, since it may change the codes of all of them.

        Afterwards ``n_samples_fit_`` is how many rows count, and there are no ``assignments_``:
        `transform` gives those of any rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The batch; NaN where missing.
        y : None
            Ignored.
        forgetting : float, default=1.0
            What the rows before this batch count for from now on, as a part of what they did:
            in (0, 1], 1 to forget nothing.

        Returns
        -------
        estimator
            The model of all rows so far.
        """
        check_stream(self, X, forgetting)
        if not hasattr(self, "components_"):
            self.fit(X)
            del self.assignments_
            return self
        from ibp.methods.meibp.stream import StreamMethod, stream_of

        n_jobs, past = effective_n_jobs(self.n_jobs), self._past.faded(float(forgetting))
        with closing(ThreadWorkers(n_jobs)) as workers, self._executor() as executor:
            source = check_matrix(self, X, reset=False)
            summary = summarize(source, executor)
            check_range(summary, source, X, fitting=False)
            start, observations = stream_of(past, source, summary, workers)
            known = start.past.hyperparameters
            method = StreamMethod(start, known, **self._settings_of_method())
            result = self._run(X, observations, executor, method)
        if result.interrupted:
            raise FitInterrupted(self)
        return self

    @property
    def codes_(self) -> npt.NDArray[Any]:
        """What the components are multiplied by for the training rows."""
        return self.assignments_ if self.codes == "binary" else self.weights_

    def _fit(self, X: Any, unsupported: dict[str, Any]) -> bool:
        if not is_dask(X):
            return super()._fit(X, unsupported)
        check_settings(self)
        with closing(active_workers(effective_n_jobs(self.n_jobs))) as workers:
            return super()._fit(ChunkedMatrix(X, workers), unsupported)

    def _keep_assignments(self, state: Any) -> None:
        """Keep Z, if it is known; of one that is with workers some rows here, too."""
        from ibp.methods.meibp.assign import some_codes

        for name in ("assignments_", "_some_codes"):
            self.__dict__.pop(name, None)
        assignments = state.kept_assignments()
        if assignments is not None:  # of rows that have gone it is not
            self.assignments_ = assignments
        if is_dask(assignments):
            self._some_codes = some_codes(state.assignments)

    def _keep_sums(self, method: Any, context: Any, state: Any) -> None:
        """Keep what `partial_fit` goes on from."""
        from ibp.methods.meibp.stream import MOST_SUMS, Past

        self.__dict__.pop("_past", None)  # of an earlier fit
        few = state.statistics.gram.size <= MOST_SUMS
        if self.codes == "binary" and self.row_start == "current" and few:
            self._past = Past.of(method, context, state)

    def _look_at(self, X: Any, executor: Executor) -> tuple[RowSource, RowSource, Summary, Any]:
        if isinstance(X, ChunkedMatrix):
            source, summary, named = look_at_chunks(self, X)
            return source, source, summary, named
        return super()._look_at(X, executor)

    def _method(self, observations: Observations) -> Any:
        method = self._method_class(observations)
        start, n_components = self._start(observations)
        find = column_hyperparameters_of if observations.has_units else hyperparameters_of
        hyperparameters = find(self, observations, n_components)
        intercept_std = intercept_std_of(self, observations, hyperparameters.noise_std)
        return method(
            start, hyperparameters, intercept_std=intercept_std, **self._settings_of_method()
        )

    def _settings_of_method(self) -> dict[str, Any]:
        """Those that do not depend on the data."""
        return {
            "prior": EQUIVALENCE_CLASSES[self.prior],
            "optimizer": self.optimizer,
            "row_start": self.row_start,
            "block_size": self.block_size if self.block_size == "auto" else int(self.block_size),
            "shuffle": bool(self.shuffle),
            "node_budget": int(self.node_budget),
            "moves": bool(self.moves),
            "limit": None if self.n_components is None else int(self.n_components),
            "tol": float(self.tol),
        }

    def _method_class(self, observations: Observations) -> Any:
        """The class of the method; compiled code, loaded when it is needed."""
        if isinstance(observations.summary, ChunkedSummary):
            from ibp.methods.meibp.distributed.method import DistributedMethod

            return DistributedMethod
        if self.codes == "weighted":
            from ibp.methods.weighted.method import WeightedMethod

            return WeightedMethod
        from ibp.methods.meibp.method import MEIBPMethod

        return MEIBPMethod

    def _units(self, source: RowSource, summary: Summary, centre: Any) -> ColumnUnits | None:
        if self.noise == "per_column":
            return ColumnUnits.of(source, summary, centre)
        for name in ("noise_std", "factor_std"):
            if np.ndim(getattr(self, name)):
                raise InvalidValueError(
                    f'{name} has several numbers, but noise="shared" takes one for all columns',
                    'Give one, or set noise="per_column"',
                )
        return None

    def _keep_state(self, method: Any, context: Any, state: Any) -> None:
        from ibp.methods.meibp.moves.base import without_features

        observations: Observations = context.observations
        from_layout, unit = observations.layout.restore, observations.unit
        constant = observations.summary.means if self.fit_intercept else 0.0
        offset = observations.centre + state.intercept.mean * unit
        self.intercept_ = from_layout(offset, fill=constant)
        self.components_ = from_layout(state.factors.mean * unit)
        self.components_std_ = from_layout(np.sqrt(state.factors.variance) * unit)
        self.factor_location_ = from_layout(state.factors.location * unit)
        self.factor_scale_ = from_layout(state.factors.scale * unit, fill=SMALLEST_STD)
        self._keep_assignments(state)
        self.feature_counts_ = state.statistics.counts
        self.weight_std_ = np.zeros(state.n_components)
        if self.codes == "weighted":
            self.weight_std_ = state.weights.std
            self.weights_ = state.weights.mean.astype(np.float64)
        else:
            self.__dict__.pop("weights_", None)  # of an earlier fit
        self.resolution_: Any = 0.0
        if observations.has_units:
            self.resolution_ = from_layout(observations.resolution * unit)
            self.alpha_ = float(state.hyperparameters.alpha.mean)
            for name in ("noise_std", "factor_std"):
                values = getattr(state.hyperparameters, name) * unit
                pooled = float(np.sqrt(np.mean(values**2))) if values.size else 1.0
                setattr(self, f"{name}_", from_layout(values, fill=pooled))
        else:
            self._keep_hyperparameters(state.hyperparameters)
        bound = method.bound(context, state, state.entropies(context))
        evidence = bound.evidence_in_data_units()
        self.evidence_ = float(evidence.total)
        bare = without_features(method, context, state) - observations.log_units
        self.baseline_evidence_: float | None = float(bare)
        self.limit_gain_: float | None = state.limit_gain
        self._keep_sums(method, context, state)
        self.evidence_parts_ = {name: float(value) for name, value in vars(evidence).items()}
        if self.codes == "binary":
            del self.evidence_parts_["weights"]

    def _warn_about_fit(self, result: Any) -> None:
        super()._warn_about_fit(result)
        if self.limit_gain_ is not None and self.limit_gain_ > WORTH_ANOTHER:
            self._warn(
                f"n_components={self.n_components} is all that this fit may have, and one more "
                f"feature would gain {self.limit_gain_:,.0f} nats of evidence; raise n_components "
                "or leave it out."
            )

    def _predictive_std(self) -> Any:
        if np.ndim(self.resolution_) == 0 or not self.learn_hyperparameters:
            return None
        rounding = rounding_variance(self.resolution_)
        return np.sqrt(np.maximum(self.noise_std_**2 - rounding, rounding))

    @property
    def real_codes(self) -> bool:
        """Whether rows have features to some degree."""
        return self.codes == "weighted"

    def _training_codes(self) -> npt.NDArray[Any]:
        return np.asarray(self.codes_)

    def _frozen(self, **known: Any) -> Any:
        if self.codes == "binary":
            return super()._frozen(**known)
        from ibp.methods.weighted.assign import FrozenWeights  # compiled code: loaded late

        own = {
            "mean": self.components_,
            "variance": self.components_std_**2,
            "offset": self.intercept_,
            "counts": self.feature_counts_,
            "noise_std": self.noise_std_,
            "weight_std": self.weight_std_,
            "predictive_std": self._predictive_std(),
        }
        return FrozenWeights(**(own | known), n_samples=self.n_samples_fit_)

    def _draw_factors(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Draw factors from q(A)."""
        uniforms = rng.random(self.factor_location_.shape)
        return truncated_normal.sample(self.factor_location_, self.factor_scale_, uniforms)

    def _draw_codes(
        self, assignments: npt.NDArray[np.uint8], rng: np.random.Generator
    ) -> npt.NDArray[Any]:
        if self.codes == "binary":
            return assignments
        spread = np.where(self.weight_std_ > 0, self.weight_std_, 1.0)
        drawn = truncated_normal.sample(1.0, spread, rng.random(assignments.shape))
        return np.asarray(assignments * np.where(self.weight_std_ > 0, drawn, 1.0))

    def weights_gain(self, X: Any) -> float:
        """What weighted codes would gain, in nats of evidence, as far as a few steps tell.

        Every weight begins at one, which is the model with binary codes but for the prior of each
        column's noise (see `ibp.model.column_noise`). One sweep follows, and then features that are
        shades of one thing become one, as long as that gains. What all this gains is told under
        that prior, which makes the evidence itself a little lower. A whole fit can gain more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The training data.

        Returns
        -------
        float
            By how much the bound of the evidence rises; 0 for a model that has weights.
        """
        from ibp.blas import single_threaded_blas
        from ibp.methods.context import Context
        from ibp.methods.meibp.method import LARGEST_BLOCK
        from ibp.methods.weighted.merge import merge_shades

        check_is_fitted(self)
        if self.n_components_ == 0 or self.codes == "weighted":
            return 0.0
        weighted = clone(self).set_params(
            codes="weighted", init=self, n_components=None, moves=False
        )
        with weighted._executor() as executor, single_threaded_blas(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit has said what there is to say of X
            observations = weighted._observe_training_data(X, executor)
            method = weighted._method(observations)
            context = Context(observations, np.random.default_rng(0), executor)
            state = method.init(context)
            state.block_size = LARGEST_BLOCK  # patterns that are found already hardly change
            before = method.evidence(context, state).total
            method.improve(context, state)
            state = merge_shades(method, context, state)
            return float(method.evidence(context, state).total - before)

    def _start(self, observations: Observations) -> tuple[Any, int]:
        """The start, and the number of features to expect."""
        from ibp.methods.meibp.automatic_start import (
            AlternatingStart,
            AutomaticStart,
            SampledRandomStart,
        )
        from ibp.methods.meibp.random_start import RandomStart

        if self.codes == "weighted":
            return self._weighted_start(observations)
        if isinstance(self.init, str):
            if self.init == "random" and self.n_components is not None:
                return RandomStart(int(self.n_components)), int(self.n_components)
            kinds: dict[str, Any] = {
                "auto": AlternatingStart,
                "spectral": AutomaticStart,
                "random": SampledRandomStart,
            }
            sampled = kinds[self.init](self.n_components)
            return sampled, sampled.most_components(observations.n_samples)
        if isinstance(self.init, dict):
            start = self._start_from_dict(self.init, observations)
        else:
            start = self._start_from_model(self.init, observations)
        check_limit(start, self.n_components)
        return start, start.n_components

    def _weighted_start(self, observations: Observations) -> tuple[Any, int]:
        """The same for weighted codes."""
        from ibp.methods.weighted.start import CompetingStart, KnownStart

        if isinstance(self.init, str):
            sampled = CompetingStart(self.n_components, self.init)
            return sampled, sampled.most_components(observations.n_samples)
        known = starting_point(self, observations)
        assert known is not None
        check_limit(known, self.n_components)
        weight_std = (
            self.init.weight_std_ if getattr(self.init, "codes", "") == "weighted" else None
        )
        start = KnownStart(known.codes, known.factors, known.intercept, weight_std)
        return start, max(start.n_components, 1)

    def _start_from_model(self, model: Any, observations: Observations) -> Any:
        from ibp.methods.meibp.automatic_start import CodesStart

        known = start_of_fitted(model, self, observations).binary()
        if not isinstance(model, MEIBP):  # whose factors have another distribution
            return CodesStart(known.assignments)
        given = {"Z": known.assignments, "mu": model.factor_location_, "sigma": model.factor_scale_}
        if known.intercept is not None:
            given["intercept"] = known.intercept
        return self._start_from_dict(given, observations)

    def _start_from_dict(self, init: dict[str, Any], observations: Observations) -> Any:
        from ibp.methods.meibp.automatic_start import CodesStart
        from ibp.methods.meibp.start import GivenStart

        needed = {"Z", "mu", "sigma"}
        allowed = needed | ({"intercept"} if self.fit_intercept else set())
        if set(init) != {"Z"} and not needed <= set(init) <= allowed:
            also = " and may have 'intercept'" if self.fit_intercept else ""
            raise InvalidValueError(
                f"init must have the key 'Z' alone, or 'Z', 'mu' and 'sigma'{also}; it has "
                f"{', '.join(repr(k) for k in init)}."
            )
        codes = check_codes(init["Z"], observations.n_samples)
        if not np.isin(codes, (0, 1)).all():
            raise InvalidValueError("init['Z'] must hold zeros and ones only.")
        if "mu" not in init:
            return CodesStart(codes.astype(np.uint8))
        shape = (codes.shape[1], observations.layout.n_columns)
        location, scale = (check_numbers(init, key, shape) for key in ("mu", "sigma"))
        if not (scale > 0).all():
            raise InvalidValueError("init['sigma'] must be positive.")
        intercept = check_numbers(init, "intercept", shape[1:]) if "intercept" in init else None
        return GivenStart(codes.astype(np.uint8), location, scale, intercept)
