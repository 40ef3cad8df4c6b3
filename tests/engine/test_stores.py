"""Both kinds of stores keep the same promises, and the cluster in memory answers like a node."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores import Absent, Store, choose_store, keep_featureset
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.ltr_plugin import export_linear, import_linear
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import LinearModel, Normaliser
from tests.engine.documents import QUERIES, featureset_of
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.memory_engine import whole

# --- the contract, of both stores


@pytest.fixture(params=["plugin-free", "ltr-plugin"])
def store(request: pytest.FixtureRequest, node_for: Callable[[str], str]) -> Iterator[Store]:
    if request.param == "plugin-free":
        free: PluginFreeStore = request.getfixturevalue("free")
        free.prepare()
        yield free
        return
    engine, name = Engine(ConnectionSettings(node_for("ltr-plugin"))), uuid.uuid4().hex[:8]
    plugin = LtrPluginStore(engine, name)
    plugin.prepare()
    yield plugin
    engine.request("DELETE", f"/_ltr/{name}")
    engine.close()


@pytest.fixture
def small() -> FeatureSet:
    return featureset_of({"match": QUERIES["match"], "popularity": QUERIES["popularity"]})


def model_of(featureset: FeatureSet, name: str, *weights: float) -> StoredModel:
    normalisers = {"popularity": Normaliser("standard", 2.0, 0.5)}
    model = LinearModel(featureset.feature_names, np.array(weights), normalisers)
    return export_linear(model, featureset, name)


def test_preparing_again_changes_nothing(store: Store, small: FeatureSet) -> None:
    store.put_featureset(small)
    store.prepare()
    assert store.list_featuresets() == ["fs"]


def test_feature_sets_come_back_as_they_were_put(store: Store, small: FeatureSet) -> None:
    assert store.list_featuresets() == []
    store.put_featureset(small)
    store.put_featureset(small)
    store.put_featureset(replace(small, name="another"))
    assert store.get_featureset("fs") == small
    assert store.get_featureset("fs").hash == small.hash
    assert store.list_featuresets() == ["another", "fs"]
    store.delete_featureset("fs")
    assert store.list_featuresets() == ["another"]
    for act in (store.get_featureset, store.delete_featureset):
        with pytest.raises(BadInput, match="'fs'"):
            act("fs")


def test_another_set_of_that_name_needs_a_word(store: Store, small: FeatureSet) -> None:
    store.put_featureset(small)
    other = FeatureSet("fs", small.features[:1])
    with pytest.raises(Refused, match="`replace`"):
        store.put_featureset(other)
    assert store.get_featureset("fs") == small
    store.put_featureset(other, replace=True)
    assert store.get_featureset("fs") == other
    store.put_featureset(replace(other, name="new"), replace=True)
    assert store.list_featuresets() == ["fs", "new"]


def test_models_come_back_as_they_were_put(store: Store, small: FeatureSet) -> None:
    store.put_featureset(small)
    model = model_of(small, "movies@1a2b", 0.25, -1.5)
    assert store.list_models() == []
    store.put_model(model)
    store.put_model(model)
    assert store.get_model("movies@1a2b") == model
    assert store.list_models() == ["movies@1a2b"]
    with pytest.raises(Refused, match="another model"):
        store.put_model(model_of(small, "movies@1a2b", 0.25, 1.5))
    assert store.get_model("movies@1a2b") == model
    store.delete_featureset("fs")
    assert store.get_model("movies@1a2b").featureset == small
    store.delete_model("movies@1a2b")
    for act in (store.get_model, store.delete_model):
        with pytest.raises(BadInput, match="'movies@1a2b'"):
            act("movies@1a2b")


def test_a_model_goes_with_the_set_it_was_trained_on(store: Store, small: FeatureSet) -> None:
    model = model_of(small, "m", 1.0, 2.0)
    with pytest.raises(BadInput, match="'fs'"):
        store.put_model(model)
    changed = (small.features[0], replace(small.features[1], template={"match_all": {}}))
    store.put_featureset(FeatureSet("fs", changed))
    with pytest.raises(Refused, match="'popularity' changed"):
        store.put_model(model)
    assert store.list_models() == []


@pytest.mark.parametrize("name", ["", "*", "a,b", "../x", "a b", "_all"])
def test_names_are_checked_in_every_method(name: str, store: Store, small: FeatureSet) -> None:
    for act in (
        lambda: store.get_featureset(name),
        lambda: store.delete_featureset(name),
        lambda: store.get_model(name),
        lambda: store.delete_model(name),
        lambda: store.put_featureset(replace(small, name=name)),
        lambda: store.put_model(model_of(small, name, 1.0, 2.0)),
    ):
        with pytest.raises(UsageError):
            act()


# --- the index of the plugin-free store


def test_an_index_of_somebody_else_is_left_alone(engine: Engine, small: FeatureSet) -> None:
    name = uuid.uuid4().hex[:8]
    engine.request("PUT", f"/owpc-ltr-store-{name}")
    with pytest.raises(Refused, match="not a store"):
        PluginFreeStore(engine, name).put_featureset(small)
    engine.request("DELETE", f"/owpc-ltr-store-{name}")


def test_a_cluster_without_the_plugin_gets_the_store_without_it(engine: Engine) -> None:
    if engine.identity().has_ltr:
        pytest.skip("this node has the plugin")
    assert choose_store(engine).kind == "plugin-free"
    with pytest.raises(UsageError, match="`store_kind='plugin-free'`"):
        choose_store(engine, "ltr-plugin")
    with pytest.raises(UsageError, match="solr"):
        choose_store(engine, "solr")


def test_of_two_writers_one_is_told(small: FeatureSet, fake: FakeEngine) -> None:
    """Between reading a set and writing over it, somebody else wrote."""
    store = PluginFreeStore(Engine(ConnectionSettings(fake.url)))
    fake.on("PUT", "/owpc-ltr-store", {"acknowledged": True})
    path = "/owpc-ltr-store/_doc/featureset-fs"
    fake.on("GET", path, {"_seq_no": 4, "_primary_term": 1, "_source": {"type": "other"}})
    conflict = {"error": {"type": "version_conflict_engine_exception", "reason": "conflict"}}
    fake.on("PUT", path, Reply(conflict, 409))
    with pytest.raises(Refused, match="another process changed the feature set 'fs'"):
        store.put_featureset(small, replace=True)
    (written,) = fake.asked("PUT", path)
    assert (written.params["if_seq_no"], written.params["if_primary_term"]) == ("4", "1")


def test_a_list_from_a_part_of_the_shards_is_no_list(fake: FakeEngine) -> None:
    store = PluginFreeStore(Engine(ConnectionSettings(fake.url)))
    for shards, error in (({"total": 2, "failed": 1}, Refused), (None, EngineUnavailable)):
        fake.on("POST", "/owpc-ltr-store/_search", {**whole([], 0), "_shards": shards})
        with pytest.raises(error):
            store.list_models()


# --- exporters


def test_what_is_exported_comes_back(small: FeatureSet, rng: np.random.Generator) -> None:
    normalisers = {
        "match": Normaliser("min_max", 0.5, 2.5),
        "popularity": Normaliser("min_max", -1.0, 0.1),
    }
    model = LinearModel(small.feature_names, rng.normal(size=2), normalisers)
    stored = export_linear(model, small, "m")
    assert stored.feature_normalizers["match"] == {"min_max": {"minimum": 0.5, "maximum": 3.0}}
    # The plugin takes no negative minimum; the same normaliser has another name too.
    assert "standard" in stored.feature_normalizers["popularity"]
    features = rng.normal(size=(50, 2)).astype(np.float32)
    np.testing.assert_allclose(import_linear(stored).score(features), model.score(features))


def test_a_model_of_other_features_is_not_exported(small: FeatureSet) -> None:
    with pytest.raises(BadInput, match="'fs'"):
        export_linear(LinearModel(("popularity", "match"), np.ones(2)), small, "m")


@pytest.mark.parametrize(
    "definition", ["not json", [1, 2], {"nosuch": 1.0}, {"match": "x"}, {"match": None}, 3]
)
def test_a_damaged_stored_model_is_told(definition: Any, small: FeatureSet) -> None:
    with pytest.raises(BadInput, match="'m'"):
        import_linear(StoredModel("m", "model/linear", definition, small))


def test_a_set_that_was_not_written_is_the_engine_s_fault_and_not_a_name_s(
    small: FeatureSet,
) -> None:
    class Empty:
        def get_featureset(self, name: str) -> FeatureSet:
            raise Absent("feature set", name, "the store")

    def not_now() -> None:
        raise EngineUnavailable("the engine does not let us in")

    with pytest.raises(EngineUnavailable, match="let us in"):
        keep_featureset(cast("Store", Empty()), small, not_now)


Step = tuple[str, str, dict[str, Any]]
KEPT = ("acknowledged", "result", "_id", "_version", "count", "errors", "found", "_source")


def steps(a: str, b: str) -> list[Step]:
    """Requests of every kind that writes send, those that are refused among them."""
    add = {"add": {"index": b, "alias": a}}
    unmark = {"remove": {"index": b, "alias": f"{b}-m", "must_exist": True}}
    lines = [{"index": {"_id": "1"}}, {"n": 1}, {"index": {"_id": "2"}}, {"n": 2}]
    document = f"/{a}/_doc/x%2Fy"
    return [
        ("GET", f"/{a}/_alias", {}),
        ("PUT", f"/{a}", {"body": {}}),
        ("PUT", f"/{a}", {"body": {}}),
        ("PUT", f"/{b}", {"body": {"aliases": {f"{b}-m": {}}}}),
        ("PUT", f"/{a}-no", {"body": {"settings": {"index.nosuch_setting": 1}}}),
        ("POST", f"/{b}-m/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
        ("POST", f"/{b}-m/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
        ("POST", f"/{a}/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
        ("POST", f"/{b}/_refresh", {}),
        ("GET", f"/{b}/_count", {}),
        ("POST", "/_aliases", {"body": {"actions": [add, unmark]}}),
        ("POST", "/_aliases", {"body": {"actions": [{"remove_index": {"index": a}}, add, unmark]}}),
        ("POST", "/_aliases", {"body": {"actions": [{"remove_index": {"index": a}}, add, unmark]}}),
        ("POST", "/_aliases", {"body": {"actions": [unmark]}}),
        ("GET", f"/{a}/_alias", {}),
        ("GET", f"/{a[:-2]}%2A/_alias", {}),
        ("DELETE", f"/{a}", {}),
        ("PUT", f"/{a}", {"body": {}}),
        ("PUT", f"/{a}/_create/c", {"body": {"n": 1}}),
        ("PUT", f"/{a}/_create/c", {"body": {"n": 2}}),
        ("PUT", document, {"body": {"n": 3}, "params": {"op_type": "create"}}),
        ("PUT", document, {"body": {"n": 4}, "params": {"op_type": "create"}}),
        ("GET", document, {}),
        ("PUT", document, {"body": {"n": 5}, "params": {"if_seq_no": 1, "if_primary_term": 1}}),
        ("PUT", document, {"body": {"n": 6}, "params": {"if_seq_no": 1, "if_primary_term": 1}}),
        ("DELETE", document, {"params": {"if_seq_no": 1, "if_primary_term": 1}}),
        ("DELETE", document, {}),
        ("DELETE", document, {}),
        ("GET", document, {}),
        ("DELETE", f"/{b}", {}),
        ("DELETE", f"/{b}", {}),
        ("GET", f"/{a}/_doc/c", {}),
        ("POST", f"/{b}-m/_bulk", {"ndjson": lines, "params": {"require_alias": "true"}}),
    ]


SAME_TYPES = {
    "invalid_alias_name_exception": "alias_name_exception",
    # Of a setting that the engine does not know: of OpenSearch 3, and of all others.
    "settings_exception": "illegal_argument_exception",
}
"""Types of errors that engines have other names for."""


def outcome(engine: Any, step: Step) -> Any:
    method, path, given = step
    try:
        answer = engine.request(method, path, **given)
    except EngineRefusal as refusal:
        return refusal.status, SAME_TYPES.get(refusal.type, refusal.type)
    if path.endswith("_alias"):
        return answer
    items = [
        {key: item["index"].get(key) for key in ("_id", "status", "result")}
        for item in answer.get("items", [])
    ]
    kept = {key: answer[key] for key in KEPT if key in answer}
    if path == "/_aliases" and kept.get("errors") is False:
        # Elasticsearch says it here, too.
        del kept["errors"]
    return kept, items


def test_the_cluster_in_memory_answers_as_a_real_node_does(node_url: str) -> None:
    own = f"memory-{uuid.uuid4().hex[:8]}"
    a, b = f"{own}-a", f"{own}-b"
    real, memory = Engine(ConnectionSettings(node_url)), MemoryCluster()
    try:
        for number, step in enumerate(steps(a, b)):
            assert outcome(memory, step) == outcome(real, step), (number, step)
    finally:
        for name in (a, b):
            with contextlib.suppress(EngineRefusal):
                real.request("DELETE", f"/{name}")
        real.close()
