"""Zip archives from elsewhere: nothing in them is written outside the folder they are given."""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path, PurePosixPath

from owpc_ltr.errors import BadInput


def check_entries(archive: Path, files: zipfile.ZipFile, largest: int) -> None:
    """Raise BadInput for an archive that would write outside its folder, or without end."""
    entries = files.infolist()
    for entry in entries:
        _check_safe(archive, entry)
    if sum(entry.file_size for entry in entries) > largest:
        raise BadInput(f"{archive} unpacks to more than {largest // 1_000_000} MB: refused")


def _check_safe(archive: Path, entry: zipfile.ZipInfo) -> None:
    target = PurePosixPath(entry.filename)
    escapes = target.is_absolute() or ".." in target.parts
    # A backslash or a colon is a way out on other systems, and a link is one on ours.
    odd = re.search(r"[\\:\x00]", entry.filename) or stat.S_ISLNK(entry.external_attr >> 16)
    if escapes or odd:
        raise BadInput(
            f"{archive} would write outside its folder ('{entry.filename}'): do not use it"
        )
