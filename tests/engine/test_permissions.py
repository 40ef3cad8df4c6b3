"""Each right of the page's table: without it the command names it, and no other one is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.commands import Run
from tests.engine.fake_engine import Asked, Reply
from tests.engine.permissions import (
    COMMANDS,
    INDEX,
    STORE,
    Right,
    cases,
    make_world,
    page_rights,
    write_files,
)
from tests.faults.proxy import FOR_EVER, FaultProxy, Forward, Plan

_READ = {"_search", "_count", "_mget", "_explain"}
_CLUSTER = {
    **dict.fromkeys(("", "_nodes", "_cat", "_cluster"), "monitor"),
    "_scripts": "manage",
}
_RELEASE = "_search/point_in_time"


def needed(asked: Asked) -> Right | None:
    """The privilege of Elasticsearch that a request needs; None where it needs none."""
    first, _, rest = asked.path.strip("/").partition("/")
    kind, place = rest.split("/")[0], "store" if first.startswith("owpc-ltr-") else "index"
    if f"{first}/{rest}" == _RELEASE:
        return None  # who has opened a point in time may release it
    if first == "_search":  # in a point in time
        return Right("index", "read")
    if first in _CLUSTER:
        return Right("cluster", _CLUSTER[first])
    name = "write"
    if first == "_aliases" or kind in {"_refresh", "_forcemerge"}:
        name = "manage"
    elif not kind and asked.method in {"PUT", "DELETE"}:
        name = "create_index" if place == "store" else "manage"
    elif asked.method == "GET" and kind in {"", "_mapping", "_settings", "_alias"}:
        name = "view_index_metadata"
    elif kind in _READ or (asked.method == "GET" and kind == "_doc"):
        name = "read"
    return Right(place, name)


def forbidding(right: Right) -> Reply:
    """The no of Elasticsearch's security to a request without this privilege."""
    kind = "cluster" if right.place == "cluster" else "index"
    more = "manage," if right.name == "view_index_metadata" else ""
    reason = (
        f"action [some:action] is unauthorized for user [eve], this action is granted by the "
        f"{kind} privileges [{right.name},{more}all]"
    )
    error = {"type": "security_exception", "reason": reason}
    return Reply({"error": {**error, "root_cause": [error]}, "status": 403}, 403)


@pytest.fixture(scope="module")
def guarded(node_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultProxy]:
    """The node behind a proxy that can deny rights."""
    engine = Engine(ConnectionSettings(node_url))
    make_world(engine, tmp_path_factory.mktemp("world"))
    with FaultProxy(node_url) as proxy:
        yield proxy
    for name in (INDEX, f"owpc-ltr-store-{STORE}"):
        engine.request("DELETE", f"/{name}")
    engine.close()


def test_the_table_has_a_row_for_each_command_that_is_tried() -> None:
    table = page_rights()
    assert table.keys() == COMMANDS.keys()
    assert table["`search`, `explain` with `--query-template`"] == (
        Right("index", "read"),
        Right("store", "read"),
    )


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize(("row", "lacking"), [*cases()])
def test_a_command_needs_the_rights_of_its_row_and_names_the_one_that_is_missing(
    guarded: FaultProxy,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: str,
    lacking: Right | None,
) -> None:
    granted = set(page_rights()[row]) - {lacking}

    def denied(asked: Asked) -> bool:
        right = needed(asked)
        if right is not None and right.name == "view_index_metadata":
            return granted.isdisjoint({right, Right(right.place, "manage")})  # which includes it
        return right is not None and right not in granted

    def act(asked: Asked, _: Forward) -> Reply:
        right = needed(asked)
        assert right is not None
        return forbidding(right)

    write_files(tmp_path)
    guarded.plan = Plan(act=act, on=denied, times=FOR_EVER)
    for name in ("OWPC_LTR_USER", "OWPC_LTR_PASSWORD"):
        monkeypatch.setenv(name, "eves-own")
    code, _, err = run(*COMMANDS[row], "--url", guarded.url)
    if lacking is None:
        assert code == 0, err
    else:
        assert code in {4, 5}, err
        assert re.search(rf"privileges \[[^]]*\b{lacking.name},", err.splitlines()[-1])
