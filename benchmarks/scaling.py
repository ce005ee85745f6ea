"""Time per sweep and peak memory as N and K grow.

    python benchmarks/scaling.py

The paper's recipe with D = 100 in float32, blocks of 2048 rows: N = 3e4 .. 3e6 at K = 20, with and
without missing entries (a fifth of the dimensions of the last half), and K = 5 .. 200 at N = 1e5.
Every size runs in a process of its own. Timed are a sweep that changes few rows, from a settled Z
with a thousandth of its rows drawn anew, and the second of a random start, best of several; the
slope is that of the logarithms. Memory is the growth of the
process's peak during a fit of three sweeps, after a small fit has loaded all code, from a random
and from the default start; it should be no more than Z and 64 MiB.
"""

from __future__ import annotations

import json
from typing import Any

import common
import numpy as np

from ibp import MEIBP
from ibp.blas import single_threaded_blas
from ibp.methods.meibp.automatic_start import CodesStart
from ibp.methods.meibp.random_start import RandomStart

BLOCK_SIZE = 2048
N_FEATURES = 100
# Late enough for the exact search to have all of its budget.
LATE = 5


def measure(n_samples: int, n_components: int, missing: bool, repetitions: int) -> dict[str, Any]:
    """One size, in this process."""
    compilation = common.first_call(np.float32)
    data = common.paper_set(n_samples, N_FEATURES, n_components, seed=0, dtype=np.float32)
    X, truth = data.seen if missing else data.complete, data.assignments
    del data
    result: dict[str, Any] = {
        "n_samples": n_samples,
        "n_components": n_components,
        "missing": missing,
        "compilation_seconds": compilation,
        "allowed_mebibytes": n_samples * n_components / common.MEBIBYTE + 64.0,
    }
    for init in ("random", "spectral"):
        model = MEIBP(
            n_components, init=init, block_size=BLOCK_SIZE, max_iter=3, tol=0, random_state=0
        )
        growth, seconds = common.peak_growth(lambda model=model: common.timed_fit(model, X))
        result[f"growth_{init}_mebibytes"] = growth / common.MEBIBYTE
        result[f"fit_{init}_seconds"] = seconds
        del model

    context = common.observe(X)

    def sweeps_from(start: Any, n_sweeps: int, n_before: int) -> tuple[Any, Any]:
        method = common.method_from(
            context.observations, n_components, start, block_size=BLOCK_SIZE
        )
        state = common.beginning(method, context)
        state.n_sweeps = n_sweeps
        with single_threaded_blas():
            for _ in range(n_before):
                method.step(common.again(context), state)
        return method, state

    settled = sweeps_from(CodesStart(truth), LATE, 2)[1].assignments
    for name, start, n_sweeps, n_before in (
        ("few", CodesStart(common.perturbed(settled, 0.001)), LATE, 0),
        ("random", RandomStart(n_components), 0, 1),
    ):
        method, state = sweeps_from(start, n_sweeps, n_before)
        timed = common.time_sweep(method, context, state, repetitions)
        result[f"{name}_seconds"] = timed["seconds"]
        result[f"{name}_rows_changed"] = timed["rows_changed"]
        result[f"{name}_proven"] = timed["proven"]
    return result


def main() -> None:
    settings = common.worker_settings()
    if settings is not None:
        print(json.dumps(measure(**settings)))
        return
    parser = common.parser("scaling", __doc__)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows")
    parser.add_argument("--numbers", type=int, nargs="+", help="numbers of features")
    arguments = parser.parse_args()
    sizes = arguments.sizes or [30_000, 100_000, 300_000, 1_000_000, 3_000_000]
    numbers, n_fixed = arguments.numbers or [5, 10, 20, 50, 100, 200], 100_000
    if arguments.quick:
        sizes, numbers, n_fixed = [5_000, 20_000], [5, 20], 5_000
    jobs = [("N", n, 20, missing) for missing in (False, True) for n in sizes]
    jobs += [("K", n_fixed, k, False) for k in numbers]

    rows = []
    for series, n, k, missing in jobs:
        settings = {"n_samples": n, "n_components": k, "missing": missing}
        settings["repetitions"] = arguments.repetitions
        rows.append({"series": series, **common.in_subprocess(__file__, settings)})
        print(f"N = {n}, K = {k}, missing = {missing}", flush=True)

    slopes = {}
    for name in ("few_seconds", "random_seconds"):
        for missing in (False, True):
            own = [row for row in rows if row["series"] == "N" and row["missing"] == missing]
            label = f"N, {name.split('_')[0]}, missing {missing}"
            x, y = [row["n_samples"] for row in own], [row[name] for row in own]
            slopes[label] = common.slope(x, y)
        own = [row for row in rows if row["series"] == "K"]
        x, y = [row["n_components"] for row in own], [row[name] for row in own]
        slopes[f"K, {name.split('_')[0]}"] = common.slope(x, y)

    common.print_table(
        f"D = {N_FEATURES}, float32, blocks of {BLOCK_SIZE}; few: few rows change",
        rows,
        {
            "series": "",
            "n_samples": "d",
            "n_components": "d",
            "missing": "",
            "few_seconds": ".4f",
            "few_rows_changed": ".4f",
            "few_proven": ".3f",
            "random_seconds": ".4f",
            "random_rows_changed": ".3f",
            "growth_random_mebibytes": ".1f",
            "growth_spectral_mebibytes": ".1f",
            "allowed_mebibytes": ".1f",
        },
    )
    common.print_table(
        "Slopes of seconds on log-log axes",
        [{"series": name, "slope": value} for name, value in slopes.items()],
        {"series": "", "slope": ".3f"},
    )
    common.save("scaling", arguments, sizes=rows, slopes=slopes)


if __name__ == "__main__":
    main()
