"""How kernels are compiled.

Compiled on first use and kept on disk, callable without Python's lock, and with NumPy's arithmetic:
a division by zero gives an infinity instead of costing a test each time.
"""

from __future__ import annotations

from typing import Any

from numba import njit


def kernel(function: Any = None, **options: Any) -> Any:
    """Decorate a kernel, with or without further options."""
    settings: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"} | options
    return njit(**settings) if function is None else njit(**settings)(function)
