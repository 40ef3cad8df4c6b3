"""Workers of our own, or of a scheduler that runs, while a block of work lasts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from distributed import Client

from owpc_ltr.data.options import Room
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, open_partitioned
from owpc_ltr.data.partitioned.parts import Files
from owpc_ltr.errors import Refused, WorkersUnavailable
from owpc_ltr_dask.calls import Calls
from owpc_ltr_dask.faults import gone, told
from owpc_ltr_dask.local import local_cluster
from owpc_ltr_dask.on_worker import Job, Station, call_on_worker, unfitness
from owpc_ltr_dask.parts import PartsOnWorkers
from owpc_ltr_dask.place import Local, Scheduler
from owpc_ltr_dask.versions import versions

R = TypeVar("R")

CONNECT = 10.0  # seconds
_TRIES = 4


class Workers:
    """Dask workers that were found fit: the same versions as here, and the plugins."""

    def __init__(self, client: Client, scheduler: str, plugins: Mapping[str, str]) -> None:
        self.client, self.calls = client, Calls(client, scheduler)
        self._plugins = dict(plugins)
        self._stations: list[str] = []
        self._opened: dict[tuple[Path, Room], PartsOnWorkers] = {}
        self._base = self._station(Job(self._new_name(), versions(), self._plugins))

    def parts(self, data: PartitionedDataset) -> PartitionedDataset:
        """The same dataset, whose parts are gone through by the workers.

        Each keeps `data.memory` bytes of its parts in memory. Raises Refused where a worker does
        not see the same folder at the same path.
        """
        folder, room = data.files.folder.resolve(), data.files.kept.room
        if (folder, room) not in self._opened:
            fingerprint = open_partitioned(folder).fingerprint
            about = Job(
                self._new_name(),
                versions(),
                self._plugins,
                str(folder),
                fingerprint,
                room.size,
                room.float16,
            )
            self._opened[folder, room] = PartsOnWorkers(self.calls, self._station(about))
        files = Files(folder, room)
        return replace(data, files=files, workers=self._opened[folder, room])

    def whole(self, data: PartitionedDataset) -> PartitionedDataset:
        """The same dataset, to be gone through by one worker at a time; all see it."""
        return replace(self.parts(data), workers=None)

    @property
    def processes(self) -> int:
        """How many workers there are."""
        return len(self.calls.workers())

    @property
    def threads(self) -> int:
        """How many calls the workers make side by side."""
        self.calls.workers()
        with told(self.calls.scheduler):
            return sum(self.client.nthreads().values())

    def call(self, call: Callable[[], R]) -> R:
        """What a call makes on whichever worker is free; may be asked from many threads."""
        return next(self.each([call]))

    def each(self, calls: Sequence[Callable[[], R]]) -> Iterator[R]:
        """What the calls make, in order; each is made by whichever worker is free."""
        written = [self.calls.written(call) for call in calls]
        results: Iterator[R] = self.calls.results(
            [(partial(call_on_worker, self._base, one), None) for one in written]
        )
        return results

    def stop(self) -> None:
        """Give up what is being waited for in other threads."""
        self.calls.stop()

    def release(self) -> None:
        """Leave the workers as they were found."""
        for name in self._stations:
            with suppress(Exception):  # they may be gone, which is told elsewhere
                self.client.unregister_worker_plugin(name)

    def _station(self, job: Job) -> str:
        """Make all workers ready for a job. Raises Refused where one is not fit for it."""
        self._stations.append(job.name)
        found = self._asked(job)
        for address, why in sorted(found.items()):
            if why is not None:
                raise Refused(f"worker {address} cannot take part: {why}")
        return job.name

    def _asked(self, job: Job) -> dict[str, str | None]:
        """Why each worker is not fit, or None; asked again where one ends meanwhile."""
        for left in reversed(range(_TRIES)):
            self.calls.workers()
            with told(self.calls.scheduler):
                try:
                    self.client.register_plugin(Station(job))
                    found: dict[str, str | None] = self.client.run(unfitness, job.name)
                except ImportError as error:
                    raise Refused(
                        f"a worker of {self.calls.scheduler} has not the owpc-ltr of the command "
                        f"({error}): install the same on all machines"
                    ) from error
                except OSError:
                    if not left:
                        raise
                else:
                    return found
            time.sleep(1.0)
        raise gone(self.calls.scheduler)

    def _new_name(self) -> str:
        return f"owpc-ltr-{uuid.uuid4().hex}"


@contextmanager
def workers_at(place: Local | Scheduler, plugins: Sequence[Path] = ()) -> Iterator[Workers]:
    """Workers at a place, while a block lasts; our own processes end with it.

    `plugins` are files whose losses and optimizers the work may be done with. Raises
    WorkersUnavailable where no scheduler answers, Refused where a worker is not fit.
    """
    texts = {path.name: path.read_text(encoding="utf-8") for path in plugins}
    with _client(place) as (client, scheduler):
        workers = Workers(client, scheduler, texts)
        try:
            yield workers
        finally:
            workers.release()


@contextmanager
def _client(place: Local | Scheduler) -> Iterator[tuple[Client, str]]:
    if isinstance(place, Local):
        with (
            local_cluster(place.processes) as cluster,
            Client(cluster, timeout=CONNECT) as client,
        ):
            yield client, f"local:{place.processes}"
        return
    try:
        client = Client(place.address, timeout=CONNECT)
    except (OSError, TimeoutError) as error:
        raise WorkersUnavailable(
            f"no Dask scheduler answers at {place.address}: start one (dask scheduler), or use "
            "processes of this machine: --dask local:2"
        ) from error
    with client:
        yield client, place.address
