"""What an index holds, told by figures that no write leaves as they are.

Within a shard every write gets a number above all earlier ones (`_seq_no`), and a document bears
that of its last write. Of two moments of a shard, either a document was written between and is
there: the highest number rose; or documents only went: there are fewer. So the number of documents
and the highest `_seq_no`, shard by shard, are equal only where the documents are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.responses import Incomplete, check_whole

Contents = list[dict[str, Any]]
"""Of each shard its `index`, the number of its `documents`, and of the one written last `seq_no`
and `primary_term`."""


class BeingWritten(Incomplete):
    """Parts that were asked for one after the other, and are not the whole."""


@dataclass(frozen=True)
class Part:
    """The documents of one shard, as search bodies name them."""

    query: dict[str, Any]
    slice: dict[str, int] | None = None


def shards_of(shards: Mapping[str, int], *, across: bool) -> list[Part]:
    """The shards of indices.

    A slice is a shard where there are as many slices as shards: those of each index (OpenSearch),
    or, `across` them, of all indices of a search (Elasticsearch).
    """
    if across:
        return _sliced({"match_all": {}}, sum(shards.values()))
    return [part for name in sorted(shards) for part in _sliced(_within(name), shards[name])]


def contents_of(search: Callable[[dict[str, Any]], Any], parts: list[Part]) -> Contents:
    """The contents, asked for part by part. BeingWritten where the parts are not the whole."""
    contents = [_tell(search(_body(part))) for part in parts]
    everything = _total(search({"size": 0, "track_total_hits": True}))
    told = sum(part["documents"] for part in contents)
    if told != everything:
        raise BeingWritten(f"the shards hold {told} documents, and all of them {everything}")
    return contents


def observed(
    search: Callable[[dict[str, Any]], Any], parts: list[Part], options: LogOptions
) -> Contents:
    """The contents, asked for again where an answer is not whole."""
    for attempt in range(options.attempts - 1):
        try:
            return contents_of(search, parts)
        except Incomplete:
            time.sleep(options.pause * 2**attempt)
    return contents_of(search, parts)


def _sliced(query: dict[str, Any], shards: int) -> list[Part]:
    if shards == 1:
        return [Part(query)]
    return [Part(query, {"id": number, "max": shards}) for number in range(shards)]


def _within(index: str) -> dict[str, Any]:
    return {"term": {"_index": index}}


def _body(part: Part) -> dict[str, Any]:
    body = {
        "size": 1,
        "query": part.query,
        "sort": [{"_seq_no": "desc"}],
        "seq_no_primary_term": True,
        "_source": False,
        "track_total_hits": True,
    }
    if part.slice:
        body["slice"] = part.slice
    return body


def _tell(answer: Any) -> dict[str, Any]:
    documents = _total(answer)
    hits = answer["hits"].get("hits")
    if not isinstance(hits, list) or len(hits) != min(documents, 1):
        raise Incomplete(f"the engine counts {documents} documents and does not show the last one")
    told: dict[str, Any] = {"index": None, "documents": documents}
    for hit in hits:
        last = hit if isinstance(hit, dict) else {}
        told["index"] = last.get("_index")
        told |= {"seq_no": last.get("_seq_no"), "primary_term": last.get("_primary_term")}
        if type(told["seq_no"]) is not int or type(told["primary_term"]) is not int:
            raise Incomplete("the engine does not tell which write of a document was its last")
    return told


def _total(answer: Any) -> int:
    check_whole(answer)
    hits = answer.get("hits")
    total = hits.get("total") if isinstance(hits, dict) else None
    if not isinstance(total, dict) or total.get("relation") != "eq":
        raise Incomplete("the answer does not count its hits exactly")
    if type(total.get("value")) is not int:
        raise Incomplete("the answer does not count its hits exactly")
    return int(total["value"])
