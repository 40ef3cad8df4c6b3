"""A linear model's rescorers: each query asked once, and the same sum as feature by feature."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores import plugin_free
from owpc_ltr.engine.stores.feature_queries import (
    compile_featureset,
    count_clauses,
    linear_rescorers,
)
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.score_kinds import scoring
from owpc_ltr.formats.model_conversion import export_linear
from owpc_ltr.models.linear import LinearModel

ASKED: list[dict[str, Any]] = [
    {"match": {"title": "a b"}},
    {"match": {"body": "a b"}},
    {"constant_score": {"filter": {"term": {"tag": "a"}}}},
]
WEIGHTS = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.25, 2.0])


def rescorers_of(pairs: list[tuple[int, float]]) -> list[dict[str, Any]]:
    """The rescorers of a model whose features ask the queries of these numbers."""
    names = tuple(f"f{place}" for place in range(len(pairs)))
    model = LinearModel(names, np.array([weight for _, weight in pairs]))
    queries = {name: ASKED[asked] for name, (asked, _) in zip(names, pairs, strict=True)}
    return [clause["query"] for clause in linear_rescorers(model, queries, 10)]


@given(st.lists(st.tuples(st.sampled_from(range(3)), WEIGHTS), min_size=1, max_size=8))
def test_every_query_is_asked_once_with_all_its_weight(pairs: list[tuple[int, float]]) -> None:
    clauses = rescorers_of(pairs)
    wanted: dict[str, float] = defaultdict(float)
    for asked, weight in pairs:
        wanted[json.dumps(scoring(ASKED[asked]))] += weight
    assert [c["query_weight"] for c in clauses] == [0.0, *[1.0] * (len(clauses) - 1)]
    left = {query: weight for query, weight in wanted.items() if weight}
    if not left:
        (clause,) = clauses
        assert clause["rescore_query"] == {"match_all": {}}
        assert clause["rescore_query_weight"] == 0.0
        return
    found = terms_of(clauses)
    assert len(dict(found)) == len(found)
    assert dict(found) == left
    assert len(clauses) == len({weight > 0 for weight in left.values()})


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_few_clauses_are_asked_together_and_a_query_that_has_many_alone(sizes: list[int]) -> None:
    names = tuple(f"f{place}" for place in range(len(sizes)))
    fields = [[f"{name}-{n}" for n in range(size)] for name, size in zip(names, sizes, strict=True)]
    queries = {
        name: {"multi_match": {"query": "a", "fields": own}}
        for name, own in zip(names, fields, strict=True)
    }
    clauses = linear_rescorers(LinearModel(names, np.ones(len(names))), queries, 10)
    groups = [clause["query"]["rescore_query"]["bool"]["should"] for clause in clauses]
    asked = [part["function_score"]["query"] for group in groups for part in group]
    assert asked == list(queries.values())
    counted = [count_clauses([part["function_score"]["query"] for part in g]) for g in groups]
    assert all(len(group) == 1 or count <= 32 for group, count in zip(groups, counted, strict=True))
    # No two that follow each other would have had room together.
    firsts = [count_clauses([group[0]["function_score"]["query"]]) for group in groups[1:]]
    assert all(count + first > 32 for count, first in zip(counted, firsts, strict=False))


def terms_of(clauses: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Each query of the rescorers with its weight, signed."""
    return [
        (json.dumps(part["query"]), clause["rescore_query_weight"] * part["weight"])
        for clause in clauses
        for part in (one["function_score"] for one in clause["rescore_query"]["bool"]["should"])
    ]


def test_a_model_asks_for_its_own_features_whichever_was_asked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is kept ready of one model serves no other of the same set, and is made ready once."""
    made = []

    def counted(*given: Any) -> Any:
        made.append(given)
        return compile_featureset(*given)

    monkeypatch.setattr(plugin_free, "compile_featureset", counted)
    features = tuple(
        Feature(name, ("keywords",), {"match": {name: "{{keywords}}"}}) for name in ("a", "b")
    )
    featureset = FeatureSet("two", features)
    store = PluginFreeStore(Engine(ConnectionSettings("http://127.0.0.1:1")))
    for _ in range(2):
        for weights, asked in (([1.0, 0.0], {"a"}), ([0.0, 2.0], {"b"}), ([1.0, 2.0], {"a", "b"})):
            model = LinearModel(featureset.feature_names, np.array(weights))
            stored = export_linear(model, featureset, "m")
            for words in ("one", "another"):
                clauses = store.rescore(stored, {"keywords": words}, 10)
                told = json.dumps(clauses)
                assert {name for name in "ab" if f'"{name}": "{words}"' in told} == asked
    assert len(made) == 3
