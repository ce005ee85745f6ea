"""Numbers and facts as people say them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ibp.errors import counted
from ibp.registry import CARDS, DEFAULT_METHOD
from ibp.report.codes import vary
from ibp.report.trust import Limit

ENDINGS = {
    "converged": "It stopped by itself, because nothing changed any more",
    "max_iter": "It was stopped by the limit of sweeps, before it had settled",
    "time_limit": "It was stopped by the time limit, before it had settled",
    "callback": "It was stopped by a callback",
    "interrupted": "It was interrupted, and the best model so far was kept",
}
# Of a fit that would not settle however long it ran, such as a sampler's.
OPEN_ENDINGS = {
    "converged": "It came to its own end",
    "max_iter": "It made as many sweeps as it was asked for, and would not have stopped by itself",
    "time_limit": "It was stopped by the time limit, and would not have stopped by itself",
}
SHORT_ENDINGS = {
    "converged": "settled",
    "max_iter": "limit of sweeps",
    "time_limit": "time was up",
    "callback": "stopped by a callback",
    "interrupted": "interrupted",
}
NOTHING = "\N{EN DASH}"
# What a method does if its codes are weighted, in place of what its card says.
DOES_WITH_WEIGHTS = (
    "finds features with nonnegative patterns, and how much of each a row has, by climbing the "
    "evidence"
)
# Below these a number is worth a word.
LITTLE_EXPLAINED = 0.3
MANY_TOSS_UPS = 0.05
# Fewer rows than this share are few to be proven optimal.
FEW_PROVEN = 0.5
MOST_RETURNED = 0.8
# Fewer starts cannot tell that features do not hang on them.
FEWEST_STARTS = 3
# Starts whose evidence differs by more than this share of what features gain end far apart.
WIDE_SPREAD = 0.01
# Evidence that differs by less, in nats, is the same.
NO_SPREAD = 0.05
# A column is explained to the last digit if its noise is less than this part of its spread.
NEARLY_EXACT = 0.03
FEW_ROWS = 3
FAR_OUT = 4.0
MOST_NAMED = 6


@dataclass(frozen=True)
class Advice:
    """Something to do next, or to know: ``kind`` is "do", "look" or "good"."""

    kind: str
    title: str
    text: str
    command: str | None = None


def percent(share: float, digits: int = 0) -> str:
    """A share in percent; never 0 % or 100 % unless it is."""
    if not math.isfinite(share):
        return NOTHING
    text = f"{100.0 * share:.{digits}f}"
    smallest = 10.0**-digits
    if share > 0 and float(text) == 0:
        return f"under {smallest:.{digits}f} %"
    if share < 1 and float(text) == 100:
        return f"over {100.0 - smallest:.{digits}f} %"
    return f"{text} %"


def explained(share: float) -> str:
    """A share of the variance; below zero the columns' means would have done better."""
    return "none" if share < 0 else percent(share)


def of_the_variance(facts: Facts) -> str:
    """What a share of the variance is a share of: columns with noise of their own count alike."""
    return "of the variance of a column, on average" if facts.own_noise else "of the variance"


def probability(share: float, digits: int = 1) -> str:
    """How sure something is: rounding may say 1, but nothing here is certain."""
    return percent(min(share, 1.0 - 1e-9), digits)


