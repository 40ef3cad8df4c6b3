"""The documents of an index in a window of time, in order of time, from a point in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.responses import Part, check_whole, hits_of
from owpc_ltr.engine.feature_log.pinned import Pinned, open_moment
from owpc_ltr.errors import Refused
from owpc_ltr.names import check_index
from owpc_ltr_clicks.times import milliseconds

PAGE = 2000
"""Documents a request."""
TIME = "timestamp"
Place = list[Any]
"""What a document is sorted by: the next page begins behind it."""
Query = dict[str, Any]


@dataclass(frozen=True)
class Window:
    """From `since` on, before `until`; the one may be open, the other never is."""

    since: str | None
    until: str

    def query(self) -> Query:
        """The engine's query for it."""
        begin = {} if self.since is None else {"gte": milliseconds(self.since, "since")}
        return within(**begin, lt=milliseconds(self.until, "until"))

    def slices(self, number: int, *, elastic: bool) -> list[Slice]:
        """So many slices of it; and those of what has no time in the index, which are `untimed`.

        Where that would come last in the order of time, OpenSearch loses some of it.
        """
        timed = [_sliced(each, number, TIME) for each in range(number)]
        # Elasticsearch tells what has no number apart by its place, which is another tomorrow.
        rest = 1 if elastic else number
        untimed = [_sliced(each, rest, "_id") for each in range(rest)]
        return [
            *(Slice(self.query(), (TIME, "_id", "_index"), body) for body in timed),
            *(Slice(without_time(), ("_id", "_index"), body, untimed=True) for body in untimed),
        ]


@dataclass(frozen=True)
class Slice:
    """A part of an index, which is the same in every point in time: its query, and its order.

    Slices are told apart by shard, and within a shard by the documents' times or ids: by their
    numbers there, as Elasticsearch does by itself, they would be others at another time.
    """

    query: Query
    order: tuple[str, ...]
    body: dict[str, Any]
    untimed: bool = False


def _sliced(number: int, of: int, field: str) -> dict[str, Any]:
    return {"slice": {"field": field, "id": number, "max": of}} if of > 1 else {}


def within(**bounds: str) -> Query:
    """What has a time within bounds, in milliseconds."""
    # The plugin's own form of dates does not parse in a range; and of a bare range over many
    # documents OpenSearch 3 may give too few.
    asked = {"range": {TIME: {**bounds, "format": "epoch_millis"}}}
    return {"constant_score": {"filter": asked}}


def without_time() -> Query:
    """What has no time, or none that can be read."""
    return {"bool": {"must_not": [{"exists": {"field": TIME}}]}}


@contextmanager
def moment(engine: EngineLike, index: str, *, elastic: bool) -> Iterator[Pinned]:
    """The index as it is now. Raises Refused where the engine cannot hold on to that."""
    name, why_not = open_moment(engine, check_index(index), elastic=elastic, needed=True)
    if name is None:
        raise Refused(f"'{index}' cannot be read as it is at one moment: {why_not}")
    pinned = Pinned(engine, index, name, elastic=elastic)
    try:
        yield pinned
    finally:
        with suppress(EngineRefusal):
            pinned.close()


def count(pinned: Pinned, index: str, query: Query, **more: Any) -> int:
    """How many documents match, exactly."""
    what = f"the number of documents of '{index}'"
    answer = pinned.search({"size": 0, "query": query, "track_total_hits": True, **more}, {})
    return Part(check_whole(answer, what), what)["hits"]["total"]["value"].count


def pages(
    pinned: Pinned, index: str, fields: list[str], part: Slice, after: Place | None
) -> Iterator[tuple[list[dict[str, Any]], Place]]:
    """The documents' contents a page at a time, and where each page ends.

    Documents of one time stand in the order of their ids, so that what was begun in another point
    in time can be gone on with. Raises Refused where the engine cannot do that.
    """
    while True:
        hits = _page(pinned, index, fields, part, after)
        if not hits:
            return
        after = hits[-1]["sort"]
        yield [hit.get("_source") or {} for hit in hits], after
        if len(hits) < PAGE:
            return


def _page(
    pinned: Pinned, index: str, fields: list[str], part: Slice, after: Place | None
) -> list[dict[str, Any]]:
    body = {
        "size": PAGE,
        "_source": fields,
        "query": part.query,
        "sort": [{name: "asc"} for name in part.order],
        "track_total_hits": False,
        **part.body,
        **({"search_after": after} if after else {}),
    }
    try:
        return hits_of(pinned.search(body, {}), f"the events of '{index}'", "sort")
    except EngineRefusal as refusal:
        raise Refused(
            f"'{index}' cannot be read in order of time and id ({refusal.reason}): `timestamp` "
            "must be a date, and sorting by _id allowed (indices.id_field_data.enabled)"
        ) from refusal
