"""Answers of engines: broken ones are errors, refusals are told once, and who answers."""

from __future__ import annotations

import gzip
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import About, Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.client.settings import ConnectionSettings, find_settings
from owpc_ltr.errors import EngineUnavailable, Refused
from tests.engine.fake_engine import (
    WHOLE,
    Clock,
    FakeEngine,
    Reply,
    make_engine,
    message_of_failure,
    one_line,
)


@pytest.mark.parametrize("announced", [True, False], ids=["length told", "length untold"])
@pytest.mark.parametrize("sixteenths", range(16))
def test_a_cut_answer_is_never_a_result(
    sixteenths: int, announced: bool, fake: FakeEngine, engine: Engine
) -> None:
    cut = Reply(WHOLE, cut=sixteenths / 16, announced=announced)
    fake.on("GET", "/docs", cut, cut, WHOLE)
    assert engine.request("GET", "/docs") == WHOLE
    fake.on("GET", "/docs", cut)
    message_of_failure(engine, "GET", "/docs", deadline=3)


@pytest.mark.parametrize("slow", [{"drip": 0.05}, {"drip_headers": 0.05}], ids=["body", "headers"])
def test_a_dripping_answer_ends_at_the_deadline(slow: dict[str, float], fake: FakeEngine) -> None:
    fake.on("GET", "/docs", Reply(WHOLE, **slow))  # type: ignore[arg-type]
    engine = Engine(ConnectionSettings(fake.url, timeout=0.2))
    message_of_failure(engine, "GET", "/docs", deadline=0.3)
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
    message_of_failure(engine, "GET", "/docs", deadline=2)


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
        assert "not followed" in message_of_failure(
            engine, "POST", "/docs/_search", body={"secret": 1}
        )
        assert not other.requests
    assert len(fake.requests) == 1


def test_a_full_disk_is_not_taken_for_missing_rights(fake: FakeEngine, engine: Engine) -> None:
    blocked = {"error": {"type": "cluster_block_exception", "reason": "index [a] blocked"}}
    fake.on("PUT", "/docs", Reply(blocked, 403))
    assert "blocked" in message_of_failure(engine, "PUT", "/docs", kind=EngineRefusal)


def test_a_right_that_lacks_is_told_apart_from_credentials_that_are_wrong(
    fake: FakeEngine, engine: Engine
) -> None:
    fake.on("POST", "/docs/_pit", Reply({"error": "no"}, 403), Reply({"error": "no"}, 401))
    with pytest.raises(NotAllowed):
        engine.request("POST", "/docs/_pit")
    with pytest.raises(EngineUnavailable) as error:
        engine.request("POST", "/docs/_pit")
    assert not isinstance(error.value, NotAllowed)


SEARCH = "indices:data/read/search"
OF_ELASTICSEARCH = (
    f"action [{SEARCH}] is unauthorized for user [anna] with effective roles [r] on indices [docs]"
)
RIGHTS = {
    f"no permissions for [{SEARCH}] and User [name=a, roles=[]]": f"the index privilege {SEARCH}",
    "no permissions for [cluster:monitor/main] and User [name=anna]":
        "the cluster privilege cluster:monitor/main",
    "no permissions for [cluster:a, cluster:b] and User [name=anna]":
        "the cluster privilege cluster:a or cluster:b",
    OF_ELASTICSEARCH: f"the index privilege {SEARCH}",
    f"{OF_ELASTICSEARCH}, this action is granted by the index privileges [read,all]":
        "the index privilege read or all",
    "action [cluster:monitor/main] is unauthorized for user [anna], this action is granted by the "
    "cluster privileges [monitor,manage,all]": "the cluster privilege monitor or manage or all",
    "": "more rights",
    "Forbidden by a proxy": "more rights",
}  # fmt: skip


@pytest.mark.parametrize("reason", RIGHTS)
def test_a_right_that_lacks_is_named_with_what_was_asked(fake: FakeEngine, reason: str) -> None:
    fake.on("POST", "/docs/_pit", Reply({"error": {"type": "x", "reason": reason}}, 403))
    of_user = {"OWPC_LTR_USER": "anna", "OWPC_LTR_PASSWORD": "pw", "XDG_CONFIG_HOME": "/none"}
    engine = Engine(find_settings(fake.url, environ=of_user))
    with pytest.raises(NotAllowed) as error:
        engine.request("POST", "/docs/_pit")
    because = f" ({reason})" if reason else ""
    assert one_line(error) == (
        f"{fake.url} does not allow POST /docs/_pit{because} (403): the credentials of "
        f"OWPC_LTR_USER and OWPC_LTR_PASSWORD need {RIGHTS[reason]}"
    )
    fake.on("POST", "/docs/_pit", Reply({"error": {"type": "x", "reason": reason}}, 403))
    with pytest.raises(NotAllowed, match=r"\(403\) for POST /docs/_pit.*: set OWPC_LTR_USER"):
        Engine(find_settings(fake.url, environ={"XDG_CONFIG_HOME": "/none"})).request(
            "POST", "/docs/_pit"
        )


def test_a_cluster_full_of_points_in_time_says_no_and_is_not_asked_again(
    fake: FakeEngine, engine: Engine
) -> None:
    reason = (
        "Trying to create too many Point In Time contexts. Must be less than or equal to: [300]"
    )
    full = {"error": {"type": "rejected_execution_exception", "reason": reason}}
    fake.on("POST", "/docs/_search/point_in_time", Reply(full, 429))
    assert reason in message_of_failure(
        engine, "POST", "/docs/_search/point_in_time", kind=EngineRefusal
    )
    assert len(fake.requests) == 1
