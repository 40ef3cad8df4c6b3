"""Functions of one signature, compiled at once, to be called by their address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compiled_address(function: Callable[..., Any], signature: Any) -> Any:
    """What numba's `cfunc` makes, with our own cache: its `address` is where the code lies."""
    from numba.core.ccallback import CFunc

    from owpc_ltr.compiling.cache import KernelCache

    made: Any = CFunc(function, (signature.args, signature.return_type), locals={}, options={})
    made._cache = KernelCache(function, {})
    made.compile()
    return made
