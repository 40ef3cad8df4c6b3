"""Journal: the finished pieces of a resumable job, whole after any crash.

A piece is one line of JSON with a `key`, a `value`, the `scope` that it belongs to (the digest of
what the work depends on) and a digest of all three. A line that is torn or damaged does not count.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_regular
from owpc_ltr.files.lock import open_in_shared
from owpc_ltr.files.output import write_atomically

_LARGEST = 1 << 30
_BEGINNING = b'{"key": "'


class Piece(NamedTuple):
    """A finished piece of work, as JSON values, and the scope that it belongs to."""

    value: Any
    scope: str


class Journal:
    """The journal in a file, which is made with the first piece; None keeps nothing.

    `pieces` has the last one of each key. Raises BadInput for a file that is not a journal.
    """

    def __init__(self, path: Path | None) -> None:
        self.pieces: dict[str, Piece] = {}
        self._path = path
        self._torn = False
        if path is not None and path.exists():
            self._read(path)

    def append(self, key: str, value: Any, scope: str = "") -> None:
        """Make a piece durable. Raises OSError."""
        if self._path is not None:
            line = _line(key, value, scope)
            content = b"\n" + line if self._torn else line
            descriptor = open_in_shared(self._path, os.O_APPEND)
            try:
                self._torn = True
                if os.write(descriptor, content) != len(content):
                    raise OSError("the disk took only part of a line")
                os.fsync(descriptor)
                self._torn = False
            finally:
                os.close(descriptor)
        self.pieces[key] = Piece(value, scope)

    def keep_only(self, keys: Collection[str]) -> None:
        """Drop the pieces of all other keys. Raises OSError."""
        self.pieces = {key: piece for key, piece in self.pieces.items() if key in keys}
        if self._path is None:
            return
        lines = [_line(key, piece.value, piece.scope) for key, piece in self.pieces.items()]
        write_atomically(self._path, b"".join(lines))
        self._torn = False

    def _read(self, path: Path) -> None:
        content = read_regular(path, _LARGEST, kind="a journal")
        if not _BEGINNING.startswith(content.lstrip()[: len(_BEGINNING)]):
            raise BadInput(f"{path} is not a journal of owpc-ltr: name another file")
        for line in content.splitlines(keepends=True):
            try:
                piece = json.loads(line)
                key, value, scope = piece["key"], piece["value"], piece["scope"]
                if line == _line(key, value, scope):
                    self.pieces[key] = Piece(value, scope)
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        self._torn = bool(content) and not content.endswith(b"\n")


def digest_of(content: Any) -> str:
    """Hex SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _line(key: str, value: Any, scope: str) -> bytes:
    piece = {"key": key, "value": value, "scope": scope}
    own = hashlib.sha256(json.dumps(piece).encode()).hexdigest()
    return json.dumps({**piece, "sha256": own}).encode() + b"\n"
