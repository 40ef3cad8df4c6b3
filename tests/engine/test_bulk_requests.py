"""Every document is accounted for: busy ones are sent again, bad ones named, the count compared."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.retry import RetryBudget, Retrying
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.index import index_documents
from owpc_ltr.engine.staging_index import create_index, drop_index, index_exists
from owpc_ltr.errors import EngineUnavailable, Refused
from tests.engine.client.asking import Clock
from tests.engine.fake_engine import Asked, FakeEngine, Reply

BULK = "/docs/_bulk"


def documents(count: int) -> list[tuple[str, dict[str, Any]]]:
    return [(f"d{number}", {"n": number}) for number in range(count)]


def silent(_message: str, _done: float | None = None) -> None:
    """No progress."""


def ids_of(asked: Asked) -> list[str]:
    return [line["index"]["_id"] for line in asked.body[::2]]


def bulk(status: Callable[[str], int], **error: Any) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        items = [
            {"index": {"_id": each, "status": status(each), "result": "created", **error}}
            for each in ids_of(asked)
        ]
        return Reply({"items": items})

    return answer


def fake_engine(fake: FakeEngine, count: int, *bulks: Any) -> Engine:
    fake.on("POST", BULK, *bulks)
    fake.on("POST", "/docs/_refresh", {"_shards": {"failed": 0}})
    fake.on("GET", "/docs/_count", {"count": count, "_shards": {"failed": 0}})
    return Engine(ConnectionSettings(fake.url))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def retrying() -> Retrying:
        clock = Clock()
        return Retrying(RetryBudget(clock=clock), clock, clock.sleep)

    monkeypatch.setattr("owpc_ltr.engine.index.Retrying", retrying)


def test_documents_go_in_and_are_counted_on_a_real_node(node_url: str) -> None:
    engine = Engine(ConnectionSettings(node_url))
    name = f"indexing-{uuid.uuid4().hex[:8]}"
    try:
        assert not index_exists(engine, name)
        create_index(engine, name, None)
        told: list[str] = []
        report = index_documents(
            engine, name, documents(1201), lambda message, _: told.append(message)
        )
        assert (report.sent, report.documents) == (1201, 1201)
        assert told == ["indexed 500 documents", "indexed 1000 documents", "indexed 1201 documents"]
        with pytest.raises(Refused, match="--append, or start it anew"):
            create_index(engine, name, None)
        drop_index(engine, name)
        create_index(engine, name, None)
        assert engine.request("GET", f"/{name}/_count")["count"] == 0
    finally:
        engine.request("DELETE", f"/{name}")
        engine.close()


def test_a_document_that_does_not_fit_the_mapping_is_named_by_a_real_node(node_url: str) -> None:
    engine = Engine(ConnectionSettings(node_url))
    name = f"indexing-{uuid.uuid4().hex[:8]}"
    create_index(engine, name, {"mappings": {"properties": {"n": {"type": "integer"}}}})
    try:
        with pytest.raises(Refused, match="does not take document 'bad'"):
            index_documents(engine, name, [*documents(3), ("bad", {"n": "many"})], silent)
    finally:
        engine.request("DELETE", f"/{name}")
        engine.close()


def test_only_what_the_engine_was_too_busy_for_is_sent_again() -> None:
    with FakeEngine() as fake:
        busy = bulk(lambda document: 429 if document in {"d1", "d3"} else 201)
        engine = fake_engine(fake, 5, busy, bulk(lambda _: 201))
        index_documents(engine, "docs", documents(5), silent)
        first, second = fake.asked("POST", BULK)
        assert ids_of(first) == ["d0", "d1", "d2", "d3", "d4"]
        assert ids_of(second) == ["d1", "d3"]


def test_an_engine_that_stays_busy_is_given_up() -> None:
    with FakeEngine() as fake:
        engine = fake_engine(fake, 0, bulk(lambda _: 429))
        with pytest.raises(EngineUnavailable, match="too busy to take 2 documents"):
            index_documents(engine, "docs", documents(2), silent)


def test_a_body_that_is_too_large_is_halved_until_it_fits() -> None:
    def answer(asked: Asked) -> Reply:
        if len(ids_of(asked)) > 2:
            return Reply({"error": "content too long"}, 413)
        return bulk(lambda _: 201)(asked)

    with FakeEngine() as fake:
        engine = fake_engine(fake, 5, answer)
        assert index_documents(engine, "docs", documents(5), silent).sent == 5
        sent = [ids_of(asked) for asked in fake.asked("POST", BULK)]
        taken = [each for part in sent if len(part) <= 2 for each in part]
        assert taken == ["d0", "d1", "d2", "d3", "d4"]


def test_one_document_that_is_too_large_is_an_error() -> None:
    with FakeEngine() as fake:
        engine = fake_engine(fake, 0, Reply({"error": "content too long"}, 413))
        with pytest.raises(EngineRefusal, match="413"):
            index_documents(engine, "docs", documents(1), silent)


def test_an_answer_for_fewer_documents_than_were_sent_is_refused() -> None:
    with FakeEngine() as fake:
        engine = fake_engine(fake, 3, Reply({"items": [{"index": {"status": 201}}]}))
        with pytest.raises(Refused, match="answered for 1 of 3"):
            index_documents(engine, "docs", documents(3), silent)


def test_a_count_that_is_too_low_is_refused() -> None:
    with FakeEngine() as fake:
        engine = fake_engine(fake, 2, bulk(lambda _: 201))
        with pytest.raises(Refused, match="holds 2 documents after 3 were sent"):
            index_documents(engine, "docs", documents(3), silent)


OTHERS: list[tuple[str, Any]] = [
    ("nothing", None),
    ("a list", []),
    ("no items", {"errors": False}),
    ("items that are no list", {"items": {"0": 1}}),
    ("items of another operation", {"items": [{"create": {"_id": "d0", "status": 201}}]}),
    ("another document", {"items": [{"index": {"_id": "d9", "status": 201}}]}),
    ("no result", {"items": [{"index": {"_id": "d0", "status": 201}}]}),
    ("nothing done", {"items": [{"index": {"_id": "d0", "status": 200, "result": "noop"}}]}),
    ("a status of 400 digits", {"items": [{"index": {"_id": "d0", "status": 10**399}}]}),
    ("a status in words", {"items": [{"index": {"_id": "d0", "status": "201"}}]}),
]


@pytest.mark.parametrize(("what", "answer"), OTHERS, ids=[what for what, _ in OTHERS])
def test_an_answer_that_does_not_say_what_became_of_each_document_is_not_believed(
    what: str, answer: Any
) -> None:
    with FakeEngine() as fake:
        engine = fake_engine(fake, 1, Reply(answer))
        with pytest.raises(EngineUnavailable, match="documents sent is not an engine's answer"):
            index_documents(engine, "docs", documents(1), silent)


@pytest.mark.parametrize("path", ["/docs/_refresh", "/docs/_count"])
def test_a_refresh_or_count_of_a_part_of_the_index_is_refused(path: str) -> None:
    with FakeEngine() as fake:
        engine = fake_engine(fake, 1, bulk(lambda _: 201))
        for method in ("GET", "POST"):
            fake.on(method, path, {"count": 1, "_shards": {"failed": 1}})
        with pytest.raises(Refused, match="in a part of the index only"):
            index_documents(engine, "docs", documents(1), silent)
