"""Pictures of fitted models, drawn by Matplotlib: ``pip install "ibp[plot]"``.

Each function takes the ``ax`` to draw on, or makes a figure, and returns the Axes.
"""

from ibp.plots.assignment_plot import assignments
from ibp.plots.comparison_plot import comparison
from ibp.plots.evidence_plot import evidence
from ibp.plots.feature_plot import features
from ibp.plots.reconstruction_plot import reconstruction

__all__ = ["assignments", "comparison", "evidence", "features", "reconstruction"]
