"""The paper's small synthetic set: features recovered and held-out entries, beside the oracle.

    python benchmarks/small.py

N = 500, D = 500, K = 20, shifted to a zero minimum, a fifth of the dimensions of the last half held
out, five seeds. Held-out entries are scored at the paper's noise level, 0.75 standard deviations of
the data, by: the truth (the oracle); a fit with the defaults, K given or not; the paper's own
settings, `MEIBP.paper`; and scikit-learn's NMF fitted to the complete half of the rows, with codes
for the other half from what is seen of them.
"""

from __future__ import annotations

from typing import Any

import common
import numpy as np
import numpy.typing as npt
from sklearn.decomposition import NMF

from ibp import MEIBP


def nmf_prediction(data: common.PaperSet, n_components: int, seed: int) -> npt.NDArray[np.float64]:
    """What NMF expects of every entry."""
    n = len(data.seen) // 2
    seen = ~np.isnan(data.seen[n:]).any(axis=0)
    settings: dict[str, Any] = {"init": "random", "random_state": seed, "max_iter": 200}
    model = NMF(n_components, tol=0, **settings)
    first = model.fit_transform(data.complete[:n])
    coder = NMF(n_components, tol=1e-6, **settings)
    coder.fit(data.complete[:n, seen])
    coder.components_ = np.ascontiguousarray(model.components_[:, seen])
    second = coder.transform(data.complete[n:, seen])
    return np.vstack([first, second]) @ model.components_


def prediction_score(
    data: common.PaperSet, prediction: npt.NDArray[np.float64], noise_std: float
) -> float:
    """Mean log-likelihood of the hidden entries."""
    error = (data.complete - prediction)[np.isnan(data.seen)]
    scaled = error / noise_std
    return float(-0.5 * np.mean(scaled**2) - np.log(noise_std) - 0.5 * np.log(2.0 * np.pi))


def main() -> None:
    parser = common.parser("small", __doc__)
    parser.add_argument("--seeds", type=int)
    arguments = parser.parse_args()
    n, d, k, seeds = (200, 120, 6, 2) if arguments.quick else (500, 500, 20, 5)
    compilation = common.first_call(np.float64)
    common.quietly(lambda: MEIBP.paper(4, max_iter=2).fit(common.paper_set(60, 20, 4, seed=0).seen))

    rows = []
    for seed in range(arguments.seeds or seeds):
        data = common.paper_set(n, d, k, seed=seed)
        noise_std = common.PAPER_STD_FRACTION * data.std
        oracle = data.oracle(noise_std)
        truth = {"heldout": oracle, "own_noise": data.oracle(1.0)}
        rows.append({"seed": seed, "by": "oracle", **truth})
        for name, model in (
            ("defaults, K given", MEIBP(k, random_state=seed)),
            ("defaults", MEIBP(random_state=seed)),
            ("the paper's", MEIBP.paper(k, random_state=seed)),
        ):
            seconds = common.timed_fit(model, data.seen)
            score = common.model_score(model, data.complete, data.seen, noise_std)
            rows.append(
                {
                    "seed": seed,
                    "by": name,
                    "heldout": score,
                    "below_oracle": oracle - score,
                    "own_noise": common.model_score(model, data.complete, data.seen),
                    "n_components": model.n_components_,
                    **common.recovery(data.assignments, model.assignments_),
                    "evidence": model.evidence_,
                    "sweeps": model.n_iter_,
                    "seconds": seconds,
                }
            )
        seconds, prediction = common.quietly(
            lambda data=data, seed=seed: common.seconds_of(lambda: nmf_prediction(data, k, seed))
        )
        score = prediction_score(data, prediction, noise_std)
        rows.append(
            {"seed": seed, "by": "NMF", "heldout": score, "below_oracle": oracle - score}
            | {"seconds": seconds}
        )

    means = []
    for name in dict.fromkeys(row["by"] for row in rows):
        own = [row for row in rows if row["by"] == name]
        names = ("heldout", "below_oracle", "recovered_exactly", "recovered_nearly", "seconds")
        means.append(
            {"by": name} | {m: float(np.mean([r[m] for r in own])) for m in names if m in own[0]}
        )
    print(f"first call: {compilation:.1f} s")
    common.print_table(
        f"N = {n}, D = {d}, K = {k}; scored at 0.75 sd",
        rows,
        {
            "seed": "d",
            "by": "",
            "heldout": ".4f",
            "below_oracle": ".4f",
            "own_noise": ".4f",
            "n_components": "d",
            "recovered_exactly": "d",
            "recovered_nearly": "d",
            "worst_agreement": ".3f",
            "rows_right": ".3f",
            "evidence": ".1f",
            "sweeps": "d",
            "seconds": ".2f",
        },
    )
    common.print_table(
        "Means over the seeds",
        means,
        {
            "by": "",
            "heldout": ".4f",
            "below_oracle": ".4f",
            "recovered_exactly": ".1f",
            "recovered_nearly": ".1f",
            "seconds": ".2f",
        },
    )
    common.save(
        "small",
        arguments,
        shape=[n, d, k],
        compilation_seconds=compilation,
        fits=rows,
        means=means,
    )


if __name__ == "__main__":
    main()
