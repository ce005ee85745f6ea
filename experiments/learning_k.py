"""The supplement's experiment on learning the number of features.

For 100 noise levels from 0.1 to 1.0: 2000 noisy sums of the four 6 x 6 block images, a random
start with 20 features, noise_std = factor_std = 1, alpha = 2. How many features are left? The paper
found the true four 68 times, and K = 2: 1, 3: 19, 5: 8, 6: 1, 7: 3.

    python experiments/learning_k.py                        # the authors' way and ours
    python experiments/learning_k.py --levels 20 --optimizer exact
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from ibp import MEIBP
from ibp.datasets import make_block_images

PAPER = {2: 1, 3: 19, 4: 68, 5: 8, 6: 1, 7: 3}


def final_n_components(
    job: tuple[int, float], *, row_start: str, optimizer: str, learn: bool, seed: int
) -> int:
    """Fit one data set and return how many features are left."""
    index, noise_std = job
    draw = make_block_images(noise_std=noise_std, random_state=[seed, index])
    model = MEIBP.paper(
        20,
        alpha=2.0,
        noise_std=1.0,
        factor_std=1.0,
        row_start=row_start,
        optimizer=optimizer,
        learn_hyperparameters=learn,
        random_state=seed + index,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X has negative entries")
        return int(model.fit(draw.data).n_components_)


def run(row_start: str, optimizer: str, learn: bool, seed: int, levels: int, jobs: int) -> Counter:
    noise_levels = list(enumerate(np.linspace(0.1, 1.0, levels)))
    task = partial(
        final_n_components, row_start=row_start, optimizer=optimizer, learn=learn, seed=seed
    )
    with ProcessPoolExecutor(jobs) as pool:
        return Counter(pool.map(task, noise_levels, chunksize=5))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--levels", type=int, default=100)
    parser.add_argument("--optimizer", default="local_search")
    parser.add_argument("--learn", action="store_true", help="learn the hyperparameters")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write the counts as JSON")
    arguments = parser.parse_args()

    results = {}
    for row_start in ("empty", "current"):
        started = time.perf_counter()
        results[row_start] = run(
            row_start,
            arguments.optimizer,
            arguments.learn,
            arguments.seed,
            arguments.levels,
            arguments.jobs,
        )
        seconds = time.perf_counter() - started
        print(f"row_start={row_start!r}: {arguments.levels} fits in {seconds:.1f} s", flush=True)

    ks = sorted({*PAPER, *results["empty"], *results["current"]})
    print(f"\n{'K':>3} {'paper':>7} {'empty':>7} {'current':>8}")
    for k in ks:
        counts = (PAPER.get(k, 0), results["empty"][k], results["current"][k])
        print(f"{k:>3} {counts[0]:>7} {counts[1]:>7} {counts[2]:>8}")
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
