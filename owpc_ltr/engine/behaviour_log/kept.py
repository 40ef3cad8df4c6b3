"""What was read of an index so far, in a folder beside the output: parts, and where to go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from owpc_ltr.errors import Refused
from owpc_ltr.files.atomic import write_atomically
from owpc_ltr.files.output import disk_faults

_JOURNAL = "journal.json"


class Kept:
    """A run's folder. A part counts once the journal names it; what it does not name is redone."""

    def __init__(self, folder: Path, asked: dict[str, Any]) -> None:
        """Go on with what is there, or begin. Raises Refused where something else was asked."""
        self.folder = folder
        journal = folder / _JOURNAL
        self._state: dict[str, Any] = {"asked": asked, "parts": {}, "after": {}, "done": []}
        if not journal.exists():
            return
        self._state = json.loads(journal.read_text())
        before = self._state["asked"]
        different = sorted(name for name in asked if asked[name] != before.get(name))
        if asked.get("until") is None and "until" in different:
            different.remove("until")
        if different:
            raise Refused(
                f"{folder} was begun with another {' and '.join(different)}: ask for the same "
                "again, or take the folder away"
            )

    @property
    def until(self) -> str | None:
        """Until when is read, decided when the run began."""
        found: str | None = self._state["asked"].get("until")
        return found

    def decide(self, until: str) -> None:
        """Settle until when is read."""
        self._state["asked"]["until"] = until
        self._save()

    def after(self, index: str) -> list[Any] | None:
        """Behind which document reading goes on."""
        found: list[Any] | None = self._state["after"].get(index)
        return found

    def is_done(self, index: str) -> bool:
        """Whether all of an index was read."""
        return index in self._state["done"]

    def add(self, index: str, table: pa.Table, after: list[Any]) -> None:
        """Keep a part, and where it ends."""
        number = self._state["parts"].get(index, 0)
        with disk_faults(self._part(index, number)):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd")
            write_atomically(self._part(index, number), sink.getvalue().to_pybytes())
        self._state["parts"][index] = number + 1
        self._state["after"][index] = after
        self._save()

    def finish(self, index: str) -> None:
        """All of an index was read."""
        self._state["done"].append(index)
        self._save()

    def tables(self, index: str) -> Iterator[pa.Table]:
        """The parts of an index."""
        for number in range(self._state["parts"].get(index, 0)):
            yield pq.read_table(self._part(index, number))

    def _part(self, index: str, number: int) -> Path:
        return self.folder / f"{index}-{number:06d}.parquet"

    def _save(self) -> None:
        with disk_faults(self.folder / _JOURNAL):
            write_atomically(self.folder / _JOURNAL, json.dumps(self._state).encode())
