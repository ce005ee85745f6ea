"""Rows of Z one after another, the Gaussian factors integrated out (Doshi-Velez, Ghahramani 2009).

Given all rows but n, the factors of every column are Gaussian with one covariance S and means M:

    S = s_X^2 (Z'Z + diag(s_X^2 / s_k^2))^-1,    M = S Z'X / s_X^2,
    x_n | z ~ N(z M, (z S z' + s_X^2) I) .

A row is taken out of S and M, and put back, by the rank-one formulae

    taking out:   S + s s' / (s_X^2 - z's),   M - s e / (s_X^2 - z's),   s = S z, e = x - z M,
    putting back: S - s s' / (s_X^2 + z's),   M + s e / (s_X^2 + z's) .

Without the row, its singletons (features of no other row) have mean 0, variance s_A^2 and no
covariance with anything: J of them only add J s_A^2 to the variance of x_n. So they are dropped
first, and the row taken out of what is left with s_X^2 + J s_A^2 for s_X^2; the other bits are
sampled given J, and then J anew from

    P(j) ~ Poisson(j; alpha / N) N(x_n; z M, (z S z' + s_X^2 + j s_A^2) I) .

The bits are gone through in a random order. In that of the columns young features stand last, so
that the order tells something of z_n, and a scan by it need not leave the posterior as it is.

What row n misses is integrated out while its bits are sampled, then drawn given them, and the row
put back with it: a draw from P(z_n, missing | rest) with z_n first.
"""

import math
from typing import NamedTuple

import numpy as np

from ibp.compiled import kernel

# S and M are computed anew every so many rows, against rounding ...
ROWS_BETWEEN_REFRESHES = 128
# ... and when taking out a row would lose digits: it has nearly all the say in some direction.
LEAST_REMAINDER = 1e-3
# A tail of the distribution of J with less than exp(-40) of its mass is neglected.
NEGLIGIBLE = 40.0


class Rows(NamedTuple):
    """Consecutive rows of X, and draws of all its missing entries."""

    first: int  # the number of the first of these rows
    values: np.ndarray  # (n, D), the rows as given
    centre: np.ndarray  # (D,), to be subtracted
    # Row n misses missing_column[missing_start[n]:missing_start[n + 1]], and missing_value has the
    # present draws of these entries, about the centre.
    missing_start: np.ndarray
    missing_column: np.ndarray
    missing_value: np.ndarray


class Columns(NamedTuple):
    """Features side by side, with room for more: an intercept that all rows have comes first."""

    codes: np.ndarray  # (N, capacity), Z, with zeros beyond the features that there are
    gram: np.ndarray  # (capacity, capacity), Z'Z, whose diagonal holds the counts m
    cross: np.ndarray  # (capacity, D), Z'X, with the draws of what is missing
    covariance: np.ndarray  # (capacity, capacity), S
    mean: np.ndarray  # (capacity, D), M


class Settings(NamedTuple):
    """The hyperparameters as the kernel needs them."""

    n_fixed: int  # 1 if there is an intercept, else 0
    noise_variance: float
    factor_variance: float
    fixed_variance: float  # that of the intercept
    share: float  # alpha / K of a truncated model; 0 if K is unbounded
    birth_rate: float  # alpha / N if K is unbounded; 0 in a truncated model


class WorkSpace(NamedTuple):
    """Room for what is known of the row at hand."""

    x: np.ndarray  # (D,), the row about the centre
    seen: np.ndarray  # (D,), 1 where the row is observed and 0 elsewhere
    residual: np.ndarray  # (D,), x - z M
    direction: np.ndarray  # (capacity,), S z
    order: np.ndarray  # (capacity,), the features in the order in which their bits are sampled


@kernel
def empty_columns(n_samples, n_features, capacity):
    """Room for features."""
    return Columns(
        np.zeros((n_samples, capacity), dtype=np.uint8),
        np.zeros((capacity, capacity)),
        np.zeros((capacity, n_features)),
        np.zeros((capacity, capacity)),
        np.zeros((capacity, n_features)),
    )


@kernel
def new_space(n_features, capacity):
    """A work space for so many columns of X, and features."""
    return WorkSpace(
        np.empty(n_features),
        np.empty(n_features),
        np.empty(n_features),
        np.empty(capacity),
        np.empty(capacity, dtype=np.int64),
    )


