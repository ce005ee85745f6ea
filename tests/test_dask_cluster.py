"""Fits on a Dask cluster of real processes, and what becomes of them when some of it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

from chunked_problems import blurred, chunked, planted
from ibp import MEIBP, workers
from ibp.errors import ClusterError, InvalidValueError
from ibp.estimators.chunked import blocks_of

distributed = pytest.importorskip("distributed")
# Dask's own complaints about processes that we kill, and about sockets that it closes late.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

N_ROWS, CHUNK = 1200, 300
SETTINGS = {"moves": False, "max_iter": 4, "tol": 0, "block_size": 300}


@pytest.fixture(scope="module")
def client():
    """A client of one process with one thread; a test adds another, and the next kills one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def problem():
    """Data, a start, and the fit that nothing disturbs, on threads of this process."""
    values, codes = planted(N_ROWS)
    start = {"Z": blurred(codes)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "active_client", lambda: None)
        model = fit(values, start)
        model.assignments_ = model.assignments_.compute(scheduler="threads")
    return values, start, model


def fit(values, start):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MEIBP(init=start, **SETTINGS).fit(chunked(values, CHUNK))


def assert_same(one, other):
    """The same bit for bit."""
    assert one.evidence_ == other.evidence_
    assert np.array_equal(one.history_["evidence"], other.history_["evidence"])
    assert np.array_equal(one.components_, other.components_)
    assert np.array_equal(np.asarray(one.assignments_), np.asarray(other.assignments_))


def test_processes_give_the_bits_that_threads_give(client, problem):
    values, start, undisturbed = problem
    model = fit(values, start)
    assert undisturbed.history_["n_changed"][:2].min() > 0
    assert_same(model, undisturbed)
    owners = client.who_has(model.assignments_.persist())
    assert owners  # on the cluster, and nowhere else
    x = chunked(values, CHUNK)
    assert np.array_equal(model.transform(x).compute(), model.transform(values))
    assert model.score(x) == pytest.approx(model.score(values))


class Disturbance:
    """Does something when the main process waits for the workers for the n-th time."""

    def __init__(self, monkeypatch, when, what):
        self.n_waits = 0
        wait = workers.DaskWorkers._wait

        def disturbed(own, handles):
            self.n_waits += 1
            if self.n_waits == when:
                what()
            wait(own, handles)

        monkeypatch.setattr(workers.DaskWorkers, "_wait", disturbed)


def kill_one(client):
    """Kill a worker's process, with signal 9 and what it is about to do."""
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def test_a_worker_added_within_a_fit(client, problem, monkeypatch):
    values, start, undisturbed = problem
    Disturbance(monkeypatch, 6, lambda: (client.cluster.scale(2), client.wait_for_workers(2)))
    model = fit(values, start)
    assert len(client.nthreads()) == 2
    assert_same(model, undisturbed)


def test_a_worker_killed_within_a_sweep(client, problem, monkeypatch):
    values, start, undisturbed = problem
    # The tenth time is in the second sweep: codes that were found in the first are lost.
    told = Disturbance(monkeypatch, 10, lambda: kill_one(client))
    model = fit(values, start)
    assert told.n_waits > 10
    assert_same(model, undisturbed)


def test_an_error_in_a_chunk_is_the_users_own(client):
    values, _ = planted(N_ROWS)
    values[CHUNK + 3, 1] = np.inf
    with pytest.raises(InvalidValueError, match=r"chunk 1 .* has an infinity in row 303, column 1"):
        MEIBP().fit(chunked(values, CHUNK))

    def broken(block):
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        MEIBP().fit(chunked(values, CHUNK).map_blocks(broken, dtype=float, meta=np.empty((0, 0))))


