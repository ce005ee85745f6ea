"""The row optimisers beside each other, on single rows and in whole fits.

    python benchmarks/optimizers.py

Rows: w'z - z'Wz / 2 of rows of fits with the defaults (digits and Piano, K = 10, 25, 50 asked for)
and of figure 1's recipe (half-normal factors, D = 50, unit noise, z ~ Bernoulli(1/2)), every search
from the empty set. The exact search may visit 1e7 nodes; a row counts towards the fraction of
optima if it reaches the exact search's value and that is proven. The normalised value is F(z) over
the best, F of the empty set being 0. Microseconds a row are for one core, each row timed by itself
with the work that all rows share left out; ratios are of the medians, to the local search of the
same kind; "as in transform" is the search that fits use too, with
its default budget and the product with X, where a certificate spares most rows the proof.

Fits: final evidence and sweeps with each optimiser from random starts on digits, Piano and the
small synthetic set, five seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from ibp import MEIBP
from ibp.data import Observations
from ibp.methods.meibp.assign import FrozenModel
from ibp.parallel import Threads
from ibp.submodular import OPTIMIZERS, batch
from ibp.submodular.maximize import DOUBLE_GREEDIES
from ibp.submodular.records import Search

FloatArray = npt.NDArray[np.float64]
NODES = 10_000_000
# A row is repeated until it takes about so long, so that the clock and the call do not matter.
SECONDS_A_ROW = 2e-3
MOST_REPETITIONS = 200
# The local search, also as the exact one's first step, with and without exchanges of two elements.
SEARCHES = {
    "local search": ("local_search", False),
    "local search, exchanges": ("local_search", True),
    "exact": ("exact", False),
    "exact, exchanges": ("exact", True),
    "double greedy": ("double_greedy", False),
    "randomised double greedy": ("randomized_double_greedy", False),
}


def digits() -> FloatArray:
    """Scikit-learn's digits, 0 to 1."""
    return load_digits().data / 16.0


def piano(folder: Path) -> npt.NDArray[np.float32] | None:
    """DFT magnitudes of piano recordings, if they are there."""
    path = folder / "piano_16000x161_dft1024.npz"
    if not path.exists():
        print(f"{path} is not there: no Piano")
        return None
    with np.load(path, allow_pickle=False) as file:
        return file["X"]


# ---------------------------------------------------------------- rows


@dataclass(frozen=True)
class Rows:
    """Rows of data and the model that they are to be explained by."""

    values: FloatArray
    factors: FloatArray
    variance: FloatArray
    offset: FloatArray
    counts: npt.NDArray[np.int64]
    n_samples: int
    noise_std: float

    @classmethod
    def of_fit(cls, model: MEIBP, X: npt.NDArray[np.floating]) -> Rows:
        """Some rows under a fitted model."""
        return cls(
            X.astype(np.float64),
            model.components_,
            model.components_std_**2,
            model.intercept_,
            model.feature_counts_,
            model.n_samples_fit_,
            model.noise_std_,
        )

    @classmethod
    def of_figure_1(cls, n_components: int, n_rows: int, rng: np.random.Generator) -> Rows:
        """Figure 1's recipe; counts such that either value of a bit is as likely."""
        factors = np.abs(rng.normal(size=(n_components, 50)))
        z = rng.random((n_rows, n_components)) < 0.5
        X = z @ factors + rng.normal(size=(n_rows, 50))
        counts = np.full(n_components, 50, dtype=np.int64)
        return cls(X, factors, np.zeros(factors.shape), np.zeros(50), counts, 99, 1.0)

    @property
    def linear(self) -> FloatArray:
        """w of every row."""
        constant = self.factors @ self.offset + 0.5 * self.variance.sum(axis=1)
        log_odds = np.log(self.counts) - np.log(self.n_samples + 1.0 - self.counts)
        return (self.values @ self.factors.T - constant) / self.noise_std**2 + log_odds

    @property
    def quadratic(self) -> FloatArray:
        """W of all rows."""
        return self.factors @ self.factors.T / self.noise_std**2

    def frozen(self, optimizer: str) -> FrozenModel:
        """The model as new rows meet it."""
        return FrozenModel(
            mean=self.factors,
            variance=self.variance,
            offset=self.offset,
            counts=self.counts,
            n_samples=self.n_samples,
            noise_std=self.noise_std,
            optimizer=optimizer,
            thorough=True,
            node_budget=MEIBP().node_budget,
        )