@kernel
def with_room(columns, n, capacity):
    """The n features in larger arrays."""
    larger = empty_columns(columns.codes.shape[0], columns.mean.shape[1], capacity)
    larger.codes[:, :n] = columns.codes[:, :n]
    larger.gram[:n, :n] = columns.gram[:n, :n]
    larger.cross[:n] = columns.cross[:n]
    larger.covariance[:n, :n] = columns.covariance[:n, :n]
    larger.mean[:n] = columns.mean[:n]
    return larger


@kernel
def load_row(row, rows, x, seen):
    """The row about the centre with its draws, and 1 where it is observed; how many these are."""
    for d in range(x.shape[0]):
        x[d] = rows.values[row - rows.first, d] - rows.centre[d]
        seen[d] = 1.0
    start, stop = rows.missing_start[row], rows.missing_start[row + 1]
    for i in range(start, stop):
        x[rows.missing_column[i]] = rows.missing_value[i]
        seen[rows.missing_column[i]] = 0.0
    return x.shape[0] - (stop - start)


@kernel
def add_row(sign, codes, n, x, gram, cross):
    """Count a row in Z'Z and Z'X, or not any more."""
    for k in range(n):
        if codes[k]:
            for j in range(n):
                gram[k, j] += sign * codes[j]
            for d in range(x.shape[0]):
                cross[k, d] += sign * x[d]


@kernel
def count_rows(rows, columns, n):
    """Add the rows to Z'Z and Z'X of the n features."""
    x, seen = np.empty(rows.values.shape[1]), np.empty(rows.values.shape[1])
    for row in range(rows.first, rows.first + rows.values.shape[0]):
        load_row(row, rows, x, seen)
        add_row(1.0, columns.codes[row], n, x, columns.gram, columns.cross)


@kernel
def refresh(columns, n, settings):
    """S and M of the n features from Z'Z and Z'X, by way of a Cholesky factor."""
    if n == 0:
        return
    scaled_precision = columns.gram[:n, :n].copy()
    for k in range(n):
        variance = settings.fixed_variance if k < settings.n_fixed else settings.factor_variance
        scaled_precision[k, k] += settings.noise_variance / variance
    root = np.linalg.inv(np.linalg.cholesky(scaled_precision))
    columns.covariance[:n, :n] = settings.noise_variance * (root.T @ root)
    columns.mean[:n] = root.T @ (root @ columns.cross[:n])


@kernel
def covariance_times(codes, n, covariance, direction):
    """S z and z'S z."""
    for j in range(n):
        direction[j] = 0.0
    for k in range(n):
        if codes[k]:
            for j in range(n):
                direction[j] += covariance[k, j]
    quadratic = 0.0
    for k in range(n):
        if codes[k]:
            quadratic += direction[k]
    return quadratic


@kernel
def predict(codes, n, mean, prediction):
    """Z M of a row."""
    for d in range(prediction.shape[0]):
        prediction[d] = 0.0
    for k in range(n):
        if codes[k]:
            for d in range(prediction.shape[0]):
                prediction[d] += mean[k, d]


@kernel
def find_residual(codes, n, x, mean, residual):
    """X - z M of a row."""
    predict(codes, n, mean, residual)
    for d in range(x.shape[0]):
        residual[d] = x[d] - residual[d]


@kernel
def move(sign, scale, direction, residual, n, columns):
    """The rank-one formulae: put a row back (sign 1) or take it out (-1)."""
    for k in range(n):
        step = sign * direction[k] / scale
        if step != 0.0:
            for j in range(n):
                columns.covariance[k, j] -= step * direction[j]
            for d in range(residual.shape[0]):
                columns.mean[k, d] += step * residual[d]


@kernel
def take_out(codes, n_own, columns, n, settings, space):
    """Take a row out of S and M, from which its own features are dropped already.

    What they explain is noise to the others: the row's variance is larger by theirs. S and M are
    computed anew, from sums without the row, if the short way is not safe.
    """
    quadratic = covariance_times(codes, n, columns.covariance, space.direction)
    variance = settings.noise_variance + n_own * settings.factor_variance
    remainder = variance - quadratic
    if not remainder > LEAST_REMAINDER * variance:
        refresh(columns, n, settings)
        return
    find_residual(codes, n, space.x, columns.mean, space.residual)
    move(-1.0, remainder, space.direction, space.residual, n, columns)


