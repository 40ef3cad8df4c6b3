"""Rankers and judged queries to compare: models, a feature, and runs with unjudged documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Vector
from owpc_ltr.engine.live_results.rankers import LiveRanker, QuerySearch
from owpc_ltr.engine.search.client_scoring import Serve
from owpc_ltr.models.linear import LinearModel

QUERIES, DOCUMENTS = 40, 8
NAMES = ("bm25", "likes")
UNTRAINED = {"source": {"queries": {"train": {"ids": ""}}}}
"""The record of a model that has seen no query: a comparison on any queries is fair."""


def judged(weights: Vector | None = None, seed: int = 5) -> RankingDataset:
    """Queries whose first feature tells more of the labels than the second."""
    rng = np.random.default_rng(seed)
    rows = QUERIES * DOCUMENTS
    labels = rng.integers(0, 3, rows)
    noise = rng.normal(size=(rows, 2))
    ids = [f"q{n}" for n in range(QUERIES)]
    return make_dataset(
        noise * [0.8, 2.0] + labels[:, None],
        labels,
        np.repeat(ids, DOCUMENTS),
        NAMES,
        doc_ids=[f"d{n}" for n in range(rows)],
        query_weights=weights,
        query_params=pa.array(
            [json.dumps({"keywords": f"words of {query_id}"}) for query_id in ids]
        ),
    )


def linear(bm25: float, likes: float, **record: object) -> LinearModel:
    return LinearModel(NAMES, np.array([bm25, likes]), record={**UNTRAINED, **record})


def live_ranker(serve: Serve, index: str = "small") -> LiveRanker:
    """A query alone that serves so."""
    search = QuerySearch(index, {}, {})
    return LiveRanker(serve, None, search, search.configuration("the query alone"))


def write_run(
    data: RankingDataset, scores: Vector, path: Path, unjudged: int = 0, seed: int = 1
) -> None:
    """A run of the judged documents, and of so many others a query, at places that are drawn."""
    rng = np.random.default_rng(seed)
    lines = []
    for query in range(data.n_queries):
        name = data.query_ids[query].as_py()
        rows = range(int(data.offsets[query]), int(data.offsets[query + 1]))
        own = [(float(scores[row]), data.doc_ids[row].as_py()) for row in rows]  # type: ignore[index]
        own += [(float(rng.normal(1.5)), f"x{query}-{n}") for n in range(unjudged)]
        for rank, (score, document) in enumerate(sorted(own, reverse=True), 1):
            lines.append(f"{name} Q0 {document} {rank} {score!r} test")
    path.write_text("\n".join(lines) + "\n")
