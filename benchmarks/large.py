"""The paper's large synthetic set, end to end.

    python benchmarks/large.py

N = 1e5, D = 1e3, K = 50 in float32, shifted to a zero minimum, a fifth of the dimensions of the
last half held out. `fit`, the start included, is timed against the two products X E[A]' and Z'X and
against 12 iterations of scikit-learn's NMF on the complete data; the start's seconds are those to
the end of the first sweep. The oracle scores the held-out
entries with the true Z, A, offset and noise. A second series starts at random; the best of it by
evidence is marked.
"""

from __future__ import annotations

from typing import Any

import common
import numpy as np
from sklearn.decomposition import NMF

from ibp import MEIBP

NMF_ITERATIONS = 12


def figures(model: MEIBP, data: common.PaperSet) -> dict[str, Any]:
    """What is to be known of a fit."""
    fitted = (model.assignments_, model.components_, model.intercept_)
    truth = (data.assignments, data.factors, data.offset)
    score, oracle = common.model_score(model, data.complete, data.seen), data.oracle(1.0)
    return {
        "start_seconds": model.history_["seconds"][0],
        "sweeps": model.n_iter_,
        "n_components": model.n_components_,
        **common.recovery(data.assignments, model.assignments_),
        "residual_ratio": data.residual(*fitted) / data.residual(*truth),
        "noise_std": common.noise_level(model),
        "heldout": score,
        "oracle": oracle,
        "below_oracle": (oracle - score) / abs(oracle),
        "evidence": model.evidence_,
        "history": {name: values.tolist() for name, values in model.history_.items()},
    }


def main() -> None:
    parser = common.parser("large", __doc__)
    parser.add_argument("--seed", type=int, default=0, help="of data and starts")
    parser.add_argument("--repetitions", type=int, default=3, help="of the fits with the defaults")
    parser.add_argument("--random-starts", type=int, default=5)
    arguments = parser.parse_args()
    n, d, k = (4000, 200, 10) if arguments.quick else (100_000, 1000, 50)
    seed = arguments.seed
    compilation = common.first_call(np.float32)
    data = common.paper_set(n, d, k, seed=seed, dtype=np.float32)
    measured = [common.two_product_floor(data.complete, k)]
    peer = NMF(k, init="random", tol=0, max_iter=NMF_ITERATIONS, random_state=seed)
    peer_seconds = common.quietly(lambda: common.seconds_of(lambda: peer.fit(data.complete))[0])

    runs = [(f"n_components={k}", {"n_components": k}), ("n_components=None", {})]
    runs += [
        (f"random start {i}", {"n_components": k, "init": "random", "random_state": i})
        for i in range(arguments.random_starts)
    ]
    rows = []
    for name, settings in runs:
        times = []
        for _ in range(1 if "init" in settings else arguments.repetitions):
            model = MEIBP(**({"random_state": seed} | settings))
            times.append(common.timed_fit(model, data.seen))
            measured.append(common.two_product_floor(data.complete, k))
        rows.append({"fit": name, "seconds": min(times), **figures(model, data)})
        print(f"{name}: {min(times):.1f} s", flush=True)
    # Others may be at work on the machine: the best of what was measured all along.
    floor = {part: min(one[part] for one in measured) for part in measured[0]}
    for row in rows:
        row["floors"] = row["seconds"] / floor["floor"]
        row["of_nmf"] = row["seconds"] / peer_seconds
    random = [row for row in rows if row["fit"].startswith("random")]
    if random:
        max(random, key=lambda row: row["evidence"])["best"] = "best"

    print(f"first call: {compilation:.1f} s; floor: {floor['floor']:.3f} s; ", end="")
    print(f"NMF, {NMF_ITERATIONS} iterations: {peer_seconds:.2f} s")
    common.print_table(
        f"N = {n}, D = {d}, K = {k}; oracle {data.oracle(1.0):.4f}",
        rows,
        {
            "fit": "",
            "seconds": ".2f",
            "floors": ".1f",
            "of_nmf": ".2f",
            "start_seconds": ".2f",
            "sweeps": "d",
            "n_components": "d",
            "recovered_exactly": "d",
            "recovered_nearly": "d",
            "rows_right": ".5f",
            "residual_ratio": ".4f",
            "heldout": ".4f",
            "below_oracle": ".2%",
            "evidence": ".6g",
            "best": "",
        },
    )
    common.save(
        "large",
        arguments,
        shape=[n, d, k],
        compilation_seconds=compilation,
        floor=floor,
        nmf={"iterations": NMF_ITERATIONS, "seconds": peer_seconds},
        fits=rows,
        random_series_seconds=sum(row["seconds"] for row in random),
    )


if __name__ == "__main__":
    main()
