"""What feature logging needs of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from owpc_ltr.engine.http.pace import Pace

WHOLE = {"allow_partial_search_results": "false"}
SAME_COPIES = "owpc-ltr"
"""Searches of one `preference` go to the same copies of the shards: replicas are refreshed and
merged each at its own time, and their scores differ."""
GIVING_BACK = 2.0
"""Seconds for giving back what the engine holds for us; after a while it lets go by itself."""


class Transport(Protocol):
    """What is needed of the engine: JSON in, JSON out, retried where that helps."""

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        deadline: float | None = None,
    ) -> Any:
        """The decoded answer; EngineUnavailable or EngineRefusal where there is none.

        `deadline` is in seconds, for all attempts together.
        """
        ...


@runtime_checkable
class Paceable(Protocol):
    """An engine that tells what becomes of each attempt, so that its pace can be found."""

    def at_pace(self, pace: Pace) -> Transport:
        """The same engine, each of whose searches waits for a turn."""
        ...
