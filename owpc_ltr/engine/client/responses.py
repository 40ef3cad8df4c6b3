"""Checks that an answer is whole and in an engine's own form before it is believed.

A proxy, or whatever else stands before an engine, may answer anything with 200. A read is believed
where it has the shape that is used, and a write where it says that just that was done.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.files.text import shown

_LARGEST = 2**63
_LARGEST_SCORE = 1e39
"""Scores are of 32 bits."""
_SIZE = 10
"""The hits of a search that says no size."""
_SHORTENING = frozenset({"collapse", "min_score", "terminate_after"})


@dataclass(frozen=True)
class AnswerPart:
    """A part of an answer, which knows what was asked for and where in the answer it stands.

    Every look at what is not there, or is of another kind, raises EngineUnavailable in one line.

    >>> hit = AnswerPart({"_id": "d1", "_score": 2}, "the hits")
    >>> hit["_id"].text, hit["_score"].number
    ('d1', 2.0)
    >>> hit["sort"]
    Traceback (most recent call last):
    owpc_ltr.errors.EngineUnavailable: what came for the hits is not an engine's answer, which \
would have 'sort': check the address, and what stands between it and you
    """

    value: Any
    what: str
    place: str = ""

    def __getitem__(self, key: str) -> AnswerPart:
        """What an object has under a key."""
        inner = f"{self.place}.{key}" if self.place else key
        if not isinstance(self.value, dict) or key not in self.value:
            raise strange(self.what, inner)
        return AnswerPart(self.value[key], self.what, inner)

    def __iter__(self) -> Iterator[AnswerPart]:
        """The parts of a list."""
        if not isinstance(self.value, list):
            raise self._strange()
        return (AnswerPart(each, self.what, f"{self.place}[]") for each in self.value)

    @property
    def object(self) -> dict[str, Any]:
        """An object."""
        if not isinstance(self.value, dict):
            raise self._strange()
        return self.value

    @property
    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self._strange()
        return self.value

    @property
    def number(self) -> float:
        """A finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._strange()
        # JSON has integers of any length, and 1e400.
        if isinstance(self.value, int) and abs(self.value) >= _LARGEST:
            raise self._strange()
        if not math.isfinite(self.value):
            raise self._strange()
        return float(self.value)

    @property
    def count(self) -> int:
        """A number of things."""
        if type(self.value) is not int or not 0 <= self.value < _LARGEST:
            raise self._strange()
        return self.value

    def _strange(self) -> EngineUnavailable:
        return strange(self.what, self.place)


def check_whole(answer: Any, what: str) -> dict[str, Any]:
    """The answer of a search, if every shard gave its part in time."""
    shards = part_of(answer, "_shards", what)
    if answer.get("timed_out") or shards.get("failed") != 0 or _is_one_unheard(shards):
        raise Refused(f"the engine gave {what} for a part of the index only: try again")
    return dict(answer)


def _is_one_unheard(shards: dict[str, Any]) -> bool:
    """Whether a shard has neither answered nor failed."""
    total, successful, skipped = (shards.get(n) for n in ("total", "successful", "skipped"))
    if any(type(count) is not int for count in (total, successful, skipped) if count is not None):
        return True
    # Engines count a skipped shard (nothing in it can match) among the successful ones.
    heard = {successful, (successful or 0) + (skipped or 0)}
    return total is not None and total not in heard


def hits_of(answer: Any, what: str, *keys: str) -> list[dict[str, Any]]:
    """The hits of a whole answer; each has these keys, and an `_id` that is a string."""
    hits = AnswerPart(check_whole(answer, what), what)["hits"].object.get("hits", [])
    found = [hit.object for hit in AnswerPart(hits, what, "hits.hits")]
    for hit in found:
        part = AnswerPart(hit, what, "hits.hits[]")
        for key in keys:
            value = part[key]
            if key == "_id" and not isinstance(value.value, str):
                raise strange(what, "hits.hits[]._id")
        # JSON has integers of any length, and 1e400: what is no number at all says who needs one.
        score = hit.get("_score")
        if isinstance(score, int | float) and not abs(score) < _LARGEST_SCORE:
            raise strange(what, "hits.hits[]._score")
    return found


