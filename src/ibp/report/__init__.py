"""Pages to look at: one self-contained HTML file about a fit, or about a comparison of methods."""

from ibp.report.comparison_page import write_comparison
from ibp.report.page import write_report

__all__ = ["write_comparison", "write_report"]
