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
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ibp import METHODS
from ibp.comparison import (
    STD_FRACTION,
    ComparedFit,
    Comparison,
    MethodScore,
    fit_scored,
    zero_minimum_shift,
)
from ibp.datasets import make_binary_factors
from ibp.evaluate import Explanation, HeldOut

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
FRACTION = 0.2
WARM_UP_SWEEPS = 2
# How the paper's authors begin.
START_PROBABILITY = 1.0 / 3.0


@dataclass(frozen=True)
class Task:
    """Data with a held-out block, and what they were made of."""

    held_out: HeldOut
    truth: Explanation

    @classmethod
    def draw(cls, n_samples: int, n_features: int, n_components: int, seed: int) -> Task:
        """The paper's recipe."""
        drawn = make_binary_factors(n_samples, n_features, n_components, random_state=seed)
        truth = Explanation(drawn.assignments, drawn.factors, np.zeros(n_features), 1.0)
        return cls(HeldOut.of(drawn.data, seed, fraction=FRACTION), truth)

    @property
    def n_components(self) -> int:
        """True number of features."""
        return int(self.truth.components.shape[0])

    @property
    def data_std(self) -> float:
        """Standard deviation of what fits see."""
        return float(np.nanstd(self.held_out.training))

    @property
    def common_noise_std(self) -> float:
        """The noise level at which all methods are compared."""
        return STD_FRACTION * self.data_std

    def oracle(self, noise_std: float) -> float:
        """Score of the true codes and factors."""
        return self.held_out.score(self.truth, noise_std)


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
) -> ComparedFit:
    """Fit by one method, and score it on the way."""
    model = METHODS[label](task.n_components, random_state=seed, n_jobs=1, time_limit=time_limit)
    if max_iter is not None:
        model.set_params(max_iter=max_iter)
    shift = 0.0 if as_made else zero_minimum_shift(model, task.held_out.training)
    if as_made:
        model.set_params(**without_offset(model, task, seed))
    record = ComparedFit(label, seed)
    return fit_scored(model, task.held_out, task.common_noise_std, record, shift=shift)


def line(row: MethodScore, n_sweeps: float, n_entries: int, data_std: float) -> str:
    """A method's line of the table."""
    found = sorted(set(row.n_components))
    numbers = f"{found[0]}" if len(found) == 1 else f"{found[0]}-{found[-1]}"
    how = ", ".join(f"{name} {count}" for name, count in Counter(row.endings).items())
    paper = f"{'-':>9}{'-':>5}{'-':>7}"
    if row.label in PAPER:
        value, seconds = PAPER[row.label]
        paper = f"{value:>9.0f}{list(PAPER).index(row.label) + 1:>5}{seconds:>7}"
    return (
        f"{row.label:<14}{n_entries * row.log_likelihood:>9.0f} +-{n_entries * row.spread:>5.0f}"
        f"{row.log_likelihood:>9.4f}{row.own_log_likelihood:>9.4f}"
        f"{row.seconds:>8.2f}{n_sweeps:>7.0f}{numbers:>7}"
        f"{n_entries * (row.log_likelihood + np.log(data_std)):>9.0f}{paper}  {how}"
    )


def table(result: Comparison, task: Task) -> str:
    """Methods sorted by their final test log-likelihood, beside the paper's."""
    n_entries, data_std = result.n_hidden, result.data_std
    oracle = task.oracle(result.noise_std)
    lines = []
    for row in result.ranking():
        sweeps = np.mean([fit.n_iter for fit in result.fits if fit.label == row.label])
        lines.append(line(row, float(sweeps), n_entries, data_std))
    return "\n".join(
        [
            f"{'':<14}{'test log-likelihood':>18}{'an entry':>9}{'own std':>9}{'seconds':>8}"
            f"{'sweeps':>7}{'K':>7}{'unit std':>9}{'paper':>9}{'rank':>5}{'sec':>7}  ended by",
            f"{'true Z and A':<14}{n_entries * oracle:>9.0f}{'':>8}{oracle:>9.4f}"
            f"{task.oracle(task.truth.noise_std):>9.4f}{'':>22}"
            f"{n_entries * (oracle + np.log(data_std)):>9.0f}",
            *lines,
        ]
    )


def draw_picture(result: Comparison, oracle: float, path: Path) -> bool:
    """Curves of all fits; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    from ibp import plots

    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = plots.comparison(result, ax=figure.add_subplot())
    axes.axhline(oracle, color="black", linestyle=":", label="true Z and A")
    figure.savefig(path, dpi=120)
    return True


def compare(
    task: Task, labels: list[str], seeds: int, time_limit: float, *, as_made: bool = False
) -> Comparison:
    """Fit by every method from every seed."""
    n_samples, n_features = task.held_out.data.shape
    result = Comparison(
        n_samples,
        n_features,
        task.held_out.n_hidden,
        task.n_components,
        FRACTION,
        task.data_std,
        task.common_noise_std,
    )
    for label in labels:
        # The first one sees to it that all is compiled.
        fit(label, task, 0, time_limit, as_made=as_made, max_iter=WARM_UP_SWEEPS)
        for seed in range(seeds):
            done = fit(label, task, seed, time_limit, as_made=as_made)
            result.fits.append(done)
            print(
                f"{label}, seed {seed}: {result.n_hidden * done.log_likelihood[-1]:.0f} in "
                f"{done.seconds[-1]:.1f} s, {done.n_iter} sweeps, {done.ending}",
                flush=True,
            )
    return result


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
    result = compare(
        task,
        arguments.methods,
        arguments.seeds,
        arguments.time_limit,
        as_made=arguments.as_made,
    )
    print("\n" + table(result, task))
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "results.json").write_text(json.dumps(result.to_dict()))
    oracle = task.oracle(task.common_noise_std)
    drawn = draw_picture(result, oracle, arguments.output / "figure_3_small.png")
    print(f"\nin {arguments.output}: results.json" + (", figure_3_small.png" if drawn else ""))


if __name__ == "__main__":
    main()
