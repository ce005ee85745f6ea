"""Predictive means, variances and densities of single entries where codes have weights."""

import numpy as np

from ibp.compiled import kernel

LOG_TWO_PI = np.log(2.0 * np.pi)


@kernel
def predict_weighted_entries(entries, lists, terms, predicted):
    """Predict every entry: `ibp.model.predictive` with E[w] and Var[w] of each code that a row has.

    ``lists`` are `ibp.kernels.weighted_rows.WeightedLists` of the same rows.
    """
    n = terms.mean.shape[1]
    capacity = lists.log_weight.shape[1]
    feature = np.empty((capacity, n), dtype=np.int64)
    n_has = np.empty(capacity, dtype=np.int64)
    share, log_share = np.empty(capacity), np.empty(capacity)
    means, variances = np.empty(capacity), np.empty(capacity)
    for i in range(entries.start.shape[0] - 1):
        count = lists.length[i]
        highest, total = -np.inf, 0.0
        for place in range(count):
            highest = max(highest, lists.log_weight[i, place])
            n_has[place] = 0
            for k in range(n):
                if lists.mean[i, place, k] > 0.0:
                    feature[place, n_has[place]] = k
                    n_has[place] += 1
        for place in range(count):
            share[place] = np.exp(lists.log_weight[i, place] - highest)
            total += share[place]
        for place in range(count):
            share[place] /= total
            log_share[place] = np.log(share[place])
        for e in range(entries.start[i], entries.start[i + 1]):
            d, x = entries.column[e], entries.value[e]
            mean = 0.0
            for place in range(count):
                m, v = terms.intercept[d], terms.noise_variance[d]
                for at in range(n_has[place]):
                    k = feature[place, at]
                    w, spread = lists.mean[i, place, k], lists.variance[i, place, k]
                    a, doubt = terms.mean[d, k], terms.variance[d, k]
                    m += w * a
                    v += spread * a * a + (w * w + spread) * doubt
                means[place], variances[place] = m, v
                mean += share[place] * m
            variance, largest = 0.0, -np.inf
            for place in range(count):
                variance += share[place] * (variances[place] + (means[place] - mean) ** 2)
                away = x - means[place]
                means[place] = log_share[place] - 0.5 * (
                    np.log(variances[place]) + away * away / variances[place]
                )
                largest = max(largest, means[place])
            density = 0.0
            for place in range(count):
                density += np.exp(means[place] - largest)
            predicted.mean[e], predicted.variance[e] = mean, variance
            predicted.log_density[e] = largest + np.log(density) - 0.5 * LOG_TWO_PI
