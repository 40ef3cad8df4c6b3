"""Models of the LTR plugin: created and read as recorded, and scored as ours are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.formats.ltr_plugin import export_linear, import_linear
from owpc_ltr.formats.stored_model import StoredModel
from tests.engine.fake_engine import Reply
from tests.engine.recorded import REFUSALS, Exchange, answer_of_model, featureset_of, stored

PARAMS = {"keywords": "alpha beta", "tag": "x"}
LINEAR = {
    "title_bm25": 1.25,
    "body_bm25": 0.5,
    "pop": 0.01,
    "n": -0.3,
    "phrase": 0.7,
    "tag_is": 0.2,
}


LINEAR_MODELS = ["072", "074", "076", "078"]


@pytest.mark.parametrize("number", LINEAR_MODELS)
def test_a_model_is_created_as_recorded_and_read_back(
    number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, number)
    engine, server = replay("032", number, answer_of_model(protocol, model))
    LtrPluginStore(engine).put_model(model)
    assert not server.unexpected
    assert [asked.method for asked in server.fake.requests] == ["GET", "POST", "GET"]


def test_a_model_in_another_store_is_created_there(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, "213")
    there = [
        Exchange(e.method, e.path.replace("/_ltr/", "/_ltr/other/"), {}, None, e.status, e.answer)
        for e in (protocol["032"], answer_of_model(protocol, model))
    ]
    engine, server = replay(*there, "213")
    LtrPluginStore(engine, "other").put_model(model)
    assert not server.unexpected


def test_the_recorded_model_is_read_whole(protocol: dict[str, Exchange], replay: Any) -> None:
    engine, _ = replay("216")
    model = LtrPluginStore(engine).get_model("lin_norm")
    assert model == stored(protocol, "078")
    assert import_linear(model).normalisers["pop"].shift == 50.0


@pytest.mark.parametrize("number", ["080", "081", "083", "085", "086", "087", "088", "089", "090"])
def test_a_model_that_the_plugin_refuses_is_refused_with_its_reason(
    number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, number)
    engine, server = replay("032", number)
    with pytest.raises(Refused) as error:
        LtrPluginStore(engine).put_model(model)
    assert REFUSALS[number] in str(error.value)
    assert not server.unexpected


@pytest.mark.parametrize("equal", [True, False])
def test_a_name_that_is_taken_is_success_only_for_the_same_model(
    equal: bool, protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, "084")
    there = model if equal else stored(protocol, "076")
    kept = StoredModel(model.name, there.type, there.definition, there.featureset)
    engine, server = replay("032", "084", answer_of_model(protocol, kept))
    if equal:
        LtrPluginStore(engine).put_model(model)
    else:
        with pytest.raises(Refused, match="a name is never used again"):
            LtrPluginStore(engine).put_model(model)
    assert not server.unexpected


def test_a_model_without_its_feature_set_or_with_a_changed_one_is_refused(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, "072")
    absent = Exchange("GET", "/_ltr/_featureset/fs1", {}, None, 404, protocol["033"].answer)
    engine, server = replay(absent, "072")
    with pytest.raises(BadInput, match="'fs1'"):
        LtrPluginStore(engine).put_model(model)
    changed = json.loads(json.dumps(protocol["032"].answer))
    changed["_source"]["featureset"]["features"][1]["template"] = {"match_all": {}}
    engine, server = replay(Exchange("GET", "/_ltr/_featureset/fs1", {}, None, 200, changed), "072")
    with pytest.raises(Refused, match="'body_bm25' changed"):
        LtrPluginStore(engine).put_model(model)
    assert not server.fake.asked("POST", "/_ltr/_featureset/fs1/_createmodel")


RESCORED = [("072", "073"), ("076", "077"), ("078", "079"), ("072", "238")]


@pytest.mark.parametrize(("created", "rescored"), RESCORED)
def test_rescoring_asks_as_recorded_and_scores_as_our_model(
    created: str, rescored: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, created)
    engine, _ = replay()
    (clause,) = LtrPluginStore(engine).rescore(model, PARAMS, 400)
    assert clause == protocol[rescored].body["rescore"]
    store, featureset = LtrPluginStore(engine), featureset_of(protocol["029"])
    hits = protocol["071"].answer["hits"]["hits"]
    features = np.array([store.features_of(featureset, hit) for hit in hits], dtype=np.float32)
    ours = dict(
        zip((hit["_id"] for hit in hits), import_linear(model).score(features), strict=True)
    )
    for hit in protocol[rescored].answer["hits"]["hits"]:
        assert ours[hit["_id"]] == pytest.approx(hit["_score"], rel=2e-6, abs=2e-7)


def test_export_gives_the_recorded_definition(protocol: dict[str, Exchange]) -> None:
    """What export_linear writes is what the plugin accepted, also for its normalisers."""
    recorded = stored(protocol, "078")
    ours = export_linear(import_linear(recorded), recorded.featureset, "lin_norm")
    assert ours.type == recorded.type
    assert ours.feature_normalizers == recorded.feature_normalizers
    assert ours.definition == pytest.approx(LINEAR, rel=1e-7)
    assert ours.definition.keys() == recorded.definition.keys()


def test_a_lost_answer_to_a_creation_is_read_back(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    """Stored, then the connection breaks; the retry meets a name that is taken, by us."""
    model = stored(protocol, "072")
    engine, server = replay("032", answer_of_model(protocol, model))
    path = "/_ltr/_featureset/fs1/_createmodel"
    taken = Reply(protocol["084"].answer, protocol["084"].status)
    server.fake.on("POST", path, Reply({}, reset=True), taken)
    LtrPluginStore(engine).put_model(model)
    assert len(server.fake.asked("POST", path)) == 2
