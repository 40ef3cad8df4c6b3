"""The impression log: which documents a search showed, in order, as UBI's queries.

Each line is a query of User Behavior Insights 1.3.0 (JSON), so that clicks can be judged later:
`owpc-ltr judge clicks FILE` reads the lines, with the clicks of the application among them, and
`--from-ubi` what was loaded into `ubi_queries`. It is the only place where a service writes what
users typed.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from owpc_ltr.errors import UsageError

_log = logging.getLogger("owpc_ltr.serve")


@dataclass(frozen=True)
class Impression:
    """A list of documents that was shown for a query, the best first.

    `query_id` is what clicks name it by. `attributes` say by what it was ranked.
    """

    query_id: str
    user_query: str
    hit_ids: Sequence[str]
    client_id: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def as_line(self, now: datetime) -> bytes:
        """The JSON of a query of UBI, and a line break."""
        content = {
            "application": "owpc-ltr",
            "query_id": self.query_id,
            **({} if self.client_id is None else {"client_id": self.client_id}),
            "user_query": self.user_query,
            "object_id_field": "_id",
            "timestamp": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z",
            "query_response_hit_ids": list(self.hit_ids),
            "query_attributes": dict(self.attributes),
        }
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"


class ImpressionLog:
    """Appends impressions to a file that only its owner can read; safe to share between threads.

    The file may be moved away at any time, as log rotation does: the next line begins a new one.
    `lost` is called for each impression that could not be written. Raises UsageError where the file
    cannot be opened.
    """

    def __init__(self, path: Path | str, lost: Callable[[], None] = lambda: None) -> None:
        self.path = Path(path)
        self._lost = lost
        self._lock = threading.Lock()
        self._file = -1
        self._failed = False
        try:
            self._open()
        except OSError as error:
            raise UsageError(f"cannot write impressions to {path}: {error.strerror}") from error

    def write(self, impression: Impression) -> None:
        """Append one line. Where that fails, `lost` is called, and the log says so once."""
        line = impression.as_line(datetime.now(UTC))
        with self._lock:
            try:
                self._append(line)
                self._failed = False
            except OSError as error:
                self._lost()
                if not self._failed:
                    _log.error("impressions are lost: %s: %s", self.path, error.strerror)
                self._failed = True

    def close(self) -> None:
        """Write nothing any more."""
        with self._lock:
            self._close()

    def _append(self, line: bytes) -> None:
        if self._file < 0 or self._is_moved():
            self._close()
            self._open()
        written = os.write(self._file, line)
        if written < len(line):
            self._close()  # a cut line is ended when the file is opened again
            raise OSError(0, "the device is full")

    def _is_moved(self) -> bool:
        try:
            return not os.path.samestat(os.fstat(self._file), self.path.stat())
        except FileNotFoundError:
            return True

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o600)
        size = os.fstat(self._file).st_size
        # A process that was killed may have left half a line.
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
