"""Models whose rows have a feature or do not, with hard assignments or with probabilities."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ibp.data import Observations
from ibp.errors import InvalidValueError
from ibp.estimators.base import LatentFeatureModel
from ibp.estimators.chunked import by_chunks, is_dask
from ibp.estimators.fitting import init_constraint, keep_parameters
from ibp.estimators.hyperparameters import hyperparameters_of, intercept_std_of
from ibp.estimators.starting import check_limit, starting_point
from ibp.evaluate import Prediction
from ibp.model import Hyperparameters
from ibp.model.sampling import sample_data
from ibp.parallel import Executor
from ibp.persistence import SavedArray
from ibp.random_state import spawn_generators

if TYPE_CHECKING:
    from ibp.methods.meibp.assign import FrozenModel

FloatArray = npt.NDArray[np.float64]

# Beyond this double precision cannot tell a probability from one.
LARGEST_LOG_ODDS = 36.0


class BinaryFeatureModel(LatentFeatureModel):
    """A model whose rows have a feature or do not."""

    saved_arrays: ClassVar[dict[str, SavedArray]] = {
        "components_std_": SavedArray(np.float64, "KD", negative=False),
        "feature_counts_": SavedArray(np.int64, "K", negative=False),
    }
    saved_values: ClassVar[dict[str, type]] = {"alpha_": float, "factor_std_": float}

    alpha: float
    factor_std: float | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        LatentFeatureModel._parameter_constraints
        | {
            "n_components": [Interval(Integral, 1, None, closed="left"), None],
            "fit_intercept": ["boolean"],
            "alpha": [Interval(Real, 0, None, closed="neither")],
            "factor_std": [Interval(Real, 0, None, closed="neither"), None],
            "init": init_constraint("random"),
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

    def _method_settings(self, observations: Observations) -> dict[str, Any]:
        """What every method is told: start, hyperparameters, intercept, threads."""
        start = starting_point(self, observations)
        if start is not None:
            start = start.binary()
            check_limit(start, self.n_components)
        expected = start.n_components if start is not None else self.n_components or 1
        hyperparameters = hyperparameters_of(self, observations, expected)
        return {
            "start": start,
            "hyperparameters": hyperparameters,
            "intercept_std": intercept_std_of(self, observations, hyperparameters.noise_std),
        }

    def _keep_hyperparameters(self, hyperparameters: Hyperparameters) -> None:
        """Make attributes of the posterior means."""
        self.alpha_ = float(hyperparameters.alpha.mean)
        self.noise_std_ = float(hyperparameters.noise_std)
        self.factor_std_ = float(hyperparameters.factor_std)

    def confidence(self, X: Any) -> Any:
        """How sure each bit of a row is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            What the row objective, a log-probability in nats, loses when that bit alone flips.
            Near 0: either value explains the row about as well. Below 0, which only a double
            greedy leaves behind: the other value would explain it better. Models with
            probabilities say 36 where double precision could not tell them from 0 or 1.
        """
        check_is_fitted(self)
        if is_dask(X):
            return by_chunks(self, X, "confidence", n_columns=self.n_components_, dtype=np.float64)
        return self._margins(self._observe(X))

    @abstractmethod
    def _margins(self, observations: Observations) -> FloatArray:
        """What each bit of new rows is worth."""

    def probabilities(self, X: Any) -> Any:
        """How probable it is that a row has a feature, given the row and what was learned.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; NaN where missing.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            P(z_nk = 1 | row n), factors and hyperparameters being as learned. Models with hard
            codes sum over the row's best codes, found by an exact search within a budget; models
            with soft ones have it from mean-field inference, as `transform` has.
        """
        check_is_fitted(self)
        if is_dask(X):
            return by_chunks(
                self, X, "probabilities", n_columns=self.n_components_, dtype=np.float64
            )
        return self._probabilities(self._observe(X))

    @abstractmethod
    def _probabilities(self, observations: Observations) -> FloatArray:
        """The probabilities of the bits of new rows."""

    def _draw_factors(self, rng: np.random.Generator) -> FloatArray:
        """Draw factors from their posterior."""
        return np.asarray(rng.normal(self.components_, self.components_std_))

    def _draw_codes(
        self, assignments: npt.NDArray[np.uint8], rng: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Codes of rows that have some features: these alone."""
        return assignments

    def sample(
        self, n_samples: int = 1, random_state: Any = None
    ) -> tuple[FloatArray, npt.NDArray[Any]]:
        """Draw new observations from the fitted model.

        Each row has feature k with probability m_k / (N + 1), as the next customer of the buffet
        would; factors are drawn once from their posteriors, each on its own; features that no
        training row has are left out, as the model knows nothing of them.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState, Generator or None, default=None
            By default, the estimator's own.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The observations.
        Z : ndarray of shape (n_samples, n_components_)
            Their features (uint8), or how much of each they have if codes are weighted.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 1:
            raise InvalidValueError(f"n_samples must be a positive integer; it is {n_samples!r}")
        if random_state is None:
            random_state = self.random_state
        (rng,) = spawn_generators(random_state, 1)
        probability = self.feature_counts_ / (self.n_samples_fit_ + 1.0)
        assignments = (rng.random((n_samples, self.n_components_)) < probability).astype(np.uint8)
        factors = self._draw_factors(rng)
        codes = self._draw_codes(assignments, rng)
        return sample_data(codes, factors, self.noise_std_, rng) + self.intercept_, codes


class HardAssignmentModel(BinaryFeatureModel):
    """A model whose rows are placed by maximising a quadratic function of their bits."""

    # Some codes of training rows that are elsewhere, for predictions when these are gone.
    _some_codes: npt.NDArray[np.uint8]
    # Of the row search: see `ibp.MEIBP`, which has them as parameters.
    optimizer: str = "exact"
    node_budget: int = 1000
    row_start: Literal["current", "empty"] = "current"

    def _training_codes(self) -> npt.NDArray[np.uint8]:
        return np.asarray(self.assignments_)

    def _codes(self, observations: Observations) -> npt.NDArray[np.uint8]:
        return self._assign(observations)[0]

    def _margins(self, observations: Observations) -> FloatArray:
        return self._assign(observations, with_losses=True)[1]

    def _probabilities(self, observations: Observations) -> FloatArray:
        with self._executor() as executor:
            return np.asarray(self._frozen().probabilities(observations, executor))

    def _predict(self, seen: Observations, executor: Executor) -> Prediction:
        from ibp.methods.predictions import MixturePrediction  # compiled code, too

        return MixturePrediction(self._frozen(), seen, executor)

    def _predict_training(self, rows: Any, seen: Observations, executor: Executor) -> Prediction:
        from ibp.methods.predictions import MixturePrediction

        return MixturePrediction(self._frozen(), seen, executor, self._training_codes()[rows])

    def _assign(
        self, observations: Observations, *, with_losses: bool = False, **known: Any
    ) -> tuple[npt.NDArray[np.uint8], FloatArray]:
        """Assignments of new rows and, if asked for, what each of their bits is worth."""
        with self._executor() as executor:
            return self._frozen(**known).assign(observations, executor, with_losses=with_losses)

    def _predictive_std(self) -> Any:
        """The spread of recorded values about predictions, where that is not ``noise_std_``."""
        return None

    def _known_codes(self) -> npt.NDArray[np.uint8] | None:
        """Some codes of the training rows, from which searches begin; None if there are none."""
        from ibp.methods.meibp.assign import some_codes

        if "_some_codes" in vars(self):
            return self._some_codes
        return some_codes(self.assignments_) if hasattr(self, "assignments_") else None

    def _frozen(self, **known: Any) -> FrozenModel:
        """What places new rows; what is ``known`` takes the place of own attributes."""
        from ibp.methods.meibp.assign import FrozenModel  # compiled code: loaded late

        own = {
            "mean": self.components_,
            "variance": self.components_std_**2,
            "offset": self.intercept_,
            "counts": self.feature_counts_,
            "noise_std": self.noise_std_,
            "predictive_std": self._predictive_std(),
            "known_codes": self._known_codes(),
        }
        return FrozenModel(
            **(own | known),
            n_samples=self.n_samples_fit_,
            optimizer=self.optimizer,
            thorough=self.row_start == "current",
            node_budget=self.node_budget,
        )


class SoftAssignmentModel(BinaryFeatureModel):
    """A model that knows the probabilities of a row's features, by mean-field inference."""

    saved_arrays: ClassVar[dict[str, SavedArray]] = {
        "stick_parameters_": SavedArray(np.float64, "K2", negative=False)
    }
    saved_rows: ClassVar[dict[str, SavedArray]] = {
        "codes_": SavedArray(np.float64, "NK", negative=False)
    }

    @property
    def assignments_(self) -> npt.NDArray[np.uint8]:
        """The features that a training row has with a probability above one half."""
        return (self.codes_ > 0.5).astype(np.uint8)

    def _training_codes(self) -> FloatArray:
        return np.asarray(self.codes_)

    @abstractmethod
    def _frozen(self) -> Any:
        """What places new rows, with an ``assign(observations, executor)``."""

    def _codes(self, observations: Observations) -> FloatArray:
        with self._executor() as executor:
            return np.asarray(self._frozen().assign(observations, executor))

    def _probabilities(self, observations: Observations) -> FloatArray:
        return self._codes(observations)

    def _margins(self, observations: Observations) -> FloatArray:
        """Log-odds in favour of what is more probable, as far as they can be told."""
        probabilities = self._codes(observations)
        with np.errstate(divide="ignore"):
            log_odds = np.log(probabilities) - np.log1p(-probabilities)
        return np.asarray(np.minimum(np.abs(log_odds), LARGEST_LOG_ODDS))
