"""Mean-field variational inference for the IBP: finite and infinite."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from ibp.data import Observations
from ibp.estimators.binary import SoftAssignmentModel
from ibp.estimators.starting import check_not_empty

# Features of a model that is given no number.
DEFAULT_TRUNCATION = 20


class MeanFieldVIBP(SoftAssignmentModel):
    """What the finite and the infinite estimator have in common."""

    nonnegative: ClassVar[bool] = False

    @property
    @abstractmethod
    def _method_class(self) -> Any:
        """The method, loaded when it is needed."""

    def _method(self, observations: Observations) -> Any:
        n_components = DEFAULT_TRUNCATION if self.n_components is None else int(self.n_components)
        settings = self._method_settings(observations)
        check_not_empty(settings["start"], self)
        return self._method_class(n_components=n_components, **settings)

    def _keep_state(self, method: Any, context: Any, state: Any) -> None:
        restore = context.observations.layout.restore
        self.components_ = restore(state.factors.mean)
        self.components_std_ = restore(np.sqrt(state.factors.variance))
        self.intercept_ = state.offset(context.observations)
        self.codes_ = state.probabilities
        self.stick_parameters_ = np.stack([state.sticks.first, state.sticks.second], axis=1)
        self.feature_counts_ = np.count_nonzero(self.assignments_, axis=0).astype(np.int64)
        self._keep_hyperparameters(state.hyperparameters)
        evidence = state.evidence(context.observations)
        self.evidence_ = evidence.total
        self.evidence_parts_ = {name: float(value) for name, value in vars(evidence).items()}

    def _frozen(self) -> Any:
        from ibp.methods.soft_rows import FrozenMeanField  # compiled code

        return FrozenMeanField(
            self.components_,
            self._method_class.sticks(*self.stick_parameters_.T).log_odds(),
            self.noise_std_**-2.0,
            self.components_std_**2,
            self.intercept_,
        )


class FiniteVIBP(MeanFieldVIBP):
    """Mean-field inference in the finite beta-Bernoulli model with Gaussian factors (f-VIBP).

    Every row has feature k with a probability pi_k ~ Beta(alpha / K, 1); factors are Gaussian and
    signed. The posterior is approximated by independent Bernoulli, Gaussian and Beta distributions
    [1]_, and a lower bound of the evidence rises with every sweep. `transform` returns
    probabilities.

    Parameters
    ----------
    n_components : int, default=None
        K, the truncation; None for 20. Features that the data do not need end with nobody.
    fit_intercept : bool, default=True
        Whether each column has an offset of its own. Gaussian factors have mean zero, so without
        it the data should be centred.
    alpha, noise_std, factor_std, learn_hyperparameters, hyperpriors
        As in `ibp.MEIBP`; `factor_std` is the standard deviation of Gaussian factors here.
    init : "random", dict or fitted model, default="random"
        The start: probabilities drawn uniformly; arrays ``{"Z": N x K}`` with, if at hand, ``"A"``
        (K x D) and ``"intercept"``; or any model of this library fitted to the same rows.
    max_iter, tol, n_init, time_limit, checkpoint, checkpoint_seconds, resume, callbacks, \
random_state, n_jobs, verbose
        As in `ibp.MEIBP`; `tol` is 1e-4 by default.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components_)
        Probabilities of the training rows' features.
    assignments_ : ndarray of shape (n_samples, n_components_), uint8
        Where they are above one half.
    components_, components_std_ : ndarray of shape (n_components_, n_features)
        Means and standard deviations of the factors.
    stick_parameters_ : ndarray of shape (n_components_, 2)
        Parameters of the Beta distributions of pi (here) or of the sticks (`InfiniteVIBP`).
    intercept_, n_components_, feature_counts_, alpha_, noise_std_, factor_std_, evidence_, \
evidence_parts_, history_, n_iter_, converged_, ending_, n_samples_fit_, restart_evidence_, \
restart_n_components_, restart_kept_, restart_similarity_, notes_
        As in `ibp.MEIBP`.

    References
    ----------
    .. [1] F. Doshi-Velez, K. T. Miller, J. Van Gael and Y. W. Teh, "Variational Inference for the
       Indian Buffet Process", AISTATS 2009.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> model = ibp.FiniteVIBP(4, n_init=3, random_state=0).fit(X)
    >>> model.transform(X).shape, bool(((0 <= model.codes_) & (model.codes_ <= 1)).all())
    ((100, 4), True)
    """

    @property
    def _method_class(self) -> Any:
        from ibp.methods.mean_field.method import FiniteVIBPMethod

        return FiniteVIBPMethod


class InfiniteVIBP(MeanFieldVIBP):
    """Mean-field inference in the stick-breaking IBP, truncated at K sticks (i-VIBP).

    Feature k has the probability v_1 ... v_k with v ~ Beta(alpha, 1), so later features are rarer.
    The expectation of ln(1 - v_1 ... v_k) is bounded by a multinomial [1]_. Parameters and
    attributes are those of `ibp.FiniteVIBP`.

    References
    ----------
    .. [1] F. Doshi-Velez, K. T. Miller, J. Van Gael and Y. W. Teh, "Variational Inference for the
       Indian Buffet Process", AISTATS 2009.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> ibp.InfiniteVIBP(6, n_init=3, random_state=0).fit(X).components_.shape
    (6, 36)
    """

    @property
    def _method_class(self) -> Any:
        from ibp.methods.mean_field.method import InfiniteVIBPMethod

        return InfiniteVIBPMethod
