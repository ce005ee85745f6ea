"""Rows of weighted codes: which features a row has, and how much of each.

`ibp.model.weights` has the equations. For one feature, the others as they are, z and q(w) have a
joint optimum in closed form, and with W = sum_d tau_d E[a_d] E[a_d]' at hand a step costs O(K).
Steps alone end in local optima: a thorough search also exchanges one feature for another, and
begins anew from nothing, best gain first, and from the nonnegative least-squares solution. It ends
with the best of these, and never with less than it began with.
"""

import math
from typing import NamedTuple

import numpy as np

from ibp.compiled import inlined, inner_kernel, kernel
from ibp.kernels.nonnegative_coordinates import descend
from ibp.kernels.row_forms import Form, missing_of_row, own_form
from ibp.kernels.truncated_normal import standard_log_mass, standard_moments_at

# Passes of nonnegative least squares, and the change that ends them.
LEAST_SQUARES_PASSES, LEAST_SQUARES_TOLERANCE = 30, 1e-3
# Exchanges of a row, at the most.
MOST_EXCHANGES = 20
# Passes over the weights of a row when one of its features has come or gone.
REWEIGHING_PASSES = 3
# A gain that is less, in nats or as a part of the objective, is rounding or not worth a change.
LEAST_GAIN = 1e-7


class WeightPrior(NamedTuple):
    """What rows take from the prior, (K,) each: ln odds of z, s, and ln Phi(1 / s)."""

    log_odds: np.ndarray
    std: np.ndarray
    log_mass: np.ndarray


class WeightedForms(NamedTuple):
    """`ibp.kernels.row_forms.Forms` for weighted codes: variances are not in the constants.

    Attributes
    ----------
    scale, quadratic, constant
        As there.
    doubt : ndarray of shape (F, K)
        sum_d tau_d Var[a_kd] of each form.
    """

    scale: float
    quadratic: np.ndarray
    constant: np.ndarray
    doubt: np.ndarray


class WeightedColumns(NamedTuple):
    """`ibp.kernels.row_forms.Columns` for weighted codes, with tau_d Var[a_kd] as ``doubt``."""

    weight: np.ndarray
    mean: np.ndarray
    constant: np.ndarray
    doubt: np.ndarray


class Effort(NamedTuple):
    """How far rows are searched.

    Attributes
    ----------
    passes : int
        Most passes over the features from one beginning.
    tolerance : float
        A pass that moves no weight by more, in units of its standard error, is the last.
    thorough : bool
        Whether features are exchanged, and rows begin anew from elsewhere.
    fresh : bool
        Whether what rows come with is only a place to begin at, and no code of theirs.
    """

    passes: int
    tolerance: float
    thorough: bool
    fresh: bool = False


class WeightedOutcome(NamedTuple):
    """The codes of n rows, brought along, and what that gained.

    Attributes
    ----------
    mean, variance, divergence : ndarray of shape (n, K)
        Of q(w), zeros where a row lacks a feature.
    gain : ndarray of shape (n,)
        Of the row objective.
    losses : ndarray of shape (n, K) or (0, K)
        What each row loses when a feature comes or goes; an empty array is left empty.
    """

    mean: np.ndarray
    variance: np.ndarray
    divergence: np.ndarray
    gain: np.ndarray
    losses: np.ndarray


class WeightedLists(NamedTuple):
    """Codes that n rows may have, to be filled in: the best, and those a feature away from it.

    Attributes
    ----------
    mean, variance : ndarray of shape (n, M, K)
        Of the weights.
    log_weight : ndarray of shape (n, M)
        Logarithms of the codes' probabilities, up to a constant for each row.
    length : ndarray of shape (n,), int64
        How many there are.
    margin : float
        Codes that are so much less probable than the best, in nats, are left out.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_weight: np.ndarray
    length: np.ndarray
    margin: float


class RowTerms(NamedTuple):
    """One row's problem: r, W, P = W_kk + doubt, the doubt, 1 + P s^2 and half its logarithm."""

    linear: np.ndarray
    quadratic: np.ndarray
    own: np.ndarray
    doubt: np.ndarray
    growth: np.ndarray
    half_log: np.ndarray


