"""A node with the LTR plugin, scripted from its recordings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_lifecycle import delete, prunable, prune, roll_back
from owpc_ltr.engine.deployment.model_upload import Uploaded, UploadRequest, upload_model
from owpc_ltr.engine.deployment.trial import searchable
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.formats.stored_model import RANKLIB, XGBOOST
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.linear import AdditiveModel, Normaliser
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.protocols import Model
from tests.commands import Run
from tests.engine.deployed import KINDS, UNPROVEN, Plugin, connected, liar, put, trees
from tests.engine.fake_engine import FakeEngine
from tests.engine.scripted_plugin import ScriptedPlugin
from tests.engine.small_cluster import FEATURESET, Small, linear, probes, small_cluster


@pytest.fixture
def small(plugin_node: tuple[str, ScriptedPlugin], lasting_small: Small) -> Iterator[Small]:
    with small_cluster(plugin_node[0], kind="ltr-plugin", index=lasting_small.index) as made:
        yield made


@pytest.fixture(params=KINDS)
def either(
    request: pytest.FixtureRequest, plugin_node: tuple[str, ScriptedPlugin], lasting_small: Small
) -> Iterator[Small]:
    """With either kind of store."""
    with small_cluster(plugin_node[0], kind=request.param, index=lasting_small.index) as made:
        yield made


def test_what_a_killed_trial_left_is_known_as_ours(small: Small) -> None:
    with searchable(small.store, export_linear(linear(), FEATURESET, "it")) as kept:
        assert prunable(small.engine, small.store) == [kept.name]
    assert small.store.list_models() == []


def test_a_search_template_names_the_model_inside_and_is_switched_with_it(small: Small) -> None:
    query = {"multi_match": {"query": "{{keywords}}", "fields": ["title", "body"]}}
    words = {"keywords": "", "query": ""}
    search = SearchRequest(small.index, query, words, rest={"from": 2, "_source": False})
    params = {"keywords": 'alpha "beta" \\ {{x}}\n', "size": 20, "from": 3}
    models = []
    for weight in (0.5, 2.0):
        done = put(small, linear((1.0, weight, -0.2)), search=search)
        assert done.search_template == small.name
        models.append(done.model)

    def served() -> list[tuple[str, float]]:
        body = {"id": small.name, "params": params}
        answer = small.engine.request("POST", f"/{small.index}/_search/template", body=body)
        return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]

    def whole(model: str) -> list[tuple[str, float]]:
        interval = DeploymentRecords(small.engine, small.store).get(model).interval
        asked = {"keywords": params["keywords"], "query": params["keywords"]}
        request = replace(search, params=asked, size=20, rest={"from": 3, "_source": False})
        body = request_body(small.store, small.store.get_model(model), request, interval)
        answer = small.engine.request("POST", f"/{small.index}/_search", body=body)
        return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]

    first, second = map(whole, models)
    assert len(first) == 20
    assert served() == second != first
    roll_back(small.engine, small.store, small.name)
    assert served() == first
    assert small.cluster.verify(small.name).drift == ()
    delete(small.engine, small.store, small.name)
    with pytest.raises(Refused, match="unable to find script"):
        served()


def other_set() -> FeatureSet:
    title = Feature("title", ("keywords",), {"match": {"body": "{{keywords}}"}})
    return replace(FEATURESET, features=(title, *FEATURESET.features[1:]))


def test_a_feature_set_in_use_is_neither_deleted_nor_replaced(either: Small) -> None:
    sets = either.cluster.featuresets
    asked: Any = {"index": either.index, "params": {"keywords": "alpha"}, "replace": True}
    model = put(either, linear()).model
    earlier = put(either, linear((1, 1, 1))).model
    for act in (lambda: sets.delete("small"), lambda: sets.push(other_set(), **asked)):
        with pytest.raises(Refused, match=f"used by '{earlier}' .*, '{model}' .*with `force`"):
            act()
    assert sets.get("small").hash == FEATURESET.hash
    assert sets.push(FEATURESET, **asked).hash == FEATURESET.hash
    sets.push(replace(other_set(), name="free"), **asked)
    sets.delete("free")
    sets.push(other_set(), **asked, force=True)
    sets.delete("small", force=True)
    assert sets.names() == []


def test_a_model_is_never_explained_by_another_set_than_it_scores_by(either: Small) -> None:
    """The plugin logs by the set's name; without it the model's own copy is asked."""
    cluster = either.cluster
    put(either, linear())
    before = cluster.explain("alpha beta", model=either.name, index=either.index)
    either.store.put_featureset(other_set(), replace=True)
    if either.store.kind == "ltr-plugin":
        with pytest.raises(Refused, match="'small' was replaced since"):
            cluster.explain("alpha beta", model=either.name, index=either.index)
    else:
        after = cluster.explain("alpha beta", model=either.name, index=either.index)
        assert after.as_dict() == before.as_dict()


def derived_set(expression: str) -> FeatureSet:
    made = Feature("twice", (), expression, DERIVED)
    return FeatureSet("derived", (*FEATURESET.features, made))


def one_split(featureset: FeatureSet, threshold: float) -> TreeModel:
    """Whether the derived feature is below the threshold; a missing one goes left."""
    forest = Forest(
        np.array([0], np.int32),
        np.array([3, -1, -1], np.int32),
        np.array([threshold, 0, 0], np.float32),
        np.array([1, 0, 0], np.int32),
        np.array([True, False, False]),
        np.array([0, -1.0, 2.0]),
    )
    record = {"probes": probes(), "featureset_hash": featureset.hash}
    return TreeModel(featureset.feature_names, forest, 0.0, record=record)


def test_what_derived_features_mean_for_models_is_said_when_they_are_pushed(either: Small) -> None:
    wanted = {
        "plugin-free": "'twice'.*`upload.client_scored=True.`",
        "ltr-plugin": "'twice'.*`missing='zero'`",
    }
    sets = either.cluster.featuresets
    with pytest.warns(OwpcLtrWarning, match=wanted[either.store.kind]):
        sets.push(derived_set("title * 2"), index=either.index, params={"keywords": "alpha"})


@pytest.mark.filterwarnings("ignore::owpc_ltr.errors.OwpcLtrWarning")
@pytest.mark.parametrize(
    ("expression", "threshold", "mend"),
    [
        ("0 - title * size", -0.5, "train with `missing='zero'`"),
        ("size - title", 4.0, "use a linear model"),
    ],
)
def test_trees_that_the_engine_scores_otherwise_for_a_derived_feature_are_told_why(
    expression: str, threshold: float, mend: str, small: Small
) -> None:
    """And what is advised does it, and nothing less."""
    cluster, featureset = small.cluster, derived_set(expression)
    cluster.featuresets.push(featureset, index=small.index, params={"keywords": "alpha"})
    where: Any = {"name": small.name, "index": small.index, "featureset": "derived"}
    trees = one_split(featureset, threshold)
    mended = linear()
    mended = replace(mended, feature_names=featureset.feature_names, weights=np.ones(4))
    mended.record["featureset_hash"] = featureset.hash
    refused: list[Model] = [trees]
    if "linear" in mend:
        refused.append(trees.with_missing_as_zero())
    for model in refused:
        with pytest.raises(Refused, match=f"'twice' is derived from 'title'.*; {mend}"):
            cluster.upload(model, **where)
    good: Model = mended if "linear" in mend else trees.with_missing_as_zero()
    assert cluster.upload(good, **where).parity.largest_difference <= 1e-5


@pytest.mark.filterwarnings("ignore:no document has a value")
@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("named", [True, False])
def test_a_cluster_that_gains_the_plugin_keeps_its_models(
    named: bool, plugin_node: tuple[str, ScriptedPlugin], tmp_path: Path, lasting_small: Small
) -> None:
    """Nothing says which store is meant: what was there before is used where it is."""
    url, plugin = plugin_node
    with small_cluster(url, index=lasting_small.index) as small:
        plugin.runs = False
        own = small.store_name if named else None
        before = ltr.connect(url, store=own)
        before.featuresets.push(FEATURESET, index=small.index, params={"keywords": "alpha"})
        for weights, unproven in (((1.0, 1.0, 1.0), None), ((1.0, 0.5, -0.2), "a test")):
            before.upload(
                linear(weights), name=small.name, index=small.index, featureset="small",
                unproven=unproven,
            )  # fmt: skip
        answer = before.search("alpha beta", model=small.name)

        plugin.runs = True
        now = ltr.connect(url, store=own)
        assert now.store.kind == "ltr-plugin"
        assert now.search("alpha beta", model=small.name).after == answer.after
        immutable = now.models.resolve(small.name)
        assert now.search("alpha beta", model=immutable).after == answer.after
        body = now.request("alpha", model=small.name)
        assert "sltr" not in str(body)
        assert now.verify(small.name).drift == ()
        assert now.models.show(small.name).content["model"] == immutable
        assert now.explain("alpha beta", model=small.name).hits
        assert (
            now.profile(keywords=["alpha"], model=small.name, repeat=2).store_kind == "plugin-free"
        )
        assert now.featuresets.get("small").hash == FEATURESET.hash
        (tmp_path / "judged.csv").write_text("query,docid,rating\nalpha,d1,1\nalpha,d2,0\n")
        now.log_features(
            judgments=tmp_path / "judged.csv", out=tmp_path / "data.parquet",
            featureset="small", index=small.index,
        )  # fmt: skip
        assert now.models.rollback(small.name).alias.current != immutable
        assert now.models.promote(immutable, unproven="a test").alias.current == immutable
        again = now.upload(
            linear((2.0, 1.0, 1.0)), name=small.name, index=small.index, unproven="a test"
        )
        assert again.store_kind == "plugin-free"
        assert now.models.delete(small.name, yes=True).models
        assert plugin.stores == {}
        with pytest.raises(BadInput, match=f"no model '{small.name}' in .*ltr"):
            now.search("alpha", model=small.name, index=small.index)
        with pytest.raises(UsageError, match=r"in the ltr-plugin store .*`store_kind`"):
            now.upload(linear(), name=small.name, index=small.index)
        now.featuresets.delete("small")


def sparse_trees() -> TreeModel:
    """Splits on the third feature and on none of the others."""
    forest = one_split(derived_set("title * 2"), 4.0).forest
    forest = replace(forest, feature=np.array([2, -1, -1], np.int32))
    return TreeModel(
        FEATURESET.feature_names, forest, 0.5,
        record={"probes": probes(), "featureset_hash": FEATURESET.hash},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "used"),
    [(linear((1.0, 0.0, -0.2)), ("title", "size")), (sparse_trees(), ("size",))],
    ids=["linear", "trees"],
)
def test_a_model_of_fewer_features_computes_no_others(
    model: Model, used: tuple[str, ...], plugin_node: tuple[str, ScriptedPlugin], small: Small
) -> None:
    """The plugin computes the whole set of a model: it is stored with a set of its own."""
    plugin = plugin_node[1]
    cluster = small.cluster
    done = put(small, model)
    assert done.parity.largest_difference <= 1e-5
    assert done.serving_mode is not None
    assert f"{len(used)} of 3 features" in done.serving_mode.words
    plugin.computed.clear()
    answer = cluster.search("alpha beta", model=small.name)
    assert plugin.computed == [len(used)]
    stored = small.store.get_model(done.model)
    assert stored.featureset.feature_names == used
    # What people push and log by is what it was.
    assert cluster.featuresets.names() == ["small"]
    assert small.store.get_featureset(done.model).hash == stored.featureset.hash
    assert cluster.verify(small.name).drift == ()
    explained = cluster.explain("alpha beta", model=small.name)
    assert [hit.score for hit in explained.hits] == pytest.approx(
        [hit.score for hit in answer.after], abs=1e-5
    )
    put(small, linear())
    cluster.models.rollback(small.name)
    cluster.models.delete(small.name, yes=True)
    assert small.store.list_models() == []
    with pytest.raises(BadInput):
        small.store.get_featureset(done.model)
    assert cluster.featuresets.get("small").hash == FEATURESET.hash


def test_an_upload_that_fails_leaves_no_set_behind(
    plugin_node: tuple[str, ScriptedPlugin], small: Small
) -> None:
    before = sorted(plugin_node[1].stores[small.store_name])
    with pytest.raises(Refused, match="scores differently"):
        put(liar(small), linear((1.0, 0.0, -0.2)))
    assert sorted(plugin_node[1].stores[small.store_name]) == before


def test_what_the_plugin_cannot_run_is_refused_with_the_way_to_have_it(small: Small) -> None:
    """And that way leads there: the feature set is pushed first."""
    curves = AdditiveModel(FEATURESET.feature_names, {})
    mixed = AverageModel(
        FEATURESET.feature_names, (linear(), sparse_trees()), np.array([0.5, 0.5]),
        record=linear().record,
    )  # fmt: skip
    way = "featureset push.*`store_kind='plugin-free'`"
    refused: list[tuple[Any, dict[str, Any]]] = [
        (linear(), {"client_scored": True}),
        (curves, {}),
        (mixed, {}),
    ]
    for model, options in refused:
        known = replace(model, record=linear().record)
        with pytest.raises(Refused, match=way):
            put(small, known, **options)
    own = small.store_name
    free = ltr.connect(small.engine.settings.url, store=own, store_kind="plugin-free")
    free.featuresets.push(FEATURESET, index=small.index, params={"keywords": "alpha"})
    with pytest.warns(OwpcLtrWarning, match="applications must search with owpc-ltr serve"):
        done = free.upload(mixed, name=small.name, index=small.index)
    assert done.parity.scored_by == "client"
    small.engine.request("DELETE", f"/owpc-ltr-store-{own}")


def test_a_model_of_another_store_is_named_with_that_store(small: Small) -> None:
    own, name = small.store_name, f"{small.name}-here"
    put(replace(small, name=name), linear())
    elsewhere = ltr.connect(small.engine.settings.url)
    with pytest.raises(BadInput, match=f"--store-kind ltr-plugin --store {own}"):
        elsewhere.search("alpha", model=name, index=small.index)


def uploaded(engine: Engine, model: Model) -> Uploaded:
    request = UploadRequest(model, FEATURESET, index="small", name="m", grounds=UNPROVEN)
    return upload_model(engine, LtrPluginStore(engine), request)


@pytest.mark.parametrize(
    ("version", "format_"), [("2.19.0", XGBOOST), ("3.3.0", RANKLIB), ("3.8.0", XGBOOST)]
)
def test_trees_are_proven_in_a_format_that_each_version_scores_exactly(
    version: str, format_: str, fake: FakeEngine
) -> None:
    plugin = Plugin(version)
    engine = connected(fake, plugin)
    done = uploaded(engine, trees())
    assert done.type == format_
    assert done.parity.scored_by == "engine"
    assert done.parity.largest_difference <= 1e-6
    assert done.parity.documents == 48
    deployment = DeploymentRecords(engine, LtrPluginStore(engine)).get(done.model)
    assert deployment.interval.proven
    assert deployment.interval.low == pytest.approx(-0.5, abs=1e-5)
    assert deployment.interval.high == pytest.approx(3.5, abs=1e-5)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_model_whose_request_the_engine_refuses_is_taken_out(
    scripts: bool, fake: FakeEngine
) -> None:
    """The proof's own searches take no script; the request of scores without a known end does."""
    plugin = Plugin("3.8.0", scripts=scripts)
    engine = connected(fake, plugin)
    store = LtrPluginStore(engine)
    bounded = uploaded(engine, trees())
    if scripts:
        uploaded(engine, linear())
        return
    with pytest.raises(Refused, match=r"cannot execute \[inline\] scripts.*removed again"):
        uploaded(engine, linear())
    assert list(plugin.models) == [bounded.model]
    alias = Aliases(engine, store).find("m")
    assert alias is not None
    assert alias.current == bounded.model