def number(value: float, digits: int = 3, *, padded: bool = False) -> str:
    """A number with few digits; padded with zeros if it stands in a table."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    size = abs(float(f"{value:.{digits}g}"))  # so that 9.999 has the places of 10
    if 1e-3 <= size < 1e6:
        places = max(digits - 1 - math.floor(math.log10(size)), 0)
        text = f"{value:,.{places}f}"
        return text.rstrip("0").rstrip(".") if "." in text and not padded else text
    return f"{value:.{digits - 1}e}"


def weights(spread: float) -> str:
    """How far the weights of a feature spread about 1."""
    return f"varies by about {percent(spread)}" if vary(spread) else "yes or no"


def with_weights(n_components: int, n_weighted: int) -> str:
    """How many of the features rows have more or less of: 9 of them with weights."""
    if n_components == 1:
        return f"with{'' if n_weighted else 'out'} weights"
    if n_weighted == n_components:
        return "all of them with weights"
    return f"{n_weighted or 'none'} of them with weights"


def level(value: Any, digits: int = 3) -> str:
    """A number, or of one for each column the root mean square and the range."""
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    largest = float(np.max(values, initial=0.0))
    if values.size < 2 or not largest > 0:
        return number(float(values.sum()), digits)
    mean = largest * math.sqrt(float(np.mean((values / largest) ** 2)))
    low, high = number(float(values.min())), number(largest)
    return number(mean, digits) if low == high else f"{number(mean)} (columns {low} to {high})"


def seconds(value: float) -> str:
    """A duration."""
    if value < 1:
        return f"{max(value, 0.01):.2f} seconds"
    if value < 120:
        text = f"{value:.1f}".removesuffix(".0")
        return f"{text} {'second' if text == '1' else 'seconds'}"
    if value < 7200:
        return f"{value / 60:.0f} minutes"
    return f"{value / 3600:.1f} hours"


def listed(features: Sequence[int]) -> str:
    """Some features by number, not too many: features 1, 4 and 7."""
    which = "feature" if len(features) == 1 else "features"
    return f"{which} {named([str(k) for k in features])}"


def named(names: Sequence[str]) -> str:
    """Some names, not too many: a, b and 7 more."""
    shown = list(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown.append(f"{len(names) - MOST_NAMED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def capital(text: str) -> str:
    """The sentence's first letter."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Facts:
    """What the sentences of the head are made of."""

    method: str
    label: str | None
    limit: int | None
    n_rows: int
    n_rows_fit: int
    n_columns: int
    missing: float
    n_components: int
    codes: str  # what they are, in a word of `ibp.report.codes.code_kind`
    codes_setting: str | None  # the parameter of that name, if there is one
    n_weighted: int  # features that rows have more or less of, if codes are weighted
    own_noise: bool  # whether each column has a noise level of its own
    variance_explained: float
    features_per_row: float
    n_unused: int
    ending: str
    settles: bool
    n_iter: int
    seconds: float | None
    n_restarts: int
    fewest_and_most: tuple[int, int]  # features of a restart
    evidence_spread: float | None  # of the restarts, in nats
    spread_of_gain: float | None  # the same as a share of what features gain
    returned: int | None  # how many features came back, None if there was one start
    returned_in_part: list[int]
    not_returned: list[int]
    at_limit: Limit | None  # None if there may be more features than were found
    mean_probability: float | None
    toss_ups: float | None
    unsure: list[int]
    rare: list[int]
    worst_row: str | None
    worst_ratio: float
    has_held_out: bool
    weights_gain: float | None = None  # what weights would gain, in nats, if that is much
    proven: float | None = None  # share of the rows whose code is known to be the best
    nearly_exact: tuple[str, ...] = ()  # columns that the features leave next to no noise in
    image_shape: tuple[int, int] | None = None  # that a fit was told
    scale_ratio: float | None = None  # of the columns' spreads, where that is too much
    data: str | None = None  # the file, as a command names it
    reading: tuple[str, ...] = ()  # and the options by which it was read
    model_file: str | None = None

    @property
    def in_amounts(self) -> bool:
        """Whether rows have more or less of a feature, and do not only have or lack it."""
        return self.codes in ("weighted", "real")


def other_restarts(n_others: int) -> str:
    """Where a feature came back that did."""
    some = {1: "the other restart", 2: "both other restarts"}
    return some.get(n_others, f"most of the {n_others} other restarts")


def came_back(returned: int, n_components: int, n_restarts: int) -> str:
    """How many features came back, and where: page and terminal say the same."""
    few = "only " if 0 < returned < MOST_RETURNED * n_components else ""
    where = other_restarts(n_restarts - 1)
    return f"{few}{returned or 'none'} of {n_components} came back in {where}"


def spread(
    fewest_and_most: tuple[int, int], evidence: float | None, share_of_gain: float | None
) -> str:
    """How far restarts differ in their number of features and their evidence."""
    fewest, most = fewest_and_most
    said = f"{fewest} to {counted(most, 'feature')}"
    if fewest == most:
        said = f"{counted(most, 'feature')} each"
    if evidence is None:
        return said
    if evidence < NO_SPREAD:
        return f"{said} and the same evidence"
    share = ""
    if share_of_gain is not None:
        share = f" ({percent(share_of_gain, 1)} of what the features gain)"
    return f"{said} and evidence up to {number(evidence)} nats apart{share}"


