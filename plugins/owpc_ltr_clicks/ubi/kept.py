"""What was read of an index so far, in a folder beside the output: parts, and where to go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from owpc_ltr.errors import Refused
from owpc_ltr.files.output import disk_faults, write_atomically

_JOURNAL = "journal.json"


@dataclass
class Progress:
    """How far an index was read: in how many slices at once, of which shards.

    `runs` are these, and those of what has no time. Of each the number of its
    `parts`, behind which document it goes on (`after`), and whether it has `ended`. So many
    documents were `there` in the beginning, and so many are read, also those that are `lost`, by
    reason.
    """

    slices: int
    runs: int
    layout: list[str] | None
    there: int
    lost: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    done: bool = False
    parts: list[int] = field(default_factory=list)
    after: list[list[Any] | None] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin every slice."""
        self.parts = self.parts or [0] * self.runs
        self.after = self.after or [None] * self.runs
        self.ended = self.ended or [False] * self.runs


class Kept:
    """A run's folder. A part counts once the journal names it; what it does not name is redone."""

    def __init__(self, folder: Path, asked: dict[str, Any]) -> None:
        """Go on with what is there, or begin. Raises Refused where something else was asked."""
        self.folder = folder
        journal = folder / _JOURNAL
        self._asked, self._indices = asked, dict[str, Progress]()
        if not journal.exists():
            return
        try:
            state = json.loads(journal.read_bytes())
            self._asked = before = dict(state["asked"])
            found = state.get("indices", {})
            self._indices = {name: Progress(**one) for name, one in found.items()}
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise _damaged(journal) from error
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
        found: str | None = self._asked.get("until")
        return found

    def decide(self, until: str) -> None:
        """Settle until when is read."""
        self._asked["until"] = until
        self._save()

    def progress(self, index: str) -> Progress | None:
        """How far an index was read, if it was begun."""
        return self._indices.get(index)

    def begin(self, index: str, progress: Progress) -> None:
        """Read an index from its beginning."""
        self._indices[index] = progress
        self._save()

    def forget(self, index: str) -> None:
        """Have nothing of an index."""
        del self._indices[index]
        self._save()

    def add(
        self,
        index: str,
        number: int,
        table: pa.Table,
        documents: int,
        after: list[Any],
        lost: Mapping[str, int],
    ) -> int:
        """Keep a part of a slice, made of so many documents, and where it ends.

        `lost` is what of it is left out. Returned is how many documents of the index were read.
        """
        known = self._indices[index]
        path = self._part(index, number, known.parts[number])
        with disk_faults(path):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            write_atomically(path, sink.getvalue().to_pybytes())
        known.parts[number] += 1
        known.after[number] = after
        for why, count in lost.items():
            known.lost[why] = known.lost.get(why, 0) + count
        known.documents += documents
        self._save()
        return known.documents

    def end(self, index: str, number: int) -> None:
        """All of a slice was read."""
        self._indices[index].ended[number] = True
        self._save()

    def finish(self, index: str) -> None:
        """All of an index was read."""
        self._indices[index].done = True
        self._save()

    def remove(self) -> None:
        """Take the folder away; what is left where that is cut short, no journal names any more."""
        with disk_faults(self.folder):
            (self.folder / _JOURNAL).unlink()
            shutil.rmtree(self.folder)

    def lost(self, index: str) -> Mapping[str, int]:
        """What of an index is not read, by reason."""
        return self._indices[index].lost

    def tables(self, index: str) -> Parts:
        """The parts of an index, to go over as often as need be."""
        return Parts([
            self._part(index, number, part)
            for number, parts in enumerate(self._indices[index].parts)
            for part in range(parts)
        ])  # fmt: skip

    def _part(self, index: str, number: int, part: int) -> Path:
        return self.folder / f"{index}-{number:03d}-{part:06d}.parquet"

    def _save(self) -> None:
        indices = {name: asdict(known) for name, known in self._indices.items()}
        state = {"asked": self._asked, "indices": indices}
        with disk_faults(self.folder / _JOURNAL):
            write_atomically(self.folder / _JOURNAL, json.dumps(state).encode())


@dataclass(frozen=True)
class Parts:
    """Tables in files, one in memory at a time."""

    files: list[Path]

    def __iter__(self) -> Iterator[pa.Table]:
        """Each table, in order."""
        return map(_read, self.files)


def _read(path: Path) -> pa.Table:
    try:
        # A damaged page is an OSError of Arrow's own, and no fault of the disk.
        content = pa.BufferReader(path.read_bytes())
        table = pq.read_table(content, page_checksum_verification=True)
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path) from error
    return table


def _damaged(path: Path) -> Refused:
    return Refused(
        f"{path} is not as it was written: take the folder away, and run the same command again"
    )
