"""What the benchmarks share: data, the floor, timing, memory, matching of features, reports."""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info

from ibp import MEIBP
from ibp.blas import single_threaded_blas
from ibp.data import Observations, summarize
from ibp.datasets import make_binary_factors
from ibp.estimators.hyperparameters import INTERCEPT_STDS
from ibp.evaluate import held_out_block, row_log_likelihood
from ibp.methods.context import Context
from ibp.methods.meibp.method import MEIBPMethod
from ibp.model import GammaPosterior, Hyperparameters
from ibp.parallel import Threads

HERE = Path(__file__).resolve().parent
DATA = HERE.parent.parent / "shared" / "data"
MEBIBYTE = 2.0**20
ROWS_AT_ONCE = 4096
# Recovered but for a few rows: so many of them must agree.
NEARLY = 0.999
# What the paper scores held-out entries at, in standard deviations of the data.
PAPER_STD_FRACTION = 0.75


# ---------------------------------------------------------------- arguments and reports


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Every benchmark takes --quick and --output."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    result.add_argument(
        "--output", type=Path, default=HERE / "results" / f"{name}.json", help="JSON file"
    )
    return result


def add_numbers(arguments: argparse.ArgumentParser) -> None:
    """Let numbers of features be chosen."""
    arguments.add_argument(
        "--numbers",
        type=lambda text: None if text == "open" else int(text),
        nargs="+",
        help='numbers of features, or "open"',
    )


def machine() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        model = models[0] if models else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {
            name: version(name) for name in ("ibp", "numpy", "scipy", "scikit-learn", "numba")
        },
        "blas": [
            {key: library.get(key) for key in ("internal_api", "version", "num_threads")}
            for library in threadpool_info()
            if library.get("user_api") == "blas"
        ],
    }


