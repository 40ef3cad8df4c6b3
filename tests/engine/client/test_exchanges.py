"""What the client sends, and what comes back: JSON, whole, over few connections."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.errors import BadInput
from tests.engine.client.asking import WHOLE, one_line
from tests.engine.fake_engine import FakeEngine, Reply


def test_json_goes_in_and_json_comes_out(fake: FakeEngine, engine: Engine) -> None:
    fake.on("POST", "/docs/_search", WHOLE)
    body = {"query": {"match": {"t": "né"}}}
    assert engine.request("POST", "/docs/_search", params={"a": True, "n": 3}, body=body) == WHOLE
    (asked,) = fake.requests
    assert asked.body == body
    assert asked.params == {"a": "true", "n": "3"}
    assert asked.headers["content-type"] == "application/json"


def test_ndjson_is_one_value_a_line(fake: FakeEngine, engine: Engine) -> None:
    fake.on("POST", "/_bulk", {"errors": False})
    engine.request("POST", "/_bulk", ndjson=iter([{"index": {"_id": "1"}}, {"t": "a\nb"}]))
    assert fake.requests[0].body == [{"index": {"_id": "1"}}, {"t": "a\nb"}]
    assert fake.requests[0].headers["content-type"] == "application/x-ndjson"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_is_not_json_is_not_sent(value: Any, fake: FakeEngine, engine: Engine) -> None:
    with pytest.raises(BadInput) as error:
        engine.request("POST", "/docs/_search", body={"x": value})
    one_line(error)
    assert not fake.requests


@pytest.mark.parametrize("path", ["docs", "/a/../b", "/..", "/a b", "/*", "/a?x=1", "/a,b", "/a\n"])
def test_a_path_that_could_mean_another_one_is_a_bug(path: str, engine: Engine) -> None:
    with pytest.raises(ValueError, match="not a path"):
        engine.request("GET", path)


def test_connections_are_kept_and_shared_by_threads(fake: FakeEngine, engine: Engine) -> None:
    fake.on("POST", "*", lambda asked: Reply(asked.body))
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda i: engine.request("POST", f"/{i}/_search", body=[i]), range(400))
        )
    assert answers == [[i] for i in range(400)]
    assert fake.connections <= 8
