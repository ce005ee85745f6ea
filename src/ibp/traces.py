"""Traces of fitted samplers, one chain each, in a form that ArviZ reads."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from ibp.methods.samples import burned_sweeps
from ibp.registry import CARDS, class_names

# The log of the joint density, which ArviZ keeps beside the parameters and calls lp.
LOG_JOINT = "log_joint"


def to_arviz(*models: Any) -> Any:
    """The traces of one or more fitted samplers for ArviZ.

    Needs ArviZ: ``pip install "ibp[arviz]"``.

    Parameters
    ----------
    *models : fitted samplers
        One chain each: fits of the same data and settings that differ in their ``random_state``.
        Sweeps of the burn-in are dropped, all others are draws whatever ``thin`` is. Of chains of
        different lengths the last draws are taken, as many as the shortest has.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The first with ArviZ before 1.0. Its group ``posterior`` has the hyperparameters and the
        number of features; ``sample_stats`` has the log of the joint density, as ``lp``. The names
        of the methods and of this library are among its attributes.

    Examples
    --------
    >>> chains = [AcceleratedGibbs(random_state=seed).fit(X) for seed in range(4)]  # doctest: +SKIP
    >>> arviz.summary(to_arviz(*chains))  # doctest: +SKIP
    """
    posterior = stacked_traces(*models)
    groups: dict[str, Any] = {"posterior": posterior}
    if LOG_JOINT in posterior:
        groups["sample_stats"] = {"lp": posterior.pop(LOG_JOINT)}
    try:
        import arviz
    except ImportError as error:
        raise ImportError('Traces for ArviZ need it: pip install "ibp[arviz]".') from error
    from ibp import __version__

    attributes = {  # under the names that ArviZ expects
        "method": ", ".join(sorted({type(model).__name__ for model in models})),
        "inference_library": "ibp",
        "inference_library_version": __version__,
    }
    if "posterior" in inspect.signature(arviz.from_dict).parameters:  # before 1.0
        return arviz.from_dict(**groups, attrs=attributes)
    return arviz.from_dict(groups, attrs={"/": attributes})


def stacked_traces(*models: Any) -> dict[str, npt.NDArray[Any]]:
    """The traces of one or more fitted samplers as arrays of shape (chains, draws), by name.

    Which sweeps these are is said at `to_arviz`.

    Parameters
    ----------
    *models : fitted samplers
        One chain each.

    Returns
    -------
    dict of ndarrays
        Hyperparameters, number of features and ``log_joint``.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> chains = [ibp.AcceleratedGibbs(4, max_iter=20, random_state=s).fit(X) for s in range(2)]
    >>> ibp.traces.stacked_traces(*chains)["noise_std"].shape
    (2, 10)
    """
    if not models:
        raise ValueError("There is no chain: give one or more fitted samplers.")
    names = list(_trace_of(models[0]))
    for model in models:
        _check_chain(model, names)
    n_draws = min(_n_draws(model) for model in models)
    return {
        name: np.stack([np.asarray(model.trace_[name])[-n_draws:] for model in models])
        for name in names
    }


def _trace_of(model: Any) -> dict[str, npt.NDArray[Any]]:
    """The trace of a model, or an error that says why it has none."""
    kind = type(model).__name__
    if isinstance(model, (list, tuple)):
        raise TypeError(f"Give the models one by one, not as a {kind}: to_arviz(*models).")
    if not hasattr(model, "burn_in"):
        samplers = class_names(card for card in CARDS.values() if card.samples)
        raise TypeError(
            f"{kind} is not a sampler, so it has no chain to look at. {samplers} are; the progress "
            "of any other model is in its history_."
        )
    if not hasattr(model, "trace_"):
        raise NotFittedError(f"This {kind} is not fitted yet: call fit first.")
    trace: dict[str, npt.NDArray[Any]] = model.trace_
    return trace


def _check_chain(model: Any, names: list[str]) -> None:
    """Refuse a chain that has nothing to show, or something else than the others."""
    kind, trace = type(model).__name__, _trace_of(model)
    if set(trace) != set(names):
        raise ValueError(
            f"The models have different traces ({', '.join(sorted(names))}; {kind} has "
            f"{', '.join(sorted(trace))}), so they are not chains of one posterior."
        )
    if _n_draws(model) < 1:
        raise ValueError(
            f"This {kind} has no sweeps after its burn-in: it made {_n_sweeps(model)} and burn_in "
            f"is {model.burn_in}. Fit with more sweeps (max_iter) or a shorter burn_in."
        )


def _n_sweeps(model: Any) -> int:
    """How many sweeps a model made."""
    return min((len(values) for values in model.trace_.values()), default=0)


def _n_draws(model: Any) -> int:
    """How many of its sweeps came after the burn-in."""
    n_sweeps = _n_sweeps(model)
    return n_sweeps - burned_sweeps(model.burn_in, n_sweeps)
