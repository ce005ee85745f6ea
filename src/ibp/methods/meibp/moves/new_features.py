"""Features that a residual still holds, each with the rows that should have it.

With all other features as they are, a new one has an optimum that can be climbed to: given its rows
its factor is a truncated Gaussian, and given its factor each row decides for itself. In units of
the noise, with s the sum of the residuals of its m rows, f = m / N where an intercept makes up for
the feature's mean (else 0), and rho the ratio of the prior's precision to that of the noise,

    precision = m (1 - f) + rho,    location = s / precision,    a = E[TN(location, 1 / precision)],
    row n has it if  y_n . a - (1/2 - f) |a|^2 - sum of variances / 2 + log-odds > 0,
    gain = a . s - m ((1 - f) |a|^2 + sum of variances) / 2 + E ln p(a) + H[q(a)]
           + ln (N - m)! (m - 1)! / N! + E ln alpha - ln (K + 1).

The gain is that of the bound, but for what intercept and noise may add to it. Candidates are
climbed with side by side; then the best are taken, what they explain is subtracted, and the others
look again at what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ibp.kernels.records import FactorArrays
from ibp.kernels.truncated_normal import standard_moments_of
from ibp.methods.meibp.moves.residuals import Residuals
from ibp.methods.meibp.state import MEIBPState, by_column, entropies_of
from ibp.model.ibp_prior import log_count_term
from ibp.model.intercept import LearnedIntercept

FloatArray = npt.NDArray[np.float64]

# Rounds of climbing for all candidates, and for those left when some have been taken.
FIRST_ROUNDS, LATER_ROUNDS = 4, 1
# In so many passes all features of a batch are taken, and those of one pass have no more than this
# part of what they explain in common with another.
PASSES, MOST_SHARED = 5, 0.2
# A feature is not looked for in fewer rows.
LEAST_ROWS = 2


@dataclass(frozen=True)
class FeaturePrior:
    """What a new feature costs, in units of the noise.

    Attributes
    ----------
    n_samples, n_components : int
        N, and the features in use.
    factor_ratio : ndarray of shape (D,)
        E[tau_A] / E[tau_X] of each column.
    mean_log_ratio : float
        The sum over the columns of E ln tau_A - ln E[tau_X].
    log_alpha : float
        E ln alpha.
    has_intercept : bool
        Whether an intercept makes up for a feature's mean.
    """

    n_samples: int
    n_components: int
    factor_ratio: FloatArray
    mean_log_ratio: float
    log_alpha: float
    has_intercept: bool

    @classmethod
    def of(cls, state: MEIBPState) -> FeaturePrior:
        """That of a state."""
        parameters, d = state.hyperparameters, state.factors.mean.shape[1]
        noise = by_column(parameters.noise_precision.mean, d)
        factors = parameters.factor_precision
        return cls(
            state.assignments.shape[0],
            state.n_components,
            by_column(factors.mean, d) / noise,
            float((by_column(factors.mean_log, d) - np.log(noise)).sum()),
            parameters.alpha.mean_log,
            isinstance(state.intercept, LearnedIntercept),
        )

    def log_odds(self, counts: FloatArray) -> FloatArray:
        """Of a feature that so many rows have."""
        counts = np.clip(counts, 0.5, self.n_samples - 0.5)
        return np.asarray(np.log(counts) - np.log(self.n_samples - counts))


class Candidates(NamedTuple):
    """New features, S of them, with others as they are."""

    codes: npt.NDArray[np.bool_]  # (n, S)
    location: FloatArray  # (S, D), of the truncated Gaussians in units of the noise
    scale: FloatArray
    mean: FloatArray
    gain: FloatArray  # (S,), what each adds to the bound

    def take(self, which: npt.NDArray[np.intp]) -> Candidates:
        """Some of them."""
        return Candidates(
            self.codes[:, which],
            self.location[which],
            self.scale[which],
            self.mean[which],
            self.gain[which],
        )


def moments(location: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of truncated Gaussians, from the tables of the kernels."""
    ratio = (location / scale).ravel()
    mean, variance = np.empty_like(ratio), np.empty_like(ratio)
    standard_moments_of(ratio, mean, variance)
    return scale * mean.reshape(scale.shape), scale**2 * variance.reshape(scale.shape)


