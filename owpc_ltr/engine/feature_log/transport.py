"""What feature logging needs of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


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
