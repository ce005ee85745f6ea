"""Shared fixtures."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import added_method

# Compilation makes first examples slow; results must not depend on the day.
settings.register_profile(
    "ibp", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ibp")

TESTS = Path(__file__).resolve().parent


@pytest.fixture
def python_interrupts():
    """Python's own Ctrl-C handler, whatever the test runner or other code has installed."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are delivered to the main thread only")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def golden():
    """Load a file of reference values."""

    def load(name: str, folder: Path = TESTS / "golden") -> dict[str, np.ndarray]:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
            return dict(file)

    return load


@pytest.fixture
def small_synthetic(golden):
    """The paper's small synthetic set, too large for the repository; skip where it is not."""
    folder = TESTS.parents[1] / "shared" / "golden"
    if not (folder / "small_synthetic.npz").exists():
        pytest.skip("reference values are not available here: small_synthetic.npz")
    return golden("small_synthetic", folder)


@pytest.fixture
def methods_forgotten():
    """Whatever methods a test adds to the registry are gone after it."""
    with added_method.methods_forgotten():
        yield
