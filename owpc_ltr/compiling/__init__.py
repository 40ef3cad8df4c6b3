"""Compiled code: written as Python functions, made by numba when it is first called.

    @compiled
    def total(values):
        ...

This is the one way to write a loop that is compiled. No file of ours imports numba at its top: a
command that computes nothing does not pay for it. Where NumPy comes to the very same bits, small
inputs (`is_small`) are left to it, and need no compiled code at all.
"""

from owpc_ltr.compiling.address import compiled_address
from owpc_ltr.compiling.function import Compiled, compiled
from owpc_ltr.compiling.intrinsic import Intrinsic, intrinsic
from owpc_ltr.compiling.small import is_small

__all__ = ["Compiled", "Intrinsic", "compiled", "compiled_address", "intrinsic", "is_small"]
