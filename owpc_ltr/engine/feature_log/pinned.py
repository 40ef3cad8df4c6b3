"""An index pinned to a point in time, which the engine holds on to until it is given back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.refusals import EngineRefusal, NoSuchIndex, NotAllowed
from owpc_ltr.engine.feature_log.contents import Contents, Part, observed
from owpc_ltr.engine.feature_log.options import RELEASE_SECONDS, SAME_COPIES, WHOLE, LogOptions
from owpc_ltr.errors import EngineUnavailable, Refused

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


class MomentLost(EngineUnavailable):
    """A pinned moment is gone: with the node that held it, or not asked for too long."""


def pin(
    engine: EngineLike, index: str, shards: list[Part], options: LogOptions, *, elastic: bool
) -> tuple[Pinned | None, str]:
    """The index pinned, with its contents; or why it is not."""
    name, why_not = open_moment(engine, index, elastic=elastic)
    if name is None:
        return None, why_not
    pinned = Pinned(engine, index, name, elastic=elastic)
    try:
        pinned.contents = observed(lambda body: pinned.search(body, {}), shards, options)
    except EngineRefusal as refusal:  # the first versions with points in time do not slice them
        pinned.close()
        return None, str(refusal)
    except BaseException:
        pinned.close()
        raise
    return pinned, ""


class Pinned:
    """A point in time: the engine holds on to the index as it was, in one copy of each shard."""

    unpinned = False

    def __init__(self, engine: EngineLike, index: str, name: str, *, elastic: bool) -> None:
        self.name = name
        self.contents: Contents = []
        self._engine = engine
        self._index = index
        self.elastic = elastic

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The answer of a search in this moment, which is kept alive by it."""
        pit = {"id": self.name, "keep_alive": KEEP_ALIVE}
        try:
            answer = self._engine.request(
                "POST", "/_search", params={**params, **WHOLE}, body={**body, "pit": pit}
            )
        except EngineRefusal as refusal:
            if refusal.type not in _LOST:
                raise
            raise MomentLost(
                f"the engine no longer has '{self._index}' as it was when this run began "
                f"({refusal.reason}): run the same command again"
            ) from refusal
        # The engine may move a moment to another copy, and then says under which name.
        if isinstance(answer, dict) and isinstance(answer.get("pit_id"), str):
            self.name = answer["pit_id"]
        return answer

    def refuse_change(self) -> None:
        """Nothing: what is pinned does not change."""

    def close(self) -> None:
        """Let it go; where that fails the engine does so later."""
        path = "/_pit" if self.elastic else "/_search/point_in_time"
        body = {"id": self.name} if self.elastic else {"pit_id": [self.name]}
        with suppress(EngineUnavailable, EngineRefusal):
            self._engine.request("DELETE", path, body=body, deadline=RELEASE_SECONDS)


def open_moment(
    engine: EngineLike, index: str, *, elastic: bool, needed: bool = False
) -> tuple[str | None, str]:
    """The name of a new moment, of all shards or none; or why there is none.

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
            raise MomentLost(f"a node of '{index}' is going away: {error}") from error
        return None, str(error)
    name = answer.get("id" if elastic else "pit_id") if isinstance(answer, dict) else None
    if not isinstance(name, str):
        raise Refused("the engine opened a point in time without a name: is this an engine?")
    return name, ""
