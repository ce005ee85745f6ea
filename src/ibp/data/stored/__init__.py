"""Rows that stay in their file, a module per format, and reading them ahead of their use."""

from ibp.data.stored.base import StoredRows
from ibp.data.stored.opened import open_stored
from ibp.data.stored.read_ahead import ReadAhead
from ibp.data.stored.remembering import RememberingRows

__all__ = ["ReadAhead", "RememberingRows", "StoredRows", "open_stored"]
