"""Data in a file, never in memory: features found, memory, and the time of a sweep.

    python benchmarks/out_of_core.py

N = 2e6, D = 1e3, K = 50 in float32: 8 GB on disk, by the paper's recipe (z ~ Bernoulli(0.4),
factors that are one on a random third of the dimensions, unit noise). They are written block by
block to a folder for temporary files, which has to have the room, and removed in the end. Three
processes see the file: one makes it; one fits it with the defaults, while a thread of it watches
the anonymous memory (RssAnon, the kernel's pages of the file not among it); one times sweeps, after
a thousandth of the rows of a settled Z, or half of them, was drawn anew. Before a sweep the file is
thrown out of the kernel's cache, as if it were larger than memory, or left there.

The aim: all features recovered, at most 1.5 GiB of anonymous memory, and a sweep within 1.5 times
the larger of reading the file once and the two products X E[A]' and Z'X. The products are timed on
rows in memory and taken times as many rows as there are. Where other work shares the machine, the
seconds of processors that both take say more than the clock. Linux only.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

import ibp
from ibp import MEIBP
from ibp.blas import single_threaded_blas
from ibp.datasets import make_binary_factors
from ibp.kernels.column_hashes import column_hashes
from ibp.methods.context import Context

# What is written and compared at a time, and rows that the products are timed on.
ROWS_AT_ONCE, FLOOR_ROWS = 20_000, 100_000
READ_AT_ONCE = 1 << 22
REPETITIONS = 5  # of the products
SECONDS_BETWEEN_LOOKS = 0.02
MOST_MEMORY, MOST_RATIO = 1.5 * 2**30, 1.5
GIBIBYTE = 2.0**30


def make_file(folder: Path, n: int, d: int, k: int, kind: str) -> None:
    """Write the rows and the truth."""
    rng = np.random.default_rng(0)
    factors = make_binary_factors(1, d, k, random_state=rng).factors.astype(np.float32)
    truth = np.lib.format.open_memmap(folder / "truth.npy", "w+", np.uint8, (n, k))
    write, finish = writer(folder, n, d, kind)
    for first in range(0, n, ROWS_AT_ONCE):
        rows = slice(first, min(first + ROWS_AT_ONCE, n))
        truth[rows] = rng.random((rows.stop - first, k)) < 0.4
        block = truth[rows].astype(np.float32) @ factors
        block += rng.standard_normal(block.shape, dtype=np.float32)
        write(rows, block)
    truth.flush()
    finish()


def writer(folder: Path, n: int, d: int, kind: str) -> tuple[Any, Any]:
    """What writes a block of rows, and what ends the file."""
    path = folder / f"rows.{kind}"
    if kind == "npy":
        array: Any = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
        return array.__setitem__, array.flush
    if kind == "zarr":
        import zarr

        array = zarr.create_array(path, shape=(n, d), chunks=(ROWS_AT_ONCE // 5, d), dtype="f4")
        return array.__setitem__, lambda: None
    if kind == "h5":
        import h5py

        file = h5py.File(path, "w")
        array = file.create_dataset("X", (n, d), "f4", chunks=(1024, d))
        return array.__setitem__, file.close
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"c{j}" for j in range(d)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    table = parquet.ParquetWriter(path, schema, compression="NONE", use_dictionary=False)

    def write(rows: slice, block: Any) -> None:
        columns = [np.ascontiguousarray(column) for column in block.T]
        table.write_table(pa.table(columns, schema=schema), row_group_size=ROWS_AT_ONCE // 4)

    return write, table.close


def opened(folder: Path, kind: str) -> Any:
    """The rows, left where they are."""
    path = folder / f"rows.{kind}"
    return np.load(path, mmap_mode="r") if kind == "npy" else ibp.open_rows(path)


class MemoryWatch:
    """The most anonymous memory that there was, as a thread of its own saw it."""

    def __enter__(self) -> MemoryWatch:
        self.peak, self.ended = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self) -> None:
        """Look now and then."""
        while not self.ended.wait(SECONDS_BETWEEN_LOOKS):
            self.peak = max(self.peak, common.memory_status("RssAnon"))

    def __exit__(self, *exception: object) -> None:
        self.ended.set()
        self.thread.join()


def fit_figures(folder: Path, kind: str) -> dict[str, Any]:
    """A fit with the defaults."""
    common.first_call(np.float32)
    X = opened(folder, kind)
    before = common.memory_status("RssAnon")
    model = MEIBP(random_state=0)
    with MemoryWatch() as memory:
        seconds = common.timed_fit(model, X)
    truth = np.load(folder / "truth.npy", mmap_mode="r")
    return {
        "seconds": seconds,
        "memory_before": before,
        "peak_memory": memory.peak,
        "sweeps": model.n_iter_,
        "n_components": model.n_components_,
        "start_seconds": model.history_["seconds"][0],
        **common.recovery(truth, model.assignments_),
    }


def files_of(folder: Path, kind: str) -> list[Path]:
    path = folder / f"rows.{kind}"
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def drop_cache(folder: Path, kind: str) -> None:
    """Have the kernel forget the file; pages that are mapped have to be let go of before."""
    for path in files_of(folder, kind):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def reading_seconds(folder: Path, kind: str, *, cold: bool) -> float:
    """How long it takes to read the file once, and to do nothing with it."""
    if cold:
        drop_cache(folder, kind)
    buffer = bytearray(READ_AT_ONCE)
    started = time.perf_counter()
    for path in files_of(folder, kind):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.perf_counter() - started


def sweep_figures(folder: Path, kind: str, k: int) -> dict[str, Any]:
    """Times of sweeps that change few rows or many, each beside that of reading the file."""
    common.first_call(np.float32)
    X = opened(folder, kind)
    model = MEIBP(k, random_state=0, moves=False)
    rows = []
    with model._executor() as executor, single_threaded_blas():
        observations = common.quietly(lambda: model._observe_training_data(X, executor))
        method = model._method(observations)
        context = Context(observations, np.random.default_rng(0), executor)
        state = method.init(context)
        for _ in range(2):
            method.step(context, state)
        settled = state.assignments.copy()
        for cold, fraction in [(True, 0.001)] * 3 + [(False, 0.001)] * 3 + [(True, 0.5)]:
            state.assignments[:] = common.perturbed(settled, fraction)
            state.column_hash[:] = column_hashes(state.assignments)
            state.recount(context)
            state.refresh(context)
            if cold and kind == "npy":
                X._mmap.madvise(mmap.MADV_DONTNEED)  # pages that are mapped would stay
            reading = reading_seconds(folder, kind, cold=cold)
            if cold:
                drop_cache(folder, kind)
            used = time.process_time()
            seconds, report = common.seconds_of(lambda: method.step(context, state))
            rows.append(
                {
                    "cache": "cold" if cold else "warm",
                    "rows_drawn_anew": fraction,
                    "seconds": seconds,
                    "processor_seconds": time.process_time() - used,
                    "bits_changed": report.n_changed,
                    "reading": reading,
                }
            )
    return {"sweeps": rows}


def floor_figures(d: int, k: int, n: int) -> dict[str, float]:
    """The two products of as many rows as fit, times the share they are of all."""
    few = min(n, FLOOR_ROWS)
    X = np.random.default_rng(0).standard_normal((few, d), dtype=np.float32)
    floor = common.two_product_floor(X, k, REPETITIONS)
    used = time.process_time()
    with single_threaded_blas():  # threads that wait for one another use processors, too
        common.two_product_floor(X, k, REPETITIONS)
    floor["processor_seconds"] = (time.process_time() - used) / REPETITIONS
    return {part: seconds * n / few for part, seconds in floor.items()}


def work(settings: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own does."""
    folder, kind, part = Path(settings["folder"]), settings["kind"], settings["part"]
    n, d, k = settings["shape"]
    if part == "make":
        make_file(folder, n, d, k, kind)
        return {}
    if part == "fit":
        return fit_figures(folder, kind)
    if part == "floor":
        return floor_figures(d, k, n)
    return sweep_figures(folder, kind, k)


