"""The copies of an index's shards: whether they are alike, and which of them are asked.

Each copy merges its segments at its own time. Until then deleted documents count in the statistics
that text scores are made of, so that the same search has other scores in another copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.feature_log.options import SAME_COPIES
from owpc_ltr.errors import OwpcLtrError

Asked = list[tuple[str, int, str]]
"""Of each shard its index, its number, and the copy that is asked: `allocation_id`."""


def unlike_copies(engine: EngineLike, index: str) -> str:
    """In which statistics copies of a shard differ, in words; nothing where none do, or are told.

    To see statistics is a right of its own, which logging does without.
    """
    path = f"/{quote(index, safe='')}/_stats/docs"
    try:
        answer = engine.request("GET", path, params={"level": "shards"})
        shards = [
            (name, number, sorted({int(copy["docs"]["deleted"]) for copy in copies}))
            for name, found in sorted(answer["indices"].items())
            for number, copies in sorted(found["shards"].items(), key=lambda each: int(each[0]))
        ]
    except (OwpcLtrError, LookupError, TypeError, ValueError, AttributeError):
        return ""
    unlike = [shard for shard in shards if len(shard[2]) > 1]
    if not unlike:
        return ""
    name, number, deleted = max(unlike, key=lambda shard: shard[2][-1] - shard[2][0])
    return (
        f"the copies of {len(unlike)} of {len(shards)} shards of '{index}' differ: of shard "
        f"{number} of '{name}' one still counts {deleted[-1]} deleted documents, one {deleted[0]}"
    )


def asked_copies(engine: EngineLike, index: str) -> Asked | None:
    """The copies that searches of our preference ask first; None where that is not told."""
    path = f"/{quote(index, safe='')}/_search_shards"
    try:
        answer = engine.request("GET", path, params={"preference": SAME_COPIES})
        return sorted(_first(answer))
    except (OwpcLtrError, LookupError, TypeError, AttributeError):
        return None


def _first(answer: Any) -> Iterator[tuple[str, int, str]]:
    for copies in answer["shards"]:
        first = copies[0]
        yield str(first["index"]), first["shard"] + 0, str(first["allocation_id"]["id"])