@kernel
def put_back(codes, columns, n, settings, space):
    """Count a row in all sums again."""
    add_row(1.0, codes, n, space.x, columns.gram, columns.cross)
    quadratic = covariance_times(codes, n, columns.covariance, space.direction)
    find_residual(codes, n, space.x, columns.mean, space.residual)
    variance = settings.noise_variance + quadratic
    move(1.0, variance, space.direction, space.residual, n, columns)


@kernel
def drop_column(k, columns, n):
    """Remove a feature that no row has; the last one takes its place."""
    last = n - 1
    if k != last:
        columns.codes[:, k] = columns.codes[:, last]
        for square in (columns.gram, columns.covariance):
            square[k, :n] = square[last, :n]
            square[:n, k] = square[:n, last]
            square[k, k] = square[last, last]
        columns.cross[k] = columns.cross[last]
        columns.mean[k] = columns.mean[last]
    columns.codes[:, last] = 0


@kernel
def drop_singletons(codes, columns, n, n_fixed):
    """Remove the features that only the row has which the sums have lost; how many are left."""
    for k in range(n - 1, n_fixed - 1, -1):
        if columns.gram[k, k] == 0.0:
            codes[k] = 0
            drop_column(k, columns, n)
            n -= 1
    return n


@kernel
def append_singletons(codes, n_new, columns, n, factor_variance):
    """Give a row that is taken out some features of its own."""
    for k in range(n, n + n_new):
        codes[k] = 1
        columns.gram[k, : k + 1] = 0.0
        columns.gram[: k + 1, k] = 0.0
        columns.cross[k] = 0.0
        columns.covariance[k, : k + 1] = 0.0
        columns.covariance[: k + 1, k] = 0.0
        columns.covariance[k, k] = factor_variance
        columns.mean[k] = 0.0


@kernel(fastmath={"reassoc", "contract", "nsz"})
def products(k, mean, residual, seen):
    """M_k . residual and ||M_k||^2 over what is seen."""
    along, squares = 0.0, 0.0
    for d in range(residual.shape[0]):
        along += mean[k, d] * residual[d]
        squares += seen[d] * mean[k, d] * mean[k, d]
    return along, squares


@kernel
def log_density(variance, squares, n_seen):
    """Ln N(residual; 0, variance I) without the constant."""
    return -0.5 * (n_seen * math.log(variance) + squares / variance)


@kernel
def sample_bits(codes, n, columns, settings, quadratic, extra, n_seen, space, rng):
    """Sample the bits of a row that is taken out, one by one in random order.

    ``quadratic`` is z'S z; x_n has the variance s_X^2 + z'S z + ``extra``; the space's direction is
    S z, its residual x_n - z M where that is seen and 0 elsewhere. Both are kept up to date.
    Returns the new z'S z, the squared norm of the residual, and how many bits flipped.
    """
    seen, residual = space.seen, space.residual
    direction, order = space.direction, space.order
    n_flips = 0
    squares = 0.0
    for d in range(residual.shape[0]):
        squares += residual[d] * residual[d]
    n_samples = columns.codes.shape[0]
    base = settings.noise_variance + extra
    log_present = log_density(base + quadratic, squares, n_seen)
    for i in range(settings.n_fixed, n):
        order[i] = i
    for i in range(n - 1, settings.n_fixed - 1, -1):
        pick = settings.n_fixed + int(rng.random() * (i + 1 - settings.n_fixed))
        k = order[pick]
        order[pick] = order[i]
        sign = -1.0 if codes[k] else 1.0
        along, own_squares = products(k, columns.mean, residual, seen)
        flipped_squares = max(squares - sign * 2.0 * along + own_squares, 0.0)
        flipped_quadratic = quadratic + sign * 2.0 * direction[k] + columns.covariance[k, k]
        flipped_quadratic = max(flipped_quadratic, 0.0)
        log_flipped = log_density(base + flipped_quadratic, flipped_squares, n_seen)
        count = columns.gram[k, k]
        log_odds = math.log((count + settings.share) / (n_samples - count))
        if rng.random() * (1.0 + math.exp(log_present - log_flipped - sign * log_odds)) < 1.0:
            codes[k] = 1 - codes[k]
            n_flips += 1
            squares, quadratic, log_present = flipped_squares, flipped_quadratic, log_flipped
            for j in range(n):
                direction[j] += sign * columns.covariance[k, j]
            for d in range(residual.shape[0]):
                residual[d] -= sign * seen[d] * columns.mean[k, d]
    return quadratic, squares, n_flips


