"""Three nodes of this session's own as one cluster, which only `make test-cluster` starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from owpc_ltr_node import settings
from owpc_ltr_node.process import get_json
from owpc_ltr_node.release import Release
from owpc_ltr_node.settings import LocalNode

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.session_node import SessionNode, free_port, running_node


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What takes several nodes runs when it is asked for."""
    if item.get_closest_marker("cluster") and not os.environ.get("OWPC_LTR_TEST_CLUSTER"):
        pytest.skip("of several nodes: make test-cluster runs it")


@contextmanager
def running_cluster(more: str = "") -> Iterator[list[SessionNode]]:
    """Three nodes that find each other, with `more` lines of settings in each."""
    ports = [free_port() for _ in range(3)]
    first = ports[0]
    of_one_node = settings.settings

    def of_cluster(node: LocalNode, folder: Path) -> str:
        lines = dict(line.split(": ", 1) for line in of_one_node(node, folder).splitlines())
        del lines["discovery.type"]
        lines["cluster.name"] = f"owpc-ltr-test-{first}"
        lines["discovery.seed_hosts"] = f'["127.0.0.1:{first}"]'
        if node.transport_port == first:
            lines["cluster.initial_cluster_manager_nodes"] = f'["{lines["node.name"]}"]'
        return "".join(f"{key}: {value}\n" for key, value in lines.items()) + more

    def health(port: int) -> str | None:
        answer = get_json(port, "/_cluster/health")
        return answer["status"] if answer else None

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(settings, "settings", of_cluster)
        patch.setattr("owpc_ltr_node.process.health", health)
        yield [
            stack.enter_context(running_node(Release(), heap="384m", transport_port=port))
            for port in ports
        ]


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[list[SessionNode]]:
    with running_cluster() as nodes:
        yield nodes


@pytest.fixture(scope="module")
def engine(three_nodes: list[SessionNode]) -> Iterator[Engine]:
    engine = Engine(ConnectionSettings(three_nodes[0].status.url))
    yield engine
    engine.close()