def save(name: str, arguments: argparse.Namespace, **figures: Any) -> None:
    """Write the figures as JSON, with the machine they are from."""
    report = {"benchmark": name, "quick": arguments.quick, "machine": machine(), **figures}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2, default=_plain) + "\n")
    print(f"\nwritten to {arguments.output}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)


def print_table(title: str, rows: Sequence[dict[str, Any]], formats: dict[str, str]) -> None:
    """Print some columns of the rows, each in its format; what a row has not is left blank."""
    cells = [
        ["" if row.get(name) is None else format(row[name], spec) for name, spec in formats.items()]
        for row in rows
    ]
    header = [name.replace("_", " ") for name in formats]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    print(f"\n{title}")
    for line in [header, ["-" * width for width in widths], *cells]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    sys.stdout.flush()


# ---------------------------------------------------------------- time and memory


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long it took, and what came of it."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def best_of(work: Callable[[], Any], repetitions: int) -> float:
    """The shortest of several runs."""
    return min(seconds_of(work)[0] for _ in range(repetitions))


def first_call(*dtypes: type, sparse: bool = False) -> float:
    """Have the kernels compiled, or loaded from the cache on disk; the seconds that took."""

    def fit_all() -> None:
        for dtype in dtypes or (np.float32, np.float64):
            data = paper_set(400, 40, 4, seed=0, dtype=dtype)
            for X in (data.complete, data.seen):
                for changes in ({}, {"init": "random"}):
                    MEIBP(4, max_iter=3, tol=0, random_state=0, **changes).fit(X).transform(X[:9])
            if sparse:
                X = csr_array(np.where(data.complete > 6, data.complete, 0))
                MEIBP(4, max_iter=3, tol=0, random_state=0).fit(X)

    return quietly(lambda: seconds_of(fit_all)[0])


def quietly(work: Callable[[], Any]) -> Any:
    """Without the warnings that benchmarks provoke, of no convergence in three sweeps say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()


def timed_fit(model: MEIBP, X: Any) -> float:
    """Fit the model; the seconds that took."""
    return quietly(lambda: seconds_of(lambda: model.fit(X))[0])


def memory_status(name: str) -> float:
    """VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024.0 * int(line.split()[1])
    raise RuntimeError(f"no {name} in /proc/self/status")


def peak_growth(work: Callable[[], Any]) -> tuple[float, Any]:
    """By how many bytes the process grew at most while at work; Linux only."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to the present
    before = memory_status("VmRSS")
    result = work()
    return memory_status("VmHWM") - before, result


def in_subprocess(script: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Run ``script --worker SETTINGS`` on its own and return what it prints last, as JSON."""
    command = [sys.executable, script, "--worker", json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{settings} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def worker_settings() -> dict[str, Any] | None:
    """The settings if this process is such a worker."""
    return json.loads(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else None


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the least-squares line on log-log axes."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class PaperSet:
    """The paper's synthetic data, shifted to a zero minimum.

    Attributes
    ----------
    complete, seen : ndarray of shape (N, D)
        All entries; and with NaN in a fifth of the dimensions of the last half.
    assignments, factors, offset
        The truth, the shift included.
    """

    complete: npt.NDArray[np.floating]
    seen: npt.NDArray[np.floating]
    assignments: npt.NDArray[np.uint8]
    factors: npt.NDArray[np.float64]
    offset: npt.NDArray[np.float64]

    @property
    def std(self) -> float:
        """Standard deviation of the entries seen."""
        return summarize(self.seen).std

    def score(
        self,
        assignments: npt.NDArray[np.generic],
        factors: npt.NDArray[np.float64],
        offset: npt.NDArray[np.float64],
        noise_std: float,
    ) -> float:
        """Mean log-likelihood of the hidden entries."""
        return held_out_score(
            self.complete, self.seen, assignments, factors, offset, noise_std=noise_std
        )

    def oracle(self, noise_std: float) -> float:
        """The score of the truth."""
        return self.score(self.assignments, self.factors, self.offset, noise_std)

    def residual(
        self,
        assignments: npt.NDArray[np.generic],
        factors: npt.NDArray[np.float64],
        offset: npt.NDArray[np.float64],
    ) -> float:
        """Root mean square of what is left of the entries seen."""
        total, count = 0.0, 0
        for first in range(0, len(self.seen), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            left = self.seen[rows] - (assignments[rows].astype(float) @ factors + offset)
            total += float(np.nansum(left**2))
            count += int((~np.isnan(left)).sum())
        return float(np.sqrt(total / count))


def paper_set(
    n_samples: int, n_features: int, n_components: int, *, seed: int, dtype: Any = np.float64
) -> PaperSet:
    """z ~ Bernoulli(0.4); factors that are one on a random third of the dimensions; unit noise."""
    rng = np.random.default_rng(seed)
    factors = make_binary_factors(1, n_features, n_components, random_state=rng).factors
    assignments = (rng.random((n_samples, n_components)) < 0.4).astype(np.uint8)
    X = np.empty((n_samples, n_features), dtype=dtype)
    for first in range(0, n_samples, ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        X[rows] = assignments[rows].astype(dtype) @ factors.astype(dtype)
        X[rows] += rng.standard_normal(X[rows].shape, dtype=dtype)
    shift = -float(X.min())
    X += dtype(shift)
    seen = X.copy()
    seen[held_out_block(n_samples, n_features, rng)] = np.nan
    return PaperSet(X, seen, assignments, factors, np.full(n_features, shift))


def held_out_score(
    complete: Any,
    seen: Any,
    assignments: npt.NDArray[np.generic],
    factors: npt.NDArray[np.float64],
    offset: npt.NDArray[np.float64],
    *,
    noise_std: float,
) -> float:
    """Mean log-likelihood of the entries that are missing in ``seen``, at a noise level."""
    sums, counts = row_log_likelihood(complete, assignments, factors, offset, noise_std, seen)
    return float(sums.sum() / counts.sum())


def model_score(model: MEIBP, complete: Any, seen: Any, noise_std: float | None = None) -> float:
    """The same for a fitted model and its own assignments; its own noise unless given."""
    return held_out_score(
        complete,
        seen,
        model.assignments_,
        model.components_,
        model.intercept_,
        noise_std=model.noise_std_ if noise_std is None else noise_std,
    )


def noise_level(model: MEIBP) -> float:
    """The noise that a model has learned, or the root mean square of its columns'."""
    return float(np.sqrt(np.mean(np.square(model.noise_std_))))


# ---------------------------------------------------------------- features recovered


def recovery(true: npt.NDArray[np.uint8], found: npt.NDArray[np.uint8]) -> dict[str, int | float]:
    """How many true features were found, and in how many rows all bits are right.

    A feature is recovered exactly if a column of ``found`` equals it, nearly if one agrees in
    99.9% of the rows; the worst agreement is that of the feature found least well. For the rows
    each true feature is matched with one column; a feature without a match counts as never found,
    a column without one as wrong where it is on.
    """
    n, k = true.shape
    both = np.zeros((k, found.shape[1]))
    for first in range(0, n, ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        both += true[rows].T.astype(np.float32) @ found[rows].astype(np.float32)
    on_true, on_found = true.sum(axis=0, dtype=np.int64), found.sum(axis=0, dtype=np.int64)
    differing = on_true[:, None] + on_found[None, :] - 2.0 * both
    best = differing.min(axis=1, initial=float(n))
    rows_of, columns_of = linear_sum_assignment(differing)
    wrong_bits, wrong_rows = 0, 0
    for first in range(0, n, ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        matched = np.zeros((len(true[rows]), k), dtype=np.uint8)
        matched[:, rows_of] = found[rows][:, columns_of]
        wrong = matched != true[rows]
        extra = np.delete(found[rows], columns_of, axis=1)
        wrong_bits += int(wrong.sum()) + int(extra.sum())
        wrong_rows += int((wrong.any(axis=1) | extra.any(axis=1)).sum())
    return {
        "recovered_exactly": int((best == 0).sum()),
        "recovered_nearly": int((best <= (1.0 - NEARLY) * n).sum()),
        "worst_agreement": float(1.0 - best.max(initial=0.0) / n),
        "rows_right": 1.0 - wrong_rows / n,
        "wrong_bits": wrong_bits,
    }


# ---------------------------------------------------------------- the floor and single sweeps


def two_product_floor(
    X: npt.NDArray[np.floating], n_components: int, repetitions: int = 7
) -> dict[str, float]:
    """Seconds of X E[A]' and Z'X alone, with as many threads as BLAS likes and room ready."""
    rng = np.random.default_rng(0)
    n, d = X.shape
    factors = rng.random((n_components, d), dtype=X.dtype)
    codes = (rng.random((n, n_components), dtype=np.float32) < 0.4).astype(X.dtype)
    by_row, by_feature = np.empty((n, n_components), X.dtype), np.empty((n_components, d), X.dtype)
    first = best_of(lambda: np.matmul(X, factors.T, out=by_row), repetitions)
    second = best_of(lambda: np.matmul(codes.T, X, out=by_feature), repetitions)
    return {"rows_product": first, "statistics_product": second, "floor": first + second}


def observe(X: Any) -> Context:
    """The data as a fit with an intercept sees them, and threads for all cores."""
    threads = Threads(os.cpu_count() or 1)
    summary = summarize(X, threads)
    observations = Observations.from_summary(X, summary, centre=summary.means)
    return Context(observations, np.random.default_rng(0), threads)


def method_from(
    observations: Observations, n_components: int, start: Any, **changes: Any
) -> MEIBPMethod:
    """The method of a fit with the default settings, from a start."""
    defaults = MEIBP().get_params()
    names = ("optimizer", "row_start", "block_size", "shuffle", "node_budget")
    settings = {name: defaults[name] for name in names} | changes
    scale = observations.summary.std
    precision, rate = (PAPER_STD_FRACTION * scale) ** -2.0, 1e-3 * scale**2
    hyperparameters = Hyperparameters(
        GammaPosterior.starting_at(precision, (1.0, rate), observations.n_observed / 2),
        GammaPosterior.starting_at(
            precision, (1.0, rate), n_components * observations.n_features / 2
        ),
        GammaPosterior.starting_at(defaults["alpha"], (1.0, 1.0), n_components),
    )
    return MEIBPMethod(start, hyperparameters, intercept_std=INTERCEPT_STDS * scale, **settings)


def beginning(method: Any, context: Context, n_sweeps: int = 0) -> Any:
    """The state after so many sweeps."""
    own = again(context)
    with single_threaded_blas():
        state = method.init(own)
        for _ in range(n_sweeps):
            method.step(own, state)
    return state


def again(context: Context) -> Context:
    """The same with a copy of its generator, so that what follows draws the same numbers."""
    return replace(context, rng=copy.deepcopy(context.rng))


def time_sweep(
    method: MEIBPMethod, context: Context, state: Any, repetitions: int, n_jobs: int | None = None
) -> dict[str, Any]:
    """The shortest of several times the same sweep; the state stays as it is."""
    executor = context.executor if n_jobs is None else Threads(n_jobs)
    times = []
    for _ in range(repetitions):
        own, work = replace(again(context), executor=executor), state.copy()
        with single_threaded_blas():
            seconds, report = seconds_of(lambda own=own, work=work: method.step(own, work))
        times.append(seconds)
    changed = None
    if work.n_components == state.n_components:
        changed = float((work.assignments != state.assignments).any(axis=1).mean())
    return {
        "seconds": min(times),
        "rows_changed": changed,
        "bits_changed": report.n_changed,
        "proven": report.proven,
        "n_components": report.n_components,
    }


def perturbed(
    assignments: npt.NDArray[np.uint8], fraction: float, seed: int = 0
) -> npt.NDArray[np.uint8]:
    """A copy with some of its rows drawn anew."""
    rng = np.random.default_rng(seed)
    result = assignments.copy()
    rows = rng.choice(len(result), max(1, round(fraction * len(result))), replace=False)
    result[rows] = rng.random((rows.size, result.shape[1])) < 0.4
    return result
