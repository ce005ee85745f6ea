"""Weighted codes: how evidence turns with the number of features, and what they cost.

    python benchmarks/weighted.py --plot output/weighted

Digits, every fourth row of Piano and Yale 48x42 with a block hidden (the paper's: a fifth of the
columns in a random half of the rows), in three parts.

curve: fits that begin with 10, 25, 50, 100, 200 and 400 features of a nonnegative factorisation and
make no moves, so that features can only be dropped; evidence and the log-likelihood of hidden
entries beside the number that is left, and binary codes (spectral start, no moves) beside them.

starts: fits with the number left open, from three starts: the default, the factorisation alone with
another seed, the spectral start alone. How far their numbers are from that of the curve's best.

speed: Piano, 16000 x 161, complete, single precision, 25 features. A sweep beside a binary one: the
mean of six that follow the first ten of a fit without moves. And a whole fit beside scikit-learn's
NMF with 200 iterations; with moves and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
import heldout
import numpy as np
import numpy.typing as npt
import peers
import real_data
from sklearn.decomposition import NMF

from ibp import MEIBP

FloatArray = npt.NDArray[np.float64]
SETS = ("digits", "Piano", "Yale 48x42")
PARTS = ("curve", "starts", "speed")
NUMBERS = (10, 25, 50, 100, 200, 400)
STARTS: dict[str, dict[str, Any]] = {
    "default": {},
    "factorisation, another seed": {"init": "random", "random_state": 1},
    "spectral": {"init": "spectral"},
}
# Sweeps before those that are timed, and these; features, and iterations of NMF.
SWEEPS, TIMED_SWEEPS, SPEED_FEATURES, NMF_ITERATIONS = 10, 6, 25, 200


def first_call() -> float:
    """Have all compiled; the seconds that took."""
    seconds = common.first_call(np.float32, np.float64)
    for dtype in (np.float32, np.float64):
        data = common.paper_set(200, 30, 4, seed=0, dtype=dtype)
        for X in (data.complete, data.seen):
            for settings in ({}, {"init": "random"}, {"init": "spectral"}):
                model = MEIBP(codes="weighted", random_state=0, **settings)
                seconds += common.timed_fit(model, X)
    return seconds


def factorization(
    X: npt.NDArray[np.floating], n_components: int
) -> dict[str, npt.NDArray[np.floating]]:
    """A start of so many features: the factorisation of what is above each column's minimum."""
    low = np.nanmin(np.asarray(X, dtype=np.float64), axis=0)
    found = peers.masked_factors(X - low, n_components)
    return {"Z": found.codes, "A": found.factors, "intercept": low}


def figures(model: MEIBP, problem: heldout.Problem, seconds: float) -> dict[str, Any]:
    """How a fit ended."""
    scores = problem.score(*heldout.density_of(model, problem.seen, problem.complete))
    on = model.assignments_.sum(axis=1).mean() if model.n_components_ else 0.0
    return {
        "features": model.n_components_,
        "on": float(on),
        "evidence": model.evidence_,
        "rmse": scores["rmse"],
        "log_likelihood": scores["log_likelihood"],
        "seconds": seconds,
    }


