"""Trees into a scripted LTR plugin: in a format of its version, proven by its scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import Certificates
from owpc_ltr.engine.deployment.model_lifecycle import prunable, prune
from owpc_ltr.engine.deployment.upload import upload
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import Refused
from owpc_ltr.formats.emulator import emulate
from owpc_ltr.formats.engine_versions import RANKLIB, XGBOOST, serving_profile
from owpc_ltr.formats.stored_model import read_model
from owpc_ltr.models.linear import Normaliser
from owpc_ltr.models.trees import Forest, TreeModel
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.engine.memory_engine import find
from tests.engine.small_cluster import FEATURESET, linear, probes

ABSENT = Reply({"found": False}, 404)
WHOLE = {"timed_out": False, "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0}}


def done(result: str, identity: str, status: int = 200) -> Reply:
    """The answer to a write of one document."""
    written = {"_id": identity, "result": result, "_seq_no": 1, "_primary_term": 1, "_version": 1}
    return Reply(written, status)


@dataclass
class Plugin:
    """An engine with the LTR plugin, whose scores are those of the emulator (or a little off)."""

    version: str
    off: float = 0.0
    documents: dict[str, Any] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)

    def answer(self, asked: Asked) -> Reply:
        """What the real one would say to the requests of an upload."""
        path = asked.path.replace("%2F", "/")
        about = {"number": self.version, "distribution": "opensearch"}
        if path == "/":
            return Reply({"version": about, "cluster_name": "c", "cluster_uuid": "u"})
        if path == "/_cat/plugins":
            return Reply([{"component": "opensearch-ltr"}])
        if path == "/small":
            index = {"mappings": {}, "settings": {"index": {"uuid": "u"}}}
            return Reply({"small": index})
        if path == "/small/_search":
            return Reply(self.search(asked.body))
        if path.startswith("/owpc-ltr-pointers"):
            return self.aliases(asked, path)
        return self.ltr(asked, path)

    def aliases(self, asked: Asked, path: str) -> Reply:
        if path.endswith("/_search"):
            ids = find(asked.body, "values")
            wanted = {
                each: d
                for each, d in self.documents.items()
                if (each.partition("/_doc/")[2] in ids if ids else "name" in d)
            }
            hits = [
                {"_id": each.partition("/_doc/")[2], "_source": d} for each, d in wanted.items()
            ]
            return Reply({**WHOLE, "hits": {"total": {"value": len(hits)}, "hits": hits}})
        identity = path.partition("/_doc/")[2]
        if asked.method == "GET":
            found = self.documents.get(path)
            place = {"_seq_no": 1, "_primary_term": 1, "_source": found}
            return Reply(place) if found else ABSENT
        if asked.method == "PUT" and not identity:
            return Reply({"acknowledged": True, "shards_acknowledged": True, "index": path[1:]})
        if asked.method == "PUT":
            result = "updated" if path in self.documents else "created"
            self.documents[path] = asked.body
            return done(result, identity)
        return done("deleted", identity) if self.documents.pop(path, None) else ABSENT

    def ltr(self, asked: Asked, path: str) -> Reply:
        name = path.rpartition("/")[2]
        if path.endswith("/_createmodel"):
            made = asked.body["model"]
            body = FEATURESET.to_body()["featureset"]
            self.models[made["name"]] = {
                "model": {"name": made["name"], "feature_set": body, "model": made["model"]}
            }
            return done("created", f"model-{made['name']}", 201)
        if "/_featureset/" in path:
            return Reply({"_source": FEATURESET.to_body()})
        if asked.method == "PUT":
            return Reply({"acknowledged": True, "shards_acknowledged": True, "index": ".ltrstore"})
        if path.endswith("/_model"):
            hits = [{"_source": {"name": each}} for each in self.models]
            return Reply({**WHOLE, "hits": {"total": {"value": len(hits)}, "hits": hits}})
        if asked.method == "DELETE":
            return done("deleted", f"model-{name}") if self.models.pop(name, None) else ABSENT
        return Reply({"_source": self.models[name]}) if name in self.models else ABSENT

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = find(body, "ids")["values"]
        values = np.array([features_of(document) for document in ids], np.float32)
        hits: list[dict[str, Any]] = [{"_id": document, "_score": 0.0} for document in ids]
        if "rescore" in body:
            name = find(body["rescore"], "sltr")["model"]
            stored = read_model(self.models[name], name)
            scores = emulate(stored, values, serving_profile("opensearch", self.version))
            for hit, score in zip(hits, scores.tolist(), strict=True):
                hit["_score"] = score + self.off
        for hit, row in zip(hits, values.tolist(), strict=True):
            entries = [
                {"name": feature} if np.isnan(value) else {"name": feature, "value": value}
                for feature, value in zip(FEATURESET.feature_names, row, strict=True)
            ]
            hit["fields"] = {"_ltrlog": [{"main": entries}]}
        return {**WHOLE, "hits": {"total": {"value": len(hits)}, "hits": hits}}


def features_of(document: str) -> list[float]:
    """A missing title for every third document."""
    row = np.random.default_rng(int(document[1:])).uniform(0, 6, 3)
    return [float("nan") if int(document[1:]) % 3 == 0 else row[0], row[1], row[2]]


def trees() -> TreeModel:
    """size < 4 ? (body < 1 ? −1 : 2) : 0.25, and title < 1.2 ? 0 : 1, a missing title as 0."""
    forest = Forest(
        np.array([0, 5], np.int32),
        np.array([2, 1, -1, -1, -1, 0, -1, -1], np.int32),
        np.array([4, 1, 0, 0, 0, 1.2, 0, 0], np.float32),
        np.array([1, 3, 0, 0, 0, 6, 0, 0], np.int32),
        np.array([True, True, False, False, False, True, False, False]),
        np.array([0, 0, 0.25, -1, 2, 0, 0, 1.0]),
    )
    record = {"probes": probes(), "featureset_hash": FEATURESET.hash}
    return TreeModel(FEATURESET.feature_names, forest, 0.5, record=record)


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine() as made:
        yield made


def connected(fake: FakeEngine, plugin: Plugin) -> Engine:
    for method in ("GET", "PUT", "POST", "DELETE"):
        fake.on(method, "*", plugin.answer)
    return Engine(ConnectionSettings(fake.url))


@pytest.mark.parametrize(
    ("version", "format_"), [("2.19.0", XGBOOST), ("3.3.0", RANKLIB), ("3.8.0", XGBOOST)]
)
def test_trees_are_proven_in_a_format_that_each_version_scores_exactly(
    version: str, format_: str, fake: FakeEngine
) -> None:
    plugin = Plugin(version)
    engine = connected(fake, plugin)
    done = upload(engine, LtrPluginStore(engine), trees(), FEATURESET, "small", "m")
    assert done.type == format_
    assert done.parity.scored_by == "engine"
    assert done.parity.largest_difference <= 1e-6
    assert done.parity.documents == 48
    certificate = Certificates(engine, LtrPluginStore(engine)).get(done.model)
    assert certificate.interval.proven
    assert certificate.interval.low == pytest.approx(-0.5, abs=1e-5)
    assert certificate.interval.high == pytest.approx(3.5, abs=1e-5)


def test_trees_that_the_engine_scores_otherwise_are_taken_out(fake: FakeEngine) -> None:
    plugin = Plugin("3.8.0", off=0.01)
    engine = connected(fake, plugin)
    with pytest.raises(Refused, match="scores differently"):
        upload(engine, LtrPluginStore(engine), trees(), FEATURESET, "small", "m")
    assert plugin.models == {}
    assert Aliases(engine, LtrPluginStore(engine)).find("m") is None
    assert not any("certificate" in path for path in plugin.documents)


def test_what_the_engine_would_refuse_is_not_sent(fake: FakeEngine) -> None:
    """A scale that float32 rounds to 0, which is no standard deviation in the engine."""
    plugin = Plugin("3.8.0")
    engine = connected(fake, plugin)
    tiny = replace(linear(), normalisers={"size": Normaliser("standard", 0.0, 1e-46)})
    with pytest.raises(Refused, match=r"3\.8\.0 would not take 'm'.*not positive"):
        upload(engine, LtrPluginStore(engine), tiny, FEATURESET, "small", "m")
    assert {asked.method for asked in fake.requests} == {"GET"}


def test_splits_of_a_feature_that_is_never_missing_go_into_every_version(fake: FakeEngine) -> None:
    """Between 3.2 and 3.7 a missing value always goes right: no fault where there is none."""
    whole = trees()
    only_size = replace(whole.forest, default_left=whole.forest.feature == 2)
    engine = connected(fake, Plugin("3.3.0"))
    done = upload(
        engine, LtrPluginStore(engine), replace(whole, forest=only_size), FEATURESET, "small", "m"
    )
    assert done.type == XGBOOST


@pytest.mark.parametrize("as_text", [False, True], ids=["as it was sent", "as text"])
def test_what_a_killed_upload_left_in_the_plugin_is_known_by_the_hash_of_its_content(
    as_text: bool, fake: FakeEngine
) -> None:
    """However the plugin gives a definition back; and a model of anybody else's is not."""
    plugin = Plugin("3.8.0")
    engine = connected(fake, plugin)
    store = LtrPluginStore(engine)
    names = [
        upload(engine, store, model, FEATURESET, "small", "m").model
        for model in (trees(), linear())
    ]
    assert prunable(engine, store) == []
    plugin.documents.clear()
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
