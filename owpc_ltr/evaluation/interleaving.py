"""Balanced interleaving: a page that shows the results of two rankers.

A hash of the experiment, the client and the query says which ranker leads (Joachims, KDD 2002), so
that a reload and the next page show the same order. Each document carries its ranks in both lists
and its positions on both possible pages: what a click is worth follows from these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.signatures import public
from owpc_ltr.text import ShortRepr


@dataclass(frozen=True, repr=False)
class InterleavedPage(ShortRepr):
    """A page of both rankers, and what to log of it.

    `hits` are the items of the page as they came in. `query_attributes` belong to the query
    (`{"experiment": {"name", "leads"}}`), `event_attributes[id]` to a click on that document
    (`{"experiment": {"name", "leads", "a", "b", "in_a", "in_b"}}`), as User Behavior Insights has
    them. `a` and `b` are the ranks of a document in the two lists, from 1; None beyond their depth.
    `in_a` and `in_b` are its positions when A and when B leads; None beyond the page's end.
    """

    hits: list[Any]
    query_attributes: dict[str, Any]
    event_attributes: dict[str, dict[str, Any]]


def leader(experiment: str, client: str, query: str) -> str:
    """The ranker that leads, "a" or "b", each for half of the clients and queries.

    Queries that differ in case or white space alone have the same leader.
    """
    # As JSON, no two triples are one text, and a lone surrogate has an encoding.
    text = json.dumps([experiment, client, " ".join(query.casefold().split())])
    return "ab"[blake2b(text.encode(), digest_size=1).digest()[0] & 1]


def balanced_merge(leading: Sequence[str], other: Sequence[str]) -> list[str]:
    """Both lists as one, in which the two are read equally deep, the leading one first.

    The first n documents of the merge are the union of the first k of one and the first k or k - 1
    of the other (Radlinski, Kurup & Joachims, CIKM 2008, algorithm 1). Where one list ends, the
    other goes on.
    """
    merged: dict[str, None] = {}
    for rank in range(max(len(leading), len(other))):
        for documents in (leading, other):
            if rank < len(documents):
                merged.setdefault(documents[rank])
    return list(merged)


@public
def interleave(
    a_hits: Sequence[Any],
    b_hits: Sequence[Any],
    *,
    experiment: str,
    client: str,
    query: str,
    size: int = 10,
    start: int = 0,
) -> InterleavedPage:
    """The page from `start` on that shows `size` results of the rankers A and B.

    Hits are ids, or hits of an engine (with `_id`). Ask both rankers for `start + size` hits or
    more, from the first on: a shorter list is one that has no more. A document that both have is
    shown as the leader has it. Raises BadInput where a list has a document twice.
    """
    end = start + size
    if start < 0 or size < 0:
        raise BadInput(f"there is no page of {size} hits from {start} on: neither is negative")
    a, b = (_ids(hits, name) for hits, name in ((a_hits, "A"), (b_hits, "B")))
    leads = leader(experiment, client, query)
    # What stands below the page's end in its list stands below it in the merge.
    tops = [*a][:end], [*b][:end]
    merges = {"a": balanced_merge(*tops), "b": balanced_merge(*reversed(tops))}
    page = merges[leads][start:end]
    hits = dict(zip(tops[0], a_hits, strict=False))
    of_b = dict(zip(tops[1], b_hits, strict=False))
    hits = {**hits, **of_b} if leads == "b" else {**of_b, **hits}
    coin = {"name": experiment, "leads": leads}
    places = {"a": a, "b": b}
    for side, merge in merges.items():
        places[f"in_{side}"] = {document: place for place, document in enumerate(merge[:end], 1)}
    events = {
        document: {
            "experiment": {**coin, **{name: ranks.get(document) for name, ranks in places.items()}}
        }
        for document in page
    }
    return InterleavedPage([hits[document] for document in page], {"experiment": coin}, events)


def _ids(hits: Sequence[Any], name: str) -> dict[str, int]:
    """The documents of a list, and their ranks from 1."""
    ranks: dict[str, int] = {}
    for rank, hit in enumerate(hits, 1):
        document = hit if isinstance(hit, str) else hit["_id"]
        if ranks.setdefault(document, rank) != rank:
            raise BadInput(
                f"the list of {name} has '{document}' at ranks {ranks[document]} and {rank}: "
                "send each document once"
            )
    return ranks