def curve(problem: heldout.Problem, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Fits that begin with given numbers of features."""
    rows = []
    for number in numbers:
        model = MEIBP(
            codes="weighted",
            init=factorization(problem.seen, number),
            moves=False,
            random_state=0,
        )
        seconds = common.timed_fit(model, problem.seen)
        rows.append({"codes": "weighted", "asked": number, **figures(model, problem, seconds)})
        binary = MEIBP(number, init="spectral", moves=False, random_state=0)
        seconds = common.timed_fit(binary, problem.seen)
        rows.append({"codes": "binary", "asked": number, **figures(binary, problem, seconds)})
        print(f"{problem.name}, {number}: {rows[-2]['seconds']:.1f} s", flush=True)
    return rows


def starts(problem: heldout.Problem) -> list[dict[str, Any]]:
    """Fits with the number left open."""
    rows = []
    for name, settings in STARTS.items():
        model = MEIBP(codes="weighted", **{"random_state": 0, **settings})
        seconds = common.timed_fit(model, problem.seen)
        rows.append({"start": name, **figures(model, problem, seconds)})
        print(f"{problem.name}, {name}: {seconds:.1f} s", flush=True)
    return rows


def speed(X: npt.NDArray[np.floating]) -> list[dict[str, Any]]:
    """A sweep and a whole fit, beside binary codes and NMF."""
    times: dict[str, list[float]] = {}
    rows: list[dict[str, Any]] = []
    for codes in ("binary", "weighted"):
        times[codes] = []

        def note(progress: Any, seconds: list[float] = times[codes]) -> None:
            seconds.append(progress.seconds)

        settings = {"codes": codes, "random_state": 0}
        model = MEIBP(
            SPEED_FEATURES,
            moves=False,
            max_iter=SWEEPS + TIMED_SWEEPS,
            tol=0.0,
            callbacks=note,
            **settings,
        )
        common.timed_fit(model, X)
        sweeps = np.diff(times[codes])[-TIMED_SWEEPS:]
        rows.append({"what": f"{codes}: a sweep, mean of six", "seconds": float(sweeps.mean())})
        for moves in (False, True):
            model = MEIBP(SPEED_FEATURES, moves=moves, **settings)
            seconds = common.timed_fit(model, X)
            about = f"{codes}: whole fit, {'with' if moves else 'without'} moves"
            rows.append({"what": about, "seconds": seconds, "sweeps": model.n_iter_})
    above = X - X.min()
    nmf = NMF(SPEED_FEATURES, max_iter=NMF_ITERATIONS, tol=0.0, random_state=0)
    seconds, _ = common.seconds_of(lambda: common.quietly(lambda: nmf.fit_transform(above)))
    rows.append({"what": f"NMF, {NMF_ITERATIONS} iterations", "seconds": seconds})
    sweep = {row["what"]: row["seconds"] for row in rows}
    binary = sweep["binary: a sweep, mean of six"]
    for row in rows:
        row["of_nmf"] = row["seconds"] / seconds if "whole" in row["what"] else None
        row["of_binary"] = row["seconds"] / binary if "a sweep" in row["what"] else None
    return rows


def plot(path: Path, curves: dict[str, list[dict[str, Any]]]) -> None:
    """Evidence and hidden entries over the number of features, as PNG and as SVG."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("Matplotlib is not there: no picture")
        return
    from ibp.plots.canvas import MAIN, SECOND, light_frame

    figure = Figure(figsize=(4.2 * len(curves), 5.6), layout="constrained")
    panels = figure.subplots(2, len(curves), squeeze=False, sharex="col")
    for column, (name, rows) in enumerate(curves.items()):
        for upper, quantity in enumerate(("evidence", "log_likelihood")):
            panel = panels[upper, column]
            for codes, colour in (("weighted", MAIN), ("binary", SECOND)):
                own = [row for row in rows if row["codes"] == codes]
                features = [row["features"] for row in own]
                values = [row[quantity] for row in own]
                panel.plot(features, values, "o-", color=colour, markersize=4, label=codes)
            panel.set_xscale("log")
            light_frame(panel)
        panels[0, column].set_title(name)
        panels[1, column].set_xlabel("features")
    panels[0, 0].set_ylabel("evidence")
    panels[1, 0].set_ylabel("log-likelihood of a hidden entry")
    panels[0, 0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)
        print(f"drawn to {path.with_suffix(suffix)}")


FITS = {
    "features": "d",
    "on": ".1f",
    "evidence": ".0f",
    "rmse": ".4f",
    "log_likelihood": ".3f",
    "seconds": ".1f",
}


def main() -> None:
    parser = common.parser("weighted", __doc__)
    parser.add_argument("--data", type=Path, default=common.DATA, help="folder of the files")
    parser.add_argument("--only", nargs="*", choices=SETS, help="some of the sets")
    parser.add_argument("--parts", nargs="*", choices=PARTS, help="some of the parts")
    parser.add_argument("--plot", type=Path, help="the picture's name; .png and .svg are written")
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    numbers = (3, 6) if arguments.quick else NUMBERS
    compilation = first_call()

    curves: dict[str, list[dict[str, Any]]] = {}
    opened: dict[str, list[dict[str, Any]]] = {}
    for name in arguments.only or SETS:
        X = heldout.load(name, arguments.data, arguments.quick)
        if X is None:
            continue
        problem = heldout.Problem(name, "block", X, heldout.hide(X.shape, "block", 0))
        if "curve" in parts:
            curves[name] = curve(problem, numbers)
            formats = {"codes": "", "asked": "d", **FITS}
            common.print_table(f"{name}: from given numbers", curves[name], formats)
        if "starts" in parts:
            opened[name] = starts(problem)
            common.print_table(f"{name}: number left open", opened[name], {"start": "", **FITS})
    timed: list[dict[str, Any]] = []
    if "speed" in parts:
        X = real_data.load("Piano", arguments.data)
        if X is not None:
            timed = speed(X[::40] if arguments.quick else X)
            formats = {"what": "", "seconds": ".3f", "sweeps": "d"}
            formats |= {"of_binary": ".2f", "of_nmf": ".2f"}
            common.print_table("Piano, 25 features", timed, formats)
    if arguments.plot and curves:
        plot(arguments.plot, curves)
    common.save(
        "weighted",
        arguments,
        compilation_seconds=compilation,
        curves=curves,
        starts=opened,
        speed=timed,
    )


if __name__ == "__main__":
    main()
