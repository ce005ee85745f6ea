"""Real data: the number of features found, evidence, held-out score and seconds.

    python benchmarks/real_data.py

Digits, Piano, Yale 48x42 and the MIRFlickr tags, with n_components=None beside 10, 25, 50, 100. Of
dense data a fifth of the dimensions of the last half of the rows (in random order) is held out; of
the tags a random fifth of the ones and as many zeros, stored as NaN. Half of what is predicted
there are ones, which are rare otherwise: beside the scores stands the chance that a held-out one is
expected to be higher than a held-out zero (AUC). Scores are means per entry at the model's own
noise and at 0.75 standard deviations of the data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import common
import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from ibp import MEIBP
from ibp.data import summarize
from ibp.evaluate import expected_entries, held_out_block

FILES = {
    "Piano": "piano_16000x161_dft1024.npz",
    "Yale 48x42": "yaleb_cropped_48x42.npz",
    "MIRFlickr": "mirflickr25k_tags_csr.npz",
}


def load(name: str, folder: Path) -> Any:
    """One data set, or None if its file is not there."""
    if name == "digits":
        return load_digits().data / 16.0
    path = folder / FILES[name]
    if not path.exists():
        print(f"{path} is not there: no {name}")
        return None
    if name == "MIRFlickr":
        return sparse.csr_array(sparse.load_npz(path)).astype(np.float32)
    with np.load(path, allow_pickle=False) as file:
        X = file["X"]
    return X.astype(np.float32) / 255.0 if X.dtype == np.uint8 else X


def held_out(X: Any, seed: int) -> tuple[Any, Any]:
    """The data, and the same with entries hidden."""
    rng = np.random.default_rng(seed)
    if not sparse.issparse(X):
        X = X[rng.permutation(len(X))]
        seen = X.copy()
        seen[held_out_block(*X.shape, rng)] = np.nan
        return X, seen
    n, d = X.shape
    n_hidden = round(0.2 * X.nnz)
    stored = np.repeat(np.arange(n), np.diff(X.indptr)) * d + X.indices
    ones = rng.permutation(stored)[:n_hidden]
    strewn = np.unique(rng.integers(n * d, size=2 * n_hidden))
    zeros = rng.permutation(np.setdiff1d(strewn, stored))[:n_hidden]
    places = np.concatenate([np.setdiff1d(stored, ones), ones, zeros])
    values = np.ones(places.size, dtype=X.dtype)
    values[stored.size - ones.size :] = np.nan
    seen = sparse.csr_array((values, divmod(places, d)), shape=X.shape)
    return X, seen


def ranking(model: MEIBP, X: sparse.csr_array, seen: sparse.csr_array) -> float:
    """The chance that a held-out one is expected to be higher than a held-out zero."""
    entries = seen.tocoo()
    hidden = np.isnan(entries.data)
    row, column = entries.row[hidden], entries.col[hidden]
    truth = np.asarray(X[row, column]).ravel() > 0
    expected = expected_entries(
        model.assignments_.astype(float), model.components_, model.intercept_, row, column
    )
    return float(roc_auc_score(truth, expected))


def main() -> None:
    parser = common.parser("real_data", __doc__)
    parser.add_argument("--data", type=Path, default=common.DATA, help="folder of the files")
    parser.add_argument("--only", nargs="*", choices=["digits", *FILES], help="some of the sets")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    numbers = [None, 5] if arguments.quick else [None, 10, 25, 50, 100]
    compilation = common.first_call(np.float32, np.float64, sparse=True)

    rows = []
    for name in arguments.only or ["digits", *FILES]:
        X = load(name, arguments.data)
        if X is None:
            continue
        if arguments.quick:
            X = X[:: max(1, X.shape[0] // 300)]
            X = X[:, np.flatnonzero(np.asarray(X.sum(axis=0)).ravel() > 0)]
        X, seen = held_out(X, arguments.seed)
        paper_std = common.PAPER_STD_FRACTION * summarize(seen).std
        for n_components in numbers:
            model = MEIBP(n_components, random_state=arguments.seed)
            seconds = common.timed_fit(model, seen)
            rows.append(
                {
                    "data": name,
                    "asked": str(n_components),
                    "n_components": model.n_components_,
                    "evidence": model.evidence_,
                    "own_noise": common.model_score(model, X, seen),
                    "at_0.75_sd": common.model_score(model, X, seen, paper_std),
                    "auc": ranking(model, X, seen) if sparse.issparse(X) else None,
                    "noise_std": common.noise_level(model),
                    "sweeps": model.n_iter_,
                    "converged": model.converged_,
                    "proven": float(model.history_["proven"][-1]),
                    "seconds": seconds,
                }
            )
            print(f"{name}, n_components={n_components}: {seconds:.1f} s", flush=True)

    print(f"first call: {compilation:.1f} s")
    common.print_table(
        "Real data",
        rows,
        {
            "data": "",
            "asked": "",
            "n_components": "d",
            "evidence": ".1f",
            "own_noise": ".4f",
            "at_0.75_sd": ".4f",
            "auc": ".3f",
            "sweeps": "d",
            "proven": ".3f",
            "seconds": ".2f",
        },
    )
    common.save("real_data", arguments, compilation_seconds=compilation, fits=rows)


if __name__ == "__main__":
    main()
