"""Work whose results stay where they were made: on the workers of a Dask cluster, or on threads.

`ibp.parallel` runs pieces of work and brings their results home. Here a result stays with the
worker and is known by a handle, which may be an argument of further work; only what is collected
comes home. Work is a function of a module that changes none of its arguments, so that a result
which is lost with its worker can be made again, bit for bit, from what it was made of. Sums are
made in pairs of pairs and so on, in an order that the number of workers does not change.

The cluster is the user's: nothing here starts one, and Dask is not imported before it is there.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ibp.errors import ClusterError

# Results that are added up in one go.
FAN_IN = 8
# Seconds between two looks at a cluster that has not answered, and those after which a connection
# that is lost, or a cluster without a worker, counts as gone.
PATIENCE, LOST_AFTER, NO_WORKER_AFTER = 2.0, 15.0, 60.0

Handle = Any
Work = Callable[..., Any]


@dataclass
class Traffic:
    """Bytes that have left the main process, and that have come home."""

    sent: int = 0
    received: int = 0


class Workers(Protocol):
    """Those who run work and keep what comes of it."""

    traffic: Traffic

    def submit(self, work: Work, *arguments: Any) -> Handle:
        """Have work done; arguments may be handles, others should be small."""
        ...

    def submit_each(self, work: Work, *arguments: Sequence[Any]) -> list[Handle]:
        """Have work done for the first of all arguments, for the second of all, and so on."""
        ...

    def hold(self, value: Any) -> Handle:
        """Give a value to the workers, once for all work that takes its handle."""
        ...

    def load(self, delayed: Sequence[Any]) -> list[Handle]:
        """Have the workers make or read values that Dask has put off."""
        ...

    def collect(self, handles: Sequence[Handle]) -> list[Any]:
        """The results themselves."""
        ...


def add_up(workers: Workers, add: Work, handles: Sequence[Handle]) -> Handle:
    """A handle of ``add(*results)``, a few at a time and in a fixed order; never of none."""
    level = list(handles)
    while len(level) > 1:
        level = [
            workers.submit(add, *level[first : first + FAN_IN])
            for first in range(0, len(level), FAN_IN)
        ]
    return level[0]


def identity(value: Any) -> Any:
    """The value."""
    return value


def size_of(value: Any) -> int:
    """Bytes of a value on its way."""
    return len(pickle.dumps(value, protocol=5))


class ThreadWorkers:
    """Threads of this process."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.traffic = Traffic()
        self._pool = ThreadPoolExecutor(n_jobs)

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(cancel_futures=True)

    def submit(self, work: Work, *arguments: Any) -> Handle:
        """Have work done; work that it waits for was submitted before it, and so has a thread."""
        return self._pool.submit(_with_results, work, arguments)

    def submit_each(self, work: Work, *arguments: Sequence[Any]) -> list[Handle]:
        """Have work done for the first of all arguments, and so on."""
        return [self.submit(work, *own) for own in zip(*arguments, strict=True)]

    def hold(self, value: Any) -> Handle:
        """Give a value to the workers."""
        held: Future[Any] = Future()
        held.set_result(value)
        return held

    def load(self, delayed: Sequence[Any]) -> list[Handle]:
        """Have threads of Dask's make or read values."""
        import dask

        return [self.hold(value) for value in dask.compute(*delayed, scheduler="threads")]

    def collect(self, handles: Sequence[Handle]) -> list[Any]:
        """The results themselves."""
        return [handle.result() for handle in handles]


def _with_results(work: Work, arguments: tuple[Any, ...]) -> Any:
    """Do work when what it takes is there."""
    return work(*(a.result() if isinstance(a, Future) else a for a in arguments))


