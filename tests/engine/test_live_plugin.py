"""The recorded models again, and our exports of them, on a node with the LTR plugin.

OWPC_LTR_TEST_URL names it: its own version decides what is rejected. The documents are the recorded
ones, so that its scores can be held against the recorded ones too.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.parity import ProofLimits
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import DERIVED, Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import (
    LINEAR,
    RANKLIB,
    XGBOOST,
    ServingProfile,
    StoredModel,
    serving_profile,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.networks import Layer, LogisticNetwork
from tests.engine.deployed import liar, put, state, trees
from tests.engine.memory_engine import find
from tests.engine.recorded import (
    Exchange,
    Recorded,
    creations,
    exported,
    load_exchanges,
    scores_of,
    written_here,
)
from tests.engine.small_cluster import FEATURESET, probes, small_cluster

GOLDEN = Path(__file__).parents[1] / "golden" / "ranklib"
PARAMS = {"keywords": "alpha beta", "tag": "x", "boostp": 0.5}
RECORDED_VERSION = (3, 8, 0)
FLAG = {"missing_as_zero": True, "splits": [{"nodeid": 0, "leaf": 1.0}]}


FACTORS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "a": ("n", 0.004, {}),
    "b": ("n", 0.0013, {"modifier": "sqrt"}),
    "c": ("pop", 0.01, {"missing": 0}),
    "d": ("n", 0.1, {"modifier": "ln1p"}),
    "e": ("pop", 0.02, {"missing": 50}),
}
"""Features in the range of those that RankLib was trained on."""


def of_field(field: str, factor: float, more: dict[str, Any]) -> dict[str, Any]:
    values = {"field_value_factor": {"field": field, "factor": factor, **more}}
    return {"function_score": {**values, "boost_mode": "replace"}}


@dataclass(frozen=True)
class Live:
    """A store of its own on the node, the recorded documents in an index of its own."""

    engine: Engine
    store: LtrPluginStore
    name: str
    documents: list[str]
    profile: ServingProfile

    def taken(self, model: StoredModel) -> bool:
        """Whether the engine takes a model as it is, without any check of ours."""
        made = {"type": model.type, "definition": model.definition}
        if model.feature_normalizers:
            made["feature_normalizers"] = model.feature_normalizers
        path = f"/_ltr/{self.name}/_featureset/{model.featureset.name}/_createmodel"
        try:
            self.engine.request("POST", path, body={"model": {"name": model.name, "model": made}})
        except (BadInput, EngineRefusal):  # a number that is none cannot even be sent
            return False
        return True

    def features(self, featureset: FeatureSet) -> NDArray[np.float32]:
        """The features of all documents, as the node logs them now."""
        given = {name: PARAMS[name] for name in featureset.params}
        probe = {"params": given, "document_ids": self.documents}
        ids, features = self.store.logged(featureset, self.name, probe)
        assert ids == self.documents
        return features

    def scores(self, model: StoredModel) -> list[float]:
        """The engine's scores of all documents, through a real rescore."""
        given = {name: PARAMS[name] for name in model.featureset.params}
        body = {
            "size": len(self.documents),
            "query": {"match_all": {}},
            "rescore": self.store.rescore(model, given, len(self.documents)),
        }
        answer = self.engine.request("POST", f"/{self.name}/_search", body=body)
        scores_by_id = {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}
        return [scores_by_id[document] for document in self.documents]


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    recordings = shared_data.parent / "protocol" / "ltr-plugin"
    if not recordings.is_dir():
        pytest.skip(f"no recorded exchanges at {recordings}")
    return recordings


