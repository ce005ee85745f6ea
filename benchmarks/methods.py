"""Time per sweep of every method, and how it grows with N, K and D.

    python benchmarks/methods.py

First all methods at N = 16000, D = 161, K = 25 in float32: on the paper's synthetic recipe, not
shifted and with the noise known, so that the number of features stays what it is, and on Piano with
the settings of `ibp.METHODS` if its file is there. All start from one model with 25 features: the
true Z of planted data, or what MEIBP finds in Piano, where the unbounded samplers soon have more.
For MEIBP "few" is a sweep that changes few rows, and "early" the second of a random start. Beam
search makes one pass over the first rows only. Each sweep is timed several times from copies of one
state, with the threads that a fit has. Ratios are to X E[A]' and Z'X alone, with all threads or
one, measured after each method; the least of a table is the unit of all its rows.

Then N, K and D grow one at a time on planted data. The exponent is the slope of the logarithms over
the upper half of the sizes; beside it is the slope that the paper's worst-case complexity has over
the same sizes (for BNMF, which is not in the paper's table, that of its updates). An iteration of
beam search is there, and here, the placing of one row after N - 1 others, by a beam of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import common
import numpy as np
import numpy.typing as npt

import ibp
from ibp import MEIBP
from ibp.blas import single_threaded_blas
from ibp.datasets import make_binary_factors
from ibp.methods.beam_search.beam import BeamPass, Limits
from ibp.methods.context import Context

N_SAMPLES, N_FEATURES, N_COMPONENTS = 16_000, 161, 25
# Rows that beam search places, of the sets above.
BEAM_ROWS = 1000
# Late enough for MEIBP's exact search to have all of its budget.
LATE = 5
# Seconds that the repetitions of one sweep may take together; two there are in any case.
PATIENCE = 3.0
# The noise of the planted data, and a prior of the factors wide enough for no other to be born.
NOISE_STD, FACTOR_STD = 1.0, 1.0

Variable = Literal["N", "K", "D"]
Scoring = Literal["incremental", "naive"]
Sizes = dict[Variable, int]


# ---------------------------------------------------------------- what is compared


@dataclass(frozen=True)
class Case:
    """A method in a situation.

    Attributes
    ----------
    label : str
        Of `ibp.METHODS`.
    situation : {"settled", "few", "early", "first rows"}
        A sweep after the one that follows a start from the common model; one that changes few rows
        of it; the second of a random start; a pass that starts from nothing.
    changes : dict
        Of the label's settings.
    """

    label: str
    situation: Literal["settled", "few", "early", "first rows"] = "settled"
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For the tables."""
        return self.label if self.situation == "settled" else f"{self.label}, {self.situation}"

    def estimator(self, common_model: MEIBP, **settings: Any) -> Any:
        """The estimator, not fitted; its number of features is that of the common model."""
        if self.situation == "few":
            settings["init"] = {
                "Z": common.perturbed(common_model.assignments_, 0.001),
                "mu": common_model.factor_location_,
                "sigma": common_model.factor_scale_,
            }
        else:
            settings["init"] = common_model if self.situation == "settled" else "random"
        return ibp.METHODS[self.label](
            n_components=common_model.n_components_, **(settings | self.changes)
        )


@dataclass(frozen=True)
class Complexity:
    """Of an iteration, but for a factor."""

    text: str
    operations: Callable[[float, float, float], float]

    def slope(self, points: Sequence[dict[str, Any]], variable: Variable) -> float:
        """On log-log axes over some sizes."""
        return common.slope(
            [point[variable] for point in points],
            [self.operations(point["N"], point["K"], point["D"]) for point in points],
        )


FLOOR = Complexity("N K D", lambda n, k, d: n * k * d)
SWEEP_CASES = (
    Case("meibp", "few"),
    Case("meibp", "early"),
    Case("meibp-default", "few"),
    Case("meibp-default", "early"),
    Case("f-vibp"),
    Case("i-vibp"),
    Case("aibp"),
    Case("t-aibp"),
    Case("ugibbs"),
    Case("t-ugibbs"),
    # Otherwise a sweep at rest would be the last.
    Case("inmf", changes={"tol": 0.0}),
    Case("bnmf"),
)
BEAM_CASE = Case("bs-ibp", "first rows")
_QUADRATIC = Complexity("N K^2 D", lambda n, k, d: n * k**2 * d)
_MEIBP = Complexity(
    "N (K^2 D + K^3 ln K)", lambda n, k, d: n * (k**2 * d + k**3 * float(np.log(k)))
)
_ACCELERATED = Complexity("N (K^2 + K D)", lambda n, k, d: n * (k**2 + k * d))
_BEAM = Complexity("N^3 (K + D) 2^K", lambda n, k, d: n**3 * (k + d) * 2.0**k)
COMPLEXITIES = {
    "meibp": _MEIBP,
    "meibp-default": _MEIBP,
    "f-vibp": _QUADRATIC,
    "i-vibp": _QUADRATIC,
    "aibp": _ACCELERATED,
    "t-aibp": _ACCELERATED,
    "ugibbs": _QUADRATIC,
    "t-ugibbs": _QUADRATIC,
    "inmf": Complexity("N (K^3 D + K D^2)", lambda n, k, d: n * (k**3 * d + k * d**2)),
    "bnmf": Complexity("N K D + K^2 (N + D)", lambda n, k, d: n * k * d + k**2 * (n + d)),
    "incremental": _BEAM,
    "naive": _BEAM,
}


