"""Reading data files and writing results. Heavy libraries are loaded when a file needs them."""

from __future__ import annotations

from ibp.atomic_files import atomic
from ibp.errors import DataFileError
from ibp.files.read import read_table
from ibp.files.table import Table
from ibp.files.write import check_target, write_codes, write_table

__all__ = [
    "DataFileError",
    "Table",
    "atomic",
    "check_target",
    "read_table",
    "write_codes",
    "write_table",
]