@kernel
def sample_n_new(rate, variance, factor_variance, squares, n_seen, rng):
    """Draw J. Terms are summed until a bound on all others is negligible.

    The Poisson weights from J on sum to less than the first over 1 - rate / (J + 1), and no
    variance explains the residual better than its mean square.
    """
    if rate == 0.0:
        return 0
    best_variance = squares / max(n_seen, 1)
    chosen, j = 0, 0
    log_total = log_density(variance, squares, n_seen)
    while True:
        j += 1
        variance += factor_variance
        log_prior = j * math.log(rate) - math.lgamma(j + 1.0)
        if rate < j + 1.0:
            log_bound = log_density(max(variance, best_variance), squares, n_seen)
            log_tail = log_prior + log_bound - math.log1p(-rate / (j + 1.0))
            if log_tail < log_total - NEGLIGIBLE:
                return chosen
        # Each term replaces the choice with its share of the total so far.
        log_weight = log_prior + log_density(variance, squares, n_seen)
        larger = max(log_total, log_weight)
        log_total = larger + math.log(math.exp(log_total - larger) + math.exp(log_weight - larger))
        if rng.random() < math.exp(log_weight - log_total):
            chosen = j


@kernel
def draw_missing(row, rows, prediction, variance, x, rng):
    """Draw what a row misses about the prediction."""
    deviation = math.sqrt(variance)
    for i in range(rows.missing_start[row], rows.missing_start[row + 1]):
        d = rows.missing_column[i]
        x[d] = prediction[d] + deviation * rng.standard_normal()
        rows.missing_value[i] = x[d]


@kernel
def sample_rows(rows, columns, n, settings, rng):
    """Sample Z of some rows, and their missing entries.

    ``n`` counts the features, with the intercept. Returns the columns (other arrays if they had to
    grow), the number of features, and how many bits changed.
    """
    n_features = rows.values.shape[1]
    space = new_space(n_features, columns.mean.shape[0])
    x, seen, residual = space.x, space.seen, space.residual
    n_changed = 0
    for row in range(rows.first, rows.first + rows.values.shape[0]):
        if row % ROWS_BETWEEN_REFRESHES == 0:
            refresh(columns, n, settings)
        codes = columns.codes[row]
        n_seen = load_row(row, rows, x, seen)
        add_row(-1.0, codes, n, x, columns.gram, columns.cross)
        n_own = 0
        if settings.share == 0.0:
            n_left = drop_singletons(codes, columns, n, settings.n_fixed)
            n_own, n = n - n_left, n_left
        take_out(codes, n_own, columns, n, settings, space)

        quadratic = covariance_times(codes, n, columns.covariance, space.direction)
        find_residual(codes, n, x, columns.mean, residual)
        for d in range(n_features):
            residual[d] *= seen[d]
        extra = n_own * settings.factor_variance
        quadratic, squares, n_flips = sample_bits(
            codes, n, columns, settings, quadratic, extra, n_seen, space, rng
        )
        variance = settings.noise_variance + quadratic
        n_new = sample_n_new(
            settings.birth_rate, variance, settings.factor_variance, squares, n_seen, rng
        )
        n_changed += n_flips + abs(n_new - n_own)

        if n + n_new > columns.mean.shape[0]:
            columns = with_room(columns, n, max(n + n_new, 2 * columns.mean.shape[0]))
            codes = columns.codes[row]
            larger = new_space(0, columns.mean.shape[0])
            space = WorkSpace(x, seen, residual, larger.direction, larger.order)
        append_singletons(codes, n_new, columns, n, settings.factor_variance)
        n += n_new
        if n_seen < n_features:
            predict(codes, n, columns.mean, residual)
            variance += n_new * settings.factor_variance
            draw_missing(row, rows, residual, variance, x, rng)
        put_back(codes, columns, n, settings, space)
    return columns, n, n_changed
