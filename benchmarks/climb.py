"""How soon which evidence is reached, with moves of features and without.

    python benchmarks/climb.py --plot output/climb

Digits, Yale 48x42 and every fourth row of Piano, with --whole also all of it, each fitted with the
defaults and with moves=False. A callback records evidence and seconds after every sweep. The tables
have the highest evidence reached within 1, 2, 5, 10 ... seconds of the fit, start included; a fit
that has ended stays at what it reached. With moves is to be never below without at any of these
times. Clocks differ from fit to fit, so the largest shortfall at any moment is reported too, as a
share of what the fit without moves gained over the data without any feature, and when the last was.

--quality compares the default with the best of several (20) random starts without moves that begin
with as many features as it found. --plot writes a picture, as PNG and SVG, if Matplotlib is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import accidents
import common
import numpy as np
import numpy.typing as npt
import real_data

from ibp import MEIBP

WHOLE = "Piano, whole"
SETS = ("digits", "Yale 48x42", "Piano", WHOLE)
RESTARTS = 20
STEPS = (1, 2, 5)
# The first time in the tables, and that of fits which only show that it runs.
FIRST_SECOND, FIRST_QUICK_SECOND = 1.0, 0.01
# Evidence that differs by this part is the same but for rounding.
ROUNDING = 1e-9


@dataclass
class Climb:
    """Evidence and number of features after every sweep of a fit: a callback that records them."""

    seconds: list[float] = field(default_factory=list)
    evidence: list[float] = field(default_factory=list)
    features: list[int] = field(default_factory=list)

    def __call__(self, progress: Any) -> None:
        """Record a sweep."""
        self.seconds.append(progress.seconds)
        self.evidence.append(progress.evidence)
        self.features.append(progress.n_components)

    def reached(self, times: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The highest evidence until each of the times; NaN before the first sweep has ended."""
        highest = np.concatenate([[np.nan], np.maximum.accumulate(self.evidence)])
        return highest[np.searchsorted(self.seconds, times, side="right")]


@dataclass(frozen=True)
class Fitted:
    """A fit, how it climbed, how long it took in all, and what it gained."""

    model: MEIBP
    climb: Climb
    seconds: float
    gain: float

    def figures(self, label: str) -> dict[str, Any]:
        """How it ended."""
        moves = moves_of(self.model)
        return {
            "fit": label,
            "features": self.model.n_components_,
            "evidence": self.model.evidence_,
            "gain": self.gain,
            "sweeps": self.model.n_iter_,
            "ending": self.model.ending_,
            "seconds": self.seconds,
            "accepted": ", ".join(f"{name} {number}" for name, (number, _) in moves.items()),
            "moves": moves,
            "climb": vars(self.climb),
        }


def moves_of(model: MEIBP) -> dict[str, tuple[int, float]]:
    """How many moves of each kind a fit accepted, and what they gained together."""
    names = model.history_.get("move")
    if names is None:
        return {}
    gains = model.history_["move_gain"]
    return {
        str(name): (int((names == name).sum()), float(gains[names == name].sum()))
        for name in np.unique(names[names != ""])
    }


def fit(X: Any, settings: dict[str, Any], seed: int) -> Fitted:
    """Fit with some settings and record the climb."""
    climb = Climb()
    model = MEIBP(callbacks=climb, random_state=seed, **settings)
    seconds = common.timed_fit(model, X)
    gain = model.evidence_ - accidents.baseline_evidence(model, X)
    return Fitted(model, climb, seconds, gain)


def load(name: str, folder: Path, quick: bool) -> npt.NDArray[np.floating] | None:
    """One data set, or None if its file is not there."""
    X = real_data.load("Piano" if name == WHOLE else name, folder)
    if X is None:
        return None
    if name == "Piano":
        X = X[:: accidents.EVERY_PIANO_ROW]
    return np.ascontiguousarray(accidents.small(X) if quick else X)


# ---------------------------------------------------------------- with moves beside without


