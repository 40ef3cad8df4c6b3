"""What the workflow without a plugin needs of an engine, one capability a test, on a real node.

`make test-engines` runs them on each engine, and makes the table of docs/engines.md of what they
record: a row a test, named by its docstring.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from owpc_ltr_node.release import OPENSEARCH, Release

from owpc_ltr import Cluster
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.search.client_scoring import live_search
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.stores import NoWindowScores, Search, choose_store, most_clauses
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import UsageError
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.linear import LinearModel
from tests.engine.deployed import put
from tests.engine.documents import PARAMS, QUERIES, Docs, featureset_of, fill, hits_of, logged
from tests.engine.small_cluster import Small, linear, small_cluster

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore:the client scores")]
"""They start a node of their own."""

Record = Callable[[str, object], None]
PLAIN = {name: query for name, query in QUERIES.items() if name != "script"}


@pytest.fixture(scope="module", params=[1, 3], ids=["one shard", "three shards"])
def docs(other_engine: Engine, request: pytest.FixtureRequest) -> Iterator[Docs]:
    index = f"engines-{uuid.uuid4().hex[:8]}"
    yield fill(other_engine, index, request.param)
    other_engine.request("DELETE", f"/{index}")


@pytest.fixture(scope="module")
def small(other_engine: Engine) -> Iterator[Small]:
    with small_cluster(other_engine.settings.url) as made:
        yield made


def test_it_is_known_and_taken_without_a_plugin(
    other_engine: Engine, release: Release, record_property: Record
) -> None:
    """known by its version"""
    identity = other_engine.identity()
    assert (identity.distribution, identity.version) == (release.engine, release.version)
    assert choose_store(other_engine).kind == "plugin-free"
    record_property("figure", identity.version)


def test_every_logged_value_is_its_querys_own_score(docs: Docs, record_property: Record) -> None:
    """logged values equal single queries' scores"""
    featureset = featureset_of(PLAIN)
    values = logged(docs, PluginFreeStore(docs.engine), featureset)
    differences: list[float] = []
    for column, name in enumerate(PLAIN):
        feature = featureset_of({name: PLAIN[name]}).features[0]
        query = (
            PluginFreeStore(docs.engine)._compile(featureset_of({name: feature.template})).queries
        )
        alone = {"bool": {"must": [query[0].query(PARAMS)], "filter": [{"match_all": {}}]}}
        body = {"query": alone, "size": 500, "_source": False, "track_total_hits": True}
        own = {hit["_id"]: hit["_score"] for hit in hits_of(docs, Search(body, {}))}
        for row, document in enumerate(docs.ids):
            logged_value = values[row, column]
            assert np.isnan(logged_value) == (document not in own), (name, document)
            if document in own:
                differences.append(abs(float(logged_value) - float(np.float32(own[document]))))
    largest = max(differences)
    record_property("figure", f"{len(differences):,} values, largest difference {largest:.1g}")
    assert len(differences) > 1000
    assert largest == 0


def test_an_uploaded_model_scores_in_the_engine_as_here(
    small: Small, record_property: Record
) -> None:
    """an uploaded model's scores equal the local ones"""
    parity = put(small, linear()).parity
    record_property("figure", f"{parity.largest_difference:.1e}, {parity.swapped} swapped")
    assert parity.largest_difference <= 1e-5
    assert (parity.swapped, parity.absent) == (0, 0)
    assert parity.documents > 40


def test_a_name_goes_back_and_forth(small: Small) -> None:
    """roll back and promote"""
    aliases = Aliases(small.engine, small.store)
    first = put(small, linear())
    second = put(small, linear((0.2, 1.0, 0.3)))
    assert first.model != second.model
    assert aliases.roll_back(small.name).model_of("champion") == first.model
    alias = aliases.find(small.name)
    assert alias is not None
    assert alias.model_of("champion") == first.model


def test_a_model_that_did_not_move_verifies_clean(small: Small, record_property: Record) -> None:
    """verify is clean"""
    done = put(small, linear())
    verification = verify_model(small.engine, small.store, done.model, small.index)
    assert verification.drift == ()
    assert verification.parity is not None
    record_property("figure", f"{verification.parity.largest_difference:.1e}")


