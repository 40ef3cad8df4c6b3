"""The plugin's stores, as recorded: found, made once, and named safely."""

from __future__ import annotations

from typing import Any

import pytest

from owpc_ltr.engine.stores import choose_store
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import OwpcLtrError
from tests.engine.recorded import (
    Exchange,
)


def test_the_cluster_tells_that_it_has_the_plugin(replay: Any) -> None:
    about = {
        "cluster_name": "c",
        "cluster_uuid": "u",
        "version": {"number": "3.8.0", "distribution": "opensearch"},
    }
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
