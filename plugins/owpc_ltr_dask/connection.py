"""Connections to workers for a block of work, and the parts of a dataset that each worker has.

Workers are processes of this machine, which nobody else can use and which end with the block, or
those of a running scheduler. In a pass each part is computed by one worker, and the results come in
order. Together, all workers work with their own parts and communicate meanwhile.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import FrameType
from typing import Any, TypeVar

import dask
import numpy as np
from distributed import Client, Future, KilledWorker, LocalCluster, get_worker, wait
from distributed.client import ClosedClientError
from distributed.core import Status
from distributed.protocol.pickle import dumps
from distributed.security import Security

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import (
    ColumnSet,
    Member,
    PartitionedDataset,
    PartReader,
    PartSelection,
    WorkerParts,
    open_partitioned,
)
from owpc_ltr.errors import OwpcLtrError, Refused, UsageError, WorkersUnavailable
from owpc_ltr.files.input import shown
from owpc_ltr_dask.on_worker import (
    Failed,
    WorkerJob,
    attempt,
    call_on_parts,
    call_on_worker,
    loaded_call,
    unfitness,
    versions,
)

PATIENCE = 30.0
"""Seconds in which a worker may come, or come back."""
TRIES = 4
"""How often work of all workers together is started again with the remaining ones."""
_AT_ONCE = 64
"""Results that are fetched together; no more are held here."""
_LOOK = 2.0

Task = tuple[Callable[[], list[Any] | Failed], str | None]
"""A call that makes some results, and the preferred worker, if any; others may make it too."""


class Calls:
    """Calls through a scheduler; if a worker dies, only its current call is repeated."""

    def __init__(self, client: Client, scheduler: str, patience: float = PATIENCE) -> None:
        self.client, self.scheduler, self.patience = client, scheduler, patience
        self._stopped = Event()

    def stop(self) -> None:
        """Stop waiting, in all threads."""
        self._stopped.set()

    def workers(self) -> list[str]:
        """The addresses of all workers, once there is one. Raises WorkersUnavailable."""
        deadline = time.monotonic() + self.patience
        while True:
            with dask_errors(self.scheduler):
                addresses = sorted(self.client.nthreads())
            if addresses:
                return addresses
            if time.monotonic() > deadline:
                raise no_workers(self.scheduler, self.patience)
            time.sleep(0.1)

    def written(self, call: Callable[..., Any]) -> bytes:
        """A call as it is sent to workers. Raises UsageError for what cannot leave this process."""
        try:
            return bytes(dumps(call))
        except Exception as error:
            raise UsageError(
                f"this cannot be done by workers, for what is to be called cannot be sent to them "
                f"({type(error).__name__}: {error}): do it without a cluster"
            ) from error

    def results(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """The results of the calls, one after another.

        Raises what one raised, and WorkersUnavailable.
        """
        with dask_errors(self.scheduler):
            waiting = [
                self.client.submit(
                    call,
                    pure=False,
                    workers=None if home is None else [home],
                    allow_other_workers=home is not None,
                )
                for call, home in tasks
            ]
        try:
            while waiting:
                batch_results = self._fetched(waiting[:_AT_ONCE])
                del waiting[:_AT_ONCE]
                for result in batch_results:
                    if isinstance(result, Failed):
                        raise result.error
                    yield from result
        finally:
            if waiting and self.client.status == "running":
                self.client.cancel(waiting, force=True)

    def on_all(self, tasks: Sequence[tuple[Callable[[], list[Any] | Failed], str]]) -> list[Any]:
        """The results of calls on exactly these workers, in parallel, one result each.

        Raises WorkersUnavailable where one ends meanwhile, else what one raised.
        """
        with dask_errors(self.scheduler):
            futures = [self.client.submit(call, pure=False, workers=[home]) for call, home in tasks]
        homes = {home for _, home in tasks}
        try:
            while not self._stopped.is_set():
                with dask_errors(self.scheduler):
                    with suppress(TimeoutError):
                        running = [future for future in futures if not future.done()]
                        wait(running, timeout=_LOOK, return_when="FIRST_COMPLETED")
                    ended = homes - set(self.client.nthreads())
                    done = [future for future in futures if future.done()]
                    results = self.client.gather(done)
                if ended:
                    raise WorkersUnavailable(f"worker {min(ended)} has ended")
                for result in results:
                    if isinstance(result, Failed):
                        # It may be that another has ended, and this one could not go on.
                        time.sleep(_LOOK)
                        if homes - set(self.client.nthreads()):
                            raise WorkersUnavailable("a worker has ended") from result.error
                        raise result.error
                if len(done) == len(futures):
                    return [result[0] for result in results]
        finally:
            if self.client.status == "running":
                self.client.cancel(futures, force=True)
        raise WorkersUnavailable("the work was stopped")

    def _fetched(self, futures: list[Future]) -> list[Any]:
        missing = 0.0
        while not self._stopped.is_set():
            with dask_errors(self.scheduler):
                try:
                    wait(futures, timeout=_LOOK)
                    results: list[Any] = self.client.gather(futures)
                except TimeoutError:
                    # What has failed is not waited for by the rest.
                    self.client.gather(
                        [future for future in futures if future.status == "error"][:1]
                    )
                    missing = 0.0 if self.client.nthreads() else missing + _LOOK
                else:
                    return results
            if missing > self.patience:
                raise no_workers(self.scheduler, self.patience)
        raise WorkersUnavailable("the work was stopped")


@contextmanager
def dask_errors(scheduler: str) -> Iterator[None]:
    """Turns errors of Dask about lost workers and schedulers into one line.

    Errors of our calls are results (`Failed`), and not raised here.
    """
    try:
        yield
    except OwpcLtrError:
        raise
    except KilledWorker as error:
        raise WorkersUnavailable(
            f"one step of the work ended {error.allowed_failures + 1} workers, one after another: "
            "they may lack memory: give fewer processes, less `memory`, or larger machines"
        ) from error
    except (CancelledError, ClosedClientError, OSError, TimeoutError) as error:
        raise scheduler_lost(scheduler) from error


def scheduler_lost(scheduler: str) -> WorkersUnavailable:
    """The error for a scheduler that does not answer any more."""
    return WorkersUnavailable(
        f"the Dask scheduler at {scheduler} does not answer any more: see its log, start it and "
        "run the command again; nothing was written"
    )


def no_workers(scheduler: str, seconds: float) -> WorkersUnavailable:
    """The error for a scheduler without workers."""
    return WorkersUnavailable(
        f"the Dask scheduler at {scheduler} has had no worker for {seconds:.0f} seconds: start "
        f"some, as with: dask worker {scheduler}"
    )


R = TypeVar("R")

CONNECT = 10.0  # seconds

_MOST = 1024

_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")

_SCHEDULER = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


def parse_place(text: str) -> int | str:
    """The place of the workers: a number of processes on this machine, or a scheduler's address.

    Raises UsageError for what names no place.

    >>> parse_place("local:4"), parse_place("tcp://10.0.0.1:8786")
    (4, 'tcp://10.0.0.1:8786')
    """
    local = _LOCAL.fullmatch(text)
    if local is not None and int(local[1]) <= _MOST:
        return int(local[1])
    if _SCHEDULER.fullmatch(text):
        return text
    raise UsageError(
        f"there are no workers at {shown(text)}: give local:N for N processes on this machine, or "
        "the address of a Dask scheduler, tcp://HOST:8786"
    )


class DaskWorkers:
    """Dask workers that are fit: with the versions of this process, and the plugins."""

    def __init__(self, client: Client, scheduler: str, plugins: Mapping[str, str]) -> None:
        self.client, self.calls = client, Calls(client, scheduler)
        self._plugins = dict(plugins)
        self._jobs: list[str] = []
        self._opened: dict[tuple[Path, int], PartsOnWorkers] = {}
        self._base = self._set_up()

    def parts(self, data: PartitionedDataset) -> PartitionedDataset:
        """The same dataset, with the workers computing on its parts.

        Each keeps `data.memory` bytes of its parts in memory. Raises Refused where a worker does
        not see the same folder at the same path.
        """
        folder, memory = data.files.folder.resolve(), data.memory
        if (folder, memory) not in self._opened:
            fingerprint = open_partitioned(folder).fingerprint
            job = self._set_up(folder=str(folder), fingerprint=fingerprint, memory=memory)
            self._opened[folder, memory] = PartsOnWorkers(self.calls, job)
        files = PartReader(folder, memory)
        return replace(data, files=files, workers=self._opened[folder, memory])

    def whole(self, data: PartitionedDataset) -> PartitionedDataset:
        """The same dataset, for calls on single workers; all of them can read it."""
        return replace(self.parts(data), workers=None)

    @property
    def threads(self) -> int:
        """The number of calls that the workers run in parallel."""
        self.calls.workers()
        with dask_errors(self.calls.scheduler):
            return sum(self.client.nthreads().values())

    def call(self, call: Callable[[], R]) -> R:
        """The result of a call on any free worker; threads may call it in parallel."""
        written = self.calls.written(call)
        result: R = next(self.calls.results([(partial(call_on_worker, self._base, written), None)]))
        return result

    def stop(self) -> None:
        """Stop the calls of other threads."""
        self.calls.stop()

    def release(self) -> None:
        """Leave the workers as they were found."""
        for name in self._jobs:
            with suppress(Exception):  # a lost worker is reported elsewhere
                self.client.unregister_worker_plugin(name)

    def _set_up(self, **data: Any) -> str:
        """Make all workers ready for a job; its name. Raises Refused where one is not fit for it.

        `data` are what the job says of its folder of parts, if it has one.
        """
        job = WorkerJob(f"owpc-ltr-{uuid.uuid4().hex}", versions(), self._plugins, **data)
        self._jobs.append(job.name)
        for address, why in sorted(self._unfitness(job).items()):
            if why is not None:
                raise Refused(f"worker {address} cannot take part: {why}")
        return job.name

    def _unfitness(self, job: WorkerJob) -> dict[str, str | None]:
        """Why each worker is not fit, or None; asked again where one ends meanwhile."""
        for tries_left in reversed(range(TRIES)):
            self.calls.workers()
            with dask_errors(self.calls.scheduler):
                try:
                    self.client.register_plugin(job)
                    return dict(self.client.run(unfitness, job.name))
                except ImportError as error:
                    raise Refused(
                        f"a worker of {self.calls.scheduler} has another owpc-ltr than the command "
                        f"({error}): install the same on all machines"
                    ) from error
                except OSError:
                    if not tries_left:
                        raise
            time.sleep(1.0)
        raise scheduler_lost(self.calls.scheduler)


@contextmanager
def workers_at(place: int | str, plugins: Sequence[Path] = ()) -> Iterator[DaskWorkers]:
    """Workers at a place, while a block lasts; our own processes end with it.

    `plugins` are files whose losses and optimizers the work may be done with. Raises
    WorkersUnavailable where no scheduler answers, Refused where a worker is not fit.
    """
    texts = {path.name: path.read_text(encoding="utf-8") for path in plugins}
    with _client(place) as (client, scheduler):
        workers = DaskWorkers(client, scheduler, texts)
        try:
            yield workers
        finally:
            workers.release()


@contextmanager
def _client(place: int | str) -> Iterator[tuple[Client, str]]:
    if isinstance(place, int):
        with local_cluster(place) as cluster, Client(cluster, timeout=CONNECT) as client:
            yield client, f"local:{place}"
        return
    try:
        client = Client(place, timeout=CONNECT)
    except (OSError, TimeoutError) as error:
        raise WorkersUnavailable(
            f"no Dask scheduler answers at {place}: start one (dask scheduler), or use "
            "processes of this machine: `dask='local:2'`"
        ) from error
    with client:
        yield client, place


_SETTINGS: dict[str, Any] = {
    # Nothing is served to browsers.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Our errors replace their warnings.
    "distributed.nanny.pre-spawn-environ.PYTHONWARNINGS": "ignore",
    # A process that starts on a busy machine takes its time.
    "distributed.comm.timeouts.connect": "60s",
}


@contextmanager
def local_cluster(processes: int) -> Iterator[LocalCluster]:
    """So many processes of one thread each.

    Whoever reaches a scheduler can have anything run: this one takes nobody without a certificate,
    which is made for it and known to this process alone. Raises WorkersUnavailable.
    """
    _end_where_a_worker_imports()
    # What Dask logs of processes that end is not for people, and comes also after they have.
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)
    with (
        TemporaryDirectory(prefix="owpc-ltr-workers-", ignore_cleanup_errors=True) as scratch,
        dask.config.set(_SETTINGS),
    ):
        cluster = _started(processes, scratch)
        cluster.scheduler.http_server.stop()
        try:
            yield cluster
        finally:
            _end(cluster)


def _started(processes: int, scratch: str) -> LocalCluster:
    try:
        return LocalCluster(
            n_workers=processes,
            threads_per_worker=1,
            host="127.0.0.1",
            security=Security.temporary(),
            protocol="tls",
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
            dashboard_address=None,
            # Any port, which is closed again.
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        )
    except RuntimeError as error:
        raise WorkersUnavailable(
            f"{processes} processes of this machine did not start as workers ({error}): each "
            "begins by importing the script, which must ask for them under "
            "`if __name__ == '__main__':`"
        ) from error


def _end_where_a_worker_imports() -> None:
    """End a process that came to be for a worker, and is about to ask for workers again."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "__mp_main__":
            raise SystemExit(1)
        frame = frame.f_back


