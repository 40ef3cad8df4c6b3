"""Checks that an answer is whole and in an engine's own form before it is believed."""

from __future__ import annotations

from typing import Any

from owpc_ltr.errors import EngineUnavailable, Refused


def check_whole(answer: Any, what: str) -> dict[str, Any]:
    """The answer of a search, if every shard gave its part in time."""
    shards = part_of(answer, "_shards", what)
    if answer.get("timed_out") or shards.get("failed") != 0:
        raise Refused(f"the engine gave {what} for a part of the index only: try again")
    return dict(answer)


def hits_of(answer: Any, what: str, *keys: str) -> list[dict[str, Any]]:
    """The hits of a whole answer; each has these keys."""
    hits = part_of(check_whole(answer, what), "hits", what).get("hits", [])
    if not isinstance(hits, list):
        raise strange(what)
    for hit in hits:
        if not isinstance(hit, dict) or any(key not in hit for key in keys):
            raise strange(what)
    return hits


def part_of(answer: Any, key: str, what: str) -> dict[str, Any]:
    """An object inside an answer that is an object."""
    part = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(part, dict):
        raise strange(what)
    return part


def strange(what: str) -> EngineUnavailable:
    """The error for an answer that no engine gives: what stands before one may answer anything."""
    return EngineUnavailable(
        f"what came for {what} is not an engine's answer: check the address, and what stands "
        "between it and you"
    )
