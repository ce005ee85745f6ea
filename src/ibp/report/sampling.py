"""Which rows and columns a page shows, so that it stays small whatever the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ibp.report.reading import FloatArray, IntArray

# Numbers in the page: of the features, of the rows' values, and of the rows' codes.
MOST_NUMBERS = 600_000
MOST_COLUMNS = 2000
MOST_PIXELS = 128 * 128
MOST_WORST_ROWS = 20
TOP_COLUMNS = 8


@dataclass(frozen=True)
class Shown:
    """What the explorer has: rows and columns by number, ascending."""

    rows: IntArray
    worst: IntArray  # those rows that are explained worst, the worst first
    columns: IntArray
    image_shape: tuple[int, int] | None  # of the picture that these columns make
    stride: int  # from one pixel that is shown to the next, in each direction


def choose(
    components: FloatArray,
    row_errors: FloatArray,
    *,
    image_shape: tuple[int, int] | None,
    max_rows: int,
    random_state: int,
) -> Shown:
    """Choose rows and columns within the limits."""
    n_components = max(components.shape[0], 1)
    columns, shape, stride = _columns(components, MOST_NUMBERS // n_components, image_shape)
    n_rows = min(max_rows, MOST_NUMBERS // max(columns.size, n_components), row_errors.size)
    n_rows = max(n_rows, 1)
    worst = worst_first(row_errors)[: min(MOST_WORST_ROWS, -(-n_rows // 2))]
    others = np.setdiff1d(np.arange(row_errors.size), worst)
    rng = np.random.default_rng(random_state)
    drawn = rng.choice(others, size=min(n_rows - worst.size, others.size), replace=False)
    rows = np.sort(np.concatenate([worst, drawn])).astype(np.int64)
    return Shown(rows, worst, columns, shape, stride)


def worst_first(errors: FloatArray) -> IntArray:
    """Numbers of what has an error, the largest first."""
    order = np.argsort(-errors, kind="stable")  # NaN comes last
    return order[: np.count_nonzero(np.isfinite(errors))].astype(np.int64)


def _columns(
    components: FloatArray, limit: int, image_shape: tuple[int, int] | None
) -> tuple[IntArray, tuple[int, int] | None, int]:
    n_columns = components.shape[1]
    if image_shape is None:
        limit = max(min(limit, MOST_COLUMNS), 1)
        return np.sort(leading_columns(components)[:limit]), None, 1
    height, width = image_shape
    limit = max(min(limit, MOST_PIXELS), 1)
    stride = 1
    while -(-height // stride) * -(-width // stride) > limit:
        stride += 1
    picture = np.arange(n_columns).reshape(height, width)[::stride, ::stride]
    return picture.ravel(), (picture.shape[0], picture.shape[1]), stride


def leading_columns(components: FloatArray) -> IntArray:
    """All columns: first the strongest of every feature, then the second strongest, and so on."""
    size = np.abs(components)
    if not size.shape[0]:
        return np.arange(size.shape[1])
    best_rank = np.full(size.shape[1], size.shape[1])
    for feature in size:
        rank = np.empty(feature.size, dtype=np.int64)
        rank[np.argsort(-feature, kind="stable")] = np.arange(feature.size)
        best_rank = np.minimum(best_rank, rank)
    return np.lexsort((-size.max(axis=0), best_rank)).astype(np.int64)


def top_columns(components: FloatArray, n_top: int = TOP_COLUMNS) -> IntArray:
    """The strongest columns of each feature, shape (K, at most n_top)."""
    n_top = min(n_top, components.shape[1])
    return np.argsort(-np.abs(components), axis=1, kind="stable")[:, :n_top].astype(np.int64)


def sample_rows(n_rows: int, most: int, random_state: int) -> IntArray:
    """All rows, or a random part of them, ascending."""
    if n_rows <= most:
        return np.arange(n_rows)
    drawn = np.random.default_rng(random_state).choice(n_rows, size=most, replace=False)
    return np.sort(drawn).astype(np.int64)
