"""Digests of what every method answers, to show that a change of the code changed no answer.

``python benchmarks/answers.py record FILE`` before a change and ``compare FILE`` after it, on one
machine: bits differ between processors. Every label of `ibp.METHODS` and MEIBP in all its modes are
fitted to small data; codes, factors, evidence and history (seconds aside) are digested one by one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import ibp

ATTRIBUTES = (
    "assignments_",
    "codes_",
    "components_",
    "components_std_",
    "intercept_",
    "feature_counts_",
    "evidence_",
    "noise_std_",
    "factor_std_",
    "alpha_",
    "restart_evidence_",
    "restart_n_components_",
)

# What MEIBP's fits are called by their noise.
NOISE = {"shared": "MEIBP", "per_column": "MEIBP per column"}


def planted(n: int = 150, d: int = 24, k: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    assignments = rng.random((n, k)) < 0.4
    factors = np.abs(rng.normal(0.0, 1.0, size=(k, d)))
    return assignments @ factors + rng.normal(0.0, 0.3, size=(n, d)) + 0.5


def with_missing_blocks(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[len(X) // 2 :, : X.shape[1] // 4] = np.nan
    X[: len(X) // 5, -3:] = np.nan
    return X


def with_scattered_missing(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[np.random.default_rng(7).random(X.shape) < 0.1] = np.nan
    return X


def tags(n: int = 400, d: int = 60, seed: int = 3) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    assignments = rng.random((n, 4)) < 0.3
    chance = 0.02 + assignments @ (0.5 * (rng.random((4, d)) < 0.2))
    return sparse.csr_array((rng.random((n, d)) < chance).astype(np.float64))


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of fits, and what makes them."""
    X = planted()
    low = X - X.min()
    gaps = {
        "complete": lambda X: X,
        "blocks": with_missing_blocks,
        "scattered": with_scattered_missing,
    }
    storage: dict[str, Callable[[Any], Any]] = {
        "dense": lambda X: X,
        "float32": lambda X: X.astype(np.float32),
        "sparse": sparse.csr_array,
    }
    for label in ibp.METHODS:
        whole_rows_only = label in ("aibp", "t-aibp", "bs-ibp", "meibp+aibp")
        for gap, hide in gaps.items():
            for kind, store in storage.items():
                if kind == "sparse" and whole_rows_only:
                    continue
                data = store(hide(low))
                settings = {} if label in ("meibp", "bs-ibp") else {"max_iter": 25}
                yield (
                    f"{label}/{gap}/{kind}",
                    lambda label=label, data=data, settings=settings: ibp.fit(
                        data, label, n_components=6, random_state=1, n_jobs=2, **settings
                    ),
                )
    modes: dict[str, dict[str, Any]] = {
        "default": {},
        "given": {"n_components": 6},
        "lof": {"n_components": 8, "prior": "lof", "init": "random"},
        "one row at a time": {"n_components": 6, "block_size": 1, "init": "random"},
        "one row at a time, lof": {
            "n_components": 6,
            "block_size": 1,
            "init": "random",
            "prior": "lof",
        },
        "random": {"n_components": 10, "init": "random"},
        "restarts": {"n_components": 8, "init": "random", "n_init": 3},
        "spectral restarts": {"n_init": 2},
        "no intercept": {"n_components": 8, "fit_intercept": False},
        "fixed": {"n_components": 8, "learn_hyperparameters": False, "init": "random"},
        "local search": {"n_components": 8, "optimizer": "local_search", "init": "random"},
        "double greedy": {"n_components": 8, "optimizer": "double_greedy", "init": "random"},
        "randomized": {
            "n_components": 8,
            "optimizer": "randomized_double_greedy",
            "init": "random",
        },
        "shuffled": {"n_components": 8, "shuffle": True, "init": "random", "block_size": 32},
        "empty rows": {"n_components": 8, "row_start": "empty", "init": "random"},
    }
    for mode, settings in modes.items():
        for gap, hide in gaps.items():
            for kind, store in storage.items():
                data = store(hide(X))
                for noise, name in NOISE.items():
                    yield (
                        f"{name} {mode}/{gap}/{kind}",
                        lambda data=data, noise=noise, settings=settings: ibp.MEIBP(
                            noise=noise, random_state=2, **settings
                        ).fit(data),
                    )
    large = planted(6000, 30, 8, seed=5)
    for noise, name in NOISE.items():
        yield (
            f"{name} default/tags",
            lambda noise=noise: ibp.MEIBP(noise=noise, random_state=0).fit(tags()),
        )
        yield (
            f"{name} default/sampled start",
            lambda noise=noise: ibp.MEIBP(12, noise=noise, random_state=0).fit(large),
        )
    first = ibp.MEIBP(6, noise="shared", random_state=0).fit(X)
    for name in ("FiniteVIBP", "InfiniteVIBP", "UncollapsedGibbs", "INMF", "BNMF", "MEIBP"):
        settings = {"init": first, "random_state": 0, "n_init": 2}
        settings |= {"noise": "shared"} if name == "MEIBP" else {"max_iter": 15}
        yield (
            f"{name} from a model",
            lambda name=name, settings=settings: getattr(ibp, name)(**settings).fit(low),
        )
    for factors in ("gaussian", "half_normal"):
        yield (
            f"UncollapsedGibbs {factors}, learned",
            lambda factors=factors: ibp.UncollapsedGibbs(
                factors=factors, max_iter=20, random_state=0
            ).fit(with_scattered_missing(X)),
        )
    yield (
        "AcceleratedGibbs learned",
        lambda: ibp.AcceleratedGibbs(max_iter=20, random_state=0).fit(with_scattered_missing(X)),
    )
    yield (
        "BeamSearchIBP naive",
        lambda: ibp.BeamSearchIBP(4, scoring="naive", random_state=0).fit(X[:40]),
    )


def digest(value: Any) -> str:
    array = np.ascontiguousarray(value)
    text = f"{array.dtype} {array.shape} ".encode() + array.tobytes()
    return hashlib.sha256(text).hexdigest()[:16]


def answer(model: Any, data: Any) -> dict[str, Any]:
    """Digests by name, and a few numbers to look at where digests differ."""
    found: dict[str, Any] = {
        name: digest(getattr(model, name)) for name in ATTRIBUTES if hasattr(model, name)
    }
    found |= {
        f"history {name}": digest(values)
        for name, values in model.history_.items()
        if name != "seconds"
    }
    found["numbers"] = [int(model.n_components_), float(model.evidence_), int(model.n_iter_)]
    if data is not None:
        found["transform"] = digest(model.transform(data))
        found["score"] = digest(model.score_samples(data))
        found["impute"] = digest(model.impute(data))
    return found


def answers() -> dict[str, dict[str, Any]]:
    found = {}
    new_rows = with_scattered_missing(planted(40, seed=9))
    for name, fit in cases():
        print(name, file=sys.stderr)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit()
            found[name] = answer(model, new_rows if model.n_features_in_ == 24 else None)
    return found


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Say what differs; how many answers do."""
    n_different = 0
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        different = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
        if different:
            n_different += 1
            print(f"{name}: {', '.join(sorted(different))}")
            print(f"  features, evidence, sweeps: {old.get('numbers')} -> {new.get('numbers')}")
    print(f"{len(after) - n_different} of {len(after)} answers are the same bit for bit.")
    return n_different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "record":
        arguments.file.write_text(json.dumps(answers(), indent=1) + "\n")
        return
    sys.exit(compare(json.loads(arguments.file.read_text()), answers()) > 0)


if __name__ == "__main__":
    main()
