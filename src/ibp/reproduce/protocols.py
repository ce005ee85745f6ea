"""The two protocols, which are never mixed.

*As published*: the paper's presets of `ibp.METHODS`, that is fixed standard deviations, alpha = 3
and random starts; data with a zero minimum for nonnegative factors, with zero means of the
columns for Gaussian ones, and no intercept; the standard deviations are 0.75 times that of the
data before that, for all methods alike. *As shipped*: the library's defaults, on the data as
they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibp.registry import CARDS, METHODS

PUBLISHED, SHIPPED = "as published", "as shipped"
# Labels stand for the paper's settings if they fix one of these, or have a constructor of their
# own; others name settings of ours.
OF_THE_PAPER = {"alpha", "tol"}
# More sweeps than any time limit leaves room for.
MANY_SWEEPS = 1_000_000


def estimator(protocol: str, label: str, n_components: int | None, **changes: Any) -> Any:
    """The estimator of a label under a protocol, not fitted yet, with one thread.

    Changes that a method has no parameter for are left out: beam search has one pass, and no
    tolerance.
    """
    changes = {"n_jobs": 1, "max_iter": MANY_SWEEPS} | changes
    model = _bare(protocol, label, n_components)
    if protocol == PUBLISHED:
        changes["fit_intercept"] = False
    known = model.get_params()
    return model.set_params(**{name: changes[name] for name in changes if name in known})


def is_unbounded(label: str) -> bool:
    """Whether the method of a label takes no number of features."""
    return any(
        card.labels[label].n_components == "unbounded"
        for card in CARDS.values()
        if label in card.labels
    )


def fixed_stds(protocol: str, noise_std: float) -> dict[str, float]:
    """Both standard deviations at the paper's value, which is one for all methods.

    Their own default is of the data that they see, and those with zero means of the columns vary
    less than those with a zero minimum.
    """
    return {"noise_std": noise_std, "factor_std": noise_std} if protocol == PUBLISHED else {}


def _bare(protocol: str, label: str, n_components: int | None) -> Any:
    card = next(card for card in CARDS.values() if label in card.labels)
    preset = card.labels[label]
    papers = preset.constructor is not None or not OF_THE_PAPER.isdisjoint(preset.settings)
    if protocol == PUBLISHED or not papers:
        return METHODS[label](n_components)
    if n_components is None or preset.n_components == "unbounded":
        return card.estimator()
    return card.estimator(n_components=n_components)


def offset_of(
    protocol: str, model: Any, seen: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64] | float:
    """What is added to the data for an estimator, from what it is to see of them."""
    if protocol == SHIPPED:
        return 0.0
    if model.nonnegative:
        return -float(np.nanmin(seen))
    return -np.asarray(np.nanmean(seen, axis=0, dtype=np.float64))
