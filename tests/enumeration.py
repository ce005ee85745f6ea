"""Exact posteriors of tiny problems, by going through every feature matrix there is.

Z counts up to the order of its columns (left-ordered form), so that it is named by a *key*: the
sorted numbers of its nonempty columns, a column being a number in base two, row 0 its lowest bit.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from ibp.model import LeftOrderedClasses
from ibp.model.ibp_prior import column_names

# A class that is expected less often than this is counted together with the other rare ones.
FEWEST_EXPECTED = 5.0
SIGNIFICANCE = 1e-3


def key_of(Z):
    """The class of a binary matrix; empty columns do not matter."""
    Z = np.asarray(Z, dtype=np.int64)
    columns = (1 << np.arange(Z.shape[0])) @ Z
    return tuple(sorted(int(column) for column in columns if column))


def matrix_of(key, n_samples):
    """A matrix of a class, without empty columns (N x K, uint8)."""
    columns = np.array(key, dtype=np.int64).reshape(1, -1)
    return ((columns >> np.arange(n_samples)[:, None]) & 1).astype(np.uint8)


def all_keys(n_samples, max_components):
    """Every class of matrices with at most so many nonempty columns."""
    histories = range(1, 1 << n_samples)
    return [
        key
        for k in range(max_components + 1)
        for key in itertools.combinations_with_replacement(histories, k)
    ]


def unbounded_log_prior(alpha):
    """Ln P([Z]) under the Indian Buffet Process, as a function of Z."""

    return lambda Z: LeftOrderedClasses().log_probability(Z, alpha)


def truncated_log_prior(alpha, n_components):
    """Ln P([Z]) with K features, pi_k ~ Beta(alpha / K, 1) integrated out, as a function of Z.

    A class has K! / (K_0! prod_h K_h!) matrices, K_0 being the number of empty columns.
    """

    def of(Z):
        n_samples = Z.shape[0]
        Z = Z[:, Z.any(axis=0)]
        n_empty = n_components - Z.shape[1]
        counts = np.concatenate([Z.sum(axis=0), np.zeros(n_empty)])
        share = alpha / n_components
        log_matrix = (
            np.log(share)
            + gammaln(counts + share)
            + gammaln(n_samples - counts + 1.0)
            - gammaln(n_samples + 1.0 + share)
        ).sum()
        multiplicities = np.append(np.bincount(column_names(Z)), n_empty)
        return float(log_matrix + gammaln(n_components + 1.0) - gammaln(multiplicities + 1.0).sum())

    return of


def enumerated(n_samples, max_components, log_weight):
    """Probabilities of all classes, proportional to exp(log_weight(Z)), and the log of their sum.

    With a prior as the weight the sum is what of it is enumerated, to be nearly 1; with a prior
    times a likelihood it is the evidence. ``max_components`` is to be so large that the rest does
    not matter, or that of the truncated model.
    """
    keys = all_keys(n_samples, max_components)
    weights = np.array([log_weight(matrix_of(key, n_samples)) for key in keys])
    total = float(logsumexp(weights))
    return dict(zip(keys, np.exp(weights - total).tolist(), strict=True)), total


def exact_posterior(n_samples, max_components, log_prior_of, log_likelihood_of):
    """P([Z] | X) by class, from two functions of Z."""
    return enumerated(n_samples, max_components, lambda Z: log_prior_of(Z) + log_likelihood_of(Z))[
        0
    ]


def gaussian_log_likelihood(X, *, noise_std, factor_std, intercept_std=None):
    """Ln p(X | Z) with Gaussian factors (and intercept) integrated out, as a function of Z.

    Straight from the N x N covariance of every column's observed entries (NaN is missing).
    """
    X = np.asarray(X, dtype=np.float64)
    patterns, member = np.unique(~np.isnan(X), axis=1, return_inverse=True)

    def of(Z):
        Z = np.asarray(Z, dtype=np.float64)
        covariance = factor_std**2 * Z @ Z.T + noise_std**2 * np.eye(X.shape[0])
        if intercept_std is not None:
            covariance += intercept_std**2
        total = 0.0
        for i, seen in enumerate(patterns.T):  # columns that miss the same rows
            if seen.any():
                x = X[seen][:, member == i].T
                part = covariance[np.ix_(seen, seen)]
                total += stats.multivariate_normal.logpdf(x, np.zeros(x.shape[1]), part).sum()
        return float(total)

    return of


def p_value(counts, expected):
    """Of the chi-square test of (nearly independent) counts by class against probabilities.

    Classes that are expected rarely are pooled with those that were not enumerated.
    """
    n = sum(counts.values())
    common = [key for key, share in expected.items() if share * n >= FEWEST_EXPECTED]
    observed = np.array([counts.get(key, 0) for key in common], dtype=np.float64)
    hoped = np.array([expected[key] * n for key in common])
    rest = n - hoped.sum()
    if rest >= FEWEST_EXPECTED:
        observed, hoped = np.append(observed, n - observed.sum()), np.append(hoped, rest)
    else:  # too few for a cell of their own: they go to the least common cell
        least = int(np.argmin(hoped))
        observed[least] += n - observed.sum()
        hoped[least] += rest
    return float(stats.chisquare(observed, hoped).pvalue)


def assert_matches(draws, expected, significance=SIGNIFICANCE):
    """Compare draws (counts by key, or keys one after the other) with exact probabilities.

    The draws are to be nearly independent: thin the chain before.
    """
    counts = draws if isinstance(draws, dict) else Counter(draws)
    p = p_value(counts, expected)
    assert p > significance, f"p = {p:.2g} for {sum(counts.values())} draws"
