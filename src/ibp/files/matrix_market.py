"""Matrix Market files, as SciPy reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import io, sparse

from ibp.errors import DataFileError, counted
from ibp.files.checks import dense_table, has_room, sparse_table, too_large
from ibp.files.options import Options
from ibp.files.table import Table
from ibp.files.wording import in_bytes

# Bytes of an entry that is listed: a number, and its row and column.
ENTRY = 16


def read(path: Path, options: Options) -> Table:
    """Read a matrix, which stays sparse if the file lists its entries."""
    options.refuse("header", "index", "key", "decimal")
    try:
        head = io.mminfo(path)
        _check_room(head)
        matrix = io.mmread(path)
    except DataFileError:
        raise
    except (ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise DataFileError(
            f"is damaged, cut short, or not a Matrix Market file ({reason})",
            "save it or copy it again",
        ) from error
    return sparse_table(matrix) if sparse.issparse(matrix) else dense_table(matrix)


def _check_room(head: tuple[int, int, int, str, str, str]) -> None:
    """Refuse, before it is read, a matrix that memory has no room for, by what its head says."""
    n_rows, n_columns, n_entries, layout, _, symmetry = head
    if layout == "array":
        if not has_room(8 * n_rows * n_columns):
            raise too_large(n_rows, n_columns, np.float64)
        return
    n_bytes = ENTRY * n_entries * (1 if symmetry == "general" else 2)
    if not has_room(n_bytes):
        raise DataFileError(
            f"does not fit into memory: its {counted(n_entries, 'entry')} take "
            f"{in_bytes(n_bytes)}, and more while they are read",
            "take fewer rows",
        )
