"""Beam search for the most probable binary features."""

from __future__ import annotations

from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ibp.data import Observations
from ibp.estimators.binary import HardAssignmentModel
from ibp.estimators.fitting import init_constraint, keep_parameters


class BeamSearchIBP(HardAssignmentModel):
    """Beam search for the most probable Z, the Gaussian factors integrated out (BS-IBP).

    Rows are placed one after the other; after each, the `beam_width` most probable assignments of
    the rows so far are kept [1]_. What is maximised is ln P(Z) + ln p(X | Z), Z being taken for the
    same whatever the order of its columns.

    Parameters
    ----------
    n_components : int, default=None
        Most features; None for no limit.
    beam_width : int, default=10
        Assignments that are kept after each row. None keeps all that can still be the best, which
        finds the most probable Z but is for tiny data.
    max_subset_enumeration : int, default=10
        Up to 2 to this power sets of features are tried for a row; where there are more features
        they are searched by flips of one and two. Beams without limit enumerate always.
    order : {"marginal", "given", "random"}, default="marginal"
        The order in which rows are placed: the ones that noise explains worst first, as in X, or
        random.
    scoring : {"incremental", "naive"}, default="incremental"
        How sets of features are scored: from what is known of the rows before, or from scratch, as
        in the paper, and then all of them. The scores are the same; the second is there to study
        its cost.
    fit_intercept : bool, default=True
        Whether each column has an offset of its own. Gaussian factors have mean zero, so without
        it the data should be centred.
    alpha, noise_std, factor_std
        As in `ibp.MEIBP`; `factor_std` is the standard deviation of Gaussian factors here.
    learn_hyperparameters : bool, default=True
        Whether alpha, noise_std and factor_std are updated after each pass over the rows, and
        further passes follow as long as they lead higher. Without it there is one pass.
    hyperpriors : dict, default=None
        As in `ibp.MEIBP`.
    init : "random", dict or fitted model, default="random"
        What has to be beaten: nothing; ``{"Z": N x K}``; or any model of this library fitted to the
        same rows. Factors and intercepts follow from Z and are not looked at.
    max_iter, n_init, time_limit, checkpoint, checkpoint_seconds, resume, callbacks, \
random_state, n_jobs, verbose
        As in `ibp.MEIBP`; an iteration is a pass over all rows. Passes differ from start to start
        only if `order` is "random".

    Attributes
    ----------
    assignments_ : ndarray of shape (n_samples, n_components_), uint8
        The most probable Z that was found.
    components_, components_std_ : ndarray of shape (n_components_, n_features)
        Means and standard deviations of the factors given this Z.
    evidence_ : float
        ln P(Z) + ln p(X | Z), with the log-density of learned hyperparameters, which are posterior
        means given Z.
    intercept_, n_components_, feature_counts_, alpha_, noise_std_, factor_std_, history_, \
n_iter_, converged_, ending_, n_samples_fit_, restart_evidence_, restart_n_components_, \
restart_kept_, restart_similarity_, notes_
        As in `ibp.MEIBP`.

    References
    ----------
    .. [1] P. Rai and H. Daume III, "Beam Search based MAP Estimates for the Indian Buffet Process",
       ICML 2011.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> ibp.BeamSearchIBP(beam_width=5, random_state=0).fit(X[:40]).assignments_.shape[0]
    40
    """

    nonnegative: ClassVar[bool] = False
    tol: float = 0.0  # a search has an end, it does not converge

    beam_width: int | None
    max_subset_enumeration: int
    order: Literal["given", "marginal", "random"]
    scoring: Literal["incremental", "naive"]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: allowed
        for name, allowed in HardAssignmentModel._parameter_constraints.items()
        if name != "tol"
    } | {
        "beam_width": [Interval(Integral, 1, None, closed="left"), None],
        "max_subset_enumeration": [Interval(Integral, 1, 20, closed="both")],
        "order": [StrOptions({"given", "marginal", "random"})],
        "scoring": [StrOptions({"incremental", "naive"})],
        "init": init_constraint("random"),
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        beam_width: int | None = 10,
        max_subset_enumeration: int = 10,
        order: Literal["given", "marginal", "random"] = "marginal",
        scoring: Literal["incremental", "naive"] = "incremental",
        fit_intercept: bool = True,
        alpha: float = 3.0,
        noise_std: float | None = None,
        factor_std: float | None = None,
        learn_hyperparameters: bool = True,
        hyperpriors: dict[str, tuple[float, float]] | None = None,
        init: Any = "random",
        max_iter: int = 5,
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

    def _method(self, observations: Observations) -> Any:
        from ibp.methods.beam_search.method import BeamSearchMethod  # compiled code

        return BeamSearchMethod(
            beam_width=None if self.beam_width is None else int(self.beam_width),
            n_components=None if self.n_components is None else int(self.n_components),
            max_subset_enumeration=int(self.max_subset_enumeration),
            order=self.order,
            scoring=self.scoring,
            **self._method_settings(observations),
        )

    def _keep_state(self, method: Any, context: Any, state: Any) -> None:
        observations, fit = context.observations, state.fit
        restore = observations.layout.restore
        self.assignments_ = np.ascontiguousarray(state.assignments)
        self.feature_counts_ = np.count_nonzero(self.assignments_, axis=0).astype(np.int64)
        self.components_ = restore(fit.factor_mean)
        self.components_std_ = restore(fit.factor_std(observations))
        self.intercept_ = restore(observations.centre + fit.intercept_mean)
        self._keep_hyperparameters(fit.hyperparameters)
        self.evidence_ = float(fit.score)
