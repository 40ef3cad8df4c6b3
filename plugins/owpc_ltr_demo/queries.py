"""The demo's queries, their candidates and judgments.

The search is for known items. The query is the summary of an object's docstring, which its document
does not contain; the relevant document is the object's (label 1). A module's synopsis has several:
the module itself (label 2) and its public members (label 1).

All rankers order the same candidates, the best documents of an untuned full-text query; the other
candidates have label 0. A relevant document that full-text search does not find is left out: added,
it would be the one that matches worst, which a model learns, and its figures would be too good.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.options import IN_FLIGHT
from owpc_ltr_demo.corpus import Document

POOL_SIZE = 50
"""Candidates of a query."""
FEWEST_WORDS, MOST_WORDS = 4, 30
FEWEST_MEMBERS, MOST_MEMBERS = 2, 30
"""A module with more members is too broad for a query."""

MODULE, OBJECT = "module", "object"
JUDGE = "authors"
"""Who judged: whoever wrote the docstrings."""


@dataclass(frozen=True)
class DemoQuery:
    """A query and its relevant documents with their labels; `kind` is `module` or `object`."""

    query_id: str
    text: str
    kind: str
    relevant: dict[str, int]

    def judged(self, doc_ids: Iterable[str]) -> JudgedQuery:
        """The query with the labels of these documents."""
        names = list(doc_ids)
        grades = np.array([self.relevant.get(name, 0) for name in names], np.float32)
        params = {"keywords": self.text, "query": self.text}
        return JudgedQuery(self.query_id, params, names, grades, judged_by=[JUDGE] * len(names))


@dataclass(frozen=True)
class CandidatePool:
    """The candidates of one query, sorted by id so that the order is independent of relevance."""

    query: DemoQuery
    doc_ids: tuple[str, ...]

    @property
    def recall(self) -> float:
        """The share of the relevant documents that are among the candidates."""
        return len(self.query.relevant.keys() & set(self.doc_ids)) / len(self.query.relevant)


def make_queries(documents: Sequence[Document], size: int) -> tuple[DemoQuery, ...]:
    """`size` queries in the order of their hashes: every module's, and a sample of the objects'.

    The same Python gives the same queries. Left out are summaries that several objects share, that
    are very short or long, or that occur elsewhere in their own document.
    """
    shared = Counter(_normal(document.summary) for document in documents)
    members: dict[str, list[str]] = {}
    for document in documents:
        members.setdefault(document.id.rpartition(".")[0], []).append(document.id)
    queries = [
        _demo_query(document, members.get(document.id, []))
        for document in documents
        if shared[_normal(document.summary)] == 1 and _is_question(document)
    ]
    eligible = [query for query in queries if len(query.relevant) <= MOST_MEMBERS + 1]
    ordered = sorted(eligible, key=lambda query: (query.kind != MODULE, _draw(query)))
    return tuple(sorted(ordered[:size], key=_draw))


def pool_query(text: str) -> dict[str, Any]:
    """The full-text query that finds candidates; its sum of fields has a high recall."""
    names = ["name_words.spelled_out", "name_words.abbreviated", "name.trigrams^0.5"]
    fields = ["text", "parents", *names]
    return {"multi_match": {"query": text, "fields": fields, "type": "most_fields"}}


def candidates_of(engine: Engine, index: str, query: DemoQuery) -> CandidatePool:
    """The best documents of the full-text query.

    Raises Incomplete where the engine answers for a part of the index.
    """
    body = {"query": pool_query(query.text), "size": POOL_SIZE, "_source": False}
    hits = search_index(engine, index, body).hits
    return CandidatePool(query, tuple(sorted(hit["_id"] for hit in hits)))


def candidate_pools(
    engine: Engine,
    index: str,
    queries: Sequence[DemoQuery],
    progress: Callable[[str, float | None], None],
) -> tuple[CandidatePool, ...]:
    """The candidates of each query, by several searches at a time."""
    pools: list[CandidatePool] = []
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        for pool in threads.map(lambda query: candidates_of(engine, index, query), queries):
            pools.append(pool)
            progress(f"{len(pools)} of {len(queries)} queries", len(pools) / len(queries))
    return tuple(pools)


def candidate_recall(pools: Sequence[CandidatePool]) -> float:
    """The mean share of a query's relevant documents that full-text search found."""
    return sum(pool.recall for pool in pools) / len(pools)


def _demo_query(document: Document, members: list[str]) -> DemoQuery:
    if document.kind == "module" and len(members) >= FEWEST_MEMBERS:
        relevant = dict.fromkeys(members, 1) | {document.id: 2}
        return DemoQuery(f"{MODULE}:{document.id}", document.summary, MODULE, relevant)
    return DemoQuery(f"{OBJECT}:{document.id}", document.summary, OBJECT, {document.id: 1})


def _is_question(document: Document) -> bool:
    summary = _normal(document.summary)
    if not FEWEST_WORDS <= len(summary.split()) <= MOST_WORDS:
        return False
    texts = (value for value in document.content.values() if isinstance(value, str))
    return not any(summary in _normal(text) for text in texts)


def _normal(text: str) -> str:
    """Lower-case words without punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _draw(query: DemoQuery) -> bytes:
    return hashlib.sha256(f"demo\0{query.query_id}".encode()).digest()


def judgments_of(pools: Iterable[CandidatePool]) -> Judgments:
    """The candidates with their labels, as judgments."""
    return Judgments([pool.query.judged(pool.doc_ids) for pool in pools])
