"""Dask arrays and data frames as X: fits that leave rows where they are, predictions by chunks.

Dask is imported only when something of its own is given.
"""

from __future__ import annotations

import warnings
from copy import copy
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from ibp.data.chunks import NUMBERS, ChunkedRows, ChunkedSummary, gather_chunks
from ibp.errors import PLACE, InvalidTypeError, InvalidValueError, RechunkedWarning, counted
from ibp.validation import level_of_user, sklearn_checks
from ibp.workers import Workers


def is_dask(X: Any) -> bool:
    """Whether something is an array or a data frame of Dask's.

    Arrays of others may know Dask, too, and be in memory.
    """
    return all(hasattr(type(X), name) for name in ("__dask_graph__", "to_delayed"))


class ChunkedMatrix(NamedTuple):
    """A Dask array or data frame, and those who are to work on it."""

    values: Any
    workers: Workers


def with_whole_rows(X: Any) -> Any:
    """A Dask array or frame whose chunks hold whole rows; an array that does not is rechunked."""
    if hasattr(X, "columns"):
        return X
    if X.ndim != 2:
        raise InvalidValueError(
            f"is a Dask array of {counted(X.ndim, 'dimension')}",
            "It must have two: rows and columns",
            about="X",
        )
    if len(X.chunks[1]) == 1:
        return X
    if any(np.isnan(X.chunks[0])):
        raise InvalidValueError(
            f"is cut along its columns into {len(X.chunks[1])} chunks of an unknown number of "
            "rows, which cannot be put together",
            "Call X.compute_chunk_sizes() first, or make chunks of whole rows",
            about="X",
        )
    cut = RechunkedWarning(
        f"is cut along its columns into {len(X.chunks[1])} chunks; they were put together, since "
        "a worker needs whole rows",
        "Make chunks of whole rows, X.rechunk({1: -1}), to have that done once",
        about="X",
    )
    warnings.warn(cut, stacklevel=level_of_user())
    return X.rechunk({1: -1})


def blocks_of(X: Any) -> list[Any]:
    """The chunks of an array of whole rows, or of a frame, as delayed values."""
    return list(np.ravel(np.array(X.to_delayed(), dtype=object)))


def stand_in(X: Any) -> Any:
    """One row of zeros with the columns of X, and their names if it has any."""
    if not hasattr(X, "columns"):
        return np.zeros((1, X.shape[1]))
    frame = type(X._meta)
    return frame(np.zeros((1, len(X.columns))), columns=list(X.columns))


def look_at_chunks(
    estimator: Any, matrix: ChunkedMatrix
) -> tuple[ChunkedRows, ChunkedSummary, Any]:
    """The rows of a Dask array or frame, what one look at all tells, and something with its names.

    Chunks are kept in the workers' memory from here on, for as long as the rows are needed.
    """
    X = with_whole_rows(matrix.values)
    named = stand_in(X)
    check_types(X)
    with sklearn_checks():
        validate_data(estimator, named, dtype=None, reset=True)
    dtypes = list(X.dtypes) if hasattr(X, "columns") else [X.dtype]
    single = all(dtype == np.float32 for dtype in dtypes)
    blocks = matrix.workers.load(blocks_of(X))
    dtype = np.float32 if single else np.float64
    source, summary = gather_chunks(matrix.workers, blocks, named.shape[1], dtype)
    return source, summary, named


def check_types(X: Any) -> None:
    """Refuse columns that are not numbers."""
    is_frame = hasattr(X, "columns")
    dtypes = list(X.dtypes) if is_frame else [X.dtype]
    wrong = [j for j, dtype in enumerate(dtypes) if getattr(dtype, "kind", "O") not in NUMBERS]
    if wrong:
        raise InvalidTypeError(
            f"has values of type {dtypes[wrong[0]]} in {PLACE if is_frame else 'it'}, where "
            "numbers are needed",
            "Encode them as numbers or leave them out; use NaN for missing values",
            about="X",
            columns=wrong if is_frame else (),
            names=[str(name) for name in X.columns] if is_frame else None,
        )


def check_settings(estimator: Any) -> None:
    """Refuse what only rows in memory can have."""
    problems = {
        'codes="weighted"': estimator.codes == "weighted",
        'row_start="empty"': estimator.row_start == "empty",
        "block_size=1": estimator.block_size == 1,
        "checkpoint": estimator.checkpoint is not None,
    }
    for setting, is_so in problems.items():
        if is_so:
            raise InvalidValueError(
                f"{setting} is not for a Dask X, whose rows are optimised in many places at a time",
                "Pass rows that are in memory or in a file, or leave the setting as it is",
            )


