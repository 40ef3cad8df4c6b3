"""What the tests of uploads share: an upload, what it leaves in the registry, and a lying store."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.alias import Alias, Aliases, SwitchGrounds
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_upload import Uploaded, UploadRequest, upload_model
from owpc_ltr.engine.stores import Store
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.stored_model import StoredModel, read_model, serving_profile
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.protocols import Model
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.memory_engine import find, whole
from tests.engine.small_cluster import FEATURESET, OTHERS, WORDS, Small, Through, linear, probes

KINDS = ["plugin-free", "ltr-plugin"]
UNPROVEN = SwitchGrounds(unproven="a test")


def unchecked(_alias: Alias | None) -> None:
    """Any switch of an alias is allowed."""


def put(small: Small, model: Model, **options: Any) -> Uploaded:
    given = {"index": small.index, "name": small.name, "grounds": UNPROVEN, **options}
    return upload_model(small.engine, small.store, UploadRequest(model, FEATURESET, **given))


def put_beside(small: Small, model: Model, engine: Any, **options: Any) -> Uploaded:
    """An upload through an engine of the test's own."""
    engine = cast("Engine", engine)
    return put(replace(small, engine=engine, store=small.store_through(engine)), model, **options)


def state(small: Small) -> tuple[Alias | None, list[str], list[bool]]:
    """The alias, the models in the store, and which of them have a deployment record."""
    models = small.store.list_models()
    deployments = DeploymentRecords(small.engine, small.store)
    return (
        Aliases(small.engine, small.store).find(small.name),
        models,
        [deployments.find(model, whole=False) is not None for model in models],
    )


@dataclass
class Liar:
    """A store whose rescoring is a little off."""

    store: Store
    by: float = 1.001

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def rescore(
        self, model: StoredModel, params: dict[str, Any], window: int
    ) -> list[dict[str, Any]]:
        clauses = self.store.rescore(model, params, window)
        clauses[0]["query"]["rescore_query_weight"] *= self.by
        return clauses


def liar(small: Small, by: float = 1.001) -> Small:
    return replace(small, store=cast("Store", Liar(small.store, by)))


NO_SCRIPTS = {"type": "illegal_argument_exception", "reason": "cannot execute [inline] scripts"}


@dataclass
class Scriptless(Through):
    """An engine that allows no inline scripts."""

    def request(self, method: str, path: str, **given: Any) -> Any:
        if "script_score" in json.dumps(given.get("body")):
            raise EngineRefusal(f"{method} {path}", 400, **NO_SCRIPTS)
        return self.engine.request(method, path, **given)


ABSENT = Reply({"found": False}, 404)


def done(result: str, identity: str, status: int = 200) -> Reply:
    """The answer to a write of one document."""
    written = {"_id": identity, "result": result, "_seq_no": 1, "_primary_term": 1, "_version": 1}
    return Reply(written, status)


