"""One against two single-threaded worker processes of a Dask cluster, and the bytes of a sweep.

    python benchmarks/dask_scaling.py

N = 5e5, D = 200, K = 25, float32, in 8 chunks: codes and half-normal factors as in the paper's
synthetic sets, noise of one. Each fit begins at the true codes with a tenth of the bits turned, and
makes as many sweeps, of four rounds as late in a fit. Timed is the time between the ends of the
first and the last, and the seconds of its processor that the busiest worker took: on a machine with
other work these tell how well the rows are shared out, and the clock does not. The chunks are made
on the workers. Bytes are what leaves the main process and what comes home, counted as pickled; a
sweep is measured at a quarter of the rows, too, in as many rounds, since it should not matter. The
evidence is compared with a fit in memory that has the same blocks, in double precision.

What one thread takes for a row, which `docs/scaling.md` counts with, is measured without a cluster:
the product X E[A]' alone, and all that a round does with the rows of a chunk, when one row in a
hundred has a wrong bit and when each bit is wrong with probability 0.1, in processor time.
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import common
import numpy as np
import numpy.typing as npt

from ibp import MEIBP, workers
from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.data.chunks import Part
from ibp.methods.meibp.distributed.parts import CodedRows, RoundTask, improve_part
from ibp.submodular import OPTIMIZERS
from ibp.submodular.records import Search

# Dask looks for a package of this name, and would find the script that stands beside this one.
sys.modules.setdefault("sparse", None)  # type: ignore[arg-type]

N_COMPONENTS, N_FEATURES, N_CHUNKS, N_ROUNDS = 25, 200, 8, 4
TURNED, TARGET = 0.1, 1.7


def factors() -> npt.NDArray[np.float64]:
    """Half-normal, half of them zero."""
    rng = np.random.default_rng(0)
    drawn = np.abs(rng.normal(0.0, 1.0, (N_COMPONENTS, N_FEATURES)))
    return np.where(rng.random(drawn.shape) < 0.5, drawn, 0.0)


def codes_of(chunk: int, n_rows: int) -> npt.NDArray[np.uint8]:
    """The true codes of a chunk."""
    rng = np.random.default_rng([1, chunk])
    return (rng.random((n_rows, N_COMPONENTS)) < 0.3).astype(np.uint8)


def rows_of(chunk: int, n_rows: int, dtype: str) -> npt.NDArray[np.floating]:
    """The rows of a chunk."""
    rng = np.random.default_rng([2, chunk])
    noise = rng.normal(0.0, 1.0, (n_rows, N_FEATURES))
    return (codes_of(chunk, n_rows) @ factors() + noise).astype(dtype)


def dask_matrix(n_rows: int, dtype: str = "float32") -> Any:
    """All rows, to be made where they are needed."""
    import dask
    import dask.array as da

    size = n_rows // N_CHUNKS
    blocks = [
        da.from_delayed(dask.delayed(rows_of)(c, size, dtype), (size, N_FEATURES), dtype)
        for c in range(N_CHUNKS)
    ]
    return da.concatenate(blocks)


def start_of(n_rows: int) -> npt.NDArray[np.uint8]:
    """The true codes, with some bits turned."""
    codes = np.concatenate([codes_of(c, n_rows // N_CHUNKS) for c in range(N_CHUNKS)])
    turned = np.random.default_rng(3).random(codes.shape) < TURNED
    return np.where(turned, 1 - codes, codes).astype(np.uint8)


class Watch:
    """Notes seconds, seconds of processors and bytes at the end of every sweep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.busy: list[float] = []
        self.bytes: list[int] = []
        self.traffic: Any = None
        self.client: Any = None

    def __call__(self, progress: Any) -> None:
        """Note them; the processor of the worker that has done most counts."""
        self.seconds.append(time.perf_counter())
        self.busy.append(max(self.client.run(time.process_time).values()))
        self.bytes.append(self.traffic.sent + self.traffic.received)

    def workers(self, n_jobs: int) -> Any:
        """Those of the cluster, whose bytes are to be counted."""
        made = workers.active_workers(n_jobs)
        self.traffic = made.traffic
        return made


def model_of(n_rows: int, n_sweeps: int, **settings: Any) -> MEIBP:
    fixed = {"moves": False, "tol": 0, "max_iter": n_sweeps, "block_size": n_rows // N_ROUNDS}
    return MEIBP(**(fixed | settings))


def measure(n_workers: int, n_rows: int, n_sweeps: int) -> dict[str, Any]:
    """A fit on so many processes."""
    import distributed

    import ibp.estimators.meibp as estimator

    watch = Watch()
    estimator.active_workers = watch.workers
    cluster = distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        memory_limit=0,
    )
    with cluster, distributed.Client(cluster) as watch.client:
        small = N_CHUNKS * 100  # loads compiled code in the workers
        model_of(small, 3, init={"Z": start_of(small)}).fit(dask_matrix(small))
        gc.collect()
        watch.seconds, watch.busy, watch.bytes = [], [], []
        model = model_of(n_rows, n_sweeps, init={"Z": start_of(n_rows)}, callbacks=watch)
        began = time.perf_counter()
        model.fit(dask_matrix(n_rows))
        total = time.perf_counter() - began
        del model.assignments_  # which the workers have
        gc.collect()
    sweeps = np.diff(watch.seconds)
    k, d = model.components_.shape
    return {
        "workers": n_workers,
        "rows": n_rows,
        "fit_seconds": total,
        "sweep_seconds": float(np.mean(sweeps)),
        "busiest_worker": float(np.mean(np.diff(watch.busy))),
        "kilobytes_a_sweep": float(np.diff(watch.bytes)[0] / 1e3),
        "kilobytes_expected": N_ROUNDS * 8 * (2 * k * d + k * (k + d)) / 1e3,
        "sweeps": model.n_iter_,
        "changed": int(model.history_["n_changed"][1]),
        "evidence": model.evidence_,
        "n_components": model.n_components_,
    }


