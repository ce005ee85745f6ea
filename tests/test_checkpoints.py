"""Checkpoints: a fit goes on as if nothing had happened, or says why it does not."""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import warnings
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import ibp
from ibp import checkpoints, loop
from ibp.atomic_files import UNCHANGED, atomic, remove_leftovers
from ibp.checkpoints import FIT, CheckpointFile, Identity, read
from ibp.data import Fingerprint, Observations, as_source, summarize
from ibp.data.fingerprint import BLOCK_ROWS, BLOCKS, sampled_blocks
from ibp.errors import CheckpointError, CheckpointWarning, FitInterrupted
from ibp.methods.base import SweepRecord
from ibp.methods.samples import PosteriorSamples
from ibp.methods.state import State
from ibp.registry import CARDS
from tiny_fits import MODES

TESTS = Path(__file__).resolve().parent
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::ibp.errors.EndingWarning"),
    pytest.mark.filterwarnings("ignore:burn_in=.* left none"),
]
# Settings that make fits short, or let them do more of what they can.
QUICK = {
    "aibp": {"thin": 2},
    "t-ugibbs": {"thin": 2, "burn_in": 3, "factors": "gaussian"},
    "bs-ibp": {"beam_width": 3, "order": "random", "max_iter": 3},
    "inmf": {"n_components": None, "tol": 1e-2},
}
ESTIMATORS = {
    label: ibp.METHODS[label](
        **{"n_components": 3, "max_iter": 12, "learn_hyperparameters": True} | QUICK.get(label, {})
    )
    for card in CARDS.values()
    for label in card.labels
} | {
    f"MEIBP, {mode}": ibp.MEIBP(**MODES[mode])
    for mode in ("moves", "restarts", "row by row", "randomized_double_greedy", "lof")
}


