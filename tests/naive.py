"""The model in loops, straight from the paper's equations (errata applied). Slow and obvious."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import integrate
from scipy.stats import truncnorm


def moments(location, scale):
    """E[a], E[a^2] of a truncated Gaussian by numerical integration."""

    def weight(a):
        return math.exp(-0.5 * ((a - location) / scale) ** 2 + offset)

    peak = max(location, 0.0)
    offset = 0.5 * ((peak - location) / scale) ** 2
    width = min(scale, scale**2 / abs(location)) if location < 0 else scale
    stop = peak + 40 * width
    norm, first, second = (
        integrate.quad(lambda a, p=p: a**p * weight(a), 0.0, stop, points=[peak], limit=200)[0]
        for p in (0, 1, 2)
    )
    return first / norm, second / norm


def entropy(location, scale):
    """Entropy of a truncated Gaussian by numerical integration."""
    density = truncnorm(-location / scale, np.inf, loc=location, scale=scale)
    stop = max(location, 0.0) + 40 * scale
    return integrate.quad(
        lambda a: -density.pdf(a) * density.logpdf(a) if density.pdf(a) > 0 else 0.0,
        0.0,
        stop,
        limit=400,
        points=[max(location, 0.0)],
    )[0]


def log_prior(Z, alpha, prior):
    """Ln P([Z]) by its formula."""
    n = Z.shape[0]
    columns = [tuple(c) for c in Z.T if c.any()]
    total = len(columns) * math.log(alpha) - alpha * sum(1.0 / i for i in range(1, n + 1))
    for column in columns:
        m = sum(column)
        total += math.log(math.factorial(n - m) * math.factorial(m - 1) / math.factorial(n))
    if prior == "shifted":
        return total - math.log(math.factorial(len(columns)))
    for column in set(columns):
        total -= math.log(math.factorial(columns.count(column)))
    return total


def evidence(
    X,
    Z,
    mean,
    second_moment,
    entropies,
    *,
    noise_std,
    factor_std,
    alpha,
    prior,
    offset=None,
    offset_variance=None,
):
    """The bound for known hyperparameters, entry by entry. Factor arrays are K x D.

    ``noise_std`` and ``factor_std`` are numbers or have one for each of the D columns.
    ``offset`` and ``offset_variance`` are the D means and variances of q(b), if there is one.
    """
    if offset is None:
        offset = offset_variance = np.zeros(X.shape[1])
    noise_std, factor_std = (np.broadcast_to(std, X.shape[1]) for std in (noise_std, factor_std))
    active = [k for k in range(Z.shape[1]) if Z[:, k].any()]
    likelihood = 0.0
    for n, d in itertools.product(range(X.shape[0]), range(X.shape[1])):
        if np.isnan(X[n, d]):
            continue
        on = [k for k in active if Z[n, k]]
        expected = sum(mean[k, d] for k in on)
        variance = sum(second_moment[k, d] - mean[k, d] ** 2 for k in on)
        error = (X[n, d] - offset[d] - expected) ** 2 + variance + offset_variance[d]
        variance = noise_std[d] ** 2
        likelihood += -0.5 * math.log(2 * math.pi * variance) - error / (2 * variance)
    factor_prior = sum(
        0.5 * math.log(2 / (math.pi * factor_std[d] ** 2))
        - second_moment[k, d] / (2 * factor_std[d] ** 2)
        for k in active
        for d in range(X.shape[1])
    )
    factor_entropy = sum(entropies[k, d] for k in active for d in range(X.shape[1]))
    return likelihood, log_prior(Z, alpha, prior), factor_prior, factor_entropy


def gaussian_divergence(mean, std, prior_mean, prior_std):
    """KL of one Gaussian from another by numerical integration."""

    def weighted_log_ratio(b):
        own = -0.5 * ((b - mean) / std) ** 2 - math.log(std)
        other = -0.5 * ((b - prior_mean) / prior_std) ** 2 - math.log(prior_std)
        return math.exp(own) / math.sqrt(2 * math.pi) * (own - other)

    return integrate.quad(weighted_log_ratio, mean - 12 * std, mean + 12 * std, limit=200)[0]


def binary_matrices(n_rows, n_columns):
    """Every binary matrix of a shape."""
    for bits in itertools.product((0, 1), repeat=n_rows * n_columns):
        yield np.array(bits, dtype=np.uint8).reshape(n_rows, n_columns)
