"""Pieces of work: in order, whoever runs them, and where errors and stops leave them."""

from __future__ import annotations

import pickle
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import ibp
from ibp.estimators.fitting import IterativeEstimator
from ibp.parallel import AHEAD, Threads, map_until, ranges
from ibp.starts.centred_matrix import call
from problems import random_data
from tiny_fits import MODES, WHOLE_ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def scaled(task, piece):
    return task * piece


def failing_at(task, piece):
    if piece == task:
        raise ZeroDivisionError(f"piece {piece}")
    return piece


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n_pieces", [0, 1, 2, 50])
def test_results_come_in_the_order_of_the_pieces(n_jobs, n_pieces):
    def later_ones_sooner(task, piece):
        time.sleep(task * (n_pieces - piece) / n_pieces)
        return piece

    with Threads(n_jobs) as threads:
        assert list(threads.map(later_ones_sooner, 0.002, iter(range(n_pieces)))) == [
            *range(n_pieces)
        ]
        assert list(threads.map(scaled, 3, range(n_pieces))) == [3 * i for i in range(n_pieces)]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_comes_with_its_piece_and_leaves_the_threads_usable(n_jobs):
    with Threads(n_jobs) as threads:
        results = threads.map(failing_at, 4, range(20))
        assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
        with pytest.raises(ZeroDivisionError, match="piece 4"):
            next(results)
        assert list(threads.map(failing_at, None, range(5))) == [*range(5)]


def test_results_do_not_pile_up():
    done, lock = [], threading.Lock()

    def note(_, piece):
        with lock:
            done.append(piece)

    with Threads(2) as threads:
        results = threads.map(note, None, range(1000))
        next(results)
        results.close()
    assert len(done) <= AHEAD * 2 + 2


def test_threads_are_started_when_they_are_needed_and_may_be_used_again():
    threads = Threads(2)
    for _ in range(2):
        n_before = threading.active_count()
        with threads:
            assert list(threads.map(scaled, 2, [1])) == [2]  # a single piece needs none
            assert threading.active_count() == n_before
            assert list(threads.map(scaled, 2, [1, 2, 3])) == [2, 4, 6]
            assert threading.active_count() > n_before
        assert threading.active_count() == n_before


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("n_wanted", [0, 3, 7, 20])
def test_pieces_are_mapped_until_a_stop(n_jobs, n_wanted):
    asked = []

    def should_stop():
        asked.append(None)
        return len(asked) > n_wanted

    with Threads(n_jobs) as threads:
        found = list(map_until(should_stop, threads, scaled, 5, range(7)))
    assert found == [(i, 5 * i) for i in range(min(n_wanted, 7))]
    assert len(asked) == min(n_wanted + 1, 7)


def test_ranges_cover_everything_once():
    assert ranges(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert ranges(6, 3) == [slice(0, 3), slice(3, 6)]
    assert ranges(0, 3) == []


class Elsewhere:
    """Runs work as another process would: all that it sees and returns has been sent there.

    The start's own work, closures over a sample in memory, stays here.
    """

    def __init__(self) -> None:
        self.sent = set()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def __reduce__(self):
        raise TypeError("an executor cannot be sent along")

    def map(self, work, task, pieces):
        if work is call:
            return (work(task, piece) for piece in pieces)
        self.sent.add(work.__name__)
        message = pickle.dumps((work, task))  # as it is now, not as it may become meanwhile
        return (self.result_of(message, pickle.dumps(piece)) for piece in pieces)

    @staticmethod
    def result_of(message, piece):
        work, task = pickle.loads(message)
        return pickle.loads(pickle.dumps(work(task, pickle.loads(piece))))


@pytest.fixture
def elsewhere(monkeypatch):
    """Hold what a call gives, its work done elsewhere, to what it gives here.

    Rows come in pieces of a few either way.
    """
    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 5)
    monkeypatch.setattr("ibp.data.observations.SPARSE_PIECE_ROWS", 5)
    monkeypatch.setattr("ibp.data.summary.ROWS_AT_ONCE", 5)

    def same(answers):
        here, executor = answers(), Elsewhere()
        with monkeypatch.context() as patched:
            patched.setattr(IterativeEstimator, "_executor", lambda self: executor)
            there = answers()
        for answer, other in zip(here, there, strict=True):
            assert_array_equal(other, answer)
        return executor.sent

    return same


def planted(n_rows, missing, is_sparse=False):
    """Data with features that survive."""
    rng = np.random.default_rng(3)
    codes = rng.random((n_rows, 3)) < 0.5
    X = codes @ rng.uniform(2.0, 4.0, (3, 7)) + 0.3 * rng.normal(size=(n_rows, 7))
    X[np.isnan(random_data(rng, n_rows, 7, missing=missing))] = np.nan
    return sparse.csr_array(X) if is_sparse else X - np.nanmin(X)


def fitted(model, X):
    model.fit(X)
    return model._training_codes(), model.components_, model.history_["evidence"]


def method(label):
    settings = {} if label in ("meibp", "bs-ibp") else {"max_iter": 4}
    if label == "meibp-default":
        settings = {"max_iter": 15}  # some of them moves
    return ibp.METHODS[label](n_components=3, random_state=1, **settings)


KINDS = [(False, "none"), (False, "scattered"), (False, "block"), (True, "scattered")]
KINDS_OF_LABELS = [
    (label, is_sparse, missing)
    for label in ibp.METHODS
    for is_sparse, missing in KINDS
    if not (is_sparse and label in WHOLE_ROWS)
]


@pytest.mark.parametrize(("label", "is_sparse", "missing"), KINDS_OF_LABELS)
def test_every_method_may_be_fitted_in_other_processes(elsewhere, label, is_sparse, missing):
    X = planted(24, missing, is_sparse)
    assert elsewhere(lambda: fitted(method(label), X))


@pytest.mark.parametrize(("label", "is_sparse", "missing"), KINDS_OF_LABELS)
def test_every_method_may_place_rows_in_other_processes(elsewhere, label, is_sparse, missing):
    X = planted(24, missing, is_sparse)
    model = method(label).fit(X)
    assert model.n_components_ > 0
    assert len(elsewhere(lambda: (model.transform(X), model.score_samples(X)))) > 1 - is_sparse


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_meibp_may_be_fitted_in_other_processes(elsewhere, mode):
    X = planted(24, "scattered")
    sent = elsewhere(lambda: fitted(ibp.MEIBP(random_state=2, max_iter=30, **MODES[mode]), X))
    assert {"_look_at", "sums_of_rows", "updated_columns"} <= sent


def test_a_start_from_some_rows_may_place_the_others_in_other_processes(elsewhere, monkeypatch):
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.SAMPLE_ROWS", 20)
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.ROWS_PER_FEATURE", 1)
    X = planted(60, "scattered")
    sent = elsewhere(lambda: fitted(ibp.MEIBP(3, random_state=2, max_iter=5, tol=0), X))
    assert "assign_and_sum_piece" in sent