def limit(reached: Limit, name: str) -> str:
    """What is to be said of a fit at its limit of features, which is set by ``name``."""
    n = reached.n_components
    said = f"It has {'the one feature' if n == 1 else f'all {n:,} features'} that it may have"
    if not reached.binds:
        return f"{said}, and one more that was tried gained nothing to speak of."
    more = "whether more would be better is not known"
    if reached.gain is not None:
        more = f"one more would still gain {number(reached.gain)} nats of evidence"
    return f"{said}, and {more}: raise {name}{', or leave it out' * reached.can_be_left_out}."


def summary(facts: Facts, source: str | None) -> str:
    """What was fitted, in one paragraph."""
    card = CARDS.get(facts.method)
    name, what = (card.title, card.does) if card else (facts.method, "explains rows by features")
    what = DOES_WITH_WEIGHTS if facts.codes == "weighted" else what
    data = source or "the data"
    rows = f"{counted(facts.n_rows, 'row')} and {counted(facts.n_columns, 'column')}"
    gaps = f", {percent(facts.missing, 1)} of its entries missing" if facts.missing > 0 else ""
    parts = [f"{capital(name)} {what}. Here it looked at {data}: {rows}{gaps}."]
    if facts.n_rows_fit != facts.n_rows:
        parts.append(f"It was fitted to {counted(facts.n_rows_fit, 'row')}.")
    if facts.n_components == 0:
        parts.append("It found no feature at all: every row is explained by the base alone.")
    else:
        found = "It uses" if facts.codes == "real" else "It found"
        share = facts.variance_explained
        much = ""
        if math.isfinite(share):
            verb = "explains" if facts.n_components == 1 else "explain"
            much = f", which {verb} {explained(share)} {of_the_variance(facts)}"
        per_row = f"a row has {number(facts.features_per_row, 2)} of them on average"
        if facts.n_components == 1:
            per_row = f"{percent(facts.features_per_row)} of the rows have it"
            per_row = "no row has it" if facts.n_unused else per_row
        elif facts.n_unused == facts.n_components:
            per_row = "no row has any of them"
        elif facts.n_unused:
            per_row += f", and {facts.n_unused} of them {_is(facts.n_unused)} in no row at all"
        kinds = ""
        if facts.codes == "weighted":
            kinds = f", {with_weights(facts.n_components, facts.n_weighted)}"
        features = f"{counted(facts.n_components, 'feature')}{kinds}"
        parts.append(f"{found} {features}{much}; {per_row}.")
    took = "" if facts.seconds is None else f" in {seconds(facts.seconds)}"
    endings = ENDINGS if facts.settles else ENDINGS | OPEN_ENDINGS
    ended = endings.get(facts.ending, "It ended")
    parts.append(f"{ended}, after {counted(facts.n_iter, 'sweep')}{took}.")
    if facts.n_restarts > 1:
        parts.append(f"This is the best of {facts.n_restarts} restarts.")
    return " ".join(parts)


def advice(facts: Facts) -> list[Advice]:
    """What to do next, the most pressing first."""
    found = [*_about_features(facts), *_about_the_fit(facts), *_about_trust(facts)]
    found += _about_predictions(facts)
    if facts.n_components and not any(item.kind == "do" for item in found):
        found.append(_use(facts))
    return found


def _use(facts: Facts) -> Advice:
    placed = _command("ibp transform", facts.model_file or "model.ibp", *_read(facts))
    command = f"{placed} -o codes.csv"
    if _about_restarts(facts).kind == "good":
        has = "how much each row has of each" if facts.in_amounts else "which row has which"
        said = f"Nothing here asks for another fit. Write down {has} feature."
        return Advice("good", "Use it", said, command)
    return Advice(
        "look",
        "Use it with care",
        "To describe, rebuild and predict rows, all features together will do; do not read much "
        "into a single one, or into their number.",
        command,
    )


