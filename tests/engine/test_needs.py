"""What an engine must have without the plugin: said first, asked late, and of the engine itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import NotAllowed
from owpc_ltr.engine.client.settings import ConnectionSettings, Credentials, Secret
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.search.request import search_request
from owpc_ltr.engine.stores import choose_store
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import Refused, UsageError
from tests.engine.documents import PARAMS, QUERIES, featureset_of
from tests.engine.fake_engine import FakeEngine, Reply

LIMIT = "indices.query.bool.max_clause_count"


def about(version: str, distribution: str) -> dict[str, Any]:
    """What `GET /` answers."""
    told = {"number": version}
    if distribution != "elasticsearch":
        told["distribution"] = distribution
    return {"version": told, "cluster_name": "c", "cluster_uuid": "u"}


def forbidden(action: str) -> Reply:
    """A no of the engine's own security, which names the right that is lacking."""
    reason = f"action [{action}] is unauthorized for user [eve]"
    error = {"type": "security_exception", "reason": reason}
    return Reply({"error": {**error, "root_cause": [error]}, "status": 403}, 403)


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine() as server:
        yield server


@pytest.fixture
def engine(fake: FakeEngine) -> Iterator[Engine]:
    made = Engine(ConnectionSettings(fake.url, Credentials("the test", Secret("Basic x"))))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("distribution", "version", "takes"),
    [
        ("elasticsearch", "8.14.3", False),
        ("elasticsearch", "8.15.0", True),
        ("elasticsearch", "9.2.0", True),
        ("opensearch", "3.8.0", False),
        ("opensearch", "a build of ours", True),
    ],
)
def test_only_an_engine_that_cannot_collapse_what_it_rescores_is_refused(
    distribution: str, version: str, takes: bool, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about(version, distribution))
    query = {"query": {"match": {"title": "{{keywords}}"}}, "collapse": {"field": "maker"}}
    cluster = Cluster(engine, "plugin-free")
    asked_for = partial(search_request, cluster, "a", index="docs")
    assert asked_for(query_template={"query": query["query"]}).rest == {}
    assert not fake.requests, "who does not collapse needs no right to ask for the version"
    if takes:
        found = asked_for(query_template=query)
        assert found.filters == {"collapse": {"field": "maker"}}
        return
    with pytest.raises(UsageError, match=f"{version} does not collapse .* leave it out"):
        asked_for(query_template=query)


@pytest.mark.parametrize(
    ("distribution", "version", "name"),
    [
        ("elasticsearch", "7.17.9", "Elasticsearch 7.17.9"),
        ("elasticsearch", "8.7.1", "Elasticsearch 8.7.1"),
        ("opensearch", "2.8.0", "OpenSearch 2.8.0"),
        ("opensearch", "2.12.1", "OpenSearch 2.12.1"),
    ],
)
@pytest.mark.parametrize("kind", [None, "plugin-free"])
def test_an_engine_that_is_too_old_is_told_so_before_anything_else(
    kind: str | None, distribution: str, version: str, name: str, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about(version, distribution))
    fake.on("GET", "/_cat/plugins", [])
    told = f"{name} is too old to do without the LTR plugin: that needs OpenSearch 2.13 or "
    with pytest.raises(Refused, match=re.escape(told) + r"Elasticsearch 8\.8 or later; [^\n]*$"):
        choose_store(engine, kind)
    assert {request.path for request in fake.requests} <= {"/", "/_cat/plugins"}


@pytest.mark.parametrize(
    ("distribution", "version"),
    [
        ("elasticsearch", "8.8.0"),
        ("elasticsearch", "9.5.2"),
        ("opensearch", "2.13.0"),
        ("opensearch", "7.10.2"),  # what its compatibility setting makes it say
        ("opensearch", "3.8.0-SNAPSHOT"),
        ("somethingelse", "1.0"),
        ("opensearch", "main"),
    ],
)
def test_an_engine_that_is_new_enough_goes_on_without_the_plugin(
    distribution: str, version: str, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about(version, distribution))
    fake.on("GET", "/_cat/plugins", [])
    for kind in (None, "plugin-free"):
        assert choose_store(engine, kind).kind == "plugin-free"


