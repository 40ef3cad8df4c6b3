"""The LTR plugin's recorded exchanges: our requests are those, and every answer is understood."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from owpc_ltr.engine.client import Engine, EngineRefusal
from owpc_ltr.engine.connection import ConnectionSettings
from owpc_ltr.engine.exporters import export_linear, import_linear
from owpc_ltr.engine.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores import StoredModel, choose_store
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.expressions import compile_expression
from owpc_ltr.featureset import FeatureSet
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.recorded import (
    REFUSALS,
    Exchange,
    Replay,
    featureset_of,
    found,
    load_exchanges,
    stored,
    with_name,
)

PARAMS = {"keywords": "alpha beta", "tag": "x"}
LINEAR = {
    "title_bm25": 1.25,
    "body_bm25": 0.5,
    "pop": 0.01,
    "n": -0.3,
    "phrase": 0.7,
    "tag_is": 0.2,
}


@pytest.fixture(scope="session")
def protocol(shared_data: Path) -> dict[str, Exchange]:
    folder = shared_data.parent / "protocol" / "ltr-plugin"
    if not folder.is_dir():
        pytest.skip(f"no recorded exchanges at {folder}")
    return load_exchanges(folder)


@pytest.fixture
def replay(protocol: dict[str, Exchange]) -> Iterator[Callable[..., tuple[Engine, Replay]]]:
    """Call it with the numbers of the exchanges that may happen."""
    with FakeEngine() as fake:
        engine = Engine(ConnectionSettings(fake.url))

        def make(*numbers: str | Exchange) -> tuple[Engine, Replay]:
            found = [protocol[n] if isinstance(n, str) else n for n in numbers]
            server = Replay(fake, found)
            for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
                fake.on(method, "*", server)
            return engine, server

        yield make
        engine.close()


# --- every answer


def test_every_recorded_answer_is_understood(protocol: dict[str, Exchange]) -> None:
    """A yes gives what was recorded, a no its words; none passes for the other."""
    wrong = []
    with FakeEngine() as fake:
        engine = Engine(ConnectionSettings(fake.url))
        for number, exchange in protocol.items():
            path = quote(exchange.path)
            for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
                fake.on(method, "*", Reply(exchange.answer, exchange.status))
            body = exchange.body if isinstance(exchange.body, dict) else None
            try:
                answer = engine.request(exchange.method, path, params=exchange.params, body=body)
            except EngineRefusal as refusal:
                line = str(refusal)
                words = REFUSALS.get(number, "\0")
                good = words in line and line.isprintable() and refusal.status == exchange.status
            else:
                good = number not in REFUSALS and answer == exchange.answer
            if not good:
                wrong.append(number)
        engine.close()
    assert wrong == []
    assert len(protocol) == 243


def test_all_refusals_of_the_table_were_recorded(protocol: dict[str, Exchange]) -> None:
    assert {n for n, exchange in protocol.items() if exchange.status >= 400} == set(REFUSALS)


# --- stores


def test_the_cluster_tells_that_it_has_the_plugin(replay: Any) -> None:
    about = {"cluster_name": "c", "cluster_uuid": "u", "version": {"number": "3.8.0"}}
    engine, server = replay("001", Exchange("GET", "/", {}, None, 200, about))
    assert choose_store(engine).kind == "ltr-plugin"
    assert choose_store(engine, "plugin-free").kind == "plugin-free"
    assert not server.strangers


@pytest.mark.parametrize(
    ("name", "numbers"), [(None, ["005"]), (None, ["006"]), ("other", ["007"])]
)
def test_preparing_a_store_twice_is_harmless(
    name: str | None, numbers: list[str], replay: Any
) -> None:
    engine, server = replay(*numbers)
    LtrPluginStore(engine, name).prepare()
    assert not server.strangers
    assert len(server.fake.requests) == 1


@pytest.mark.parametrize("name", ["_bad", "BadName", "a,b", "*", "..", ""])
def test_names_that_the_plugin_would_refuse_or_mistake_are_not_sent(name: str, replay: Any) -> None:
    engine, server = replay()
    with pytest.raises(OwpcLtrError):
        LtrPluginStore(engine, name)
    for act in ("get_featureset", "delete_featureset", "get_model", "delete_model"):
        if name not in {"BadName"}:
            with pytest.raises(OwpcLtrError):
                getattr(LtrPluginStore(engine), act)(name)
    assert not server.fake.requests


# --- feature sets


@pytest.mark.parametrize(("store", "number"), [(None, "029"), (None, "044"), ("other", "050")])
def test_a_feature_set_is_put_as_recorded(
    store: str | None, number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    name = protocol[number].path.rpartition("/")[2]
    engine, server = replay(with_name(protocol[number], name))
    LtrPluginStore(engine, store).put_featureset(featureset_of(protocol[number], name))
    assert not server.strangers


def test_putting_an_equal_set_again_is_success_and_another_one_is_refused(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    featureset = featureset_of(protocol["030"])
    engine, server = replay("030", "032")
    LtrPluginStore(engine).put_featureset(featureset)
    assert not server.strangers
    other = FeatureSet("fs1", featureset.features[:3])
    taken = Exchange(
        "PUT", "/_ltr/_featureset/fs1", {}, other.to_body(), 409, protocol["030"].answer
    )
    engine, server = replay(taken, "032")
    with pytest.raises(Refused, match="another feature set 'fs1'"):
        LtrPluginStore(engine).put_featureset(other)
    assert not server.strangers


def test_replacing_a_set_is_a_post(protocol: dict[str, Exchange], replay: Any) -> None:
    engine, server = replay("031")
    LtrPluginStore(engine).put_featureset(featureset_of(protocol["031"]), replace=True)
    assert not server.strangers


@pytest.mark.parametrize("number", ["004", "038", "040", "041", "042"])
def test_a_set_that_the_plugin_refuses_is_refused_with_its_reason(
    number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    name = protocol[number].path.rpartition("/")[2]
    engine, server = replay(with_name(protocol[number], name))
    with pytest.raises(Refused) as error:
        LtrPluginStore(engine).put_featureset(featureset_of(protocol[number], name))
    assert REFUSALS[number] in str(error.value)
    assert not server.strangers


def test_a_validation_without_a_parameter_is_not_even_sent(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    engine, server = replay()
    with pytest.raises(BadInput, match="'tag'"):
        LtrPluginStore(engine).put_featureset(featureset_of(protocol["037"], "fsv"))
    assert not server.fake.requests


def test_a_stored_set_is_the_one_that_was_put(protocol: dict[str, Exchange], replay: Any) -> None:
    engine, _ = replay("032")
    kept = LtrPluginStore(engine).get_featureset("fs1")
    assert kept == featureset_of(protocol["029"])
    assert kept.hash == featureset_of(protocol["029"]).hash


def test_lists_are_names(replay: Any) -> None:
    engine, server = replay("034")
    assert LtrPluginStore(engine).list_featuresets() == ["fs1"]
    models = Exchange("GET", "/_ltr/_model", {}, None, 200, {})
    engine, server = replay(models)
    server.exchanges[0].answer.update(json.loads(json.dumps(MODELS)))
    assert LtrPluginStore(engine).list_models() == ["a", "b"]
    assert not server.strangers


MODELS = {
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "failed": 0},
    "hits": {
        "total": {"value": 2, "relation": "eq"},
        "hits": [{"_source": {"name": "b"}}, {"_source": {"name": "a"}}],
    },
}


@pytest.mark.parametrize(
    ("act", "number"),
    [("get_featureset", "033"), ("get_model", "217"), ("delete_model", "233")],
)
def test_what_is_not_there_is_bad_input(
    act: str, number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    engine, server = replay(number)
    name = protocol[number].path.rpartition("/")[2]
    with pytest.raises(BadInput, match=f"'{name}'"):
        getattr(LtrPluginStore(engine), act)(name)
    assert not server.strangers


@pytest.mark.parametrize(
    ("act", "name", "number"),
    [
        ("delete_model", "lin_str", "232"),
        ("delete_featureset", "fs3", "235"),
        ("delete_featureset", "fs1", "237"),
    ],
)
@pytest.mark.parametrize("closed", [False, True])
def test_deleting_is_as_recorded_and_seen_in_lists_at_once(
    act: str, name: str, number: str, closed: bool, replay: Any
) -> None:
    """The plugin does not refresh its index; where that is closed to users, nothing is lost."""
    status = 403 if closed else 200
    engine, server = replay(
        number, Exchange("POST", "/.ltrstore/_refresh", {}, None, status, {"error": "no"})
    )
    getattr(LtrPluginStore(engine), act)(name)
    assert not server.strangers
    assert [asked.path for asked in server.fake.requests][1:] == ["/.ltrstore/_refresh"]


def test_a_cluster_where_nothing_was_pushed_lists_nothing(replay: Any) -> None:
    reason = {"type": "index_not_found_exception", "reason": "no such index [.ltrstore]"}
    for what in ("featureset", "model"):
        absent = Exchange("GET", f"/_ltr/_{what}", {}, None, 404, {"error": reason})
        assert getattr(LtrPluginStore(replay(absent)[0]), f"list_{what}s")() == []


# --- logging


@pytest.mark.parametrize(("store", "number"), [(None, "051"), ("other", "063"), (None, "071")])
def test_logging_asks_as_recorded_for_these_documents_only(
    store: str | None, number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    engine, _ = replay()
    search = LtrPluginStore(engine, store).log_search(
        featureset_of(protocol["029"]), {**PARAMS, "other": 1}, ["0", "1"]
    )
    recorded = protocol[number].body
    ids, sltr = search.body["query"]["bool"]["filter"]
    assert ids == {"ids": {"values": ["0", "1"]}}
    assert [sltr] == recorded["query"]["bool"]["filter"]
    assert search.body["ext"] == recorded["ext"]
    assert search.body["_source"] is recorded["_source"] is False
    assert search.body["size"] == 2
    assert search.params == {}


def test_logged_values_come_in_order_and_missing_ones_are_not_zero(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    store = LtrPluginStore(replay()[0])
    featureset = featureset_of(protocol["029"])
    hits = protocol["071"].answer["hits"]["hits"]
    assert len(hits) == 400
    for hit in hits:
        values = store.features_of(featureset, hit)
        for value, entry in zip(values, hit["fields"]["_ltrlog"][0]["main"], strict=True):
            assert math.isnan(value) if "value" not in entry else value == entry["value"]
    assert any(math.isnan(value) for hit in hits for value in store.features_of(featureset, hit))


def test_a_feature_that_is_no_number_is_not_taken_for_a_missing_one(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    featureset = featureset_of(protocol["205"], "fsnan")
    with pytest.raises(Refused, match="'nanf'"):
        LtrPluginStore(replay()[0]).features_of(
            featureset, protocol["206"].answer["hits"]["hits"][0]
        )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda hit: hit.pop("fields"),
        lambda hit: hit["fields"].pop("_ltrlog"),
        lambda hit: hit["fields"]["_ltrlog"].clear(),
        lambda hit: hit["fields"]["_ltrlog"][0].pop("main"),
        lambda hit: hit["fields"]["_ltrlog"][0]["main"].pop(),
        lambda hit: hit["fields"]["_ltrlog"][0]["main"].reverse(),
        lambda hit: hit["fields"]["_ltrlog"][0]["main"].append({"name": "x", "value": 1.0}),
        lambda hit: hit["fields"]["_ltrlog"][0]["main"][0].update(name="renamed"),
        lambda hit: hit["fields"]["_ltrlog"][0]["main"][0].update(value=None),
        lambda hit: hit["fields"]["_ltrlog"][0]["main"][0].update(value="1.0"),
        lambda hit: hit["fields"]["_ltrlog"][0]["main"][0].update(value=True),
    ],
)
def test_an_answer_without_exactly_the_features_is_refused(
    spoil: Callable[[Any], object], protocol: dict[str, Exchange], replay: Any
) -> None:
    hit = json.loads(json.dumps(protocol["051"].answer["hits"]["hits"][0]))
    store, featureset = LtrPluginStore(replay()[0]), featureset_of(protocol["029"])
    store.features_of(featureset, hit)
    spoil(hit)
    with pytest.raises(Refused):
        store.features_of(featureset, hit)


def test_derived_features_are_computed_as_the_plugin_does(
    protocol: dict[str, Exchange],
) -> None:
    derived = compile_expression("title_bm25 * 2 + ln(1 + n) * boostp")
    for hit in protocol["053"].answer["hits"]["hits"]:
        values = {e["name"]: e.get("value", 0.0) for e in hit["fields"]["_ltrlog"][0]["main"]}
        expected = np.float32(values["derived"])
        assert np.float32(derived({**values, "boostp": 0.5})) == expected


# --- models

LINEAR_MODELS = ["072", "074", "076", "078"]


@pytest.mark.parametrize("number", LINEAR_MODELS)
def test_a_model_is_created_as_recorded_and_read_back(
    number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, number)
    engine, server = replay("032", number, found(protocol, model))
    LtrPluginStore(engine).put_model(model)
    assert not server.strangers
    assert [asked.method for asked in server.fake.requests] == ["GET", "POST", "GET"]


def test_a_model_in_another_store_is_created_there(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, "213")
    there = [
        Exchange(e.method, e.path.replace("/_ltr/", "/_ltr/other/"), {}, None, e.status, e.answer)
        for e in (protocol["032"], found(protocol, model))
    ]
    engine, server = replay(*there, "213")
    LtrPluginStore(engine, "other").put_model(model)
    assert not server.strangers


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
    assert not server.strangers


@pytest.mark.parametrize("equal", [True, False])
def test_a_name_that_is_taken_is_success_only_for_the_same_model(
    equal: bool, protocol: dict[str, Exchange], replay: Any
) -> None:
    model = stored(protocol, "084")
    there = model if equal else stored(protocol, "076")
    kept = StoredModel(model.name, there.type, there.definition, there.featureset)
    engine, server = replay("032", "084", found(protocol, kept))
    if equal:
        LtrPluginStore(engine).put_model(model)
    else:
        with pytest.raises(Refused, match="a name is never used again"):
            LtrPluginStore(engine).put_model(model)
    assert not server.strangers


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
    engine, server = replay("032", found(protocol, model))
    path = "/_ltr/_featureset/fs1/_createmodel"
    taken = Reply(protocol["084"].answer, protocol["084"].status)
    server.fake.on("POST", path, Reply({}, reset=True), taken)
    LtrPluginStore(engine).put_model(model)
    assert len(server.fake.asked("POST", path)) == 2
