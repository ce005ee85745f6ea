"""Kills processes that fit, by signal 9 at random moments, and lets others go on to the end.

``python tests/killing.py forked FOLDER N`` kills N children of this process that fit to a
checkpoint, and as many that write tables as ``ibp reproduce`` does; ``commands`` kills ``ibp fit``.
The model, and one of a fit that nobody killed in FOLDER/whole, are for others to compare; what was
seen on the way is printed as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ibp
from ibp.checkpoints import FIT, read
from ibp.reproduce.running import POINTS, RUNS, Ledger
from ibp.reproduce.study import Cell, Options, Outcome
from ibp.reproduce.tables import read_rows

# In seconds, the longest that a process lives as long as there are kills to come, and how long a
# sweep is made to last, so that three lives are not enough.
LIFE, LIFE_OF_COMMAND, SWEEP = 0.2, 0.4, 0.01
N_SWEEPS, N_CELLS = 40, 60


def make_data(n: int) -> Any:
    """Some rows with a few features."""
    return ibp.datasets.make_block_images(n, noise_std=0.5, random_state=0).data


def fit(folder: Path, X: Any, pause: float) -> None:
    """Fit from whatever is there, with pauses, and save the model."""
    warnings.simplefilter("ignore")
    model = ibp.AcceleratedGibbs(max_iter=N_SWEEPS, n_init=2, random_state=0, n_jobs=1)
    model.set_params(checkpoint=folder / "run.ckpt", checkpoint_seconds=0, resume=True)
    model.set_params(callbacks=lambda progress: time.sleep(pause))
    model.fit(X).save(folder / "model.ibp")


def write_tables(folder: Path) -> None:
    """Do cells that are not done, as ``ibp reproduce`` does."""
    plan = [Cell(f"cell {i}", {}) for i in range(N_CELLS)]
    ledger = Ledger.open(folder, Options(quick=True), plan)
    for cell in ledger.open_cells():
        row = {"seconds": 1.0, "ending": "converged", "seed": len(cell.name)}
        ledger.add(cell, Outcome([row], [row, row]))


def forked(work: Callable[[], None]) -> int:
    """Run something in a child, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def survive(
    start: Callable[[], int],
    n_kills: int,
    life: float,
    look: Callable[[], None],
    written: Path | None = None,
) -> int:
    """Start processes one after the other and kill them, then let one end; return the kills.

    With a file to be ``written``, the life of every second process begins when that has changed.
    """
    chance, kills = random.Random(0), 0
    while True:
        before = _changed(written)
        child = start()
        ended = 0
        if kills < n_kills:
            while kills % 2 and not ended and _changed(written) == before:
                time.sleep(0.01)
                ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                time.sleep(chance.uniform(0.02, 1.0) * life)
                os.kill(child, signal.SIGKILL)
        if not ended:
            _, status = os.waitpid(child, 0)
        look()
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, status
            return kills
        kills += 1


def _changed(path: Path | None) -> int | None:
    """When a file was last written; something else at every call if there is none to look at."""
    if path is None:
        return time.monotonic_ns()
    return path.stat().st_mtime_ns if path.exists() else None


def kill_forked(folder: Path, n_kills: int) -> dict[str, Any]:
    """Kill children of this process."""
    X, whole = make_data(150), folder / "whole"
    whole.mkdir()
    fit(whole, X, 0.0)  # compiled from here on
    seen = {"checkpoints_read": 0}

    def look() -> None:
        if (folder / "run.ckpt").exists():  # not if the first life was a very short one
            read(folder / "run.ckpt", FIT)
            seen["checkpoints_read"] += 1

    kills = survive(lambda: forked(lambda: fit(folder, X, SWEEP)), n_kills, LIFE, look)
    left = sorted(path.name for path in folder.iterdir() if path.is_file())

    tables, whole_tables = folder / "tables", whole / "tables"
    for place in (tables, whole_tables):
        place.mkdir()
    write_tables(whole_tables)

    def look_at_tables() -> None:
        for name in (RUNS, POINTS):
            read_rows(tables / name)

    survive(lambda: forked(lambda: write_tables(tables)), n_kills, 0.1 * LIFE, look_at_tables)
    same = all(
        (tables / name).read_bytes() == (whole_tables / name).read_bytes()
        for name in (RUNS, POINTS)
    ) and sorted(path.name for path in tables.iterdir()) == [POINTS, RUNS]
    return {"kills": kills, "left": left, "tables": "the same" if same else "not the same", **seen}


def kill_commands(folder: Path, n_kills: int) -> dict[str, Any]:
    """Kill ``ibp fit``."""
    whole = folder / "whole"
    whole.mkdir()
    np.save(folder / "data.npy", make_data(1500))
    command = [sys.executable, "-m", "ibp", "fit", str(folder / "data.npy"), "--method", "aibp"]
    command += ["--max-sweeps", "300", "--restarts", "2", "--set", "tol=0", "--quiet"]
    subprocess.run([*command, "-o", str(whole / "model.ibp")], check=True, stdout=sys.stderr)
    kept = [
        "--checkpoint",
        str(folder / "run.ckpt"),
        "--resume",
        "--set",
        "checkpoint_seconds=0.05",
    ]
    command += ["-o", str(folder / "model.ibp"), *kept]

    def start() -> int:
        return subprocess.Popen(command, stdout=sys.stderr).pid

    def look() -> None:
        if (folder / "run.ckpt").exists():
            read(folder / "run.ckpt", FIT)

    kills = survive(start, n_kills, LIFE_OF_COMMAND, look, folder / "run.ckpt")
    left = sorted(path.name for path in folder.iterdir() if path.is_file())
    return {"kills": kills, "left": left}


if __name__ == "__main__":
    kind, folder, n_kills = sys.argv[1:]
    kill = {"forked": kill_forked, "commands": kill_commands}[kind]
    print(json.dumps(kill(Path(folder), int(n_kills))))
