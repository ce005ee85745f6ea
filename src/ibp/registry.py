"""One card per method: all that the rest of the library knows of it by name.

A card names the estimator's class and module, as strings, so that nothing is loaded before it is
used; the labels that the paper gives it; and what is to be said of it. Lazy names, model files,
report pages, the command line and validation read the cards.

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
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from ibp.errors import InvalidValueError

JOINT = "log joint probability"


class Preset(NamedTuple):
    """How a label makes an estimator: by settings, and perhaps by a class method.

    ``n_components`` may be given ("optional"), must be ("needed"), or is ignored ("unbounded").
    """

    settings: Mapping[str, Any]
    n_components: Literal["optional", "needed", "unbounded"] = "optional"
    constructor: str | None = None


class Card(NamedTuple):
    """What there is to know of a method before it is loaded."""

    name: str  # of the estimator's class
    module: str  # where that is
    labels: Mapping[str, Preset]  # for ``ibp fit --method``; the first is what its page advises
    title: str  # what people call it
    does: str  # half a sentence
    accepts_sparse: bool = True
    codes: Literal["binary", "probability", "real"] = "binary"  # what `transform` gives
    samples: bool = False  # whether it is a sampler, with a burn-in and a trace
    objective: str = "evidence (nats)"  # what its ``evidence_`` is

    @property
    def estimator(self) -> Any:
        """The class, loaded when it is first asked for."""
        return getattr(importlib.import_module(self.module), self.name)


class Factory:
    """Makes estimators of one label."""

    def __init__(self, card: Card, label: str) -> None:
        self.label = label
        self._card, self._preset = card, card.labels[label]

    def __call__(self, n_components: int | None = None, **changes: Any) -> Any:
        """Make an estimator, not fitted yet, with the paper's settings but for these changes.

        ``n_components`` is the number of features, or its limit. Unbounded samplers have none and
        ignore it, so that one call can go through all labels.
        """
        preset = self._preset
        if n_components is None and preset.n_components == "needed":
            raise InvalidValueError(f"{self.label!r} needs n_components, the number of features")
        if n_components is not None and preset.n_components != "unbounded":
            changes = {"n_components": n_components} | changes
        make = self._card.estimator
        if preset.constructor is not None:
            make = getattr(make, preset.constructor)
        return make(**{**preset.settings, **changes})

    def __repr__(self) -> str:
        made = ".".join(filter(None, (self._card.name, self._preset.constructor)))
        settings = "".join(f", {name}={value!r}" for name, value in self._preset.settings.items())
        return f"<{self.label}: {made}(n_components{settings})>"


# By the name of the class, and by label.
CARDS: dict[str, Card] = {}
METHODS: dict[str, Callable[..., Any]] = {}


def register(card: Card) -> None:
    """Make a method known to all that read cards."""
    CARDS[card.name] = card
    known = METHODS | {label: Factory(card, label) for label in card.labels}
    METHODS.clear()
    METHODS.update(sorted(known.items(), key=lambda item: "+" in item[0]))  # combinations last


def card_of(model: Any) -> Card:
    """The card of an estimator; a user's subclass has that of what it extends."""
    for cls in type(model).__mro__:
        if cls.__name__ in CARDS:
            return CARDS[cls.__name__]
    raise TypeError(f"{type(model).__name__} has no card in ibp.registry.")


def class_names(cards: Iterable[Card]) -> str:
    """The classes of two or more cards, for a sentence."""
    *names, last = (card.name for card in cards)
    return f"{', '.join(names)} and {last}"


FIXED = {"alpha": 3.0, "learn_hyperparameters": False}
STOPPING = {"tol": 1e-4, "max_iter": 1000}
BOTH = FIXED | STOPPING
UNCOLLAPSED = BOTH | {"fit_intercept": False}

for _card in (
    Card(
        "MEIBP",
        "ibp.estimators.meibp",
        {
            "meibp": Preset({}, "needed", "paper"),
            "meibp-default": Preset({}),
            "meibp-weighted": Preset({"codes": "weighted"}),
        },
        "MEIBP",
        "finds yes/no features with nonnegative patterns by climbing the evidence",
    ),
    Card(
        "FiniteVIBP",
        "ibp.estimators.vibp",
        {"f-vibp": Preset(BOTH)},
        "finite VIBP",
        "gives every row the probabilities of a fixed set of features",
        codes="probability",
    ),
    Card(
        "InfiniteVIBP",
        "ibp.estimators.vibp",
        {"i-vibp": Preset(BOTH)},
        "infinite VIBP",
        "gives every row the probabilities of its features",
        codes="probability",
    ),
    Card(
        "AcceleratedGibbs",
        "ibp.estimators.gibbs",
        {
            "aibp": Preset(BOTH, "unbounded"),
            "t-aibp": Preset(BOTH, "needed"),  # "t-": of the truncated model
            "meibp+aibp": Preset(BOTH | {"init": "meibp"}, "needed"),
        },
        "accelerated Gibbs sampling",
        "draws plausible yes/no features, sweep after sweep",
        accepts_sparse=False,
        samples=True,
        objective=JOINT,
    ),
    Card(
        "UncollapsedGibbs",
        "ibp.estimators.gibbs",
        {"ugibbs": Preset(UNCOLLAPSED, "unbounded"), "t-ugibbs": Preset(UNCOLLAPSED, "needed")},
        "uncollapsed Gibbs sampling",
        "draws plausible features and patterns in turn",
        samples=True,
        objective=JOINT,
    ),
    Card(
        "BeamSearchIBP",
        "ibp.estimators.beam_search",
        {"bs-ibp": Preset(FIXED)},
        "beam search",
        "goes through the rows and keeps the best explanations",
        accepts_sparse=False,
    ),
    Card(
        "INMF",
        "ibp.estimators.inmf",
        {"inmf": Preset(FIXED)},
        "INMF",
        "adds one feature after the other as long as that helps",
        codes="probability",
    ),
    Card(
        "BNMF",
        "ibp.estimators.bnmf",
        {"bnmf": Preset(STOPPING)},
        "BNMF",
        "mixes a given number of nonnegative patterns in any amounts",
        codes="real",
        objective=JOINT,
    ),
):
    register(_card)

DEFAULT_METHOD = "meibp-default"
# What is compared unless somebody says otherwise: by the function, and by the command.
COMPARED = (DEFAULT_METHOD, "i-vibp", "aibp", "bnmf")
COMPARED_BY_COMMAND = "meibp-default,meibp,i-vibp,aibp"


def fit(X: Any, method: str = DEFAULT_METHOD, **settings: Any) -> Any:
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

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C was pressed during the fit; its attribute ``model`` is the model so far.

    Examples
    --------
    >>> import ibp
    >>> X, Z, A = ibp.datasets.make_block_images(100, noise_std=0.1, random_state=0)
    >>> ibp.fit(X, method="f-vibp", n_components=4, n_init=3, random_state=0).transform(X).shape
    (100, 4)
    """
    if not isinstance(method, str) or method not in METHODS:
        known = ", ".join(METHODS)
        raise InvalidValueError(f"There is no method {method!r}", f"choose one of {known}")
    return METHODS[method](**settings).fit(X)