@pytest.fixture(scope="module")
def live(folder: Path, node_for: Callable[[str], str]) -> Iterator[Live]:
    engine = Engine(ConnectionSettings(node_for("ltr-plugin")))
    name = f"live-{uuid.uuid4().hex[:8]}"
    store = LtrPluginStore(engine, name)
    engine.request("PUT", f"/{name}", body=json.loads((folder / "corpus.index.json").read_text()))
    lines = [json.loads(line) for line in (folder / "corpus.bulk.ndjson").read_text().splitlines()]
    for head in lines[::2]:
        head["index"].pop("_index", None)
    documents = [head["index"]["_id"] for head in lines[::2]]
    engine.request("POST", f"/{name}/_bulk", ndjson=lines, params={"refresh": "true"})
    store.prepare()
    about = engine.identity()
    profile = serving_profile(about.distribution, about.version)
    plugin = Live(engine, store, name, documents, profile)
    whole_index = FeatureSet("one", (Feature("all", (), {"match_all": {}}),))
    store.put_featureset(whole_index)
    knows = plugin.taken(StoredModel("flag", XGBOOST, FLAG, whole_index))
    yield replace(plugin, profile=replace(profile, missing_as_zero=knows))
    for path in (f"/{name}", f"/_ltr/{name}"):
        engine.request("DELETE", path)
    engine.close()


@pytest.fixture(scope="module")
def exchanges(folder: Path) -> dict[str, Exchange]:
    return load_exchanges(folder)


@pytest.fixture(scope="module")
def models(exchanges: dict[str, Exchange], live: Live) -> list[Recorded]:
    """The recorded models under names of their own, with their sets in the store."""
    renamed = []
    for each in creations(exchanges):
        if "nanf" in each.model.featureset.feature_names:
            continue
        featureset = replace(each.model.featureset, validation=None)
        live.store.put_featureset(featureset)
        name = f"recorded-{each.number}"
        renamed.append(replace(each, model=replace(each.model, name=name, featureset=featureset)))
    return renamed


def test_each_recorded_model_scores_as_it_is_emulated_and_as_it_was_recorded(
    models: list[Recorded], exchanges: dict[str, Exchange], live: Live
) -> None:
    recorded = recorded_scores(exchanges)
    same_version = live.profile.version[:3] == RECORDED_VERSION
    compared = 0
    for each in models:
        stored = each.model
        if not written_here(stored) or not live.taken(stored):
            continue
        scores = np.array(live.scores(stored), np.float32)
        emulated = emulate(stored, live.features(stored.featureset), live.profile)
        assert scores.tolist() == emulated.tolist(), each.number
        before = recorded.get(each.number)
        if before and same_version:
            known = [before[document] for document in live.documents]
            assert scores == pytest.approx(known, rel=1e-6, abs=1e-6), each.number
            compared += 1
    assert compared > 10 or not same_version


def recorded_scores(exchanges: dict[str, Exchange]) -> dict[str, dict[str, float]]:
    """The number of a creation → the scores of all documents that were recorded of it."""
    numbers = {each.model.name: each.number for each in creations(exchanges) if each.taken}
    scores_by_model = {}
    for exchange in exchanges.values():
        name = (find(exchange.body, "sltr") or {}).get("model")
        replaced = (find(exchange.body, "rescore") or {}).get("query", {}).get("query_weight") == 0
        if exchange.status == 200 and name in numbers and replaced and exchange.body["size"] == 400:
            scores_by_model[numbers[name]] = scores_of(exchange)
    return scores_by_model