@dataclass
class Plugin:
    """An engine with the LTR plugin, whose scores are those of the emulator."""

    version: str
    scripts: bool = True
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    """Where documents are."""
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
            return self.search(asked.body)
        if path.startswith("/owpc-ltr-aliases"):
            return self.document(asked)
        return ABSENT if path.startswith("/_scripts/") else self.ltr(asked, path)

    def document(self, asked: Asked) -> Reply:
        try:
            answer = self.cluster.request(
                asked.method, asked.path, params=asked.params, body=asked.body
            )
        except EngineRefusal as refusal:
            return Reply({"error": {"type": refusal.type, "reason": "no"}}, refusal.status)
        return Reply(answer)

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
            hits = [{"_id": f"model-{each}", "_source": {"name": each}} for each in self.models]
            return Reply(whole(hits, len(hits)))
        if asked.method == "DELETE":
            return done("deleted", f"model-{name}") if self.models.pop(name, None) else ABSENT
        return Reply({"_source": self.models[name]}) if name in self.models else ABSENT

    def search(self, body: dict[str, Any]) -> Reply:
        if not self.scripts and find(body, "script_score"):
            return Reply({"error": NO_SCRIPTS, "status": 400}, 400)
        ids = (find(body, "ids") or {"values": []})["values"]
        values = np.array([features_of(document) for document in ids], np.float32).reshape(-1, 3)
        hits: list[dict[str, Any]] = [{"_id": document, "_score": 0.0} for document in ids]
        if "rescore" in body:
            name = find(body["rescore"], "sltr")["model"]
            stored = read_model(self.models[name], name)
            scores = emulate(stored, values, serving_profile("opensearch", self.version))
            for hit, score in zip(hits, scores.tolist(), strict=True):
                hit["_score"] = score
        for hit, row in zip(hits, values.tolist(), strict=True):
            entries = [
                {"name": feature} if np.isnan(value) else {"name": feature, "value": value}
                for feature, value in zip(FEATURESET.feature_names, row, strict=True)
            ]
            hit["fields"] = {"_ltrlog": [{"main": entries}]}
        return Reply(whole(hits, len(hits)))


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


def connected(fake: FakeEngine, plugin: Plugin) -> Engine:
    for method in ("GET", "PUT", "POST", "DELETE"):
        fake.on(method, "*", plugin.answer)
    return Engine(ConnectionSettings(fake.url))


GOOD, BAD = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)


def judged(queries: int = 80, noise: float = 0.3) -> RankingDataset:
    """Queries whose labels follow the first feature."""
    rng = np.random.default_rng(3)
    features = rng.uniform(0, 5, (queries * 8, 3)).astype(np.float32)
    truth = features[:, 0] + noise * rng.normal(size=len(features))
    labels = np.clip(np.round(truth - 1), 0, 3).astype(np.float32)
    ids = [f"q{number}" for number in range(queries) for _ in range(8)]
    data = make_dataset(features, labels, ids, feature_names=FEATURESET.feature_names)
    params = pa.array([f'{{"keywords": "words of {n}"}}' for n in range(queries)])
    return replace(data, query_params=params, featureset_hash=FEATURESET.hash)


DATA = judged()


def unknowing(weights: tuple[float, ...]) -> LinearModel:
    return linear(weights, source=OTHERS)


_LOGGED: dict[str, RankingDataset] = {}


def logged_dataset(small: Small) -> RankingDataset:
    """Features of every pair of words, logged once for each index, which tests do not change."""
    if small.index not in _LOGGED:
        _LOGGED[small.index] = _log_dataset(small)
        for values in (_LOGGED[small.index].features, _LOGGED[small.index].labels):
            values.setflags(write=False)
    return _LOGGED[small.index]


def _log_dataset(small: Small) -> RankingDataset:
    """Features logged from the node for every pair of words; labels follow the title and size."""
    # The third word is in no document: without it, two orders of words are one request.
    pairs = [f"{a} {b} {a}{b}" for a in WORDS for b in WORDS if a != b]
    rng = np.random.default_rng(4)
    rows, labels, ids, documents = [], [], [], []
    for number, words in enumerate(pairs):
        chosen = [f"d{n}" for n in rng.choice(small.documents, 10, replace=False)]
        probe = {"params": {"keywords": words}, "document_ids": chosen}
        logged_ids, features = small.store.logged(FEATURESET, small.index, probe)
        rows.append(features)
        value = np.nan_to_num(features)
        labels.append(np.round(np.clip(2 * value[:, 0] + 0.2 * value[:, 2] - 1, 0, 3)))
        ids += [f"q{number}"] * len(logged_ids)
        documents += logged_ids
    data = make_dataset(
        np.concatenate(rows),
        np.concatenate(labels),
        ids,
        feature_names=FEATURESET.feature_names,
        doc_ids=pa.array(documents),
    )
    params = pa.array([json.dumps({"keywords": words}) for words in pairs])
    return replace(data, query_params=params, featureset_hash=FEATURESET.hash)
