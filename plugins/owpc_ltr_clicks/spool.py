"""Rows kept by person until all are read: in memory, and on disk where there are too many."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np

from owpc_ltr.files.output import disk_faults
from owpc_ltr_clicks.events import ROW, Rows

BUCKETS = 64
IN_MEMORY = 2 << 20
"""Rows that stay in memory: 80 MB."""


class Spool:
    """All rows, in buckets: those of one person are in one, in the order in which they came."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self.n_rows = 0
        self._in_memory = in_memory
        self._held = 0
        self._waiting: list[Rows] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave nothing on disk."""
        self._waiting.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, rows: Rows) -> None:
        """Keep some rows."""
        self._waiting.append(rows)
        self.n_rows += len(rows)
        self._held += len(rows)
        if self._held > self._in_memory:
            self._write()

    def buckets(self) -> Iterator[Rows]:
        """The rows of some people, then those of others."""
        waiting = np.concatenate(self._waiting or [np.zeros(0, ROW)])
        self._waiting.clear()
        ends, waiting = _sorted(waiting)
        for bucket in range(BUCKETS):
            held = waiting[ends[bucket] : ends[bucket + 1]]
            file = self._file(bucket)
            if file is not None and file.exists():
                with disk_faults(file):
                    held = np.concatenate([np.fromfile(file, ROW), held])
                    file.unlink()
            if len(held):
                yield held

    def _write(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="owpc-ltr-events-")
        ends, rows = _sorted(np.concatenate(self._waiting))
        for bucket in range(BUCKETS):
            file = self._file(bucket)
            if file is not None:
                with disk_faults(file), file.open("ab") as out:
                    rows[ends[bucket] : ends[bucket + 1]].tofile(out)
        self._waiting.clear()
        self._held = 0

    def _file(self, bucket: int) -> Path | None:
        return Path(self._folder.name) / f"{bucket}" if self._folder is not None else None


def _sorted(rows: Rows) -> tuple[list[int], Rows]:
    """The rows by bucket, and where each begins."""
    bucket = (rows["person"] % np.uint64(BUCKETS)).astype(np.uint8)
    order = np.argsort(bucket, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=BUCKETS))])
    return ends.tolist(), rows[order]
