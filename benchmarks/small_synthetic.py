"""The paper's small synthetic set, row by row: seconds and evidence for five random starts.

    python benchmarks/small_synthetic.py PATH/small_synthetic.npz

PATH holds X, mask, alpha, sigma_x and sigma_a of the set. Without a path the same recipe is drawn
anew. One core; compilation is excluded and reported. The peer is scikit-learn's NMF on the same
matrix with its missing entries filled by column means, 200 iterations of coordinate descent.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ibp import MEIBP
from ibp.datasets import make_binary_factors
from ibp.evaluate import held_out_block


def load(path: Path | None) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Complete data, mask of hidden entries, settings."""
    if path is None:
        X = make_binary_factors(500, 500, 20, random_state=0).data
        X -= X.min()
        hidden = held_out_block(*X.shape, random_state=0)
        std = 0.75 * X[~hidden].std()
        return X, hidden, {"alpha": 3.0, "noise_std": std, "factor_std": std}
    with np.load(path, allow_pickle=False) as file:
        settings = {
            "alpha": float(file["alpha"]),
            "noise_std": float(file["sigma_x"]),
            "factor_std": float(file["sigma_a"]),
        }
        return file["X"], file["mask"], settings


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--optimizer", default="local_search")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    true, hidden, settings = load(arguments.path)
    X = np.where(hidden, np.nan, true)

    def model(seed: int, **changes: object) -> MEIBP:
        return MEIBP(20, **settings, optimizer=arguments.optimizer, random_state=seed, **changes)

    started = time.perf_counter()
    model(0, max_iter=1, tol=0).fit(X).score_heldout(X, true)
    compilation = time.perf_counter() - started

    rows = []
    with threadpool_limits(limits=1):
        filled = np.where(hidden, np.nanmean(X, axis=0), X)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            NMF(20, init="random", random_state=0, max_iter=200, tol=0).fit(filled)
        peer = time.perf_counter() - started
        for seed in range(arguments.seeds):
            started = time.perf_counter()
            fitted = model(seed).fit(X)
            seconds = time.perf_counter() - started
            rows.append(
                {
                    "seed": seed,
                    "seconds": seconds,
                    "ratio_to_nmf": seconds / peer,
                    "sweeps": fitted.n_iter_,
                    "evidence": fitted.evidence_,
                    "n_components": fitted.n_components_,
                    "heldout": fitted.score_heldout(X, true),
                }
            )

    print(f"first call, compilation included: {compilation:.1f} s; NMF: {peer:.2f} s")
    print(
        f"{'seed':>4} {'seconds':>8} {'x NMF':>6} {'sweeps':>7} {'evidence':>10} "
        f"{'K':>3} {'held out':>9}"
    )
    for row in rows:
        print(
            f"{row['seed']:>4} {row['seconds']:>8.2f} {row['ratio_to_nmf']:>6.2f} "
            f"{row['sweeps']:>7} {row['evidence']:>10.0f} {row['n_components']:>3} "
            f"{row['heldout']:>9.4f}"
        )
    if arguments.output:
        report = {"compilation_seconds": compilation, "nmf_seconds": peer, "fits": rows}
        arguments.output.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
