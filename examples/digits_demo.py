"""Find the strokes of handwritten digits: fit MEIBP to scikit-learn's bundled digits.

Shows the evidence and the number of features as they evolve, and saves a picture of the learned
features and of a few reconstructions as output/digits.png.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from ibp import MEIBP
from ibp.compiled import compilation_reported
from ibp.loop import Progress

IMAGE_SHAPE = (8, 8)
N_EXAMPLES = 10


def print_sweep(progress: Progress) -> None:
    """Print a line per sweep, under a heading."""
    if progress.iteration == 1:
        print(f"{'sweep':>6} {'seconds':>8} {'features':>9} {'changed':>8} {'evidence':>12}")
    print(
        f"{progress.iteration:>6} {progress.seconds:>8.1f} {progress.n_components:>9} "
        f"{progress.n_changed:>8} {progress.evidence:>12.0f}",
        flush=True,
    )


def print_compilation(name: str) -> None:
    """Say what a first run on a machine is waiting for."""
    print(f"First run on this machine: compiling {name} (kept for the next time) ...", flush=True)


def draw(model: MEIBP, X: np.ndarray, Z: np.ndarray, path: Path) -> None:
    """Save the features, most used first, and some digits with their reconstructions."""
    order = np.argsort(-model.feature_counts_)
    n_columns = 10
    n_rows = -(-model.n_components_ // n_columns)
    heights = [1.05 * n_rows + 0.4, 2.5]
    figure = plt.figure(figsize=(9, sum(heights)), facecolor="white", layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=heights)

    top.suptitle(
        f"{model.n_components_} features found in {X.shape[0]} digits, with how often they are on",
        fontsize=11,
    )
    axes = np.atleast_2d(top.subplots(n_rows, n_columns))
    for axis in axes.flat:
        axis.axis("off")
    brightest = np.quantile(model.components_, 0.995)
    for axis, k in zip(axes.flat, order, strict=False):
        axis.imshow(model.components_[k].reshape(IMAGE_SHAPE), cmap="magma", vmin=0, vmax=brightest)
        axis.set_title(f"{model.feature_counts_[k] / X.shape[0]:.0%}", fontsize=8, pad=2)

    bottom.suptitle(
        "Digits, their reconstructions, and the number of features in each", fontsize=11
    )
    shown = [int(np.flatnonzero(load_digits().target == digit)[3]) for digit in range(N_EXAMPLES)]
    axes = bottom.subplots(2, N_EXAMPLES)
    for column, n in enumerate(shown):
        reconstruction = model.inverse_transform(Z[[n]])[0]
        for axis, image in zip(axes[:, column], (X[n], reconstruction), strict=True):
            axis.imshow(image.reshape(IMAGE_SHAPE), cmap="gray", vmin=0, vmax=16)
            axis.set_xticks([])
            axis.set_yticks([])
        axes[1, column].set_xlabel(f"{int(Z[n].sum())}", fontsize=9)
    axes[0, 0].set_ylabel("digit", fontsize=9)
    axes[1, 0].set_ylabel("rebuilt", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output/digits.png"))
    arguments = parser.parse_args()

    X = load_digits().data
    print(f"Looking for binary features in {X.shape[0]} images of {X.shape[1]} pixels.")
    model = MEIBP(callbacks=print_sweep, random_state=0)
    started = time.perf_counter()
    with compilation_reported(print_compilation), warnings.catch_warnings():
        # Border pixels hardly vary, but all pixels share one unit: the advice does not apply.
        warnings.filterwarnings("ignore", message="The variances of X's columns")
        Z = model.fit_transform(X)
    seconds = time.perf_counter() - started

    residual = np.sqrt(np.mean((X - model.inverse_transform(Z)) ** 2))
    print(
        f"\n{model.n_components_} features after {model.n_iter_} sweeps, {seconds:.1f} s; "
        f"evidence {model.evidence_:.0f}."
    )
    print(
        f"A digit has {Z.sum(axis=1).mean():.1f} of them on average; they explain "
        f"{1 - residual**2 / X.var():.0%} of the variance."
    )
    draw(model, X, Z, arguments.output)
    print(f"Picture: {arguments.output}")


if __name__ == "__main__":
    main()
