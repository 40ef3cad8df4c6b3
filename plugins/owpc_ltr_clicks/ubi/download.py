"""Both indices read into a folder beside the output, in slices; a stopped run is resumed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.feature_log.snapshot import PointInTime
from owpc_ltr.errors import EngineUnavailable, Refused, give_warnings
from owpc_ltr.files.output import Journal, disk_faults, lock_folder, write_atomically
from owpc_ltr_clicks.log_files import EventBatch
from owpc_ltr_clicks.ubi import MAX_SLICES, UbiOptions
from owpc_ltr_clicks.ubi.query_join import EVENT_FIELDS, QUERY_FIELDS, join_queries, table_of
from owpc_ltr_clicks.ubi.snapshot import (
    ScanSlice,
    ScanWindow,
    SortKey,
    TimeFilter,
    count,
    layout_of,
    pages,
    slices_of,
    snapshot,
)

ShowProgress = Callable[[str, float | None], None]
_JOURNAL = "journal"
_ASKED = ":options"
"""The key of the run's options; no index can be called so."""


@contextmanager
def read_ubi(
    engine: Engine, folder: Path, options: UbiOptions, show: ShowProgress
) -> Iterator[Iterator[EventBatch]]:
    """The events, downloaded into a folder that is removed where the block ends without an error.

    After a stop the same call resumes from the folder, to the same events. It holds ids of users
    until then, so that only its owner may read it.
    """
    lock = lock_folder(folder, folder)
    try:
        folder.chmod(0o700)
        asked = {name: said for name, said in asdict(options).items() if name != "slices"}
        download = Download(folder, asked)
        if download.until is None:
            download.decide(
                datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            )
        window = ScanWindow(options.since, str(download.until))
        within = TimeFilter(options.since, options.until, str(download.until))
        reader = IndexReader(engine, download, window, within, slices=options.slices, show=show)
        try:
            reader.read(options.queries, QUERY_FIELDS)
            reader.read(options.events, EVENT_FIELDS)
        except EngineUnavailable as error:
            kept_in = f"what was read is kept in {folder}"
            raise EngineUnavailable(
                f"{error}; {kept_in}, and the same command goes on from there"
            ) from error
        yield _all(download, options)
        download.remove()
    finally:
        os.close(lock)


def _all(download: Download, options: UbiOptions) -> Iterator[EventBatch]:
    for index in (options.queries, options.events):
        yield EventBatch({}, lost=download.lost(index))
    yield from join_queries(download.tables(options.queries), download.tables(options.events))


class IndexReader:
    """Reads an index in a window of time, and resumes what an earlier run began.

    Documents without a time in the index are filtered by their own times (`asked`).
    """

    def __init__(
        self,
        engine: Engine,
        download: Download,
        window: ScanWindow,
        asked: TimeFilter,
        *,
        slices: int | None,
        show: ShowProgress,
    ) -> None:
        self._engine, self._download, self._window, self._asked = engine, download, window, asked
        self._slices, self._show = slices, show
        self._elastic = engine.about().distribution == "elasticsearch"

    def read(self, index: str, fields: Mapping[str, str]) -> None:
        """Read what is missing. Raises Refused where the engine gives less than it counts."""
        known = self._download.progress(index)
        if known is not None and known.done:
            return
        with (
            ConcurrencyLimiter(self._slices or MAX_SLICES) as limiter,
            snapshot(self._engine.limited(limiter), index, elastic=self._elastic) as pinned,
        ):
            known = self._begun(pinned, index, known)
            run = _PartWriter(self._download, index, self._show)
            parts, names = self._parts(known.slices), sorted(fields.values())

            def work(number: int) -> None:
                part = parts[number]
                for documents, after in pages(pinned, index, names, part, known.after[number]):
                    table, lost = table_of(documents, fields), dict[str, int]()
                    if part.untimed:
                        table, lost = self._asked.keep(table)
                    run.add(number, table, len(documents), after, lost)
                run.end(number)

            waiting = [number for number, ended in enumerate(known.ended) if not ended]
            try:
                with RequestThreads(len(waiting)) as threads:
                    threads.map(work, waiting)
            finally:
                run.stop()
            # The snapshot of a resumed run may have other documents.
            if self._count(pinned, index) == known.there:
                self._check_whole(index, known)
        self._download.finish(index)

    def _count(self, pinned: PointInTime, index: str) -> int:
        return sum(count(pinned, index, part.query) for part in self._parts(1))

    def _check_whole(self, index: str, known: IndexProgress) -> None:
        if known.documents != known.there:
            self._download.forget(index)
            raise Refused(
                f"the engine gave {known.documents:,} of the {known.there:,} documents of "
                f"'{index}' that it counts: run the same command again, with --slices 1"
            )

    def _parts(self, slices: int) -> list[ScanSlice]:
        return self._window.slices(slices, elastic=self._elastic)

    def _begun(self, pinned: PointInTime, index: str, known: IndexProgress | None) -> IndexProgress:
        """The progress of an earlier run, or a new one."""
        layout = layout_of(self._engine, index)
        if known is not None:
            if known.slices == 1 or (layout is not None and layout == known.layout):
                return known
            give_warnings([
                f"'{index}' is of other shards than when this run began: it is read again"
            ])  # fmt: skip
        slices = slices_of(pinned, index, self._window, layout, self._slices)
        lost = {why: count(pinned, index, query) for why, query in self._asked.lost().items()}
        runs = len(self._parts(slices))
        known = IndexProgress(
            slices, runs, layout, self._count(pinned, index), {w: n for w, n in lost.items() if n}
        )
        self._download.begin(index, known)
        return known


