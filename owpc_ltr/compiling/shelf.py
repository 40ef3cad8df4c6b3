"""A shelf: the compiled code of one function in one folder, as numba writes and reads it.

This file extends classes of numba's, and is imported with it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator


class Shelf(FunctionCache):  # type: ignore[misc]
    """The code of one function in one folder, as long as its stamp is the same."""

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: str) -> None:
        place = _Place(function, folder, stamp)
        self._impl_class = lambda written: _AtPlace(written, place)
        super().__init__(function)


class _AtPlace(CompileResultCacheImpl):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any], place: _Place) -> None:
        self._locator_classes = [place]
        super().__init__(function)


class _Place(_CacheLocator):  # type: ignore[misc]
    """A folder, which is made only when something is to be kept in it."""

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: str) -> None:
        self._folder, self._stamp = folder, stamp
        self._py_file = function.__code__.co_filename

    def from_function(self, *_function: Any) -> _Place:
        """Itself: it is of one function."""
        return self

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What the code depends on, wherever it is written."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Nothing: the names of functions tell them apart, and lines move."""
        return ""
