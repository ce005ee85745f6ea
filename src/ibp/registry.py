"""Every method under the label that the paper gives it.

`METHODS` maps labels to factories: ``METHODS["aibp"](n_components=None, **changes)`` is an
estimator with the settings of the paper's comparison, not fitted yet: alpha = 3, both standard
deviations 0.75 times that of the data (within columns where there is an intercept), a random start,
and an end when blocks of five sweeps agree to 1e-4 or, for methods that climb, a sweep changes
nothing. BNMF learns its noise, INMF ends when it has stopped growing, and beam search after its
pass. ``"meibp-default"`` is `MEIBP` with the defaults for users instead.

Methods with nonnegative factors are compared on data with a zero minimum, ``X - np.nanmin(X)``;
those with Gaussian factors learn an intercept.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

# Label -> module, class, settings. A "t-" label is a sampler of the truncated model.
FIXED = {"alpha": 3.0, "learn_hyperparameters": False}
STOPPING = {"tol": 1e-4, "max_iter": 1000}
SAMPLER = FIXED | STOPPING
_SPECIFICATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "meibp": ("meibp", "MEIBP.paper", {}),
    "meibp-default": ("meibp", "MEIBP", {}),
    "f-vibp": ("vibp", "FiniteVIBP", FIXED | STOPPING),
    "i-vibp": ("vibp", "InfiniteVIBP", FIXED | STOPPING),
    "aibp": ("gibbs", "AcceleratedGibbs", SAMPLER),
    "t-aibp": ("gibbs", "AcceleratedGibbs", SAMPLER),
    "ugibbs": ("gibbs", "UncollapsedGibbs", SAMPLER | {"fit_intercept": False}),
    "t-ugibbs": ("gibbs", "UncollapsedGibbs", SAMPLER | {"fit_intercept": False}),
    "bs-ibp": ("beam_search", "BeamSearchIBP", FIXED),
    "inmf": ("inmf", "INMF", FIXED),
    "bnmf": ("bnmf", "BNMF", STOPPING),
    "meibp+aibp": ("gibbs", "AcceleratedGibbs", SAMPLER | {"init": "meibp"}),
}
# Whose number of features is unbounded, and who cannot do without one.
_UNBOUNDED = frozenset({"aibp", "ugibbs"})
_TRUNCATED = frozenset({"meibp", "t-aibp", "t-ugibbs", "meibp+aibp"})


class Factory:
    """Makes estimators of one label."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._module, self._name, self._settings = _SPECIFICATIONS[label]

    def __call__(self, n_components: int | None = None, **changes: Any) -> Any:
        """Make an estimator, not fitted yet.

        Parameters
        ----------
        n_components : int, default=None
            The number of features, or its limit. Unbounded samplers have none and ignore it, so
            that one call can go through all labels.
        **changes
            Other parameters, in place of the paper's.

        Returns
        -------
        estimator
            With the settings of the paper's comparison.
        """
        if n_components is None and self.label in _TRUNCATED:
            raise ValueError(f"{self.label!r} needs n_components, the number of features.")
        made: Any = importlib.import_module(f"ibp.estimators.{self._module}")
        for part in self._name.split("."):
            made = getattr(made, part)
        if n_components is not None and self.label not in _UNBOUNDED:
            changes = {"n_components": n_components} | changes
        return made(**(self._settings | changes))

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self._settings.items())
        return f"<{self.label}: {self._name}(n_components{settings})>"


METHODS: dict[str, Callable[..., Any]] = {label: Factory(label) for label in _SPECIFICATIONS}


def fit(X: Any, method: str = "meibp-default", **settings: Any) -> Any:
    """Fit a model by the method of a label.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data; NaN where missing. As everywhere, nothing is shifted: the paper's nonnegative methods
        want a zero minimum.
    method : str, default="meibp-default"
        A label of `ibp.METHODS`.
    **settings
        Parameters of the method's class, such as ``n_components`` or ``random_state``.

    Returns
    -------
    estimator
        The fitted model.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> ibp.fit(X, method="f-vibp", n_components=4, n_init=3, random_state=0).transform(X).shape
    (100, 4)
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"There is no method {method!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[method](**settings).fit(X)
