"""Features that the LTR plugin logs: asked for as recorded, and exactly those or a no."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import Refused
from owpc_ltr.features.expressions import compile_expression
from tests.engine.recorded import (
    Exchange,
    featureset_of,
)

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
