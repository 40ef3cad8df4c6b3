"""Calls on workers, their results in the order of the calls, and the loss of workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

from distributed import Client, Future, KilledWorker, wait
from distributed.client import ClosedClientError
from distributed.protocol.pickle import dumps

from owpc_ltr.errors import OwpcLtrError, UsageError, WorkersUnavailable
from owpc_ltr_dask.on_worker import Failed

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
            "they may lack memory: give fewer processes, less --memory, or larger machines"
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
