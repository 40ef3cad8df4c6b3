"""The files that commands will write."""

from __future__ import annotations

import os
from pathlib import Path

from owpc_ltr.errors import UsageError


def check_writable(path: Path) -> None:
    """Refuse an output that could not be written, before the work rather than after it."""
    if path.is_dir():
        raise UsageError(f"cannot write to {path}: it is a folder; name a file")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} is not writable")