def _end(cluster: LocalCluster) -> None:
    """End the processes at once: what they have is on disk, and unloading it takes a second."""
    for nanny in list(cluster.workers.values()):
        nanny.auto_restart = False
        if nanny.pid:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)
    try:
        cluster.close()
    except Exception:  # noqa: BLE001 - Dask's own trouble with processes that are gone; they are
        cluster.status = Status.closed


K = TypeVar("K", bound=Hashable)


_BATCH_DOCUMENTS = 1_000_000

"""Documents of small parts that are processed in one step: a call for each would take longer."""

_STEPS = 4

"""Least steps of a worker: one is lost if it dies, and at the end of a pass others wait for one."""

_SLACK = 1.1

"""The load of a worker, in shares, above which parts that it has read go to another."""


class PartsOnWorkers:
    """The parts of one folder, which every worker reads from its own disk, or a shared one."""

    def __init__(self, calls: Calls, name: str) -> None:
        self.calls, self.name = calls, name
        self._homes: dict[tuple[str, ...], str] = {}

    def each(
        self, call: Callable[[RankingDataset], R], pieces: Sequence[PartSelection], form: ColumnSet
    ) -> Iterator[R]:
        """The result of `call` for each part, in order."""
        sent, workers = self.calls.written(call), self.calls.workers()
        steps = {
            tuple(piece.part.path for piece in step): step for step in batches(pieces, len(workers))
        }
        sizes = {key: sum(piece.documents for piece in step) for key, step in steps.items()}
        # What other passes go through stays where it was read.
        self._homes |= placed(sizes, workers, self._homes)
        return self.calls.results(
            [
                (partial(call_on_parts, self.name, step, form, sent), self._homes[key])
                for key, step in steps.items()
            ]
        )

    def together(
        self,
        meet: Callable[[int], Mapping[str, Any]],
        call: Callable[[Member, list[WorkerParts]], R],
        *data: PartitionedDataset,
    ) -> R:
        """A call made by all workers at once; begun again with those left where one ends."""
        workers: list[Any] = [dataset.workers for dataset in data]
        jobs = [parts.name for parts in workers]
        sent = self.calls.written(meet), self.calls.written(call)
        error: Exception = WorkersUnavailable("there was no worker")
        for _ in range(TRIES):
            members = self.calls.workers()[: min(len(dataset.pieces) for dataset in data)]
            try:
                result: R = _once(self.calls, members, list(zip(jobs, data, strict=True)), *sent)
            except WorkersUnavailable as ended:
                error = ended
            else:
                return result
        raise WorkersUnavailable(
            f"workers ended {TRIES} times while they worked together: they may lack memory: give "
            "fewer processes, less `memory`, or larger machines"
        ) from error