def processor_seconds(work: Callable[[], Any], repetitions: int = 5) -> float:
    """The least that one thread took, of several times after a first one."""
    work()
    taken = []
    for _ in range(repetitions):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def seconds_a_row(n_rows: int, n_features: int, n_components: int) -> dict[str, Any]:
    """What one thread takes for a row of so many columns and features, in microseconds."""
    rng = np.random.default_rng(0)
    parts = np.abs(rng.normal(0.0, 1.0, (n_components, n_features)))
    parts = np.where(rng.random(parts.shape) < 0.5, parts, 0.0)
    codes = (rng.random((n_rows, n_components)) < 0.3).astype(np.uint8)
    X = (codes @ parts + rng.normal(0.0, 1.0, (n_rows, n_features))).astype(np.float32)
    part = Part(Observations.from_array(X), 0)
    task = RoundTask(
        parts,
        np.full(parts.shape, 1e-4),
        np.zeros(n_features),
        1.0,
        np.full(n_components, np.log(3 / 7)),
        np.zeros(n_components, dtype=bool),
        Search(OPTIMIZERS["exact"], 1000, complement=False, exchange=True),
        True,
        0,
        None,
    )

    def round_from(wrong: Any) -> float:
        coded = CodedRows.of(codes ^ wrong.astype(np.uint8))
        return processor_seconds(lambda: improve_part(task, part, coded, 0, 1))

    few = np.zeros(codes.shape, dtype=bool)
    few[rng.random(n_rows) < 0.01, 0] = True
    components = parts.astype(np.float32).T
    with single_threaded_blas():
        product = processor_seconds(lambda: X @ components)
    return {
        "columns": n_features,
        "features": n_components,
        "product": 1e6 * product / n_rows,
        "few_wrong": 1e6 * round_from(few) / n_rows,
        "many_wrong": 1e6 * round_from(rng.random(codes.shape) < TURNED) / n_rows,
    }


def same_blocks(n_rows: int) -> dict[str, Any]:
    """The evidence of a fit in memory and of one in chunks, which has the same blocks."""
    size = n_rows // N_CHUNKS
    order = np.concatenate(
        [
            np.arange(c * size + size * r // N_ROUNDS, c * size + size * (r + 1) // N_ROUNDS)
            for r in range(N_ROUNDS)
            for c in range(N_CHUNKS)
        ]
    )
    X, start = dask_matrix(n_rows, "float64"), start_of(n_rows)
    there = model_of(n_rows, 4, init={"Z": start}).fit(X)
    values = X.compute(scheduler="threads")
    here = model_of(n_rows, 4, init={"Z": start[order]}).fit(values[order])
    return {
        "rows": n_rows,
        "in_memory": here.evidence_,
        "in_chunks": there.evidence_,
        "relative_difference": abs(there.evidence_ / here.evidence_ - 1.0),
    }


def main() -> None:
    parser = common.parser("dask_scaling", __doc__)
    parser.add_argument("--sweeps", type=int, default=5)
    arguments = parser.parse_args()
    n_rows = 16_000 if arguments.quick else 500_000
    n_sweeps = 3 if arguments.quick else arguments.sweeps
    warnings.simplefilter("ignore")
    shapes = [(200, 25), (2000, 25), (200, 50), (2000, 200)]
    rates = [seconds_a_row(400 if arguments.quick else 4000, d, k) for d, k in shapes]
    equal = same_blocks(8000 if arguments.quick else 40_000)
    rows = [measure(n, n_rows, n_sweeps) for n in (1, 2)]
    rows.append(measure(2, n_rows // 4, n_sweeps))
    for row in rows[:2]:
        row["speed"] = rows[0]["sweep_seconds"] / row["sweep_seconds"]
        row["work_shared"] = rows[0]["busiest_worker"] / row["busiest_worker"]
        row["target"] = TARGET if row["workers"] == 2 else None
    formats = {
        "workers": "d",
        "rows": ",d",
        "fit_seconds": ".1f",
        "sweep_seconds": ".3f",
        "speed": ".2f",
        "target": ".1f",
        "busiest_worker": ".3f",
        "work_shared": ".2f",
        "kilobytes_a_sweep": ".1f",
        "kilobytes_expected": ".1f",
        "changed": ",d",
        "n_components": "d",
        "evidence": ".1f",
    }
    common.print_table(f"Sweeps, K = {N_COMPONENTS}, D = {N_FEATURES}", rows, formats)
    common.print_table(
        "The same blocks in memory and in chunks",
        [equal],
        {"rows": ",d", "in_memory": ".3f", "in_chunks": ".3f", "relative_difference": ".1e"},
    )
    common.print_table(
        "Microseconds a row on one thread",
        rates,
        {
            "columns": "d",
            "features": "d",
            "product": ".2f",
            "few_wrong": ".1f",
            "many_wrong": ".1f",
        },
    )
    common.save("dask_scaling", arguments, fits=rows, same_blocks=equal, microseconds_a_row=rates)


if __name__ == "__main__":
    main()
