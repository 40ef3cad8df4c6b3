"""Pools: the documents to judge next, which are those that rankers bring to the top.

Judged are then the lists that users get, by whichever ranker (Spärck Jones & van Rijsbergen 1975).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import search_hits
from owpc_ltr.engine.defaults import DEFAULT_WINDOW
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, serve_all
from owpc_ltr.plain_text import wrapped_text

_BATCH = 500
Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Pooled:
    """Queries with their documents to judge, what is shown of these, and what was left out.

    `judged` documents have a grade already; `absent` ones (of runs) are not in the index. `sheet`
    is the file that they were written to.
    """

    queries: tuple[JudgedQuery, ...]
    shown: Mapping[str, Mapping[str, Any]]
    judged: int
    absent: int
    sheet: str = ""

    @property
    def n_documents(self) -> int:
        """How many pairs of query and document there are to judge."""
        return sum(len(query.document_ids) for query in self.queries)

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "sheet": self.sheet,
            "queries": len(self.queries),
            "documents": self.n_documents,
            "already_judged": self.judged,
            "absent": self.absent,
        }

    def __str__(self) -> str:
        return wrapped_text(
            f"{self.n_documents:,} documents of {len(self.queries):,} queries to grade; "
            f"{self.judged:,} left out that are judged already, {self.absent:,} that are not in "
            "the index"
        )

    def _repr_html_(self) -> str:
        """The counts."""
        from owpc_ltr.data.html import block, line

        return block("Documents to grade", line(str(self)))


@dataclass(frozen=True)
class PoolPlan:
    """Which rankers are asked how deep, and what of a document is shown.

    A way to serve comes with the query that it ranks; `runs` are lists that were made elsewhere.
    """

    index: str
    ways: Sequence[tuple[Serve, dict[str, Any]]]
    runs: Sequence[Mapping[str, Sequence[str]]] = ()
    depth: int = 20
    window: int = DEFAULT_WINDOW
    fields: Sequence[str] = ()
    seed: int = 0
    in_flight: int = 4


def pool(
    engine: Engine,
    plan: PoolPlan,
    queries: Sequence[JudgedQuery],
    judged: Mapping[str, frozenset[str]],
    progress: Progress | None = None,
) -> Pooled:
    """The first `depth` documents of every ranker, each once, without those judged already.

    Their order is drawn by the seed, and depends on nothing that a ranker said.
    """
    found = _brought(plan, queries, progress)
    left = [found[q.query_id] - judged.get(q.query_id, frozenset()) for q in queries]
    wanted = sorted(set[str]().union(*left))
    shown = _documents(engine, plan, wanted)
    pooled = [
        replace(query, document_ids=ids, grades=np.zeros(len(ids), np.float32), weights=None)
        for query, rest in zip(queries, left, strict=True)
        if (ids := _drawn(plan.seed, query.query_id, rest & shown.keys()))
    ]
    before, open_ones = sum(map(len, found.values())), sum(map(len, left))
    kept = sum(len(query.document_ids) for query in pooled)
    return Pooled(tuple(pooled), shown, before - open_ones, open_ones - kept)


def _brought(
    plan: PoolPlan, queries: Sequence[JudgedQuery], progress: Progress | None
) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {query.query_id: set() for query in queries}
    window = max(plan.window, plan.depth)
    for number, (serve, template) in enumerate(plan.ways, 1):
        shared = SearchRequest(plan.index, template, {}, plan.depth, window)
        requests = [
            replace(shared, params=dict(query.params), query_id=query.query_id) for query in queries
        ]

        def show(message: str, done: float | None, at: int = number) -> None:
            if progress is not None:
                progress(f"ranker {at} of {len(plan.ways)}: {message}", done)

        (answers,) = serve_all((serve,), requests, plan.in_flight, show)
        for query, answer in zip(queries, answers, strict=True):
            found[query.query_id] |= set(answer.document_ids[: plan.depth])
    for run in plan.runs:
        for query in queries:
            found[query.query_id] |= set(run.get(query.query_id, ())[: plan.depth])
    return found


def _documents(engine: Engine, plan: PoolPlan, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """What is shown of each document that is in the index."""
    shown: dict[str, Mapping[str, Any]] = {}
    for first in range(0, len(ids), _BATCH):
        batch = list(ids[first : first + _BATCH])
        body = {
            "query": {"ids": {"values": batch}},
            "size": len(batch),
            "_source": list(plan.fields) or False,
        }
        answer = engine.request(
            "POST",
            f"/{plan.index}/_search",
            params={"allow_partial_search_results": "false"},
            body=body,
        )
        for hit in search_hits(answer, "the documents to judge", body):
            shown[str(hit["_id"])] = hit.get("_source") or {}
    return shown


def _drawn(seed: int, query_id: str, documents: set[str]) -> list[str]:
    """The documents in an order that the seed draws, the same whatever else is in the pool."""

    def draw(document: str) -> bytes:
        return hashlib.blake2b(f"{seed}\0{query_id}\0{document}".encode(), digest_size=8).digest()

    return sorted(documents, key=draw)
