"""The number of features that a fit with the defaults finds, at the supplement's 100 noise levels.

    python benchmarks/learning_k.py

Noise from 0.1 to 1.0: 2000 noisy sums of the four 6 x 6 block images, the draws of
`ibp reproduce learning-k`, where the paper's settings are tried. The paper found the true four 68
times of 100.
"""

from __future__ import annotations

from collections import Counter

import common
import numpy as np

from ibp import MEIBP
from ibp.datasets import make_block_images

PAPER = {2: 1, 3: 19, 4: 68, 5: 8, 6: 1, 7: 3}


def main() -> None:
    parser = common.parser("learning_k", __doc__)
    parser.add_argument("--levels", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--codes", choices=("binary", "weighted"), default="binary")
    arguments = parser.parse_args()
    n_levels = arguments.levels or (5 if arguments.quick else 100)
    compilation = common.first_call(np.float64)

    rows = []
    for index, noise_std in enumerate(np.linspace(0.1, 1.0, n_levels)):
        draw = make_block_images(noise_std=noise_std, random_state=[arguments.seed, index])
        model = MEIBP(codes=arguments.codes, random_state=arguments.seed + index)
        seconds = common.timed_fit(model, draw.data)
        rows.append(
            {
                "noise_std": noise_std,
                "n_components": model.n_components_,
                **common.recovery(draw.assignments, model.assignments_),
                "learned_noise_std": common.noise_level(model),
                "sweeps": model.n_iter_,
                "seconds": seconds,
            }
        )

    counts = Counter(row["n_components"] for row in rows)
    total = sum(row["seconds"] for row in rows)
    print(f"first call: {compilation:.1f} s; {n_levels} fits: {total:.2f} s")
    common.print_table(
        "Noise levels that ended with K features",
        [
            {"K": k, "defaults": counts[k], "paper": PAPER.get(k, 0)}
            for k in sorted({*counts, *PAPER})
        ],
        {"K": "d", "defaults": "d", "paper": "d"},
    )
    wrong = [row for row in rows if row["n_components"] != 4]
    if wrong:
        formats = {"noise_std": ".3f", "n_components": "d", "rows_right": ".3f", "sweeps": "d"}
        common.print_table("Not four", wrong, formats)
    common.save(
        "learning_k",
        arguments,
        compilation_seconds=compilation,
        counts=dict(sorted(counts.items())),
        seconds=total,
        fits=rows,
    )


if __name__ == "__main__":
    main()
