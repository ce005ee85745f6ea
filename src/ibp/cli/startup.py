"""What lets a command begin quickly: modules are loaded without rest, and some only if asked for.

scikit-learn imports ``scipy.stats``, which takes longer to load than scikit-learn itself, for
functions that no fit of ours calls.
"""

from __future__ import annotations

import gc
import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

# TYPE_CHECKING, without a module that would have to be loaded for it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PUT_OFF = ("scipy.stats",)


class PutOff(ModuleType):
    """Stands for a module that is loaded when something in it is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # as the import system wants to see one

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = importlib.import_module(self.__name__)
        self.__dict__.update(module.__dict__)  # for those who have this one in hand
        return getattr(module, name)


def begin_to_load() -> None:
    """Load without collecting garbage: modules are made of objects that stay."""
    gc.disable()
    for name in PUT_OFF:
        if name not in sys.modules:
            sys.modules[name] = PutOff(name)


def end_of_loading() -> None:
    """Collect garbage from now on, for a command that works long, but not among what is loaded."""
    if not gc.isenabled():  # else somebody else's process has begun long ago
        gc.freeze()
        gc.enable()
