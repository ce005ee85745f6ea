"""Hidden entries of real data: how far predictions miss, and how well methods know by how much.

    python benchmarks/heldout.py

Digits, every fourth row of Piano, Yale 48x42, wine and breast cancer, without columns that never
vary. Hidden are a fifth of the columns in a random half of the rows (the paper's block), or a tenth
of all entries anywhere. Every method is fitted to what is left and then says what it expects of the
hidden entries. Reported are the root mean square of the errors, the mean log-likelihood of an entry
at the method's own predictive density, and how many entries its 90% intervals (1.645 standard
deviations to either side) cover; all as means over three draws of what is hidden, because blocks
differ more from each other than methods do.

Wine and breast cancer have columns in different units. There errors and densities are in units of
the columns' standard deviations, which is also how the other methods get these data; MEIBP gets
them as they are, and with shared noise in these units too ("shared, scaled").

MEIBP runs with noise shared by all columns, with noise per column, and with that and weighted
codes, with n_components given and left open. Beside it stand factor analysis and probabilistic
principal components by EM, NMF with noise per column, the mean of ten neighbours (no density), and
the column's mean and standard deviation; see `peers.py`. Methods with a given number of factors are
left out where there are not more columns than that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import common
import numpy as np
import numpy.typing as npt
import peers
import real_data
from peers import Prediction
from sklearn.datasets import load_breast_cancer, load_wine

from ibp import MEIBP
from ibp.evaluate import held_out_block

FloatArray = npt.NDArray[np.float64]
NUMBERS = (10, 25, 50, None)
MIXED_UNITS: dict[str, Callable[[], Any]] = {
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
}
SETS = ("digits", "Piano", "Yale 48x42", *MIXED_UNITS)
HIDDEN = ("block", "scattered")
SCATTERED = 0.1  # of the entries
INTERVAL = 1.645  # standard deviations to either side: 90%
# What is compared of MEIBP itself, by name.
SETTINGS: dict[str, dict[str, Any]] = {
    "shared": {"noise": "shared"},
    "per column": {"noise": "per_column"},
    "weighted": {"codes": "weighted"},
}
SCALED = "shared, scaled"
FACTOR_METHODS: dict[str, Callable[[FloatArray, int], Prediction]] = {
    "factor analysis": peers.factor_analysis,
    "PPCA": peers.principal_components,
    "NMF": peers.nonnegative_factors,
}
SIMPLE_METHODS: dict[str, Callable[[FloatArray], Prediction]] = {
    "10 neighbours": peers.nearest_neighbors,
    "column mean": peers.column_mean,
}
CELL = ("data", "hidden", "method", "asked")
METHODS = (*SETTINGS, SCALED, *FACTOR_METHODS, *SIMPLE_METHODS)


def available_settings() -> dict[str, dict[str, Any]]:
    """The settings that this version has: one without `noise` shares it, and has no weights."""
    known = MEIBP().get_params()
    if "noise" not in known:
        return {"shared": {}}
    return {name: own for name, own in SETTINGS.items() if set(own) <= set(known)}


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Problem:
    """Data, some entries of which are hidden, and the unit that each column is scored in."""

    name: str
    kind: str
    complete: npt.NDArray[np.floating]
    hidden: npt.NDArray[np.bool_]

    @cached_property
    def seen(self) -> npt.NDArray[np.floating]:
        """What methods are given: NaN where it is hidden."""
        return np.where(self.hidden, self.complete.dtype.type(np.nan), self.complete)

    @cached_property
    def unit(self) -> FloatArray:
        """Standard deviation of what is seen of a column if columns differ in unit, else one."""
        if self.name in MIXED_UNITS:
            return np.nanstd(self.seen, axis=0)
        return np.ones(self.complete.shape[1])

    def scaled(self) -> Problem:
        """The same in units of the columns, in double precision."""
        return replace(self, complete=self.complete / self.unit)

    def score(self, prediction: Prediction, log_likelihood: float | None = None) -> dict[str, Any]:
        """Scores of the hidden entries; a Gaussian's log-likelihood unless another is given."""
        unit = np.broadcast_to(self.unit, self.hidden.shape)[self.hidden]
        error = (prediction.mean - self.complete.astype(np.float64))[self.hidden] / unit
        scores: dict[str, Any] = {"rmse": float(np.sqrt(np.mean(error**2)))}
        if prediction.std is not None:
            std = prediction.std[self.hidden] / unit
            scores["covered"] = float(np.mean(np.abs(error) <= INTERVAL * std))
            if log_likelihood is None:
                densities = -0.5 * (error / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
                scores["log_likelihood"] = float(densities.mean())
            else:
                scores["log_likelihood"] = log_likelihood + float(np.log(unit).mean())
        return scores


def load(name: str, folder: Path, quick: bool) -> npt.NDArray[np.floating] | None:
    """One data set without columns that never vary, or None if its file is not there."""
    if name in MIXED_UNITS:
        X = MIXED_UNITS[name]().data
    else:
        X = real_data.load(name, folder)
    if X is None:
        return None
    if name == "Piano":
        X = X[::4]
    if quick:
        n, d = X.shape
        X = X[:: max(1, n // 150), :: max(1, d // 50)]
    return X[:, np.ptp(X, axis=0) > 0]


def hide(shape: tuple[int, int], kind: str, seed: int) -> npt.NDArray[np.bool_]:
    """Which entries are hidden."""
    rng = np.random.default_rng(seed)
    if kind == "block":
        return held_out_block(*shape, rng, rows="random")
    return rng.random(shape) < SCATTERED


# ---------------------------------------------------------------- methods


def density_of(
    model: MEIBP, seen: npt.NDArray[np.floating], complete: npt.NDArray[np.floating]
) -> tuple[Prediction, float]:
    """What a model expects of entries, and the mean log-likelihood of those that are hidden."""
    log_likelihood = model.score_heldout(seen, complete)
    if "return_std" in inspect.signature(model.impute).parameters:
        mean, std = model.impute(seen, return_std=True)
    else:
        mean, std = model.impute(seen), np.broadcast_to(model.noise_std_, seen.shape)
    return Prediction(mean, std), log_likelihood


def fit(
    problem: Problem, n_components: int | None, settings: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Scores of MEIBP, in the problem's units."""
    model = MEIBP(n_components, random_state=seed, **settings)
    seconds = common.timed_fit(model, problem.seen)
    return {
        "asked": str(n_components),
        "features": model.n_components_,
        **problem.score(*density_of(model, problem.seen, problem.complete)),
        "noise_std": float(np.sqrt(np.mean(np.square(model.noise_std_)))),
        "evidence": model.evidence_,
        "proven": float(model.history_["proven"][-1]),
        "converged": model.converged_,
        "seconds": seconds,
    }


def compare(
    problem: Problem, numbers: Sequence[int | None], methods: Sequence[str], seed: int
) -> list[dict[str, Any]]:
    """All methods on one problem."""
    rows = []

    def add(method: str, scores: dict[str, Any]) -> None:
        cell = {"data": problem.name, "hidden": problem.kind, "method": method, "seed": seed}
        rows.append({**cell, **scores})
        about = f"{problem.name}, {problem.kind}, seed {seed}, {method} {scores['asked']}"
        print(f"{about}: {scores['seconds']:.1f} s", flush=True)

    scaled = problem.scaled()
    runs = {name: (problem, own) for name, own in available_settings().items()}
    if problem.name in MIXED_UNITS:
        runs[SCALED] = (scaled, available_settings()["shared"])
    for name, (data, settings) in runs.items():
        if name in methods:
            for number in numbers:
                add(name, fit(data, number, settings, seed))
    X = scaled.seen
    for name, predict in FACTOR_METHODS.items():
        for number in numbers:
            if name in methods and number is not None and number < X.shape[1]:
                seconds, prediction = common.seconds_of(lambda p=predict, k=number: p(X, k))
                scores = scaled.score(prediction)
                add(name, {"asked": str(number), **scores, "seconds": seconds})
    for name, simple in SIMPLE_METHODS.items():
        if name in methods:
            seconds, prediction = common.seconds_of(lambda p=simple: p(X))
            add(name, {"asked": "", **scaled.score(prediction), "seconds": seconds})
    return rows


def averaged(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the seeds, of all that is a number."""
    cells: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault(tuple(row[name] for name in CELL), []).append(row)
    return [
        dict(zip(CELL, cell, strict=True))
        | {
            name: float(np.mean([row[name] for row in own]))
            for name in own[0]
            if name not in (*CELL, "seed")
        }
        for cell, own in cells.items()
    ]


def beside(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each fit of MEIBP beside shared noise, its own best number, factor analysis, the mean."""
    cells = {tuple(row[name] for name in CELL): row for row in rows}
    table = []
    for (data, hidden, method, asked), row in cells.items():
        if method not in (*SETTINGS, SCALED):
            continue
        own = [other for cell, other in cells.items() if cell[:3] == (data, hidden, method)]
        shared = cells.get((data, hidden, "shared", asked)) if method != "shared" else None
        factors = cells.get((data, hidden, "factor analysis", asked))
        mean = cells.get((data, hidden, "column mean", ""))
        score, error = row["log_likelihood"], row["rmse"]
        table.append(
            {
                "data": data,
                "hidden": hidden,
                "method": method,
                "asked": asked,
                "above_shared": score - shared["log_likelihood"] if shared else None,
                "rmse_of_shared": error / shared["rmse"] if shared else None,
                "above_best": score - max(other["log_likelihood"] for other in own),
                "above_factor_analysis": score - factors["log_likelihood"] if factors else None,
                "rmse_of_factor_analysis": error / factors["rmse"] if factors else None,
                "rmse_of_mean": error / mean["rmse"] if mean else None,
            }
        )
    return table


def main() -> None:
    parser = common.parser("heldout", __doc__)
    parser.add_argument("--data", type=Path, default=common.DATA, help="folder of the files")
    parser.add_argument("--only", nargs="*", choices=SETS, help="some of the sets")
    parser.add_argument("--hidden", nargs="*", choices=HIDDEN, help="one way of hiding")
    parser.add_argument("--methods", nargs="*", choices=METHODS, help="some of the methods")
    parser.add_argument("--seeds", type=int, help="how often entries are hidden")
    common.add_numbers(parser)
    arguments = parser.parse_args()
    numbers, n_seeds = ((5, None), 1) if arguments.quick else (NUMBERS, 3)
    numbers = arguments.numbers or numbers
    compilation = common.first_call(np.float32, np.float64)

    rows: list[dict[str, Any]] = []
    for name in arguments.only or SETS:
        X = load(name, arguments.data, arguments.quick)
        if X is None:
            continue
        for kind in arguments.hidden or HIDDEN:
            own: list[dict[str, Any]] = []
            for seed in range(arguments.seeds or n_seeds):
                problem = Problem(name, kind, X, hide(X.shape, kind, seed))
                own += compare(problem, numbers, arguments.methods or METHODS, seed)
            n, d = X.shape
            common.print_table(
                f"{name}, {n} x {d}, {kind}: {problem.hidden.sum()} hidden entries",
                averaged(own),
                {
                    "method": "",
                    "asked": "",
                    "features": ".0f",
                    "rmse": ".4f",
                    "log_likelihood": ".3f",
                    "covered": ".3f",
                    "noise_std": ".4f",
                    "proven": ".3f",
                    "seconds": ".1f",
                },
            )
            rows += own

    table = beside(averaged(rows))
    common.print_table(
        "MEIBP: log-likelihood above, and error as a ratio to",
        table,
        {
            "data": "",
            "hidden": "",
            "method": "",
            "asked": "",
            "above_shared": "+.3f",
            "above_best": "+.3f",
            "above_factor_analysis": "+.3f",
            "rmse_of_shared": ".3f",
            "rmse_of_factor_analysis": ".3f",
            "rmse_of_mean": ".3f",
        },
    )
    common.save("heldout", arguments, compilation_seconds=compilation, fits=rows, beside=table)


if __name__ == "__main__":
    main()
