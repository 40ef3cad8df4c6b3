"""A log on three nodes: of the same copies each time, though others score otherwise."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from owpc_ltr_node.engine import node_status, start_node

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.feature_log import snapshot
from tests.cluster.several_copies import INDEX, await_green, fill, log, merge_primaries
from tests.engine.log_runs import digest
from tests.session_node import SessionNode

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def unlike(engine: Engine) -> None:
    fill(engine)
    merge_primaries(engine)


def scores(engine: Engine, preference: str) -> list[float]:
    body = {"query": {"match": {"text": "pear"}}, "size": 20, "sort": ["_score", "_doc"]}
    answer = engine.request(
        "POST", f"/{INDEX}/_search", params={"preference": preference}, body=body
    )
    return [hit["sort"][0] for hit in answer["hits"]["hits"]]


def test_the_copies_score_differently(engine: Engine) -> None:
    assert scores(engine, "_primary") != scores(engine, "_replica")


@pytest.mark.parametrize("in_flight", [1, None])
def test_the_same_log_has_the_same_bytes(
    engine: Engine, tmp_path: Path, in_flight: int | None
) -> None:
    digests = set()
    for number in range(6):
        out = tmp_path / f"{number}.parquet"
        log(engine, out, in_flight=in_flight)
        digests.add(digest(out))
    assert len(digests) == 1


def test_logs_that_ask_other_copies_are_told_by_their_bytes(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for number in range(6):
        monkeypatch.setattr(snapshot, "SAME_COPIES", f"another{number}")
        log(engine, tmp_path / f"{number}.parquet")
        digests.add(digest(tmp_path / f"{number}.parquet"))
    assert len(digests) > 1


@dataclass
class Struck:
    """A cluster of which a node crashes at the search of this number."""

    engine: Engine
    pid: int
    number: int
    searches: int = 0

    @property
    def settings(self) -> ConnectionSettings:
        return self.engine.settings

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.searches += path == "/_search"
        if self.searches == self.number:
            os.kill(self.pid, signal.SIGKILL)
        return self.engine.request(method, path, **given)


@pytest.mark.filterwarnings("ignore:.* logged again")
def test_a_node_that_crashes_costs_the_log_its_moment_and_no_mix_of_copies(
    engine: Engine, three_nodes: list[SessionNode], tmp_path: Path
) -> None:
    last = three_nodes[2]
    assert last.status.pid is not None
    struck = Struck(engine, last.status.pid, number=25)
    log(cast("Engine", struck), tmp_path / "struck.parquet")
    assert node_status(last.config.port, last.places).state == "died"
    log(engine, tmp_path / "after.parquet")
    assert digest(tmp_path / "struck.parquet") == digest(tmp_path / "after.parquet")
    assert start_node(last.config, places=last.places).running
    await_green(engine)
