"""How long people wait: the command line from a cold start, and the report page of a large table.

    python benchmarks/command_line.py

Every command runs in a process of its own, with the kernels compiled and cached; its floor is a
process that imports NumPy, scikit-learn and Numba and does nothing. The file is scikit-learn's
digits, 1797 x 64, as .csv and as .npy. The page is that of a model of 2,000 rows, made for
100,000 x 2,000 entries of a memory-mapped file: seconds, memory and megabytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.datasets import load_digits

from ibp import MEIBP
from ibp.report import write_report

FLOOR = [sys.executable, "-c", "import numpy, sklearn.decomposition, numba"]
IBP = [sys.executable, "-m", "ibp"]


def run(command: list[str], folder: Path) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def timed(command: list[str], folder: Path, repetitions: int) -> dict[str, Any]:
    """The shortest of several runs, with the floor measured between them."""
    mine, floor = [], []
    for _ in range(repetitions):
        floor.append(common.seconds_of(lambda: run(FLOOR, folder))[0])
        mine.append(common.seconds_of(lambda: run(command, folder))[0])
    return {
        "command": "ibp " + " ".join(command[len(IBP) :]),
        "seconds": min(mine),
        "floor": min(floor),
        "ratio": min(mine) / min(floor),
    }


def large_page(folder: Path, n_samples: int, n_features: int) -> dict[str, Any]:
    """The report page of a table that does not fit in a page."""
    rng = np.random.default_rng(0)
    factors = rng.gamma(1.0, 1.0, size=(20, n_features)) * (rng.random((20, n_features)) < 0.2)
    path = folder / "large.npy"
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_samples, n_features))
    for start in range(0, n_samples, 10_000):
        rows = X[start : start + 10_000]
        codes = rng.random((len(rows), 20)) < 0.2
        rows[:] = codes @ factors + rng.normal(0.0, 0.3, size=rows.shape)
    X.flush()
    X = np.load(path, mmap_mode="r")
    model = MEIBP(random_state=0).fit(X[: min(2_000, n_samples)])
    started = time.perf_counter()
    page = write_report(model, X, folder / "large.html")
    return {
        "rows": n_samples,
        "columns": n_features,
        "features": model.n_components_,
        "seconds": time.perf_counter() - started,
        "megabytes": page.stat().st_size / 1e6,
    }


def main() -> None:
    arguments = common.parser("command_line", __doc__).parse_args()
    repetitions = 1 if arguments.quick else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        digits = load_digits().data
        np.save(folder / "digits.npy", digits)
        np.savetxt(folder / "digits.csv", digits, fmt="%g", delimiter=",")
        fit = [*IBP, "fit", "digits.csv", "--output", "digits.ibp", "--force"]
        compilation = common.seconds_of(lambda: run(fit, folder))[0]
        commands = [
            [*IBP, "--help"],
            fit,
            [*IBP, "fit", "digits.npy", "--output", "digits.ibp", "--force"],
            [*IBP, "report", "digits.ibp", "digits.npy", "--image-shape", "8x8", "--force"],
            [*IBP, "transform", "digits.ibp", "digits.npy", "-o", "codes.csv", "--force"],
        ]
        rows = [timed(command, folder, repetitions) for command in commands]
        common.print_table(
            f"Processes, kernels cached (the first one took {compilation:.1f} s)",
            rows,
            {"command": "s", "seconds": ".2f", "floor": ".2f", "ratio": ".1f"},
        )
        size = (5_000, 200) if arguments.quick else (100_000, 2_000)
        page = large_page(folder, *size)
        common.print_table(
            "Report page",
            [page],
            {"rows": "d", "columns": "d", "features": "d", "seconds": ".1f", "megabytes": ".1f"},
        )
    common.save("command_line", arguments, processes=rows, page=page, first_seconds=compilation)


if __name__ == "__main__":
    main()
