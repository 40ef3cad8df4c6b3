"""A cluster of small search queues: a log finds what it bears, to the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.engine.client.engine import Engine
from tests.cluster.conftest import running_cluster
from tests.cluster.several_copies import fill, log
from tests.engine.log_runs import digest
from tests.session_node import SessionNode

pytestmark = pytest.mark.cluster

SMALL = "thread_pool.search.size: 1\nthread_pool.search.queue_size: 2\n"


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[list[SessionNode]]:
    with running_cluster(SMALL) as nodes:
        yield nodes


@pytest.fixture(scope="module", autouse=True)
def filled(engine: Engine) -> None:
    fill(engine)


def rejections(engine: Engine) -> int:
    stats = engine.request("GET", "/_nodes/stats/thread_pool")["nodes"]
    return sum(int(node["thread_pool"]["search"]["rejected"]) for node in stats.values())


def test_a_log_comes_through_a_small_queue_to_the_same_bytes(
    engine: Engine, tmp_path: Path
) -> None:
    log(engine, tmp_path / "one-by-one.parquet", in_flight=1)
    assert rejections(engine) == 0
    log(engine, tmp_path / "adaptive.parquet")
    assert digest(tmp_path / "adaptive.parquet") == digest(tmp_path / "one-by-one.parquet")
    assert rejections(engine) <= 40
