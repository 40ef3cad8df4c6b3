"""Ready clients of opensearch-py and elasticsearch-py: `connect` takes them as they are."""

from __future__ import annotations

import copy
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import opensearchpy
import pytest

import owpc_ltr as ltr
from owpc_ltr.engine.client.engine import open_engine
from owpc_ltr.engine.client.responses import EngineRefusal, NoSuchIndex
from owpc_ltr.errors import EngineUnavailable, UsageError
from tests.engine.fake_engine import WHOLE, FakeEngine, Reply, one_line


class ApiError(Exception):
    """As elasticsearch-py raises it."""

    __module__ = "elasticsearch.exceptions"

    def __init__(self, message: str, meta: Any, body: Any) -> None:
        super().__init__(message)
        self.meta, self.body = meta, body


class TransportFault(Exception):
    """As elastic-transport raises it where no answer came."""

    __module__ = "elastic_transport"

    def __init__(self, message: str, errors: tuple[Exception, ...]) -> None:
        super().__init__(message)
        self.errors = errors


@dataclass
class Elasticsearch:
    """A client like elasticsearch-py's, over the standard library."""

    url: str
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def transport(self) -> Any:
        return SimpleNamespace(
            node_pool=SimpleNamespace(all=lambda: [SimpleNamespace(base_url=self.url)])
        )

    def options(self, **given: Any) -> Elasticsearch:
        other = copy.copy(self)
        other.given = given
        return other

    def perform_request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Any:
        assert self.given["max_retries"] == 0
        query = f"?{urllib.parse.urlencode(params)}" if params else ""
        request = urllib.request.Request(  # noqa: S310 - http
            f"{self.url}{path}{query}", body, dict(headers or {}), method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=self.given["request_timeout"]) as answer:  # noqa: S310
                return SimpleNamespace(body=json.load(answer))
        except urllib.error.HTTPError as error:
            meta = SimpleNamespace(status=error.code, headers=error.headers)
            content = json.load(error)
            raise ApiError(str(content), meta, content) from None
        except urllib.error.URLError as error:
            raise TransportFault("Connection error", (ConnectionError(error.reason),)) from error

    def close(self) -> None:
        raise AssertionError("it is not ours to close")


KINDS: dict[str, Any] = {
    "opensearch-py": opensearchpy.OpenSearch,
    "elasticsearch-py": Elasticsearch,
}
BUSY = Reply({"error": {"type": "busy", "reason": "busy"}}, 503, {"retry-after": "0"})
ABSENT = Reply({"error": {"type": "index_not_found_exception", "reason": "no such index"}}, 404)


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, fake: FakeEngine) -> Any:
    return KINDS[request.param](fake.url)


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


def test_the_clients_own_retries_stay_as_they_were(fake: FakeEngine) -> None:
    client = opensearchpy.OpenSearch(fake.url, max_retries=2)
    fake.on("GET", "/docs", WHOLE)
    open_engine(client).request("GET", "/docs")
    assert client.transport.max_retries == 2


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


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_is_not_there_is_told(kind: str) -> None:
    with FakeEngine() as fake:
        client = KINDS[kind](fake.url)
    with pytest.raises(EngineUnavailable) as error:
        open_engine(client).request("GET", "/docs", deadline=0.2)
    assert fake.url in one_line(error)


def test_what_is_no_client_is_refused() -> None:
    class AsyncOpenSearch:
        async def perform_request(self) -> None: ...

    for other in (AsyncOpenSearch, object):
        with pytest.raises(UsageError) as error:
            ltr.connect(other())
        one_line(error)


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
        found = client.search(index="given-client-test", body={"query": {"match_all": {}}})
        assert found["hits"]["total"]["value"] == 30
    finally:
        client.indices.delete(index="given-client-test", ignore_unavailable=True)