def climb(
    residuals: Residuals,
    prior: FeaturePrior,
    codes: npt.NDArray[np.bool_],
    rounds: int,
) -> Candidates:
    """Improve candidates, each by itself."""
    y, observed = residuals.values, residuals.observed
    sums = y.sum(axis=0, dtype=np.float64) if prior.has_intercept else 0.0
    for number in range(rounds + 1):
        z = codes.astype(y.dtype)
        counts = z.sum(axis=0, dtype=np.float64)
        share = counts / y.shape[0] if prior.has_intercept else np.zeros(counts.size)
        by_entry = counts[:, None] if observed is None else z.T @ observed
        total = ((z.T @ y).astype(np.float64) - share[:, None] * sums) / residuals.share
        rows = by_entry / residuals.share
        precision = rows * (1.0 - share[:, None]) + prior.factor_ratio
        location, scale = total / precision, precision**-0.5
        mean, variance = moments(location, scale)
        if number == rounds:
            break
        squares = (0.5 - share[:, None]) * mean**2 + 0.5 * variance
        norms = squares.sum(axis=1) if observed is None else observed @ squares.T
        scores = y @ mean.T.astype(y.dtype) - norms + prior.log_odds(counts / residuals.share)
        codes = scores > 0.0
    likelihood = (mean * total - 0.5 * rows * ((1.0 - share[:, None]) * mean**2 + variance)).sum(
        axis=1
    )
    d = y.shape[1]
    factor = (
        0.5 * (prior.mean_log_ratio + d * np.log(2.0 / np.pi))
        - 0.5 * (mean**2 + variance) @ prior.factor_ratio
        + entropies_of(FactorArrays(location, scale, mean, variance), slice(0, len(location)))
    )
    m = np.clip(np.rint(counts / residuals.share), 1, prior.n_samples).astype(np.int64)
    gain = (
        likelihood
        + factor
        + log_count_term(m, prior.n_samples)
        + prior.log_alpha
        - np.log(prior.n_components + 1.0)
    )
    useless = (counts < LEAST_ROWS) | (counts == y.shape[0]) | ~np.isfinite(gain)
    gain[useless] = -np.inf
    return Candidates(codes, location, scale, mean, gain)


def best_together(
    residuals: Residuals, prior: FeaturePrior, codes: npt.NDArray[np.bool_], most: int
) -> Candidates | None:
    """At most so many features that might raise the bound together; None if there are none.

    The best are taken, as long as none explains what another does; what they explain is subtracted,
    and the rest look again. The residuals are used up.
    """
    taken: list[Candidates] = []
    candidates = climb(residuals, prior, codes, FIRST_ROUNDS)
    room = most
    while room and np.isfinite(candidates.gain).any():
        best = apart(candidates, min(room, -(-most // PASSES)))
        chosen = candidates.take(best)
        taken.append(chosen)
        room -= best.size
        if room:
            subtract(residuals, prior, chosen)
            left = np.isfinite(candidates.gain)
            left[best] = False
            candidates = climb(residuals, prior, candidates.codes[:, left], LATER_ROUNDS)
    if not taken:
        return None
    return Candidates(
        np.hstack([one.codes for one in taken]),
        *(np.concatenate([one[part] for one in taken]) for part in range(1, 5)),
    )


def apart(candidates: Candidates, most: int) -> npt.NDArray[np.intp]:
    """The best candidates of which none explains much of what another does."""
    z = candidates.codes.astype(np.float32)
    shared = np.abs((z.T @ z) * (candidates.mean @ candidates.mean.T))
    own = np.maximum(np.diagonal(shared), 1e-300)
    chosen: list[int] = []
    for one in np.argsort(-candidates.gain, kind="stable"):
        if len(chosen) == most or not np.isfinite(candidates.gain[one]):
            break
        if (shared[one, chosen] < MOST_SHARED * np.minimum(own[one], own[chosen])).all():
            chosen.append(int(one))
    return np.array(chosen, dtype=np.intp)


def subtract(residuals: Residuals, prior: FeaturePrior, features: Candidates) -> None:
    """What is left of the residuals when some features have explained their part."""
    z = features.codes.astype(residuals.values.dtype)
    if prior.has_intercept:
        z = z - z.mean(axis=0)
    explained = z @ features.mean.astype(z.dtype)
    if residuals.observed is not None:
        explained *= residuals.observed
    residuals.values[:] -= explained


def place(
    y: FloatArray,
    observed: FloatArray | None,
    prior: FeaturePrior,
    features: Candidates,
    share: FloatArray,
) -> npt.NDArray[np.bool_]:
    """Which of the features other rows have, one after the other; ``share`` is that of the rows."""
    codes = np.zeros((y.shape[0], features.gain.size), dtype=bool)
    y = y.copy()
    for s in range(features.gain.size):
        mean, f = features.mean[s], share[s] if prior.has_intercept else 0.0
        squares = (0.5 - f) * mean**2 + 0.5 * moments(features.location[s], features.scale[s])[1]
        norms = squares.sum() if observed is None else observed @ squares
        odds = prior.log_odds(np.array(share[s] * prior.n_samples))
        codes[:, s] = y @ mean - norms + odds > 0.0
        explained = (codes[:, s] - f)[:, None] * mean
        y -= explained if observed is None else explained * observed
    return codes
