"""Feature values on a real engine: bounds, missing values, and features of vectors."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.features.feature_set import DERIVED, SCRIPT, Feature
from owpc_ltr.features.query_analysis import always_matches, highest_value, never_negative
from tests.engine.documents import QUERIES, featureset_of, fill
from tests.engine.documents import logged as logged_of
from tests.engine.vector_workflow import (
    DIMENSIONS,
    Workflow,
    check_cosines,
    check_serving,
    check_values,
    featureset_of_page,
    vector_workflow,
)

FACTOR = {"field": "rank", "factor": 100}
BOUNDED: dict[str, tuple[Any, float]] = {
    "all": ({"match_all": {"boost": 1.5}}, 1.5),
    "constant": ({"constant_score": {"filter": {"match": {"title": "alpha"}}, "boost": 2.5}}, 2.5),
    "exists": ({"exists": {"field": "tag"}}, 1),
    "ids": ({"ids": {"values": ["d1", "d2"], "boost": 3}}, 3),
    "terms": ({"terms": {"tag": ["x", "y"], "boost": 0.5}}, 0.5),
    "range": ({"range": {"rank": {"gte": 3, "boost": 1.25}}}, 1.25),
    "prefix": ({"prefix": {"tag": {"value": "x", "boost": 4}}}, 4),
    "wildcard": ({"wildcard": {"tag": "*"}}, 1),
    "regexp": ({"regexp": {"tag": {"value": "[xy]"}}}, 1),
    "saturation": ({"rank_feature": {"field": "signal", "boost": 2}}, 2),
    "sigmoid": (
        {"rank_feature": {"field": "signal", "sigmoid": {"pivot": 2, "exponent": 0.6}}}, 1,
    ),
    "near": ({"distance_feature": {"field": "day", "pivot": "7d", "origin": "2020-01-05"}}, 1),
    "decay": (
        {"function_score": {"gauss": {"rank": {"origin": 20, "scale": 5}},
                            "boost_mode": "replace"}}, 1,
    ),
    "decays": (
        {"function_score": {"query": {"exists": {"field": "rank"}}, "boost_mode": "replace",
                            "functions": [{"exp": {"rank": {"origin": 20, "scale": 5}}},
                                          {"linear": {"rank": {"origin": 20, "scale": 9}}}]}}, 1,
    ),
    "capped": (
        {"function_score": {"field_value_factor": FACTOR, "max_boost": 42,
                            "boost_mode": "replace"}}, 42,
    ),
}  # fmt: skip
"""Templates and the numbers that their values reach, or come near to, and never exceed."""
UNBOUNDED: dict[str, Any] = {
    "text": {"match": {"title": "alpha"}},
    "term": {"term": {"tag": "x"}},
    "rewritten": {"prefix": {"tag": {"value": "x", "rewrite": "top_terms_10"}}},
    "two keys": {"range": {"rank": {"gte": 1}, "boost": 5}},
    "log": {"rank_feature": {"field": "signal", "log": {"scaling_factor": 4}}},
    "linear": {"rank_feature": {"field": "signal", "linear": {}}},
    "factor": {"function_score": {"field_value_factor": FACTOR, "boost_mode": "replace"}},
    "multiplied": {"function_score": {"field_value_factor": FACTOR, "max_boost": 42}},
    "decays in sum": {
        "function_score": {
            "functions": [{"exp": {"rank": {"origin": 20, "scale": 5}}}] * 2,
            "score_mode": "sum",
            "boost_mode": "replace",
        }
    },
    "a weighted decay": {
        "function_score": {
            "functions": [{"exp": {"rank": {"origin": 20, "scale": 5}}, "weight": 3}],
            "boost_mode": "replace",
        }
    },
    "no functions": {"function_score": {"boost_mode": "replace", "weight": 7}},
    "boosted": {
        "function_score": {"max_boost": 42, "boost_mode": "replace", "weight": 9, "boost": 2}
    },
    "a parameter": {"match_all": {"boost": "{{boost}}"}},
    "a negative boost": {"match_all": {"boost": -1}},
    "text as template": '{"match_all": {}}',
    "two queries": {"match_all": {}, "exists": {"field": "tag"}},
}
ALWAYS: dict[str, Any] = {
    "all": {"match_all": {}},
    "constant": {"constant_score": {"filter": {"match_all": {}}}},
    "function": {"function_score": {"field_value_factor": FACTOR, "boost_mode": "replace"}},
    "of all": {"function_score": {"query": {"match_all": {}}, "field_value_factor": FACTOR}},
    "filtered function": {
        "function_score": {"functions": [{"filter": {"term": {"tag": "x"}}, "weight": 3}]}
    },
    "script": {
        "script_score": {"query": {"match_all": {}}, "script": {"source": "doc['rank'].value"}}
    },
}
SOMETIMES: dict[str, Any] = {
    "text": {"match": {"title": "alpha"}},
    "exists": {"exists": {"field": "signal"}},
    "of some": {"function_score": {"query": {"term": {"tag": "x"}}, "field_value_factor": FACTOR}},
    "too low": {"function_score": {"field_value_factor": FACTOR, "min_score": 500}},
    "script of some": {
        "script_score": {"query": {"term": {"tag": "x"}}, "script": {"source": "1"}}
    },
}


@pytest.fixture(scope="module")
def index(node_url: str) -> Iterator[tuple[Engine, str]]:
    engine, name = Engine(ConnectionSettings(node_url)), f"kinds-{uuid.uuid4().hex[:8]}"
    kinds = {"title": "text", "tag": "keyword", "rank": "integer", "signal": "rank_feature",
             "day": "date"}  # fmt: skip
    try:
        engine.request("PUT", f"/{name}", body=mappings_of(kinds))
    except EngineRefusal as lacking:
        # As a number the others are asked all the same; what needs it is refused by name.
        if "The mapper type [rank_feature]" not in str(lacking):
            raise
        engine.request("PUT", f"/{name}", body=mappings_of({**kinds, "signal": "float"}))
    lines: list[Any] = []
    for number in range(40):
        document = {
            "title": "alpha beta" if number % 3 else "gamma",
            "tag": "xyz"[number % 3],
            "rank": number,
            "day": f"2020-01-{1 + number % 28:02d}",
            **({"signal": 10.0 ** (number % 6)} if number % 2 else {}),
        }
        lines += [{"index": {"_id": f"d{number}"}}, document]
    engine.request("POST", f"/{name}/_bulk", ndjson=lines, params={"refresh": "true"})
    yield engine, name
    engine.request("DELETE", f"/{name}")
    engine.close()


def mappings_of(kinds: dict[str, str]) -> dict[str, Any]:
    """The body that makes an index with fields of these kinds."""
    return {"mappings": {"properties": {field: {"type": kind} for field, kind in kinds.items()}}}


def values(index: tuple[Engine, str], template: Any) -> Any:
    """The values of one feature on every document."""
    engine, name = index
    probe = {"params": {}, "document_ids": [f"d{number}" for number in range(40)]}
    features = featureset_of({"one": template})
    return PluginFreeStore(engine).logged(features, name, probe)[1][:, 0]


@pytest.mark.parametrize("kind", BOUNDED)
def test_no_value_is_above_the_highest_and_one_comes_near_it(
    kind: str, index: tuple[Engine, str]
) -> None:
    template, wanted = BOUNDED[kind]
    assert highest_value(Feature("f", (), template)) == wanted
    logged_values = values(index, template)
    assert 0.99 * wanted <= np.nanmax(logged_values) <= wanted * (1 + 1e-6)


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_of_all_else_no_highest_value_is_claimed(kind: str) -> None:
    assert highest_value(Feature("f", (), UNBOUNDED[kind])) == math.inf


@pytest.mark.parametrize("kind", [*ALWAYS, *SOMETIMES])
def test_what_always_matches_is_never_missing_and_what_does_not_is_somewhere(
    kind: str, index: tuple[Engine, str]
) -> None:
    for table, always in ((ALWAYS, True), (SOMETIMES, False)):
        if kind in table:
            assert always_matches(Feature("f", (), table[kind])) is always
            assert np.isnan(values(index, table[kind])).any() != always


@pytest.mark.parametrize("language", [DERIVED, SCRIPT])
def test_nothing_is_claimed_of_what_is_computed(language: str) -> None:
    feature = Feature("f", (), "a - b", language)
    assert not always_matches(feature)
    assert not never_negative(feature)
    assert highest_value(feature) == math.inf


def test_what_is_claimed_holds_for_every_kind_of_query(node_url: str) -> None:
    engine, name = Engine(ConnectionSettings(node_url)), f"kinds-{uuid.uuid4().hex[:8]}"
    features = featureset_of(QUERIES)
    matrix = logged_of(fill(engine, name, 2), PluginFreeStore(engine), features)
    engine.request("DELETE", f"/{name}")
    engine.close()
    assert len(features.features) == matrix.shape[1] > 20
    for feature, column in zip(features.features, matrix.T, strict=True):
        assert never_negative(feature)
        assert np.nanmin(column, initial=0) >= 0
        assert np.nanmax(column, initial=0) <= highest_value(feature), feature.name
        assert not (always_matches(feature) and np.isnan(column).any()), feature.name


@pytest.fixture(scope="module")
def workflow(node_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workflow]:
    engine = Engine(ConnectionSettings(node_url))
    fields = {f"v{number}": {"type": "float"} for number in range(DIMENSIONS)}
    featureset = featureset_of_page("products.json")
    folder: Path = tmp_path_factory.mktemp("vectors")
    with vector_workflow(engine, uuid.uuid4().hex[:8], featureset, fields, folder) as made:
        yield made
    engine.close()


def test_every_value_is_its_querys_own_and_the_cosine(workflow: Workflow) -> None:
    missing = check_values(workflow)
    assert missing["cosine"] > 0
    check_cosines(workflow, 1, scale=1.0)


def test_a_model_of_them_serves_as_it_was_trained(workflow: Workflow) -> None:
    check_serving(workflow)
