"""INMF: infinite nonnegative matrix factorisation by power expectation propagation."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from ibp.data import Observations
from ibp.errors import InvalidValueError
from ibp.estimators.binary import SoftAssignmentModel
from ibp.estimators.fitting import keep_parameters
from ibp.model.beta_sticks import BetaSticks
from ibp.persistence import SavedArray


class INMF(SoftAssignmentModel):
    """Binary features with nonnegative factors, by expectation propagation, K grown from one.

    The model of `ibp.MEIBP` without an intercept. The posterior of the factors is a Gaussian with
    full covariance in each column, fitted to their truncation by power-EP; that of Z are
    probabilities [1]_. The fit starts with one feature and adds one after the other as long as its
    objective rises. Data should have their minimum at 0.

    Parameters
    ----------
    n_components : int, default=None
        Most features; None for no limit but the number of rows.
    alpha, noise_std, factor_std, learn_hyperparameters, hyperpriors
        As in `ibp.MEIBP`.
    power : float, default=1.0
        Of power-EP, above 0 and at most 1, which is EP itself.
    damping : float, default=None
        Weight of the old sites in an update; None means 1 - power.
    init : "random", dict or fitted model, default="random"
        The start: one feature; codes ``{"Z": N x K}``; or any model of this library fitted to the
        same rows. Factors follow from the codes. More features may be added to them, but none is
        ever taken away or merged, so a good start can end with fewer than growth from one.
    max_iter : int, default=1000
        Most sweeps, for all numbers of features together.
    tol : float, default=1e-5
        The objective is at rest, and a feature is added, when a sweep changes it by less than this
        fraction.
    n_init, time_limit, checkpoint, checkpoint_seconds, resume, callbacks, \
random_state, n_jobs, verbose
        As in `ibp.MEIBP`.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components_)
        Probabilities of the training rows' features.
    assignments_ : ndarray of shape (n_samples, n_components_), uint8
        Where they are above one half.
    components_, components_std_ : ndarray of shape (n_components_, n_features)
        Means and standard deviations of the factors.
    components_covariance_ : ndarray of shape (n_features, n_components_, n_components_)
        Covariances of a column's factors.
    stick_parameters_ : ndarray of shape (n_components_, 2)
        Parameters of the Beta distributions of the features' probabilities.
    evidence_ : float
        The objective: an approximation of the evidence lower bound.
    intercept_ : ndarray of shape (n_features,)
        Zeros: there is none.
    n_components_, feature_counts_, alpha_, noise_std_, factor_std_, history_, n_iter_, \
converged_, ending_, n_samples_fit_, restart_evidence_, restart_n_components_, \
restart_kept_, restart_similarity_, notes_
        As in `ibp.MEIBP`.

    References
    ----------
    .. [1] N. Ding, Y. Qi, R. Xiang, I. Molloy and N. Li, "Nonparametric Bayesian Matrix
       Factorization by Power-EP", AISTATS 2010.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> model = ibp.INMF(random_state=0).fit(X - X.min())
    >>> model.transform(X - X.min()).shape == (100, model.n_components_)
    True
    """

    fit_intercept: bool = False
    saved_arrays: ClassVar[dict[str, SavedArray]] = {
        "components_covariance_": SavedArray(np.float64, "DKK")
    }

    power: float
    damping: float | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: allowed
        for name, allowed in SoftAssignmentModel._parameter_constraints.items()
        if name != "fit_intercept"
    } | {
        "power": [Interval(Real, 0, 1, closed="right")],
        "damping": [Interval(Real, 0, 1, closed="left"), None],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 3.0,
        noise_std: float | None = None,
        factor_std: float | None = None,
        learn_hyperparameters: bool = True,
        hyperpriors: dict[str, tuple[float, float]] | None = None,
        power: float = 1.0,
        damping: float | None = None,
        init: Any = "random",
        max_iter: int = 1000,
        tol: float = 1e-5,
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
        from ibp.methods.inmf.method import INMFMethod  # compiled code: loaded when it is needed

        if self.damping is not None and self.damping < 1.0 - self.power:
            raise InvalidValueError(
                f"damping={self.damping} is too little for power={self.power}: the updates would "
                "overshoot",
                f"Give at least {1.0 - self.power:g}, or None",
            )
        settings = self._method_settings(observations)
        del settings["intercept_std"]
        return INMFMethod(
            n_components=None if self.n_components is None else int(self.n_components),
            power=float(self.power),
            damping=self.damping,
            tol=float(self.tol),
            **settings,
        )

    @property
    def _loop_tol(self) -> float:
        return 0.0  # the method itself knows when it has grown enough

    def _keep_state(self, method: Any, context: Any, state: Any) -> None:
        layout, candidate = context.observations.layout, state.best_known
        frozen = state.frozen(layout)
        self.components_, self.components_covariance_ = frozen.mean, frozen.covariance
        self.components_std_ = layout.restore(np.sqrt(candidate.variance))
        self.intercept_ = np.zeros(context.observations.n_features)
        self.codes_ = candidate.probabilities
        sticks = candidate.sticks
        self.stick_parameters_ = np.stack([sticks.first, sticks.second], axis=1)
        self.feature_counts_ = np.count_nonzero(self.assignments_, axis=0).astype(np.int64)
        self._keep_hyperparameters(candidate.hyperparameters)
        self.evidence_ = float(candidate.objective)

    def _draw_factors(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Factors from the Gaussians of each column; what falls below zero is put there."""
        roots = np.linalg.cholesky(self.components_covariance_)
        noise = rng.standard_normal(self.components_.T.shape)
        drawn = self.components_.T + (roots @ noise[:, :, None])[:, :, 0]
        return np.maximum(drawn.T, 0.0)

    def _frozen(self) -> Any:
        from ibp.methods.soft_rows import FrozenMeanField  # compiled code: loaded when needed

        return FrozenMeanField(
            self.components_,
            BetaSticks(*self.stick_parameters_.T).mean_log_odds,
            self.noise_std_**-2.0,
            covariance=self.components_covariance_,
        )
