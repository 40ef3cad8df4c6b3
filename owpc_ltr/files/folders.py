"""Folders: that of the user's files that outlive a command, and the one that an agent may use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from owpc_ltr.errors import Refused

_confined: list[Path] = []
"""The folder of the block under way; as the working directory, it is that of all threads."""


def state_folder() -> Path:
    """The folder `state` of the environment's OWPC_LTR_HOME, or the platform's own."""
    import platformdirs

    if home := os.environ.get("OWPC_LTR_HOME"):
        return Path(home).expanduser().absolute() / "state"
    return platformdirs.user_state_path("owpc-ltr", appauthor=False)


@contextmanager
def confined_to(folder: Path) -> Iterator[None]:
    """In this block files are read and written in this folder only, whatever names them.

    The folder, absolute and without links, is the working directory, and has temporary files, too.
    """
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    _confined.append(folder)
    try:
        with chdir(folder):
            yield
    finally:
        _confined.pop()
        tempfile.tempdir = before


def is_confined() -> bool:
    """Whether an agent is the caller, and not a person."""
    return bool(_confined)


def is_inside(path: Path | str, *others: Path) -> bool:
    """Whether a path, also of a file that is yet to be written, leads into the folder.

    `others` are folders that count as well. Without a block every path does.
    """
    if not _confined:
        return True
    try:
        if str(path).startswith("~"):
            return False
        target = Path(path).resolve()
        return any(target.is_relative_to(folder) for folder in (_confined[-1], *others))
    except (OSError, RuntimeError, ValueError):
        return False


def refuse_outside(path: Path | str, name: str = "") -> None:
    """Refuse a path that leaves the folder of the block, if there is one, also by a link.

    `name` is what named it. Without that, the library's own state is allowed, too.
    """
    if not is_inside(path, *(() if name else (state_folder().resolve(),))):
        raise Refused(
            f"{name or 'the file'} {str(path)!r} is outside of the folder of this session: name a "
            "file in it, by a path that is relative to it"
        )
