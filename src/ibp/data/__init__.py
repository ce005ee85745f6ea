"""The data matrix: where its rows come from, the order of its columns, what is known of it."""

from ibp.data.fingerprint import Fingerprint
from ibp.data.layout import Layout
from ibp.data.observations import Observations
from ibp.data.patterns import SharedPatterns
from ibp.data.source import RowSource, all_rows, as_source
from ibp.data.summary import Summary, summarize
from ibp.data.units import ColumnUnits

__all__ = [
    "ColumnUnits",
    "Fingerprint",
    "Layout",
    "Observations",
    "RowSource",
    "SharedPatterns",
    "Summary",
    "all_rows",
    "as_source",
    "summarize",
]