def batches(pieces: Sequence[PartSelection], workers: int) -> list[list[PartSelection]]:
    """Parts that follow one another, as steps of a pass of about as many documents each.

    A multiple of the workers, as far as there are parts for it: they end at the same time.
    """
    ends = np.cumsum([piece.documents for piece in pieces])
    rounds = max(_STEPS, -(-int(ends[-1]) // (_BATCH_DOCUMENTS * workers))) if len(ends) else 0
    cuts = np.arange(1, rounds * workers) / (rounds * workers) * ends[-1:]
    # Between the parts that are nearest.
    firsts = np.unique([0, *np.searchsorted(ends - np.diff(ends, prepend=0) / 2, cuts)])
    return [
        list(pieces[first:after])
        for first, after in itertools.pairwise([*firsts.tolist(), len(pieces)])
        if after > first
    ]


def _once(
    calls: Calls,
    members: list[str],
    data: Sequence[tuple[str, PartitionedDataset]],
    meet: bytes,
    call: bytes,
) -> Any:
    first = data[0][0]
    # Who has ended, or is still at something else, is not waited for by the others.
    calls.on_all([(partial(_is_ready, first), member) for member in members])
    meeting = calls.on_all([(partial(_meet, first, len(members), meet), members[0])])
    tasks = []
    for number, member in enumerate(members):
        shares = [(job, _share(dataset, members, member)) for job, dataset in data]
        tasks.append((partial(_take_part, shares, Member(number, 1, meeting[0]), call), member))
    return calls.on_all(tasks)[0]


def _share(data: PartitionedDataset, members: list[str], member: str) -> WorkerParts:
    sizes = {number: piece.documents for number, piece in enumerate(data.pieces)}
    homes = placed(sizes, members, {})
    numbers = tuple(number for number in sizes if homes[number] == member)
    return WorkerParts(replace(data, workers=None), numbers)


def _is_ready(job: str) -> list[Any] | Failed:
    return attempt(job, lambda _: [None])


def _meet(job: str, count: int, meet: bytes) -> list[Any] | Failed:
    return attempt(job, lambda _: [loaded_call(meet)(count)])


def _take_part(
    shares: Sequence[tuple[str, WorkerParts]], member: Member, call: bytes
) -> list[Any] | Failed:
    worker = get_worker()

    def calls(_: WorkerJob) -> list[Any]:
        opened = [
            replace(parts, whole=replace(parts.whole, files=worker.plugins[job].opened()))
            for job, parts in shares
        ]
        return [loaded_call(call)(member._replace(threads=worker.state.nthreads), opened)]

    return attempt(shares[0][0], calls)


def placed(sizes: Mapping[K, int], workers: Sequence[str], before: Mapping[K, str]) -> dict[K, str]:
    """A worker for each part: the one it had before, unless that is gone or has far too many.

    >>> placed({"a": 3, "b": 2, "c": 1}, ["one", "two"], {})
    {'a': 'one', 'b': 'two', 'c': 'two'}
    """
    loads = dict.fromkeys(sorted(workers), 0)
    share = _SLACK * sum(sizes.values()) / len(loads)
    homes: dict[K, str] = {}
    for part, size in sizes.items():
        home = before.get(part)
        if home in loads and (loads[home] == 0 or loads[home] + size <= share):
            homes[part] = home
            loads[home] += size
    # The largest first: what comes last evens out.
    for part in sorted(
        (part for part in sizes if part not in homes), key=lambda part: -sizes[part]
    ):
        homes[part] = min(loads, key=loads.__getitem__)
        loads[homes[part]] += sizes[part]
    return homes
