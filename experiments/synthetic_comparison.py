"""The small half of the paper's Figure 3: every method on one synthetic data set.

500 rows, 500 dimensions, 20 binary features; a fifth of the dimensions is held out in the last half
of the rows. Every method has the paper's settings (`ibp.METHODS`) and one thread. Those with
nonnegative factors and no intercept see the data shifted to a zero minimum. The test log-likelihood
of the held-out entries is recorded over time, with the clock stopped: that of the fit's own codes
of these rows (of samplers: of the average over the samples kept so far) at one noise level for all,
the paper's 0.75 standard deviations of the data, and at the noise level of the fit. The paper's
data must have been rescaled, for no model of data with unit noise can be as good as its Figure 3
says; the column "unit std" has the values for data divided by their standard deviation.

    python experiments/synthetic_comparison.py              # all methods, five restarts
    python experiments/synthetic_comparison.py --methods aibp ugibbs --seeds 2
    python experiments/synthetic_comparison.py --as-made    # no shift, no intercept

With --as-made nobody needs an offset, and samplers begin like MEIBP, every row having every feature
with probability 1/3, not with a draw from their prior.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ibp import METHODS
from ibp.datasets import make_binary_factors
from ibp.estimators.base import Explanation
from ibp.evaluate import held_out_block, row_log_likelihood
from ibp.loop import Progress, run
from ibp.random_state import spawn_generators

FloatArray = npt.NDArray[np.float64]

# Read off Figure 3, best first: test log-likelihood and seconds, a lower bound for the last four.
PAPER = {
    "ugibbs": (-2.45e4, 400),
    "meibp": (-2.55e4, 50),
    "t-ugibbs": (-2.65e4, 1000),
    "bnmf": (-2.73e4, 10),
    "aibp": (-2.85e4, 100),
    "t-aibp": (-2.95e4, 100),
    "i-vibp": (-3.07e4, 100),
    "f-vibp": (-3.1e4, 100),
}
STD_FRACTION = 0.75
# Every sweep is scored at first, later those that lie this factor apart.
SWEEPS_SCORED, SWEEP_RATIO = 10, 1.15
WARM_UP_SWEEPS = 2
# How the paper's authors begin.
START_PROBABILITY = 1.0 / 3.0


@dataclass(frozen=True)
class Task:
    """Data with a held-out block.

    Attributes
    ----------
    data : ndarray of shape (N, D)
        All of it.
    hidden : ndarray of shape (N, D), bool
        Rows times columns that fits do not see.
    truth : Explanation
        The true codes and factors, and the true noise level.
    """

    data: FloatArray
    hidden: npt.NDArray[np.bool_]
    truth: Explanation

    @classmethod
    def draw(cls, n_samples: int, n_features: int, n_components: int, seed: int) -> Task:
        """The paper's recipe."""
        drawn = make_binary_factors(n_samples, n_features, n_components, random_state=seed)
        truth = Explanation(drawn.assignments, drawn.factors, np.zeros(n_features), 1.0)
        return cls(drawn.data, held_out_block(n_samples, n_features, seed), truth)

    @property
    def training(self) -> FloatArray:
        """What fits see: NaN where it is hidden."""
        return np.where(self.hidden, np.nan, self.data)

    @property
    def n_components(self) -> int:
        """True number of features."""
        return int(self.truth.components.shape[0])

    @property
    def data_std(self) -> float:
        """Standard deviation of what fits see."""
        return float(np.nanstd(self.training))

    @property
    def common_noise_std(self) -> float:
        """The noise level at which all methods are compared."""
        return STD_FRACTION * self.data_std

    def test_log_likelihood(self, how: Explanation, shift: float, noise_std: float) -> float:
        """Sum over the held-out entries of the data plus a shift."""
        rows, columns = self.hidden.any(axis=1), self.hidden.any(axis=0)
        sums, _ = row_log_likelihood(
            self.data[np.ix_(rows, columns)] + shift,
            how.codes[rows],
            how.components[:, columns],
            how.intercept[columns],
            noise_std,
        )
        return float(sums.sum())


def explanation(model: Any) -> Explanation:
    """How a fitted model explains its training rows; a sampler averages over what it kept."""
    if not hasattr(model, "samples_"):
        return Explanation(
            model._training_codes(), model.components_, model.intercept_, model.noise_std_
        )
    samples = model.samples_
    return Explanation(
        samples.assignments,
        samples.components / len(samples),
        samples.intercept.mean(axis=0),
        float(np.sqrt((samples.noise_std**2).mean())),
    )


