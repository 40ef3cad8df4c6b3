"""Without the plugin, on a real node: every feature and every model, score by score."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores.feature_queries import check_clauses, count_clauses, named
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.engine.stores.store import Search
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.model_conversion import export_linear
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import LinearModel, Normaliser
from tests.engine.documents import KW, PARAMS, QUERIES, Docs, featureset_of, fill, hits_of, logged


@pytest.fixture(scope="module")
def engine(node_url: str) -> Iterator[Engine]:
    made = Engine(ConnectionSettings(node_url))
    yield made
    made.close()


@pytest.fixture(scope="module", params=[1, 3], ids=["one shard", "three shards"])
def docs(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Docs]:
    index = f"stores-{uuid.uuid4().hex[:8]}"
    yield fill(engine, index, request.param)
    engine.request("DELETE", f"/{index}")


@pytest.fixture
def free(engine: Engine) -> Iterator[PluginFreeStore]:
    name = uuid.uuid4().hex[:8]
    yield PluginFreeStore(engine, name)
    with contextlib.suppress(EngineRefusal):
        engine.request("DELETE", f"/owpc-ltr-store-{name}")


# --- features


def test_each_value_is_the_querys_own_score_bit_for_bit(docs: Docs, free: PluginFreeStore) -> None:
    featureset = featureset_of(QUERIES)
    values = logged(docs, free, featureset)
    text = str(PARAMS["keywords"])
    for column, (name, query) in enumerate(QUERIES.items()):
        rendered = _filled(query, {"{{keywords}}": text, "{{tag}}": PARAMS["tag"]})
        body = {"query": rendered, "size": 200, "_source": False, "track_total_hits": True}
        scores = {hit["_id"]: hit["_score"] for hit in hits_of(docs, Search(body))}
        expected = np.array([scores.get(d, np.nan) for d in docs.ids], dtype=np.float32)
        np.testing.assert_array_equal(values[:, column], expected, err_msg=name)
    matched = dict(zip(QUERIES, np.isfinite(values).sum(axis=0), strict=True))
    assert matched.pop("nothing") == 0
    assert min(matched.values()) > 0


def _filled(tree: Any, values: dict[str, str]) -> Any:
    """Plain replacement, an independent way to put parameters in."""
    if isinstance(tree, dict):
        return {key: _filled(value, values) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_filled(part, values) for part in tree]
    for tag, value in values.items():
        tree = tree.replace(tag, value) if isinstance(tree, str) else tree
    return tree


def test_documents_that_are_not_there_are_not_found(docs: Docs, free: PluginFreeStore) -> None:
    search = free.log_search(featureset_of(QUERIES), PARAMS, ["3", "nosuch"])
    assert [hit["_id"] for hit in hits_of(docs, search)] == ["3"]


def test_a_document_that_matches_nothing_has_no_value_at_all(
    docs: Docs, free: PluginFreeStore
) -> None:
    featureset = featureset_of({"nothing": QUERIES["nothing"], "zero": QUERIES["zero"]})
    values = logged(docs, free, featureset)
    assert np.isnan(values[:, 0]).all()
    assert set(values[~np.isnan(values[:, 1]), 1]) == {0.0}


def test_derived_features_are_computed_from_the_others(docs: Docs, free: PluginFreeStore) -> None:
    derived = Feature("derived", (), "match * 2 + ln(1 + popularity)", "derived_expression")
    plain = featureset_of({name: QUERIES[name] for name in ("match", "popularity")})
    values = logged(docs, free, FeatureSet("fs", (*plain.features, derived)))
    first = np.nan_to_num(values[:, :2]).astype(np.float64)
    np.testing.assert_array_equal(
        values[:, 2], (first[:, 0] * 2 + np.log(1 + first[:, 1])).astype(np.float32)
    )


@pytest.mark.parametrize(
    "hit",
    [
        {"_id": "1", "matched_queries": ["match"]},
        {"_id": "1", "matched_queries": {"match": 1.0, "foreign": 2.0}},
    ],
)
def test_an_answer_with_other_names_or_without_scores_is_refused(hit: dict[str, Any]) -> None:
    store = PluginFreeStore(Engine(ConnectionSettings("http://127.0.0.1:1")))
    with pytest.raises(Refused):
        store.features_of(featureset_of({"match": QUERIES["match"]}), hit)


def test_too_many_leaves_are_refused_before_the_engine_does() -> None:
    wide = {"multi_match": {"query": "a", "fields": [f"f{i}" for i in range(100)]}}
    ten, eleven = (count_clauses([named(wide, str(i)) for i in range(n)]) for n in (10, 11))
    check_clauses(ten, 1024, "fs")
    check_clauses(eleven, None, "fs")
    with pytest.raises(Refused, match="1100 clauses"):
        check_clauses(eleven, 1024, "fs")


# --- linear models


def linear(rng: np.random.Generator, names: list[str], *, normalised: bool) -> LinearModel:
    weights = rng.normal(size=len(names))
    weights[::5] = 0.0
    normalisers = {
        name: Normaliser("standard" if i % 2 else "min_max", float(i % 4), 1.5 + i)
        for i, name in enumerate(names)
        if i % 3 == 0
    }
    return LinearModel(tuple(names), weights, normalisers if normalised else {})


def rescored(docs: Docs, clauses: list[dict[str, Any]], size: int = 200) -> list[dict[str, Any]]:
    body = {"query": {"match_all": {}}, "size": size, "_source": False, "rescore": clauses}
    return hits_of(docs, Search(body))


@pytest.mark.parametrize("normalised", [False, True])
def test_the_rescorers_are_float32_sums_and_our_models_score(
    normalised: bool, docs: Docs, free: PluginFreeStore, rng: np.random.Generator
) -> None:
    featureset = featureset_of(QUERIES)
    features = logged(docs, free, featureset)
    model = linear(rng, list(QUERIES), normalised=normalised)
    clauses = free.rescore(export_linear(model, featureset, "m"), PARAMS, 200)
    scores = {hit["_id"]: np.float32(hit["_score"]) for hit in rescored(docs, clauses)}
    engines = np.array([scores[document] for document in docs.ids])

    weights, intercept = model.folded()
    total = np.full(200, intercept)
    for column, weight in enumerate(weights):
        total += np.float32(weight) * np.nan_to_num(features[:, column]).astype(np.float64)
    size = np.abs(weights * np.nan_to_num(features)).sum(axis=1) + abs(intercept)
    # A term, the sum of a rescorer, and the sum of rescorers are each rounded once.
    assert len(clauses) <= 4
    assert (np.abs(engines - total) <= 6 * 2.0**-24 * size).all()
    ours = model.score(features)
    assert np.max(np.abs(engines - ours) / np.maximum(1, np.abs(ours))) < 1e-5


def test_hits_come_in_the_models_order_also_below_zero_and_over_shards(
    docs: Docs, free: PluginFreeStore, rng: np.random.Generator
) -> None:
    """A window of the size that is shown leaves no document with a score of the search itself."""
    featureset = featureset_of(QUERIES)
    weights = linear(rng, list(QUERIES), normalised=False).weights
    model = LinearModel(tuple(QUERIES), -np.abs(weights))
    stored = export_linear(model, featureset, "m")
    hits = rescored(docs, free.rescore(stored, PARAMS, 20), size=20)
    scores = [hit["_score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert max(scores) < 0
    # The liar: a window smaller than the size puts documents with 0 on top.
    outside = rescored(docs, free.rescore(stored, PARAMS, 5), size=50)
    assert outside[0]["_score"] == 0.0


def test_a_model_of_zeros_scores_zero(docs: Docs, free: PluginFreeStore) -> None:
    featureset = featureset_of({"match": QUERIES["match"]})
    model = export_linear(LinearModel(("match",), np.zeros(1)), featureset, "m")
    hits = rescored(docs, free.rescore(model, PARAMS, 200))
    assert {hit["_score"] for hit in hits} == {0.0}


def test_what_only_the_plugin_runs_is_refused_by_name(free: PluginFreeStore) -> None:
    featureset = featureset_of({"match": QUERIES["match"]})
    trees = StoredModel("trees", "model/xgboost+json", [], featureset)
    with pytest.raises(Refused, match="model/xgboost"):
        free.rescore(trees, PARAMS, 10)
    with pytest.raises(Refused, match="model/xgboost"):
        free.put_model(trees)
    derived = Feature("d", (), "match * 2", "derived_expression")
    both = FeatureSet("fs", (*featureset.features, derived))
    model = export_linear(LinearModel(("match", "d"), np.array([1.0, 2.0])), both, "m")
    with pytest.raises(Refused, match="'d'"):
        free.rescore(model, PARAMS, 10)
    unweighted = export_linear(LinearModel(("match", "d"), np.array([1.0, 0.0])), both, "m")
    assert len(free.rescore(unweighted, PARAMS, 10)) == 1


@pytest.mark.parametrize("window", [0, -1, 10_001])
def test_a_window_that_no_engine_takes_is_refused(window: int, free: PluginFreeStore) -> None:
    featureset = featureset_of({"match": QUERIES["match"]})
    model = export_linear(LinearModel(("match",), np.ones(1)), featureset, "m")
    for store in (free, LtrPluginStore(Engine(ConnectionSettings("http://127.0.0.1:1")))):
        with pytest.raises(UsageError, match=str(window)):
            store.rescore(model, PARAMS, window)


@pytest.mark.parametrize("params", [{}, {"keywords": "a"}, {"tag": "x"}])
def test_a_missing_parameter_is_named_before_anything_is_sent(
    params: dict[str, Any], free: PluginFreeStore
) -> None:
    featureset = featureset_of(QUERIES)
    model = export_linear(LinearModel(tuple(QUERIES), np.ones(len(QUERIES))), featureset, "m")
    for store in (free, LtrPluginStore(Engine(ConnectionSettings("http://127.0.0.1:1")))):
        with pytest.raises(BadInput):
            store.log_search(featureset, params, ["1"])
        with pytest.raises(BadInput):
            store.rescore(model, params, 10)


# --- trying templates


def test_a_template_that_fails_is_named_and_nothing_is_stored(
    docs: Docs, free: PluginFreeStore
) -> None:
    good = featureset_of({"match": QUERIES["match"]}, index=docs.index)
    free.put_featureset(good)
    broken: list[tuple[Any, str]] = [
        ({"no_such_query": {"title": KW}}, "no_such_query"),
        ({"match": {"title": {"query": KW, "fuzzines": 1}}}, "fuzzines"),
        (
            {"script_score": {"query": {"match_all": {}}, "script": {"source": "_score - 5"}}},
            "negative",
        ),
        ({"script_score": {"query": {"match_all": {}}, "script": {"source": "x("}}}, "mend"),
    ]
    for template, words in broken:
        bad = featureset_of({"match": QUERIES["match"], "bad": template}, "other", docs.index)
        with pytest.raises(Refused) as error:
            free.put_featureset(bad)
        assert "'bad'" in str(error.value)
        assert words in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(Refused, match="nosuchindex"):
        free.put_featureset(featureset_of({"m": QUERIES["match"]}, "other", "nosuchindex"))
    assert free.list_featuresets() == ["fs"]