# ---------------------------------------------------------------- data and the common model


@dataclass(frozen=True)
class Problem:
    """Data, a model that methods start from, and settings that go with the data."""

    name: str
    X: npt.NDArray[np.float32]
    model: MEIBP
    settings: dict[str, Any]


def planted(sizes: Sizes) -> Problem:
    """The paper's recipe in unit noise, and the model that a few sweeps make of its truth."""
    draw = make_binary_factors(
        sizes["N"], sizes["D"], sizes["K"], noise_std=NOISE_STD, random_state=0
    )
    truth = {
        "Z": draw.assignments,
        "mu": draw.factors,
        "sigma": np.full(draw.factors.shape, 0.1),
    }
    settings = {"noise_std": NOISE_STD, "factor_std": FACTOR_STD}
    model = MEIBP(
        sizes["K"],
        init=truth,
        fit_intercept=False,
        learn_hyperparameters=False,
        max_iter=2,
        **settings,
    )
    X = draw.data.astype(np.float32)
    common.quietly(lambda: model.fit(X))
    return Problem("planted", X, model, settings)


def piano(folder: Path, n_samples: int, n_components: int) -> Problem | None:
    """DFT magnitudes of piano recordings, if they are there."""
    path = folder / "piano_16000x161_dft1024.npz"
    if not path.exists():
        print(f"{path} is not there: no Piano")
        return None
    with np.load(path, allow_pickle=False) as file:
        X = file["X"][:n_samples]
    model = MEIBP(n_components, fit_intercept=False, random_state=0)
    common.quietly(lambda: model.fit(X))
    return Problem("Piano", X, model, {})


# ---------------------------------------------------------------- sweeps


def floor_of(X: npt.NDArray[np.float32], n_components: int) -> float:
    """Seconds of the two products with all threads or, if that is quicker, with one."""
    threaded = common.two_product_floor(X, n_components)["floor"]
    with single_threaded_blas():
        return min(threaded, common.two_product_floor(X, n_components, 3)["floor"])


def prepared(estimator: Any, X: npt.NDArray[np.float32]) -> tuple[Context, Any]:
    """What a fit's method works with, and the method."""
    executor = estimator._executor()
    observations = estimator._observe_training_data(X, executor)
    context = Context(observations, np.random.default_rng(0), executor)
    return context, estimator._method(observations)


def time_sweeps(
    case: Case, problem: Problem, repetitions: int, n_rows: int | None = None
) -> dict[str, Any]:
    """One sweep several times, from copies of one state, and then the floor."""
    X = problem.X[:n_rows]
    settings = problem.settings
    if case.label == "bnmf":
        settings = {name: value for name, value in settings.items() if name != "factor_std"}
    estimator = case.estimator(problem.model, random_state=0, **settings)

    def begin() -> tuple[Any, Context, Any]:
        context, method = prepared(estimator, X)
        return method, context, method.init(context)

    times: list[float] = []
    with single_threaded_blas():
        start, (method, context, state) = common.quietly(lambda: common.seconds_of(begin))
        if case.situation == "few":
            state.n_sweeps = LATE
        elif case.situation != "first rows":
            method.step(context, state)
        while len(times) < 2 or (len(times) < repetitions and sum(times) < PATIENCE):
            own, work = common.again(context), state.copy()
            seconds, report = common.seconds_of(lambda own=own, work=work: method.step(own, work))
            times.append(seconds)
    best = min(times)
    return {
        "name": case.name,
        "label": case.label,
        "data": problem.name,
        "rows": len(X),
        "features_after": report.n_components,
        "bits_changed": report.n_changed,
        "start": start,
        "median": float(np.median(times)),
        "best": best,
        "microseconds_a_row": 1e6 * best / len(X),
        "floor": floor_of(X, problem.model.n_components_),
        "repetitions": len(times),
    }


