"""Predictive means, variances and densities of single entries: `ibp.model.predictive`, compiled."""

from typing import NamedTuple

import numpy as np

from ibp.compiled import inlined, kernel

LOG_TWO_PI = np.log(2.0 * np.pi)


class Entries(NamedTuple):
    """Some entries of n rows, row after row.

    Attributes
    ----------
    start : ndarray of shape (n + 1,), int64
        Where the entries of each row start, and those of the last end.
    column : ndarray of shape (M,), int64
        Their columns.
    value : ndarray of shape (M,)
        What they are, NaN where that is not known.
    """

    start: np.ndarray
    column: np.ndarray
    value: np.ndarray


class Predicted(NamedTuple):
    """What is said of M entries, to be filled in; no density where the value is not known."""

    mean: np.ndarray
    variance: np.ndarray
    log_density: np.ndarray


@inlined
def find_differences(lists, first, last, bit, bit_start):
    """Write down in which bits the codes ``first:last`` differ from the first of them."""
    n_differences = 0
    for entry in range(first, last):
        bit_start[entry - first] = n_differences
        for k in range(lists.codes.shape[1]):
            if lists.codes[entry, k] != lists.codes[first, k]:
                bit[n_differences] = k
                n_differences += 1
    bit_start[last - first] = n_differences


@kernel
def predict_entries(entries, lists, terms, predicted):
    """Predict every entry; ``lists`` are `ibp.kernels.code_lists.CodeLists` of the same rows.

    Codes of a row mostly agree, so that only where they differ is looked at for each.
    """
    n_rows, n = entries.start.shape[0] - 1, terms.mean.shape[1]
    longest = 0
    for i in range(n_rows):
        longest = max(longest, lists.start[i + 1] - lists.start[i])
    bit, bit_start = np.empty(longest * n, dtype=np.int64), np.empty(longest + 1, dtype=np.int64)
    log_weight = np.log(lists.weight)
    for i in range(n_rows):
        first, last = lists.start[i], lists.start[i + 1]
        code = lists.codes[first]
        find_differences(lists, first, last, bit, bit_start)
        for e in range(entries.start[i], entries.start[i + 1]):
            d, x = entries.column[e], entries.value[e]
            factor, doubt = terms.mean[d], terms.variance[d]
            best_mean, best_variance = terms.intercept[d], terms.noise_variance[d]
            for k in range(n):
                if code[k]:
                    best_mean += factor[k]
                    best_variance += doubt[k]
            # Moments are taken about the first mean, so that no digits cancel.
            shift, square, variance = 0.0, 0.0, 0.0
            largest, scaled = 0.0, 0.0
            for entry in range(first, last):
                away, own_variance = 0.0, best_variance
                for place in range(bit_start[entry - first], bit_start[entry - first + 1]):
                    k = bit[place]
                    if code[k]:
                        away -= factor[k]
                        own_variance -= doubt[k]
                    else:
                        away += factor[k]
                        own_variance += doubt[k]
                # Differences of doubts may end below the noise by rounding.
                own_variance = max(own_variance, terms.noise_variance[d])
                weight = lists.weight[entry]
                shift += weight * away
                square += weight * away**2
                variance += weight * own_variance
                log_density = log_weight[entry] - 0.5 * (
                    np.log(own_variance) + (x - best_mean - away) ** 2 / own_variance
                )
                if entry == first:
                    largest, scaled = log_density, 1.0
                elif log_density <= largest:
                    scaled += np.exp(log_density - largest)
                else:
                    scaled = scaled * np.exp(largest - log_density) + 1.0
                    largest = log_density
            predicted.mean[e] = best_mean + shift
            predicted.variance[e] = variance + max(square - shift**2, 0.0)
            if last > first + 1:
                largest += np.log(scaled)
            predicted.log_density[e] = largest - 0.5 * LOG_TWO_PI
