"""The model's mathematics in plain NumPy and SciPy: every equation once.

Compiled kernels and methods are tested against what stands here.
"""

from ibp.model.collapsed import FactorPosterior, factor_posterior
from ibp.model.column_noise import (
    AnyHyperparameters,
    ColumnHyperparameters,
    ColumnNoise,
    KnownColumns,
)
from ibp.model.evidence import Bound, Evidence, squared_error
from ibp.model.factors import Factors, GaussianFactors, feature_evidence, update_factors
from ibp.model.hyperparameters import GammaPosterior, Hyperparameters, HyperparameterValues, Known
from ibp.model.ibp_prior import LeftOrderedClasses, ShiftedClasses, sample_assignments
from ibp.model.intercept import Intercept, LearnedIntercept, NoIntercept, first_intercept
from ibp.model.sampling import sample_data
from ibp.model.statistics import Statistics

__all__ = [
    "AnyHyperparameters",
    "Bound",
    "ColumnHyperparameters",
    "ColumnNoise",
    "Evidence",
    "FactorPosterior",
    "Factors",
    "GammaPosterior",
    "GaussianFactors",
    "HyperparameterValues",
    "Hyperparameters",
    "Intercept",
    "Known",
    "KnownColumns",
    "LearnedIntercept",
    "LeftOrderedClasses",
    "NoIntercept",
    "ShiftedClasses",
    "Statistics",
    "factor_posterior",
    "feature_evidence",
    "first_intercept",
    "sample_assignments",
    "sample_data",
    "squared_error",
    "update_factors",
]
