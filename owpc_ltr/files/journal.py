"""The journal of resumable work: finished parts, so that a stopped run goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.output import disk_faults, output_file
from owpc_ltr.files.regular import read_regular

T = TypeVar("T")

_LARGEST = 1 << 30
_BEGINS = b'{"key": "'


class Journal(Generic[T]):
    """One line of JSON per finished part, with its digest; damaged lines are skipped.

    `entries` has what `made_of` makes of the rows of each part, by the part's key. Without a file
    nothing is kept. Raises UsageError if the file cannot be written, BadInput if it is not a
    journal.
    """

    def __init__(self, path: Path | None, made_of: Callable[[list[dict[str, Any]]], T]) -> None:
        self.entries: dict[str, T] = {}
        self._path: Path | None = None
        self._made_of = made_of
        if path is None:
            return
        self._path = output_file(path)
        if self._path is None:
            raise UsageError("a journal keeps finished work for the next run: name a file, not -")
        if self._path.exists():
            self._read(read_regular(self._path, _LARGEST, kind="a journal"))

    def keep(self, key: str, rows: list[dict[str, Any]]) -> None:
        """Append a part's rows. Raises DiskFault."""
        if self._path is None:
            return
        entry = {"key": key, "rows": rows}
        line = json.dumps({**entry, "sha256": _digest(entry)})
        with disk_faults(self._path), self._path.open("a") as file:
            # A line of its own, also after one that a crash cut.
            file.write(f"\n{line}\n" if file.tell() else f"{line}\n")
            file.flush()

    def _read(self, content: bytes) -> None:
        begin = content.lstrip()[: len(_BEGINS)]
        if not _BEGINS.startswith(begin):
            raise BadInput(f"{self._path} is not a journal: name another file")
        for line in content.splitlines():
            try:
                entry = json.loads(line)
                digest = entry.pop("sha256", None)
                # Journals of before had no digests.
                if digest in {None, _digest(entry)}:
                    self.entries[entry["key"]] = self._made_of(entry["rows"])
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue


def _digest(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry).encode()).hexdigest()
