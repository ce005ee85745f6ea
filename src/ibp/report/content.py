"""Everything that a page says about a fit, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ibp.agreement import (
    CAME_BACK,
    IN_PART,
    RestartAgreement,
    patterns_in_noise,
    restarts_of,
)
from ibp.errors import InvalidValueError
from ibp.persistence import OF_THE_RUN
from ibp.report import wording
from ibp.report.codes import code_kind, share_proven, vary, weight_spreads, worthwhile_gain
from ibp.report.column_noise import ColumnNoise, column_noise_of
from ibp.report.encoding import clean_name, packed, plain, plain_number
from ibp.report.measuring import Measurements, measure
from ibp.report.notes import Notes
from ibp.report.reading import DataReader, FloatArray, IntArray
from ibp.report.sampling import Shown, choose, top_columns, worst_first
from ibp.report.trust import Certainty, certainty_of, limit_of
from ibp.validation import spreads_too_far_apart

MAX_ROWS = 300
WORST_LISTED = 10
HISTOGRAM_BINS = 30
# Most features in the pictures that have a cell for each pair, or for each restart.
MATRIX_FEATURES = 150
LONGEST_VALUE = 300
MOST_SWEEPS = 2000
HISTORY_DIGITS = 12  # the last sweeps change a large number little


@dataclass(frozen=True)
class ReportContent:
    """A fit, measured; names are as given, not escaped yet."""

    model: Any
    notes: Notes
    measured: Measurements
    certainty: Certainty | None
    restarts: RestartAgreement
    shown: Shown
    row_values: FloatArray
    row_codes: FloatArray
    row_names: Sequence[str] | None
    column_names: Sequence[str] | None
    full_image_shape: tuple[int, int] | None

    @property
    def n_components(self) -> int:
        """The number of features."""
        return int(self.model.n_components_)

    @property
    def code_kind(self) -> str:
        """What a code is: "binary", "probability", "weighted" or "real"."""
        return code_kind(self.model)

    @property
    def weight_spreads(self) -> FloatArray | None:
        """How far the weights of each feature spread; None if codes are not weighted."""
        return weight_spreads(self.model)

    @property
    def strength(self) -> FloatArray:
        """Root mean square of what each feature adds to a row that has it.

        Where columns have noise of their own, and may have a unit of their own, in units of that.
        """
        components = patterns_in_noise(self.model)
        size = np.sqrt(np.mean(components**2, axis=1)) if components.size else np.zeros(0)
        return size * self.measured.mean_codes if self.model.real_codes else size

    @property
    def signed(self) -> bool:
        """Whether some pattern has negative entries."""
        return bool(np.min(self.model.components_, initial=0.0) < 0)

    @property
    def has_base(self) -> bool:
        """Whether rows have something before any feature."""
        return bool(np.any(self.model.intercept_ != 0))

    def row_name(self, row: int) -> str:
        """The name of a row, or its number, counted from 1 as everywhere that people read."""
        if self.row_names is None:
            return f"row {row + 1}"
        name = clean_name(self.row_names[row])
        return f"{name} (row {row + 1})" if str(self.row_names[row]) in self._shared_names else name

    @cached_property
    def _shared_names(self) -> set[str]:
        """Names that several rows have."""
        names = () if self.row_names is None else self.row_names
        times = Counter(str(name) for name in names)
        return {name for name, n in times.items() if n > 1}

    def column_name(self, column: int) -> str:
        """The name of a column, its place in the picture, or its number."""
        if self.column_names is not None:
            return clean_name(self.column_names[column])
        if self.full_image_shape is not None:
            line, place = divmod(column, self.full_image_shape[1])
            return f"pixel ({line + 1}, {place + 1})"
        return f"column {column + 1}"

    @cached_property
    def column_noise(self) -> ColumnNoise | None:
        """What the model says of the noise of each column; None if all have the same."""
        return column_noise_of(self.model, self.measured)

    @property
    def row_errors(self) -> FloatArray:
        """Errors of the rows: in units of the columns' noise, if each has its own."""
        return errors_of_rows(self.model, self.measured)

    def facts(self) -> wording.Facts:
        """What the head says."""
        measured, certainty, restarts = self.measured, self.certainty, self.restarts
        errors = self.row_errors[measured.row_counts > 0]
        typical = float(np.median(errors)) if errors.size else 0.0
        worst = self.shown.worst
        unsure: list[int] = []
        if certainty is not None:
            unsure = np.argsort(-certainty.feature_toss_ups, kind="stable")[:3].tolist()
        rare = measured.on_counts < wording.FEW_ROWS
        spreads = self.weight_spreads
        return wording.Facts(
            method=type(self.model).__name__,
            label=self.notes.method,
            limit=self.model.n_components,
            n_rows=measured.row_counts.size,
            n_rows_fit=int(self.model.n_samples_fit_),
            n_columns=measured.column_counts.size,
            missing=measured.n_missing
            / max(measured.row_counts.size * len(self.model.intercept_), 1),
            n_components=self.n_components,
            codes=self.code_kind,
            codes_setting=self.model.get_params().get("codes"),
            n_weighted=0 if spreads is None else int(vary(spreads).sum()),
            own_noise=bool(np.ndim(self.model.noise_std_)),
            variance_explained=measured.variance_explained,
            features_per_row=float(measured.row_features.mean()),
            n_unused=int((measured.on_counts == 0).sum()),
            ending=str(self.model.ending_),
            settles=bool(self.model.tol > 0),
            n_iter=int(self.model.n_iter_),
            seconds=self.seconds,
            n_restarts=restarts.n_restarts,
            fewest_and_most=restarts.fewest_and_most,
            evidence_spread=restarts.evidence_spread,
            spread_of_gain=restarts.spread_of_gain,
            returned=restarts.n_came_back,
            returned_in_part=np.flatnonzero(restarts.in_part).tolist(),
            not_returned=np.flatnonzero(restarts.lost).tolist(),
            at_limit=limit_of(self.model, self.notes.method),
            mean_probability=None if certainty is None else certainty.mean_probability,
            toss_ups=None if certainty is None else certainty.toss_ups,
            unsure=unsure,
            rare=np.flatnonzero(rare).tolist() if measured.row_counts.size >= 10 else [],
            worst_row=self.row_name(int(worst[0])) if worst.size else None,
            worst_ratio=float(self.row_errors[worst[0]]) / typical if typical > 0 else 0.0,
            has_held_out=self.notes.held_out is not None,
            weights_gain=worthwhile_gain(self.model, self.notes.weights_gain),
            proven=self.proven,
            nearly_exact=self.nearly_exact,
            image_shape=self.notes.image_shape if self.full_image_shape else None,
            scale_ratio=self.scale_ratio,
            data=self.notes.data_file,
            reading=self.notes.reading,
            model_file=self.notes.model_file,
        )

    @property
    def nearly_exact(self) -> tuple[str, ...]:
        """The columns that features leave next to no noise in, the quietest first."""
        noise = self.column_noise
        if noise is None:
            return ()
        spread = self.measured.column_spreads
        share = np.divide(noise.noise, spread, out=np.ones(spread.size), where=spread > 0)
        quiet = np.flatnonzero(noise.takes_part & (share < wording.NEARLY_EXACT))
        order = quiet[np.argsort(share[quiet], kind="stable")]
        return tuple(self.column_name(int(column)) for column in order)

    @property
    def scale_ratio(self) -> float | None:
        """How far spreads differ, if that is too far for the model."""
        images = self.full_image_shape is not None
        return spreads_too_far_apart(self.model, self.measured.column_spreads**2, images=images)

    @property
    def proven(self) -> float | None:
        """Share of the rows whose code the fit proved to be the best; None if it did not try."""
        return share_proven(self.model)

    @property
    def seconds(self) -> float | None:
        """How long the fit took."""
        if self.notes.seconds is not None:
            return self.notes.seconds
        passed = self.model.history_.get("seconds", ())
        return float(passed[-1]) if len(passed) else None

    def parameters(self) -> list[tuple[str, str]]:
        """Settings of the estimator."""
        given = sorted(self.model.get_params().items())
        return [(name, _short(repr(value))) for name, value in given if name not in OF_THE_RUN]

    def learned(self) -> list[tuple[str, str]]:
        """Numbers that the fit learned; of those of the columns the root mean square and range."""
        names = {
            "noise_std_": "standard deviation of the noise",
            "factor_std_": "scale of the patterns",
            "alpha_": "expected features per row (alpha)",
            "code_rate_": "rate of the codes",
            "factor_rate_": "rate of the patterns",
            "evidence_": "evidence (log)",
        }
        return [
            (said, wording.level(getattr(self.model, name), 5))
            for name, said in names.items()
            if hasattr(self.model, name)
        ]

    def worst_rows(self) -> list[dict[str, Any]]:
        """The rows that are explained worst; each is in the explorer."""
        return [
            {
                "row": int(row),
                "name": self.row_name(int(row)),
                "error": wording.number(float(self.row_errors[row]), padded=True),
                "features": int(self.measured.row_features[row]),
            }
            for row in self.shown.worst[:WORST_LISTED]
        ]

    def worst_columns(self) -> list[dict[str, str]]:
        """The columns that are explained worst, with their own spread to compare.

        Where each has its own noise, and may have its own unit, by the share that is unexplained.
        """
        noise = self.column_noise
        worst = worst_first(self.measured.column_errors) if noise is None else noise.unexplained
        return [self._about_column(int(column)) for column in worst[:WORST_LISTED]]

    def loudest_columns(self) -> list[dict[str, str]]:
        """Columns of much noise."""
        noise = self.column_noise
        loudest = () if noise is None else noise.loudest
        return [self._about_column(int(column)) for column in loudest]

    def quietest_columns(self) -> list[dict[str, str]]:
        """Columns of little noise."""
        noise = self.column_noise
        quietest = () if noise is None else noise.quietest
        return [self._about_column(int(column)) for column in quietest]

    def _about_column(self, column: int) -> dict[str, str]:
        error = float(self.measured.column_errors[column])
        spread = float(self.measured.column_spreads[column])
        noise = np.broadcast_to(self.model.noise_std_, self.measured.column_counts.shape)
        return {
            "name": self.column_name(column),
            "noise": wording.number(float(noise[column]), padded=True),
            "error": wording.number(error, padded=True),
            "spread": wording.number(spread, padded=True),
            "explained": wording.explained(1.0 - (error / spread) ** 2)
            if spread > 0
            else wording.NOTHING,
        }

    def payload(self) -> dict[str, Any]:
        """What the scripts of the page draw."""
        shown, measured = self.shown, self.measured
        columns = shown.columns
        return {
            "image": shown.image_shape,
            "signed": self.signed,
            "codes": self.code_kind,
            "history": self._history(),
            "columns": [self.column_name(int(column)) for column in columns],
            "column_numbers": columns.tolist(),
            "all_columns": columns.size == measured.column_counts.size,
            "intercept": packed(self.model.intercept_[columns]),
            "components": packed(self.model.components_[:, columns]),
            "features": self._features(),
            "pairs": self._pairs(),
            "restarts": self._restarts(),
            "rows": {
                "numbers": shown.rows.tolist(),
                "names": [self.row_name(int(row)) for row in shown.rows],
                "worst": shown.worst.tolist(),
                "values": packed(self.row_values),
                "codes": packed(self.row_codes),
            },
            "row_errors": _histogram(self.row_errors),
            "noise": self._noise_picture(),
        }

    def _noise_picture(self) -> str | None:
        """The noise of the pixels that are shown, nothing where a pixel took no part."""
        noise = self.column_noise
        if noise is None or self.shown.image_shape is None:
            return None
        return packed(np.where(noise.takes_part, noise.noise, np.nan)[self.shown.columns])

    def _history(self) -> dict[str, Any]:
        """The fit sweep by sweep; of very many sweeps some, evenly spread, with both ends."""
        history = self.model.history_
        known = {name: history.get(name, ()) for name in ("evidence", "n_components", "seconds")}
        n_sweeps = len(known["evidence"])
        at = np.unique(np.linspace(0, n_sweeps - 1, min(n_sweeps, MOST_SWEEPS)).astype(np.int64))
        kept = {
            name: plain(np.asarray(values)[at], HISTORY_DIGITS) if len(values) == n_sweeps else []
            for name, values in known.items()
        }
        return {"sweeps": (at + 1).tolist(), **kept}

    def _features(self) -> dict[str, Any]:
        in_noise = patterns_in_noise(self.model)
        top = top_columns(in_noise)
        named = sorted(set(top.ravel().tolist())) if self.shown.image_shape is None else []
        place = {column: i for i, column in enumerate(named)}
        n_rows = max(self.measured.row_counts.size, 1)
        certainty, restarts = self.certainty, self.restarts
        return {
            "counts": self.measured.on_counts.tolist(),
            "shares": plain(self.measured.on_counts / n_rows),
            "strength": plain(self.strength),
            "agreement": plain(restarts.agreement),
            "came_back": restarts.times_back.tolist(),
            "confidence": plain(None if certainty is None else certainty.feature_probability),
            "largest_codes": packed(self.measured.largest_codes),
            "weights": self._weights(),
            "weight_std": plain(self.weight_spreads),
            "top_names": [self.column_name(column) for column in named],
            "top": [[place[c] for c in columns] for columns in top.tolist()] if named else None,
            # What stands beside the bars is in the data's units, their lengths can be compared.
            "top_values": _taken(self.model.components_, top) if named else None,
            "top_lengths": _taken(in_noise, top) if named else None,
        }

    def _weights(self) -> list[dict[str, Any]] | None:
        """How far the weights of each feature spread, and how many rows have how much of it."""
        spreads, weights = self.weight_spreads, self.measured.weights
        if spreads is None or weights is None:
            return None
        described = []
        for k, spread in enumerate(spreads):
            counts, width = weights.histogram(k)
            described.append(
                {
                    "varies": bool(vary(spread)),
                    "said": wording.weights(float(spread)),
                    "counts": counts.tolist(),
                    "width": plain_number(width),
                }
            )
        return described

    def _pairs(self) -> dict[str, Any] | None:
        """Correlations of the commonest features, ordered so that those alike are neighbours."""
        if self.n_components < 2:
            return None
        measured = self.measured
        common = np.argsort(-measured.on_counts, kind="stable")[:MATRIX_FEATURES]
        chosen = np.sort(common)
        chosen = chosen[_similar_beside(measured.correlation[np.ix_(chosen, chosen)])]
        block = np.ix_(chosen, chosen)
        return {
            "features": chosen.tolist(),
            "correlation": packed(measured.correlation[block]),
            "together": packed(measured.together[block]),
            "n_rows": int(measured.row_counts.size),
        }

    def _restarts(self) -> dict[str, Any] | None:
        restarts = self.restarts
        if restarts.n_restarts < 2 or not self.n_components:
            return None
        agreement = restarts.similarity.mean(axis=0)
        chosen = np.argsort(-agreement, kind="stable")[:MATRIX_FEATURES]
        return {
            "features": chosen.tolist(),
            "restarts": (restarts.others + 1).tolist(),
            "similarity": packed(restarts.similarity[:, chosen]),
            "thresholds": [CAME_BACK, IN_PART],
        }