class _PartWriter:
    """Writes the parts that threads read, one at a time, until the run is stopped."""

    def __init__(self, download: Download, index: str, show: ShowProgress) -> None:
        self._download, self._index = download, index
        self._show = show
        self._lock = threading.Lock()
        self._stopped = False

    def add(
        self, number: int, table: pa.Table, documents: int, after: SortKey, lost: Mapping[str, int]
    ) -> None:
        with self._lock:
            self._refuse_late()
            known = self._download.add(
                self._index, number, table, documents=documents, after=after, lost=lost
            )
            self._show(f"reading {self._index}: {known:,}", None)

    def end(self, number: int) -> None:
        with self._lock:
            self._refuse_late()
            self._download.end(self._index, number)

    def stop(self) -> None:
        """Write no more parts: the next run reads again what threads still bring."""
        with self._lock:
            self._stopped = True

    def _refuse_late(self) -> None:
        if self._stopped:
            raise EngineUnavailable("the run that this part was read for has ended")


@dataclass
class IndexProgress:
    """How far an index was read: in how many slices at once, of which shards (`layout`).

    `runs` is the number of slices with those of documents without a time. For each: the number of
    its `parts`, the document behind which it continues (`after`), whether it has `ended`. `there`
    is the number of documents at the beginning, `documents` that of those read, including those
    that are `lost`, by reason.
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
        """Start every slice at its beginning."""
        self.parts = self.parts or [0] * self.runs
        self.after = self.after or [None] * self.runs
        self.ended = self.ended or [False] * self.runs


class Download:
    """The folder of a run. A part counts once the journal names it; others are read again."""

    def __init__(self, folder: Path, asked: dict[str, Any]) -> None:
        """Resume the folder's run, or begin one. Raises Refused for a run with other options."""
        self.folder, self._journal = folder, Journal(folder / _JOURNAL)
        pieces = self._journal.pieces
        if pieces and _ASKED not in pieces:
            raise _damaged(folder / _JOURNAL)
        self._asked = before = pieces[_ASKED].value if pieces else asked
        self._indices = {
            name: IndexProgress(**piece.value) for name, piece in pieces.items() if name != _ASKED
        }
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
        """The end of the time that is read, decided when the run began."""
        found: str | None = self._asked.get("until")
        return found

    def decide(self, until: str) -> None:
        """Decide the end of the time that is read."""
        self._asked["until"] = until
        self._keep(_ASKED, self._asked)

    def progress(self, index: str) -> IndexProgress | None:
        """How far an index was read; None if it was not begun."""
        return self._indices.get(index)

    def begin(self, index: str, progress: IndexProgress) -> None:
        """Begin an index."""
        self._indices[index] = progress
        self._keep_progress(index)

    def forget(self, index: str) -> None:
        """Drop all that was read of an index."""
        del self._indices[index]
        with disk_faults(self.folder / _JOURNAL):
            self._journal.keep_only({_ASKED, *self._indices})

    def add(
        self,
        index: str,
        number: int,
        table: pa.Table,
        *,
        documents: int,
        after: SortKey,
        lost: Mapping[str, int],
    ) -> int:
        """Write a part of a slice, made of `documents`, which ends at `after`.

        `lost` counts what it leaves out. Returns the number of documents read of the index.
        """
        known = self._indices[index]
        path = self._part(index, number, known.parts[number])
        with disk_faults(path):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            write_atomically(path, sink.getvalue().to_pybytes())
        known.parts[number] += 1
        known.after[number] = after
        for why, number_lost in lost.items():
            known.lost[why] = known.lost.get(why, 0) + number_lost
        known.documents += documents
        self._keep_progress(index)
        return known.documents

    def end(self, index: str, number: int) -> None:
        """Mark a slice as read."""
        self._indices[index].ended[number] = True
        self._keep_progress(index)

    def finish(self, index: str) -> None:
        """Mark an index as read."""
        self._indices[index].done = True
        self._keep_progress(index)

    def remove(self) -> None:
        """Remove the folder, its journal first, so that an interrupted removal leaves no run."""
        with disk_faults(self.folder):
            (self.folder / _JOURNAL).unlink()
            shutil.rmtree(self.folder)

    def lost(self, index: str) -> Mapping[str, int]:
        """Documents of an index that were left out, by reason."""
        return self._indices[index].lost

    def tables(self, index: str) -> PartFiles:
        """The parts of an index, which can be read repeatedly."""
        return PartFiles([
            self._part(index, number, part)
            for number, parts in enumerate(self._indices[index].parts)
            for part in range(parts)
        ])  # fmt: skip

    def _part(self, index: str, number: int, part: int) -> Path:
        return self.folder / f"{index}-{number:03d}-{part:06d}.parquet"

    def _keep_progress(self, index: str) -> None:
        self._keep(index, asdict(self._indices[index]))

    def _keep(self, key: str, value: dict[str, Any]) -> None:
        with disk_faults(self.folder / _JOURNAL):
            self._journal.append(key, value)


@dataclass(frozen=True)
class PartFiles:
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