def bytes_of_second_sweep(n_rows):
    """What leaves the main process and what comes home in the second of two sweeps."""
    made, counts = [], []

    def watched(n_jobs):
        made.append(workers.active_workers(n_jobs))
        return made[-1]

    def count(progress):
        counts.append(made[0].traffic.sent + made[0].traffic.received)

    values, codes = planted(n_rows)
    settings = {"moves": False, "max_iter": 2, "tol": 0, "block_size": n_rows // 3}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr("ibp.estimators.meibp.active_workers", watched)
        start = {"Z": blurred(codes)}
        MEIBP(init=start, callbacks=count, **settings).fit(chunked(values, n_rows // 4))
    return counts[1] - counts[0]


def test_bytes_of_a_sweep_do_not_grow_with_the_rows(client):
    few, many = (bytes_of_second_sweep(n_rows) for n_rows in (N_ROWS, 4 * N_ROWS))
    assert 0 < many < 1.05 * few


def test_a_connection_that_is_lost_is_told_in_a_sentence(client, problem, monkeypatch):
    values, start, undisturbed = problem
    comm = client.scheduler_comm.comm
    Disturbance(monkeypatch, 8, lambda: client.loop.add_callback(comm.abort))
    with pytest.raises(ClusterError, match="connection to the Dask scheduler is lost"):
        fit(values, start)
    monkeypatch.undo()
    while client.status != "running":  # the scheduler is there, and the client finds it again
        time.sleep(0.05)
    assert_same(fit(values, start), undisturbed)


def test_a_cluster_without_workers_is_told_in_a_sentence(problem, monkeypatch):
    values, start, _ = problem
    monkeypatch.setattr(workers, "NO_WORKER_AFTER", 0.3)
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        pytest.raises(ClusterError, match="has had no worker"),
    ):
        fit(values, start)


def test_a_model_predicts_when_its_cluster_is_gone(problem, tmp_path):
    values, start, undisturbed = problem
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        model = fit(values, start)
    assert np.array_equal(model.transform(values), undisturbed.transform(values))
    assert model.transform(chunked(values, CHUNK)).shape == undisturbed.assignments_.shape
    with pytest.raises(ClusterError, match="cannot be reached any more"):
        model.save(tmp_path / "m.ibp")
    model.save(tmp_path / "m.ibp", assignments=False)


def test_workers_are_asked_once_for_all_their_chunks(client, monkeypatch):
    asked, compute = [], client.compute

    def counted(values, **settings):
        asked.append(len(values))
        return compute(values, **settings)

    monkeypatch.setattr(client, "compute", counted)
    values = np.arange(80.0).reshape(40, 2)
    handles = workers.DaskWorkers(client).load(blocks_of(chunked(values, 2)))
    assert sum(asked) == 20 and len(asked) <= len(client.nthreads())
    assert np.array_equal(np.concatenate(client.gather(handles)), values)


@pytest.mark.long
def test_rows_that_kill_workers_are_told_in_a_sentence(client):
    values, _ = planted(N_ROWS)

    def deadly(block):
        if block.size:
            os._exit(1)
        return block

    patience = client.cluster.scheduler.allowed_failures
    client.cluster.scheduler.allowed_failures = 0
    with pytest.raises(ClusterError, match="have died over the same piece of work"):
        MEIBP().fit(chunked(values, CHUNK).map_blocks(deadly, dtype=float, meta=values[:0]))
    client.cluster.scheduler.allowed_failures = patience


@pytest.mark.long
def test_a_scheduler_that_is_gone_is_told_in_a_sentence(tmp_path, problem, monkeypatch):
    values, start, _ = problem
    address = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    common = ["--scheduler-file", str(address)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*command, *common, "--port", "0", "--no-dashboard", "--no-show"], **quiet
    )
    single = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "20"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", *common, *single], **quiet
    )
    try:
        while not address.exists():
            time.sleep(0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = distributed.Client(scheduler_file=str(address), timeout=20)
        client.wait_for_workers(1, timeout=60)
        Disturbance(monkeypatch, 8, scheduler.kill)
        began = time.monotonic()
        with (
            client.as_current(),
            pytest.raises(ClusterError, match="connection to the Dask scheduler is lost"),
        ):
            fit(values, start)
        assert time.monotonic() - began < 60.0
        threading.Thread(target=client.close, daemon=True).start()
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
