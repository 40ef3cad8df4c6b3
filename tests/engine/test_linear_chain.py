"""A linear model's rescorers: each query asked once, and the same sum as feature by feature."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.store.named_queries import linear_chain
from owpc_ltr.features.scoring import scoring
from owpc_ltr.models.linear import LinearModel

ASKED: list[dict[str, Any]] = [
    {"match": {"title": "a b"}},
    {"match": {"body": "a b"}},
    {"constant_score": {"filter": {"term": {"tag": "a"}}}},
]
WEIGHTS = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.25, 2.0])


def chain_of(pairs: list[tuple[int, float]]) -> list[dict[str, Any]]:
    """The chain of a model whose features ask the queries of these numbers."""
    names = tuple(f"f{place}" for place in range(len(pairs)))
    model = LinearModel(names, np.array([weight for _, weight in pairs]))
    queries = {name: ASKED[asked] for name, (asked, _) in zip(names, pairs, strict=True)}
    return [clause["query"] for clause in linear_chain(model, queries, 10)]


@given(st.lists(st.tuples(st.sampled_from(range(3)), WEIGHTS), min_size=1, max_size=8))
def test_every_query_is_asked_once_with_all_its_weight(pairs: list[tuple[int, float]]) -> None:
    clauses = chain_of(pairs)
    wanted: dict[str, float] = defaultdict(float)
    for asked, weight in pairs:
        wanted[json.dumps(scoring(ASKED[asked]))] += weight
    found = {json.dumps(c["rescore_query"]): c["rescore_query_weight"] for c in clauses}
    assert len(found) == len(clauses)
    assert [c["query_weight"] for c in clauses] == [0.0, *[1.0] * (len(clauses) - 1)]
    left = {query: weight for query, weight in wanted.items() if weight}
    assert found == (left or {json.dumps({"match_all": {}}): 0.0})
