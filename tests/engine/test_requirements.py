"""What an engine must have: room in the plugin's cache, or capabilities without the plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import Cluster, OwpcLtrWarning
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import NotAllowed
from owpc_ltr.engine.client.settings import ConnectionSettings, Credentials
from owpc_ltr.engine.deployment.model_upload import Uploaded, UploadRequest, upload_model
from owpc_ltr.engine.model_size import CompiledTrees, compiled_trees
from owpc_ltr.engine.search.request import search_request
from owpc_ltr.engine.stores import NoWindowScores, choose_store
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import export_linear, export_to_plugin
from owpc_ltr.formats.stored_model import LINEAR, StoredModel, serving_profile
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.redaction import Secret
from tests.engine.deployed import Plugin, connected
from tests.engine.documents import PARAMS, QUERIES, featureset_of
from tests.engine.fake_engine import Asked, FakeEngine, Reply
from tests.engine.small_cluster import FEATURESET, linear, probes

LIMIT = "indices.query.bool.max_clause_count"


def about(version: str, distribution: str) -> dict[str, Any]:
    """What `GET /` answers."""
    version_info = {"number": version}
    if distribution != "elasticsearch":
        version_info["distribution"] = distribution
    return {"version": version_info, "cluster_name": "c", "cluster_uuid": "u"}


def forbidden(action: str) -> Reply:
    """A no of the engine's own security, which names the right that is lacking."""
    reason = f"action [{action}] is unauthorized for user [eve]"
    error = {"type": "security_exception", "reason": reason}
    return Reply({"error": {**error, "root_cause": [error]}, "status": 403}, 403)


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
        request = asked_for(query_template=query)
        assert request.filters == {"collapse": {"field": "maker"}}
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
    message = f"{name} is too old to do without the LTR plugin: that needs OpenSearch 2.13 or "
    with pytest.raises(Refused, match=re.escape(message) + r"Elasticsearch 8\.8 or later; [^\n]*$"):
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


