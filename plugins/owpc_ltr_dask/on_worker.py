"""Code that runs on a worker: reading and caching its parts, and calls on them.

The versions of numerical libraries decide the bits of a sum: they are the same on all machines.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker
from distributed.protocol.pickle import loads
from threadpoolctl import threadpool_limits
from tornado.ioloop import PeriodicCallback

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import ColumnSet, PartReader, PartSelection, open_partitioned
from owpc_ltr.errors import BadInput, OwpcLtrError, PluginError, Refused
from owpc_ltr.host.registry import load
from owpc_ltr.version import VERSION

_LOOK = 60_000  # milliseconds
_REST = 15 * 60.0
"""Seconds without work after which the cache is dropped: the caller may have been killed."""


@dataclass(frozen=True)
class Failed:
    """An error raised by a call on a worker; Dask's own errors are not among these."""

    error: Exception


@dataclass(eq=False, repr=False)
class WorkerJob(WorkerPlugin):  # type: ignore[misc]
    """A worker's side of a job: whether it is fit for it, and its cache of parts.

    `plugins` are the files of plugins, by name. Without a folder there are no parts.
    """

    name: str
    versions: Mapping[str, str]
    plugins: Mapping[str, str]
    folder: str | None = None
    fingerprint: str = ""
    memory: int = 0
    failure: str | None = field(default=None, init=False)
    files: PartReader | None = field(default=None, init=False)

    def setup(self, worker: Any) -> None:
        """Make ready, or remember why that cannot be; workers that come later are asked too."""
        self.last = time.monotonic()
        try:
            self._make_ready(Path(worker.local_directory))
        except OwpcLtrError as error:
            self.failure = str(error)
        # The number of threads changes the last bits of a product.
        self._limits = threadpool_limits(limits=1, user_api="blas")
        self._timer = PeriodicCallback(self._rest, _LOOK)
        self._timer.start()

    def teardown(self, worker: Any) -> None:
        """Leave the worker as it was found."""
        del worker
        self._timer.stop()
        self._limits.restore_original_limits()
        if self.files is not None:
            self.files.cache.release()

    def part(self, piece: PartSelection, form: ColumnSet) -> RankingDataset:
        """A part, from memory or from the disk of this worker."""
        try:
            return self.opened().read(piece, form)
        except OwpcLtrError as error:
            # Its copy of the folder may be the only one that is damaged.
            raise type(error)(f"worker {get_worker().address}: {error}") from error

    def opened(self) -> PartReader:
        """The files of the folder, on the disk of this worker."""
        self.last = time.monotonic()
        if self.files is None:
            raise Refused(self.failure or "no folder of parts was opened")
        return self.files

    def _make_ready(self, scratch: Path) -> None:
        check_versions(self.versions, versions())
        _load_plugins(self.plugins, scratch / self.name)
        if self.folder is None:
            return
        data = open_partitioned(self.folder, self.memory)
        if data.fingerprint != self.fingerprint:
            raise BadInput(
                f"{self.folder} is another dataset there: all machines must see one folder at "
                "this path, on a shared disk or as a copy"
            )
        self.files = data.files

    def _rest(self) -> None:
        if self.files is not None and time.monotonic() - self.last > _REST:
            self.files.cache.release()


def unfitness(name: str, dask_worker: Any) -> str | None:
    """Why a worker cannot take part; None if it can."""
    worker_job: WorkerJob = dask_worker.plugins[name]
    return worker_job.failure


def call_on_parts(
    name: str, pieces: Sequence[PartSelection], form: ColumnSet, call: bytes
) -> list[Any] | Failed:
    """The results of a call, as Dask writes it, for each part; or what it raised."""

    def calls(worker_job: WorkerJob) -> list[Any]:
        made = loaded_call(call)
        return [made(worker_job.part(piece, form)) for piece in pieces]

    return attempt(name, calls)


def call_on_worker(name: str, call: bytes) -> list[Any] | Failed:
    """The result of a call without arguments, alone in a list; or what it raised."""
    return attempt(name, lambda _: [loaded_call(call)()])


def attempt(name: str, calls: Callable[[WorkerJob], list[Any]]) -> list[Any] | Failed:
    """The results of calls on a worker that is fit for them; or what was raised."""
    worker = get_worker()
    try:
        worker_job: WorkerJob = worker.plugins[name]
        if worker_job.failure is not None:
            raise Refused(f"worker {worker.address}: {worker_job.failure}")
        # What a plugin prints is no result of the command, whose standard output this may be.
        with redirect_stdout(sys.stderr):
            return calls(worker_job)
    except OwpcLtrError as error:
        return Failed(error)
    except Exception as error:  # noqa: BLE001 - carried to who asked, and raised there
        error.add_note(f"on worker {worker.address}:\n{traceback.format_exc()}")
        return Failed(error)


def loaded_call(call: bytes) -> Any:
    """A call as it was before it was sent. Raises PluginError for code that this worker lacks."""
    try:
        return loads(call)
    except (ImportError, AttributeError) as error:
        raise PluginError(
            f"worker {get_worker().address} lacks code that this is trained with ({error}): "
            "install the same plugins on all machines, or give files with `plugins`"
        ) from error


def _load_plugins(files: Mapping[str, str], folder: Path) -> None:
    """Load plugin files from their texts, under the names that they have where they are from."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        load([folder / name])


_RECKONING = ("numpy", "numba", "pyarrow")


def versions() -> dict[str, str]:
    """The versions of this process."""
    return {
        "owpc-ltr": VERSION,
        "Python": ".".join(map(str, sys.version_info[:2])),
        **{name: version(name) for name in _RECKONING},
    }


def check_versions(expected: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Refuse a process in which anything is of another version than where the command runs."""
    for name, needed in expected.items():
        actual = present.get(name, "none")
        if needed != actual:
            raise Refused(
                f"it has {name} {actual}, and the command has {needed}: install the same on all "
                "machines, for another version may give other models"
            )
