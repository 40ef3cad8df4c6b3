"""Snapshots: one state of an index, from which a whole log is.

Where the engine can, a snapshot is a point in time: it holds the index as it was. Elsewhere changes
are detected: within a shard every write gets a number above all earlier ones (`_seq_no`), and a
document has that of its last write. Between two states of a shard, either a document was written
and the highest number rose, or documents were only deleted and there are fewer. So the number of
documents and the highest `_seq_no` of every shard are equal only where the documents are.

Each copy of a shard merges its segments at its own time. Until then deleted documents count in the
statistics that text scores are made of, so the same search has other scores in another copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.responses import (
    EngineRefusal,
    Incomplete,
    MalformedAnswer,
    NoSuchIndex,
    NotAllowed,
    SearchAnswer,
)
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError, Refused

Contents = list[dict[str, Any]]
"""Of each shard its `index`, the number of its `documents`, and of the one written last `seq_no`
and `primary_term`."""
ShardCopies = list[tuple[str, int, str]]
"""Of each shard its index, its number, and the copy that is asked: `allocation_id`."""
WHOLE = {"allow_partial_search_results": "false"}
"""What every search of a log says: no answer rather than one of some shards."""
SAME_COPIES = "owpc-ltr"
"""Searches of one `preference` go to the same copies of the shards: replicas are refreshed and
merged each at its own time, and their scores differ."""
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


class ConcurrentWrites(Incomplete):
    """Shards that were counted one after the other, and do not add up to the whole index."""


def shard_searches(shards: Mapping[str, int], *, across: bool) -> list[dict[str, Any]]:
    """The searches that tell the contents of each shard of indices.

    A slice is a shard where there are as many slices as shards: those of each index (OpenSearch),
    or, `across` them, of all indices of a search (Elasticsearch).
    """
    counts = [({"term": {"_index": name}}, shards[name]) for name in sorted(shards)]
    if across:
        counts = [({"match_all": {}}, sum(shards.values()))]
    last_write = {
        "size": 1,
        "sort": [{"_seq_no": "desc"}],
        "seq_no_primary_term": True,
        "_source": False,
        "track_total_hits": True,
    }
    return [
        {"query": query, **({"slice": {"id": number, "max": n}} if n > 1 else {}), **last_write}
        for query, n in counts
        for number in range(n)
    ]


def read_contents(
    search: Callable[[dict[str, Any]], SearchAnswer],
    searches: Sequence[dict[str, Any]],
    options: LogOptions,
) -> Contents:
    """The contents by shard, requested again where an answer is not complete.

    Raises ConcurrentWrites where the shards are not the whole.
    """
    for _ in options.tries():
        try:
            contents = [_shard_contents(search(body)) for body in searches]
            total = search({"size": 0, "track_total_hits": True}).exact_total()
            if (by_shard := sum(shard["documents"] for shard in contents)) == total:
                return contents
            raise ConcurrentWrites(f"the shards hold {by_shard} documents, and all of them {total}")
        except Incomplete as error:
            fault = error
        except MalformedAnswer as error:
            fault = Incomplete(str(error))
    raise fault


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


def differing_copies(engine: EngineLike, index: str) -> str:
    """In which statistics copies of a shard differ, in words; nothing where none do, or are told.

    To see statistics is a right of its own, which logging does without.
    """
    path = f"/{quote(index, safe='')}/_stats/docs"
    try:
        answer = engine.request("GET", path, params={"level": "shards"})
        shards = [
            (name, number, sorted({int(copy["docs"]["deleted"]) for copy in copies}))
            for name, of_index in sorted(answer["indices"].items())
            for number, copies in sorted(of_index["shards"].items(), key=lambda part: int(part[0]))
        ]
    except (OwpcLtrError, LookupError, TypeError, ValueError, AttributeError):
        return ""
    differing = [shard for shard in shards if len(shard[2]) > 1]
    if not differing:
        return ""
    name, number, deleted = max(differing, key=lambda shard: shard[2][-1] - shard[2][0])
    return (
        f"the copies of {len(differing)} of {len(shards)} shards of '{index}' differ: of shard "
        f"{number} of '{name}' one still counts {deleted[-1]} deleted documents, one {deleted[0]}"
    )


def searched_copies(engine: EngineLike, index: str) -> ShardCopies | None:
    """The copies that searches of our preference ask first; None where that is not told."""
    path = f"/{quote(index, safe='')}/_search_shards"
    try:
        answer = engine.request("GET", path, params={"preference": SAME_COPIES})
        first_copies = [copies[0] for copies in answer["shards"]]
        return sorted(
            (str(copy["index"]), copy["shard"] + 0, str(copy["allocation_id"]["id"]))
            for copy in first_copies
        )
    except (OwpcLtrError, LookupError, TypeError, AttributeError):
        return None


class SnapshotLost(EngineUnavailable):
    """A point in time is gone: with the node that held it, or unused for too long."""


class PointInTime:
    """A point in time: the engine holds on to the index as it was, in one copy of each shard."""

    any_copy = False
    """Whether a search may be answered by a copy that no other one was."""

    def __init__(self, engine: EngineLike, index: str, name: str, *, elastic: bool) -> None:
        self.name = name
        self.contents: Contents = []
        self._engine = engine
        self._index = index
        self.elastic = elastic

    def search(
        self, body: dict[str, Any], params: Mapping[str, str], what: str = "the search"
    ) -> SearchAnswer:
        """The answer of a search in this snapshot, which is kept alive by it."""
        pit = {"id": self.name, "keep_alive": KEEP_ALIVE}
        try:
            content = self._engine.request(
                "POST", "/_search", params={**params, **WHOLE}, body={**body, "pit": pit}
            )
        except EngineRefusal as refusal:
            if refusal.type not in _LOST:
                raise
            raise SnapshotLost(
                f"the engine no longer has '{self._index}' as it was when this run began "
                f"({refusal.reason}): run the same command again"
            ) from refusal
        # The engine may move a snapshot to another copy, and then says under which name.
        answer = SearchAnswer.read(content, body, what)
        self.name = answer.pit or self.name
        return answer

    def refuse_change(self) -> None:
        """Nothing: a point in time does not change."""

    def close(self) -> None:
        """Let it go; where that fails the engine does so later."""
        path = "/_pit" if self.elastic else "/_search/point_in_time"
        body = {"id": self.name} if self.elastic else {"pit_id": [self.name]}
        with suppress(EngineUnavailable, EngineRefusal):
            self._engine.request("DELETE", path, body=body, deadline=RELEASE_SECONDS)


def open_point_in_time(
    engine: EngineLike, index: str, *, elastic: bool, needed: bool = False
) -> tuple[PointInTime | None, str]:
    """A new point in time, of all shards or none; or why there is none.

    Raises NotAllowed where one is `needed`, and the credentials do not do.
    """
    path = f"/{quote(index, safe='')}{'/_pit' if elastic else '/_search/point_in_time'}"
    params = {"keep_alive": KEEP_ALIVE, "preference": SAME_COPIES}
    if not elastic:
        params["allow_partial_pit_creation"] = "false"
    try:
        answer = engine.request("POST", path, params=params)
    except NoSuchIndex:
        raise
    except (EngineRefusal, NotAllowed) as error:
        if needed and isinstance(error, NotAllowed):
            raise
        if isinstance(error, EngineRefusal) and error.type in _NODE_GONE:
            raise SnapshotLost(f"a node of '{index}' is going away: {error}") from error
        return None, str(error)
    name = answer.get("id" if elastic else "pit_id") if isinstance(answer, dict) else None
    if not isinstance(name, str):
        raise Refused("the engine opened a point in time without a name: is this an engine?")
    return PointInTime(engine, index, name, elastic=elastic), ""


class ChangeDetection:
    """An index whose contents are compared before and after a log."""

    any_copy = True

    def __init__(
        self,
        engine: EngineLike,
        index: str,
        shards: Sequence[dict[str, Any]],
        options: LogOptions,
        why_no_point_in_time: str,
        replicated: bool = False,
    ) -> None:
        self._engine = engine
        self._index = index
        self._shards = shards
        self._options = options
        self._why = why_no_point_in_time
        self.replicated = replicated
        self._copies = self._searched_copies()
        self.contents = self.observe()

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> SearchAnswer:
        """The answer of a search in the index as it is, from the same copies of its shards."""
        return SearchAnswer.read(self._request(body, params), body)

    def _request(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        return self._engine.request(
            "POST",
            f"/{quote(self._index, safe='')}/_search",
            params={**params, **WHOLE, "preference": SAME_COPIES},
            body=body,
        )

    def observe(self) -> Contents:
        """The contents now. Refused where no two looks fit together."""
        try:
            return read_contents(self._look, self._shards, self._options)
        except ConcurrentWrites as error:
            raise self._written_to() from error

    def _look(self, body: dict[str, Any]) -> SearchAnswer:
        # Only searches of a point in time can be sliced, and those that could be scrolled.
        answer = self._request(body, {"scroll": "1m"} if "slice" in body else {})
        if isinstance(answer, dict) and "_scroll_id" in answer:
            with suppress(EngineUnavailable, EngineRefusal):
                given_back = {"scroll_id": [answer["_scroll_id"]]}
                self._engine.request(
                    "DELETE", "/_search/scroll", body=given_back, deadline=RELEASE_SECONDS
                )
        return SearchAnswer.read(answer, body)

    def refuse_change(self) -> None:
        """Refused where the contents are not what they were, SnapshotLost where the copies are not.

        Another copy of a shard may have the same documents and other scores.
        """
        if self.observe() != self.contents:
            raise self._written_to()
        if self._searched_copies() != self._copies:
            raise SnapshotLost(
                f"shards of '{self._index}' moved to other copies while features were logged: run "
                "the same command again"
            )

    def _searched_copies(self) -> ShardCopies | None:
        return searched_copies(self._engine, self._index) if self.replicated else None

    def _written_to(self) -> Refused:
        return Refused(
            f"'{self._index}' was written to while features were logged, and has no point in "
            f"time ({self._why}): log it while nothing is written, or with the right to open one"
        )


Snapshot = PointInTime | ChangeDetection
"""An index whose searches all see the same documents, or of which it is known that they do not."""


@contextmanager
def open_snapshot(
    engine: EngineLike,
    index: str,
    shards_of: Mapping[str, int],
    options: LogOptions,
    *,
    elastic: bool,
    replicated: bool,
) -> Iterator[Snapshot]:
    """The index, or the indices behind the alias, as they are now; given back at the end.

    `shards_of` says how many shards each of them has. Without points in time, or the right to open
    one, changes are detected.
    """
    shards = shard_searches(shards_of, across=elastic)
    held, why_not = open_point_in_time(engine, index, elastic=elastic)
    with ExitStack() as opened:
        if held is not None:
            opened.callback(held.close)
            try:
                held.contents = read_contents(partial(held.search, params={}), shards, options)
            except EngineRefusal as refusal:
                # The first versions with points in time do not slice them.
                opened.close()
                held, why_not = None, str(refusal)
        yield held or ChangeDetection(
            engine, index, shards, options, why_no_point_in_time=why_not, replicated=replicated
        )
