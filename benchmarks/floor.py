"""One sweep against the two products that no sweep can do without.

    python benchmarks/floor.py

N = 1e5, D = 1e3, K = 50, float32, with all cores and with one: X E[A]' and Z'X alone by BLAS, with
as many threads, best of several, are the floor. A sweep that changes few rows starts from the truth
with a thousandth of the rows drawn anew, under the full budget of the exact search; the other one
is the second of a random start. Both also with a fifth of the dimensions of the last half missing.
The profile is of one core: parts of a sweep by the functions that do them, and the product X E[A]'
by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import common
import numpy as np

from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.methods.context import Context
from ibp.methods.meibp import blocks as meibp_blocks
from ibp.methods.meibp import row_search
from ibp.methods.meibp.automatic_start import CodesStart
from ibp.methods.meibp.method import MEIBPMethod
from ibp.methods.meibp.random_start import RandomStart
from ibp.methods.meibp.state import MEIBPState
from ibp.model import Bound
from ibp.parallel import Threads, ranges

# Late enough for the exact search to have all of its budget.
LATE = 5
# What a sweep consists of, and where that is done.
PARTS = {
    "row optimiser": (row_search, "improve_rows"),
    "statistics of changed rows": (meibp_blocks, "change_of"),
    "acceptance of blocks": (meibp_blocks, "accept"),
    "bringing statistics up to date": (meibp_blocks, "apply_change"),
    "rows one by one": (meibp_blocks, "visit_one_by_one"),
    "filling of missing entries": (Observations, "rows"),
    "quadratic forms": (MEIBPState, "row_forms"),
    "refresh of q(A) and intercept": (MEIBPState, "refresh"),
    "hyperparameters": (MEIBPMethod, "settle"),
    "removals": (MEIBPMethod, "remove_features"),
    "entropies of q(A)": (MEIBPState, "entropies"),
    "evidence": (Bound, "evidence"),
    "report": (MEIBPMethod, "report"),
}


class Stopwatches:
    """Seconds in each part, without those in the parts that it calls."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.inner: list[float] = [0.0]

    def watched(self, name: str, function: Any) -> Any:
        """The function, timed."""

        def run(*arguments: Any, **options: Any) -> Any:
            self.inner.append(0.0)
            started = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                spent = time.perf_counter() - started
                self.seconds[name] += spent - self.inner.pop()
                self.inner[-1] += spent

        return run

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Time all parts meanwhile."""
        before = {name: getattr(owner, function) for name, (owner, function) in PARTS.items()}
        for name, (owner, function) in PARTS.items():
            setattr(owner, function, self.watched(name, before[name]))
        try:
            yield
        finally:
            for name, (owner, function) in PARTS.items():
                setattr(owner, function, before[name])


def profile(method: MEIBPMethod, context: Context, state: Any) -> dict[str, float]:
    """Where the time of a sweep on one core goes."""
    own, work = replace(common.again(context), executor=Threads(1)), state.copy()
    watches = Stopwatches()
    observations = context.observations
    components = observations.layout.restore(state.factors.mean).astype(observations.dtype)
    with single_threaded_blas():

        def products() -> None:
            for rows in ranges(observations.n_samples, observations.piece_rows):
                observations.source.rows(rows) @ components.T  # NaN take no longer

        product = common.best_of(products, 3)
        with watches.attached():
            total, _ = common.seconds_of(lambda: method.step(own, work))
    named = {"product X E[A]'": product, **watches.seconds}
    return {"total": total, **named, "the rest": total - sum(named.values())}


def main() -> None:
    parser = common.parser("floor", __doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    n, d, k = (4000, 200, 10) if arguments.quick else (100_000, 1000, 50)
    compilation = common.first_call(np.float32)
    data = common.paper_set(n, d, k, seed=0, dtype=np.float32)

    def floors() -> dict[str, dict[str, float]]:
        result = {"all": common.two_product_floor(data.complete, k)}
        with single_threaded_blas():
            result["one"] = common.two_product_floor(data.complete, k, 3)
        return result

    measured = [floors()]
    rows, profiles = [], {}
    for missing, X in (("none", data.complete), ("20% of half", data.seen)):
        context = common.observe(X)
        late = CodesStart(common.perturbed(data.assignments, 0.001))
        for name, start, n_sweeps, target in (
            ("few rows change", late, LATE, 2.5),
            ("second of a random start", RandomStart(k), 0, 5.0),
        ):
            method = common.method_from(context.observations, k, start)
            state = common.beginning(method, context, n_sweeps=int(start is not late))
            state.n_sweeps += n_sweeps
            for cores, n_jobs in (("all", None), ("one", 1)):
                timed = common.time_sweep(method, context, state, arguments.repetitions, n_jobs)
                rows.append({"sweep": name, "missing": missing, "cores": cores, **timed})
                rows[-1]["target"] = target
            profiles[f"{name}, missing: {missing}"] = profile(method, context, state)
            measured.append(floors())
    # Others may be at work on the machine: the best of what was measured all along.
    floor = {
        cores: {name: min(one[cores][name] for one in measured) for name in measured[0][cores]}
        for cores in ("all", "one")
    }
    for row in rows:
        row["floors"] = row["seconds"] / floor[row["cores"]]["floor"]

    print(f"first call: {compilation:.1f} s")
    for cores, seconds in floor.items():
        print(
            f"floor, cores: {cores}: {seconds['floor']:.4f} s, X E[A]' "
            f"{seconds['rows_product']:.4f} s and Z'X {seconds['statistics_product']:.4f} s"
        )
    common.print_table(
        f"A sweep at N = {n}, D = {d}, K = {k}, float32",
        rows,
        {
            "sweep": "",
            "missing": "",
            "cores": "",
            "seconds": ".3f",
            "floors": ".2f",
            "target": ".1f",
            "rows_changed": ".4f",
            "proven": ".4f",
            "n_components": "d",
        },
    )
    for name, parts in profiles.items():
        spent = [
            {"part": part, "seconds": seconds, "share": seconds / parts["total"]}
            for part, seconds in parts.items()
        ]
        common.print_table(
            f"Profile on one core: {name}", spent, {"part": "", "seconds": ".3f", "share": ".1%"}
        )
    common.save(
        "floor",
        arguments,
        shape=[n, d, k],
        compilation_seconds=compilation,
        floor=floor,
        sweeps=rows,
        profiles=profiles,
    )


if __name__ == "__main__":
    main()