def test_what_the_engine_would_refuse_is_not_sent(fake: FakeEngine) -> None:
    """A scale that float32 rounds to 0, which is no standard deviation in the engine."""
    plugin = Plugin("3.8.0")
    engine = connected(fake, plugin)
    tiny = replace(linear(), normalisers={"size": Normaliser("standard", 0.0, 1e-46)})
    with pytest.raises(Refused, match="the normaliser of 'size' has 0 and 1e-46"):
        uploaded(engine, tiny)
    assert {asked.method for asked in fake.requests} == {"GET"}


def test_splits_of_a_feature_that_is_never_missing_go_into_every_version(fake: FakeEngine) -> None:
    """Between 3.2 and 3.7 a missing value always goes right: no fault where there is none."""
    whole = trees()
    only_size = replace(whole.forest, default_left=whole.forest.feature == 2)
    engine = connected(fake, Plugin("3.3.0"))
    done = uploaded(engine, replace(whole, forest=only_size))
    assert done.type == XGBOOST


@pytest.mark.parametrize("as_text", [False, True], ids=["as it was sent", "as text"])
def test_what_a_killed_upload_left_in_the_plugin_is_known_by_the_hash_of_its_content(
    as_text: bool, fake: FakeEngine
) -> None:
    """However the plugin gives a definition back; and a model of anybody else's is not."""
    plugin = Plugin("3.8.0")
    engine = connected(fake, plugin)
    store = LtrPluginStore(engine)
    names = [uploaded(engine, model).model for model in (trees(), linear())]
    assert prunable(engine, store) == []
    plugin.cluster.indices.clear()
    foreign = json.loads(json.dumps(plugin.models[names[1]]))
    foreign["model"]["name"] = "m-12345678"
    plugin.models["m-12345678"] = foreign
    for model in plugin.models.values():
        ranker = model["model"]["model"]
        if as_text and not isinstance(ranker["definition"], str):
            ranker["definition"] = json.dumps(ranker["definition"])
    assert prunable(engine, store) == sorted(names)
    prune(engine, store, names)
    assert list(plugin.models) == ["m-12345678"]


