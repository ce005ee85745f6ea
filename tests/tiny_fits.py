"""Fits of every method to tiny data, in all kinds that kernels tell apart; submodular problems.

``python tests/tiny_fits.py FILE`` writes their answers to a file, so that those of one interpreter
can be held to those of another.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import ibp
from ibp.submodular import OPTIMIZERS, Problem, maximize
from problems import random_data

WHOLE_ROWS = ("aibp", "t-aibp", "bs-ibp", "meibp+aibp")
MODES: dict[str, dict[str, Any]] = {
    "spectral": {},
    "random": {"n_components": 5, "init": "random"},
    "restarts": {"n_components": 4, "init": "random", "n_init": 2, "shuffle": True},
    "lof": {"n_components": 5, "prior": "lof", "init": "random"},
    "row by row": {"n_components": 4, "block_size": 1, "init": "random"},
    "row by row, lof": {"n_components": 4, "block_size": 1, "init": "random", "prior": "lof"},
    "without intercept": {"n_components": 4, "fit_intercept": False, "init": "random"},
    "empty rows": {"n_components": 4, "row_start": "empty", "init": "random"},
} | {
    name: {"n_components": 5, "optimizer": name, "init": "random"}
    for name in ("local_search", "double_greedy", "randomized_double_greedy")
}


def kinds() -> Iterator[tuple[str, Any]]:
    """Data of every kind, with their names."""
    for gaps in ("none", "block", "scattered"):
        X = random_data(np.random.default_rng(3), 18, 7, missing=gaps)
        yield f"{gaps}, dense", X
        if gaps != "block":  # which sparse data have as they have scattered ones
            yield f"{gaps}, sparse", sparse.csr_array(X)
    yield "heavy, dense", random_data(np.random.default_rng(3), 18, 7, missing="heavy")


def fits() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    """Names of fits, what makes them, and their data."""
    for kind, data in kinds():
        low = data if sparse.issparse(data) else data - np.nanmin(data)
        for label in ibp.METHODS:
            if sparse.issparse(data) and label in WHOLE_ROWS:
                continue
            settings = {} if label in ("meibp", "meibp-default", "bs-ibp") else {"max_iter": 6}
            yield (
                f"{label}/{kind}",
                lambda label=label, low=low, settings=settings: ibp.fit(
                    low, label, n_components=3, random_state=1, **settings
                ),
                low,
            )
        for mode, settings in MODES.items():
            yield (
                f"MEIBP, {mode}/{kind}",
                lambda data=data, settings=settings: ibp.MEIBP(
                    random_state=2, max_iter=30, **settings
                ).fit(data),
                data,
            )
    X = random_data(np.random.default_rng(4), 12, 6, missing="scattered")
    for factors in ("gaussian", "half_normal"):
        yield (
            f"UncollapsedGibbs, {factors}",
            lambda factors=factors: ibp.UncollapsedGibbs(
                factors=factors, max_iter=5, random_state=0
            ).fit(X),
            X,
        )
    others = {
        "many features": lambda: ibp.AcceleratedGibbs(alpha=20.0, max_iter=5, random_state=0),
        "searched sets": lambda: ibp.BeamSearchIBP(max_subset_enumeration=1, random_state=0),
        "all hypotheses": lambda: ibp.BeamSearchIBP(3, scoring="naive", random_state=0),
        "equal columns": lambda: ibp.MEIBP(init=equal_columns(X), prior="lof", block_size=1),
    }
    for name, make in others.items():
        yield name, lambda make=make: make().fit(X), X


def equal_columns(X: np.ndarray) -> dict[str, np.ndarray]:
    """A start whose features are the same in pairs."""
    rng = np.random.default_rng(5)
    location = np.abs(rng.normal(size=(4, X.shape[1])))
    codes = np.repeat(rng.random((len(X), 2)) < 0.5, 2, axis=1).astype(np.uint8)
    return {"Z": codes, "mu": location, "sigma": np.full_like(location, 0.3)}


def problems() -> Iterator[tuple[str, Problem]]:
    """Submodular problems with groups and without, and their names."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        quadratic = np.abs(rng.normal(size=(7, 7)))
        problem = Problem(3.0 * rng.normal(size=7) + 3.0, quadratic @ quadratic.T / 7)
        yield f"problem {seed}", problem
        values = -np.array([[0.0, 0.0, 0.7, 1.8], [0.0, 0.0, 0.7, 1.8]])
        group = np.array([0, 0, 1, 1, 1, -1, -1])
        yield f"problem {seed} with groups", replace(problem, group=group, group_values=values)


def answers() -> dict[str, np.ndarray]:
    """Codes, factors, bound and codes of the rows taken for new ones; sets of the problems."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, fit, data in fits():
            model = fit()
            found[f"{name}: codes"] = np.asarray(model._training_codes())
            found[f"{name}: factors"] = model.components_
            found[f"{name}: bound"] = np.asarray(model.evidence_)
            found[f"{name}: new rows"] = np.asarray(model.transform(data))
            if name.startswith("MEIBP, r"):  # random, restarts, row by row
                found[f"{name}: probabilities"] = model.probabilities(data)
                found[f"{name}: densities"] = model.score_samples(data)
    for name, problem in problems():
        for optimizer in (*OPTIMIZERS, "brute_force"):
            for epsilon in (0.0, 0.1):
                solution = maximize(
                    problem, optimizer, epsilon=epsilon, exchange=True, random_state=0
                )
                found[f"{name}, {optimizer}, {epsilon}: set"] = solution.chosen
                found[f"{name}, {optimizer}, {epsilon}: value"] = np.asarray(solution.value)
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **answers())
