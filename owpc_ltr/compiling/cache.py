"""Where compiled code is: shipped, beside its source, in the user's cache, else in memory alone.

This file extends classes of numba's, and is imported with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import _Cache, _CacheLocator

from owpc_ltr.compiling.shelf import Shelf
from owpc_ltr.compiling.shipped import ShippedShelf, shipped_folder
from owpc_ltr.compiling.stamp import stamp_of
from owpc_ltr.compiling.work import WORK


class KernelCache(_Cache):  # type: ignore[misc]
    """The code of one function: shipped, or in the first folder that has it, or that takes it.

    What an administrator has compiled into an installation that others cannot write is found. A
    folder that takes nothing, or is full, costs the next process time, and ends nothing.
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        stamp = stamp_of(function, options)
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._shelves: list[Shelf] = []
        self._shipped: list[Shelf] = []
        building = os.environ.get("OWPC_LTR_SHIP_TO")
        if building:
            self._shelves = [ShippedShelf(function, Path(building), stamp)]
            return
        shipped = shipped_folder()
        if shipped is not None:
            self._shipped = [ShippedShelf(function, shipped, stamp)]
        self._shelves = [Shelf(function, folder, stamp) for folder in folders_of(function)]

    @property
    def cache_path(self) -> str:
        """The first folder."""
        return str(self._shelves[0].cache_path) if self._shelves else ""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature before; None where it must be compiled now."""
        for shelf in self._shipped + self._shelves:
            try:
                found = shelf.load_overload(sig, target_context)
            except OSError:
                continue
            if found is not None:
                return found
        WORK.begin(self._name)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled."""
        WORK.end(self._name, self._save(sig, data))

    def _save(self, sig: Any, data: Any) -> str:
        """The folder that took it, empty where none does."""
        for shelf in self._shelves:
            try:
                shelf.save_overload(sig, data)
            except OSError:
                continue
            return str(shelf.cache_path)
        return ""

    def enable(self) -> None:
        """Look into the folders."""
        for shelf in self._shipped + self._shelves:
            shelf.enable()

    def disable(self) -> None:
        """Compile anew, and keep nothing."""
        for shelf in self._shipped + self._shelves:
            shelf.disable()

    def flush(self) -> None:
        """Forget what is kept."""
        for shelf in self._shelves:
            shelf.flush()


def folders_of(function: Callable[..., Any]) -> Iterator[Path]:
    """Where code of the function may be: what NUMBA_CACHE_DIR says, else its own and the user's."""
    source = Path(function.__code__.co_filename)
    inside = _CacheLocator.get_suitable_cache_subpath(str(source))
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR) / inside
        return
    if source.is_file():
        yield source.parent / "__pycache__"
    from platformdirs import user_cache_path

    yield user_cache_path("owpc-ltr") / "compiled" / inside