def solve(
    optimizer: str, exchange: bool, linear: FloatArray, quadratic: FloatArray
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Value and proof of every row, from the empty set."""
    chosen = np.zeros(linear.shape, dtype=np.uint8)
    uniforms = None
    if optimizer in DOUBLE_GREEDIES:
        draws = linear.shape[1] * (optimizer == "randomized_double_greedy")
        uniforms = np.random.default_rng(0).random((len(linear), draws))
    search = Search(OPTIMIZERS[optimizer], NODES, True, exchange)
    values, _, proven = batch.optimize_rows(linear, quadratic, chosen, search, uniforms)
    return values, proven


def microseconds(
    optimizer: str, exchange: bool, linear: FloatArray, quadratic: FloatArray
) -> FloatArray:
    """Of each row."""

    def spent_on(rows: FloatArray, repetitions: int) -> float:
        return common.best_of(lambda: solve(optimizer, exchange, rows, quadratic), repetitions)

    shared = spent_on(linear[:0], 20)
    result = np.empty(len(linear))
    for i, row in enumerate(linear):
        once = max(spent_on(row[None], 1) - shared, 1e-6)
        times = int(np.clip(SECONDS_A_ROW / once, 1, MOST_REPETITIONS))
        spent = spent_on(np.repeat(row[None], times, axis=0), 2)
        result[i] = 1e6 * max(spent - shared, 0.0) / times
    return result


def in_fits(optimizer: str, rows: Rows) -> tuple[FloatArray, float]:
    """Values of the rows by the search of `transform`, and its mean microseconds."""
    frozen, executor = rows.frozen(optimizer), Threads(1)
    seconds = []
    for times in (5, 15):
        observations = Observations.from_array(np.tile(rows.values, (times, 1)))
        seconds.append(common.best_of(lambda o=observations: frozen.assign(o, executor), 3))
    z = frozen.assign(Observations.from_array(rows.values), executor)[0].astype(float)
    values = np.einsum("nk,nk->n", rows.linear - 0.5 * z @ rows.quadratic, z)
    return values, 1e6 * (seconds[1] - seconds[0]) / (10 * len(rows.values))


def compare_rows(source: str, rows: Rows, n_timed: int) -> list[dict[str, Any]]:
    """Every optimiser on the same rows."""
    linear, quadratic = rows.linear, rows.quadratic
    best, proven = solve("exact", True, linear, quadratic)
    tolerance = 1e-9 * (1.0 + np.abs(linear).sum(axis=1))
    positive = best > tolerance

    def quality(values: FloatArray) -> dict[str, float]:
        return {
            "optima": float(np.mean((values >= best - tolerance) & proven)),
            "normalised": float(np.mean(values[positive] / best[positive])),
        }

    lines, base = [], {}
    for label, (optimizer, exchange) in SEARCHES.items():
        values, own_proven = solve(optimizer, exchange, linear, quadratic)
        spent = microseconds(optimizer, exchange, linear[:n_timed], quadratic)
        median = float(np.median(spent))
        if optimizer == "local_search":
            base[exchange] = median
        lines.append(
            {"rows": source, "K": linear.shape[1], "optimizer": label, **quality(values)}
            | {"median_microseconds": median, "mean_microseconds": float(np.mean(spent))}
            | {"of_local_search": median / base[exchange], "proven": float(np.mean(own_proven))}
        )
    for optimizer in ("local_search", "exact"):
        values, mean = in_fits(optimizer, rows)
        lines.append(
            {"rows": source, "K": linear.shape[1], "optimizer": f"{optimizer}, as in transform"}
            | quality(values)
            | {"mean_microseconds": mean}
        )
    return lines


# ---------------------------------------------------------------- fits


def compare_fits(
    name: str, X: npt.NDArray[np.floating], n_components: int, seeds: int, init: str
) -> list[dict[str, Any]]:
    """Final evidence and sweeps with each optimiser."""
    rows = []
    for optimizer in OPTIMIZERS:
        for seed in range(seeds):
            model = MEIBP(n_components, optimizer=optimizer, init=init, random_state=seed)
            seconds = common.timed_fit(model, X)
            rows.append(
                {
                    "data": name,
                    "optimizer": optimizer,
                    "seed": seed,
                    "evidence": model.evidence_,
                    "sweeps": model.n_iter_,
                    "converged": model.converged_,
                    "n_components": model.n_components_,
                    "proven": float(model.history_["proven"][-1]),
                    "seconds": seconds,
                }
            )
    return rows


def summary_of_fits(fits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each data set and optimiser."""
    rows = []
    for data, optimizer in dict.fromkeys((row["data"], row["optimizer"]) for row in fits):
        own = [r for r in fits if r["data"] == data and r["optimizer"] == optimizer]
        evidence = [row["evidence"] for row in own]
        rows.append(
            {
                "data": data,
                "optimizer": optimizer,
                "worst_evidence": min(evidence),
                "median_evidence": float(np.median(evidence)),
                "best_evidence": max(evidence),
                "sweeps": float(np.median([row["sweeps"] for row in own])),
                "n_components": float(np.median([row["n_components"] for row in own])),
                "seconds": float(np.median([row["seconds"] for row in own])),
            }
        )
    return rows


def main() -> None:
    parser = common.parser("optimizers", __doc__)
    parser.add_argument("--data", type=Path, default=common.DATA, help="folder of the Piano file")
    parser.add_argument("--init", choices=["random", "spectral"], default="random")
    arguments = parser.parse_args()
    quick = arguments.quick
    n_rows, n_timed, seeds = (50, 10, 2) if quick else (500, 100, 5)
    compilation = common.first_call(np.float32, np.float64)
    sets = {"digits": digits(), "Piano": piano(arguments.data)}
    sets = {name: X[::20] if quick else X for name, X in sets.items() if X is not None}

    rng = np.random.default_rng(0)
    rows = []
    for k in (10, 25) if quick else (10, 25, 50):
        for name, X in sets.items():
            # One noise level, as the forms of `Rows` have it.
            model = MEIBP(k, noise="shared", random_state=0, max_iter=5 if quick else 200)
            common.timed_fit(model, X)
            picked = rng.choice(len(X), min(n_rows, len(X)), replace=False)
            rows += compare_rows(f"{name} fit", Rows.of_fit(model, X[picked]), n_timed)
            print(f"rows of {name}, K = {k}", flush=True)
        few = n_rows if k < 50 else n_rows // 10
        rows += compare_rows("figure 1", Rows.of_figure_1(k, few, rng), min(n_timed, few // 2))
        print(f"rows of figure 1, K = {k}", flush=True)
    common.print_table(
        "Rows",
        rows,
        {
            "rows": "",
            "K": "d",
            "optimizer": "",
            "optima": ".3f",
            "normalised": ".5f",
            "median_microseconds": ".2f",
            "mean_microseconds": ".2f",
            "of_local_search": ".2f",
            "proven": ".3f",
        },
    )

    synthetic = common.paper_set(*((200, 100, 6) if quick else (500, 500, 20)), seed=0).seen
    fits = compare_fits("small synthetic", synthetic, 6 if quick else 20, seeds, arguments.init)
    for name, X in sets.items():
        fits += compare_fits(name, X, {"digits": 40}.get(name, 25), seeds, arguments.init)
        print(f"fits of {name}", flush=True)
    lines = summary_of_fits(fits)
    common.print_table(
        f"Fits from {arguments.init} starts, {seeds} seeds",
        lines,
        {
            "data": "",
            "optimizer": "",
            "worst_evidence": ".1f",
            "median_evidence": ".1f",
            "best_evidence": ".1f",
            "sweeps": ".0f",
            "n_components": ".0f",
            "seconds": ".2f",
        },
    )
    common.save(
        "optimizers",
        arguments,
        compilation_seconds=compilation,
        rows=rows,
        fits=fits,
        summary=lines,
    )


if __name__ == "__main__":
    main()
