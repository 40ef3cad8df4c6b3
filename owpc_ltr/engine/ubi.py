"""Documents of User Behavior Insights at one point in time, page by page, as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pyarrow as pa

from owpc_ltr.data.log_times import TimeWindow, milliseconds
from owpc_ltr.engine.client.responses import EngineRefusal, unexpected_answer
from owpc_ltr.engine.feature_log.snapshot import PointInTime
from owpc_ltr.errors import Refused
from owpc_ltr.signatures import Help

QUERIES_INDEX = "ubi_queries"
EVENTS_INDEX = "ubi_events"
PAGE = 2000
"""Documents per request."""
TIME = "timestamp"
FUTURE = "a time in the future"
UNREADABLE = "no time that can be read"
_LATE = timedelta(minutes=1)
"""Documents later than the beginning by more have a wrong time."""
EngineQuery = dict[str, Any]
QueriesIndex = Annotated[str, Help("Its index of queries.", panel="Engine", metavar="NAME")]
EventsIndex = Annotated[str, Help("Its index of events.", panel="Engine", metavar="NAME")]


class ScanWindow:
    """The time from `since` (None: the beginning) to `until`, excluded.

    Without `until` it ends when the run `began`. The mapping of OpenSearch's own plugin silently
    leaves times in ISO 8601 out of the index, so that these are looked up in the documents.
    """

    def __init__(self, since: str | None, until: str | None, began: str) -> None:
        begin = {} if since is None else {"gte": milliseconds(since, "since")}
        self._query = within(**begin, lt=milliseconds(until or began, "until"))
        self._window = TimeWindow(since, until)
        self._late = None
        if until is None:
            late = datetime.fromisoformat(began) + _LATE
            self._late = late.astimezone(UTC).isoformat()

    def slices(self, number: int, *, elastic: bool) -> list[ScanSlice]:
        """The slices of the window, and `untimed` ones, of documents without a time in the index.

        OpenSearch loses some of the latter where they come last in the order of time.
        """
        timed = [_sliced(part, number, TIME) for part in range(number)]
        # Elasticsearch slices text ids by their place, not by what they are.
        parts = 1 if elastic else number
        untimed = [_sliced(part, parts, "_id") for part in range(parts)]
        return [
            *(ScanSlice(self._query, (TIME, "_id", "_index"), body) for body in timed),
            *(ScanSlice(without_time(), ("_id", "_index"), body, untimed=True) for body in untimed),
        ]

    def lost(self) -> dict[str, EngineQuery]:
        """The queries of documents that are left out although nobody asked for that, by reason."""
        return {} if self._late is None else {FUTURE: within(gte=milliseconds(self._late, "until"))}

    def keep(self, table: pa.Table) -> tuple[pa.Table, dict[str, int]]:
        """The rows within the time, of documents without one in the index; others by reason."""
        times = table["time"].combine_chunks()
        dated, within = self._window.holds(times, len(table))
        keep, lost = within & dated, {UNREADABLE: int((~dated).sum())}
        if self._window.open:
            keep, lost = within | ~dated, {}
        if self._late is not None:
            _, early = TimeWindow(None, self._late).holds(times, len(table))
            lost[FUTURE] = int((keep & dated & ~early).sum())
            keep &= early | ~dated
        return table.filter(pa.array(keep)), {why: n for why, n in lost.items() if n}


@dataclass(frozen=True)
class ScanSlice:
    """A slice of an index: its query, and the order of its documents.

    Documents are sliced by shard, and within a shard by their times or ids.
    """

    query: EngineQuery
    order: tuple[str, ...]
    body: dict[str, Any]
    untimed: bool = False


def _sliced(number: int, of: int, field: str) -> dict[str, Any]:
    return {"slice": {"field": field, "id": number, "max": of}} if of > 1 else {}


def within(**bounds: str) -> EngineQuery:
    """Documents whose time is within bounds, in milliseconds."""
    # The plugin's own form of dates does not parse in a range; and of a bare range over many
    # documents OpenSearch 3 may give too few.
    time_range = {"range": {TIME: {**bounds, "format": "epoch_millis"}}}
    return {"constant_score": {"filter": time_range}}


def without_time() -> EngineQuery:
    """Documents without a time that the index could read."""
    return {"bool": {"must_not": [{"exists": {"field": TIME}}]}}


def count(snapshot: PointInTime, index: str, query: EngineQuery, **more: Any) -> int:
    """How many documents match, exactly."""
    body = {"size": 0, "query": query, "track_total_hits": True, **more}
    return snapshot.search(body, {}, f"the number of documents of '{index}'").exact_total()


def pages(
    snapshot: PointInTime, index: str, fields: list[str], part: ScanSlice
) -> Iterator[list[dict[str, Any]]]:
    """The contents of documents page by page; those of one time are in the order of their ids.

    Raises Refused where the engine cannot sort by them.
    """
    what = f"the events of '{index}'"
    body: dict[str, Any] = {
        "size": PAGE,
        "_source": fields,
        "query": part.query,
        "sort": [{name: "asc"} for name in part.order],
        "track_total_hits": False,
        **part.body,
    }
    while True:
        try:
            hits = snapshot.search(body, {}, what).hits
        except EngineRefusal as refusal:
            raise Refused(
                f"'{index}' cannot be read in order of time and id ({refusal.reason}): `timestamp` "
                "must be a date, and sorting by _id allowed (indices.id_field_data.enabled)"
            ) from refusal
        if not all("sort" in hit for hit in hits):
            raise unexpected_answer(what, "hits.hits[].sort")
        if hits:
            yield [hit.get("_source") or {} for hit in hits]
        if len(hits) < PAGE:
            return
        body = body | {"search_after": hits[-1]["sort"]}


def table_of(documents: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> pa.Table:
    """The fields of documents as columns of text; result lists as lists of text.

    The specification (1.3.0) and the OpenSearch plugin differ in their mappings, not in these
    fields: values may stand in objects, or under names with dots.
    """
    columns = {}
    for role, path in fields.items():
        values = [_value(document, path) for document in documents]
        if role == "shown":
            columns[role] = pa.array([_texts(value) for value in values], pa.list_(pa.string()))
        else:
            columns[role] = pa.array([text_of(value) for value in values], pa.string())
    return pa.table(columns)


def text_of(value: object) -> str | None:
    """A value as text: whole numbers without a point, objects as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def _value(document: Mapping[str, Any], path: str) -> Any:
    """The value at a path, through objects or names with dots."""
    if path in document:
        return document[path]
    for end in range(len(path)):
        if path[end] == "." and isinstance(document.get(path[:end]), Mapping):
            return _value(document[path[:end]], path[end + 1 :])
    return None


def _texts(value: object) -> list[str | None] | None:
    if value is None:
        return None
    return [text_of(item) for item in (value if isinstance(value, list) else [value])]
