"""Which features of one fit came back in another: matched one to one, by codes or by patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# A feature came back in another fit if its match correlates this much with it, and in part down to
# this. For features of one size that are rare, the correlation is the share of the rows with the
# one that have the other, too. A feature that another fit has cut in two, or has made one with
# another as large, correlates by 0.58 to 0.71: it is there in part. The same feature need not reach
# 0.9, as cosines of patterns do: where rows are noisy their toss-ups fall otherwise in every fit,
# and no average makes up for that.
CAME_BACK, IN_PART = 0.8, 0.5
# Numbers of a block of codes that is made double at a time.
BLOCK_NUMBERS = 2**20


def match_codes(codes: Any, others: Any, *, flips: bool = False) -> tuple[IntArray, FloatArray]:
    """Pair the features of two fits to the same rows by which rows have them.

    Codes say more than patterns do: they have no unit, and two features that look alike are two if
    other rows have them.

    Parameters
    ----------
    codes : array-like of shape (n_samples, n_components)
        The codes of the features to find a partner for: zeros and ones, probabilities or amounts.
    others : array-like of shape (n_samples, n_others)
        The codes of the same rows, in the same order, in another fit, or the true ones.
    flips : bool, default=False
        Whether a feature and its opposite are the same: where there is an intercept, and patterns
        may be negative, the rows that lack the one may as well have the other.

    Returns
    -------
    index : ndarray of shape (n_components,)
        Each feature's partner among the others; -1 if there is none left for it.
    similarity : ndarray of shape (n_components,)
        The correlation of the two columns of codes, 1 if the same rows have both; with ``flips``
        its absolute value. 0 without a partner, for a column that does not vary, and where the
        correlation is negative, which is no agreement.

    Examples
    --------
    >>> from ibp.agreement import match_codes
    >>> index, similarity = match_codes([[1, 0], [0, 1], [0, 0]], [[0, 1], [1, 0], [0, 0]])
    >>> index.tolist(), similarity.round(6).tolist()
    ([1, 0], [1.0, 1.0])
    """
    mine, theirs = (_codes_of(matrix) for matrix in (codes, others))
    if len(mine.shape) != 2 or len(theirs.shape) != 2 or mine.shape[0] != theirs.shape[0]:
        raise ValueError(
            "codes and others must be matrices with as many rows; they have the shapes "
            f"{mine.shape} and {theirs.shape}."
        )
    correlation = _correlation(mine, theirs)
    return _paired(np.abs(correlation) if flips else np.maximum(correlation, 0.0))


def match_features(
    components: npt.ArrayLike,
    others: npt.ArrayLike,
    *,
    noise_std: npt.ArrayLike | None = None,
    flips: bool = False,
) -> tuple[IntArray, FloatArray]:
    """Pair the features of two fits so that the pairs are as alike as they can be, all together.

    It compares patterns. If the codes of the same rows are at hand, `match_codes` tells more.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The features to find a partner for.
    others : array-like of shape (n_others, n_features)
        The features of another fit, or the true ones.
    noise_std : float or array-like of shape (n_features,), default=None
        The noise of each column, as a fitted model has it in ``noise_std_``: patterns are then
        compared in units of it. That matters where columns have units, or noise, of their own.
        The column of the largest numbers rules a cosine, and if all features change that one, any
        two of them look the same. One number for all columns changes nothing.
    flips : bool, default=False
        Whether a feature and its negative are the same: where there is an intercept, a row that
        lacks the one may as well have the other.

    Returns
    -------
    index : ndarray of shape (n_components,)
        Each feature's partner among the others; -1 if there is none left for it.
    similarity : ndarray of shape (n_components,)
        The cosine of the angle between the two, 1 if they are proportional; 0 without a partner.

    Examples
    --------
    >>> from ibp.agreement import match_features
    >>> index, similarity = match_features([[1, 0], [0, 2]], [[0, 1], [3, 0], [1, 1]])
    >>> index.tolist(), similarity.tolist()
    ([1, 0], [1.0, 1.0])

    In one column the numbers, and the noise, are thousands of times those of the other, so that
    alone decides, unless both are measured in units of the noise.

    >>> one, other = [[900, 0.1]], [[900, 0.9]]
    >>> match_features(one, other)[1].round(3).tolist()
    [1.0]
    >>> match_features(one, other, noise_std=[300, 0.1])[1].round(3).tolist()
    [0.6]
    """
    mine, theirs = (np.asarray(rows, dtype=float) for rows in (components, others))
    if mine.ndim != 2 or theirs.ndim != 2 or mine.shape[1] != theirs.shape[1]:
        raise ValueError(
            "components and others must be matrices with as many columns; they have the shapes "
            f"{mine.shape} and {theirs.shape}."
        )
    if noise_std is not None:
        noise = np.asarray(noise_std, dtype=float)
        if noise.shape not in ((), (mine.shape[1],)):
            raise ValueError(
                f"noise_std must be a number or one for each of the {mine.shape[1]} columns; it "
                f"has the shape {noise.shape}."
            )
        if not (np.isfinite(noise) & (noise > 0)).all():
            raise ValueError("noise_std must be positive and finite.")
        mine, theirs = mine / noise, theirs / noise
    cosines = unit_rows(mine) @ unit_rows(theirs).T
    return _paired(np.abs(cosines) if flips else cosines)


def patterns_in_noise(model: Any) -> FloatArray:
    """The patterns of a fitted model, in units of the noise of each column if it has its own.

    That is what columns of different units can be compared by.
    """
    noise_std = np.asarray(getattr(model, "noise_std_", 1.0), dtype=np.float64)
    components = np.asarray(model.components_, dtype=np.float64)
    return components / noise_std if noise_std.ndim else components


def unit_rows(rows: FloatArray) -> FloatArray:
    """Rows of length one; a row of zeros, which is like nothing, stays as it is."""
    largest = np.max(np.abs(rows), axis=-1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)  # squares of the entries could overflow
    length = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1.0))


def _paired(similarity: FloatArray) -> tuple[IntArray, FloatArray]:
    """Pair rows and columns one to one so that the similarities add up to the most."""
    from scipy.optimize import linear_sum_assignment  # which a fit from one start need not load

    row, column = linear_sum_assignment(similarity, maximize=True)
    index, similar = np.full(similarity.shape[0], -1), np.zeros(similarity.shape[0])
    index[row], similar[row] = column, np.clip(similarity[row, column], -1.0, 1.0)
    return index, similar


class CompactCodes:
    """Codes of a fit, kept in little room: bits where they are bits, else single precision.

    Of codes that are not bits a sample of the rows is kept, evenly spaced, if there are many: the
    same rows of every fit to as many.
    """

    MOST_ROWS = 20_000

    def __init__(self, codes: npt.NDArray[Any]) -> None:
        self.binary = codes.dtype in (np.bool_, np.uint8)
        self.packed: npt.NDArray[Any]
        if self.binary:
            self.packed = np.packbits(codes, axis=1)
        else:
            n_rows = codes.shape[0]
            rows = np.arange(n_rows)
            if n_rows > self.MOST_ROWS:
                rows = np.linspace(0, n_rows - 1, self.MOST_ROWS).astype(np.int64)
            codes = codes[rows]
            # A correlation has no unit, and real codes may lie outside the range of float32.
            largest = np.max(np.abs(codes), axis=0, initial=0.0)
            self.packed = (codes / np.where(largest > 0, largest, 1.0)).astype(np.float32)
        self.shape = (self.packed.shape[0], codes.shape[1])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as arrays by name."""
        return {"packed": self.packed, "n_columns": np.array(self.shape[1])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The codes that `to_arrays` wrote down."""
        codes = cls.__new__(cls)
        codes.packed = arrays["packed"]
        codes.binary = codes.packed.dtype == np.uint8
        codes.shape = (codes.packed.shape[0], int(arrays["n_columns"]))
        return codes

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Some rows of the codes."""
        if not self.binary:
            return self.packed[rows]
        return np.unpackbits(self.packed[rows], axis=1, count=self.shape[1])


def _codes_of(codes: Any) -> Any:
    """Codes with a shape, and blocks of rows of them."""
    return codes if isinstance(codes, CompactCodes) else np.asarray(codes)


def _correlation(mine: Any, theirs: Any) -> FloatArray:
    """Correlations of the columns of two matrices; 0 where one does not vary."""
    n_rows, width = mine.shape[0], max(mine.shape[1], theirs.shape[1], 1)
    size = max(BLOCK_NUMBERS // width, 1)
    blocks = [slice(start, start + size) for start in range(0, n_rows, size)]
    centre_of_mine, scale_of_mine = _centre_and_scale(mine, blocks)
    centre_of_theirs, scale_of_theirs = _centre_and_scale(theirs, blocks)
    products = np.zeros((mine.shape[1], theirs.shape[1]))
    squares_of_mine, squares_of_theirs = np.zeros(mine.shape[1]), np.zeros(theirs.shape[1])
    for rows in blocks:
        left = (mine[rows] - centre_of_mine) / scale_of_mine
        right = (theirs[rows] - centre_of_theirs) / scale_of_theirs
        products += left.T @ right
        squares_of_mine += np.einsum("nk,nk->k", left, left)
        squares_of_theirs += np.einsum("nk,nk->k", right, right)
    lengths = np.sqrt(np.outer(squares_of_mine, squares_of_theirs))
    return np.asarray(products / np.where(lengths > 0, lengths, 1.0))


def _centre_and_scale(codes: Any, blocks: list[slice]) -> tuple[FloatArray, FloatArray]:
    """The mean of each column and its range.

    A column that does not vary has its value as the mean, to the last digit, so that nothing of it
    is left.
    """
    sums = np.zeros(codes.shape[1])
    low, high = np.full(codes.shape[1], np.inf), np.full(codes.shape[1], -np.inf)
    for rows in blocks:
        block = codes[rows]
        sums += block.sum(axis=0, dtype=np.float64)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    if not np.isfinite(sums).all():
        raise ValueError("codes must be finite numbers.")
    varies = high > low
    centre = np.where(varies, sums / max(codes.shape[0], 1), low if blocks else 0.0)
    return centre, np.subtract(high, low, out=np.ones_like(low), where=varies)


@dataclass(frozen=True)
class RestartAgreement:
    """What the restarts of a fit found, and how far they agree."""

    evidence: FloatArray  # of each restart
    n_components: IntArray
    kept: int  # the one that the model is
    # Similarity of each feature with its match in every other restart, a row each.
    similarity: FloatArray
    baseline: float | None = None  # evidence without any feature, if it is known

    @property
    def n_restarts(self) -> int:
        """How many there were, with the one that was kept."""
        return int(self.evidence.size)

    @property
    def others(self) -> IntArray:
        """Numbers of the restarts that were not kept."""
        return np.delete(np.arange(self.n_restarts), self.kept)

    @property
    def agreement(self) -> FloatArray | None:
        """Average similarity of each feature; None if the fit was not repeated."""
        return self.similarity.mean(axis=0) if self.n_restarts > 1 else None

    @property
    def times_back(self) -> IntArray:
        """In how many other restarts each feature came back."""
        return np.asarray((self.similarity >= CAME_BACK).sum(axis=0))

    # A feature came back if it did in most of the other restarts. In one of them would be easier
    # the more there are, in all of them harder.

    @property
    def came_back(self) -> npt.NDArray[np.bool_]:
        """Which features came back: clearly, in more than half of the other restarts."""
        return self._in_most(CAME_BACK)

    @property
    def n_came_back(self) -> int | None:
        """How many features came back; None if the fit was not repeated."""
        return int(self.came_back.sum()) if self.n_restarts > 1 else None

    @property
    def in_part(self) -> npt.NDArray[np.bool_]:
        """Which came back in part only, in more than half of the other restarts."""
        return self._in_most(IN_PART) & ~self.came_back

    @property
    def lost(self) -> npt.NDArray[np.bool_]:
        """Which did neither; none of them if the fit was not repeated, as nothing is known."""
        return ~self._in_most(IN_PART) & (self.n_restarts > 1)

    def _in_most(self, threshold: float) -> npt.NDArray[np.bool_]:
        return np.asarray(2 * (self.similarity >= threshold).sum(axis=0) > self.n_restarts - 1)

    @property
    def fewest_and_most(self) -> tuple[int, int]:
        """The least and the largest number of features of a restart."""
        return int(self.n_components.min()), int(self.n_components.max())

    @property
    def evidence_spread(self) -> float | None:
        """From the lowest to the highest evidence of a restart, in nats; None if not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            spread = float(np.max(self.evidence) - np.min(self.evidence))
        return spread if np.isfinite(spread) else None

    @property
    def spread_of_gain(self) -> float | None:
        """The spread as a share of what the features of the kept fit gain over having none."""
        if self.baseline is None or self.evidence_spread is None:
            return None
        gain = float(self.evidence[self.kept]) - self.baseline
        return self.evidence_spread / gain if np.isfinite(gain) and gain > 0 else None


def restarts_of(model: Any) -> RestartAgreement:
    """What a fitted model remembers of its restarts."""
    kept = int(model.restart_kept_)
    baseline = getattr(model, "baseline_evidence_", None)
    return RestartAgreement(
        np.asarray(model.restart_evidence_, dtype=np.float64),
        np.asarray(model.restart_n_components_, dtype=np.int64),
        kept,
        np.delete(np.asarray(model.restart_similarity_, dtype=np.float64), kept, axis=0),
        None if baseline is None else float(baseline),
    )
