"""Features that only copy one column, and how well hidden tags are ranked.

    python benchmarks/copies.py

A feature copies a column if its bits have a correlation above 0.95 (or below -0.95) with it and
none beyond 0.3 with any other: it explains nothing but that column. Where columns have noise of
their own, such a feature could pay for itself by making the column's noise vanish. Counted are such
features on planted 0/1 tags (25 features of 12 columns each), MIRFlickr tags and digits, with noise
shared by all columns and with noise per column. Of the tags a fifth of the ones and as many zeros
are then hidden, in a second fit, and ranked by what is expected of them: area under the ROC curve,
and average precision. With shared noise tags are not fitted with the number left open: features are
added without an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
import numpy.typing as npt
import real_data
from heldout import NUMBERS, SETTINGS
from sklearn.metrics import average_precision_score, roc_auc_score
from sparse import planted

from ibp import MEIBP

FloatArray = npt.NDArray[np.float64]
SETS = ("planted tags", "MIRFlickr", "digits")
PLANTED_SHAPE = (5000, 400)
COPIED, OTHERS = 0.95, 0.3
COMPARED = ("shared", "per column")


def correlations(codes: npt.NDArray[np.uint8], X: Any) -> FloatArray:
    """Of every feature with every column; zero where either does not vary."""
    n = X.shape[0]
    Z = codes.astype(np.float64)
    Z -= Z.mean(axis=0)
    means = np.asarray(X.mean(axis=0)).ravel()
    squares = np.asarray((X * X).mean(axis=0)).ravel()
    spread = np.outer(Z.std(axis=0), np.sqrt(np.maximum(squares - means**2, 0.0)))
    # Features are centred, so columns need not be.
    together = np.asarray(X.T @ Z).T / n
    return np.divide(together, spread, out=np.zeros_like(together), where=spread > 1e-9)


def copies(codes: npt.NDArray[np.uint8], X: Any) -> int:
    """How many features are copies of one column."""
    strength = np.sort(np.abs(correlations(codes, X)), axis=1)
    return int(((strength[:, -1] > COPIED) & (strength[:, -2] <= OTHERS)).sum())


def ranking(model: MEIBP, X: Any, seen: Any) -> dict[str, float]:
    """How far hidden ones are expected to be higher than hidden zeros."""
    entries = seen.tocoo()
    hidden = np.isnan(entries.data)
    row, column = entries.row[hidden], entries.col[hidden]
    truth = np.asarray(X[row, column]).ravel() > 0
    expected = np.asarray(model.impute(seen)[row, column]).ravel()
    return {
        "auc": float(roc_auc_score(truth, expected)),
        "average_precision": float(average_precision_score(truth, expected)),
    }


def load(name: str, folder: Path, quick: bool) -> Any:
    """One data set, or None if its file is not there."""
    if name == "planted tags":
        return planted(*PLANTED_SHAPE)[0]
    X = real_data.load(name, folder)
    if X is not None and quick:
        X = X[:: max(1, X.shape[0] // 300)]
        X = X[:, np.flatnonzero(np.asarray(X.sum(axis=0)).ravel() > 0)]
    return X


def measure(name: str, X: Any, numbers: Sequence[int | None], seed: int) -> list[dict[str, Any]]:
    """All settings on one set."""
    tags = name != "digits"
    seen = real_data.held_out(X, seed)[1] if tags else None
    rows = []
    for setting in COMPARED:
        for number in numbers:
            if tags and setting == "shared" and number is None:
                continue
            model = MEIBP(number, random_state=seed, **SETTINGS[setting])
            seconds = common.timed_fit(model, X)
            row = {
                "data": name,
                "setting": setting,
                "asked": str(number),
                "features": model.n_components_,
                "copies": copies(model.assignments_, X),
                "quietest": float(np.min(model.noise_std_)),
                "loudest": float(np.max(model.noise_std_)),
                "seconds": seconds,
            }
            if tags:
                common.timed_fit(model, seen)
                row |= ranking(model, X, seen)
            rows.append(row)
            print(f"{name}, {setting}, n_components={number}: {seconds:.1f} s", flush=True)
    return rows


def main() -> None:
    parser = common.parser("copies", __doc__)
    parser.add_argument("--data", type=Path, default=common.DATA, help="folder of the files")
    parser.add_argument("--only", nargs="*", choices=SETS, help="some of the sets")
    parser.add_argument("--seed", type=int, default=0)
    common.add_numbers(parser)
    arguments = parser.parse_args()
    numbers = arguments.numbers or ((5, None) if arguments.quick else NUMBERS)
    compilation = common.first_call(np.float32, np.float64, sparse=True)

    rows: list[dict[str, Any]] = []
    for name in arguments.only or SETS:
        X = load(name, arguments.data, arguments.quick)
        if X is not None:
            rows += measure(name, X, numbers, arguments.seed)
    common.print_table(
        "Features that copy one column, and ranks of hidden tags",
        rows,
        {
            "data": "",
            "setting": "",
            "asked": "",
            "features": "d",
            "copies": "d",
            "auc": ".3f",
            "average_precision": ".3f",
            "quietest": ".4f",
            "loudest": ".4f",
            "seconds": ".2f",
        },
    )
    common.save(
        "copies", arguments, compilation_seconds=compilation, seed=arguments.seed, fits=rows
    )


if __name__ == "__main__":
    main()