def _about_features(facts: Facts) -> Iterator[Advice]:
    if facts.n_components == 0:
        yield Advice(
            "do",
            "Try again with other settings",
            "No feature explained enough to be worth its place. Give it more rows, or ask for a "
            f"number of features{_or_noise(facts)}.",
            _fit_again(facts, "--components 5 --restarts 5"),
        )
        return
    if facts.at_limit is not None:
        yield _about_the_limit(facts, facts.at_limit)
    if facts.scale_ratio is not None:
        yield Advice(
            "do",
            "Columns differ in scale",
            f"The largest spread of a column is {number(facts.scale_ratio, 1)} times the smallest, "
            "and one noise level serves all, so the large ones decide what is found. If they are "
            "in different units, divide each by its spread, or let each have its own noise level: "
            f"{DEFAULT_METHOD} does that.",
            _command("ibp fit", *_read(facts)),
        )
    if facts.variance_explained < LITTLE_EXPLAINED:
        yield Advice(
            "look",
            "Much is left unexplained",
            f"The features account for {explained(facts.variance_explained)} "
            f"{of_the_variance(facts)}. "
            "The rest is noise, or something that sums of patterns cannot express.",
        )
    if facts.nearly_exact and facts.n_components:
        yield _about_nearly_exact_columns(facts.nearly_exact)
    if facts.rare:
        yield Advice(
            "look",
            f"{capital(listed(facts.rare))} {_is(len(facts.rare))} rare",
            f"In fewer than {FEW_ROWS} rows: more likely the oddity of a row than a "
            "pattern of the data.",
        )


def _about_nearly_exact_columns(names: tuple[str, ...]) -> Advice:
    return Advice(
        "look",
        f"{named(names)}: explained to the last digit",
        f"The noise left there is under {percent(NEARLY_EXACT)} of the spread. If such a column is "
        "measured and not switched on and off, several features may be digits of its values, and "
        "their number means little. Columns that say the same as another, or that have a long "
        "tail, do this: leave one out, or take logarithms.",
    )


def _about_the_limit(facts: Facts, reached: Limit) -> Advice:
    command = None
    if reached.binds:
        command = _fit_again(facts, f"--components {2 * reached.n_components}")
    return Advice(
        "do" if reached.gain is not None and reached.binds else "look",
        "The number of features is the limit that was set",
        limit(reached, "n_components"),
        command,
    )


def _or_noise(facts: Facts) -> str:
    if facts.own_noise:
        return '; if all columns have one unit, one noise level for all (noise="shared") may do'
    return ", and check that the columns are on one scale"


def _about_the_fit(facts: Facts) -> Iterator[Advice]:
    cut_off = ("max_iter", "time_limit", "interrupted") if facts.settles else ("interrupted",)
    if facts.ending in cut_off:
        more_sweeps = f"--max-sweeps {max(1000, 4 * facts.n_iter)}"
        longer = {"max_iter": more_sweeps, "time_limit": "--time-limit 10m"}
        yield Advice(
            "do",
            "Let it run longer",
            "The fit had not settled when it ended; features and evidence may still change.",
            _fit_again(facts, longer.get(facts.ending, "")),
        )
    if facts.weights_gain is not None:
        yield Advice(
            "look",
            "Rows may have more or less of a feature",
            "They have these features or lack them. Weights, and shades of one thing made one "
            f"feature, gain {facts.weights_gain:,.0f} nats of evidence in a few steps. Try both, "
            "and let hidden entries tell which predicts better.",
            _fit_again(facts, "--codes weighted"),
        )


def _about_trust(facts: Facts) -> Iterator[Advice]:
    if facts.n_components and facts.n_restarts < 2:
        yield Advice(
            "do",
            "See which features come back",
            "This was fitted once, and another start may find other features. Those that are "
            "really there tend to come back from other random starts; accidents do not.",
            _fit_again(facts, "--restarts 5"),
        )
    elif facts.n_components:
        yield _about_restarts(facts)
    if facts.toss_ups is not None and facts.toss_ups > MANY_TOSS_UPS:
        yield Advice(
            "look",
            "Many assignments are unsure",
            f"{percent(facts.toss_ups)} of all answers to whether a row has a feature are nearly a "
            f"toss-up, above all in {listed(facts.unsure)}. Count on averages rather than on "
            "single rows.",
        )
    if facts.n_components and facts.proven is not None and facts.proven < FEW_PROVEN:
        yield Advice(
            "look",
            "Few rows are proven",
            f"For {percent(facts.proven)} of the rows the search could prove that no other code "
            "explains them better; for the others it found none within its budget. More nodes for "
            "each row take longer and may find better ones.",
            _fit_again(facts, "--set node_budget=20000"),
        )