def first_calls() -> list[dict[str, Any]]:
    """Have all kernels compiled, or loaded from the cache on disk."""
    problem = planted({"N": 200, "K": 4, "D": 20})
    return [
        {
            "name": case.name,
            "seconds": common.seconds_of(lambda case=case: time_sweeps(case, problem, 2))[0],
        }
        for case in (*SWEEP_CASES, BEAM_CASE)
    ]


def compare(problem: Problem, repetitions: int, beam_rows: int) -> list[dict[str, Any]]:
    """All methods on one set of data."""
    rows = [time_sweeps(case, problem, repetitions) for case in SWEEP_CASES]
    n, d = problem.X.shape
    floor_of_a_row = min(row["floor"] for row in rows) / n
    rows.append(time_sweeps(BEAM_CASE, problem, repetitions, beam_rows))
    for row in rows:
        row["floors"] = row["best"] / (row["rows"] * floor_of_a_row)
    common.print_table(
        f"{problem.name}: seconds of a sweep, N = {n}, D = {d}, K = {problem.model.n_components_},"
        " float32; floors: best in units of the two products of these rows",
        rows,
        {
            "name": "",
            "rows": "d",
            "features_after": "d",
            "bits_changed": "d",
            "start": ".3f",
            "median": ".4f",
            "best": ".4f",
            "microseconds_a_row": ".2f",
            "floor": ".4f",
            "floors": ".1f",
        },
    )
    return rows


# ---------------------------------------------------------------- growth


@dataclass(frozen=True)
class Series:
    """Sizes that vary one at a time about a base."""

    base: Sizes
    values: dict[Variable, tuple[int, ...]]

    def points(self, variable: Variable) -> list[Sizes]:
        """All sizes, one of them varied."""
        return [{**self.base, variable: value} for value in self.values[variable]]


SWEEP_SERIES = Series(
    {"N": 4000, "K": 25, "D": 160},
    {
        "N": (2000, 4000, 8000, 16_000, 32_000),
        "K": (5, 10, 20, 40, 80),
        "D": (80, 160, 320, 640, 1280),
    },
)
QUICK_SWEEP_SERIES = Series(
    {"N": 400, "K": 8, "D": 40},
    {"N": (200, 400, 800), "K": (4, 8, 16), "D": (20, 40, 80)},
)
# N is large enough for all features to be found before the last rows, which are timed.
BEAM_SERIES: dict[Scoring, Series] = {
    "incremental": Series(
        {"N": 400, "K": 6, "D": 160},
        {"N": (100, 200, 400, 800, 1600), "K": (2, 4, 6, 8, 10), "D": (40, 80, 160, 320, 640)},
    ),
    "naive": Series(
        {"N": 100, "K": 3, "D": 40},
        {"N": (100, 200, 400, 800, 1600), "K": (2, 3, 4, 5, 6), "D": (40, 80, 160, 320, 640)},
    ),
}
_QUICK_BEAM = Series(
    {"N": 40, "K": 3, "D": 20}, {"N": (20, 40, 80), "K": (2, 3, 4), "D": (20, 40, 80)}
)
QUICK_BEAM_SERIES: dict[Scoring, Series] = {"incremental": _QUICK_BEAM, "naive": _QUICK_BEAM}
# Rows timed at the end of a beam search, of which the quickest counts.
LAST_ROWS = {"incremental": 20, "naive": 2}
# A beam finds all features only if the factors' prior fits them: a third of their entries are one.
GROWTH_BEAM = {"beam_width": 3, "factor_std": 3.0**-0.5}


def sweeps_at(sizes: Sizes, repetitions: int) -> list[dict[str, Any]]:
    """Seconds of all methods, and of the two products, at one size."""
    problem = planted(sizes)
    rows = [time_sweeps(case, problem, repetitions) for case in SWEEP_CASES]
    floor = min(row["floor"] for row in rows)
    return [{"name": "two products", "label": "floor", "best": floor}, *rows]


def beam_row_at(sizes: Sizes, scoring: Scoring) -> dict[str, Any]:
    """Seconds to place the N-th row; those before are placed with the quick scores."""
    problem = planted(sizes)
    settings = problem.settings | GROWTH_BEAM
    estimator = BEAM_CASE.estimator(problem.model, random_state=0, **settings)
    times = []
    with single_threaded_blas():
        context, method = common.quietly(lambda: prepared(estimator, problem.X))
        state = method.init(context)
        search = BeamPass(
            context.observations,
            method.row_order(context, state),
            state.fit.hyperparameters.values(),
            method.intercept_std,
            Limits(method.beam_width, method.n_components, method.max_subset_enumeration),
        )
        while search.n_placed < sizes["N"] - LAST_ROWS[scoring]:
            search.place_next()
        search.limits = replace(search.limits, scoring=scoring)
        while not search.done:
            times.append(common.seconds_of(search.place_next)[0])
    return {
        "name": f"bs-ibp, {scoring}",
        "label": scoring,
        "best": min(times),
        "features_after": int(search.beam.n_active[0]) - search.n_fixed,
    }