def make_data(n=30, d=8, seed=0):
    rng = np.random.default_rng(seed)
    factors = np.kron(np.eye(2), np.ones(d // 2)) * 2.0
    return np.abs((rng.random((n, 2)) < 0.4) @ factors + rng.normal(0.0, 0.3, size=(n, d)))


def meibp(**settings):
    given = {"n_components": 4, "init": "random", "moves": False, "tol": 0, "max_iter": 30}
    return ibp.MEIBP(**(given | {"random_state": 0, "n_jobs": 1} | settings))


def sampler(**settings):
    """Fits that last for as many sweeps as they are given, drawing all the time."""
    given = {"max_iter": 8, "thin": 2, "random_state": 0, "n_jobs": 1}
    return ibp.AcceleratedGibbs(**(given | settings))


def assert_same_fit(one, other):
    """All attributes that fitting gives, bit for bit, but for the seconds."""
    ours, theirs = (
        {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}
        for model in (one, other)
    )
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        values = {name: (value, theirs[name])}
        if isinstance(value, PosteriorSamples):
            values = {
                f.name: (getattr(value, f.name), getattr(theirs[name], f.name))
                for f in fields(value)
            }
        if isinstance(value, dict):
            assert value.keys() == theirs[name].keys()
            values = {k: (v, theirs[name][k]) for k, v in value.items() if k != "seconds"}
        for part, (mine, their) in values.items():
            np.testing.assert_array_equal(their, mine, err_msg=f"{name}, {part}", strict=True)


class Patience:
    """Stands in for a stopwatch's limit: so many questions are answered with no, then yes."""

    left = 0

    def expired(self, stopwatch):
        if stopwatch.limit is None:
            return False
        self.left -= 1
        return self.left < 0


@pytest.fixture
def patience(monkeypatch):
    limit = Patience()
    monkeypatch.setattr(loop.Stopwatch, "expired", lambda self: limit.expired(self))
    return limit


def stop_after(n):
    return lambda progress: progress.iteration >= n


# A fit goes on


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_that_is_cut_short_again_and_again_ends_as_one_that_is_not(name, patience, tmp_path):
    estimator = clone(ESTIMATORS[name]).set_params(random_state=0, n_init=2, n_jobs=1)
    X, path = make_data(), tmp_path / "run.ckpt"
    whole = clone(estimator).fit(X)
    sittings, questions = 0, 2
    while True:
        patience.left = questions
        model = clone(estimator).set_params(checkpoint=path, resume=True, time_limit=1.0).fit(X)
        sittings += 1
        if patience.left >= 0:
            break
        assert not read_header(path)["finished"]
        questions *= 3
    assert sittings > 2
    assert read_header(path)["finished"]
    assert_same_fit(model, whole)
    # Once more, from the end.
    assert_same_fit(clone(model).fit(X), whole)


def read_header(path):
    start = Path(f"{path}.start")
    return read(path if path.exists() else start, FIT)[0]


@pytest.mark.parametrize("make", [meibp, sampler])
def test_a_fit_goes_on_after_every_sweep(make, tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"
    whole = make(n_init=2, max_iter=4).fit(X)
    iterations = []
    for _ in range(8):
        model = make(n_init=2, max_iter=4, checkpoint=path, resume=True)
        model.set_params(
            callbacks=lambda progress: (
                iterations.append((progress.restart, progress.iteration)) or True
            )
        )
        model.fit(X)
    assert iterations == [(restart, sweep) for restart in (1, 2) for sweep in range(1, 5)]
    model = make(n_init=2, max_iter=4, checkpoint=path, resume=True).fit(X)
    assert_same_fit(model, whole)


@dataclass
class WalkState(State):
    """How far a walk is, and what has happened on the way."""

    place: float
    looks: int = 0
    united: int = 0


class Walk:
    """Draws, looks again, and unites, and may be cut short in each."""

    climbs = True

    def init(self, context):
        return WalkState(sum(context.rng.random() for _ in range(3) if not context.should_stop()))

    def step(self, context, state):
        for _ in range(2):
            if not context.should_stop():
                state.place += context.rng.random()
        return self.report(context, state)

    def report(self, context, state):
        evidence = 1000.0 + state.place + 10.0 * state.united + 100.0 * state.looks
        return SweepRecord(evidence, 1, 0, -1.0, values={"united": state.united})

    def look_again(self, context, state):
        state.looks += 1
        return state.looks % 3 > 0

    def unite(self, context, state, other):
        for _ in range(2):
            if not context.should_stop():
                state.united += 1
                state.place += context.rng.random() * other.place
        return self.report(context, state)


def walk(path, limit):
    """Three restarts of a walk, from the checkpoint if there is one; and whether they ended."""
    unit = Observations.from_array(np.ones((1, 1)))
    identity = Identity({}, Fingerprint.of(unit.source, unit.summary))
    file = CheckpointFile(path, 1e9, identity, resume=True, warn=warnings.warn)
    generators = [np.random.default_rng(i) for i in range(3)]
    settings = {"max_iter": 6, "tol": 1.0, "time_limit": limit, "checkpoint": file}
    result = loop.run(Walk(), unit, generators, **settings)
    seen = [result.state.to_arrays(), result.history.to_arrays(), {"ending": result.ending}]
    seen.append({"generators": [generator.random() for generator in generators]})
    for arrays in seen:
        arrays.pop("seconds", None)
    return seen, read(path, FIT)[0]["finished"]


@pytest.mark.parametrize("between_copies", [0, 1e12], ids=["always", "where needed"])
def test_it_does_not_matter_where_a_fit_was_cut(between_copies, patience, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "BETWEEN_COPIES", between_copies)
    whole, finished = walk(tmp_path / "whole.ckpt", None)
    assert finished
    for questions in itertools.count():
        path = tmp_path / f"{questions}.ckpt"
        patience.left = questions
        first, finished = walk(path, 1.0)
        if patience.left >= 0:
            break
        assert not finished
        second, finished = walk(path, None)
        assert finished
        np.testing.assert_equal(second, whole)
    assert questions > 40
    np.testing.assert_equal(first, whole)


def test_without_a_file_a_fit_begins_and_what_it_writes_changes_nothing(tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"
    model = sampler(checkpoint=str(path), resume=True, checkpoint_seconds=0).fit(X)
    assert_same_fit(model, sampler().fit(X))
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]


def test_more_sweeps_follow_those_that_were_made(tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"
    sampler(max_iter=4, checkpoint=path).fit(X)
    longer = sampler(max_iter=9, checkpoint=path, resume=True).fit(X)
    assert_same_fit(longer, sampler(max_iter=9).fit(X))
    fewer = sampler(max_iter=2, checkpoint=path, resume=True).fit(X)
    assert fewer.n_iter_ == 9  # what is done is done


@pytest.mark.parametrize(
    "random_state",
    [
        lambda: None,
        lambda: np.random.RandomState(3),
        lambda: np.random.Generator(np.random.MT19937(3)),
        lambda: np.random.Generator(np.random.Philox(3)),
        lambda: np.random.Generator(np.random.SFC64(3)),
    ],
    ids=["None", "RandomState", "MT19937", "Philox", "SFC64"],
)
def test_generators_are_kept_whatever_they_are(random_state, tmp_path):
    X, path, early = make_data(), tmp_path / "run.ckpt", tmp_path / "early.ckpt"

    def copy_once(progress):
        if progress.iteration == 3 and not early.exists():
            shutil.copy(path, early)

    settings = {"n_init": 2, "checkpoint_seconds": 0}
    whole = sampler(
        random_state=random_state(), checkpoint=path, callbacks=copy_once, **settings
    ).fit(X)
    resumed = sampler(random_state=random_state(), checkpoint=early, resume=True, **settings).fit(X)
    assert_same_fit(resumed, whole)


class Rows:
    """A source of rows that are nowhere in one piece."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def rows(self, rows):
        return self.values[rows]


def mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "form",
    [
        lambda X, folder: X.astype(np.float32),
        mapped,
        lambda X, folder: Rows(X),
        lambda X, folder: sparse.csr_array(np.where(X < 0.5, 0.0, X)),
        lambda X, folder: np.where(X < 0.1, np.nan, X),
    ],
    ids=["single precision", "mapped", "source", "sparse", "missing"],
)
def test_data_of_every_form_are_known_again(form, tmp_path):
    path = tmp_path / "run.ckpt"
    settings = {"n_init": 2, "max_iter": 4}
    whole = meibp(**settings).fit(form(make_data(), tmp_path))
    for _ in range(2):
        meibp(**settings, checkpoint=path, resume=True, callbacks=stop_after(2)).fit(
            form(make_data(), tmp_path)
        )
    model = meibp(**settings, checkpoint=path, resume=True).fit(form(make_data(), tmp_path))
    assert_same_fit(model, whole)
    with pytest.raises(CheckpointError, match="other data"):
        meibp(**settings, checkpoint=path, resume=True).fit(form(make_data(seed=1), tmp_path))


def test_a_start_by_another_method_has_a_checkpoint_of_its_own(tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"
    settings = {"init": "meibp-default", "n_components": 2, "max_iter": 4, "random_state": None}
    first = sampler(**settings, checkpoint=path, callbacks=stop_after(2)).fit(X)
    start = read(Path(f"{path}.start"), FIT)[0]
    assert start["finished"] and start["settings"]["estimator"] == "MEIBP"
    second = sampler(**settings, checkpoint=path, resume=True).fit(X)
    assert second.history_["evidence"][:2].tolist() == first.history_["evidence"].tolist()


# Time


def test_seconds_go_on_and_the_limit_begins_anew(tmp_path, monkeypatch):
    X, path = make_data(), tmp_path / "run.ckpt"
    readings = itertools.count()  # a second passes whenever the clock is read
    monkeypatch.setattr(loop, "present_clock", lambda: lambda: float(next(readings)))
    totals = [0.0]
    for _ in range(3):
        model = sampler(max_iter=1000, checkpoint=path, resume=True, time_limit=200.0).fit(X)
        assert model.ending_ == "time_limit"
        assert (np.diff(model.history_["seconds"]) > 0).all()
        totals.append(model.history_["seconds"][-1])
    assert (np.diff(totals) > 100).all()


def test_checkpoints_are_written_when_they_are_due_and_no_more(tmp_path, monkeypatch):
    written = []
    real = checkpoints.write

    def write(path, of, identity, header, arrays):
        written.append(header["n_sweeps"])
        real(path, of, identity, header, arrays)

    monkeypatch.setattr(checkpoints, "write", write)
    sampler(checkpoint=tmp_path / "a", checkpoint_seconds=3600).fit(make_data())
    assert written == [0, 8]  # at the beginning, and at the end
    written.clear()
    sampler(checkpoint=tmp_path / "b", checkpoint_seconds=0).fit(make_data())
    assert written == [0, 0, *range(1, 9), 8]


# Ctrl-C and errors


def test_ctrl_c_leaves_a_checkpoint_and_says_so(python_interrupts, tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"

    def interrupt(progress):
        if progress.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    model = sampler(checkpoint=path, callbacks=interrupt)
    with pytest.raises(
        FitInterrupted, match=r"3 sweeps; with resume=True, fit goes on from .*ckpt"
    ):
        model.fit(X)
    assert read(path, FIT)[0]["n_sweeps"] == 3
    assert_same_fit(sampler(checkpoint=path, resume=True).fit(X), sampler().fit(X))


def test_an_error_in_a_callback_leaves_one_too(tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"

    def fail(progress):
        if progress.iteration == 5:
            raise RuntimeError("of mine")

    with pytest.raises(RuntimeError, match="of mine"):
        sampler(checkpoint=path, callbacks=fail).fit(X)
    assert read(path, FIT)[0]["n_sweeps"] >= 1
    assert_same_fit(sampler(checkpoint=path, resume=True).fit(X), sampler().fit(X))


# What is refused


@pytest.fixture
def unfinished(tmp_path):
    """A checkpoint of a fit that a callback has ended."""
    path = tmp_path / "run.ckpt"
    meibp(checkpoint=path, callbacks=stop_after(2)).fit(make_data())
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 2.0}, "alpha was 3.0 and is 2.0"),
        ({"random_state": 1, "tol": 0.1}, "random_state was 0 and is 1; tol was 0 and is 0.1"),
        ({"n_init": 2}, "n_init was 1 and is 2"),
        ({"hyperpriors": {"alpha": (2.0, 1.0)}}, r"hyperpriors was None and is \{'alpha': \[2"),
        ({"noise_std": np.full(8, 0.5)}, r"noise_std was None and is \[0.5, "),
        ({"init": {"Z": np.eye(30)[:, :4]}}, r"init was 'random' and is \{'Z': 'an array of shape"),
        ({"random_state": np.random.default_rng(0)}, "is 'a Generator of PCG64'"),
        ({"random_state": np.random.RandomState(0)}, "is 'a RandomState'"),
    ],
)
def test_other_settings_are_refused_and_named(unfinished, changes, words):
    before = unfinished.read_bytes()
    with pytest.raises(CheckpointError, match=f"fit with other settings: .*{words}") as caught:
        meibp(checkpoint=unfinished, resume=True, **changes).fit(make_data())
    assert str(unfinished) in str(caught.value) and "begin anew" in str(caught.value)
    assert unfinished.read_bytes() == before


def test_settings_that_change_nothing_may_change(unfinished):
    changes = {"n_jobs": 2, "verbose": 0, "time_limit": 100.0, "max_iter": 40}
    changes |= {"callbacks": None, "checkpoint_seconds": 5.0}
    moved = unfinished.rename(unfinished.with_name("elsewhere.ckpt"))
    model = meibp(checkpoint=moved, resume=True, **changes).fit(make_data())
    assert_same_fit(model, meibp(max_iter=40).fit(make_data()))


def test_a_start_is_known_again_by_its_numbers(tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"
    start, other = (ibp.BNMF(2, max_iter=3, random_state=seed).fit(X) for seed in (0, 1))
    sampler(init=start, checkpoint=path, callbacks=stop_after(2)).fit(X)
    again = ibp.BNMF(2, max_iter=3, random_state=0).fit(X)
    model = sampler(init=again, checkpoint=path, resume=True).fit(X)
    assert_same_fit(model, sampler(init=start).fit(X))
    with pytest.raises(CheckpointError, match="init was 'a fitted BNMF"):
        sampler(init=other, checkpoint=path, resume=True).fit(X)


def test_another_estimator_is_named_alone(unfinished):
    with pytest.raises(
        CheckpointError, match="settings: estimator was 'MEIBP' and is 'AcceleratedGibbs'\\. Give"
    ):
        sampler(checkpoint=unfinished, resume=True).fit(make_data())


def test_the_limit_of_sweeps_may_not_change_once_it_has_ended_a_restart(tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"

    def stop_in_second(progress):
        return progress.restart == 2

    sampler(n_init=3, checkpoint=path, callbacks=stop_in_second).fit(X)
    with pytest.raises(CheckpointError, match="max_iter was 8 and is 9"):
        sampler(n_init=3, max_iter=9, checkpoint=path, resume=True).fit(X)


def changed_entry(X):
    X[7, 3] += 1e-6
    return X


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X[:-1], "30 x 8 numbers, and now there are 29 x 8 numbers"),
        (lambda X: X.astype(np.float32), "dense float64 numbers, and now .* dense float32 ones"),
        (sparse.csr_array, "dense float64 numbers, and now .* sparse float64 ones"),
        (changed_entry, "but column 3 has other values now"),
        (lambda X: X + 1.0, "but column 0 and 7 more have other values now"),
        (lambda X: X[::-1].copy(), "but other values or another order of rows"),
    ],
)
def test_other_data_are_refused_and_named(unfinished, change, words):
    with pytest.raises(CheckpointError, match=f"fit with other data: they had .*{words}"):
        meibp(checkpoint=unfinished, resume=True).fit(change(make_data()))


def test_of_many_rows_some_are_compared_and_the_columns_of_all():
    assert [(b.start, b.stop) for b in sampled_blocks(300)] == [(0, 256), (256, 300)]
    n = 4 * BLOCKS * BLOCK_ROWS
    blocks = sampled_blocks(n)
    assert len(blocks) == BLOCKS and blocks[0].start == 0 and blocks[-1].stop == n
    X = np.random.default_rng(0).random((n, 2))

    def known():
        source = as_source(X)
        return Fingerprint.of(source, summarize(source))

    before = known()
    assert known().difference(before) == ""
    unseen = blocks[0].stop
    X[unseen, 1] += 0.1
    assert "column 1 has other values" in known().difference(before)
    X[unseen, 1] -= 0.1
    X[[0, 1]] = X[[1, 0]]
    assert "another order of rows" in known().difference(before)


def test_an_unfinished_checkpoint_is_not_replaced_unasked(unfinished):
    before = unfinished.read_bytes()
    with pytest.raises(
        CheckpointError, match=r"holds 2 sweeps of a fit that has not ended\. Set re"
    ):
        meibp(checkpoint=unfinished).fit(make_data())
    assert unfinished.read_bytes() == before
    meibp(checkpoint=unfinished, resume=True).fit(make_data())
    meibp(checkpoint=unfinished, alpha=1.0).fit(make_data(seed=1))  # that one had ended
    assert read(unfinished, FIT)[0]["settings"]["alpha"] == 1.0


@pytest.mark.parametrize("resume", [True, False])
def test_a_file_that_is_something_else_is_left_alone(resume, tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, a=np.arange(3))
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="not a checkpoint of a fit, or it is damaged"):
        meibp(checkpoint=path, resume=resume).fit(make_data())
    assert path.read_bytes() == before


def test_where_nothing_can_be_written_nothing_is_begun(tmp_path):
    swept = []
    with pytest.raises(FileNotFoundError, match=r"run\.ckpt"):
        meibp(checkpoint=tmp_path / "no" / "run.ckpt", callbacks=swept.append).fit(make_data())
    assert not swept


@pytest.mark.parametrize(
    "parameters", [{"checkpoint": 3}, {"checkpoint_seconds": -1.0}, {"resume": "yes"}]
)
def test_parameters_are_checked(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        meibp(**parameters).fit(make_data())


# Damage


def test_damage_is_one_sentence(unfinished, tmp_path):
    whole = unfinished.read_bytes()
    reference = meibp().fit(make_data())
    rng = np.random.default_rng(0)
    refused = 0
    damaged = tmp_path / "damaged.ckpt"
    cuts = [whole[:length] for length in (0, 1, 100, len(whole) // 2, len(whole) - 1)]
    flips = []
    for place in rng.integers(len(whole), size=40):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        flips.append(bytes(flipped))
    for content in cuts + flips:
        damaged.write_bytes(content)
        try:
            model = meibp(checkpoint=damaged, resume=True).fit(make_data())
        except CheckpointError as error:
            assert str(error).count("\n") == 0 and "damaged" in str(error)
            refused += 1
        else:
            assert_same_fit(model, reference)  # a bit that nobody reads
    assert refused >= 30


def rewritten(path, change):
    """A checkpoint with its header and arrays changed, and its checksums right."""
    with np.load(path) as members:
        arrays = dict(members)
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: header.pop("generators"),
        lambda header, arrays: header.update(restart="1"),
        lambda header, arrays: header["runs"]["current"].update(state_class="dict"),
        lambda header, arrays: header["data"].pop("digest"),
        lambda header, arrays: header["generators"][0].update(bit_generator="MT19937"),
        lambda header, arrays: arrays.pop("current.state.assignments"),
        lambda header, arrays: arrays.pop("current.history.evidence"),
        lambda header, arrays: header.update(generators=[]),
    ],
)
def test_so_is_what_does_not_fit_together(unfinished, change):
    rewritten(unfinished, change)
    with pytest.raises(CheckpointError, match="is not a checkpoint of a fit, or it is damaged"):
        meibp(checkpoint=unfinished, resume=True).fit(make_data())


def test_one_of_another_version_is_told(unfinished):
    rewritten(unfinished, lambda header, arrays: header.update(ibp="99.0"))
    with pytest.raises(CheckpointError, match="was written by ibp 99"):
        meibp(checkpoint=unfinished, resume=True).fit(make_data())


def test_nothing_is_unpacked_or_executed_that_should_not_be(unfinished, tmp_path):
    objects = tmp_path / "objects.ckpt"
    with objects.open("wb") as file:
        np.savez(file, header=np.array([print], dtype=object), allow_pickle=True)
    large = tmp_path / "large.ckpt"
    with (
        zipfile.ZipFile(unfinished) as source,
        zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
        target.writestr("zeros.npy", bytes(10_000_000))
    for path in (objects, large):
        with pytest.raises(CheckpointError, match="damaged"):
            meibp(checkpoint=path, resume=True).fit(make_data())


# A full disk


@contextmanager
def largest_file(size):
    """Let the system refuse to write files that are larger, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_does_not_end_a_fit(tmp_path):
    X, path = make_data(), tmp_path / "run.ckpt"
    whole_checkpoints = []
    allowed, hardest = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up(progress):
        if progress.iteration == 3:
            whole_checkpoints.append(path.read_bytes())
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hardest))

    with (
        largest_file(allowed),
        pytest.warns(CheckpointWarning, match="the last whole checkpoint") as told,
    ):
        model = sampler(checkpoint=path, checkpoint_seconds=0, callbacks=fill_up).fit(X)
    assert os.strerror(errno.EFBIG) in str(told[0].message) and str(path) in str(told[0].message)
    assert path.read_bytes() == whole_checkpoints[0]
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]
    assert_same_fit(model, sampler().fit(X))
    assert_same_fit(sampler(checkpoint=path, resume=True).fit(X), model)


def test_a_disk_that_is_full_from_the_beginning_is_an_error(tmp_path):
    swept = []
    with largest_file(1000), pytest.raises(OSError, match="File too large"):
        sampler(checkpoint=tmp_path / "run.ckpt", callbacks=swept.append).fit(make_data())
    assert not swept and not [*tmp_path.iterdir()]


def test_a_model_that_does_not_fit_on_the_disk_leaves_the_one_before(tmp_path):
    path = tmp_path / "model.ibp"
    model = meibp(max_iter=2).fit(make_data())
    model.save(path)
    before = path.read_bytes()
    with largest_file(1000), pytest.raises(OSError, match="File too large") as caught:
        model.save(path)
    assert caught.value.__notes__ == [UNCHANGED]
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
    with largest_file(1000), pytest.raises(OSError, match="File too large") as caught:
        model.save(tmp_path / "new.ibp")
    assert not hasattr(caught.value, "__notes__") and [*tmp_path.iterdir()] == [path]


def test_what_a_killed_process_leaves_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "run.ckpt"
    with atomic(path) as file:
        (left,) = tmp_path.iterdir()
        file.write(b"whole")
    others = [tmp_path / name for name in ("run.ckpt-2", ".run.ckpt", "x.tmp")]
    others.append(tmp_path / left.name.replace("run.ckpt", "other.ckpt"))
    for other in (left, *others):
        other.write_bytes(b"half")
    remove_leftovers(path)
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_what_is_being_written_of_a_file_with_a_name_as_long_is_not_removed(tmp_path):
    beginning = 50 * "long-"[:4]
    with atomic(tmp_path / f"{beginning}1.ckpt") as file:
        remove_leftovers(tmp_path / f"{beginning}2.ckpt")
        file.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == [f"{beginning}1.ckpt"]


# Killed processes


def run_killer(*arguments):
    finished = subprocess.run(
        [sys.executable, str(TESTS / "killing.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return json.loads(finished.stdout)


def test_a_killed_fit_goes_on(tmp_path):
    told = run_killer("forked", tmp_path, 3)
    assert told["kills"] == 3 and told["checkpoints_read"] > 1
    assert told["left"] == ["model.ibp", "run.ckpt"]
    assert_same_models(tmp_path / "model.ibp", tmp_path / "whole" / "model.ibp")
    assert told["tables"] == "the same"


@pytest.mark.long
def test_a_killed_command_goes_on(tmp_path):
    told = run_killer("commands", tmp_path, 20)
    assert told["kills"] == 20
    assert told["left"] == ["data.npy", "model.ibp", "run.ckpt"]
    assert_same_models(tmp_path / "model.ibp", tmp_path / "whole" / "model.ibp")


def assert_same_models(*paths):
    models = [ibp.load(path) for path in paths]
    for model in models:
        model.notes_ = {}  # which has the time of day
    assert_same_fit(*models)
