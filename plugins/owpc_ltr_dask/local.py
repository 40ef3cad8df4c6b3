"""Processes of this machine as workers: nobody else can use them, and they end with the block."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import dask
from distributed import LocalCluster
from distributed.core import Status
from distributed.security import Security

from owpc_ltr.errors import WorkersUnavailable

_SETTINGS: dict[str, Any] = {
    # Nothing is served to browsers.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # What they would warn of is told here, or not at all.
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
    _be_quiet()
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


def _be_quiet() -> None:
    """What Dask logs of processes that end is not for people, and comes also after they have."""
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)


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
