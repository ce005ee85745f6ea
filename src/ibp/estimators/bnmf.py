"""BNMF: Bayesian nonnegative matrix factorisation by iterated conditional modes."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from ibp.data import Observations
from ibp.estimators.base import LatentFeatureModel
from ibp.estimators.fitting import init_constraint, keep_parameters
from ibp.estimators.hyperparameters import hyperparameters_of
from ibp.estimators.starting import check_limit, check_not_empty, starting_point
from ibp.persistence import SavedArray


class BNMF(LatentFeatureModel):
    """Nonnegative codes times nonnegative factors, by iterated conditional modes.

    X = BA + E with exponential priors of both factors and Gaussian noise [1]_. The codes are real
    numbers, not zeros and ones, and the number of features is given: the parametric rival of the
    binary models. Every step raises the joint density. Data should have their minimum at 0.

    Parameters
    ----------
    n_components : int, default=20
        Number of features.
    code_rate : float, default=1.0
        Rate of the codes' exponential prior.
    factor_rate : float, default=None
        Rate of the factors'; None makes n_components / (code_rate * root mean square of X), so
        that the prior expects entries of the size of those of X.
    noise_std : float, default=None
        Standard deviation of the noise; None means 0.75 times that of the data.
    learn_hyperparameters : bool, default=True
        Whether noise_std is learned, starting from the value given.
    hyperpriors : dict, default=None
        Gamma prior (shape, rate) of the noise's precision, under the key ``"noise_precision"``;
        by default (1, 0.001 var X).
    inner_sweeps : int, default=20
        Passes over the features in each update of codes and of factors.
    init : "random", dict or fitted model, default="random"
        The start: exponential draws; arrays ``{"Z": N x K}`` with, if at hand, ``"A"`` (K x D);
        or any model of this library fitted to the same rows.
    max_iter, tol, n_init, time_limit, checkpoint, checkpoint_seconds, resume, callbacks, \
random_state, n_jobs, verbose
        As in `ibp.MEIBP`; `tol` is 1e-4 by default.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components_)
        B, of the training rows.
    components_ : ndarray of shape (n_components_, n_features)
        A.
    intercept_ : ndarray of shape (n_features,)
        Zeros: there is none.
    n_components_ : int
        Number of features in use; those that died are left out.
    noise_std_ : float
        Of the noise, learned or as given.
    evidence_ : float
        Log of the joint density of X, codes, factors and noise.
    history_ : dict of ndarrays
        As in `ibp.MEIBP`; n_changed counts codes that moved by more than a thousandth of the
        largest of their feature.
    n_iter_, converged_, ending_, n_samples_fit_, restart_evidence_, restart_n_components_, \
restart_kept_, restart_similarity_, notes_
        As in `ibp.MEIBP`.

    References
    ----------
    .. [1] M. N. Schmidt, O. Winther and L. K. Hansen, "Bayesian Non-negative Matrix
       Factorization", ICA 2009.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> model = ibp.BNMF(5, random_state=0).fit(X - X.min())
    >>> bool((model.transform(X - X.min()) >= 0).all())
    True
    """

    saved_rows: ClassVar[dict[str, SavedArray]] = {
        "codes_": SavedArray(np.float64, "NK", negative=False)
    }
    saved_values: ClassVar[dict[str, type]] = {"code_rate_": float, "factor_rate_": float}

    code_rate: float
    factor_rate: float | None
    inner_sweeps: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        LatentFeatureModel._parameter_constraints
        | {
            "n_components": [Interval(Integral, 1, None, closed="left")],
            "code_rate": [Interval(Real, 0, None, closed="neither")],
            "factor_rate": [Interval(Real, 0, None, closed="neither"), None],
            "inner_sweeps": [Interval(Integral, 1, None, closed="left")],
            "init": init_constraint("random"),
        }
    )

    def __init__(
        self,
        n_components: int = 20,
        *,
        code_rate: float = 1.0,
        factor_rate: float | None = None,
        noise_std: float | None = None,
        learn_hyperparameters: bool = True,
        hyperpriors: dict[str, tuple[float, float]] | None = None,
        inner_sweeps: int = 20,
        init: Any = "random",
        max_iter: int = 200,
        tol: float = 1e-4,
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
        from ibp.methods.bnmf import BNMFMethod  # compiled code: loaded when it is needed

        start = starting_point(self, observations)
        check_limit(start, self.n_components)
        check_not_empty(start, self)
        hyperparameters = hyperparameters_of(self, observations, int(self.n_components))
        return BNMFMethod(
            int(self.n_components),
            hyperparameters.noise_precision,
            code_rate=float(self.code_rate),
            factor_rate=self._factor_rate(observations),
            inner_sweeps=int(self.inner_sweeps),
            start=start,
        )

    def _factor_rate(self, observations: Observations) -> float:
        if self.factor_rate is not None:
            return float(self.factor_rate)
        mean_square = observations.sum_of_squares / max(observations.n_observed, 1)
        return float(self.n_components / (self.code_rate * (np.sqrt(mean_square) or 1.0)))

    def _keep_state(self, method: Any, context: Any, state: Any) -> None:
        used = state.in_use
        self.codes_ = np.ascontiguousarray(state.codes[:, used])
        self.components_ = context.observations.layout.restore(state.factors)[used]
        self.intercept_ = np.zeros(context.observations.n_features)
        self.noise_std_ = state.noise_std
        self.code_rate_, self.factor_rate_ = method.code_rate, method.factor_rate
        self.evidence_ = float(method.report(context, state).evidence)

    def _training_codes(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.codes_)

    def _codes(self, observations: Observations) -> npt.NDArray[np.float64]:
        from ibp.methods.bnmf import FrozenBNMF  # compiled code: loaded when it is needed

        frozen = FrozenBNMF(self.components_, self.noise_std_**2, self.code_rate_)
        with self._executor() as executor:
            return np.asarray(frozen.codes(observations, executor))