def main() -> None:
    settings = common.worker_settings()
    if settings is not None:
        print(json.dumps(work(settings), default=common._plain))
        return
    parser = common.parser("out_of_core", __doc__)
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--columns", type=float, default=1e3)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--kind", choices=["npy", "parquet", "zarr", "h5"], default="npy")
    parser.add_argument("--folder", type=Path, help="where the data are written")
    arguments = parser.parse_args()
    n, d, k = int(arguments.rows), int(arguments.columns), arguments.features
    if arguments.quick:
        n, d, k = 20_000, 100, 8
    folder = Path(tempfile.mkdtemp(prefix="ibp-out-of-core-", dir=arguments.folder))

    def run(part: str) -> dict[str, Any]:
        given = {"folder": str(folder), "kind": arguments.kind, "shape": [n, d, k], "part": part}
        started = time.perf_counter()
        answer = common.in_subprocess(__file__, given)
        print(f"{part}: {time.perf_counter() - started:.0f} s", flush=True)
        return answer

    try:
        run("make")
        floors = [run("floor")]
        fit = run("fit")
        floors.append(run("floor"))
        sweeps = run("sweeps")["sweeps"]
        floors.append(run("floor"))
    finally:
        shutil.rmtree(folder)
    floor = min(one["floor"] for one in floors)
    processor = min(one["processor_seconds"] for one in floors)
    for row in sweeps:
        row["floor"] = max(floor, row["reading"])
        row["ratio"] = row["seconds"] / row["floor"]
        row["processor_ratio"] = row["processor_seconds"] / processor
    print(f"floor: two products {floor:.2f} s, {processor:.2f} s of processors")
    common.print_table(
        f"N = {n}, D = {d}, K = {k}, {arguments.kind}: {4 * n * d / 1e9:.2f} GB",
        [fit | {"peak": fit["peak_memory"] / GIBIBYTE, "before": fit["memory_before"] / GIBIBYTE}],
        {
            "seconds": ".1f",
            "start_seconds": ".1f",
            "sweeps": "d",
            "n_components": "d",
            "recovered_exactly": "d",
            "recovered_nearly": "d",
            "rows_right": ".5f",
            "before": ".3f",
            "peak": ".3f",
        },
    )
    common.print_table(
        "Sweeps without moves",
        sweeps,
        {
            "cache": "",
            "rows_drawn_anew": "g",
            "bits_changed": "d",
            "seconds": ".2f",
            "processor_seconds": ".2f",
            "reading": ".2f",
            "floor": ".2f",
            "ratio": ".2f",
            "processor_ratio": ".2f",
        },
    )
    common.save("out_of_core", arguments, shape=[n, d, k], floors=floors, fit=fit, sweeps=sweeps)


if __name__ == "__main__":
    main()
