"""Parts that stay at hand between passes: in memory as far as they fit, else in a spool."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.halved import HalvedPart
from owpc_ltr.data.partitioned.spool import Spool

MEMORY = 512 << 20
"""Bytes of parts that stay in memory unless more are asked for."""


@dataclass(frozen=True)
class Room:
    """How many bytes of parts stay in memory, and whether in half precision.

    Then all parts are rounded alike, whether they stay or not.
    """

    size: int = MEMORY
    half: bool = False


def room_of(memory: int | Room | None) -> Room:
    """The room that a number of bytes is, or none given."""
    if isinstance(memory, Room):
        return memory
    return Room() if memory is None else Room(memory)


class Kept:
    """The first parts that were read, up to so many bytes in memory; of the others the numbers.

    None is ever thrown out for another: passes go round, and what was used last is needed last.
    """

    def __init__(self, room: Room) -> None:
        self.room, self.bytes, self.spool = room, 0, Spool()
        self._parts: dict[Hashable, RankingDataset | HalvedPart] = {}
        self._lock = Lock()

    def get(self, key: Hashable, load: Callable[[], RankingDataset]) -> RankingDataset:
        """A part, from memory, from the spool, or loaded and then kept."""
        found = self._parts.get(key) or self.spool.get(key)
        if found is None:
            part = load()
            found = HalvedPart.of(part) if self.room.half else part
            if not self._keep(key, found):
                found = _whole(found)
                self.spool.keep(key, found)
        return _whole(found)

    def _keep(self, key: Hashable, part: RankingDataset | HalvedPart) -> bool:
        """Whether a part is in memory now."""
        with self._lock:
            if key in self._parts:
                return True
            size = part.nbytes if isinstance(part, HalvedPart) else part.features.nbytes
            if self.bytes + size > self.room.size:
                return False
            self._parts[key] = part
            self.bytes += size
            return True

    def release(self) -> None:
        """Keep nothing."""
        self.spool.release()
        with self._lock:
            self._parts.clear()
            self.bytes = 0


def _whole(part: RankingDataset | HalvedPart) -> RankingDataset:
    return part.whole() if isinstance(part, HalvedPart) else part