def gather(
    model: Any,
    X: Any,
    *,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    max_rows: int = MAX_ROWS,
    random_state: int = 0,
) -> ReportContent:
    """Measure a fitted model on data, with the arguments of `write_report`."""
    check_is_fitted(model)
    if max_rows < 1:
        raise InvalidValueError(f"max_rows must be at least 1; it is {max_rows}.")
    reader = DataReader(model, X)
    notes = Notes.of(model)
    row_names = _names(row_names, reader.row_names, reader.n_rows, "row")
    column_names = _names(column_names, reader.column_names, reader.n_columns, "column")
    shape = _checked_shape(image_shape, notes.image_shape, reader.n_columns)
    measured = measure(reader)
    shown = choose(
        patterns_in_noise(model),
        errors_of_rows(model, measured),
        image_shape=shape,
        max_rows=max_rows,
        random_state=random_state,
    )
    matrix = reader.matrix(shown.rows)
    values = matrix[:, shown.columns]
    return ReportContent(
        model=model,
        notes=notes,
        measured=measured,
        certainty=certainty_of(reader, random_state),
        restarts=restarts_of(model),
        shown=shown,
        row_values=values.toarray() if reader.sparse else values,
        row_codes=reader.codes(shown.rows, matrix),
        row_names=row_names,
        column_names=column_names,
        full_image_shape=shape,
    )


