"""Binary latent feature models: the hidden yes/no features of a data matrix, and their number.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = [
    "BNMF",
    "INMF",
    "MEIBP",
    "METHODS",
    "AcceleratedGibbs",
    "BeamSearchIBP",
    "FiniteVIBP",
    "InfiniteVIBP",
    "UncollapsedGibbs",
    "__version__",
    "agreement",
    "comparison",
    "datasets",
    "evaluate",
    "fit",
    "load",
    "model",
    "plots",
    "report",
    "submodular",
    "traces",
]

_LAZY = {
    "MEIBP": ("ibp.estimators.meibp", "MEIBP"),
    "FiniteVIBP": ("ibp.estimators.vibp", "FiniteVIBP"),
    "InfiniteVIBP": ("ibp.estimators.vibp", "InfiniteVIBP"),
    "AcceleratedGibbs": ("ibp.estimators.gibbs", "AcceleratedGibbs"),
    "UncollapsedGibbs": ("ibp.estimators.gibbs", "UncollapsedGibbs"),
    "BeamSearchIBP": ("ibp.estimators.beam_search", "BeamSearchIBP"),
    "INMF": ("ibp.estimators.inmf", "INMF"),
    "BNMF": ("ibp.estimators.bnmf", "BNMF"),
    "METHODS": ("ibp.registry", "METHODS"),
    "fit": ("ibp.registry", "fit"),
    "traces": ("ibp.traces", None),
    "load": ("ibp.persistence", "load"),
    "agreement": ("ibp.agreement", None),
    "comparison": ("ibp.comparison", None),
    "datasets": ("ibp.datasets", None),
    "evaluate": ("ibp.evaluate", None),
    "model": ("ibp.model", None),
    "plots": ("ibp.plots", None),
    "report": ("ibp.report", None),
    "submodular": ("ibp.submodular", None),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ibp' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