class DaskWorkers:
    """The workers of a Dask cluster, through the client that is active."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.traffic = Traffic()

    def close(self) -> None:
        """Leave the cluster to its owner."""

    def submit(self, work: Work, *arguments: Any) -> Handle:
        """Have work done.

        What it takes besides handles goes along with it, and is kept for when it has to be done
        again.
        """
        with self._speaking():
            return self.client.submit(work, *arguments, pure=False)

    def submit_each(self, work: Work, *arguments: Sequence[Any]) -> list[Handle]:
        """Have work done for the first of all arguments, and so on, by one message."""
        with self._speaking():
            return list(self.client.map(work, *arguments, pure=False))

    def hold(self, value: Any) -> Handle:
        """Give a value to the workers: as work, so that it is made again if it is lost."""
        self.traffic.sent += size_of(value)
        return self.submit(identity, value)

    def load(self, delayed: Sequence[Any]) -> list[Handle]:
        """Have the workers make or read values; what they are made of, Dask knows.

        Each thread is asked for as many as the others, since whoever has a value works on it from
        then on. Values that are there already stay where they are. Each worker is asked once: what
        is asked for brings all that X is made of along with it.
        """
        with self._speaking():
            threads = [address for address, n in self.client.nthreads().items() for _ in range(n)]
            if not threads:
                return list(self.client.compute(list(delayed)))
            shares: dict[str, list[Any]] = {}
            for number, value in enumerate(delayed):
                shares.setdefault(threads[number * len(threads) // len(delayed)], []).append(value)
            return [
                value
                for address, share in shares.items()
                for value in self.client.compute(share, workers=[address], allow_other_workers=True)
            ]

    def collect(self, handles: Sequence[Handle]) -> list[Any]:
        """The results themselves, or a sentence about why there are none."""
        handles = list(handles)
        self._wait(handles)
        with self._speaking():
            results = self.client.gather(handles)
        self.traffic.received += sum(size_of(result) for result in results)
        return list(results)

    def _wait(self, handles: list[Handle]) -> None:
        """Wait until all is done, as long as there is a cluster that does it."""
        from distributed import wait

        lost_since = alone_since = None
        while True:
            with self._speaking():
                try:
                    wait(handles, timeout=PATIENCE)
                    return
                except TimeoutError:
                    pass
            now = time.monotonic()
            if self.client.status != "running":
                lost_since = lost_since or now
                if now - lost_since > LOST_AFTER or self.client.status == "closed":
                    raise _lost()
                continue
            lost_since = None
            with self._speaking():
                alone_since = None if self.client.nthreads() else alone_since or now
            if alone_since is not None and now - alone_since > NO_WORKER_AFTER:
                raise ClusterError(
                    f"The Dask cluster has had no worker for {NO_WORKER_AFTER:.0f} seconds",
                    "Start one, and fit anew",
                )

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """Speak with the cluster, and say in a sentence what goes wrong between it and us."""
        from concurrent.futures import CancelledError

        from dask import config
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError, FuturesCancelledError
        from distributed.comm import CommClosedError

        try:
            with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                yield
        except KilledWorker as error:
            raise ClusterError(
                f"Workers of the Dask cluster have died over the same piece of work: {error}",
                "Most often their memory is too small for a chunk: give X smaller chunks, or "
                "workers more memory",
            ) from error
        except (CancelledError, FutureCancelledError, FuturesCancelledError) as error:
            raise _lost() from error
        except (CommClosedError, OSError) as error:
            if isinstance(error, CommClosedError) or self.client.status != "running":
                raise _lost() from error
            raise
        except Exception as error:
            if self.client.status in ("closed", "closing"):
                raise _lost() from error
            raise


def _lost() -> ClusterError:
    return ClusterError(
        "The connection to the Dask scheduler is lost, and with it what the workers had found",
        "Connect a new client and fit anew",
    )


def active_client() -> Any:
    """The Dask client that the user has made, if any; distributed is then imported already."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def active_workers(n_jobs: int) -> ThreadWorkers | DaskWorkers:
    """The workers of the active client, else so many threads."""
    client = active_client()
    return ThreadWorkers(n_jobs) if client is None else DaskWorkers(client)
