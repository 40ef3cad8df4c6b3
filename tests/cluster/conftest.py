"""Three nodes of this session's own, which only `make test-cluster` starts."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from owpc_ltr_node.release import Release

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.session_node import SessionNode, running_node


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What takes several nodes runs when it is asked for."""
    if item.get_closest_marker("cluster") and not os.environ.get("OWPC_LTR_TEST_CLUSTER"):
        pytest.skip("of several nodes: make test-cluster runs it")


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[SessionNode]:
    with running_node(Release(), heap="384m", nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def engine(three_nodes: SessionNode) -> Iterator[Engine]:
    engine = Engine(ConnectionSettings(three_nodes.status.url))
    yield engine
    engine.close()