@pytest.mark.parametrize(
    ("distribution", "version", "returns"),
    [
        ("opensearch", "2.19.6", False),
        ("opensearch", "3.1.0", False),
        ("opensearch", "3.2.0", True),
        ("elasticsearch", "8.19.4", True),
    ],
)
def test_features_of_a_window_are_refused_where_all_would_seem_missing(
    distribution: str, version: str, returns: bool, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about(version, distribution))
    fake.on("GET", "/_cat/plugins", [])
    for kind in (None, "plugin-free"):
        store = choose_store(engine, kind)
        featureset = featureset_of({"match": QUERIES["match"]})
        if returns:
            assert "rescore" in store.window_log(featureset, PARAMS, 10).body
        else:
            with pytest.raises(Refused, match=r"that needs OpenSearch 3\.2 or Elasticsearch 8\.8"):
                store.window_log(featureset, PARAMS, 10)


def test_an_old_engine_with_the_plugin_needs_no_named_scores(
    fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about("7.17.9", "elasticsearch"))
    fake.on("GET", "/_cat/plugins", [{"component": "ltr"}])
    assert choose_store(engine).kind == "ltr-plugin"


def test_without_the_right_to_ask_a_named_kind_is_taken_and_an_open_one_names_the_right(
    fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", forbidden("cluster:monitor/main"))
    assert choose_store(engine, "plugin-free").kind == "plugin-free"
    with pytest.raises(NotAllowed, match=r"\[cluster:monitor/main\].* --store-kind plugin-free"):
        choose_store(engine)
    fake.on("GET", "/", about("9.2.0", "elasticsearch"))
    fake.on("GET", "/_cat/plugins", forbidden("cluster:monitor/nodes/info"))
    with pytest.raises(NotAllowed, match=r"\[cluster:monitor/nodes/info\].* --store-kind"):
        choose_store(engine)
    asked = [request.path for request in fake.requests]
    choose_store(engine, "plugin-free")
    assert [request.path for request in fake.requests][len(asked) :] == ["/"]


@pytest.mark.parametrize(
    ("distribution", "settings", "limit"),
    [
        ("opensearch", {"defaults": {LIMIT: "1024"}}, 1024),
        ("opensearch", {"defaults": {LIMIT: "1024"}, "persistent": {LIMIT: "9"}}, 9),
        ("opensearch", {"persistent": {LIMIT: "4096"}}, 4096),
        ("opensearch", {}, None),
        ("opensearch", [], None),
        ("opensearch", forbidden("cluster:monitor/settings"), None),
        ("elasticsearch", {"defaults": {LIMIT: "1024"}}, None),
    ],
)
def test_the_limit_of_clauses_is_the_engines_and_asked_once_and_only_by_large_sets(
    distribution: str, settings: Any, limit: int | None, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about("3.8.0", distribution))
    fake.on("GET", "/_cluster/settings", settings)
    store = PluginFreeStore(engine)
    store.log_search(featureset_of({"match": QUERIES["match"]}), PARAMS, ["1"])
    assert fake.requests == []
    wide = {"multi_match": {"query": "a", "fields": [f"f{i}" for i in range(1100)]}}
    large = featureset_of({"wide": wide})
    for _ in range(2):
        if limit is None or limit >= 1100:
            store.log_search(large, PARAMS, ["1"])
        else:
            with pytest.raises(Refused, match=f"1100 clauses, and the engine takes {limit} in"):
                store.log_search(large, PARAMS, ["1"])
    # A filter would take the dots of a flat name for a path, and find nothing.
    assert not any("filter_path" in request.params for request in fake.requests)
    wanted = ["/"] if distribution == "elasticsearch" else ["/", "/_cluster/settings"]
    assert [request.path for request in fake.requests] == wanted
