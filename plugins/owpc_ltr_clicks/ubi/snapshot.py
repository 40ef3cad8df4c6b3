"""Both indices of User Behavior Insights in slices, at one point in time; look-ups."""

from __future__ import annotations

import re
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter, RequestThreads
from owpc_ltr.engine.client.engine import Engine, EngineLike
from owpc_ltr.engine.client.responses import (
    EngineRefusal,
    Hit,
    NoSuchIndex,
    NotAllowed,
    part_of,
)
from owpc_ltr.engine.feature_log.snapshot import PointInTime, point_in_time
from owpc_ltr.engine.ubi import (
    ScanWindow,
    count,
    pages,
    table_of,
    text_of,
)
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.files.input import shown
from owpc_ltr.files.output import disk_faults
from owpc_ltr.names import check_index
from owpc_ltr.signatures import Progress
from owpc_ltr_clicks.log_files import EventBatch
from owpc_ltr_clicks.ubi import MAX_SLICES, UbiOptions
from owpc_ltr_clicks.ubi.query_join import (
    EVENT_FIELDS,
    QUERY_FIELDS,
    join_queries,
)


def slices_of(
    engine: EngineLike, snapshot: PointInTime, index: str, window: ScanWindow, requested: int | None
) -> int:
    """The number of slices: as asked, else one per shard, 8 at most.

    1 if the engine has none, or the user lacks the right to see shards.
    """
    path = f"/{quote(check_index(index), safe='')}/_search_shards"
    try:
        shards = len(engine.request("GET", path)["shards"])
    except NoSuchIndex:
        raise
    except (NotAllowed, EngineRefusal, LookupError, TypeError):
        return 1
    number = requested or min(shards or 1, MAX_SLICES)
    if number == 1:
        return 1
    try:
        first = window.slices(number, elastic=True)[0]
        count(snapshot, index, first.query, **first.body)
    except EngineRefusal:  # the first versions with points in time do not slice them
        return 1
    return number


@contextmanager
def read_ubi(
    engine: Engine,
    options: UbiOptions,
    show: Progress,
    *,
    since: str | None = None,
    until: str | None = None,
) -> Iterator[Iterator[EventBatch]]:
    """Both indices, joined, from a temporary folder that only its owner may read.

    It has ids of users. Without `until` the time ends when the run began.
    """
    began = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    window, elastic = ScanWindow(since, until, began), _is_elasticsearch(engine)
    with tempfile.TemporaryDirectory(prefix="owpc-ltr-ubi-") as folder:
        queries, events = (PartFiles(Path(folder) / name) for name in ("queries", "events"))
        indices = (
            (options.ubi_queries, QUERY_FIELDS, queries),
            (options.ubi_events, EVENT_FIELDS, events),
        )
        try:
            for index, fields, parts in indices:
                _read_index(
                    engine,
                    index,
                    fields,
                    parts,
                    window,
                    slices=options.slices,
                    elastic=elastic,
                    show=show,
                )
            yield _joined(queries, events)
        finally:
            queries.close()
            events.close()


def _joined(queries: PartFiles, events: PartFiles) -> Iterator[EventBatch]:
    for parts in (queries, events):
        yield EventBatch({}, lost=parts.lost)
    yield from join_queries(queries, events)


def _read_index(
    engine: Engine,
    index: str,
    fields: Mapping[str, str],
    parts: PartFiles,
    window: ScanWindow,
    *,
    slices: int | None,
    elastic: bool,
    show: Progress,
) -> None:
    """Read an index in a window of time. Raises Refused where the engine gives less than it counts.

    Documents without a time in the index are filtered by their own times.
    """
    with (
        ConcurrencyLimiter(slices or MAX_SLICES) as limiter,
        point_in_time(engine.limited(limiter), index, elastic=elastic) as snapshot,
    ):
        number_of_slices = slices_of(engine, snapshot, index, window, slices)
        scan_slices = window.slices(number_of_slices, elastic=elastic)
        parts.lost.update(
            {why: count(snapshot, index, query) for why, query in window.lost().items()}
        )
        whole = window.slices(1, elastic=elastic)
        n_documents = sum(count(snapshot, index, part.query) for part in whole)

        def work(number: int) -> None:
            part = scan_slices[number]
            for documents in pages(snapshot, index, sorted(fields.values()), part):
                table, lost = table_of(documents, fields), dict[str, int]()
                if part.untimed:
                    table, lost = window.keep(table)
                read = parts.add(number, table, len(documents), lost)
                show(f"reading {index}: {read:,}", None)

        with RequestThreads(len(scan_slices)) as threads:
            threads.map(work, range(len(scan_slices)))
    if parts.documents != n_documents:
        raise Refused(
            f"the engine gave {parts.documents:,} of the {n_documents:,} documents of '{index}' "
            "that it counts: run the same command again, with `slices=1`"
        )


