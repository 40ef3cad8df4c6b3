"""Parts that stay at hand between passes: in memory as far as they fit, else in a spool."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.spool import Spool

MEMORY = 512 << 20
"""Bytes of parts that stay in memory unless more are asked for."""


class Kept:
    """The first parts that were read, up to so many bytes in memory; of the others the numbers.

    None is ever thrown out for another: passes go round, and what was used last is needed last.
    """

    def __init__(self, budget: int) -> None:
        self.budget, self.bytes, self.spool = budget, 0, Spool()
        self._parts: dict[Hashable, RankingDataset] = {}
        self._lock = Lock()

    def get(self, key: Hashable, load: Callable[[], RankingDataset]) -> RankingDataset:
        """A part, from memory, from the spool, or loaded and then kept."""
        found = self._parts.get(key) or self.spool.get(key)
        if found is not None:
            return found
        part = load()
        if not self._keep(key, part):
            self.spool.keep(key, part)
        return part

    def _keep(self, key: Hashable, part: RankingDataset) -> bool:
        """Whether a part is in memory now."""
        with self._lock:
            if key in self._parts:
                return True
            if self.bytes + part.features.nbytes > self.budget:
                return False
            self._parts[key] = part
            self.bytes += part.features.nbytes
            return True

    def release(self) -> None:
        """Keep nothing."""
        self.spool.release()
        with self._lock:
            self._parts.clear()
            self.bytes = 0