@dataclass
class Recorder:
    """Scores a fit on its way, and knows how long that took."""

    score: Callable[[Any], tuple[float, float]]
    started: float
    own_seconds: float = 0.0
    next_sweep: int = 1
    curve: list[dict[str, float]] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        """Score a sweep if it is due."""
        if progress.iteration >= self.next_sweep:
            self.record(progress.iteration, progress.state)

    def record(self, sweep: int, state: Any) -> None:
        """Score what a fit that ended now would know."""
        now = time.perf_counter()
        common, own = self.score(state)
        self.curve.append(
            {
                "sweep": sweep,
                "seconds": now - self.started - self.own_seconds,
                "test_log_likelihood": common,
                "test_log_likelihood_own_noise": own,
            }
        )
        self.next_sweep = sweep + 1
        if sweep >= SWEEPS_SCORED:
            self.next_sweep = int(np.ceil(SWEEP_RATIO * sweep))
        self.own_seconds += time.perf_counter() - now


def without_offset(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """Changes of the settings for data as they were made."""
    changes: dict[str, Any] = {}
    if "fit_intercept" in model.get_params():
        changes["fit_intercept"] = False
    if hasattr(model, "burn_in") and model.init == "random":
        uniforms = np.random.default_rng(seed).random(task.truth.codes.shape)
        changes["init"] = {"Z": (uniforms < START_PROBABILITY).astype(np.float64)}
    return changes


def fit(
    label: str,
    task: Task,
    seed: int,
    time_limit: float,
    *,
    as_made: bool = False,
    max_iter: int | None = None,
) -> dict[str, Any]:
    """Fit by one method, as `fit` of its estimator would, and record it on the way."""
    model = METHODS[label](task.n_components, random_state=seed, n_jobs=1, time_limit=time_limit)
    X, shift = task.training, 0.0
    if as_made:
        model.set_params(**without_offset(model, task, seed))
    elif model.nonnegative and not model.fit_intercept:
        shift = -float(np.nanmin(X))

    def score(state: Any) -> tuple[float, float]:
        fitted = copy(model)
        fitted._keep_state(method, state)
        how = explanation(fitted)
        return (
            task.test_log_likelihood(how, shift, task.common_noise_std),
            task.test_log_likelihood(how, shift, how.noise_std),
        )

    recorder = Recorder(score, time.perf_counter())
    observations = model._observe_training_data(X + shift)
    method = model._method(observations)
    result = run(
        method,
        observations,
        spawn_generators(seed, 1),
        max_iter=model.max_iter if max_iter is None else max_iter,
        tol=model._loop_tol,
        time_limit=max(0.0, time_limit - (time.perf_counter() - recorder.started)),
        callbacks=[recorder],
    )
    n_sweeps = len(result.history.evidence)
    if not recorder.curve or recorder.curve[-1]["sweep"] < n_sweeps:
        recorder.record(n_sweeps, result.state)
    model._keep_state(method, result.state)
    return {
        "method": label,
        "seed": seed,
        "ending": result.ending,
        "sweeps": n_sweeps,
        "n_components": int(model.n_components_),
        "noise_std": explanation(model).noise_std,
        "curve": recorder.curve,
        "train_log_likelihood": result.history.train_log_likelihood,
        "evidence": result.history.evidence,
        "n_components_history": result.history.n_components,
    } | {name: value for name, value in recorder.curve[-1].items() if name != "sweep"}


@dataclass(frozen=True)
class Row:
    """All restarts of a method in a line of the table."""

    label: str
    fits: list[dict[str, Any]]

    def mean(self, name: str) -> float:
        """Over the restarts."""
        return float(np.mean([fit[name] for fit in self.fits]))

    def line(self, n_entries: int, data_std: float) -> str:
        """For the table."""
        mean = self.mean("test_log_likelihood")
        totals = [fit["test_log_likelihood"] for fit in self.fits]
        own = self.mean("test_log_likelihood_own_noise")
        found = sorted({fit["n_components"] for fit in self.fits})
        numbers = f"{found[0]}" if len(found) == 1 else f"{found[0]}-{found[-1]}"
        endings = Counter(fit["ending"] for fit in self.fits)
        how = ", ".join(f"{name} {count}" for name, count in endings.items())
        paper = f"{'-':>9}{'-':>5}{'-':>7}"
        if self.label in PAPER:
            value, seconds = PAPER[self.label]
            paper = f"{value:>9.0f}{list(PAPER).index(self.label) + 1:>5}{seconds:>7}"
        return (
            f"{self.label:<14}{mean:>9.0f} +-{np.std(totals):>5.0f}"
            f"{mean / n_entries:>9.4f}{own / n_entries:>9.4f}"
            f"{self.mean('seconds'):>8.2f}{self.mean('sweeps'):>7.0f}{numbers:>7}"
            f"{mean + n_entries * np.log(data_std):>9.0f}{paper}  {how}"
        )


def table(results: dict[str, Any]) -> str:
    """Methods sorted by their final test log-likelihood, beside the paper's."""
    n_entries = results["held_out_entries"]
    labels = dict.fromkeys(fit["method"] for fit in results["fits"])
    rows = [Row(label, [f for f in results["fits"] if f["method"] == label]) for label in labels]
    rows.sort(key=lambda row: -row.mean("test_log_likelihood"))
    oracle, data_std = results["oracle"], results["data_std"]
    oracle_unit = oracle["test_log_likelihood"] + n_entries * np.log(data_std)
    return "\n".join(
        [
            f"{'':<14}{'test log-likelihood':>18}{'an entry':>9}{'own std':>9}{'seconds':>8}"
            f"{'sweeps':>7}{'K':>7}{'unit std':>9}{'paper':>9}{'rank':>5}{'sec':>7}  ended by",
            f"{'true Z and A':<14}{oracle['test_log_likelihood']:>9.0f}{'':>8}"
            f"{oracle['test_log_likelihood'] / n_entries:>9.4f}"
            f"{oracle['test_log_likelihood_own_noise'] / n_entries:>9.4f}"
            f"{'':>22}{oracle_unit:>9.0f}",
            *(row.line(n_entries, data_std) for row in rows),
        ]
    )


def draw_picture(results: dict[str, Any], path: Path) -> bool:
    """Curves of all fits, that of the median restart in full colour; False without matplotlib."""
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.add_subplot(
        xscale="log", xlabel="seconds", ylabel="test log-likelihood per held-out entry"
    )
    n_entries = results["held_out_entries"]
    oracle = results["oracle"]["test_log_likelihood"] / n_entries
    axes.axhline(oracle, color="black", linestyle=":", label="true Z and A")
    for i, label in enumerate(dict.fromkeys(fit["method"] for fit in results["fits"])):
        fits = [fit for fit in results["fits"] if fit["method"] == label]
        fits.sort(key=lambda fit: fit["test_log_likelihood"])
        for rank, fitted in enumerate(fits):
            median = rank == len(fits) // 2
            axes.plot(
                [point["seconds"] for point in fitted["curve"]],
                [point["test_log_likelihood"] / n_entries for point in fitted["curve"]],
                color=colormaps["tab20"](i),
                alpha=1.0 if median else 0.25,
                linewidth=1.6 if median else 0.8,
                marker="o" if median else "",
                markevery=[-1],
                label=label if median else None,
            )
    finals = [fit["test_log_likelihood"] / n_entries for fit in results["fits"]]
    axes.set_ylim(min(finals) - 0.15, oracle + 0.05)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=120)
    return True


