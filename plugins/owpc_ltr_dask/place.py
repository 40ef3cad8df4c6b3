"""Where workers are: so many of our own, `local:4`, or those of a scheduler that runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from owpc_ltr.errors import UsageError
from owpc_ltr.files.text import shown

_MOST = 1024
_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")
_SCHEDULER = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


@dataclass(frozen=True)
class Local:
    """Processes on this machine, which end with the command."""

    processes: int


@dataclass(frozen=True)
class Scheduler:
    """A Dask scheduler that somebody started, and keeps."""

    address: str


def parse_place(text: str) -> Local | Scheduler:
    """Where the workers are. Raises UsageError for what names no place.

    >>> parse_place("local:4"), parse_place("tcp://10.0.0.1:8786")
    (Local(processes=4), Scheduler(address='tcp://10.0.0.1:8786'))
    """
    local = _LOCAL.fullmatch(text)
    if local is not None and int(local[1]) <= _MOST:
        return Local(int(local[1]))
    if _SCHEDULER.fullmatch(text):
        return Scheduler(text)
    raise UsageError(
        f"there are no workers at {shown(text)}: give local:N for N processes on this machine, or "
        "the address of a Dask scheduler, tcp://HOST:8786"
    )
