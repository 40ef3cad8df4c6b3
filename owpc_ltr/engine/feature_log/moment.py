"""One moment of an index, from which a whole log is: pinned in the engine, or watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from owpc_ltr.engine.feature_log.contents import Contents, contents_of, shards_of, whole_indices
from owpc_ltr.engine.feature_log.environment import Environment
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.responses import Incomplete
from owpc_ltr.engine.feature_log.transport import Transport
from owpc_ltr.engine.http.refusals import EngineRefusal, NoSuchIndex, NotAllowed
from owpc_ltr.errors import EngineUnavailable, Refused

T = TypeVar("T")
WHOLE = {"allow_partial_search_results": "false"}
KEEP_ALIVE = "10m"
"""For how long the engine keeps a moment after its last search: longer than any outage that a
request waits for."""
SAME_COPIES = "owpc-ltr"
"""Searches of one `preference` go to the same copies of the shards: replicas are refreshed and
merged each at its own time, and their scores differ."""
_CLOSING = 2.0
"""Seconds for letting a moment go; the engine does it by itself after `KEEP_ALIVE`."""


class Moment(Protocol):
    """An index whose searches all see the same documents, or are told that they do not."""

    contents: Contents

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The engine's answer; MomentLost where the moment cannot be searched any more."""
        ...

    def refuse_change(self) -> None:
        """Refused where searches since the moment began may have seen other documents."""
        ...


class MomentLost(EngineUnavailable):
    """The engine has forgotten a pinned moment: it was restarted, or not asked for too long."""


@contextmanager
def moment_of(
    engine: Transport, index: str, environment: Environment, options: LogOptions
) -> Iterator[Moment]:
    """The index, or the indices behind the alias, as they are now; given back at the end.

    Where the engine cannot pin a moment, or not for these credentials, the index is watched.
    """
    elastic = environment.engine["distribution"] == "elasticsearch"
    name, why = _open(engine, index, elastic=elastic)
    if name is None:
        watched = Watched(engine, index, environment.shards, options, why)
        watched.contents = watched.observe()
        yield watched
        return
    pinned = Pinned(engine, index, name)
    try:
        parts = shards_of(environment.shards, across=elastic)
        pinned.contents = _repeated(
            lambda: contents_of(lambda body: pinned.search(body, {}), parts), options
        )
        yield pinned
    finally:
        _close(engine, pinned.name, elastic=elastic)


class Pinned:
    """A point in time: the engine holds on to the index as it was."""

    def __init__(self, engine: Transport, index: str, name: str) -> None:
        self.name = name
        self.contents: Contents = []
        self._engine = engine
        self._index = index

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The answer of a search in this moment, which is kept alive by it."""
        pit = {"id": self.name, "keep_alive": KEEP_ALIVE}
        try:
            answer = self._engine.request(
                "POST", "/_search", params={**params, **WHOLE}, body={**body, "pit": pit}
            )
        except EngineRefusal as refusal:
            if refusal.type != "search_context_missing_exception":
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


class Watched:
    """An index that is looked at before and after: other contents are noticed, not kept away."""

    def __init__(
        self,
        engine: Transport,
        index: str,
        shards: Mapping[str, int],
        options: LogOptions,
        why_not_pinned: str,
    ) -> None:
        self.contents: Contents = []
        self._engine = engine
        self._index = index
        self._parts = whole_indices(shards)
        self._options = options
        self._why = why_not_pinned

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The answer of a search in the index as it is, from the same copies of its shards."""
        return self._engine.request(
            "POST",
            f"/{quote(self._index, safe='')}/_search",
            params={**params, **WHOLE, "preference": SAME_COPIES},
            body=body,
        )

    def observe(self) -> Contents:
        """The contents now."""
        return _repeated(
            lambda: contents_of(lambda body: self.search(body, {}), self._parts), self._options
        )

    def refuse_change(self) -> None:
        """Refused where the contents are not what they were."""
        if self.observe() != self.contents:
            raise Refused(
                f"'{self._index}' was written to while features were logged, and cannot be pinned "
                f"to one moment ({self._why}): log it while nothing is written, or with the right "
                "to open a point in time"
            )


def _open(engine: Transport, index: str, *, elastic: bool) -> tuple[str | None, str]:
    """The name of a new moment, of all shards or none; or why there is none."""
    path = f"/{quote(index, safe='')}{'/_pit' if elastic else '/_search/point_in_time'}"
    params = {"keep_alive": KEEP_ALIVE, "preference": SAME_COPIES}
    if not elastic:
        params["allow_partial_pit_creation"] = "false"
    try:
        answer = engine.request("POST", path, params=params)
    except NoSuchIndex:
        raise
    except (EngineRefusal, NotAllowed) as error:
        return None, str(error)
    name = answer.get("id" if elastic else "pit_id") if isinstance(answer, dict) else None
    if not isinstance(name, str):
        raise Refused("the engine opened a point in time without a name: is this an engine?")
    return name, ""


def _close(engine: Transport, name: str, *, elastic: bool) -> None:
    """Let a moment go; where that fails the engine does so later."""
    path = "/_pit" if elastic else "/_search/point_in_time"
    body = {"id": name} if elastic else {"pit_id": [name]}
    with suppress(EngineUnavailable, EngineRefusal):
        engine.request("DELETE", path, body=body, deadline=_CLOSING)


def _repeated(look: Callable[[], T], options: LogOptions) -> T:
    """What is seen, looked at again where an answer is not whole."""
    for attempt in range(options.attempts - 1):
        try:
            return look()
        except Incomplete:
            time.sleep(options.pause * 2**attempt)
    return look()