def compare(
    task: Task, labels: list[str], seeds: int, time_limit: float, *, as_made: bool = False
) -> dict[str, Any]:
    """Fit by every method from every seed."""
    oracle_own = task.test_log_likelihood(task.truth, 0.0, task.truth.noise_std)
    results: dict[str, Any] = {
        "shape": task.data.shape,
        "n_components": task.n_components,
        "held_out_entries": int(task.hidden.sum()),
        "data_std": task.data_std,
        "common_noise_std": task.common_noise_std,
        "time_limit": time_limit,
        "as_made": as_made,
        "oracle": {
            "test_log_likelihood": task.test_log_likelihood(task.truth, 0.0, task.common_noise_std),
            "test_log_likelihood_own_noise": oracle_own,
        },
        "paper": PAPER,
        "fits": [],
    }
    for label in labels:
        # The first one sees to it that all is compiled.
        fit(label, task, 0, time_limit, as_made=as_made, max_iter=WARM_UP_SWEEPS)
        for seed in range(seeds):
            done = fit(label, task, seed, time_limit, as_made=as_made)
            results["fits"].append(done)
            print(
                f"{label}, seed {seed}: {done['test_log_likelihood']:.0f} in "
                f"{done['seconds']:.1f} s, {done['sweeps']} sweeps, {done['ending']}",
                flush=True,
            )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5, help="restarts of each method")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--data-seed", type=int, default=0)
    parser.add_argument("--as-made", action="store_true", help="no shift and no intercept")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds per fit")
    parser.add_argument("--output", type=Path, default=Path("output/synthetic_comparison"))
    arguments = parser.parse_args()

    task = Task.draw(
        arguments.samples, arguments.features, arguments.components, arguments.data_seed
    )
    results = compare(
        task,
        arguments.methods,
        arguments.seeds,
        arguments.time_limit,
        as_made=arguments.as_made,
    )
    print("\n" + table(results))
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "results.json").write_text(json.dumps(results))
    drawn = draw_picture(results, arguments.output / "figure_3_small.png")
    print(f"\nin {arguments.output}: results.json" + (", figure_3_small.png" if drawn else ""))


if __name__ == "__main__":
    main()
