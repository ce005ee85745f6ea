"""Products that are the same on every machine, whatever its number of cores."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds, so it is done once."""
    return ThreadpoolController()


def single_threaded_blas() -> Any:
    """Hold BLAS to one thread: with more, sums differ in their last bits."""
    return _controller().limit(limits=1, user_api="blas")


def reconstruct(
    codes: npt.NDArray[Any], components: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Codes times components, reproducibly."""
    with single_threaded_blas():
        return codes.astype(np.float64, copy=False) @ components
