"""From an estimator's settings to the model's hyperparameters.

With noise of each column on its own they are in units of the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.data import Observations
from ibp.data.units import rounding_variance
from ibp.errors import InvalidTypeError, InvalidValueError
from ibp.model.column_noise import (
    SHARE,
    SHARE_FOR_WEIGHTS,
    ColumnHyperparameters,
    ColumnNoise,
    KnownColumns,
)
from ibp.model.hyperparameters import GammaPosterior, Hyperparameters, Known

FloatArray = npt.NDArray[np.float64]

# The paper fixes both standard deviations at three quarters of the data's.
DEFAULT_STD_FRACTION = 0.75
# Spread of the intercept's prior, in standard deviations of the data.
INTERCEPT_STDS = 10.0
SMALLEST_STD, LARGEST_STD = 1e-100, 1e100
HYPERPRIORS = ("noise_precision", "factor_precision", "alpha")


def hyperparameters_of(
    estimator: Any, observations: Observations, n_components: int
) -> Hyperparameters:
    """Known values, or posteriors that begin at them, for about so many features.

    Standard deviations that are not given come from the model that the fit starts from, if they
    are learned, else from the data. An estimator without a ``factor_std`` or an ``alpha`` has no
    use for it.
    """
    stds = {
        name: _standard_deviation(estimator, name, observations)
        if hasattr(estimator, name)
        else 1.0
        for name in ("noise_std", "factor_std")
    }
    known = Hyperparameters.known(**stds, alpha=float(getattr(estimator, "alpha", 1.0)))
    needed = [
        name
        for name, parameter in zip(HYPERPRIORS, ("noise_std", "factor_std", "alpha"), strict=True)
        if hasattr(estimator, parameter)
    ]
    given = given_hyperpriors(estimator.hyperpriors, needed)
    if not estimator.learn_hyperparameters:
        return known
    rate = 1e-3 * data_scale(estimator, observations) ** 2
    priors = dict(zip(HYPERPRIORS, [(1.0, rate), (1.0, rate), (1.0, 1.0)], strict=True)) | given
    for name in needed:
        if not priors[name][1] > 0:
            raise InvalidValueError(
                f"is constant, so the default hyperprior of {name} has no scale",
                f"Give hyperpriors={{{name!r}: (shape, rate)}} or check the data",
                about="X",
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


def column_hyperparameters_of(
    estimator: Any, observations: Observations, n_components: int
) -> ColumnHyperparameters:
    """Known values, or posteriors that begin at them, with noise of each column on its own."""
    noise, factors = (
        _standard_deviations(estimator, name, observations) for name in ("noise_std", "factor_std")
    )
    given = given_hyperpriors(estimator.hyperpriors, list(HYPERPRIORS))
    if not estimator.learn_hyperparameters:
        return ColumnHyperparameters(
            KnownColumns(noise**-2.0), KnownColumns(factors**-2.0), Known(float(estimator.alpha))
        )
    priors = {"factor_precision": (1.0, 1e-3), "alpha": (1.0, 1.0)} | given
    return ColumnHyperparameters(
        ColumnNoise.starting_at(
            noise**-2.0,
            observations.column_counts,
            rounding_variance(observations.resolution),
            given.get("noise_precision"),
            SHARE_FOR_WEIGHTS if estimator.real_codes else SHARE,
        ),
        GammaPosterior.starting_at(
            1.0 / float(np.mean(factors**2)) if factors.size else 1.0,
            priors["factor_precision"],
            n_components * observations.n_features / 2,
        ),
        GammaPosterior.starting_at(float(estimator.alpha), priors["alpha"], n_components),
    )


def _standard_deviations(estimator: Any, name: str, observations: Observations) -> FloatArray:
    """A standard deviation for each column that takes part, in its unit."""
    given, layout = _given_or_inherited(estimator, name), observations.layout
    if given is None:
        if layout.n_features == 0:
            raise _constant(estimator, name, observations)
        return np.full(layout.n_features, DEFAULT_STD_FRACTION)
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must be a number, or one for each column") from None
    if values.ndim > 0 and values.shape != (layout.n_columns,):
        raise InvalidValueError(
            f"{name} has the shape {values.shape}, but X has {layout.n_columns} columns",
            "Give one number, or one for each column",
        )
    if not ((values > SMALLEST_STD) & (values < LARGEST_STD)).all():
        raise InvalidValueError(
            f"{name} must be positive, and its square within double precision",
        )
    return np.asarray(layout.arrange(np.broadcast_to(values, layout.n_columns)) / observations.unit)


def data_scale(estimator: Any, observations: Observations) -> float:
    """Standard deviation of the data; what an intercept explains is no measure of the rest."""
    summary = observations.summary
    return summary.std_within_columns if estimator.fit_intercept else summary.std


def intercept_std_of(estimator: Any, observations: Observations, noise_std: Any) -> float | None:
    """Spread of the intercept's prior, in the observations' units; None without an intercept."""
    if not estimator.fit_intercept:
        return None
    if observations.has_units:
        return INTERCEPT_STDS
    return INTERCEPT_STDS * (observations.summary.std or noise_std)


def _given_or_inherited(estimator: Any, name: str) -> Any:
    """A standard deviation that was given, or that of the model that learning starts from."""
    given = getattr(estimator, name, None)
    if given is None and estimator.learn_hyperparameters:
        given = getattr(estimator.init, f"{name}_", None)
    return given


def _constant(estimator: Any, name: str, observations: Observations) -> InvalidValueError:
    where = " in each column" if estimator.fit_intercept else ""
    return InvalidValueError(
        f"is constant{where} (n_samples = {observations.n_samples}), so there is no scale to "
        f"estimate {name} from",
        f"Give {name} explicitly or check the data",
        about="X",
    )


def _standard_deviation(estimator: Any, name: str, observations: Observations) -> float:
    given = _given_or_inherited(estimator, name)
    if np.ndim(given):  # of each column; here they are to be one
        given = np.sqrt(np.mean(np.square(given)))
    scale = data_scale(estimator, observations)
    if given is None and not scale > 0:
        raise _constant(estimator, name, observations)
    value = DEFAULT_STD_FRACTION * scale if given is None else float(given)
    if not SMALLEST_STD < value < LARGEST_STD:
        raise InvalidValueError(
            f"{name} is {value:g}, whose square leaves the range of double precision",
            "Multiply the data by a constant that brings it nearer to 1",
        )
    return value


def given_hyperpriors(
    hyperpriors: dict[str, Any] | None, needed: list[str]
) -> dict[str, tuple[float, float]]:
    """The pairs that the user gave for what an estimator has, checked."""
    priors = {}
    for name, pair in (hyperpriors or {}).items():
        if name not in needed:
            known = ", ".join(needed)
            raise InvalidValueError(f"hyperpriors has the key {name!r}", f"it can have {known}")
        try:
            shape, rate = (float(value) for value in pair)
            valid = 0 < shape < np.inf and 0 < rate < np.inf
        except (TypeError, ValueError):
            valid = False
        if not valid:
            raise InvalidValueError(
                f"hyperpriors[{name!r}] is {pair!r}; it must be a pair (shape, rate) of "
                "positive numbers."
            )
        priors[name] = (shape, rate)
    return priors
