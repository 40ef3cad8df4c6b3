"""One moment of an index, from which a whole log is: pinned in the engine, or watched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.feature_log.contents import Contents, shards_of
from owpc_ltr.engine.feature_log.environment import Environment
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.pinned import pin
from owpc_ltr.engine.feature_log.schedule import RateLimit
from owpc_ltr.engine.feature_log.watched import Watched


class Moment(Protocol):
    """An index whose searches all see the same documents, or are told that they do not."""

    contents: Contents
    unpinned: bool
    """Whether a search may be answered by a copy that no other one was."""

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The engine's answer; MomentLost where the moment cannot be searched any more."""
        ...

    def refuse_change(self) -> None:
        """Refused where searches since the moment began may have seen other documents."""
        ...


@contextmanager
def moment_of(
    engine: EngineLike, index: str, environment: Environment, options: LogOptions
) -> Iterator[Moment]:
    """The index, or the indices behind the alias, as they are now; given back at the end.

    Where the engine cannot pin a moment, or not for these credentials, the index is watched.
    """
    elastic = environment.engine["distribution"] == "elasticsearch"
    shards = shards_of(environment.shards, across=elastic)
    pinned, why_not = pin(engine, index, shards, options, elastic=elastic)
    if pinned is None:
        yield Watched(engine, index, shards, options, why_not, environment.replicated)
        return
    try:
        yield pinned
    finally:
        pinned.close()


class RateLimited:
    """A snapshot of the index whose searches keep within a rate."""

    def __init__(self, moment: Moment, rate: RateLimit) -> None:
        self.contents = moment.contents
        self.unpinned = moment.unpinned
        self._moment = moment
        self._rate = rate

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The answer of a search, when the rate allows it."""
        self._rate.wait(max(1, int(body.get("size", 1))))
        return self._moment.search(body, params)

    def refuse_change(self) -> None:
        """Refused where searches since the moment began may have seen other documents."""
        self._moment.refuse_change()
