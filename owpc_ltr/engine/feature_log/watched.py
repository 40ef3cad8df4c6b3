"""An index that is looked at before and after, where it cannot be pinned."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.feature_log.contents import BeingWritten, Contents, Part, observed
from owpc_ltr.engine.feature_log.copies import Asked, asked_copies
from owpc_ltr.engine.feature_log.options import RELEASE_SECONDS, SAME_COPIES, WHOLE, LogOptions
from owpc_ltr.engine.feature_log.pinned import MomentLost
from owpc_ltr.errors import EngineUnavailable, Refused


class Watched:
    """An index that is looked at before and after: other contents are noticed, not kept away."""

    unpinned = True

    def __init__(
        self,
        engine: EngineLike,
        index: str,
        shards: list[Part],
        options: LogOptions,
        why_not_pinned: str,
        replicated: bool = False,
    ) -> None:
        self._engine = engine
        self._index = index
        self._shards = shards
        self._options = options
        self._why = why_not_pinned
        self.replicated = replicated
        self._copies = self._asked_copies()
        self.contents = self.observe()

    def search(self, body: dict[str, Any], params: Mapping[str, str]) -> Any:
        """The answer of a search in the index as it is, from the same copies of its shards."""
        return self._engine.request(
            "POST",
            f"/{quote(self._index, safe='')}/_search",
            params={**params, **WHOLE, "preference": SAME_COPIES},
            body=body,
        )

    def observe(self) -> Contents:
        """The contents now. Refused where no two looks fit together."""
        try:
            return observed(self._look, self._shards, self._options)
        except BeingWritten as error:
            raise self._written_to() from error

    def _look(self, body: dict[str, Any]) -> Any:
        # Only pinned searches can be sliced, and those that could be scrolled.
        answer = self.search(body, {"scroll": "1m"} if "slice" in body else {})
        if isinstance(answer, dict) and "_scroll_id" in answer:
            with suppress(EngineUnavailable, EngineRefusal):
                given_back = {"scroll_id": [answer["_scroll_id"]]}
                self._engine.request(
                    "DELETE", "/_search/scroll", body=given_back, deadline=RELEASE_SECONDS
                )
        return answer

    def refuse_change(self) -> None:
        """Refused where the contents are not what they were, MomentLost where the copies are not.

        Another copy of a shard may have the same documents and other scores.
        """
        if self.observe() != self.contents:
            raise self._written_to()
        if self._asked_copies() != self._copies:
            raise MomentLost(
                f"shards of '{self._index}' moved to other copies while features were logged: run "
                "the same command again"
            )

    def _asked_copies(self) -> Asked | None:
        return asked_copies(self._engine, self._index) if self.replicated else None

    def _written_to(self) -> Refused:
        return Refused(
            f"'{self._index}' was written to while features were logged, and cannot be pinned to "
            f"one moment ({self._why}): log it while nothing is written, or with the right to open "
            "a point in time"
        )
