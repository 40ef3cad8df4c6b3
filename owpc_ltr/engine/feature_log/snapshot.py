"""A point in time for all searches of a log, and the options of its requests.

A point in time: the engine keeps an index as it was, for all searches of a log. Each copy of a
shard merges its segments at its own time. Until then deleted documents count in the statistics that
text scores are made of, so the same search has other scores in another copy: a point in time is of
one copy of each shard.

Options of a feature log. None of them changes the bytes of the result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.responses import (
    EngineRefusal,
    Incomplete,
    MalformedAnswer,
    NoSuchIndex,
    SearchAnswer,
)
from owpc_ltr.errors import EngineUnavailable, Refused, UsageError
from owpc_ltr.names import check_index

MOST_IN_FLIGHT = 64
MOST_DOCUMENTS = 500
"""The most documents of one search: answers stay small enough to be checked and repeated."""
MAX_ABSENT = 0.01
"""The largest share of judged documents that may be missing from the index."""
_LIMITS = {
    "in_flight": (1, MOST_IN_FLIGHT),
    "batch": (1, MOST_DOCUMENTS),
    "max_absent": (0, 1),
    "attempts": (1, 100),
    "pause": (0, 60),
    "chunk": (1, 1_000_000),
}


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """How a feature log is run. UsageError where a value cannot be."""

    in_flight: int | None = None
    batch: int = MOST_DOCUMENTS
    max_absent: float = MAX_ABSENT
    allow_rejected: bool = False
    restart: bool = False
    attempts: int = 3
    """How often a request is made before the log fails."""
    pause: float = 0.2
    """Seconds before the second attempt; each further one waits twice as long."""
    chunk: int = 6000
    """Documents logged, checked and kept together."""

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise UsageError(f"`{name}` must be from {least} to {most}, not {value}")

    def tries(self) -> Iterator[int]:
        """The number of each attempt, after the pause before it."""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            yield attempt


Contents = list[dict[str, Any]]
"""Of each shard its `index`, the number of its `documents`, and of the one written last `seq_no`
and `primary_term`."""
SAME_COPIES = "owpc-ltr"
"""Searches of one `preference` go to the same copies of the shards."""
RELEASE_SECONDS = 2.0
"""Seconds for releasing what the engine holds for us; after a while it does so by itself."""
KEEP_ALIVE = "5m"
"""For how long the engine keeps a point in time after its last search: longer than any outage that
a request waits for."""
_NODE_GONE = {
    "no_shard_available_action_exception",
    "node_closed_exception",
    "node_disconnected_exception",
    "node_not_connected_exception",
}
_LOST = {"search_context_missing_exception", *_NODE_GONE}


class SnapshotLost(EngineUnavailable):
    """A point in time is gone: with the node that held it, or unused for too long."""


class PointInTime:
    """An index as it was, in one copy of each shard. Its `name` may change with each search."""

    def __init__(self, engine: EngineLike, index: str, name: str) -> None:
        self.name = name
        self._engine = engine
        self._index = index

    def search(
        self, body: dict[str, Any], params: Mapping[str, str], what: str = "the search"
    ) -> SearchAnswer:
        """The answer of all shards to a search of this state, which is kept alive by it."""
        pit = {"id": self.name, "keep_alive": KEEP_ALIVE}
        whole = {**params, "allow_partial_search_results": "false"}
        try:
            content = self._engine.request(
                "POST", "/_search", params=whole, body={**body, "pit": pit}
            )
        except EngineRefusal as refusal:
            if refusal.type not in _LOST:
                raise
            raise SnapshotLost(
                f"the engine no longer has '{self._index}' as it was when this run began "
                f"({refusal.reason}): run the same command again"
            ) from refusal
        # The engine may move it to another copy, and then says under which name.
        answer = SearchAnswer.read(content, body, what)
        self.name = answer.pit or self.name
        return answer


@contextmanager
def point_in_time(engine: EngineLike, index: str, *, elastic: bool) -> Iterator[PointInTime]:
    """A new point in time, of all shards or none; released at the end.

    Raises Refused where the engine opens none, NotAllowed where the account lacks the right,
    SnapshotLost where a node is going away.
    """
    path = (
        f"/{quote(check_index(index), safe='')}{'/_pit' if elastic else '/_search/point_in_time'}"
    )
    params = {"keep_alive": KEEP_ALIVE, "preference": SAME_COPIES}
    if not elastic:
        params["allow_partial_pit_creation"] = "false"
    try:
        answer = engine.request("POST", path, params=params)
    except NoSuchIndex:
        raise
    except EngineRefusal as refusal:
        if refusal.type in _NODE_GONE:
            raise SnapshotLost(f"a node of '{index}' is going away: {refusal}") from refusal
        raise Refused(f"'{index}' cannot be read without a point in time: {refusal}") from refusal
    name = answer.get("id" if elastic else "pit_id") if isinstance(answer, dict) else None
    if not isinstance(name, str):
        raise Refused("the engine opened a point in time without a name: is this an engine?")
    snapshot = PointInTime(engine, index, name)
    try:
        yield snapshot
    finally:
        # Where that fails, the engine releases it later.
        with suppress(EngineUnavailable, EngineRefusal):
            path = "/_pit" if elastic else "/_search/point_in_time"
            body = {"id": snapshot.name} if elastic else {"pit_id": [snapshot.name]}
            engine.request("DELETE", path, body=body, deadline=RELEASE_SECONDS)


def read_contents(
    snapshot: PointInTime, shards: Mapping[str, int], options: LogOptions, *, elastic: bool
) -> Contents:
    """What tells a state of indices, with so many shards each, from every other state.

    Within a shard every write gets a number above all earlier ones (`_seq_no`), and a document has
    that of its last write. Between two states of a shard, either a document was written and the
    highest number rose, or documents were only deleted and there are fewer. So the number of
    documents and the highest `_seq_no` of every shard are equal only where the documents are.

    What is not complete is requested again. Raises Incomplete where it stays so.
    """
    for _ in options.tries():
        try:
            shard_contents = [
                _shard_contents(snapshot.search(body, {}))
                for body in _shard_searches(shards, elastic=elastic)
            ]
            total = snapshot.search({"size": 0, "track_total_hits": True}, {}).exact_total()
            if (by_shard := sum(shard["documents"] for shard in shard_contents)) == total:
                return shard_contents
            fault = Incomplete(f"the shards hold {by_shard} documents, and all of them {total}")
        except Incomplete as error:
            fault = error
        except MalformedAnswer as error:
            fault = Incomplete(str(error))
    raise fault


def _shard_searches(shards: Mapping[str, int], *, elastic: bool) -> list[dict[str, Any]]:
    """The searches of single shards for the document that was written last.

    A slice is a shard where there are as many slices as shards: those of each index (OpenSearch),
    or of all indices of a search (Elasticsearch).
    """
    counts = [({"term": {"_index": name}}, shards[name]) for name in sorted(shards)]
    if elastic:
        counts = [({"match_all": {}}, sum(shards.values()))]
    last_write = {
        "size": 1,
        # An index without a mapping has no document.
        "sort": [{"_seq_no": {"order": "desc", "unmapped_type": "long"}}],
        "seq_no_primary_term": True,
        "_source": False,
        "track_total_hits": True,
    }
    return [
        {"query": query, **({"slice": {"id": number, "max": n}} if n > 1 else {}), **last_write}
        for query, n in counts
        for number in range(n)
    ]


def _shard_contents(answer: SearchAnswer) -> dict[str, Any]:
    documents = answer.exact_total()
    if len(answer.hits) != min(documents, 1):
        raise Incomplete(f"the engine counts {documents} documents and does not show the last one")
    contents: dict[str, Any] = {"index": None, "documents": documents}
    for last in answer.hits:
        contents["index"] = last.get("_index")
        contents |= {"seq_no": last.get("_seq_no"), "primary_term": last.get("_primary_term")}
        if type(contents["seq_no"]) is not int or type(contents["primary_term"]) is not int:
            raise Incomplete("the engine does not tell which write of a document was its last")
    return contents
