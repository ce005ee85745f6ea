"""The inner loops of the uncollapsed Gibbs sampler: rows of Z with births and deaths, and A.

Everything about columns is in one order, X less centre and intercept, zero where it is missing.

Row n, feature k that other rows have too: with r the residual less feature k, over the observed
entries,

    log odds = ln(m_k + c) - ln(N - m_k) + tau_X (a_k . r - ||a_k||^2 / 2) ,

c = alpha / K in the finite model and 0 for the process. A complete row gets a_k . r from X A' and
A A', an incomplete one from the residual itself. The features are gone through in a random order:
in that of their slots young ones stand last, so that the order tells something of z_n, and a scan
by it need not leave the posterior as it is.

Features of row n alone, under the process: their number J has the prior Poisson(alpha / N), their
factors the prior p(a), and no order. As an unordered set they have the density

    (alpha / N)^J  prod over j of p(a_j)  L(r - sum of a_j) ,

r being the residual less all of them. A fair coin proposes a birth, with a drawn from
p(a) L(r' - a) / M(r') where r' is the present residual and M(r') the integral of p(a) L(r' - a), or
the death of one of the J, each as likely; without any, nothing happens. The ratio of the densities
times that of the proposals leaves, for a birth,

    rate M(r') / L(r') / (J + 1) ,    rate = alpha / N ,

and for a death the inverse with J for J + 1 and r' less that feature; such a proposal is accepted
with the smaller of 1 and its ratio. Closed forms of M / L are in `ibp.model.new_feature`.

The finite model has prior odds c / N for each feature that no other row has, and the factors of one
that no row has at all keep their prior, so that they need not be known. A birth takes one of the F
features that are free, each as likely, and the same ratios hold with rate = F c / N, F counted
before a birth and after a death.

Drawing kappa in {0, 1} with weights (alpha / N)^kappa (M / L)^kappa instead would not leave the
posterior invariant. Put in place of a row's own features it can never keep two of them, which the
posterior holds possible; put beside them it adds features and never takes one away.
"""

import math
from typing import NamedTuple

import numpy as np

from ibp.compiled import kernel
from ibp.kernels.factors import dot

SQRT_TWO = math.sqrt(2.0)
LOG_TWO = math.log(2.0)
LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
# To the left of this a continued fraction of so many levels is exact to rounding.
CDF_TAIL = -5.0
CDF_LEVELS = 40
# A Gaussian that must exceed more than this is proposed from an exponential distribution.
FAR = 0.25


class RowModel(NamedTuple):
    """What the rows of a sweep have in common."""

    n_samples: int
    noise_precision: float
    factor_precision: float
    half_normal: bool
    pseudo_count: float  # alpha / K in the finite model, else 0
    rate_of_own: float  # alpha / N under the process, else 0


class RowPiece(NamedTuple):
    """Some rows of X that are sampled one after another."""

    centred: np.ndarray  # (n, D), X less centre and intercept, zero where it is missing
    observed: np.ndarray  # (n, D), where it is not missing
    complete: np.ndarray  # (n,), whether a row misses nothing
    products: np.ndarray  # (n, S), X A', but for the features that were born in this piece


class Slots(NamedTuple):
    """Features and room for more; a slot that no row has is free."""

    assignments: np.ndarray  # (N, S), Z, for a kernel that of its piece
    counts: np.ndarray  # (S,), m
    factors: np.ndarray  # (S, D), A, in the user's column order
    gram: np.ndarray  # (S, S), A A'
    fresh: np.ndarray  # (S,), whether a slot was filled in the present piece


@kernel
def log_scaled_cdf(x):
    """x^2 / 2 + ln Phi(x)."""
    if x > 0.0:
        return 0.5 * x * x + math.log1p(-0.5 * math.erfc(x / SQRT_TWO))
    if x > CDF_TAIL:
        return 0.5 * x * x + math.log(0.5 * math.erfc(-x / SQRT_TWO))
    rest = -x
    for level in range(CDF_LEVELS, 0, -1):
        rest = -x + level / rest
    return -math.log(rest) - LOG_SQRT_TWO_PI


@kernel
def truncated_draw(location, scale, rng):
    """A draw of TN(location, scale) on the nonnegative half line, by exact rejection.

    In units of the scale: a Gaussian until it exceeds y = -location / scale or, where that would
    take long, y + e with e exponential of rate l = (y + sqrt(y^2 + 4)) / 2, accepted with
    probability exp(-(e - 1 / l)^2 / 2).
    """
    least = -location / scale
    if least < FAR:
        while True:
            draw = rng.standard_normal()
            if draw >= least:
                return scale * (draw - least)
    rate = 0.5 * (least + math.sqrt(least * least + 4.0))
    while True:
        excess = rng.standard_exponential() / rate
        if rng.random() < math.exp(-0.5 * (excess - 1.0 / rate) ** 2):
            return scale * excess


