"""Maximising quadratic submodular functions of a set: a part that knows nothing of the model.

`Problem` states the function, `maximize` runs an optimiser on it and `maximize_rows` on many. The
optimisers themselves are compiled functions, one file each, on the arrays of `records`.
"""

from ibp.submodular.maximize import OPTIMIZERS, maximize, maximize_rows
from ibp.submodular.problem import Problem, Solution

__all__ = ["OPTIMIZERS", "Problem", "Solution", "maximize", "maximize_rows"]
