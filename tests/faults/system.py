"""The faults of a system: a disk, signals, memory and plugins, with what is promised of each."""

from __future__ import annotations

import errno
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.cells import small_chunks
from tests.faults.disk import failing_disk, full_after
from tests.faults.kills import Killer
from tests.faults.running import Ended
from tests.faults.stage import Stage
from tests.faults.traps import Trap

Struck = Callable[[Killer, Stage, random.Random], Ended]


@dataclass(frozen=True)
class SystemFault:
    """What goes wrong on the machine itself, and the exit codes that are right."""

    name: str
    strike: Struck
    expected: str
    abrupt: bool = False
    """Whether the command has no chance to say or clean up anything."""
    published: bool = False
    """Whether the file may be in its place already when the command ends otherwise."""
    unsure: bool = False
    """Whether it may strike where the command can no longer tell that its work is done."""
    only: tuple[str, ...] = ()
    seeds: int = 1

    def applies(self, stage: Stage) -> bool:
        """Whether there is a cell of this fault at this stage."""
        return not self.only or stage.name in self.only


def disk(reason: int, *, lasting: bool = False, reading: bool = False) -> Struck:
    """An operation on the command's files fails."""

    def strike(killer: Killer, stage: Stage, chance: random.Random) -> Ended:
        world = killer.laboratory.world
        with small_chunks():
            with failing_disk(world.folder, 0, reading=reading) as counted:
                world.run(*stage.command(world))
            killer.laboratory.clean(stage)
            place = chance.randint(1, counted.seen)
            with failing_disk(world.folder, place, reason=reason, lasting=lasting, reading=reading):
                return world.run(*stage.command(world))

    return strike


def _too_long(killer: Killer, stage: Stage, chance: random.Random) -> Ended:
    """Files cannot grow beyond a part of what is to be written."""
    world = killer.laboratory.world
    whole = killer.laboratory.clean(stage).published or b"0123456789"
    with small_chunks(), full_after(chance.randrange(len(whole))):
        return world.run(*stage.command(world))


def signalled(*numbers: int, step: str = "call") -> Struck:
    """Signals come at a step."""

    def strike(killer: Killer, stage: Stage, chance: random.Random) -> Ended:
        place = chance.randint(1, killer.steps(stage)[step])
        killer.laboratory.clean(stage)  # steps are counted by doing it
        return killer.struck(stage, Trap(step, place, numbers))

    return strike


def _plugin(text: str) -> Struck:
    """The command runs with a loss of a plugin file."""

    def strike(killer: Killer, stage: Stage, _chance: random.Random) -> Ended:
        world = killer.laboratory.world
        path = world.folder.parent / "bad_plugin.py"
        path.write_text(_LOSS.format(text))
        words = [word for word in stage.command(world) if word not in {"--loss", "pairwise"}]
        return world.run(*words, "--plugin", str(path), "--loss", "bad-plugin")

    return strike


_LOSS = '''"""A loss that does what it must not."""
import os, sys
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from owpc_ltr import hookimpl

@dataclass(frozen=True)
class Bad:
    """A bad loss."""
    name: ClassVar[str] = "bad-plugin"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True

    def value_and_gradient(self, scores, labels):
        {}

@hookimpl
def ltr_losses():
    return [Bad]
'''
_LEARNING = ("train", "select")
_FILES = (
    *("log-features", "judge pool", "train", "select"),
    *("evaluate", "average", "import", "export"),
    *("compare", "report", "judge clicks"),
)
_PLUGINS = {
    "raises": "raise KeyError('no')",
    "returns nothing": "return None",
    "returns a gradient of another shape": "return 1.0, np.zeros(len(scores) + 1)",
    "returns a gradient of texts": "return 1.0, ['a'] * len(scores)",
    "returns NaN": "return float('nan'), np.full(len(scores), np.nan)",
    "ends the process with success": "sys.exit(0)",
    "raises KeyboardInterrupt": "raise KeyboardInterrupt",
    "fills the memory": "raise MemoryError",
    "calls itself for ever": "return self.value_and_gradient(scores, labels)",
}
SYSTEM_FAULTS = [
    *(
        SystemFault(f"{name} once", disk(reason), "0|2|4", published=True, only=_FILES, seeds=8)
        for name, reason in (
            ("disk full", errno.ENOSPC),
            ("disk broken", errno.EIO),
            ("not permitted", errno.EACCES),
            ("read-only", errno.EROFS),
        )
    ),
    SystemFault("disk full from now on", disk(errno.ENOSPC, lasting=True), "0|2|4", published=True,
                only=_FILES, seeds=2, abrupt=True),
    SystemFault("file cannot grow", _too_long, "4", only=_FILES, seeds=2),
    SystemFault("file cannot be read", disk(errno.EIO, reading=True), "0|2|3|4", only=_FILES,
                seeds=2, published=True),
    SystemFault("SIGINT", signalled(signal.SIGINT), "0|130", published=True),
    SystemFault("SIGTERM", signalled(signal.SIGTERM), "0|143", published=True),
    SystemFault("SIGTERM before a change of a file", signalled(signal.SIGTERM, step="file"),
                "0|143", only=_FILES, published=True),
    SystemFault("SIGINT twice", signalled(signal.SIGINT, signal.SIGINT), "0|130",
                published=True, abrupt=True),
    SystemFault("SIGHUP", signalled(signal.SIGHUP), "0|129", published=True),
    SystemFault("memory at an end", signalled(), "0|2|3|4|5|70", published=True, unsure=True),
    *(
        SystemFault(f"plugin {name}", _plugin(text), "2", only=_LEARNING)
        for name, text in _PLUGINS.items()
    ),
]  # fmt: skip
