"""Answers that are cut, slow, strange or too large: an error, never a short result."""

from __future__ import annotations

import gzip
import tracemalloc
from dataclasses import replace

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.errors import EngineUnavailable, Refused
from tests.engine.client.asking import WHOLE, Clock, make_engine, one_line
from tests.engine.fake_engine import FakeEngine, Reply


@pytest.mark.parametrize("announced", [True, False], ids=["length told", "length untold"])
@pytest.mark.parametrize("sixteenths", range(16))
def test_a_cut_answer_is_never_a_result(
    sixteenths: int, announced: bool, fake: FakeEngine, engine: Engine
) -> None:
    cut = Reply(WHOLE, cut=sixteenths / 16, announced=announced)
    fake.on("GET", "/docs", cut, cut, WHOLE)
    assert engine.request("GET", "/docs") == WHOLE
    fake.on("GET", "/docs", cut)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/docs", deadline=3)
    one_line(error)


@pytest.mark.parametrize("slow", [{"drip": 0.05}, {"drip_headers": 0.05}], ids=["body", "headers"])
def test_a_dripping_answer_ends_at_the_deadline(slow: dict[str, float], fake: FakeEngine) -> None:
    fake.on("GET", "/docs", Reply(WHOLE, **slow))  # type: ignore[arg-type]
    engine = Engine(ConnectionSettings(fake.url, timeout=0.4))
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/docs", deadline=0.8)
    one_line(error)
    engine.close()


STRANGE: dict[str, Reply] = {
    "html": Reply(b"<html>Welcome</html>", content_type="text/html"),
    "nothing": Reply(b""),
    "half a document": Reply(b'{"hits": '),
    "two documents": Reply(b"{} {}"),
    "NaN": Reply(b'{"score": NaN}'),
    "not UTF-8": Reply(b'{"a": "\xff"}'),
    "a million brackets": Reply(b"[" * 1_000_000),
    "a number without end": Reply(b"1" * 10_000),
    "bad gzip": Reply(b"no gzip", headers={"content-encoding": "gzip"}),
}


@pytest.mark.parametrize("reply", STRANGE.values(), ids=STRANGE)
def test_an_answer_that_is_no_json_is_an_error(
    reply: Reply, fake: FakeEngine, engine: Engine
) -> None:
    fake.on("GET", "/docs", reply)
    with pytest.raises(EngineUnavailable) as error:
        engine.request("GET", "/docs", deadline=2)
    one_line(error)


def test_a_gzip_bomb_is_not_unpacked(fake: FakeEngine, clock: Clock) -> None:
    bomb = gzip.compress(b"[" + b" " * 50_000_000 + b"]")
    fake.on("GET", "/docs", Reply(bomb, headers={"content-encoding": "gzip"}))
    engine = make_engine(fake.url, clock, largest_answer=1_000_000)
    tracemalloc.start()
    with pytest.raises(Refused) as error:
        engine.request("GET", "/docs")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "1000000 bytes" in one_line(error)
    assert peak < 10_000_000
    assert len(fake.requests) == 1
    engine.close()


@pytest.mark.parametrize("sixteenths", [4, 8, 12, 15])
def test_a_refusal_whose_end_is_cut_off_is_asked_for_again(
    sixteenths: int, fake: FakeEngine, engine: Engine
) -> None:
    error = {"type": "resource_already_exists_exception", "reason": "index [docs] already exists"}
    whole = Reply({"error": {"root_cause": [error], **error}, "status": 400}, 400)
    cut = replace(whole, cut=sixteenths / 16, announced=False)
    fake.on("PUT", "/docs", cut, whole)
    with pytest.raises(EngineRefusal) as refusal:
        engine.request("PUT", "/docs")
    assert refusal.value.type == "resource_already_exists_exception"