@pytest.mark.parametrize("kind", [PluginFreeStore, LtrPluginStore])
def test_the_ids_of_documents_are_known_where_they_are_asked_for_and_in_no_other_search(
    kind: type[PluginFreeStore | LtrPluginStore], fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/", about("9.2.0", "elasticsearch"))
    ids = '{"ids": {"values": {{#toJson}}doc_ids{{/toJson}}, "boost": {{boost}}}}'
    featureset = FeatureSet("by-ids", (Feature("among", ("boost", "doc_ids"), ids),))
    store = kind(engine, None)
    body = str(store.log_search(featureset, {"boost": 2}, ["d1", "d2"]).body)
    # Once by which documents, and once for the feature.
    assert body.count("['d1', 'd2']") == 2
    model = LinearModel(("among",), np.ones(1))
    stored = StoredModel("m", LINEAR, {"among": 1.0}, featureset)
    for ask in (
        lambda: store.window_log(featureset, {"boost": 2}, 10),
        lambda: store.rescore(stored, {"boost": 2}, 10),
    ):
        with pytest.raises(NoWindowScores, match="'among' needs the ids of the documents"):
            ask()
    with pytest.raises(Refused, match=r"'among' .* score the model: .* `store_kind='plugin-free'`"):
        export_linear(model, featureset, "m")


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
    with pytest.raises(NotAllowed, match=r"\[cluster:monitor/main\].* `store_kind='plugin-free'`"):
        choose_store(engine)
    fake.on("GET", "/", about("9.2.0", "elasticsearch"))
    fake.on("GET", "/_cat/plugins", forbidden("cluster:monitor/nodes/info"))
    with pytest.raises(NotAllowed, match=r"\[cluster:monitor/nodes/info\].* `store_kind"):
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


@dataclass
class Cached(Plugin):
    """A plugin that says how large its cache is, or whose settings are not for everybody."""

    limit: str | None = "10mb"

    def answer(self, asked: Asked) -> Reply:
        if asked.path != "/_cluster/settings":
            return super().answer(asked)
        if self.limit is None:
            return Reply({"error": {"type": "security_exception"}}, 403)
        return Reply({"persistent": {}, "defaults": {"ltr.caches.max_mem": self.limit}})


def full_trees(trees: int, depth: int) -> TreeModel:
    """Trees with every split that their depth allows, in the order of a heap."""
    nodes = 2 ** (depth + 1) - 1
    place = np.tile(np.arange(nodes, dtype=np.int32), trees)
    roots = np.arange(trees, dtype=np.int32) * nodes
    leaf = place >= nodes // 2
    forest = Forest(
        roots,
        np.where(leaf, -1, place % 3).astype(np.int32),
        np.where(leaf, 0, 1.5).astype(np.float32),
        np.where(leaf, 0, np.repeat(roots, nodes) + 2 * place + 1).astype(np.int32),
        ~leaf,
        np.where(leaf, 0.25, 0.0),
    )
    record = {"probes": probes(), "featureset_hash": FEATURESET.hash}
    return TreeModel(FEATURESET.feature_names, forest, record=record)


def sent(fake: FakeEngine, limit: str | None, model: Any, **options: Any) -> Uploaded:
    engine = connected(fake, Cached("3.8.0", limit=limit))
    request = UploadRequest(model, FEATURESET, index="small", name="m", **options)
    return upload_model(engine, LtrPluginStore(engine), request)


@given(trees=st.integers(1, 5), depth=st.integers(1, 6))
def test_the_compiled_size_is_32_bytes_a_node_and_8_a_tree(trees: int, depth: int) -> None:
    profile = serving_profile("opensearch", "3.8.0")
    stored = export_to_plugin(full_trees(trees, depth), FEATURESET, "m", profile)
    compiled = compiled_trees(stored)
    assert compiled is not None
    assert (compiled.trees, compiled.depth) == (trees, depth)
    assert compiled.size == trees * (32 * (2 ** (depth + 1) - 1) + 8)
    assert [compiled.size_at(d) for d in range(depth + 1)] == [
        trees * (32 * (2 ** (d + 1) - 1) + 8) for d in range(depth + 1)
    ]


@pytest.mark.parametrize(("depth", "megabytes"), [(6, 1.94), (8, 7.8)])
def test_the_compiled_size_is_what_was_measured_of_500_trees(depth: int, megabytes: float) -> None:
    compiled = CompiledTrees(tuple(500 * 2**level for level in range(depth + 1)))
    assert compiled.size / 2**20 == pytest.approx(megabytes, abs=0.006)


@given(
    trees=st.integers(1, 3000), depth=st.integers(1, 12), room=st.floats(1, 1e8, allow_nan=False)
)
def test_what_is_said_to_fit_fits_and_is_the_most_that_does(
    trees: int, depth: int, room: float
) -> None:
    compiled = CompiledTrees(tuple(trees * 2**level for level in range(depth + 1)))
    words = compiled.smaller(room)
    of_each = compiled.size / trees
    fewer = int(words.split()[0].replace(",", "")) if "trees like its" in words else 0
    assert fewer * of_each <= room * (1 + 1e-9)
    assert (fewer + 1) * of_each > room * (1 - 1e-9)
    fits = [d for d in range(1, depth) if compiled.size_at(d) <= room]
    assert ("of depth" in words) == bool(fits)
    assert not fits or words.endswith(f"of depth {fits[-1]}")


def test_a_model_beyond_the_cache_is_refused_before_anything_is_stored(fake: FakeEngine) -> None:
    room = r"0\.0311 MB of the 0\.0195 MB .*\(2 trees like its 8 or as many of depth 4 would leave"
    with pytest.raises(Refused, match=room):
        sent(fake, "20kb", full_trees(8, 6))
    assert {asked.method for asked in fake.requests} == {"GET"}


def test_it_is_uploaded_with_a_caution_if_that_is_wanted(fake: FakeEngine) -> None:
    with pytest.warns(OwpcLtrWarning, match="every search would compile it"):
        sent(fake, "20kb", full_trees(8, 6), allow_slow=True)


def test_above_half_of_the_cache_it_warns(fake: FakeEngine) -> None:
    with pytest.raises(OwpcLtrWarning, match="together with another one"):
        sent(fake, "40kb", full_trees(8, 6))
    # The warning, here an error, comes before anything is stored.
    assert {asked.method for asked in fake.requests} == {"GET"}


@pytest.mark.parametrize("limit", ["70kb", "10mb", "1gb", None, "a lot"])
def test_below_half_of_the_cache_it_is_silent(limit: str | None, fake: FakeEngine) -> None:
    """And where the engine does not tell how large that is."""
    sent(fake, limit, full_trees(8, 6))


def test_what_takes_next_to_nothing_is_never_in_the_way(fake: FakeEngine) -> None:
    sent(fake, "1b", linear())