def _about_predictions(facts: Facts) -> Iterator[Advice]:
    if facts.worst_row is not None and facts.worst_ratio > FAR_OUT:
        yield Advice(
            "look",
            f"Look at {facts.worst_row}",
            f"Its error is {number(facts.worst_ratio, 2)} times that of a typical row. It may "
            "be a mistake in the data, or something that no other row has.",
        )
    if facts.n_components and not facts.has_held_out:
        yield Advice(
            "do",
            "Measure how well it predicts",
            "Nothing was hidden from this fit, so all errors here are of data that it has "
            "seen. Hide a tenth of the columns in half of the rows, and let it predict them.",
            _fit_again(facts, "--held-out 0.1"),
        )


def _about_restarts(facts: Facts) -> Advice:
    """Whether the fit hangs on its start: good if all features, and nothing else, came back."""
    returned, n_components = facts.returned or 0, facts.n_components
    fewest, most = facts.fewest_and_most
    few = returned < MOST_RETURNED * n_components
    said = came_back(returned, n_components, facts.n_restarts)
    apart = spread(facts.fewest_and_most, facts.evidence_spread, facts.spread_of_gain)
    have = f"The {facts.n_restarts} restarts have {apart}."
    doubtful = sorted(facts.returned_in_part + facts.not_returned)
    if facts.returned_in_part and facts.not_returned:
        said += f", {len(facts.returned_in_part)} in part, {listed(facts.not_returned)} not"
    elif doubtful and (returned or facts.returned_in_part):
        said += f", the others {'only in part' if facts.returned_in_part else 'not'}"
    if few:
        return Advice(
            "look",
            "Other starts find other features",
            f"{capital(said)}. {have} The data allow more than one description; what the "
            "features say together is safer than any one of them.",
        )
    if doubtful:
        return Advice("look", f"Be careful with {listed(doubtful)}", f"{said}. {have}")
    if fewest < most:
        return Advice(
            "look",
            "Other starts find another number of features",
            f"{said}, but not only they. {have} How many features there are, these data leave "
            "open.",
        )
    if facts.spread_of_gain is not None and facts.spread_of_gain > WIDE_SPREAD:
        return Advice(
            "look",
            "Starts end far apart",
            f"{said}. {have} More starts may find a better fit.",
            _fit_again(facts, f"--restarts {4 * facts.n_restarts}"),
        )
    if facts.at_limit is not None:
        return Advice(
            "look",
            "The features came back, within the limit",
            f"{said}. {have} With room for more, these features may change, too.",
        )
    if facts.n_restarts < FEWEST_STARTS:
        return Advice(
            "look",
            "The features came back, in one other start",
            f"{said}. {have} One is little to go by.",
            _fit_again(facts, f"--restarts {2 * FEWEST_STARTS}"),
        )
    return Advice(
        "good", "The features came back", f"{said}. {have} They do not hang on the start."
    )


def _fit_again(facts: Facts, options: str) -> str:
    """The command that fits by the same method with some more options."""
    label, card = facts.label, CARDS.get(facts.method)
    if label is None and card is not None and DEFAULT_METHOD not in card.labels:
        label = next(iter(card.labels))
    arguments = _read(facts)
    if facts.image_shape is not None:
        arguments += ["--image-shape", "{}x{}".format(*facts.image_shape)]
    if label:
        arguments += ["--method", label]
    preset = None if card is None else card.labels.get(label or DEFAULT_METHOD)
    usual = "binary" if preset is None else preset.settings.get("codes", "binary")
    if facts.codes_setting not in (None, usual):
        arguments += ["--codes", str(facts.codes_setting)]
    if facts.limit is not None and "--components" not in options:
        arguments += ["--components", str(facts.limit)]
    arguments += [*options.split(), "-o", facts.model_file or "model.ibp"]
    if facts.model_file is not None:  # which is there by now
        arguments.append("--force")
    return _command("ibp fit", *arguments)


def _read(facts: Facts) -> list[str]:
    """The data, and the options by which they are read; DATA stands for a file without a name."""
    return [facts.data or "DATA", *facts.reading]


def _command(name: str, *arguments: str) -> str:
    """A command with arguments as they are typed in a shell."""
    return " ".join([name, *map(shlex.quote, arguments)])


def _is(n: int) -> str:
    return "is" if n == 1 else "are"
