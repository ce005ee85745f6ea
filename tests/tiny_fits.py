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
from ibp.kernels.truncated_normal import standard_moments_of
from ibp.kernels.uncollapsed_gibbs import log_scaled_cdf
from ibp.submodular import OPTIMIZERS, Problem, maximize, maximize_rows
from problems import random_data

WHOLE_ROWS = ("aibp", "t-aibp", "bs-ibp", "meibp+aibp")
# One of them with moves, each of which is many sweeps.
SWEEPS_ALONE: dict[str, dict[str, Any]] = {
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
MODES = {name: settings | {"moves": False} for name, settings in SWEEPS_ALONE.items()} | {
    "moves": {"n_components": 3, "init": "random"}
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
            if label == "meibp-default":
                settings = {"moves": False}
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
        "many features": lambda: ibp.AcceleratedGibbs(alpha=20.0, max_iter=3, random_state=0),
        "searched sets": lambda: ibp.BeamSearchIBP(
            beam_width=5, max_subset_enumeration=1, random_state=0
        ),
        "all hypotheses": lambda: ibp.BeamSearchIBP(
            3, beam_width=5, scoring="naive", random_state=0
        ),
        "equal columns": lambda: ibp.MEIBP(
            init=equal_columns(X), prior="lof", block_size=1, moves=False
        ),
    }
    for name, make in others.items():
        yield name, lambda make=make: make().fit(X), X
    wide = random_data(np.random.default_rng(7), 10, 40, missing="none")
    yield (
        "wide, row by row",
        lambda: ibp.MEIBP(
            3, block_size=1, init="random", max_iter=3, moves=False, random_state=0
        ).fit(wide),
        wide,
    )
    known: dict[str, Any] = {"learn_hyperparameters": False, "fit_intercept": False}
    far = 10.0 * np.random.default_rng(0).normal(size=(8, 12))  # 29 features, with room for fewer
    known |= {"alpha": 5.0, "factor_std": 2.0, "max_iter": 1, "random_state": 0}
    yield (
        "features without room",
        lambda: ibp.AcceleratedGibbs(noise_std=0.5, init={"Z": np.zeros((8, 0))}, **known).fit(far),
        far,
    )
    pairs = 1.0 - np.eye(3)  # each row alone tells a feature from the others
    yield (
        "rows with all the say",
        lambda: ibp.AcceleratedGibbs(noise_std=0.06, init={"Z": pairs}, **known).fit(pairs),
        pairs,
    )


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
    # Whose local optimum is worse than its complement; and one of many sets.
    blocking = Problem([8.0, 5.0, 5.0], [[8.0, 4.0, 4.0], [4.0, 4.0, 0.0], [4.0, 0.0, 4.0]])
    yield "complement", blocking
    yield "many sets", Problem(np.linspace(-1.0, 3.0, 13), np.eye(13) + 0.1)


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
            if name.startswith("MEIBP, lof"):
                found[f"{name}: confidence"] = model.confidence(data)
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
    quadratic = np.eye(5) + 0.3
    linear = np.random.default_rng(6).normal(1.0, 2.0, size=(4, 5))
    for optimizer in OPTIMIZERS:
        solutions = maximize_rows(linear, quadratic, optimizer, random_state=0)
        found[f"rows, {optimizer}"] = np.array([solution.chosen for solution in solutions])
    ratios = np.array([-3000.0, -40.0, -1.0, 2.0])
    moments = np.empty((2, ratios.size))
    standard_moments_of(ratios, *moments)
    found["moments"] = moments
    found["logarithms of tails"] = np.array([log_scaled_cdf(x) for x in ratios])
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **answers())