def test_features_come_back_with_the_search_of_an_application(
    docs: Docs, release: Release, record_property: Record
) -> None:
    """window and features in one request"""
    store, featureset = choose_store(docs.engine, "plugin-free"), featureset_of(PLAIN)
    whole = dict(zip(docs.ids, logged(docs, store, featureset).tolist(), strict=True))
    model = LinearModel(featureset.feature_names, np.linspace(-1, 1, len(PLAIN)))
    request = SearchRequest(docs.index, {"match_all": {}}, PARAMS, 50, 50)
    ranker = ReorderingModel(model, "", None)
    answer = live_search(
        docs.engine, store, request, ranker, featureset=featureset, deadline=60.0, source=False
    )
    assert answer.reordered, answer.reason
    rows = np.array([whole[hit.document_id] for hit in answer.hits], np.float32)
    assert [hit.score for hit in answer.hits] == pytest.approx(model.score(rows), rel=1e-6)
    if release.engine == OPENSEARCH and release.numbers < (3, 2):
        record_property("figure", "in two (from 3.2 in one)")
        with pytest.raises(NoWindowScores, match="inside a rescorer"):
            store.window_log(featureset, PARAMS, 50)
        return
    own = {"query": {"match_all": {}}, "size": 50, "_source": False}
    added = store.window_log(featureset, PARAMS, 50)
    together = hits_of(docs, Search({**own, **added.body}, added.params))
    assert [hit["_id"] for hit in together] == [hit["_id"] for hit in hits_of(docs, Search(own))]
    for hit in together:
        assert store.features_of(featureset, hit) == pytest.approx(whole[hit["_id"]], nan_ok=True)


@pytest.mark.parametrize("clauses", [1100])
def test_the_limit_of_clauses_is_the_engines(
    docs: Docs, clauses: int, record_property: Record
) -> None:
    """clauses in one search"""
    limit = most_clauses(docs.engine)
    record_property("figure", "by its heap" if limit is None else f"{limit:,}")
    names = [f"f{i}" for i in range(clauses)]
    search = Search({"query": {"bool": {"should": [{"match": {n: "a"}} for n in names]}}})
    if limit is None or limit >= clauses:
        hits_of(docs, search)
    else:
        with pytest.raises(EngineRefusal, match=r"too_many|maxClauseCount"):
            hits_of(docs, search)


def test_collapsed_results_are_rescored_or_refused_in_words(
    small: Small, release: Release, record_property: Record
) -> None:
    """collapse beside rescoring"""
    model = put(small, linear()).model
    cluster = Cluster(small.engine, "plugin-free", small.store.name)
    text = {"match": {"title": "{{keywords}}"}}
    asked: dict[str, Any] = {"model": model, "index": small.index, "size": 20}
    collapsed = {"query": text, "collapse": {"field": "size"}}
    if release.engine == OPENSEARCH:
        record_property("figure", "refused in words")
        with pytest.raises(UsageError, match=r"does not collapse .* Elasticsearch 8\.15"):
            cluster.search("alpha beta", query_template=collapsed, **asked)
        return
    record_property("figure", "yes")
    whole = cluster.search("alpha beta", query_template=text, **{**asked, "size": 100})
    answer = cluster.search("alpha beta", query_template=collapsed, **asked)
    scores = {hit.document_id: hit.score for hit in whole.after}
    ids = [hit.document_id for hit in answer.after]
    assert [hit.score for hit in answer.after] == [scores[doc_id] for doc_id in ids]
    assert ids == sorted(ids, key=lambda doc_id: -scores[doc_id])
    body = {"docs": [{"_id": doc_id} for doc_id in scores]}
    docs_of_hits = small.engine.request("POST", f"/{small.index}/_mget", body=body)["docs"]
    size = {doc["_id"]: doc["_source"]["size"] for doc in docs_of_hits}
    assert len({size[doc_id] for doc_id in ids}) == len(ids)
    # Of each group the query's own best, before the model has looked.
    heads: dict[float, str] = {}
    for hit in whole.before:
        heads.setdefault(size[hit.document_id], hit.document_id)
    assert set(ids) <= set(heads.values())


OPTIONAL: dict[str, tuple[str, Any]] = {
    "english analysis": ("_analyze", {"analyzer": "english", "text": "foxes"}),
    "scripts": (
        "_search",
        {"query": {"script_score": {"query": {"match_all": {}}, "script": {"source": "1"}}}},
    ),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_a_node_may_lack_is_used_or_refused_in_words(
    name: str, docs: Docs, record_property: Record
) -> None:
    """{name}"""
    path, body = OPTIONAL[name]
    record_property("capability", name)
    record_property("figure", "yes" if _takes(docs, path, body) else "no")


def _takes(docs: Docs, path: str, body: Any) -> bool:
    try:
        docs.engine.request("POST", f"/{docs.index}/{path}", body=body)
    except EngineRefusal as refusal:
        return not refusal.reason
    return True