def errors_of_rows(model: Any, measured: Measurements) -> FloatArray:
    """What rows are compared by: errors in units of the noise, where columns may differ in unit."""
    return measured.row_misfits if np.ndim(model.noise_std_) else measured.row_errors


def _names(
    given: Sequence[str] | None, known: Sequence[str] | None, n: int, what: str
) -> Sequence[str] | None:
    """The names that were given, or else those that the data have."""
    names = known if given is None else given
    if names is not None and len(names) != n:
        raise InvalidValueError(f"There are {len(names)} {what} names for {n} {what}s.")
    return names


def _checked_shape(
    given: tuple[int, int] | None, noted: tuple[int, int] | None, n_columns: int
) -> tuple[int, int] | None:
    """The shape that was asked for; one that was only noted is dropped if it does not fit."""
    if given is None:
        fits = noted is not None and noted[0] * noted[1] == n_columns
        return noted if fits else None
    try:
        height, width = (index(side) for side in given)
    except (TypeError, ValueError):
        raise InvalidValueError(
            f"image_shape must be two whole numbers, height and width; it is {given!r}."
        ) from None
    if height < 1 or width < 1 or height * width != n_columns:
        raise InvalidValueError(
            f"An image of {height} x {width} has {height * width} pixels, but the data have "
            f"{n_columns} columns."
        )
    return height, width


def _taken(patterns: Any, columns: IntArray) -> list[Any]:
    """Some columns of each pattern."""
    return [plain(row) for row in np.take_along_axis(np.asarray(patterns), columns, axis=1)]


def _similar_beside(correlation: FloatArray) -> IntArray:
    """An order in which features that are on together stand side by side."""
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering

    if correlation.shape[0] < 3:
        return np.arange(correlation.shape[0])
    distance = (1.0 - correlation)[np.triu_indices_from(correlation, k=1)]
    tree = linkage(np.maximum(distance, 0.0), method="average")
    return np.asarray(leaves_list(optimal_leaf_ordering(tree, distance)), dtype=np.int64)


def _histogram(errors: FloatArray) -> dict[str, Any] | None:
    seen = errors[np.isfinite(errors)]
    if not seen.size:
        return None
    low, high = float(seen.min()), float(seen.max())
    if high - low <= 1e-9 * max(high, 1e-300):  # all alike
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    counts, edges = np.histogram(seen, bins=HISTOGRAM_BINS, range=(low, high))
    return {
        "counts": counts.tolist(),
        "edges": plain(edges),
        "median": plain_number(np.median(seen)),
    }


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
