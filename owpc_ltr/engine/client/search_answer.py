"""The answer of a search: complete, or refused.

With status 200 an engine may answer for a part of an index, and a proxy may answer anything. Every
search whose hits are used is read here, so that one rule decides what is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from owpc_ltr.engine.client.responses import AnswerPart, strange
from owpc_ltr.errors import Refused
from owpc_ltr.files.input import shown

Hit = dict[str, Any]
"""A hit as the engine gives it; its `_id` is a string, its `_source`, if it has one, an object."""
_LARGEST_SCORE = 1e39
"""Scores are of 32 bits."""
_SIZE = 10
"""The hits of a search that says no size."""
_SHORTENING = frozenset({"collapse", "min_score", "search_after", "terminate_after"})


class Incomplete(Refused):
    """An answer that is not complete; if the request is repeated, it may be."""


@dataclass(frozen=True)
class SearchAnswer:
    """A complete answer: its hits, its milliseconds by the engine's clock, and its exact total.

    `total` is None where the engine does not count every match. `pit` is the id of the point in
    time, which an engine may change from search to search.
    """

    hits: tuple[Hit, ...]
    took: int
    total: int | None = None
    pit: str | None = None

    @classmethod
    def read(
        cls,
        answer: Any,
        body: Mapping[str, Any],
        what: str = "the search",
        *,
        scored: bool = False,
    ) -> Self:
        """The answer to a search with this body; `scored`: every hit has a finite score.

        Raises Incomplete where it is not complete, or has a hit twice, or more or fewer hits than
        the search must have; MalformedAnswer for what no engine answers; Refused for a hit without
        a score.
        """
        check_complete(answer, body, what)
        whole = AnswerPart(answer, what)
        found, pit = whole["hits"].object, answer.get("pit_id")
        total, exact = _total(found.get("total"))
        # A `filter_path` leaves out the empty list.
        listed = whole["hits"]["hits"] if "hits" in found or total != 0 else ()
        hits = tuple(_hit(each, what, scored=scored) for each in listed)
        _check_number(hits, body, total, what)
        return cls(
            hits, whole["took"].count, total if exact else None, pit if type(pit) is str else None
        )

    def exact_total(self) -> int:
        """The number of matches. Raises Incomplete where not every match is counted."""
        if self.total is None:
            raise Incomplete("the engine does not count its hits exactly: try again")
        return self.total


def check_complete(answer: Any, body: Mapping[str, Any], what: str) -> None:
    """Raise Incomplete unless every shard searched all of its documents in time."""
    shards = AnswerPart(answer, what)["_shards"].object
    # Engines count a skipped shard (nothing in it can match) among the successful ones.
    counts = [shards.get(name) for name in ("successful", "total", "failed")]
    successful, total, failed = counts
    fault = ""
    if answer.get("timed_out") is not False:
        fault = "timed_out"
    elif answer.get("terminated_early") and "terminate_after" not in body:
        fault = "terminated_early"
    elif not all(type(count) is int for count in counts):
        fault = "its shards are not counted"
    elif failed or not total or successful != total:
        fault = f"{successful} of {total} shards answered, {failed} failed"
    if fault:
        raise Incomplete(
            f"the engine gave {what} for a part of the index only ({fault}): try again"
        )


def _total(total: Any) -> tuple[int | None, bool]:
    """The total of an answer, None where it has none, and whether it is exact."""
    exact = True
    if isinstance(total, dict):
        total, exact = total.get("value"), total.get("relation") == "eq"
    return (total, exact) if type(total) is int else (None, False)


def _hit(part: AnswerPart, what: str, *, scored: bool) -> Hit:
    hit, identifier, score = part.object, part["_id"].text, part.value.get("_score")
    if not isinstance(hit.get("_source", {}), dict):
        raise strange(what, "hits.hits[]._source")
    is_number = type(score) in (int, float)
    # JSON has integers of any length, and 1e400.
    if is_number and not abs(score) < _LARGEST_SCORE:
        raise strange(what, "hits.hits[]._score")
    if scored and not is_number:
        raise Refused(
            f"document {shown(identifier)} came without a score: the query, or a feature of the "
            "model, has no finite value; fix its script"
        )
    return hit


def _check_number(
    hits: tuple[Hit, ...], body: Mapping[str, Any], total: int | None, what: str
) -> None:
    """Refuse hits that no engine gives: one twice, or more or fewer than the search must have.

    The number that an answer promises is its total, from `from` on and up to `size`; lists that are
    collapsed, or cut by other keys of the body, may be shorter.
    """
    places = Counter(tuple(str(hit.get(k)) for k in ("_index", "_id", "_routing")) for hit in hits)
    size, first = int(body.get("size", _SIZE)), int(body.get("from", 0))
    promised = 0
    if total is not None and not _SHORTENING & body.keys():
        promised = min(size, max(0, total - first))
    found = ""
    if len(places) < len(hits):
        twice = next(place for place, number in places.items() if number > 1)
        found = f"document {shown(twice[1])} twice"
    elif len(hits) > size:
        found = f"{len(hits)} hits, where {size} were asked for"
    elif len(hits) < promised:
        found = f"{len(hits)} hits, where its total of {total} has {promised}"
    if found:
        raise Incomplete(
            f"the engine gave {what} {found}: no engine's answer is so; look at what stands "
            "between it and you, and try again"
        )
