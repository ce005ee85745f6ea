"""Binary latent feature models: the hidden yes/no features of a data matrix, and their number.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

from ibp.registry import CARDS, METHODS, fit

__version__ = "0.1.0"

_MODULES = (
    "agreement",
    "comparison",
    "datasets",
    "evaluate",
    "model",
    "plots",
    "report",
    "submodular",
    "traces",
)
__all__ = ["METHODS", "__version__", "fit", "load", *CARDS, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in CARDS:
        value = CARDS[name].estimator
    elif name in _MODULES:
        value = importlib.import_module(f"ibp.{name}")
    elif name == "load":
        value = importlib.import_module("ibp.persistence").load
    else:
        raise AttributeError(f"module 'ibp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
