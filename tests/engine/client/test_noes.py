"""An engine's no is told once, in its own words."""

from __future__ import annotations

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal, NotAllowed
from owpc_ltr.errors import EngineUnavailable
from tests.engine.client.asking import one_line
from tests.engine.fake_engine import FakeEngine, Reply


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 500])
def test_a_no_is_told_once_with_the_engines_words(
    status: int, fake: FakeEngine, engine: Engine
) -> None:
    error_body = {"error": {"type": "some_exception", "reason": "because\nof it"}}
    fake.on("PUT", "/docs", Reply(error_body, status))
    with pytest.raises(EngineRefusal) as error:
        engine.request("PUT", "/docs")
    assert (error.value.status, error.value.type) == (status, "some_exception")
    assert "because of it" in one_line(error)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int, fake: FakeEngine, engine: Engine) -> None:
    with FakeEngine() as other:
        fake.on("POST", "/docs/_search", Reply({}, status, {"location": f"{other.url}/x"}))
        with pytest.raises(EngineUnavailable) as error:
            engine.request("POST", "/docs/_search", body={"secret": 1})
        assert "not followed" in one_line(error)
        assert not other.requests
    assert len(fake.requests) == 1


def test_a_full_disk_is_not_taken_for_missing_rights(fake: FakeEngine, engine: Engine) -> None:
    blocked = {"error": {"type": "cluster_block_exception", "reason": "index [a] blocked"}}
    fake.on("PUT", "/docs", Reply(blocked, 403))
    with pytest.raises(EngineRefusal) as error:
        engine.request("PUT", "/docs")
    assert "blocked" in one_line(error)


def test_a_right_that_lacks_is_told_apart_from_credentials_that_are_wrong(
    fake: FakeEngine, engine: Engine
) -> None:
    fake.on("POST", "/docs/_pit", Reply({"error": "no"}, 403), Reply({"error": "no"}, 401))
    with pytest.raises(NotAllowed):
        engine.request("POST", "/docs/_pit")
    with pytest.raises(EngineUnavailable) as error:
        engine.request("POST", "/docs/_pit")
    assert not isinstance(error.value, NotAllowed)


def test_a_cluster_full_of_points_in_time_says_no_and_is_not_asked_again(
    fake: FakeEngine, engine: Engine
) -> None:
    reason = (
        "Trying to create too many Point In Time contexts. Must be less than or equal to: [300]"
    )
    full = {"error": {"type": "rejected_execution_exception", "reason": reason}}
    fake.on("POST", "/docs/_search/point_in_time", Reply(full, 429))
    with pytest.raises(EngineRefusal) as error:
        engine.request("POST", "/docs/_search/point_in_time")
    assert reason in one_line(error)
    assert len(fake.requests) == 1
