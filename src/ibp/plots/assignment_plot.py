"""Which rows have which features."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ibp.plots.canvas import SMALL, Axes, axes_for, say_only
from ibp.plots.checks import check_model, check_option, check_positive
from ibp.report.codes import code_kind

MOST_NUMBERED = 40  # features whose numbers fit below the picture
# Of the codes above 0, the share that is as dark as can be: a few large ones leave others pale.
DARKEST = 0.02


def assignments(
    model: Any,
    *,
    order: Literal["count", "left"] | None = "count",
    max_rows: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the matrix Z: a line per row, a column per feature, dark where the row has it.

    Where rows have more or less of a feature, it is the darker the more of it a row has.

    Parameters
    ----------
    model : fitted estimator or array of shape (n_samples, n_components)
        A model with the codes of its training rows, or codes themselves: zeros and ones,
        probabilities, weights, or other numbers that are not negative.
    order : {"count", "left"} or None, default="count"
        ``"count"``: features that most rows have come first, and rows with the same frequent
        features lie together. ``"left"``: the left-ordered form, features sorted by the first
        rows that have them, rows as they are. None: both as they are.
    max_rows : int, default=None
        More rows than this are averaged in groups of neighbours, as the label then says; None
        takes as many as the Axes has pixels.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        Numbers below are those of the features in ``components_``.
    """
    codes = _codes_of(model)
    check_option("order", order, ("count", "left", None))
    if max_rows is not None:
        max_rows = check_positive("max_rows", max_rows)
    n_rows, n_columns = codes.shape
    ax = axes_for(ax, (min(8.0, max(3.0, 1.5 + 0.16 * n_columns)), 4.0))
    if n_rows == 0 or n_columns == 0:
        return say_only(ax, "There are no features to be had.")

    if max_rows is None:
        max_rows = max(1, int(ax.get_window_extent().height))
    rows, columns = _sorted(codes, order, weighted=_are_weights(model, codes))
    drawn, group = _averaged(codes[rows][:, columns], max_rows)
    ax.imshow(
        drawn,
        cmap="Greys",
        vmin=0.0,
        vmax=_darkest(drawn),
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, n_columns - 0.5, n_rows, 0),
    )
    if n_columns <= MOST_NUMBERED:
        ax.set_xticks(range(n_columns), [str(k) for k in columns], fontsize=SMALL)
        ax.tick_params(axis="x", length=0)
    else:
        ax.set_xticks([])
    ax.set_xlabel({"count": "feature, the most frequent first"}.get(order or "", "feature"))
    label = "row, sorted" if order == "count" else "row"
    ax.set_ylabel(label if group == 1 else f"{label}; a line is the mean of {group} rows")
    return ax


def _codes_of(model: Any) -> npt.NDArray[np.float64]:
    """The codes of a model's training rows, or those given."""
    if hasattr(model, "fit"):
        check_model(model)
        codes = getattr(model, "codes_", None)
        if codes is None:
            codes = getattr(model, "assignments_", None)
        if codes is None:
            raise ValueError(
                "This model was saved without its assignments; give model.transform(X) instead."
            )
    else:
        codes = model.toarray() if hasattr(model, "toarray") else model
    codes = np.asarray(codes, dtype=np.float64)
    if codes.ndim != 2:
        raise ValueError(f"Assignments have rows and columns; the shape of these is {codes.shape}.")
    if not np.isfinite(codes).all() or (codes < 0).any():
        raise ValueError("Assignments must be finite and not negative: zeros, ones, probabilities.")
    return codes


def _are_weights(model: Any, codes: npt.NDArray[np.float64]) -> bool:
    """Whether a row has what is not 0, however little it is."""
    if hasattr(model, "fit"):
        return code_kind(model) == "weighted"
    return bool((codes > 1).any() and (codes == 0).any())  # no probability is above 1


def _darkest(codes: npt.NDArray[np.float64]) -> float:
    """The code from which on all are as dark as can be."""
    used = codes[codes > 0]
    return max(1.0, float(np.quantile(used, 1.0 - DARKEST))) if used.size else 1.0


def _sorted(
    codes: npt.NDArray[np.float64], order: str | None, *, weighted: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The order of rows and of columns."""
    on = codes > (0.0 if weighted else 0.5)
    rows, columns = np.arange(codes.shape[0]), np.arange(codes.shape[1])
    if order == "left":
        columns = _descending(on.T)
    elif order == "count":
        columns = np.argsort(-(on if weighted else codes).sum(axis=0), kind="stable")
        rows = _descending(on[:, columns])
    return rows, columns


def _descending(bits: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The order of rows read as binary numbers, the largest first."""
    packed = np.packbits(~bits, axis=1)
    return np.lexsort(packed.T[::-1])


def _averaged(codes: npt.NDArray[np.float64], most: int) -> tuple[npt.NDArray[np.float64], int]:
    """Means of neighbouring rows, and of how many; the last group may have fewer."""
    n_rows = codes.shape[0]
    group = -(-n_rows // most)
    if group == 1:
        return codes, 1
    starts = np.arange(0, n_rows, group)
    sizes = np.diff(np.append(starts, n_rows))
    return np.add.reduceat(codes, starts, axis=0) / sizes[:, None], group
