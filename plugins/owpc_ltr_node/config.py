"""What the user may choose about a node, checked before any work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import UsageError
from owpc_ltr_node.release import OPENSEARCH, Release, usual_release

DEFAULT_PORT = 9200
DEFAULT_HEAP = "512m"
UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}
LEAST_HEAP = "128m"
MOST_NODES = 9


@dataclass(frozen=True)
class LocalNode:
    """A node on 127.0.0.1, or a cluster of several `nodes`; the port names it.

    `heap` is that of each node. `folder` takes its data, logs and temporary files, `home` is the
    assembled engine; both have a default place. `version` has a usual one for each engine.
    `patience` is how long to wait for its health, in seconds.
    """

    port: int = DEFAULT_PORT
    transport_port: int | None = None
    heap: str = DEFAULT_HEAP
    folder: Path | None = None
    home: Path | None = None
    java: Path | None = None
    version: str | None = None
    verify: bool = False
    patience: float = 180.0
    engine: str = OPENSEARCH
    nodes: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MOST_NODES:
            raise UsageError(
                f"--nodes {self.nodes} is not between 1 and {MOST_NODES}: three show what a "
                "cluster does"
            )
        _check_port("--port", self.port)
        if self.transport_port is not None:
            _check_port("--transport-port", self.transport_port)
            if self.transport_port == self.port:
                raise UsageError(f"--port and --transport-port are both {self.port}: choose two")
        last = self.port + self.nodes - 1
        if last > 65535:
            raise UsageError(
                f"--nodes {self.nodes} from --port {self.port} on would end at {last}, and ports "
                f"end at 65535: choose a lower one such as {DEFAULT_PORT}"
            )
        _check_heap(self.heap, self.nodes, self.release.engine)

    @property
    def release(self) -> Release:
        """Which engine it is, in which version."""
        return usual_release(self.engine, self.version)


def heap_bytes(heap: str) -> int:
    """The size that a heap setting names.

    >>> heap_bytes("512m") == 512 * 2**20
    True
    """
    found = re.fullmatch(r"([1-9][0-9]{0,9})([kmg])", heap.strip().lower())
    if not found:
        raise UsageError(f"--heap {heap} is not a size: write it as 512m or 2g")
    return int(found[1]) * UNITS[found[2]]


def _check_heap(heap: str, nodes: int, engine: str) -> None:
    import psutil

    size = heap_bytes(heap)
    memory = psutil.virtual_memory().total
    if size < heap_bytes(LEAST_HEAP):
        raise UsageError(f"--heap {heap} is too small for {engine}: give it {LEAST_HEAP} or more")
    if size > memory:
        raise UsageError(
            f"--heap {heap} is more than this machine's memory "
            f"({memory / UNITS['g']:.1f} GiB): {DEFAULT_HEAP} is enough for a few 100,000 documents"
        )
    if nodes * size > memory:
        raise UsageError(
            f"--nodes {nodes} of --heap {heap} are more than this machine's memory "
            f"({memory / UNITS['g']:.1f} GiB): give each less, or take fewer nodes"
        )


def _check_port(option: str, port: int) -> None:
    if not 1024 <= port <= 65535:
        raise UsageError(
            f"{option} {port} is not between 1024 and 65535: choose one such as {DEFAULT_PORT}"
        )
