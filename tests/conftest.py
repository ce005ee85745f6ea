"""Shared fixtures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Compilation makes first examples slow; results must not depend on the day.
settings.register_profile(
    "ibp", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ibp")

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden"


@pytest.fixture
def golden():
    """Load a file of reference values; skip where they are not at hand."""

    def load(name: str) -> dict[str, np.ndarray]:
        path = GOLDEN / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"reference values are not available here: {path.name}")
        with np.load(path, allow_pickle=False) as file:
            return dict(file)

    return load
