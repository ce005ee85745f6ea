"""Sparse input against the same data made dense, and a large matrix that has no dense form.

    python benchmarks/sparse.py [TAGS]

TAGS is a CSR file, by default the MIRFlickr tags. There K = 25, and timed are the two products that
a sweep needs, made in pieces by all threads as in a sweep, and whole sweeps: one that changes few
rows, late in a fit, and the second of a random start. In float32, and in float64, which is what
`fit` makes of integers. The planted matrix is 1e6 x 1e4 with 25 features of 12 columns
each: a row has a feature with probability 0.04, then each of its columns is one with probability
0.8, and 0.4 further ones a row are strewn anywhere, which makes 0.1%. Both are fitted, each in a
process of its own. Peak memory, the matrix included, should be no more than twice the matrix (its
three arrays) and Z and 64 MiB.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import common
import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp import MEIBP
from ibp.blas import single_threaded_blas
from ibp.data import Observations
from ibp.methods.context import Context
from ibp.methods.meibp.automatic_start import CodesStart
from ibp.methods.meibp.method import LARGEST_BLOCK
from ibp.methods.meibp.random_start import RandomStart
from ibp.model.statistics import data_sums
from ibp.parallel import ranges

N_COMPONENTS = 25
# Late enough in a fit for the exact search to have all of its budget, and for large blocks.
LATE = 5
WHAT = {
    "products": 20.0,
    "sweep that changes few rows": 8.0,
    "second sweep of a random start": 8.0,
}
COLUMNS_OF_A_FEATURE, PROBABILITY, HIT, STRAY = 12, 0.04, 0.8, 0.4


def planted(
    n_samples: int, n_features: int, seed: int = 0
) -> tuple[sparse.csr_array, npt.NDArray[np.uint8]]:
    """A sparse binary matrix with known features, made a few rows at a time."""
    rng = np.random.default_rng(seed)
    columns = rng.permutation(n_features)[: N_COMPONENTS * COLUMNS_OF_A_FEATURE]
    columns = columns.reshape(N_COMPONENTS, COLUMNS_OF_A_FEATURE)
    codes = (rng.random((n_samples, N_COMPONENTS)) < PROBABILITY).astype(np.uint8)
    indices, lengths = [], np.zeros(n_samples, dtype=np.int64)
    for rows in ranges(n_samples, 1 << 16):
        n = rows.stop - rows.start
        row, feature = np.nonzero(codes[rows])
        hit = rng.random((row.size, COLUMNS_OF_A_FEATURE)) < HIT
        places = columns[feature]
        n_stray = rng.poisson(STRAY * n)
        all_rows = np.concatenate([np.repeat(row, hit.sum(axis=1)), rng.integers(n, size=n_stray)])
        all_columns = np.concatenate([places[hit], rng.integers(n_features, size=n_stray)])
        entries = np.unique(all_rows * n_features + all_columns)
        lengths[rows] = np.bincount(entries // n_features, minlength=n)
        indices.append((entries % n_features).astype(np.int32))
    index = np.concatenate(indices)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    X = sparse.csr_array(
        (np.ones(index.size, dtype=np.float32), index, start), shape=(n_samples, n_features)
    )
    return X, codes


def stored_bytes(X: Any) -> int:
    """Of the three arrays."""
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def fitted(X: Any, max_iter: int) -> tuple[MEIBP, dict[str, Any]]:
    """A fit with the defaults, its time and its memory."""
    model = MEIBP(N_COMPONENTS, max_iter=max_iter, random_state=0)
    growth, seconds = common.peak_growth(lambda: common.timed_fit(model, X))
    seconds_at = model.history_["seconds"]
    matrix, codes = stored_bytes(X), X.shape[0] * N_COMPONENTS
    return model, {
        "shape": list(X.shape),
        "stored_share": X.nnz / (X.shape[0] * X.shape[1]),
        "fit_seconds": seconds,
        "sweeps": model.n_iter_,
        "converged": model.converged_,
        "n_components": model.n_components_,
        "sweep_seconds": float(np.median(np.diff(seconds_at))) if len(seconds_at) > 1 else None,
        "matrix_mebibytes": matrix / common.MEBIBYTE,
        "peak_mebibytes": (matrix + growth) / common.MEBIBYTE,
        "allowed_mebibytes": (2 * matrix + codes) / common.MEBIBYTE + 64.0,
    }


def products_of(task: tuple[Observations, Any, Any], rows: slice) -> tuple[Any, Any]:
    """X E[A]' and Z'X of some rows."""
    observations, components, codes = task
    block = observations.source.rows(rows)
    return block @ components.T, data_sums(block, codes[rows])


def products(context: Context, components: Any, codes: Any) -> None:
    """The same of all rows, in the pieces of a sweep."""
    observations = context.observations
    pieces = ranges(observations.n_samples, observations.piece_rows)
    for _ in context.executor.map(products_of, (observations, components, codes), pieces):
        pass


def compare(X: Any, model: MEIBP, repetitions: int) -> list[dict[str, Any]]:
    """Products and sweeps, sparse and dense, at the end of a fit and at the beginning of one."""
    k = model.n_components_
    late = CodesStart(common.perturbed(model.assignments_, 0.001))
    rows = []
    for dtype in (np.float32, np.float64):
        narrow = X.astype(dtype)
        forms = {"sparse": narrow, "dense": np.ascontiguousarray(narrow.toarray())}
        rows += [{"what": what, "type": dtype.__name__} for what in WHAT]
        products_row, few_row, second_row = rows[-3:]
        for form, values in forms.items():
            context = common.observe(values)
            observations = context.observations
            method = common.method_from(observations, k, late, block_size=LARGEST_BLOCK)
            state = common.beginning(method, context)
            state.n_sweeps = LATE
            components = observations.layout.restore(state.factors.mean).astype(dtype)
            with single_threaded_blas():
                products_row[form] = common.best_of(
                    lambda own=context, c=components, s=state: products(own, c, s.assignments),
                    repetitions,
                )
            timed = common.time_sweep(method, context, state, repetitions)
            few_row[form], few_row[f"{form}_changed"] = timed["seconds"], timed["rows_changed"]
            method = common.method_from(observations, k, RandomStart(k))
            state = common.beginning(method, context, n_sweeps=1)
            timed = common.time_sweep(method, context, state, repetitions)
            second_row[form], second_row[f"{form}_changed"] = (
                timed["seconds"],
                timed["rows_changed"],
            )
        blas = common.two_product_floor(forms["dense"], k, repetitions)["floor"]
        rows.append(
            {"what": "products, dense by BLAS alone", "type": dtype.__name__, "dense": blas}
            | {"sparse": products_row["sparse"]}
        )
    for row in rows:
        row["ratio"] = row["dense"] / row["sparse"]
    return rows


def measure(case: str, path: str, shape: list[int], max_iter: int, repetitions: int) -> dict:
    """One matrix, in this process."""
    result: dict[str, Any] = {"case": case}
    result["compilation_seconds"] = common.first_call(np.float32, sparse=True)
    if case == "planted":
        X, codes = planted(*shape)
        model, figures = fitted(X, max_iter)
        return result | figures | common.recovery(codes, model.assignments_)
    X = sparse.csr_array(sparse.load_npz(path)).astype(np.float32)
    if shape:
        X = X[: shape[0]]
        X = X[:, np.flatnonzero(X.sum(axis=0))]
    model, figures = fitted(X, max_iter)
    return result | figures | {"against_dense": compare(X, model, repetitions)}


def main() -> None:
    settings = common.worker_settings()
    if settings is not None:
        print(json.dumps(measure(**settings)))
        return
    parser = common.parser("sparse", __doc__)
    parser.add_argument(
        "tags", type=Path, nargs="?", default=common.DATA / "mirflickr25k_tags_csr.npz"
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--max-iter", type=int, default=200)
    arguments = parser.parse_args()
    shared = {"max_iter": arguments.max_iter, "repetitions": arguments.repetitions}
    shape = [20_000, 2000] if arguments.quick else [10**6, 10**4]
    cases = [{"case": "planted", "path": "", "shape": shape}]
    if arguments.tags.exists():
        shape = [3000] if arguments.quick else []
        cases.insert(0, {"case": "tags", "path": str(arguments.tags), "shape": shape})
    else:
        print(f"{arguments.tags} is not there: no comparison on tags")
    if arguments.quick:
        shared = {"max_iter": 5, "repetitions": 2}

    rows = [common.in_subprocess(__file__, case | shared) for case in cases]
    formats = {
        "case": "",
        "stored_share": ".4%",
        "fit_seconds": ".2f",
        "sweeps": "d",
        "sweep_seconds": ".3f",
        "n_components": "d",
        "recovered_exactly": "d",
        "recovered_nearly": "d",
        "rows_right": ".5f",
        "matrix_mebibytes": ".1f",
        "peak_mebibytes": ".1f",
        "allowed_mebibytes": ".1f",
    }
    common.print_table(f"Fits with K = {N_COMPONENTS}", rows, formats)
    for row in rows:
        if "against_dense" in row:
            common.print_table(
                "Seconds sparse and dense",
                [own | {"target": WHAT.get(own["what"])} for own in row["against_dense"]],
                {
                    "what": "",
                    "type": "",
                    "sparse": ".4f",
                    "dense": ".4f",
                    "ratio": ".1f",
                    "target": ".0f",
                    "sparse_changed": ".4f",
                    "dense_changed": ".4f",
                },
            )
    common.save("sparse", arguments, cases=rows)


if __name__ == "__main__":
    main()
