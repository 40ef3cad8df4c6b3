"""Feature sets of the LTR plugin: our requests are the recorded ones, its noes are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet
from tests.engine.recorded import (
    REFUSALS,
    Exchange,
    featureset_of,
    with_name,
)


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
