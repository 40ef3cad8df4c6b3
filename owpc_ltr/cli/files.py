"""The files that commands read whole, and those that they will write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput, UsageError


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises BadInput naming the file and the place of the fault."""
    from owpc_ltr.files.text import read_text

    try:
        content = json.loads(read_text(path, largest=10_000_000))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds no JSON object: it begins with {str(content)[:20]!r}")
    return content


def check_writable(path: Path) -> None:
    """Refuse an output that could not be written, before the work rather than after it."""
    if path.is_dir():
        raise UsageError(f"cannot write to {path}: it is a folder; name a file")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} is not writable")