class RowCode(NamedTuple):
    """A row's code, and ``rest``, which is r - W mean."""

    mean: np.ndarray
    variance: np.ndarray
    divergence: np.ndarray
    rest: np.ndarray


@inner_kernel
def gain_at_most(k, r, terms, prior):
    """What having feature k gains if no part of its weight's Gaussian were cut off: no less."""
    s, growth = prior.std[k], terms.growth[k]
    square = (2.0 * r + (r * s) * (r * s) - terms.own[k]) / (2.0 * growth)
    return prior.log_odds[k] - prior.log_mass[k] - terms.half_log[k] + square


@inner_kernel
def best_weight(k, r, terms, prior):
    """`ibp.model.weights.best_weight`: gain, mean, variance and divergence."""
    s, own, growth = prior.std[k], terms.own[k], terms.growth[k]
    bound = gain_at_most(k, r, terms, prior)
    if s == 0.0:
        return bound, 1.0, 0.0, 0.0
    scale = s / math.sqrt(growth)
    ratio = (1.0 + r * s * s) / (growth * scale)
    g, v = standard_moments_at(ratio)
    gain = bound + standard_log_mass(ratio, g)
    mean, variance = scale * g, scale * scale * v
    divergence = r * mean - 0.5 * own * (mean * mean + variance) - (gain - prior.log_odds[k])
    return gain, mean, variance, max(divergence, 0.0)


@inner_kernel
def set_code(k, mean, variance, divergence, terms, code):
    """Give a feature another weight, or none."""
    change = mean - code.mean[k]
    code.mean[k], code.variance[k], code.divergence[k] = mean, variance, divergence
    if change != 0.0:
        row = terms.quadratic[k]
        for j in range(row.shape[0]):
            code.rest[j] -= change * row[j]


@inner_kernel
def objective(terms, prior, code):
    """`ibp.model.weights.row_objective`."""
    total = 0.0
    for k in range(code.mean.shape[0]):
        w = code.mean[k]
        if w > 0.0:
            total += 0.5 * w * (terms.linear[k] + code.rest[k]) + prior.log_odds[k]
            total -= code.divergence[k]
            total -= 0.5 * (terms.own[k] * code.variance[k] + terms.doubt[k] * w * w)
    return total


@inner_kernel
def visit(k, terms, prior, code):
    """The joint optimum of feature k; how far its weight moved, in standard errors."""
    old = code.mean[k]
    r = code.rest[k] + terms.quadratic[k, k] * old
    if gain_at_most(k, r, terms, prior) > 0.0:
        gain, mean, variance, divergence = best_weight(k, r, terms, prior)
        if gain > 0.0:
            set_code(k, mean, variance, divergence, terms, code)
            return abs(mean - old) * math.sqrt(terms.own[k])
    if old > 0.0:
        set_code(k, 0.0, 0.0, 0.0, terms, code)
        return abs(old) * math.sqrt(terms.own[k])
    return 0.0


@inner_kernel
def settle(effort, terms, prior, code):
    """Visit all features in turn until none moves, or there have been enough passes."""
    for _ in range(effort.passes):
        moved = 0.0
        for k in range(code.mean.shape[0]):
            moved = max(moved, visit(k, terms, prior, code))
        if moved <= effort.tolerance:
            return