def check_stream(model: Any, X: Any, forgetting: Any) -> None:
    """Refuse a batch that a model cannot learn from."""
    model._validate_params()
    if not (isinstance(forgetting, Real) and 0.0 < float(forgetting) <= 1.0):
        raise InvalidValueError(
            f"forgetting is {forgetting!r}", "it must be above 0 and not above 1"
        )
    if is_dask(X):
        raise InvalidValueError(
            "is Dask's, and partial_fit takes batches that are in memory",
            "Call fit, which leaves its rows with the workers, or pass its chunks one by one",
            about="X",
        )
    if model.codes == "weighted" or model.row_start == "empty":
        raise InvalidValueError(
            'partial_fit needs codes="binary" and row_start="current"',
            "Make a model with these, or call fit on all rows",
        )
    if hasattr(model, "components_") and not hasattr(model, "_past"):
        raise InvalidValueError(
            "This model has none of the sums that partial_fit goes on from: it was read from a "
            "file, or gaps strewn over many columns make them too large to keep",
            "Fit anew, and go on with the model that is in memory",
        )


def portable(model: Any) -> Any:
    """A fitted model to send to workers: without the rows that it was fitted to, on one thread."""
    light = copy(model)
    light.n_jobs, light.callbacks = 1, None
    light.init = light.init if isinstance(light.init, str) else "random"
    if "assignments_" in vars(model):  # of which a search begins at some
        light.assignments_ = model._known_codes()
    # Blocks have no names; whether those of X are the model's is asked before.
    for name in ("weights_", "history_", "_past", "_some_codes", "feature_names_in_"):
        vars(light).pop(name, None)
    return light


def by_chunks(model: Any, X: Any, name: str, *, n_columns: int | None, dtype: Any) -> Any:
    """A Dask array of what a method of the model says of each chunk, so many columns or a vector.

    Nothing is computed before it is asked for.
    """
    light, array = portable(model), as_array(X, model)
    shape: dict[str, Any] = {"drop_axis": 1}
    if n_columns is not None:
        shape = {"chunks": (array.chunks[0], (n_columns,))}
    meta = np.empty((0,) if n_columns is None else (0, 0), dtype=dtype)
    return array.map_blocks(said_of_block, light, name, dtype=dtype, meta=meta, **shape)


def transformed_by_chunks(model: Any, X: Any) -> Any:
    """A Dask array of the codes of each chunk."""
    one_row = said_of_block(np.zeros((1, model.n_features_in_)), portable(model), "transform")
    return by_chunks(model, X, "transform", n_columns=one_row.shape[1], dtype=one_row.dtype)


def imputed_by_chunks(model: Any, X: Any) -> Any:
    """A Dask array of each chunk without its gaps."""
    array = as_array(X, model)
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    return by_chunks(model, X, "impute", n_columns=array.shape[1], dtype=dtype)


def as_array(X: Any, model: Any) -> Any:
    """A Dask array of whole rows that have the columns of a fitted model."""
    X = with_whole_rows(X)
    check_types(X)
    with sklearn_checks():
        validate_data(model, stand_in(X), dtype=None, reset=False)
    return X.to_dask_array() if hasattr(X, "columns") else X


def said_of_block(block: Any, model: Any, name: str) -> Any:
    """What a method of the model says of a block, which may have no rows."""
    if block.shape[0] == 0:
        return getattr(model, name)(np.zeros((1, model.n_features_in_)))[:0]
    return getattr(model, name)(block)


def sums_by_chunks(model: Any, seen: Any, true: Any = None) -> tuple[float, int]:
    """Sum and number of the log-densities of entries, added up chunk by chunk.

    Of all that is observed, or of what is missing in ``seen`` and present in ``true``.
    """
    import dask

    light, arrays = portable(model), [as_array(X, model) for X in (seen, true) if X is not None]
    if len(arrays) == 2 and arrays[0].chunks[0] != arrays[1].chunks[0]:
        raise InvalidValueError(
            "X_seen and X_true must have the same chunks",
            "Give one the chunks of the other, X_true.rechunk(X_seen.chunks)",
        )
    each = dask.delayed(sums_of_block)
    blocks = zip(*(blocks_of(array) for array in arrays), strict=True)
    sums = dask.compute(*(each(light, *both) for both in blocks))
    return sum(total for total, _ in sums), sum(count for _, count in sums)


def sums_of_block(model: Any, seen: Any, true: Any = None) -> tuple[float, int]:
    """Sum and number of the log-densities of a block's entries."""
    if seen.shape[0] == 0:
        return 0.0, 0
    observed = model._observe(seen)
    scored = observed if true is None else model._observe(true)
    hidden = None if true is None else observed.source
    sums, counts = model._log_likelihood(observed, scored.source, hidden)
    return float(sums.sum()), int(counts.sum())
