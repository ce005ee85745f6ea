"""From an estimator's ``init`` to a place to start from.

Any method starts from any fitted model: from its codes, its factors and its intercept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ibp.data import Observations, all_rows
from ibp.errors import InvalidValueError
from ibp.estimators.checkpointing import checkpoint_of_start
from ibp.registry import METHODS
from ibp.starts.codes_and_factors import CodesAndFactors

FloatArray = npt.NDArray[np.float64]


def starting_point(estimator: Any, observations: Observations) -> CodesAndFactors | None:
    """What the estimator's ``init`` stands for; None for a random start."""
    init = estimator.init
    if isinstance(init, str):
        return None if init == "random" else start_of_method(init, estimator, observations)
    if isinstance(init, dict):
        return start_of_arrays(init, estimator, observations)
    return start_of_fitted(init, estimator, observations)


def start_of_method(label: str, estimator: Any, observations: Observations) -> CodesAndFactors:
    """The codes that the method of a label finds, with the same seed and number of features."""
    first = METHODS[label](
        n_components=estimator.n_components,
        random_state=estimator.random_state,
        n_jobs=estimator.n_jobs,
        time_limit=estimator.time_limit,
        verbose=estimator.verbose,
        **checkpoint_of_start(estimator),
    )
    values: Any = observations.source
    if first.nonnegative and not first.fit_intercept and not observations.sparse:
        values = all_rows(values) - np.fmin.reduce(observations.summary.lowest)  # as the paper does
    interrupted = first._fit(values, {})
    codes = first._training_codes().astype(np.float64)
    cut_short = first.ending_ not in ("converged", "max_iter")
    return CodesAndFactors(
        codes, real=first.real_codes, interrupted=interrupted, cut_short=cut_short
    )


def start_of_fitted(model: Any, estimator: Any, observations: Observations) -> CodesAndFactors:
    """A start from another model, fitted to the same rows."""
    check_is_fitted(
        model,
        msg="The model given as init is not fitted yet. (In a parameter grid scikit-learn "
        "makes unfitted copies: give a dict with its 'Z' and factors there.)",
    )
    if not hasattr(model, "_training_codes"):
        raise InvalidValueError(
            f"init is a {type(model).__name__}, which has no features to start from",
            "Give a model of this library, or arrays in a dict",
        )
    try:
        codes = model._training_codes()
    except AttributeError:
        raise InvalidValueError(
            "The model given as init has no assignments_: it was saved without them."
        ) from None
    codes = check_codes(codes, observations.n_samples)
    if model.components_.shape[1] != observations.layout.n_columns:
        raise InvalidValueError(
            f"The model given as init has {model.components_.shape[1]} columns; X has "
            f"{observations.layout.n_columns}."
        )
    both = estimator.fit_intercept and model.fit_intercept
    return CodesAndFactors(
        codes, model.components_, model.intercept_ if both else None, real=model.real_codes
    )


def start_of_arrays(
    init: dict[str, Any], estimator: Any, observations: Observations
) -> CodesAndFactors:
    """A start from the user's codes 'Z' and, if they are given, factors 'A' and 'intercept'."""
    allowed = {"Z", "A"} | ({"intercept"} if estimator.fit_intercept else set())
    if not {"Z"} <= set(init) <= allowed:
        raise InvalidValueError(
            f"init must have the key 'Z' and may have {', '.join(sorted(allowed - {'Z'}))}; it has "
            f"{', '.join(repr(key) for key in init) or 'none'}."
        )
    codes = check_codes(init["Z"], observations.n_samples)
    shape = (codes.shape[1], observations.layout.n_columns)
    return CodesAndFactors(
        codes,
        check_numbers(init, "A", shape) if "A" in init else None,
        check_numbers(init, "intercept", shape[1:]) if "intercept" in init else None,
        real=bool((codes > 1.0).any()),
    )


def check_codes(codes: Any, n_samples: int) -> FloatArray:
    """Codes of as many rows as X has, none negative."""
    array = _numbers(codes.toarray() if hasattr(codes, "toarray") else codes, "Z")
    if array.ndim != 2 or array.shape[0] != n_samples:
        raise InvalidValueError(
            f"init['Z'] has shape {array.shape}; X has {n_samples} rows, "
            f"so it must be ({n_samples}, K)."
        )
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InvalidValueError("init['Z'] must be finite and not negative.")
    return array


def check_numbers(init: dict[str, Any], key: str, shape: tuple[int, ...]) -> FloatArray:
    """An array of the start, of the shape that it must have."""
    array = _numbers(init[key], key)
    if array.shape != shape:
        raise InvalidValueError(f"init[{key!r}] has shape {array.shape}; it must be {shape}.")
    if not np.isfinite(array).all():
        raise InvalidValueError(f"init[{key!r}] must be finite.")
    return array


def _numbers(values: Any, key: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"init[{key!r}] must be an array of numbers: {error}.") from error


def check_not_empty(start: CodesAndFactors | None, estimator: Any) -> None:
    """Refuse a start without features for a method that adds none."""
    if start is not None and start.n_components == 0:
        raise InvalidValueError(
            f"init has no features, and {type(estimator).__name__} adds none to its start."
        )


def check_limit(start: Any, n_components: int | None) -> None:
    """Refuse a start with more features than there may be."""
    if n_components is not None and start is not None and start.n_components > n_components:
        raise InvalidValueError(
            f"init has {start.n_components} features, more than n_components={n_components} allows."
        )
