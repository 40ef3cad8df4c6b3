"""Every recorded answer of the LTR plugin is understood, and every refusal rejected here first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores import check_window
from owpc_ltr.engine.stores.feature_queries import check_params
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.features.feature_set import load_featureset
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.stored_model import StoredModel, serving_profile
from owpc_ltr.names import check_name, check_store
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.memory_engine import find
from tests.engine.recorded import REFUSALS, Exchange, answer_of_model, featureset_of, stored

Protocol = dict[str, Exchange]
PROFILE = replace(serving_profile("opensearch", "3.8.0"), missing_as_zero=True)


def a_store(exchange: Exchange, _: Protocol) -> object:
    return check_store(exchange.path.removeprefix("/_ltr/"))


def a_set(exchange: Exchange, _: Protocol) -> object:
    return load_featureset(json.dumps(exchange.body), name="fs")


def a_feature(exchange: Exchange, _: Protocol) -> object:
    """A feature goes into an engine as part of a set, which is read from a file."""
    text = exchange.body
    if isinstance(text, dict):
        text = json.dumps({"featureset": {"name": "fs", "features": [text["feature"]]}})
    return load_featureset(text or "")


def the_params(exchange: Exchange, protocol: Protocol) -> object:
    given = find(exchange.body, "sltr").get("params", {})
    return check_params(featureset_of(protocol["029"]), given)


def the_window(exchange: Exchange, _: Protocol) -> object:
    return check_window(find(exchange.body, "window_size"))


def the_models_name(exchange: Exchange, _: Protocol) -> object:
    return check_name("model", exchange.body["model"].get("name", ""))


def a_model(exchange: Exchange, protocol: Protocol) -> object:
    body = exchange.body
    ranker = (json.loads(body) if isinstance(body, str) else body)["model"]["model"]
    featureset = featureset_of(protocol["029"])
    normalisers = ranker.get("feature_normalizers") or {}
    stored = StoredModel("m", ranker["type"], ranker["definition"], featureset, normalisers)
    return emulate(stored, np.zeros((1, len(featureset.features)), np.float32), PROFILE)


FORESEEN: dict[str, Callable[[Exchange, Protocol], object]] = {
    **dict.fromkeys(("008", "009"), a_store),
    **dict.fromkeys(("022", "023", "024", "025"), a_feature),
    **dict.fromkeys(("035", "037", "041", "042"), a_set),
    **dict.fromkeys(("058", "059", "201"), the_params),
    "203": the_window,
    "095": the_models_name,
    **dict.fromkeys(("080", "081", "082", "083", "085", "086", "087", "089", "090"), a_model),
    **dict.fromkeys(("144", "147", "173", "174", "175", "176", "177", "190", "191"), a_model),
    # The search that fails is that of a model which the engine took.
    "193": lambda _, protocol: a_model(protocol["192"], protocol),
}
OF_THE_CLUSTER = {
    "a store that is not there": ("002", "004", "062", "240"),
    "a store that is there": ("006",),
    "a set that is not there": ("033", "061", "091"),
    "a set that is there": ("030",),
    "an index that is not there": ("040",),
    "a query that this engine's own parser does not know": ("038", "070"),
    "a model that is not there": ("069", "215", "217", "233", "234"),
    "a model that is there": ("084",),
    "a plugin that is switched off": ("229", "230"),
}
NEVER_ASKED = {
    "a range that begins below 0, which is imported, and stored as a mean and a spread": ("088",),
    "features outside a set": ("015", "019", "021", "026"),
    "sets that grow": ("047", "049"),
    "features by name, of another set than the one that is asked": ("057",),
    "logs of another form than the one there is": ("064", "065", "066"),
    "an sltr without a model or a set": ("068",),
    "models without their type, definition or name": ("092", "093", "094"),
    "models as XGBoost's own files": (
        *("122", "140", "143", "145", "146", "160", "163", "178", "179"),
    ),
    "dumps with statistics, or with an objective that orders as another does": ("121", "139"),
    "models with a validation of their own: their set was tried": ("097",),
    "models made without their set in the store": ("099",),
    "stores by POST, and statistics by another path": ("010", "220", "223"),
}


@pytest.mark.parametrize("number", FORESEEN)
def test_a_refusal_that_is_in_the_request_is_foreseen(number: str, protocol: Protocol) -> None:
    with pytest.raises((BadInput, UsageError)) as error:
        FORESEEN[number](protocol[number], protocol)
    assert str(error.value).isprintable()


def test_what_was_not_refused_is_not_foreseen_to_be(protocol: Protocol) -> None:
    for check, numbers in {
        a_store: ("007",),
        a_set: ("029", "044"),
        a_feature: ("014",),
        the_params: ("051", "060", "073"),
        the_window: ("073",),
        the_models_name: ("072",),
        a_model: ("072", "078", "101", "187"),
    }.items():
        for number in numbers:
            check(protocol[number], protocol)


def test_each_recorded_refusal_stands_in_one_of_the_three_tables() -> None:
    others: list[str] = []
    for table in (OF_THE_CLUSTER, NEVER_ASKED):
        others += [number for numbers in table.values() for number in numbers]
    assert sorted([*FORESEEN, *others]) == sorted(REFUSALS)


def test_our_own_requests_have_none_of_the_forms_that_are_never_asked(
    protocol: Protocol, replay: Any
) -> None:
    model = stored(protocol, "072")
    engine, server = replay("005", "029", "032", "072", answer_of_model(protocol, model))
    store = LtrPluginStore(engine)
    store.prepare()
    store.put_featureset(featureset_of(protocol["029"], "fs1"))
    store.put_model(model)
    asked = [(what.method, what.path) for what in server.fake.requests]
    assert asked == [
        ("PUT", "/_ltr"),
        ("PUT", "/_ltr/_featureset/fs1"),
        ("GET", "/_ltr/_featureset/fs1"),
        ("POST", "/_ltr/_featureset/fs1/_createmodel"),
        ("GET", "/_ltr/_model/lin"),
    ]
    made = server.fake.requests[3].body
    assert made.keys() == {"model"}
    assert made["model"].keys() == {"name", "model"}
    assert made["model"]["model"].keys() == {"type", "definition"}
    # The set's own validation was tried when it was pushed.
    search = store.log_search(model.featureset, {"keywords": "a", "tag": "x"}, ["0"])
    assert search.body["ext"] == protocol["051"].body["ext"]
    assert find(search.body, "sltr").keys() == {"_name", "featureset", "params"}


def test_every_recorded_answer_is_understood(protocol: dict[str, Exchange]) -> None:
    """A yes gives what was recorded, a no its words; none passes for the other."""
    wrong = []
    with FakeEngine() as fake:
        engine = Engine(ConnectionSettings(fake.url))
        for number, exchange in protocol.items():
            if exchange.method == "HEAD":
                continue  # the client sends none
            path = quote(exchange.path)
            for method in ("GET", "PUT", "POST", "DELETE"):
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
