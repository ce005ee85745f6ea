"""Gibbs samplers for the IBP: accelerated (factors integrated out) and uncollapsed."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions

from ibp.data import Observations
from ibp.estimators.binary import HardAssignmentModel
from ibp.estimators.fitting import init_constraint, keep_parameters
from ibp.evaluate import Explanation, Prediction
from ibp.methods.samples import PosteriorSamples
from ibp.model.assignment_priors import prior_of
from ibp.parallel import Executor
from ibp.persistence import check_above_noise, check_array, unpacked


class GibbsSampler(HardAssignmentModel):
    """What the two samplers have in common: a chain, and averages over it."""

    burn_in: int | float
    thin: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        HardAssignmentModel._parameter_constraints
        | {
            "init": init_constraint("random", "meibp", "meibp-default"),
            "burn_in": [
                Interval(Integral, 0, None, closed="left"),
                Interval(Real, 0, 1, closed="left"),
            ],
            "thin": [Interval(Integral, 1, None, closed="left")],
        }
    )

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
        burn_in: int | float = 0.5,
        thin: int = 5,
        init: Any = "random",
        max_iter: int = 500,
        tol: float = 0.0,
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

    @property
    def trace_(self) -> dict[str, npt.NDArray[Any]]:
        """Numbers of every sweep, those of the burn-in too: see `ibp.traces` for ArviZ."""
        names = ("alpha", "noise_std", "factor_std", "n_components")
        return {name: self.history_.get(name, np.empty(0)) for name in names} | {
            "log_joint": self.history_["evidence"]
        }

    def _warn_about_fit(self, result: Any) -> None:
        super()._warn_about_fit(result)
        if result.ending == "max_iter" and self.n_iter_ > 0 and not result.state.chain.samples:
            self._warn(
                f"burn_in={self.burn_in} and thin={self.thin} left none of {self.n_iter_} sweeps "
                "to keep, so the last state is the only sample. Lower them, or increase max_iter.",
                UserWarning,
            )

    def _method_settings(self, observations: Observations) -> dict[str, Any]:
        return super()._method_settings(observations) | {
            "burn_in": self.burn_in,
            "thin": int(self.thin),
            "prior": prior_of(self.n_components),
        }

    def _keep_state(self, method: Any, context: Any, state: Any) -> None:
        self.samples_ = PosteriorSamples.of(state.chain.samples or [method.sample(context, state)])
        best = self.samples_.best
        self.assignments_ = np.ascontiguousarray(best.assignments)
        self.components_, self.components_std_ = best.components.copy(), best.components_std.copy()
        self.intercept_ = best.intercept.copy()
        self.feature_counts_ = np.count_nonzero(best.assignments, axis=0).astype(np.int64)
        self.alpha_, self.noise_std_ = best.alpha, best.noise_std
        self.factor_std_, self.evidence_ = best.factor_std, best.log_joint

    def _predict(self, seen: Observations, executor: Executor) -> Prediction:
        return self._explain(seen).of(seen.source)

    def _predict_training(self, rows: Any, seen: Observations, executor: Executor) -> Prediction:
        return self._explain_training().of(seen.source, rows)

    def _explain(self, observations: Observations) -> Explanation:
        """The average of what the kept samples say."""
        samples = self.samples_
        counts = samples.feature_counts
        ends = np.cumsum(samples.n_components)
        codes = [
            self._assign(
                observations,
                mean=sample.components,
                variance=sample.components_std**2,
                offset=sample.intercept,
                counts=counts[end - sample.components.shape[0] : end],
                noise_std=sample.noise_std,
                known_codes=None,  # those of the best sample have other features
            )[0]
            for sample, end in zip(samples, ends, strict=True)
        ]
        return self._averaged(np.concatenate(codes, axis=1))

    def _explain_training(self) -> Explanation:
        return self._averaged(self.samples_.assignments)

    def _averaged(self, codes: npt.NDArray[np.uint8]) -> Explanation:
        """Codes of all samples side by side, and the average of what they predict."""
        samples = self.samples_
        return Explanation(
            codes,
            samples.components / len(samples),
            samples.intercept.mean(axis=0),
            float(np.sqrt((samples.noise_std**2).mean())),
        )

    def _more_arrays(self, *, with_rows: bool) -> dict[str, Any]:
        arrays = {
            f"samples_{field.name}": getattr(self.samples_, field.name)
            for field in fields(self.samples_)
        }
        assignments = arrays.pop("samples_assignments")
        if with_rows and assignments.shape[0] == self.n_samples_fit_:
            arrays["samples_packed"] = np.packbits(assignments, axis=1)
        return arrays

    def _restore_more(self, arrays: dict[str, Any]) -> None:
        n_components = arrays["samples_n_components"]
        check_array(n_components, "samples_n_components", np.int64, (n_components.size,))
        if n_components.size == 0 or (n_components < 0).any():
            raise ValueError("there is no sample, or one with a negative number of features")
        s, k, d = n_components.size, int(n_components.sum()), self.n_features_in_
        shapes = {
            "components": (k, d),
            "components_std": (k, d),
            "intercept": (s, d),
            "alpha": (s,),
            "noise_std": (s,),
            "factor_std": (s,),
            "log_joint": (s,),
        }
        for name, shape in shapes.items():
            check_array(arrays[f"samples_{name}"], f"samples_{name}", np.float64, shape)
        counts = arrays["samples_feature_counts"]
        check_array(counts, "samples_feature_counts", np.int64, (k,))
        if (counts < 1).any() or (counts > self.n_samples_fit_).any():
            raise ValueError("samples_feature_counts has impossible counts")
        for name in ("alpha", "noise_std", "factor_std"):
            if not (arrays[f"samples_{name}"] > 0).all():
                raise ValueError(f"samples_{name} has entries that are not positive")
        for name in ("components", "components_std", "intercept"):
            check_above_noise(
                arrays[f"samples_{name}"], f"samples_{name}", arrays["samples_noise_std"]
            )
        assignments = np.zeros((0, k), dtype=np.uint8)
        if "samples_packed" in arrays:
            assignments = unpacked(
                arrays["samples_packed"], "samples_packed", self.n_samples_fit_, k
            )
        self.samples_ = PosteriorSamples(
            n_components=n_components,
            assignments=assignments,
            feature_counts=counts,
            **{name: arrays[f"samples_{name}"] for name in shapes},
        )


class AcceleratedGibbs(GibbsSampler):
    """Gibbs sampling of binary features, their Gaussian factors integrated out (AIBP).

    A Markov chain over Z whose limit is the exact posterior of the linear-Gaussian IBP model, row
    by row in O(K^2 + KD) [1]_. With `n_components` None the number of features is unbounded and
    part of the posterior; with a number the model is the finite one with so many features.

    Parameters
    ----------
    n_components : int, default=None
        None for the Indian Buffet Process; a number for the truncated, beta-Bernoulli model.
    fit_intercept : bool, default=True
        Whether each column has an offset of its own. Gaussian factors have mean zero, so without
        it the data should be centred.
    alpha, noise_std, factor_std
        As in `ibp.MEIBP`; `factor_std` is the standard deviation of Gaussian factors here.
    learn_hyperparameters : bool, default=True
        Whether alpha, noise_std and factor_std are sampled, starting from the values given.
    hyperpriors : dict, default=None
        As in `ibp.MEIBP`.
    burn_in : int or float, default=0.5
        Sweeps that are not kept: their number or, below 1, which part of all that were made.
    thin : int, default=5
        Of the other sweeps, every so many is kept.
    init : "random", "meibp", "meibp-default", dict or fitted model, default="random"
        The start: a draw from the prior; what that method finds; arrays ``{"Z": N x K}`` with, if
        at hand, ``"A"`` (K x D) and ``"intercept"``; or any model fitted to the same rows.
    max_iter : int, default=500
        Sweeps.
    tol : float, default=0
        Above 0, sampling ends when the training log-likelihood of five sweeps differs from that of
        the five before by less than this fraction: the paper's rule, which proves nothing.
    n_init : int, default=1
        Number of chains, of which the one that ends with the highest joint probability is kept.
        For several chains side by side fit several models, see `ibp.traces`.
    time_limit, checkpoint, checkpoint_seconds, resume, callbacks, random_state, n_jobs, verbose
        As in `ibp.MEIBP`.

    Attributes
    ----------
    samples_ : ibp.methods.samples.PosteriorSamples
        The kept samples, a sequence; `impute` and the scores average their predictions.
    assignments_ : ndarray of shape (n_samples, n_components_), uint8
        Z of the kept sample of highest joint probability, as is all that follows.
    components_, components_std_ : ndarray of shape (n_components_, n_features)
        Means and standard deviations of the factors given this Z (`UncollapsedGibbs`: the factors
        as sampled).
    evidence_ : float
        Log of its joint probability density with X, in the units of X: multiplying X by a constant
        shifts it.
    intercept_, n_components_, feature_counts_, alpha_, noise_std_, factor_std_, n_iter_, \
