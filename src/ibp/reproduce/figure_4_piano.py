"""Figure 4, left: spectra of piano recordings."""

from __future__ import annotations

from pathlib import Path

from ibp.datasets import load_piano
from ibp.evaluate import HeldOut
from ibp.reproduce.real_data import (
    A_THIRD,
    FRACTION,
    TRUNCATED,
    RealSet,
    Version,
    ahead,
    block_of_digits,
    quicker,
)
from ibp.reproduce.study import Claim, Results


def load(folder: Path) -> HeldOut:
    """A fifth of the frequencies hidden in the last half of the frames."""
    return HeldOut.of(load_piano(folder).data, 0, fraction=FRACTION)


def claims(results: Results) -> list[Claim]:
    """What the paper says of Piano."""
    ibp_models = [label for label in TRUNCATED if label != "bnmf"]
    others = [label for label in ibp_models if label != "meibp"]
    return [
        quicker(results.runs, "BNMF converges faster than the IBP models", ["bnmf"], ibp_models),
        ahead(results.runs, "MEIBP ends above the other IBP models", ["meibp"], others),
        quicker(
            results.runs, "MEIBP converges faster than the other IBP models", ["meibp"], others
        ),
        quicker(results.runs, "MEIBP takes a third of AIBP's time", ["meibp"], ["t-aibp"], A_THIRD),
    ]


STUDY = RealSet(
    "figure-4-piano",
    "Figure 4, left: Piano",
    [Version("piano", load)],
    block_of_digits,
    "Spectra of piano recordings, 16,000 x 161, a fifth of the dimensions of the last half hidden. "
    "MEIBP does best among the IBP models, at a third of AIBP's time, BNMF converges much faster; "
    "UGibbs gets stuck.",
    [
        "The recordings are others than the paper's (Bach on a concert grand, CC0, frames 90 ms "
        "apart), of the same kind and shape; the paper's scale is not told. Ranks and ratios of "
        "times can be compared, values cannot."
    ],
    claims,
).study()
