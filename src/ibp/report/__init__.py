"""Pages to look at: one self-contained HTML file about a fit, or about a comparison of methods.

What makes a page is loaded when one is made, since commands read other modules of this folder.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ibp.report.comparison_page import write_comparison as write_comparison
    from ibp.report.page import write_report as write_report

__all__ = ["write_comparison", "write_report"]

_MODULES = {"write_comparison": "comparison_page", "write_report": "page"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ibp.report' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ibp.report.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