@inner_kernel
def exchange(effort, terms, prior, code):
    """Put features in the place of others, the best exchange first, as long as that gains."""
    n = code.mean.shape[0]
    for _ in range(MOST_EXCHANGES):
        best, out, into = LEAST_GAIN, -1, -1
        for j in range(n):
            w = code.mean[j]
            if w == 0.0:
                continue
            own, _, _, _ = best_weight(j, code.rest[j] + terms.quadratic[j, j] * w, terms, prior)
            for k in range(n):
                if code.mean[k] == 0.0:
                    r = code.rest[k] + terms.quadratic[j, k] * w
                    if gain_at_most(k, r, terms, prior) > own + best:
                        gain, _, _, _ = best_weight(k, r, terms, prior)
                        if gain - own > best:
                            best, out, into = gain - own, j, k
        if out < 0:
            return
        set_code(out, 0.0, 0.0, 0.0, terms, code)
        visit(into, terms, prior, code)
        settle(effort, terms, prior, code)


@inner_kernel
def begin_at_nothing(terms, prior, code):
    """Take features one by one, the one that gains most first, all weights answering."""
    n = code.mean.shape[0]
    for k in range(n):
        code.mean[k], code.variance[k], code.divergence[k] = 0.0, 0.0, 0.0
        code.rest[k] = terms.linear[k]
    for _ in range(n):
        best, chosen = 0.0, -1
        for k in range(n):
            if code.mean[k] == 0.0 and gain_at_most(k, code.rest[k], terms, prior) > best:
                gain, _, _, _ = best_weight(k, code.rest[k], terms, prior)
                if gain > best:
                    best, chosen = gain, k
        if chosen < 0:
            return
        visit(chosen, terms, prior, code)
        for k in range(n):
            if code.mean[k] > 0.0:
                visit(k, terms, prior, code)


@inner_kernel
def begin_at_least_squares(terms, code, gradient):
    """The nonnegative least-squares solution; its weights are for `settle` to finish."""
    n = code.mean.shape[0]
    for k in range(n):
        gradient[k] = -code.rest[k]
    descend(terms.quadratic, gradient, code.mean, LEAST_SQUARES_PASSES, LEAST_SQUARES_TOLERANCE)
    for k in range(n):
        code.variance[k], code.divergence[k], code.rest[k] = 0.0, 0.0, -gradient[k]


@inlined
def copy_code(source, target):
    """Make one code like another."""
    for k in range(source.mean.shape[0]):
        target.mean[k], target.variance[k] = source.mean[k], source.variance[k]
        target.divergence[k], target.rest[k] = source.divergence[k], source.rest[k]


@inner_kernel
def search_row(effort, terms, prior, code, other, gradient):
    """Improve a row's code; ``other`` and ``gradient`` are work space. Returns its objective."""
    settle(effort, terms, prior, code)
    if not effort.thorough:
        return objective(terms, prior, code)
    exchange(effort, terms, prior, code)
    best = objective(terms, prior, code)
    for beginning in range(2):
        if beginning == 0:
            begin_at_nothing(terms, prior, other)
        else:
            copy_code(code, other)
            begin_at_least_squares(terms, other, gradient)
        settle(effort, terms, prior, other)
        exchange(effort, terms, prior, other)
        value = objective(terms, prior, other)
        if value > best:
            best = value
            copy_code(other, code)
    return best


@inner_kernel
def reweigh(terms, prior, code):
    """Let the weights of a row answer to each other, its features being as they are."""
    for _ in range(REWEIGHING_PASSES):
        for k in range(code.mean.shape[0]):
            w = code.mean[k]
            if w > 0.0:
                r = code.rest[k] + terms.quadratic[k, k] * w
                _, mean, variance, divergence = best_weight(k, r, terms, prior)
                set_code(k, mean, variance, divergence, terms, code)


@inner_kernel
def list_codes(row, terms, prior, code, other, losses, lists):
    """Write down a row's code and those that differ from it in one feature, the likeliest first."""
    n = code.mean.shape[0]
    capacity = lists.log_weight.shape[1]
    for place in range(capacity):
        copy_code(code, other)
        if place > 0:
            least, chosen = lists.margin, -1
            for k in range(n):
                if losses[k] < least:
                    least, chosen = losses[k], k
            if chosen < 0:
                break
            losses[chosen] = np.inf
            if code.mean[chosen] > 0.0:
                set_code(chosen, 0.0, 0.0, 0.0, terms, other)
            else:
                _, mean, variance, divergence = best_weight(chosen, code.rest[chosen], terms, prior)
                set_code(chosen, mean, variance, divergence, terms, other)
            reweigh(terms, prior, other)
        for k in range(n):
            lists.mean[row, place, k], lists.variance[row, place, k] = (
                other.mean[k],
                other.variance[k],
            )
        lists.log_weight[row, place] = objective(terms, prior, other)
        lists.length[row] = place + 1


