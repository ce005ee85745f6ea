"""The two protocols, which are never mixed.

*As published*: the paper's presets of `ibp.METHODS`, that is fixed standard deviations, alpha = 3 and
random starts; data with a zero minimum for nonnegative factors, with zero means of the columns for
Gaussian ones, and no intercept. *As shipped*: the library's defaults, on the data as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.registry import CARDS, METHODS

PUBLISHED, SHIPPED = "as published", "as shipped"
# More sweeps than any time limit leaves room for.
MANY_SWEEPS = 1_000_000


def estimator(protocol: str, label: str, n_components: int | None, **changes: Any) -> Any:
    """The estimator of a label under a protocol, not fitted yet, with one thread."""
    settings = {"n_jobs": 1, "max_iter": MANY_SWEEPS} | changes
    if protocol == PUBLISHED:
        model = METHODS[label](n_components, **settings)
        if "fit_intercept" in model.get_params():
            model.set_params(fit_intercept=False)
        return model
    card = next(card for card in CARDS.values() if label in card.labels)
    if card.name == "MEIBP":  # whose labels name our own settings
        return METHODS[label](n_components, **settings)
    if n_components is not None and card.labels[label].n_components != "unbounded":
        settings["n_components"] = n_components
    return card.estimator(**settings)


def offset_of(
    protocol: str, model: Any, seen: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64] | float:
    """What is added to the data for an estimator, from what it is to see of them."""
    if protocol == SHIPPED:
        return 0.0
    if model.nonnegative:
        return -float(np.nanmin(seen))
    return -np.asarray(np.nanmean(seen, axis=0, dtype=np.float64))
