"""The data matrix: where its rows come from, the order of its columns, what is known of it."""

from ibp.data.observations import Observations
from ibp.data.summary import Summary, summarize

__all__ = ["Observations", "Summary", "summarize"]