@inlined
def fill_own_terms(std, terms):
    """What follows from a row's form for each feature."""
    for k in range(std.shape[0]):
        terms.own[k] = terms.quadratic[k, k] + terms.doubt[k]
        terms.growth[k] = 1.0 + terms.own[k] * std[k] * std[k]
        terms.half_log[k] = 0.5 * math.log(terms.growth[k])


@kernel
def improve_weighted_rows(products, prior, forms, columns, gaps, effort, outcome, lists):
    """Improve every row of ``outcome``, in place, and say by how much.

    ``products`` is X times the components of `ibp.methods.row_forms`. ``columns`` is None if no row
    has a form of its own. A row whose gain would be no more than rounding stays as it is. ``lists``
    are to be filled in, or None.
    """
    n_rows, n = products.shape
    if columns is not None:
        complete = Form(forms.quadratic[0], forms.constant[0])
        own = Form(np.empty((n, n)), np.empty(n))
        own_doubt = np.empty(n)
    linear, gradient, losses = np.empty(n), np.empty(n), np.empty(n)
    space = np.empty((3, n))
    code = RowCode(np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    other = RowCode(np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    last = -2
    for i in range(n_rows):
        number = gaps.form_of_row[i]
        if columns is not None and number < 0:
            missing = missing_of_row(i, gaps)
            own_form(missing, columns, None, complete, own)
            for k in range(n):
                own_doubt[k] = forms.doubt[0, k]
            for place in range(missing.shape[0]):
                for k in range(n):
                    own_doubt[k] -= columns.doubt[missing[place], k]
            for k in range(n):
                own_doubt[k] = max(own_doubt[k], 0.0)
            form, doubt = own, own_doubt
        else:
            form, doubt = Form(forms.quadratic[number], forms.constant[number]), forms.doubt[number]
        terms = RowTerms(linear, form.quadratic, space[0], doubt, space[1], space[2])
        if number < 0 or number != last:
            fill_own_terms(prior.std, terms)
        last = number
        for k in range(n):
            linear[k] = forms.scale * products[i, k] - form.constant[k]
            code.rest[k] = linear[k]
            code.mean[k], code.variance[k] = outcome.mean[i, k], outcome.variance[i, k]
            code.divergence[k] = outcome.divergence[i, k]
        for k in range(n):
            if code.mean[k] > 0.0:
                for j in range(n):
                    code.rest[j] -= code.mean[k] * form.quadratic[k, j]
        before = objective(terms, prior, code)
        value = search_row(effort, terms, prior, code, other, gradient)
        outcome.gain[i] = 0.0
        if effort.fresh or value - before > LEAST_GAIN + 1e-13 * abs(before):
            outcome.gain[i] = value - before
            for k in range(n):
                outcome.mean[i, k], outcome.variance[i, k] = code.mean[k], code.variance[k]
                outcome.divergence[i, k] = code.divergence[k]
        if lists is not None or outcome.losses.shape[0] > 0:
            for k in range(n):
                r = code.rest[k] + form.quadratic[k, k] * code.mean[k]
                worth, _, _, _ = best_weight(k, r, terms, prior)
                losses[k] = worth if code.mean[k] > 0.0 else -worth
            if outcome.losses.shape[0] > 0:
                for k in range(n):
                    outcome.losses[i, k] = losses[k]
        if lists is not None:
            list_codes(i, terms, prior, code, other, losses, lists)
