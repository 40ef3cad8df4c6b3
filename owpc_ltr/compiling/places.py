"""Places in sources, which numba writes into compiled code, without the folders of one machine."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path


def leave_out_folders() -> None:
    """Let numba name files as imports do, from now on in this process: while wheels are built.

    Code that can raise holds the file and line where it does. With the folders of the machine
    that built it, it would tell of them, and be other code in each.
    """
    from numba.core.ir import Loc

    made = Loc.__init__

    def begin(self: object, filename: str, *place: object, **more: object) -> None:
        made(self, as_imported(filename), *place, **more)

    Loc.__init__ = begin


@cache
def as_imported(filename: str) -> str:
    """A path from the deepest folder of `sys.path` that it lies in, with forward slashes."""
    path = Path(filename)
    folders = [Path(one) for one in sys.path if one and path.is_relative_to(one)]
    if not folders:
        return filename
    return path.relative_to(max(folders, key=lambda one: len(one.parts))).as_posix()
