"""The LTR plugin's stores, feature sets and logged features: requests and answers as recorded."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrError
from owpc_ltr.engine.stores import choose_store
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.expressions import compile_expression
from owpc_ltr.features.feature_set import FeatureSet
from tests.engine.memory_engine import whole
from tests.engine.recorded import REFUSALS, Exchange, featureset_of, with_name


@pytest.mark.parametrize(("store", "number"), [(None, "029"), (None, "044"), ("other", "050")])
def test_a_feature_set_is_put_as_recorded(
    store: str | None, number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    name = protocol[number].path.rpartition("/")[2]
    engine, server = replay(with_name(protocol[number], name))
    LtrPluginStore(engine, store).put_featureset(featureset_of(protocol[number], name))
    assert not server.unexpected


def test_putting_an_equal_set_again_is_success_and_another_one_is_refused(
    protocol: dict[str, Exchange], replay: Any
) -> None:
    featureset = featureset_of(protocol["030"])
    engine, server = replay("030", "032")
    LtrPluginStore(engine).put_featureset(featureset)
    assert not server.unexpected
    other = FeatureSet("fs1", featureset.features[:3])
    taken = Exchange(
        "PUT", "/_ltr/_featureset/fs1", {}, other.to_body(), 409, protocol["030"].answer
    )
    engine, server = replay(taken, "032")
    with pytest.raises(Refused, match="another feature set 'fs1'"):
        LtrPluginStore(engine).put_featureset(other)
    assert not server.unexpected


def test_replacing_a_set_is_a_post(protocol: dict[str, Exchange], replay: Any) -> None:
    engine, server = replay("031")
    LtrPluginStore(engine).put_featureset(featureset_of(protocol["031"]), replace=True)
    assert not server.unexpected


@pytest.mark.parametrize("number", ["004", "038", "040", "041", "042"])
def test_a_set_that_the_plugin_refuses_is_refused_with_its_reason(
    number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    name = protocol[number].path.rpartition("/")[2]
    engine, server = replay(with_name(protocol[number], name))
    with pytest.raises(Refused) as error:
        LtrPluginStore(engine).put_featureset(featureset_of(protocol[number], name))
    assert REFUSALS[number] in str(error.value)
    assert not server.unexpected


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
    assert not server.unexpected


MODELS = whole([{"_id": f"model-{name}", "_source": {"name": name}} for name in "ba"], 2)


@pytest.mark.parametrize(
    ("act", "number"), [("get_featureset", "033"), ("get_model", "217"), ("delete_model", "233")]
)
def test_what_is_not_there_is_bad_input(
    act: str, number: str, protocol: dict[str, Exchange], replay: Any
) -> None:
    engine, server = replay(number)
    name = protocol[number].path.rpartition("/")[2]
    with pytest.raises(BadInput, match=f"'{name}'"):
        getattr(LtrPluginStore(engine), act)(name)
    assert not server.unexpected


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
    assert not server.unexpected
    assert [asked.path for asked in server.fake.requests][1:] == ["/.ltrstore/_refresh"]


def test_a_cluster_where_nothing_was_pushed_lists_nothing(replay: Any) -> None:
    reason = {"type": "index_not_found_exception", "reason": "no such index [.ltrstore]"}
    for what in ("featureset", "model"):
        absent = Exchange("GET", f"/_ltr/_{what}", {}, None, 404, {"error": reason})
        assert getattr(LtrPluginStore(replay(absent)[0]), f"list_{what}s")() == []


PARAMS = {"keywords": "alpha beta", "tag": "x"}


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


def test_derived_features_are_computed_as_the_plugin_does(protocol: dict[str, Exchange]) -> None:
    derived = compile_expression("title_bm25 * 2 + ln(1 + n) * boostp")
    for hit in protocol["053"].answer["hits"]["hits"]:
        values = {e["name"]: e.get("value", 0.0) for e in hit["fields"]["_ltrlog"][0]["main"]}
        expected = np.float32(values["derived"])
        assert np.float32(derived({**values, "boostp": 0.5})) == expected


def test_the_cluster_tells_that_it_has_the_plugin(replay: Any) -> None:
    about = {
        "cluster_name": "c",
        "cluster_uuid": "u",
        "version": {"number": "3.8.0", "distribution": "opensearch"},
    }
    engine, server = replay("001", Exchange("GET", "/", {}, None, 200, about))
    assert choose_store(engine).kind == "ltr-plugin"
    assert choose_store(engine, "plugin-free").kind == "plugin-free"
    assert not server.unexpected


@pytest.mark.parametrize(
    ("name", "numbers"), [(None, ["005"]), (None, ["006"]), ("other", ["007"])]
)
def test_preparing_a_store_twice_is_harmless(
    name: str | None, numbers: list[str], replay: Any
) -> None:
    engine, server = replay(*numbers)
    LtrPluginStore(engine, name).prepare()
    assert not server.unexpected
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
