"""Instructions that compiled functions have, and Python has not, as LLVM writes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Intrinsic:
    """An intrinsic of numba, made when compiled code first names it.

    The definition takes a typing context and the types of the arguments, and returns a signature
    and what writes the code: see `numba.extending.intrinsic`. It imports numba and llvmlite itself.
    """

    def __init__(self, definition: Callable[..., Any]) -> None:
        """Wrap the definition; nothing is imported yet."""
        functools.update_wrapper(self, definition)
        self.definition = definition

    def __call__(self, *_arguments: Any) -> Any:
        """Raise TypeError: there is nothing for the interpreter to call."""
        raise TypeError(f"{self.definition.__name__} is for compiled functions to call")

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """What numba looks at when compiled code names this one."""
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic as make

        self._made = make(self.definition)
        # numba knows its intrinsics by a list of new ones, which it has to read.
        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(self._made)


def intrinsic(definition: Callable[..., Any]) -> Intrinsic:
    """Make a definition an `Intrinsic` (decorator)."""
    return Intrinsic(definition)