def measure_growth(
    sweep_series: Series, beam_series: dict[Scoring, Series], repetitions: int
) -> list[dict[str, Any]]:
    """All methods at all sizes."""
    points = []
    for variable in ("N", "K", "D"):
        for sizes in sweep_series.points(variable):
            points += [
                {"variable": variable, **sizes, **row} for row in sweeps_at(sizes, repetitions)
            ]
            print(f"{variable} = {sizes[variable]}", flush=True)
        for scoring, series in beam_series.items():
            points += [
                {"variable": variable, **sizes, **beam_row_at(sizes, scoring)}
                for sizes in series.points(variable)
            ]
    return points


def exponents_of(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slopes over the upper half of the sizes, measured and by the paper's complexity."""
    rows = []
    for name in dict.fromkeys(point["name"] for point in points):
        own = [point for point in points if point["name"] == name]
        complexity = COMPLEXITIES.get(own[0]["label"], FLOOR)
        row = {"name": name, "complexity": complexity.text}
        for variable in ("N", "K", "D"):
            series = [point for point in own if point["variable"] == variable]
            upper = series[len(series) // 2 :]
            row[variable] = common.slope(
                [point[variable] for point in upper], [point["best"] for point in upper]
            )
            row[f"{variable}_paper"] = complexity.slope(upper, variable)
        rows.append(row)
    return rows


def print_growth(points: Sequence[dict[str, Any]], exponents: Sequence[dict[str, Any]]) -> None:
    """One table per variable and kind of iteration, and the exponents."""
    for variable in ("N", "K", "D"):
        chosen = [point for point in points if point["variable"] == variable]
        for title, is_beam in (("a sweep", False), ("a row placed by beam search", True)):
            own = [point for point in chosen if point["name"].startswith("bs-ibp") == is_beam]
            sizes = sorted({point[variable] for point in own})
            table = [
                {"name": name}
                | {str(point[variable]): point["best"] for point in own if point["name"] == name}
                for name in dict.fromkeys(point["name"] for point in own)
            ]
            bases = {
                tuple(f"{other} = {point[other]}" for other in "NKD" if other != variable)
                for point in own
            }
            about = "; ".join(sorted(", ".join(base) for base in bases))
            common.print_table(
                f"Seconds of {title} at {variable} = ... ({about})",
                table,
                {"name": ""} | {str(size): ".5f" for size in sizes},
            )
    formats = {"name": ""}
    for variable in ("N", "K", "D"):
        formats |= {variable: ".2f", f"{variable}_paper": ".2f"}
    common.print_table(
        "Exponents over the upper half of the sizes, measured and by the complexity",
        exponents,
        formats | {"complexity": ""},
    )


def main() -> None:
    parser = common.parser("methods", __doc__)
    parser.add_argument("--data", type=Path, default=common.DATA, help="folder of the Piano file")
    arguments = parser.parse_args()
    sizes: Sizes = {"N": N_SAMPLES, "K": N_COMPONENTS, "D": N_FEATURES}
    beam_rows, repetitions = BEAM_ROWS, 7
    sweep_series, beam_series = SWEEP_SERIES, BEAM_SERIES
    if arguments.quick:
        sizes, beam_rows, repetitions = {"N": 1000, "K": 8, "D": N_FEATURES}, 100, 2
        sweep_series, beam_series = QUICK_SWEEP_SERIES, QUICK_BEAM_SERIES

    started = time.perf_counter()
    compilation = first_calls()
    common.print_table(
        "First call: compilation, or loading from the cache",
        compilation,
        {"name": "", "seconds": ".2f"},
    )
    problems = [planted(sizes), piano(arguments.data, sizes["N"], sizes["K"])]
    sweeps = []
    for problem in problems:
        if problem is not None:
            sweeps += compare(problem, repetitions, beam_rows)
    print(f"\n{time.perf_counter() - started:.0f} s so far; growth:")
    points = measure_growth(sweep_series, beam_series, repetitions)
    exponents = exponents_of(points)
    print_growth(points, exponents)
    print(f"\n{time.perf_counter() - started:.0f} s in all")
    common.save(
        "methods",
        arguments,
        first_calls=compilation,
        sweeps=sweeps,
        growth=points,
        exponents=exponents,
    )


if __name__ == "__main__":
    main()
