"""Which engine answers, and whether it is one."""

from __future__ import annotations

from typing import Any

import pytest

from owpc_ltr.engine.client.engine import About, Engine
from owpc_ltr.errors import EngineUnavailable
from tests.engine.client.asking import one_line
from tests.engine.fake_engine import FakeEngine, Reply

ABOUT = {
    "opensearch": {
        "cluster_name": "c",
        "cluster_uuid": "u",
        "version": {"distribution": "opensearch", "number": "3.8.0"},
    },
    "elasticsearch": {
        "cluster_name": "c",
        "cluster_uuid": "u",
        "version": {"number": "8.19.0", "build_flavor": "default"},
        "tagline": "You Know, for Search",
    },
}


@pytest.mark.parametrize("distribution", ABOUT)
def test_both_distributions_are_known(distribution: str, fake: FakeEngine, engine: Engine) -> None:
    fake.on("GET", "/", ABOUT[distribution])
    fake.on("GET", "/_cat/plugins", [{"name": "n", "component": "ltr", "version": "1"}], [])
    identity = engine.identity()
    assert (identity.distribution, identity.has_ltr) == (distribution, True)
    assert (identity.cluster, identity.uuid, identity.plugins) == ("c", "u", ("ltr",))
    assert not engine.identity().has_ltr


@pytest.mark.parametrize("about", [[], {"version": "3"}, {"version": {}}, "hello"])
def test_another_json_server_is_not_taken_for_an_engine(
    about: Any, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about)
    fake.on("GET", "/_cat/plugins", [])
    with pytest.raises(EngineUnavailable) as error:
        engine.identity()
    one_line(error)


def test_a_node_without_the_module_that_introduces_it_is_known_by_its_nodes(
    fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", Reply({"error": "Incorrect HTTP method for uri [/]"}, 405))
    node = {"version": "9.2.0", "build_flavor": "default"}
    fake.on("GET", "/_nodes/_local/http", {"cluster_name": "c", "nodes": {"n": node}})
    fake.on("GET", "/_cluster/state/version", {"cluster_uuid": "u"})
    assert engine.about() == About("elasticsearch", "9.2.0", "c", "u")
    del node["build_flavor"]
    fake.on("GET", "/_nodes/_local/http", {"cluster_name": "c", "nodes": {"n": node}})
    assert engine.about().distribution == "opensearch"
    fake.on("GET", "/_nodes/_local/http", {"nodes": {}})
    with pytest.raises(EngineUnavailable, match="check the address"):
        engine.about()
