"""Functions that numba compiles when they are first called, and imports for no sooner."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, overload

_MAKING = threading.RLock()
"""Threads that begin with the same function make it once."""


class Compiled:
    """A function in numba's subset of Python, compiled on its first call and cached on disk.

    Other compiled functions call it by name, as they would call numba's own: while they are
    compiled, numba asks for its type. It holds no lock of the interpreter while it runs.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        """Wrap `function`; `options` are numba's own. Nothing is imported or compiled yet."""
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns; the first call for arguments of a type compiles it."""
        return self.dispatcher(*arguments)

    @property
    def dispatcher(self) -> Any:
        """What numba makes of the function."""
        if self._dispatcher is None:
            with _MAKING:
                if self._dispatcher is None:
                    self._dispatcher = self._make()
        return self._dispatcher

    def _make(self) -> Any:
        from numba import njit

        from owpc_ltr.compiling.cache import KernelCache

        # What numba makes for functions that are values themselves is made by `Kernel` alone.
        dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **self.options)(self.function)
        dispatcher._cache = KernelCache(self.function, self.options)
        return dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What numba looks at when compiled code names this function."""
        return self.dispatcher._numba_type_


@overload
def compiled(function: Callable[..., Any]) -> Compiled: ...


@overload
def compiled(**options: Any) -> Callable[[Callable[..., Any]], Compiled]: ...


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function in numba's subset of Python a `Compiled` one (decorator).

    Options are those of `numba.njit`, as `@compiled(fastmath={"contract"})`.
    """
    if function is not None:
        return Compiled(function, {})
    return lambda written: Compiled(written, options)