def test_what_we_write_for_each_recorded_model_is_taken_and_scores_as_the_model(
    models: list[Recorded], live: Live
) -> None:
    kinds = set()
    for number, (stored, model, model_type, definition) in enumerate(exported(models)):
        normalisers = stored.feature_normalizers
        made = StoredModel(f"ours-{number}", model_type, definition, stored.featureset, normalisers)
        assert live.taken(made), (stored.name, model_type)
        features = live.features(stored.featureset)
        names = stored.featureset.feature_names
        own = features[:, [names.index(name) for name in model.feature_names]]
        if model_type == XGBOOST and live.profile.missing == "default":
            assert live.scores(made) == pytest.approx(model.score(own), rel=1e-6, abs=1e-6)
        emulated = emulate(made, features, live.profile)
        assert np.array(live.scores(made), np.float32).tolist() == emulated.tolist()
        kinds.add(model_type)
    assert kinds == {LINEAR, XGBOOST, RANKLIB}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_each_algorithm_of_ranklib_scores_live_as_imported_and_as_we_write_it(
    path: Path, live: Live
) -> None:
    features = tuple(Feature(name, (), of_field(*factor)) for name, factor in FACTORS.items())
    featureset = FeatureSet("golden", features)
    live.store.put_featureset(featureset)
    text = path.read_text()
    stored = StoredModel(f"golden-{path.stem}", RANKLIB, text, featureset)
    assert live.taken(stored)
    values = live.features(featureset)
    scores = np.array(live.scores(stored), np.float32)
    assert len(set(scores.tolist())) > 2
    model = from_ranklib(text, featureset.feature_names)
    intercept = float(model.record["imported"].get("intercept", "0"))
    assert scores == pytest.approx(model.score(values) + intercept, rel=1e-6, abs=1e-6)
    if isinstance(model, LinearModel):
        return
    written = to_ranklib(model, featureset.feature_names, live.profile)  # type: ignore[arg-type]
    ours = StoredModel(f"ours-{path.stem}", RANKLIB, written, featureset)
    assert live.taken(ours)
    assert live.scores(ours) == pytest.approx(model.score(values), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", ["trees", "network"])
def test_what_is_not_linear_is_uploaded_proven_and_verified(
    kind: str, node_for: Callable[[str], str]
) -> None:
    with small_cluster(node_for("ltr-plugin"), kind="ltr-plugin") as small:
        layers = (Layer(np.array([[0.5, -1.0, 0.25]]), np.array([0.1])),)
        record = {"probes": probes(), "featureset_hash": FEATURESET.hash}
        network = LogisticNetwork(FEATURESET.feature_names, layers, record)
        done = put(small, trees() if kind == "trees" else network)
        assert done.parity.scored_by == "engine"
        assert done.parity.largest_difference <= 1e-6
        verification = verify_model(
            small.engine, small.store, done.model, small.index, limits=ProofLimits(tolerance=1e-6)
        )
        assert verification.drift == ()
        (_, models, recorded) = state(small)
        assert (models, recorded) == ([done.model], [True])
        with pytest.raises(Refused, match="scores differently"):
            put(liar(small), replace(trees(), base=3.0))
        assert state(small)[1] == [done.model]


@pytest.mark.parametrize("flagged", [False, True])
def test_what_derives_from_a_missing_feature_is_emulated_as_it_is_served(
    flagged: bool, live: Live
) -> None:
    text = Feature("title", ("keywords",), {"match": {"title": "{{keywords}}"}})
    derived = Feature("derived", (), "title * 2 + 1", DERIVED)
    featureset = FeatureSet("derived", (text, derived))
    live.store.put_featureset(featureset)
    leaves = [{"nodeid": 1, "leaf": 1.0}, {"nodeid": 2, "leaf": 2.0}]
    split = {"nodeid": 0, "depth": 0, "split": "derived", "split_condition": 1.5,
             "yes": 1, "no": 2, "missing": 2, "children": leaves}  # fmt: skip
    flag = {"missing_as_zero": True} if flagged else {}
    if flagged and not live.profile.missing_as_zero:
        pytest.skip(f"{live.profile} does not know missing_as_zero")
    definition = {"objective": "rank:pairwise", "splits": [split], **flag}
    stored = StoredModel(f"derived-{flagged}", XGBOOST, definition, featureset)
    assert live.taken(stored)
    features = live.features(featureset)
    assert np.isnan(features[:, 0]).any()
    assert not np.isnan(features[:, 1]).any()
    assert live.scores(stored) == emulate(stored, features, live.profile).tolist()
