"""Binary latent feature models: the hidden yes/no features of a data matrix, and their number.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib

# Loading next to nothing, so that Ctrl-C finds a command that can answer it as soon as may be.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ibp.files.streamed import open_rows as open_rows
    from ibp.registry import METHODS as METHODS
    from ibp.registry import fit as fit

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
# Of the registry, which is loaded with the first of them.
_REGISTRY = ("METHODS", "fit")


def __getattr__(name: str) -> Any:
    value: Any
    if name in _REGISTRY:
        value = getattr(importlib.import_module("ibp.registry"), name)
    elif name == "__all__":
        return _public()
    elif name in _MODULES:
        value = importlib.import_module(f"ibp.{name}")
    elif name == "load":
        value = importlib.import_module("ibp.persistence").load
    elif name == "open_rows":
        value = importlib.import_module("ibp.files.streamed").open_rows
    elif name.startswith("_") or name not in (cards := _cards()):
        raise AttributeError(f"module 'ibp' has no attribute {name!r}")
    else:
        value = cards[name].estimator
    globals()[name] = value
    return value


def _cards() -> dict[str, Any]:
    """What is known of each method, by the name of its class."""
    return importlib.import_module("ibp.registry").CARDS  # type: ignore[no-any-return]


def _public() -> list[str]:
    return [*_REGISTRY, "__version__", "load", "open_rows", *_cards(), *_MODULES]


def __dir__() -> list[str]:
    return sorted(_public())
