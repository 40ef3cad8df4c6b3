"""Ready clients of opensearch-py: `connect` takes them as they are, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import opensearchpy
import pytest

import owpc_ltr as ltr
from owpc_ltr.engine.client.engine import open_engine
from owpc_ltr.engine.client.responses import EngineRefusal, NoSuchIndex
from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.engine.fake_engine import WHOLE, FakeEngine, Reply, one_line

BUSY = Reply({"error": {"type": "busy", "reason": "busy"}}, 503, {"retry-after": "0"})
ABSENT = Reply({"error": {"type": "index_not_found_exception", "reason": "no such index"}}, 404)


@pytest.fixture
def client(fake: FakeEngine) -> Any:
    return opensearchpy.OpenSearch(fake.url)


def test_requests_go_through_the_client_and_bodies_come_back(fake: FakeEngine, client: Any) -> None:
    engine = open_engine(client)
    assert engine.settings.url == fake.url
    fake.on("POST", "/docs/_search", WHOLE)
    assert engine.request("POST", "/docs/_search", params={"a": True}, body={"n": 1}) == WHOLE
    fake.on("POST", "/_bulk", {"errors": False})
    engine.request("POST", "/_bulk", ndjson=[{"index": {}}, {"t": "ü"}])
    searched, written = fake.requests
    assert (searched.params, searched.body) == ({"a": "true"}, {"n": 1})
    assert written.body == [{"index": {}}, {"t": "ü"}]
    engine.close()


def test_retries_are_ours_alone(fake: FakeEngine, client: Any) -> None:
    engine = open_engine(client)
    fake.on("POST", "/docs/_search", BUSY, WHOLE)
    assert engine.request("POST", "/docs/_search", body={}) == WHOLE
    assert len(fake.requests) == 2
    fake.on("POST", "/_bulk", BUSY)
    with pytest.raises(EngineUnavailable, match="503"):
        engine.request("POST", "/_bulk", idempotent=False)
    assert len(fake.requests) == 3


def test_the_clients_own_retries_and_connections_stay_as_they_were(fake: FakeEngine) -> None:
    client = opensearchpy.OpenSearch(fake.url, max_retries=2)
    fake.on("GET", "/docs", WHOLE)
    engine = open_engine(client)
    engine.request("GET", "/docs")
    engine.close()
    assert client.transport.max_retries == 2
    assert client.transport.perform_request("GET", "/docs") == WHOLE


def test_refusals_are_the_engines_own_words(fake: FakeEngine, client: Any) -> None:
    engine = open_engine(client)
    fake.on("GET", "/docs", ABSENT)
    with pytest.raises(NoSuchIndex) as absent:
        engine.request("GET", "/docs")
    assert "no such index" in one_line(absent)
    fake.on("PUT", "/docs", Reply({"error": {"type": "x_exception", "reason": "taken"}}, 400))
    with pytest.raises(EngineRefusal) as refusal:
        engine.request("PUT", "/docs", body={})
    assert (refusal.value.status, refusal.value.type) == (400, "x_exception")


def test_refused_credentials_are_the_clients(fake: FakeEngine, client: Any) -> None:
    fake.on("GET", "/docs", Reply({"error": "no"}, 401))
    with pytest.raises(EngineUnavailable, match="credentials of the given client"):
        open_engine(client).request("GET", "/docs")


def test_an_engine_that_is_not_there_is_told() -> None:
    with FakeEngine() as fake:
        client = opensearchpy.OpenSearch(fake.url)
    with pytest.raises(EngineUnavailable) as error:
        open_engine(client).request("GET", "/docs", deadline=0.2)
    assert fake.url in one_line(error)


class Elasticsearch:
    """As elasticsearch-py's client looks."""

    __module__ = "elasticsearch._sync.client"
    transport = None

    def options(self) -> None: ...

    def perform_request(self) -> None: ...


class AsyncOpenSearch:
    """As opensearch-py's asynchronous client looks."""

    __module__ = "opensearchpy._async.client"

    async def perform_request(self) -> None: ...


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (Elasticsearch(), "elasticsearch.Elasticsearch"),
        (AsyncOpenSearch(), "opensearchpy.AsyncOpenSearch"),
        (9200, "builtins.int"),
    ],
)
def test_a_client_of_another_library_is_refused(other: Any, kind: str) -> None:
    with pytest.raises(UsageError) as error:
        ltr.connect(other)
    message = one_line(error)
    assert f"'{kind}'" in message
    assert "give an address or an opensearchpy.OpenSearch" in message


def test_certificates_are_the_clients_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave ca and insecure out"):
        ltr.connect(opensearchpy.OpenSearch("http://127.0.0.1:1"), insecure=True)


def test_a_client_of_opensearch_py_does_the_jobs_of_a_cluster(
    node_url: str, tmp_path: Path
) -> None:
    client = opensearchpy.OpenSearch(node_url)
    cluster = ltr.connect(client, store_kind="plugin-free")
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(f'{{"title": "pear {n}"}}\n' for n in range(30)))
    try:
        assert cluster.index(documents, index="given-client-test").documents == 30
        answer = client.search(index="given-client-test", body={"query": {"match_all": {}}})
        assert answer["hits"]["total"]["value"] == 30
    finally:
        client.indices.delete(index="given-client-test", ignore_unavailable=True)
