"""Workers and schedulers that end: how long, how often they are waited for; the errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

from distributed import KilledWorker
from distributed.client import ClosedClientError

from owpc_ltr.errors import OwpcLtrError, WorkersUnavailable

PATIENCE = 30.0
"""Seconds in which a worker may come, or come back."""
TRIES = 4
"""How often work that all workers do together is begun again with those that are left."""


@contextmanager
def told(scheduler: str) -> Iterator[None]:
    """Around whatever is asked of Dask: what it raises where one is gone is one line.

    What a call of ours raises travels another way.
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
        raise gone(scheduler) from error


def gone(scheduler: str) -> WorkersUnavailable:
    """The error for a scheduler that is not there any more."""
    return WorkersUnavailable(
        f"the Dask scheduler at {scheduler} does not answer any more: see its log, start it and "
        "run the command again; nothing was written"
    )


def none_left(scheduler: str, seconds: float) -> WorkersUnavailable:
    """The error for a scheduler without workers."""
    return WorkersUnavailable(
        f"the Dask scheduler at {scheduler} has had no worker for {seconds:.0f} seconds: start "
        f"some, as with: dask worker {scheduler}"
    )


def ended_often() -> WorkersUnavailable:
    """The error for workers that ended at each try."""
    return WorkersUnavailable(
        f"workers ended {TRIES} times while they worked together: they may lack memory: give "
        "fewer processes, less --memory, or larger machines"
    )