@kernel
def log_new_feature(residual, observed, model):
    """ln M(r) / L(r): the likelihood of a row with one more feature over that without."""
    precision = model.noise_precision + model.factor_precision
    slope = model.noise_precision / math.sqrt(precision)
    per_entry = 0.5 * math.log(model.factor_precision / precision)
    if model.half_normal:
        per_entry += LOG_TWO
    total = 0.0
    for d in range(residual.shape[0]):
        if observed[d]:
            x = slope * residual[d]
            total += per_entry + (log_scaled_cdf(x) if model.half_normal else 0.5 * x * x)
    return total


@kernel
def draw_new_feature(residual, observed, model, rng, factors):
    """Factors of a new feature given its row's residual; from the prior where that is missing."""
    precision = model.noise_precision + model.factor_precision
    for d in range(residual.shape[0]):
        location = residual[d] * model.noise_precision / precision if observed[d] else 0.0
        scale = 1.0 / math.sqrt(precision if observed[d] else model.factor_precision)
        if model.half_normal:
            factors[d] = truncated_draw(location, scale, rng)
        else:
            factors[d] = location + scale * rng.standard_normal()


@kernel(fastmath={"reassoc", "contract"})
def observed_norm(factors, observed):
    """Squared norm over the observed entries."""
    total = 0.0
    for d in range(factors.shape[0]):
        total += factors[d] * factors[d] * observed[d]
    return total


@kernel
def add_feature(sign, factors, observed, residual):
    """Add a feature to a residual, or with sign -1 take it away, where the row is observed."""
    for d in range(residual.shape[0]):
        residual[d] += sign * factors[d] * observed[d]


@kernel
def fill_residual(centred, observed, bits, factors, residual):
    """What the features of a row leave of it."""
    for d in range(residual.shape[0]):
        residual[d] = centred[d]
    for k in range(bits.shape[0]):
        if bits[k]:
            add_feature(-1.0, factors[k], observed, residual)


@kernel
def draw_bit(count, likelihood, model, rng):
    """One entry of Z from its odds."""
    odds = math.log(count + model.pseudo_count) - math.log(model.n_samples - count) + likelihood
    return rng.random() * (1.0 + math.exp(-odds)) < 1.0


@kernel
def next_of(order, i, rng):
    """The i-th of a random order, drawn as it is needed."""
    pick = i + int(rng.random() * (order.shape[0] - i))
    k = order[pick]
    order[pick] = order[i]
    order[i] = k
    return k


@kernel
def sample_complete_row(products, gram, bits, counts, model, rng, fit, order):
    """The entries of a row that others share, from its X A' and A A'; returns how many changed."""
    n = bits.shape[0]
    for k in range(n):
        fit[k] = products[k]
    for j in range(n):
        if bits[j]:
            for k in range(n):
                fit[k] -= gram[j, k]
    n_changed = 0
    for i in range(n):
        k = next_of(order, i, rng)
        others = counts[k] - bits[k]
        if others == 0:
            continue
        gain = fit[k] + gram[k, k] * (bits[k] - 0.5)
        bit = draw_bit(others, model.noise_precision * gain, model, rng)
        if bit != bits[k]:
            sign = 1.0 if bits[k] else -1.0
            for j in range(n):
                fit[j] += sign * gram[k, j]
            bits[k] = bit
            counts[k] = others + bit
            n_changed += 1
    return n_changed


@kernel
def sample_incomplete_row(residual, observed, factors, bits, counts, model, rng, order):
    """The entries of a row that others share, from its residual, which is kept up to date."""
    n_changed = 0
    for i in range(bits.shape[0]):
        k = next_of(order, i, rng)
        others = counts[k] - bits[k]
        if others == 0:
            continue
        gain = dot(factors[k], residual) + observed_norm(factors[k], observed) * (bits[k] - 0.5)
        bit = draw_bit(others, model.noise_precision * gain, model, rng)
        if bit != bits[k]:
            add_feature(1.0 if bits[k] else -1.0, factors[k], observed, residual)
            bits[k] = bit
            counts[k] = others + bit
            n_changed += 1
    return n_changed


@kernel
def n_zeros(counts):
    """How many slots are free."""
    n = 0
    for k in range(counts.shape[0]):
        if counts[k] == 0:
            n += 1
    return n


@kernel
def free_slot(counts, rng):
    """One of the slots without a feature, each as likely."""
    left = int(rng.random() * n_zeros(counts))
    k = -1
    while left >= 0:
        k += 1
        if counts[k] == 0:
            left -= 1
    return k


