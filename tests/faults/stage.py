"""A stage of the road: a command, the state before it, and what it makes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.faults.running import Ended
from tests.faults.world import State, World


class Kind(Enum):
    """What a stage does to the world, which decides what is promised of it."""

    READS = "reads"
    """Asks the cluster, and prints."""
    LOGS = "logs"
    """Asks the cluster, and publishes a file."""
    WRITES = "writes"
    """Changes what is in the cluster."""
    LEARNS = "learns"
    """Makes files of files, without a cluster."""


Prepared = Callable[[World], None]
Printed = Callable[[str], Any]


def text(out: str) -> Any:
    """What is printed, which is the same each time."""
    return out


def without_times(out: str) -> Any:
    """What is printed as JSON without what is measured by a clock."""

    def kept(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {k: kept(v) for k, v in tree.items() if not re.search(_CLOCK, k)}
        return [kept(part) for part in tree] if isinstance(tree, list) else tree

    return kept(json.loads(out))


_CLOCK = "milliseconds|seconds|took|took_|_ms|latency|cost"


def nothing(_out: str) -> Any:
    """What is printed is measured by a clock."""
    return None


@dataclass(frozen=True)
class Stage:
    """A command in a state of the world."""

    name: str
    kind: Kind
    words: Callable[[World], tuple[str, ...]]
    prepare: Prepared = lambda _: None
    """Brings about the state before, from the state in which worlds are built."""
    out: str | None = None
    """The file that it publishes."""
    keeps: tuple[str, ...] = ()
    """Other files that it makes."""
    printed: Printed = text
    once: bool = False
    """Whether the command, done twice, does something else than once."""
    searches: bool = True
    """Whether it searches."""
    bulk: bool = False
    """Whether it sends documents in bulk."""

    def command(self, world: World) -> tuple[str, ...]:
        """The words to type."""
        return self.words(world)


@dataclass(frozen=True)
class Clean:
    """A stage that nothing goes wrong in: before, after, what is printed and published."""

    before: State
    after: State
    printed: Any
    published: bytes | None
    requests: list[Any]


def made(stage: Stage, world: World, ended: Ended) -> tuple[State, Any, bytes | None]:
    """What a stage has come to: the cluster, what was printed in the end, the file."""
    path = world.path(stage.out) if stage.out else None
    published = path.read_bytes() if path is not None and path.exists() else None
    printed = None if ended.code else stage.printed(ended.out)
    return world.state(), printed, published
