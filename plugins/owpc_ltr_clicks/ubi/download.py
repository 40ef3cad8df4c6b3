"""Both indices read into a temporary folder, in slices, and joined."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.files.output import disk_faults
from owpc_ltr.signatures import Progress
from owpc_ltr_clicks.log_files import EventBatch
from owpc_ltr_clicks.ubi import MAX_SLICES, UbiOptions
from owpc_ltr_clicks.ubi.query_join import EVENT_FIELDS, QUERY_FIELDS, join_queries, table_of
from owpc_ltr_clicks.ubi.snapshot import (
    ScanSlice,
    ScanWindow,
    count,
    pages,
    slices_of,
    snapshot,
)


@contextmanager
def read_ubi(
    engine: Engine,
    options: UbiOptions,
    show: Progress,
    *,
    since: str | None = None,
    until: str | None = None,
) -> Iterator[Iterator[EventBatch]]:
    """The events, from a temporary folder that only its owner may read, as it has ids of users.

    Without `until` the time ends when the run began.
    """
    began = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    reader = _IndexReader(engine, options.slices, ScanWindow(since, until, began), show)
    with tempfile.TemporaryDirectory(prefix="owpc-ltr-ubi-") as folder:
        queries, events = (PartFiles(Path(folder) / name) for name in ("queries", "events"))
        try:
            reader.read(options.ubi_queries, QUERY_FIELDS, queries)
            reader.read(options.ubi_events, EVENT_FIELDS, events)
            yield _joined(queries, events)
        finally:
            queries.close()
            events.close()


def _joined(queries: PartFiles, events: PartFiles) -> Iterator[EventBatch]:
    for parts in (queries, events):
        yield EventBatch({}, lost=parts.lost)
    yield from join_queries(queries, events)


class _IndexReader:
    """Reads an index in a window of time.

    Documents without a time in the index are filtered by their own times.
    """

    def __init__(
        self, engine: Engine, slices: int | None, window: ScanWindow, show: Progress
    ) -> None:
        self._engine, self._at_once, self._window, self._show = engine, slices, window, show
        self._elastic = engine.about().distribution == "elasticsearch"

    def read(self, index: str, fields: Mapping[str, str], into: PartFiles) -> None:
        """Read all of it. Raises Refused where the engine gives less than it counts."""
        asked = self._at_once
        with (
            ConcurrencyLimiter(asked or MAX_SLICES) as limiter,
            snapshot(self._engine.limited(limiter), index, elastic=self._elastic) as pinned,
        ):
            slices = self._slices(slices_of(self._engine, pinned, index, self._window, asked))
            into.lost.update(
                {why: count(pinned, index, query) for why, query in self._window.lost().items()}
            )
            there = sum(count(pinned, index, part.query) for part in self._slices(1))

            def work(number: int) -> None:
                part = slices[number]
                for documents in pages(pinned, index, sorted(fields.values()), part):
                    table, lost = table_of(documents, fields), dict[str, int]()
                    if part.untimed:
                        table, lost = self._window.keep(table)
                    read = into.add(number, table, len(documents), lost)
                    self._show(f"reading {index}: {read:,}", None)

            with RequestThreads(len(slices)) as threads:
                threads.map(work, range(len(slices)))
        if into.documents != there:
            raise Refused(
                f"the engine gave {into.documents:,} of the {there:,} documents of '{index}' that "
                "it counts: run the same command again, with --slices 1"
            )

    def _slices(self, number: int) -> list[ScanSlice]:
        return self._window.slices(number, elastic=self._elastic)


class PartFiles:
    """The pages of an index as tables in a folder, which can be read repeatedly.

    `documents` is the number of those read, including those that are `lost`, by reason.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.documents = 0
        self.lost: Counter[str] = Counter()
        self._folder = folder
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._closed = False

    def __iter__(self) -> Iterator[pa.Table]:
        """Each table in the order of the slices, one in memory at a time."""
        for path in sorted(self._folder.iterdir()):
            with disk_faults(path):
                table = pq.read_table(path, page_checksum_verification=True, memory_map=False)
            yield table

    def add(self, number: int, table: pa.Table, documents: int, lost: Mapping[str, int]) -> int:
        """Write the next page of a slice, made of `documents`. Returns how many were read."""
        with self._lock:
            if self._closed:
                raise EngineUnavailable("the run that this page was read for has ended")
            path = self._folder / f"{number:03d}-{self._counts[number]:06d}.parquet"
            with disk_faults(path):
                pq.write_table(table, path, compression="zstd", write_page_checksum=True)
            self._counts[number] += 1
            self.documents += documents
            self.lost.update(lost)
            return self.documents

    def close(self) -> None:
        """Write no more pages, which threads may still bring, as the folder is removed."""
        with self._lock:
            self._closed = True
