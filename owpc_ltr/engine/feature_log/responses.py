"""Checks of a search response before its feature values are taken for data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from owpc_ltr.errors import Refused


class Incomplete(Refused):
    """An answer that is not the whole truth; asked again, it may be."""


def whole_hits(
    answer: Any, asked: Collection[str], indices: Collection[str]
) -> dict[str, dict[str, Any]]:
    """The hits of a complete answer by document id, each asked for, each once.

    Raises Incomplete where a shard did not answer in full or the hits are not the whole list.
    `timed_out` is looked at besides the shards: a shard that timed out counts as successful.
    """
    check_whole(answer)
    listed, total = _listed(answer.get("hits"))
    hits: dict[str, dict[str, Any]] = {}
    for hit in listed:
        document = hit.get("_id") if isinstance(hit, dict) else None
        if not isinstance(document, str) or document not in asked:
            raise Incomplete(f"the engine returned document {document!r}, which was not asked for")
        if document in hits:
            raise Incomplete(f"the engine returned document '{document}' twice")
        if hit.get("_index") not in indices:
            raise Incomplete(
                f"document '{document}' came from the index '{hit.get('_index')}' in place of "
                f"{' or '.join(sorted(indices))}: is an alias being moved?"
            )
        hits[document] = hit
    if len(hits) != total:
        raise Incomplete(f"the engine found {total} documents and returned {len(hits)}")
    return hits


def check_whole(answer: Any) -> None:
    """Raise Incomplete where a search was cut short, or a shard did not answer in full."""
    if not isinstance(answer, dict):
        raise Incomplete(f"the engine answered with {_kind(answer)} in place of an object")
    if answer.get("timed_out") is not False or answer.get("terminated_early"):
        raise Incomplete("the search was cut short in the engine (timed_out)")
    _check_shards(answer.get("_shards"))


def _check_shards(shards: Any) -> None:
    names = ("total", "successful", "skipped", "failed")
    counts = [shards.get(name, 0) for name in names] if isinstance(shards, dict) else []
    if not counts or not all(type(count) is int for count in counts):
        raise Incomplete("the answer does not tell about its shards")
    total, successful, skipped, failed = counts
    # Engines count a skipped shard (nothing in it can match) among the successful ones.
    if failed != 0 or total < 1 or total not in {successful, successful + skipped}:
        raise Incomplete(f"{successful} of {total} shards answered, {failed} failed")


def _listed(hits: Any) -> tuple[list[Any], int]:
    total = hits.get("total") if isinstance(hits, dict) else None
    listed = hits.get("hits") if isinstance(hits, dict) else None
    if not isinstance(listed, list) or not isinstance(total, dict):
        raise Incomplete("the answer carries no list of hits with its total")
    if total.get("relation") != "eq" or not isinstance(total.get("value"), int):
        raise Incomplete("the answer does not count its hits exactly")
    return listed, total["value"]


def _kind(value: Any) -> str:
    return {str: "text", list: "a list", type(None): "nothing"}.get(type(value), "a number")
