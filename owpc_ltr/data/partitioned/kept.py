"""Parts that stay in memory between passes, as far as they fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock

from owpc_ltr.data.dataset import RankingDataset

MEMORY = 512 << 20
"""Bytes of parts that stay in memory unless more are asked for."""


class Kept:
    """The first parts that were read, up to so many bytes.

    None is ever thrown out for another: passes go round, and what was used last is needed last.
    """

    def __init__(self, budget: int) -> None:
        self.budget, self.bytes = budget, 0
        self._parts: dict[Hashable, RankingDataset] = {}
        self._lock = Lock()

    def get(self, key: Hashable, load: Callable[[], RankingDataset]) -> RankingDataset:
        """A part, from memory or loaded, and then kept if it fits."""
        found = self._parts.get(key)
        if found is not None:
            return found
        part = load()
        with self._lock:
            if self.bytes + part.features.nbytes <= self.budget and key not in self._parts:
                self._parts[key] = part
                self.bytes += part.features.nbytes
        return part

    def release(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._parts.clear()
            self.bytes = 0