def table_times(first: float, last: float) -> list[float]:
    """1, 2, 5, 10 ... from the first time to the one by which all has ended."""
    times = [first]
    while times[-1] < last:
        n = len(times)
        times.append(first * STEPS[n % len(STEPS)] * 10 ** (n // len(STEPS)))
    return times


def compare(moving: Fitted, still: Fitted, first: float) -> tuple[list[dict[str, Any]], dict]:
    """What each had reached at the table's times, and how far with moves was ever below."""
    times = table_times(first, max(*moving.climb.seconds, *still.climb.seconds))
    rows: list[dict[str, Any]] = []
    for at, high, low in zip(
        times, moving.climb.reached(times), still.climb.reached(times), strict=True
    ):
        known = {"with_moves": high, "without": low, "above": high - low}
        shown = {name: value for name, value in known.items() if not np.isnan(value)}
        if shown:
            rows.append({"seconds": at, **shown, "below": "yes" if below(high, low) else "no"})
    moments = np.union1d(moving.climb.seconds, still.climb.seconds)
    high, low = moving.climb.reached(moments), still.climb.reached(moments)
    lower = below(high, low)
    both = lower & ~np.isnan(high)
    shortfall = float((low - high)[both].max(initial=0.0))
    return rows, {
        "never_below": all(row["below"] == "no" for row in rows),
        "shortfall": shortfall / still.gain if still.gain > 0 else None,
        "last_shortfall_at": float(moments[lower].max()) if lower.any() else None,
    }


def below(high: Any, low: Any) -> Any:
    """Whether with moves is below without: also if only that has an evidence yet."""
    unknown = np.isnan(high) & ~np.isnan(low)
    return unknown | (high < low - ROUNDING * np.abs(low))


# ---------------------------------------------------------------- quality


def quality(
    name: str, X: Any, default: Fitted, settings: dict[str, Any], n_restarts: int
) -> dict[str, Any] | None:
    """The default beside random starts without moves, of as many features as it found."""
    n_components = default.model.n_components_
    if n_components == 0:
        print(f"{name}: no features, so nothing to start from at random")
        return None
    evidence, numbers, total = [], [], 0.0
    for seed in range(n_restarts):
        model = MEIBP(n_components, init="random", n_init=1, random_state=seed, **settings)
        seconds = common.timed_fit(model, X)
        evidence.append(model.evidence_)
        numbers.append(model.n_components_)
        total += seconds
        print(
            f"{name}, random start {seed}: {model.n_components_} of {n_components} features, "
            f"evidence {model.evidence_:.1f}, {seconds:.1f} s",
            flush=True,
        )
    best, baseline = max(evidence), default.model.evidence_ - default.gain
    return {
        "data": name,
        "features": n_components,
        "default": default.model.evidence_,
        "seconds": default.seconds,
        "best_start": best,
        "median_start": float(np.median(evidence)),
        "best_of_default_gain": (best - baseline) / default.gain if default.gain > 0 else None,
        "all_seconds": total,
        "default_is_best": "yes" if not below(default.model.evidence_, best) else "no",
        "start_evidence": evidence,
        "start_features": numbers,
    }


# ---------------------------------------------------------------- picture


def plot(path: Path, climbs: dict[str, tuple[Fitted, Fitted]]) -> None:
    """Gain against seconds, a panel for each set, as PNG and as SVG."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("Matplotlib is not there: no picture")
        return
    from ibp.plots.canvas import MAIN, SECOND, light_frame

    figure = Figure(figsize=(4.2 * len(climbs), 3.4), layout="constrained")
    panels = figure.subplots(1, len(climbs), squeeze=False)[0]
    for panel, (name, fits) in zip(panels, climbs.items(), strict=True):
        end = max(max(fitted.climb.seconds) for fitted in fits)
        labels = (("with moves", MAIN), ("without", SECOND))
        for fitted, (label, colour) in zip(fits, labels, strict=True):
            times = np.array([*fitted.climb.seconds, end])
            gains = fitted.climb.reached(times) - (fitted.model.evidence_ - fitted.gain)
            panel.step(times, gains, where="post", color=colour, linewidth=1.5, label=label)
        panel.set_xscale("log")
        panel.set_title(name)
        panel.set_xlabel("seconds")
        light_frame(panel)
    panels[0].set_ylabel("evidence above that without features")
    panels[0].legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)
        print(f"drawn to {path.with_suffix(suffix)}")


def run(name: str, X: Any, arguments: Any) -> tuple[tuple[Fitted, Fitted], dict[str, Any]]:
    """Both fits of a set, and the tables of them."""
    noise = accidents.with_noise(arguments.noise)
    fits = []
    for label, moves in (("with moves", True), ("without", False)):
        fitted = fit(X, noise | accidents.with_moves(moves), arguments.seed)
        print(f"{name}, {label}: {fitted.seconds:.1f} s", flush=True)
        fits.append(fitted)
    moving, still = fits
    n, d = X.shape
    first = FIRST_QUICK_SECOND if arguments.quick else FIRST_SECOND
    times, verdict = compare(moving, still, first)
    ends = [moving.figures("with moves"), still.figures("without")]
    common.print_table(
        f"{name}, {n} x {d}: how both ended",
        ends,
        {
            "fit": "",
            "features": "d",
            "evidence": ".1f",
            "gain": ".1f",
            "sweeps": "d",
            "ending": "",
            "seconds": ".2f",
            "accepted": "",
        },
    )
    common.print_table(
        f"{name}: evidence reached",
        times,
        {"seconds": "g", "with_moves": ".1f", "without": ".1f", "above": "+.1f", "below": ""},
    )
    print(flush=True)
    return (moving, still), {"data": name, **verdict, "ends": ends, "reached": times}


def main() -> None:
    parser = common.parser("climb", __doc__)
    parser.add_argument("--data", type=Path, default=common.DATA, help="folder of the files")
    parser.add_argument("--only", nargs="*", choices=SETS, help="some of the sets")
    parser.add_argument("--whole", action="store_true", help="all rows of Piano too")
    parser.add_argument("--noise", choices=("shared", "per_column"), help="instead of the default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quality", type=int, nargs="?", const=RESTARTS, default=0, help="so many random starts"
    )
    parser.add_argument("--plot", type=Path, help="the picture's name; .png and .svg are written")
    arguments = parser.parse_args()
    if not accidents.has_moves():
        print("this version has no moves: both fits are the one without")
    compilation = accidents.first_call(np.float32, np.float64, noise=arguments.noise)

    sets: list[dict[str, Any]] = []
    qualities: list[dict[str, Any]] = []
    climbs: dict[str, tuple[Fitted, Fitted]] = {}
    for name in chosen(arguments.only, arguments.whole):
        X = load(name, arguments.data, arguments.quick)
        if X is None:
            continue
        climbs[name], figures = run(name, X, arguments)
        sets.append(figures)
        if arguments.quality:
            settings = accidents.with_noise(arguments.noise) | accidents.with_moves(False)
            found = quality(name, X, climbs[name][0], settings, arguments.quality)
            qualities += [] if found is None else [found]

    print(f"first call: {compilation:.1f} s")
    common.print_table(
        "With moves beside without, at the tables' times and at any moment",
        [figures | {"never_below": "yes" if figures["never_below"] else "no"} for figures in sets],
        {"data": "", "never_below": "", "shortfall": ".2%", "last_shortfall_at": ".2f"},
    )
    if qualities:
        common.print_table(
            f"The default beside {arguments.quality} random starts without moves",
            qualities,
            {
                "data": "",
                "features": "d",
                "default": ".1f",
                "seconds": ".1f",
                "best_start": ".1f",
                "median_start": ".1f",
                "best_of_default_gain": ".4f",
                "all_seconds": ".1f",
                "default_is_best": "",
            },
        )
    if arguments.plot and climbs:
        plot(arguments.plot, climbs)
    common.save(
        "climb",
        arguments,
        compilation_seconds=compilation,
        noise=arguments.noise,
        sets=sets,
        quality=qualities,
    )


def chosen(only: Sequence[str] | None, whole: bool) -> list[str]:
    """The sets to fit: all rows of Piano if they are asked for, in either way."""
    names = list(only or SETS[:3])
    return names + [WHOLE] * (whole and WHOLE not in names)


if __name__ == "__main__":
    main()
