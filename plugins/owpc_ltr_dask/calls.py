"""Calls on workers, and their results in the order in which they were asked for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from threading import Event
from typing import Any

from distributed import Client, Future, wait
from distributed.protocol.pickle import dumps

from owpc_ltr.errors import UsageError, WorkersUnavailable
from owpc_ltr_dask.lost_workers import PATIENCE, none_left, told
from owpc_ltr_dask.on_worker import Failed, made

_AT_ONCE = 64
"""Results that are fetched together; no more are held here."""
_LOOK = 2.0

Task = tuple[Callable[[], list[Any] | Failed], str | None]
"""A call that makes some results, and the worker that is best asked, if any; another may be."""


class Calls:
    """Calls through a scheduler; a worker that dies costs what it was at, and no more."""

    def __init__(self, client: Client, scheduler: str, patience: float = PATIENCE) -> None:
        self.client, self.scheduler, self.patience = client, scheduler, patience
        self._stopped = Event()

    def stop(self) -> None:
        """Wait for nothing any more, in whatever thread."""
        self._stopped.set()

    def workers(self) -> list[str]:
        """The addresses of all workers, once there is one. Raises WorkersUnavailable."""
        deadline = time.monotonic() + self.patience
        while True:
            with told(self.scheduler):
                there = sorted(self.client.nthreads())
            if there:
                return there
            if time.monotonic() > deadline:
                raise none_left(self.scheduler, self.patience)
            time.sleep(0.1)

    def written(self, call: Callable[..., Any]) -> bytes:
        """A call as workers take it. Raises UsageError for what cannot leave this process."""
        try:
            written: bytes = dumps(call)
        except Exception as error:
            raise UsageError(
                f"this cannot be done by workers, for what is to be called cannot be sent to them "
                f"({type(error).__name__}: {error}): do it without a cluster"
            ) from error
        return written

    def results(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """What the calls make, one result after another.

        Raises what one raised, and WorkersUnavailable.
        """
        waiting = deque(self._begun(tasks))
        try:
            while waiting:
                batch = list(islice(waiting, _AT_ONCE))
                found = self._fetched(batch)
                for _ in batch:
                    waiting.popleft()
                del batch
                for result in found:
                    if isinstance(result, Failed):
                        raise result.error
                    yield from result
        finally:
            if waiting and self.client.status == "running":
                self.client.cancel(list(waiting), force=True)

    def on_all(self, tasks: Sequence[tuple[Callable[[], list[Any] | Failed], str]]) -> list[Any]:
        """What calls make on these very workers, side by side, one result each.

        Raises WorkersUnavailable where one ends meanwhile, else what one raised.
        """
        with told(self.scheduler):
            futures = [self.client.submit(call, pure=False, workers=[home]) for call, home in tasks]
        homes = {home for _, home in tasks}
        try:
            while not self._stopped.is_set():
                with told(self.scheduler):
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

    def _begun(self, tasks: Sequence[Task]) -> list[Future]:
        """The tasks under way; those of one worker are sent together, at the cost of one."""
        of_home: dict[str | None, list[int]] = {}
        for number, (_, home) in enumerate(tasks):
            of_home.setdefault(home, []).append(number)
        futures: dict[int, Future] = {}
        with told(self.scheduler):
            for home, numbers in of_home.items():
                own = self.client.map(
                    made,
                    [tasks[number][0] for number in numbers],
                    pure=False,
                    workers=None if home is None else [home],
                    allow_other_workers=home is not None,
                )
                futures.update(zip(numbers, own, strict=True))
        return [futures[number] for number in range(len(tasks))]

    def _fetched(self, futures: list[Future]) -> list[Any]:
        missing = 0.0
        while not self._stopped.is_set():
            with told(self.scheduler):
                try:
                    wait(futures, timeout=_LOOK)
                    found: list[Any] = self.client.gather(futures)
                except TimeoutError:
                    # What has failed is not waited for by the rest.
                    self.client.gather([one for one in futures if one.status == "error"][:1])
                    missing = 0.0 if self.client.nthreads() else missing + _LOOK
                else:
                    return found
            if missing > self.patience:
                raise none_left(self.scheduler, self.patience)
        raise WorkersUnavailable("the work was stopped")