converged_, ending_, n_samples_fit_, restart_evidence_, restart_n_components_, \
restart_kept_, restart_similarity_, notes_
        As in `ibp.MEIBP`.
    history_ : dict of ndarrays
        As in `ibp.MEIBP`, ``evidence`` being that log of the joint density after each sweep;
        further alpha, noise_std and factor_std.
    trace_ : dict of ndarrays
        The part of it that describes the chain.

    References
    ----------
    .. [1] F. Doshi-Velez and Z. Ghahramani, "Accelerated Sampling for the Indian Buffet Process",
       ICML 2009.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> start = ibp.MEIBP(random_state=0).fit(X)
    >>> chain = ibp.AcceleratedGibbs(init=start, max_iter=20, random_state=0).fit(X)
    >>> len(chain.samples_), bool(chain.samples_.n_components.min() >= 4)
    (2, True)
    """

    nonnegative: ClassVar[bool] = False

    def _method(self, observations: Observations) -> Any:
        from ibp.methods.accelerated_gibbs import AcceleratedGibbsMethod  # compiled code

        return AcceleratedGibbsMethod(**self._method_settings(observations))


class UncollapsedGibbs(GibbsSampler):
    """Gibbs sampling of binary features and of their factors (UGibbs).

    A Markov chain over Z and A. Features that only one row has are born and die by a
    birth-and-death move, in which what a new feature could be is integrated out. Parameters and
    attributes are those of `ibp.AcceleratedGibbs`, and one more.

    Parameters
    ----------
    factors : {"half_normal", "gaussian"}, default="half_normal"
        The prior of the factors: nonnegative, with scale `factor_std`, or Gaussian.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> start = ibp.MEIBP(random_state=0).fit(X)
    >>> chain = ibp.UncollapsedGibbs(4, init=start, max_iter=20, random_state=0).fit(X)
    >>> chain.trace_["noise_std"].shape, bool((chain.components_ >= 0).all())
    ((20,), True)
    """

    factors: Literal["half_normal", "gaussian"]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = GibbsSampler._parameter_constraints | {
        "factors": [StrOptions({"half_normal", "gaussian"})]
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        factors: Literal["half_normal", "gaussian"] = "half_normal",
        fit_intercept: bool = True,
        alpha: float = 3.0,
        noise_std: float | None = None,
        factor_std: float | None = None,
        learn_hyperparameters: bool = True,
        hyperpriors: dict[str, tuple[float, float]] | None = None,
        burn_in: int | float = 0.5,
        thin: int = 5,
        init: Any = "random",
        max_iter: int = 500,
        tol: float = 0.0,
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

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether sums of factors are never negative."""
        return self.factors == "half_normal"

    def _method(self, observations: Observations) -> Any:
        from ibp.methods.uncollapsed_gibbs.method import UncollapsedGibbsMethod  # compiled code

        return UncollapsedGibbsMethod(factors=self.factors, **self._method_settings(observations))