def test_a_model_of_another_tool_is_listed_and_shown_as_foreign_and_left_alone(
    fake: FakeEngine, run: Run
) -> None:
    plugin = Plugin("3.8.0")
    engine = connected(fake, plugin)
    ours = uploaded(engine, linear()).model
    body = {"type": "model/linear", "definition": {"title": 1.5}}
    made = FEATURESET.to_body()["featureset"]
    for name in ("hello_lin", "other-12345678"):
        model = {"name": name, "feature_set": made, "model": body}
        plugin.models[name] = {"model": model}
    at = ("--url", fake.url, "--store-kind", "ltr-plugin")
    listed = run("models", *at)[1].splitlines()
    assert listed[-2:] == [
        "foreign, not made by owpc-ltr: 'hello_lin'",
        "foreign, not made by owpc-ltr: 'other-12345678'",
    ]
    assert not any("hello_lin" in line for line in listed[:-2])
    for name in ("hello_lin", "other-12345678"):
        code, out, _ = run("models", "show", name, *at)
        assert (code, out.splitlines()[1].split()) == (0, ["model", name])
        assert "not owpc-ltr" in out
        assert "model/linear" in out
        assert "title, body, size" in out
        for command in ("promote", "rollback", "delete"):
            code, _, messages = run("models", command, name, *at)
            assert code in {3, 5}
            assert len(messages.splitlines()) == 2  # the cluster, and the error
            assert "there is no model" not in messages
            if name == "hello_lin" and command != "delete":
                assert "'hello_lin' is a model in the ltr-plugin store" in messages
                assert "no alias leads to it: import it from its file (owpc-ltr import)" in messages
    assert list(plugin.models) == [ours, "hello_lin", "other-12345678"]