@kernel
def birth_rate(n_free, model):
    """The rate at which a row has features of its own, if so many are free to be taken."""
    return model.rate_of_own + n_free * model.pseudo_count / model.n_samples


@kernel
def give_birth(residual, observed, bits, slots, n_own, model, rng):
    """Propose a feature that only this row has; returns whether there is one now."""
    counts, factors, gram = slots.counts, slots.factors, slots.gram
    k = free_slot(counts, rng)
    rate = birth_rate(n_zeros(counts), model)
    log_ratio = math.log(rate / (n_own + 1.0)) + log_new_feature(residual, observed, model)
    if rng.random() >= math.exp(min(log_ratio, 0.0)):
        return False
    draw_new_feature(residual, observed, model, rng, factors[k])
    bits[k] = 1
    counts[k] = 1
    slots.fresh[k] = True
    for j in range(counts.shape[0]):
        if counts[j] > 0:
            gram[j, k] = dot(factors[j], factors[k])
            gram[k, j] = gram[j, k]
    return True


@kernel
def let_die(residual, observed, bits, slots, n_own, model, rng):
    """Propose that one of a row's own features goes; returns whether it has."""
    counts = slots.counts
    left = int(rng.random() * n_own)
    k = -1
    while left >= 0:
        k += 1
        if bits[k] and counts[k] == 1:
            left -= 1
    add_feature(1.0, slots.factors[k], observed, residual)
    rate = birth_rate(n_zeros(counts) + 1, model)
    log_ratio = math.log(n_own / rate) - log_new_feature(residual, observed, model)
    if rng.random() >= math.exp(min(log_ratio, 0.0)):
        return False
    bits[k] = 0
    counts[k] = 0
    return True


@kernel
def sample_rows(first, piece, slots, model, rng):
    """Sample the rows of a piece in turn, from the given one on.

    The slots and the products of fresh features are kept up. Returns the row reached, short of the
    end if the process needs room for a birth, and how many entries of Z changed.
    """
    centred, observed, complete, products = piece
    assignments, counts, factors, gram, fresh = slots
    n_rows, n_columns = centred.shape
    n_slots = counts.shape[0]
    unbounded = model.rate_of_own > 0.0
    residual = np.empty(n_columns)
    fit = np.empty(n_slots)
    order = np.arange(n_slots)
    n_changed = 0
    for n in range(first, n_rows):
        if unbounded and n_zeros(counts) == 0:
            return n, n_changed
        bits = assignments[n]
        if complete[n]:
            for k in range(n_slots):
                if fresh[k]:
                    products[n, k] = dot(centred[n], factors[k])
            n_changed += sample_complete_row(
                products[n], gram, bits, counts, model, rng, fit, order
            )
        else:
            fill_residual(centred[n], observed[n], bits, factors, residual)
            n_changed += sample_incomplete_row(
                residual, observed[n], factors, bits, counts, model, rng, order
            )
        birth = rng.random() < 0.5
        n_own = 0
        for k in range(n_slots):
            if bits[k] and counts[k] == 1:
                n_own += 1
        if (birth and n_zeros(counts) == 0) or (not birth and n_own == 0):
            continue
        if complete[n]:
            fill_residual(centred[n], observed[n], bits, factors, residual)
        if birth:
            n_changed += give_birth(residual, observed[n], bits, slots, n_own, model, rng)
        else:
            n_changed += let_die(residual, observed[n], bits, slots, n_own, model, rng)
    return n_rows, n_changed


@kernel
def sample_factors(
    gram, cross, group_of_position, precision, noise_precision, n_truncated, by_column, rng
):
    """Sample the factors of each column one after another, given those of the other features.

    a_kd ~ N(v tau_X [(Z'X)_kd - sum over j != k of (Z'Z)_kj a_jd], v), v = 1 / (tau_X (Z'Z)_kk +
    precision_k), the first ``n_truncated`` features truncated to a_kd >= 0. ``by_column`` is D x K.
    The features come in a random order, for their places tell their age, and that of their factors.
    """
    n_columns, n = by_column.shape
    order = np.arange(n)
    for d in range(n_columns):
        own_gram = gram[group_of_position[d]]
        for i in range(n):
            k = next_of(order, i, rng)
            fit = cross[k, d] - dot(own_gram[k], by_column[d]) + own_gram[k, k] * by_column[d, k]
            variance = 1.0 / (noise_precision * own_gram[k, k] + precision[k])
            location = variance * noise_precision * fit
            if k < n_truncated:
                by_column[d, k] = truncated_draw(location, math.sqrt(variance), rng)
            else:
                by_column[d, k] = location + math.sqrt(variance) * rng.standard_normal()