def _is_elasticsearch(engine: Engine) -> bool:
    return engine.about().distribution == "elasticsearch"


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


VALUES = 1000
"""Field values per look-up search."""
_MOST_HITS = 10_000
"""The most documents that an engine gives to one search."""
_AT_ONCE = 4
_WORDS = {"keyword", "constant_keyword", "wildcard"}
_WHOLE = {"byte", "short", "integer", "long", "unsigned_long"}
_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class FieldLookup:
    """Looks up the documents of an index by the values of a field."""

    engine: Engine
    index: str

    def __call__(self, field: str, values: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """For each value that exists, the `_id`s of at most two documents that have it.

        All are of one snapshot. Raises Refused where the field cannot be searched for whole values.
        """
        name, numbers = self._searchable(field)
        # An engine refuses a search of numbers for what is none.
        values = [value for value in values if not numbers or _NUMBER.fullmatch(value)]
        parts = [values[i : i + VALUES] for i in range(0, len(values), VALUES)]
        elastic = _is_elasticsearch(self.engine)
        with (
            ConcurrencyLimiter(_AT_ONCE) as limiter,
            point_in_time(self.engine.limited(limiter), self.index, elastic=elastic) as snapshot,
            RequestThreads(_AT_ONCE) as threads,
        ):
            results = threads.map(lambda part: self._found(snapshot, name, part), parts)
        return {value: ids for ids_of in results for value, ids in ids_of.items()}

    def _searchable(self, field: str) -> tuple[str, bool]:
        """The field, or a keyword subfield, that has whole values; whether they are numbers."""
        path = f"/{quote(check_index(self.index), safe='')}/_field_caps"
        answer = self.engine.request("GET", path, params={"fields": f"{field},{field}.*"})
        fields = part_of(answer, "fields", f"the fields of '{self.index}'")
        kinds = {name: set(types_of) - {"unmapped"} for name, types_of in fields.items()}
        types = kinds.get(field, set())
        if types and (types <= _WORDS or types <= _WHOLE):
            return field, types <= _WHOLE
        # Fields of an object are no subfields; of several, keyword is the usual one.
        below = sorted(kinds.keys() - {field}, key=lambda name: (name != f"{field}.keyword", name))
        for name in below if types.isdisjoint({"object", "nested"}) else ():
            if kinds[name] and kinds[name] <= _WORDS:
                return name, False
        what = f"is {' and '.join(sorted(fields[field]))}" if field in fields else "is not there"
        raise Refused(
            f"documents of '{self.index}' cannot be found by {shown(field)}, which {what}: name a "
            "keyword or a whole number as `document_field`"
        )

    def _found(
        self, snapshot: PointInTime, name: str, values: Sequence[str]
    ) -> dict[str, list[str]]:
        what = f"the documents of '{self.index}' by '{name}'"
        body = {
            "size": _MOST_HITS,
            "_source": False,
            "fields": [name],
            "query": {"constant_score": {"filter": {"terms": {name: list(values)}}}},
            "track_total_hits": True,
        }
        answer = snapshot.search(body, {}, what)
        if answer.exact_total() > len(answer.hits) and len(values) > 1:
            half = len(values) // 2
            parts = (values[:half], values[half:])
            return {k: v for part in parts for k, v in self._found(snapshot, name, part).items()}
        return _by_value(answer.hits, name, set(values))


def _by_value(hits: Sequence[Hit], name: str, values: set[str]) -> dict[str, list[str]]:
    ids_of: dict[str, list[str]] = defaultdict(list)
    for hit in hits:
        for value in dict.fromkeys(map(text_of, (hit.get("fields") or {}).get(name, ()))):
            if value in values and len(ids_of[value]) < 2:
                ids_of[value].append(hit["_id"])
    return {value: sorted(ids) for value, ids in ids_of.items()}
