"""Matrix Market files, as SciPy reads them."""

from __future__ import annotations

from pathlib import Path

from scipy import io, sparse

from ibp.errors import DataFileError
from ibp.files.checks import dense_table, sparse_table
from ibp.files.options import Options
from ibp.files.table import Table


def read(path: Path, options: Options) -> Table:
    """Read a matrix, which stays sparse if the file lists its entries."""
    options.refuse("header", "index", "key", "decimal")
    try:
        matrix = io.mmread(path)
    except (ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise DataFileError(
            f"is damaged, cut short, or not a Matrix Market file ({reason})",
            "save it or copy it again",
        ) from error
    return sparse_table(matrix) if sparse.issparse(matrix) else dense_table(matrix)