def search_hits(answer: Any, what: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The hits of a search with this body, each with its `_id`; see `check_hits`."""
    hits = hits_of(answer, what, "_id")
    check_hits(answer, what, body)
    return hits


def check_hits(answer: Any, what: str, body: Mapping[str, Any]) -> None:
    """Refuse hits that no engine gives: one twice, or more or fewer than the search must have.

    The number that an answer promises is its total, from `from` on and up to `size`; lists that are
    collapsed, or cut by `min_score` or `terminate_after`, may be shorter. Raises Refused.
    """
    found = answer["hits"]
    hits = found.get("hits", [])
    places = [tuple(str(hit.get(key)) for key in ("_index", "_id", "_routing")) for hit in hits]
    twice = next((place for place, n in Counter(places).items() if n > 1), None)
    if twice is not None:
        raise _impossible(what, f"document {shown(twice[1])} twice")
    size, first = int(body.get("size", _SIZE)), int(body.get("from", 0))
    if len(hits) > size:
        raise _impossible(what, f"{len(hits)} hits, where {size} were asked for")
    total = found.get("total")
    total = total.get("value") if isinstance(total, dict) else total
    if type(total) is int and not _SHORTENING & body.keys():
        promised = min(size, max(0, total - first))
        if len(hits) < promised:
            raise _impossible(what, f"{len(hits)} hits, where its total of {total} has {promised}")


def _impossible(what: str, found: str) -> Refused:
    return Refused(
        f"the engine gave {what} {found}: no engine's answer is so; look at what stands between it "
        "and you, and try again"
    )


def part_of(answer: Any, key: str, what: str) -> dict[str, Any]:
    """An object inside an answer that is an object."""
    return AnswerPart(answer, what)[key].object


def check_acknowledged(answer: Any, what: str) -> None:
    """Believe the answer to a change of indices or aliases where it says that it was done."""
    done = AnswerPart(answer, what)["acknowledged"].value
    if done is False:
        raise EngineUnavailable(
            f"the cluster did not take over {what} in time: look whether its nodes are well, and "
            "try again"
        )
    if done is not True:
        raise strange(what, "acknowledged")


def check_written(answer: Any, what: str, identifier: str, *results: str) -> str:
    """What became of this document, if the answer says that it is one of these results."""
    written = AnswerPart(answer, what)
    if written["_id"].text != identifier or written["result"].text not in results:
        raise strange(what, f"result: {' or '.join(results)}")
    return written["result"].text


def check_refreshed(answer: Any, what: str) -> None:
    """Believe a refresh or a merge where no shard failed."""
    if AnswerPart(answer, what)["_shards"]["failed"].count:
        raise Refused(f"the engine did {what} in a part of the index only: try again")


def bulk_items(answer: Any, what: str, identifiers: Sequence[str]) -> list[dict[str, Any]]:
    """What became of each document of a bulk of `index` operations, in their order."""
    items = list(AnswerPart(answer, what)["items"])
    if len(items) != len(identifiers):
        raise Refused(f"the engine answered for {len(items)} of {len(identifiers)} documents")
    found = []
    for item, identifier in zip(items, identifiers, strict=True):
        done = item["index"]
        if done["_id"].text != identifier or not 200 <= done["status"].count < 600:
            raise strange(what, f"items[].index of '{identifier}'")
        if done["status"].count < 300 and done["result"].text not in {"created", "updated"}:
            raise strange(what, "items[].index.result: created or updated")
        found.append(done.object)
    return found


def strange(what: str, place: str = "") -> EngineUnavailable:
    """The error for an answer that no engine gives: what stands before one may answer anything."""
    lacking = f", which would have '{place}'" if place else ""
    return EngineUnavailable(
        f"what came for {what} is not an engine's answer{lacking}: check the address, and what "
        "stands between it and you"
    )
