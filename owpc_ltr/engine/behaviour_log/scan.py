"""The documents of an index in a window of time, in order of time, from a point in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from owpc_ltr.engine.feature_log.pinned import Pinned, open_moment
from owpc_ltr.engine.http.client import Engine, EngineRefusal
from owpc_ltr.engine.http.responses import hits_of
from owpc_ltr.errors import Refused
from owpc_ltr.names import check_index

PAGE = 2000
"""Documents a request."""
Place = list[Any]
"""What a document is sorted by: the next page begins behind it."""


@dataclass(frozen=True)
class Window:
    """From `since` on, before `until`; the one may be open, the other never is."""

    since: str | None
    until: str

    def query(self) -> dict[str, Any]:
        """The engine's query for it."""
        begin = {} if self.since is None else {"gte": self.since}
        return {"range": {"timestamp": {**begin, "lt": self.until}}}


def pages(
    engine: Engine, index: str, fields: list[str], window: Window, after: Place | None
) -> Iterator[tuple[list[dict[str, Any]], Place]]:
    """The documents' contents a page at a time, and where each page ends.

    Documents of one time stand in the order of their ids, so that what was begun in another point
    in time can be gone on with. Raises Refused where the engine cannot do that.
    """
    check_index(index)
    elastic = engine.about().distribution == "elasticsearch"
    name, why_not = open_moment(engine, index, elastic=elastic)
    if name is None:
        raise Refused(f"'{index}' cannot be read as it is at one moment: {why_not}")
    pinned = Pinned(engine, index, name, elastic=elastic)
    try:
        while True:
            hits = _page(pinned, index, fields, window, after)
            if not hits:
                return
            after = hits[-1]["sort"]
            yield [hit.get("_source") or {} for hit in hits], after
            if len(hits) < PAGE:
                return
    finally:
        with suppress(EngineRefusal):
            pinned.close()


def _page(
    pinned: Pinned, index: str, fields: list[str], window: Window, after: Place | None
) -> list[dict[str, Any]]:
    body = {
        "size": PAGE,
        "_source": fields,
        "query": window.query(),
        "sort": [{"timestamp": "asc"}, {"_id": "asc"}],
        "track_total_hits": False,
        **({"search_after": after} if after else {}),
    }
    try:
        return hits_of(pinned.search(body, {}), f"the events of '{index}'", "sort")
    except EngineRefusal as refusal:
        raise Refused(
            f"'{index}' cannot be read in order of time and id ({refusal.reason}): `timestamp` "
            "must be a date, and sorting by _id allowed (indices.id_field_data.enabled)"
        ) from refusal
