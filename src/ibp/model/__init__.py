"""The model's mathematics in plain NumPy: every equation once.

Compiled kernels and methods are tested against what stands here.
"""

from ibp.model.collapsed import FactorPosterior, factor_posterior
from ibp.model.evidence import (
    Evidence,
    evidence,
    removal_gains,
    squared_error,
    train_log_likelihood,
    update_hyperparameters,
)
from ibp.model.factors import Factors, GaussianFactors, feature_evidence, update_factors
from ibp.model.hyperparameters import (
    GammaPosterior,
    Hyperparameters,
    HyperparameterValues,
    Known,
)
from ibp.model.ibp_prior import column_multiplicities, log_prior, sample_assignments
from ibp.model.intercept import Intercept, LearnedIntercept, NoIntercept
from ibp.model.sampling import sample_data, sample_factors, sample_model
from ibp.model.statistics import Statistics

__all__ = [
    "Evidence",
    "FactorPosterior",
    "Factors",
    "GammaPosterior",
    "GaussianFactors",
    "HyperparameterValues",
    "Hyperparameters",
    "Intercept",
    "Known",
    "LearnedIntercept",
    "NoIntercept",
    "Statistics",
    "column_multiplicities",
    "evidence",
    "factor_posterior",
    "feature_evidence",
    "log_prior",
    "removal_gains",
    "sample_assignments",
    "sample_data",
    "sample_factors",
    "sample_model",
    "squared_error",
    "train_log_likelihood",
    "update_factors",
    "update_hyperparameters",
]
